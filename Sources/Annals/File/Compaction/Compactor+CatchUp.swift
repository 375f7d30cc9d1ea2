// Catching up with those who write while the store is compacted.
//
// Invariants:
// CU1  Nobody waits for longer than `holdMicroseconds`, and at the end for the copying and synchronising of little,
//     however much is left and however fast others write: but where they write transactions that are as large as what
//     is copied meanwhile.
// CU2  It ends: where others write about as fast as this copies, they wait for most of the time until little is left.

internal import Synchronization

extension Compactor {
    /// Copies what others add until little is left to be copied and to be synchronised while they wait.
    func catchUp() throws(StoreError) {
        let brake = WriterThrottle(source.log, options)
        defer { brake.release() }
        try copyRest(brake)
        // Who goes over to the new file reads what stands behind its checkpoint: a commit waits for that.
        try writeCheckpoint()
        try copyRest(brake)
        for _ in 0..<4 {
            let start = target.log.current.end
            try target.log.synchronizeEverything()
            try copyRest(brake)
            if target.log.current.end - start <= options.finalBytes { return }
        }
    }

    /// Copies what others add until little is left, or what others add in a turn, which is not much more.
    private func copyRest(_ brake: WriterThrottle) throws(StoreError) {
        var last = UInt64.max
        while true {
            let end = try source.view().end
            let left = end - position
            if left <= options.finalBytes || left >= last && left <= options.finalBytes * 2 { return }
            if left > last / 2 { try brake.press(harder: left >= last) }
            try copy(to: end)
            last = left
        }
    }
}

/// Makes others wait, again and again and for most of the time, from a thread of its own: so that how long they wait
/// does not depend on how long a write of this one takes.
private final class WriterThrottle: Sendable {
    private let log: Log
    private let options: CompactionOptions
    private let work = BackgroundWork()
    private let holdMicroseconds: Atomic<UInt64>
    private static let longestHold: UInt64 = 1_000_000

    init(_ log: Log, _ options: CompactionOptions) {
        (self.log, self.options) = (log, options)
        holdMicroseconds = Atomic(options.holdMicroseconds)
    }

    /// From now on, until it is released; `harder` where that did not make what is left less: others wait for longer
    /// then, because a transaction of theirs may be as large as what is copied meanwhile. Where a handle has no threads
    /// nothing happens.
    func press(harder: Bool) throws(StoreError) {
        guard log.options.synchronizesInBackground else { return }
        if harder, work.isStarted {
            let longer = min(holdMicroseconds.load(ordering: .relaxed) * 2, Self.longestHold)
            holdMicroseconds.store(longer, ordering: .relaxed)
        }
        if work.isStarted { return }
        try work.start(name: "annals-brake") { [self] in
            // Where that is not possible those who write find out why themselves.
            try? log.keepWritersOut(microseconds: holdMicroseconds.load(ordering: .relaxed))
            return .again(at: log.environment.monotonicMicroseconds() &+ options.turnMicroseconds)
        }
    }

    func release() {
        work.stop()
        work.join()
    }
}
