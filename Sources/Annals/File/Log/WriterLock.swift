// The lock that a writer holds during a commit: a range of the store file that encodes its holder and the time of
// locking.

/// All holders' ranges overlap at `centre`; a range begins as far below it as the time in microseconds, and ends as far
/// above as the process ID, so that a waiting process reads both from the conflicting range.
package enum WriterLock {
    static let centre: UInt64 = UInt64(FormatLimits.maximumFileBytes) + UInt64(FormatLimits.maximumFileBytes) / 2

    /// The range that a compactor locks while it works, on a descriptor of its own: it begins here, and has one byte
    /// more than the process ID.
    package static func compaction(processID: UInt32) -> LockRange {
        let start = UInt64(FormatLimits.maximumFileBytes)
        assert(start + UInt64(processID) < centre - centre / 4, "A compactor's range reaches into that of writers.")
        return LockRange(start: start, end: start + UInt64(processID) + 1)
    }

    /// The process that holds a compaction range; nil for another range, which another program has locked.
    package static func compactor(of range: LockRange) -> UInt32? {
        let start = UInt64(FormatLimits.maximumFileBytes)
        guard range.start == start, range.end > start else { return nil }
        return UInt32(exactly: range.end - start - 1)
    }

    /// Takes the compaction lock. Throws `busy` if another process compacts the store.
    package static func acquireForCompaction(
        _ files: any FileSystem, _ environment: any Environment, _ file: Descriptor, processID: UInt32
    ) throws(StoreError) {
        var busy = foreign(nil)
        for _ in 0..<compactionAttempts {
            guard case .held(let found, let process) = try files.tryLock(file, compaction(processID: processID)) else {
                return
            }
            busy = foreign(process)
            if let other = compactor(of: found) {
                let compactor = other == processID ? "This process" : "Process \(other)"
                busy = busy.saying("\(compactor) is compacting the store: wait until it has ended.")
            }
            environment.sleep(microseconds: 1000)
        }
        throw busy
    }

    /// A writer looking for a compactor's leftover holds the lock while it looks.
    private static let compactionAttempts = 20

    /// The range that a process locks while it waits for a writer: a handle that keeps the lock between commits looks
    /// for it.
    package static let waiting = LockRange(start: centre + centre / 4, end: centre + centre / 4 + 1)

    /// Whether a process waits for the lock that this descriptor holds.
    static func isAwaited(_ files: any FileSystem, _ file: Descriptor) throws(StoreError) -> Bool {
        guard case .acquired = try files.tryLock(file, waiting) else { return true }
        try files.unlock(file, waiting)
        return false
    }

    /// The whole file. Unlocking always names it: a descriptor holds no other lock, and for a part of a file the system
    /// would prepare two more locks for the remainders on both sides (0.14 us of a commit).
    static let everything = LockRange(start: 0, end: UInt64(Int64.max))

    package static func range(processID: UInt32, timeMicroseconds: Int64) -> LockRange {
        let time = UInt64(clamping: timeMicroseconds)
        assert(centre + UInt64(processID) < waiting.start, "A writer's range reaches into that of waiting processes.")
        return LockRange(start: centre - min(time, centre / 4), end: centre + UInt64(processID) + 1)
    }

    /// In tenths; the holder's clock may be ahead of this one's.
    private static func seconds(_ microseconds: Int64) -> String {
        let tenths = max(microseconds, 0) / 100_000
        return "\(tenths / 10).\(tenths % 10) seconds"
    }

    /// The holder of a range, as its own process namespace counts; nil if it is no writer's range: another program has
    /// locked it.
    package static func holder(of range: LockRange) -> (processID: UInt32, sinceMicroseconds: Int64)? {
        guard (centre - centre / 4...centre).contains(range.start), range.end > centre,
            let processID = UInt32(exactly: range.end - centre - 1)
        else { return nil }
        return (processID, Int64(clamping: centre - range.start))
    }

    /// The error about a lock that is not a store's.
    package static func foreign(_ processID: UInt32?) -> StoreError {
        StoreError(
            .busy,
            "Another program\(processID.map { " (process \($0))" } ?? "") has locked the store's file: end it, or try "
                + "again when it has ended."
        )
    }

    /// The longest sleep in microseconds of a waiting process between two looks: among fast writers the lock is seldom
    /// free, and a process that must have it soon looks more often.
    static let politePause: UInt64 = 1000
    package static let eagerPause: UInt64 = 100

    /// The longest time for the other process to take the lock after this one gave way: it may have stopped.
    private static let longestDeference: UInt64 = 2000
    /// The shortest wait, if waiting is allowed at all: a little longer than a handle holds the lock without writing.
    private static let leastPatience: UInt64 = 3000

    /// Called without the lock: lets a waiting process have it.
    ///
    /// - Returns: whether it has taken the lock, or no longer waits.
    static func giveWay(
        _ files: any FileSystem, _ environment: any Environment, _ file: Descriptor
    ) throws(StoreError) -> Bool {
        let start = environment.monotonicMicroseconds()
        var pause: UInt64 = 20
        while environment.monotonicMicroseconds() &- start < longestDeference {
            environment.sleep(microseconds: pause)
            if try !isAwaited(files, file) { return true }
            pause = min(pause * 2, eagerPause)
        }
        return false
    }

    /// Takes the lock. Throws `busy` naming the holder after `timeoutMicroseconds`, but not before 3 milliseconds.
    ///
    /// - Returns: The wall clock's time at the last request.
    package static func acquire(
        _ files: any FileSystem, _ environment: any Environment, _ file: Descriptor, processID: UInt32,
        timeoutMicroseconds: UInt64, longestPause: UInt64
    ) throws(StoreError) -> Int64 {
        let asked = environment.wallClockMicroseconds()
        let mine = range(processID: processID, timeMicroseconds: asked)
        guard case .held(let first, let firstProcess) = try files.tryLock(file, mine) else { return asked }
        var (other, process) = (first, firstProcess)
        let end = environment.monotonicMicroseconds().addingReportingOverflow(max(timeoutMicroseconds, leastPatience))
        let deadline = end.overflow ? UInt64.max : end.partialValue
        var isAnnounced = false
        defer { if isAnnounced { try? files.unlock(file, waiting) } }
        var pause: UInt64 = 20
        while environment.monotonicMicroseconds() < deadline {
            if !isAnnounced, case .acquired = try files.tryLock(file, waiting) { isAnnounced = true }
            environment.sleep(microseconds: pause)
            // An announced process gets the lock soon.
            pause = min(pause * 2, isAnnounced ? min(eagerPause, longestPause) : longestPause)
            guard case .held(let now, let nowProcess) = try files.tryLock(file, mine) else {
                return environment.wallClockMicroseconds()
            }
            (other, process) = (now, nowProcess)
        }
        guard let (holderID, since) = holder(of: other) else { throw foreign(process) }
        let time = seconds(environment.wallClockMicroseconds() &- since)
        // In another container, a process may have the same number.
        let advice =
            holderID == processID
            ? " This process has the same number. If it has opened the store twice, a write through one handle must "
                + "not write through the other: they wait for each other. Open the store once."
            : ""
        var error = StoreError(
            .busy,
            "Process \(holderID) has held the writer lock for \(time) and did not finish in time: try again, or wait "
                + "longer.\(advice)")
        error.facts = LockFacts(processID: holderID, sinceMicroseconds: since)
        throw error
    }
}

/// The holder of the writer lock.
package struct LockFacts: ErrorFacts {
    package var processID: UInt32
    /// Since 1970, by the holder's clock.
    package var sinceMicroseconds: Int64
}
