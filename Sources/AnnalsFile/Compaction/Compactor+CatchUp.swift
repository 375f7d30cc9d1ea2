// Catching up with those who write while the store is compacted.
//
// Invariants:
// U1  Nobody waits for longer than `holdMicroseconds`, and at the end for the copying and synchronising of little, however much is left and however
//     fast others write.
// U2  It ends: where others write about as fast as this copies, they wait for most of the time until little is left.

extension Compactor {
    /// Copies what others add until little is left to be copied and to be synchronised while they wait.
    func catchUp() throws(FileError) {
        let brake = Brake(source.log, options)
        defer { brake.release() }
        try copyRest(brake)
        // Who goes over to the new file reads what stands behind its checkpoint: a commit waits for that.
        try target.writeCheckpoint()
        try copyRest(brake)
        for _ in 0..<4 {
            let start = target.log.current.end
            try target.log.synchronizeEverything()
            try copyRest(brake)
            if target.log.current.end - start <= options.finalBytes { return }
        }
    }

    /// Copies what others add until little is left.
    private func copyRest(_ brake: Brake) throws(FileError) {
        var last = UInt64.max
        while true {
            let end = try source.view().end
            let left = end - position
            if left <= options.finalBytes { return }
            if left > last / 2 { try brake.press() }
            try copy(to: end)
            last = left
        }
    }
}

/// Makes others wait, again and again and for most of the time, from a thread of its own: so that how long they wait does not depend on how long a
/// write of this one takes.
private final class Brake {
    private let log: Log
    private let options: CompactionOptions
    private let work = BackgroundWork()

    init(_ log: Log, _ options: CompactionOptions) { (self.log, self.options) = (log, options) }

    /// From now on, until it is released. Where a handle has no threads nothing happens.
    func press() throws(FileError) {
        guard log.options.synchronizesInBackground, !work.isStarted else { return }
        try work.start { [log, options] in
            // Where that is not possible those who write find out why themselves.
            try? log.keepWritersOut(microseconds: options.holdMicroseconds)
            return .again(at: log.environment.monotonicMicroseconds() &+ options.turnMicroseconds)
        }
    }

    func release() {
        work.stop()
        work.join()
    }
}
