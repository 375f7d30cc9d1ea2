// Automatic compaction, when it would free enough space.

internal import Synchronization

/// The conditions for automatic compaction. It happens in the background of a handle that commits and has been open
/// for 10 seconds.
///
/// If it fails, the file keeps growing. Then standard error gets a line with the reason and its cure, once for each
/// reason, and `StoreStatistics.compactionFailure` has it until a compaction succeeds. It is no failure if another
/// process compacts at the same time.
public struct AutomaticCompaction: Hashable, Sendable {
    /// The part of the file, about, that compaction must be able to free, from 0 to 1.
    public var garbage = 0.5
    /// Smaller files are not compacted automatically.
    public var minimumBytes: UInt64 = 16 << 20
    /// The least time for which the handle must have been open.
    package var openMicroseconds: UInt64 = 10_000_000
    /// The least pause after a failed compaction.
    package var pauseMicroseconds: UInt64 = 60_000_000

    /// The standard choice: compacts a file of at least 16 MiB when over half of it is garbage.
    public init() {}

    /// Whether compaction should free so many bytes of a file with this end.
    func isWorth(_ bytes: UInt64, of end: UInt64) -> Bool {
        bytes >= end / 1024 * UInt64(min(max(garbage.isNaN ? 1 : garbage, 0), 1) * 1024)
    }

    /// Errors of automatic compaction go to standard error, because no caller waits for it.
    static func log(_ failure: StoreError) { StandardError.log("Automatic compaction has failed. \(failure)") }
}

extension StoreHandle {
    // MARK: Automatic compaction

    /// After a commit: notes whether the file should be compacted. Cheap.
    @inline(__always)
    func noteCommit(_ engine: Engine) {
        guard engine.garbage.load(ordering: .relaxed) > 0, let trigger else { return }
        considerCompaction(engine, trigger)
    }

    @inline(never)
    private func considerCompaction(_ engine: Engine, _ trigger: AutomaticCompaction) {
        let garbage = UInt64(engine.garbage.exchange(0, ordering: .relaxed))
        let end = engine.log.current.end
        guard end >= trigger.minimumBytes else { return }
        if trigger.isWorth(garbage, of: end) {
            isCompactionDue.store(true, ordering: .relaxed)
        } else {
            // The estimate takes the mean size of all changes for that of the rows that exist. These may be smaller.
            let measured = measuredEnd.load(ordering: .relaxed)
            // Another handle has compacted the store.
            if end < measured { measuredEnd.store(end, ordering: .relaxed) }
            guard end / 2 >= measured else { return }
            isMeasuringDue.store(true, ordering: .relaxed)
        }
        let now = engine.log.environment.monotonicMicroseconds()
        let earliest = max(opened &+ trigger.openMicroseconds, notBefore.load(ordering: .relaxed))
        wakeMaintenance(at: max(now, earliest))
    }

    // MARK: The thread

    private func wakeMaintenance(at moment: UInt64) {
        let isEarliest = nextMaintenance.withLock { next in
            defer { next = min(next ?? moment, moment) }
            return next.map { moment < $0 } ?? true
        }
        // A thread cannot follow a simulated clock. Then the clock's owner calls `maintain`.
        guard current.options.log.synchronizesInBackground else { return }
        if maintenance.isStarted, !isEarliest { return }
        // Sound: `deinit` and `close` wait until the thread has ended.
        let unowned = Unmanaged.passUnretained(self)
        // Without a thread, the next call or closing compacts.
        try? maintenance.start(name: "annals-compact") {
            let handle = unowned.takeUnretainedValue()
            return withExtendedLifetime(handle) { handle.maintainStep() }
        }
        maintenance.wake()
    }

    /// Does due maintenance, for callers without a thread.
    package func maintain() { _ = maintainStep() }

    private func maintainStep() -> BackgroundWork.Next {
        let environment = current.log.environment
        guard let due = nextMaintenance.withLock({ $0 }) else { return .wait }
        if environment.monotonicMicroseconds() < due { return .again(at: due) }
        nextMaintenance.withLock { $0 = nil }
        compactIfDue(environment)
        return nextMaintenance.withLock { $0.map { .again(at: $0) } } ?? .wait
    }

    private func compactIfDue(_ environment: any Environment) {
        let isDue = isCompactionDue.load(ordering: .relaxed)
        guard let trigger, isDue || isMeasuringDue.load(ordering: .relaxed) else { return }
        let now = environment.monotonicMicroseconds()
        let earliest = max(opened &+ trigger.openMicroseconds, notBefore.load(ordering: .relaxed))
        guard now >= earliest else { return wakeMaintenance(at: earliest) }
        isCompactionDue.store(false, ordering: .relaxed)
        isMeasuringDue.store(false, ordering: .relaxed)
        var options = CompactionOptions()
        options.progress = { _ in self.goesOn }
        options.pace = { [pace = CompactionThrottle(environment)] in pace.pause() }
        // If another process compacts, or space is missing, the next check of retention triggers this again.
        var pause = trigger.openMicroseconds
        do throws(StoreError) {
            if !isDue, try !mayFreeEnough(trigger) { return }
            // A caller who comes later finds the lock taken, and waits.
            try automaticCompaction.withLock { () throws(StoreError) in
                if goesOn { prepareCompaction(self) { goesOn } }
                if !hasCompactingCaller { _ = try compactNow(options) }
            }
        } catch {
            pause = trigger.pauseMicroseconds
            note(error)
        }
        notBefore.store(environment.monotonicMicroseconds() &+ pause, ordering: .relaxed)
    }

    /// Measures the rows.
    private func mayFreeEnough(_ trigger: AutomaticCompaction) throws(StoreError) -> Bool {
        let (end, garbage) = try onNewest { (engine) throws(StoreError) in
            (engine.log.current.end, try engine.measuredGarbage { goesOn })
        }
        guard let garbage else { return false }
        measuredEnd.store(end, ordering: .relaxed)
        return trigger.isWorth(garbage, of: end)
    }

    private var goesOn: Bool { !isStopping.load(ordering: .relaxed) && !hasCompactingCaller }

    private var hasCompactingCaller: Bool { compactingCallers.load(ordering: .sequentiallyConsistent) > 0 }

    private func note(_ failure: StoreError) {
        switch failure.code {
        case .busy, .cancelled, .closed, .forked: return
        default: break
        }
        let isNew = compactionFailure.withLock { last in
            defer { last = failure }
            return last != failure
        }
        if isNew { reportFailure(failure) }
    }

    /// Leaves other writers as much time as the compaction takes.
    private final class CompactionThrottle: Sendable {
        private let environment: any Environment
        /// Only one thread uses it, but the sendable closure cannot express this.
        private let last: Atomic<UInt64>

        init(_ environment: any Environment) {
            self.environment = environment
            last = Atomic(environment.monotonicMicroseconds())
        }

        func pause() {
            let worked = environment.monotonicMicroseconds() &- last.load(ordering: .relaxed)
            environment.sleep(microseconds: min(worked, 100_000))
            last.store(environment.monotonicMicroseconds(), ordering: .relaxed)
        }
    }
}
