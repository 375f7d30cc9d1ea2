// Catching up with other writers while the store is compacted.
//
// Invariants:
// CU1  No writer waits longer than `holdMicroseconds`, except in the end for copying and syncing a little, for any size
//     of the rest and any speed of the writers. The exception: writers whose transactions are as large as the piece
//     copied during them.
// CU2  It ends. If other writers write about as fast as this copies, they wait most of the time until little is left.

internal import Synchronization

extension Compactor {
    /// Copies new transactions of other writers, until little is left to copy and to sync while they wait.
    func catchUp() throws(StoreError) {
        let brake = WriterThrottle(source.log, options)
        defer { brake.release() }
        try copyRest(brake)
        // Opening the new file reads the frames after its checkpoint, and a commit waits for that.
        try writeCheckpoint()
        try copyRest(brake)
        for _ in 0..<4 {
            let start = target.log.current.end
            try target.log.synchronizeEverything()
            try copyRest(brake)
            if target.log.current.end - start <= options.finalBytes { return }
        }
    }

    /// Copies new transactions, until little is left, or hardly more than writers add in a turn.
    private func copyRest(_ brake: WriterThrottle) throws(StoreError) {
        var last = UInt64.max
        while true {
            let end = try source.view().end
            let left = end - position
            if left <= options.finalBytes || left >= last && left <= options.finalBytes * 2 { return }
            // CU2.
            if left > last / 2 { try brake.press(harder: left >= last) }
            try copy(to: end)
            last = left
        }
    }
}

/// Makes writers wait, repeatedly and for most of the time. It has its own thread, so that their waiting does not
/// depend on the duration of the compaction's writes.
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

    /// Brakes until it is released, for short times (CU1). `harder` if the rest did not shrink: then writers wait
    /// longer, because one of their transactions may be as large as the piece copied during it. Does nothing if the
    /// handle has no threads.
    func press(harder: Bool) throws(StoreError) {
        guard log.options.synchronizesInBackground else { return }
        if harder, work.isStarted {
            let longer = min(holdMicroseconds.load(ordering: .relaxed) * 2, Self.longestHold)
            holdMicroseconds.store(longer, ordering: .relaxed)
        }
        if work.isStarted { return }
        try work.start(name: "annals-brake") { [self] in
            // If this fails, writers get the error themselves.
            try? log.keepWritersOut(microseconds: holdMicroseconds.load(ordering: .relaxed))
            return .again(at: log.environment.monotonicMicroseconds() &+ options.turnMicroseconds)
        }
    }

    func release() {
        work.stop()
        work.join()
    }
}
