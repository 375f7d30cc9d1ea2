// Records which bytes are proved durable, and shares one sync among all threads of a handle.
//
// Invariants:
// D1  Everything below `proven` survives a power failure.
// D2  Bytes from `proven` up to `inheritedEnd` are older than this handle's descriptor: its own sync proves nothing
//     about them until it has written them again.
// D3  One sync at a time. The bytes that it covers are decided before it begins.
// D4  After a failed sync or an input/output error in a write, no byte is ever claimed durable again.

internal import Synchronization

/// Sound although it is shared: variables are touched only with `monitor` locked. The three atomics repeat, for every
/// commit, the values at its last unlocking. Under the lock accesses cannot overlap, so overlap is not checked.
package final class DurabilityLedger: @unchecked Sendable {
    private let monitor = Monitor()
    private let knownMark: Atomic<UInt64>
    private let isPoisoned = Atomic<Bool>(false)
    private let mayNeedAttention = Atomic<Bool>(false)
    private let syncLagBytes: UInt64
    private let files: any FileSystem
    private let environment: any Environment
    private let file: Descriptor
    private let directory: Descriptor
    @exclusivity(unchecked) private var written: UInt64
    @exclusivity(unchecked) private var proven: UInt64
    @exclusivity(unchecked) private var inheritedEnd: UInt64?
    @exclusivity(unchecked) private var isSynchronizing = false
    private var directoryIsDurable = false
    private var poison: StoreError?
    /// The time of writing of the oldest unproven byte, on the monotonic clock.
    @exclusivity(unchecked) private var laggingSince: UInt64?
    @exclusivity(unchecked) private var isLaggingKnown = false
    /// Threads in `makeDurable`, and their number at the end of the last sync: as many return soon if they commit
    /// repeatedly.
    @exclusivity(unchecked) private var callers = 0
    @exclusivity(unchecked) private var lastCallers = 0

    init(
        _ files: any FileSystem, _ environment: any Environment, file: Descriptor, directory: Descriptor, end: UInt64,
        durableMark: UInt64, syncLagBytes: UInt64
    ) {
        (self.files, self.environment, self.file, self.directory) = (files, environment, file, directory)
        written = end
        proven = min(durableMark, end)
        knownMark = Atomic(min(durableMark, end))
        self.syncLagBytes = syncLagBytes
        assert(proven <= written, "D1: bytes that were not written are claimed durable.")
        inheritedEnd = durableMark < end ? end : nil
    }

    /// The durable mark to write into a frame.
    var mark: UInt64 { knownMark.load(ordering: .acquiring) }

    /// The part that is older than this handle and not proved durable.
    var inherited: Range<UInt64>? {
        monitor.withLock { inheritedEnd.map { min(proven, $0)..<$0 } }
    }

    /// Throws the error that poisoned this handle, if any.
    func requireUsable() throws(StoreError) {
        guard isPoisoned.load(ordering: .acquiring) else { return }
        if let poison = monitor.withLock({ poison }) { throw poison }
    }

    /// Frames up to `end` are in the file; the newest declares everything below `mark` durable.
    func advance(to end: UInt64, mark: UInt64) {
        monitor.withLock {
            written = max(written, end)
            prove(mark)
            if let inheritedEnd, inheritedEnd <= proven { self.inheritedEnd = nil }
            if proven < written, laggingSince == nil { laggingSince = environment.monotonicMicroseconds() }
            mayNeedAttention.store(isAttentionDue, ordering: .releasing)
        }
    }

    /// With `monitor` locked.
    private func prove(_ mark: UInt64) {
        guard mark > proven else { return }
        assert(mark <= written, "D1: bytes that were not written were marked durable.")
        proven = mark
        knownMark.store(mark, ordering: .releasing)
    }

    /// With `monitor` locked.
    private func setPoison(_ error: StoreError) {
        if poison == nil { poison = error }
        isPoisoned.store(true, ordering: .releasing)
    }

    /// The inherited part has been written again, by this handle's descriptor.
    func inheritedPartWasRewritten() { monitor.withLock { inheritedEnd = nil } }

    func poison(_ error: StoreError) {
        monitor.withLock {
            setPoison(error)
            monitor.signalAll()
        }
    }

    /// Whether a background sync is due.
    func isSyncDue(now: UInt64, limits: LogLimits) -> Bool {
        monitor.withLock {
            guard poison == nil, proven < written else { return false }
            if written - proven >= limits.syncLagBytes { return true }
            return laggingSince.map { now >= $0 &+ limits.syncLagMicroseconds } ?? false
        }
    }

    /// Whether a sync would prove anything.
    var hasUnproven: Bool { monitor.withLock { poison == nil && proven < written } }

    /// The time at which a background sync will be due without further writes; nil for never.
    func syncDueTime(limits: LogLimits) -> UInt64? {
        monitor.withLock {
            // Bytes older than this handle are proved when the handle first promises durability, not before.
            guard poison == nil, proven < written, let laggingSince else {
                isLaggingKnown = false
                return nil
            }
            return laggingSince &+ limits.syncLagMicroseconds
        }
    }

    /// Whether the background thread should look: the first time after everything was durable, and when much is not.
    /// Called after `advance`.
    func needsAttention() -> Bool {
        guard mayNeedAttention.load(ordering: .acquiring) else { return false }
        return monitor.withLock {
            defer { isLaggingKnown = true }
            return isAttentionDue
        }
    }

    /// With `monitor` locked.
    private var isAttentionDue: Bool {
        (!isLaggingKnown || (!isSynchronizing && written - proven >= syncLagBytes))
            && !isPoisoned.load(ordering: .relaxed)
    }

    /// Returns when everything below `target` is durable. Threads that wait share syncs.
    ///
    /// Throws `durabilityUnknown` if the sync fails: then the bytes may be in the file or not.
    func makeDurable(through target: UInt64) throws(StoreError) {
        var hasNews = false
        monitor.lock()
        assert(callers >= 0, "A thread has left that did not come.")
        callers += 1
        defer {
            callers -= 1
            monitor.unlock()
            // Not before: a woken thread then continues at once, instead of waiting for the lock.
            if hasNews { monitor.signalAll() }
        }
        while true {
            if proven >= target { return }
            if let poison { throw poison }
            if isSynchronizing {
                monitor.wait()
                continue
            }
            if inheritedEnd != nil {
                throw StoreError(
                    .durabilityUnknown,
                    "The file has bytes of an earlier process that may not be durable, and a sync by this handle would "
                        + "not prove that they are."
                )
            }
            isSynchronizing = true
            waitForOthers()
            let covered = written
            let began = environment.monotonicMicroseconds()
            let needsDirectory = !directoryIsDurable
            monitor.unlock()
            let failure = synchronize(withDirectory: needsDirectory)
            monitor.lock()
            assert(isSynchronizing, "D3: another sync has ended this one.")
            isSynchronizing = false
            lastCallers = callers
            finishSync(failure, covered: covered, began: began)
            hasNews = true
        }
    }

    /// Lets the committers of the last sync commit again, so that one sync covers them all. Otherwise each sync would
    /// cover half of them. A single committer does not wait, and the wait for slow ones is limited. With `monitor`
    /// locked.
    private func waitForOthers() {
        guard callers < lastCallers else { return }
        let deadline = environment.monotonicMicroseconds() &+ Self.longestGathering
        var looks = 0
        while callers < lastCallers, looks < Self.mostLooks, environment.monotonicMicroseconds() < deadline {
            monitor.unlock()
            SystemCalls.yield()
            monitor.lock()
            looks += 1
        }
    }

    /// On an idle machine these looks take less than a short sync; on a busy one, each look may take long.
    private static let mostLooks = 64
    /// In microseconds.
    private static let longestGathering: UInt64 = 200

    /// Returns when earlier writes of this handle cannot be lost before later ones. Claims nothing durable, because
    /// another handle may have written before. Throws `durabilityUnknown` if the sync fails.
    func keepOrder() throws(StoreError) {
        monitor.lock()
        while isSynchronizing { monitor.wait() }
        if let poison {
            monitor.unlock()
            throw poison
        }
        isSynchronizing = true
        let covered = proven
        let began = environment.monotonicMicroseconds()
        monitor.unlock()
        let failure = synchronize(withDirectory: false)
        monitor.lock()
        assert(isSynchronizing, "D3: another sync has ended this one.")
        isSynchronizing = false
        if failure != nil { finishSync(failure, covered: covered, began: began) }
        let found = poison
        monitor.signalAll()
        monitor.unlock()
        if let found { throw found }
    }

    private func synchronize(withDirectory: Bool) -> StoreError? {
        do throws(StoreError) {
            if withDirectory { try files.synchronizeDirectory(directory) }
            try files.synchronize(file)
            return nil
        } catch {
            return error
        }
    }

    private func finishSync(_ failure: StoreError?, covered: UInt64, began: UInt64) {
        if let failure {
            setPoison(
                StoreError(
                    .durabilityUnknown,
                    "A sync failed (\(failure.message)): transactions committed since the last sync may be lost if the "
                        + "power fails. Open the store again to see its content.",
                    call: failure.call, systemError: failure.systemError))
            return
        }
        directoryIsDurable = true
        assert(inheritedEnd == nil, "D2: a sync is counted for the bytes of another descriptor.")
        assert(covered <= written, "D1: a sync covers bytes that were not written.")
        // After a failure nothing more is proved: D4.
        if poison == nil { prove(covered) }
        if proven >= written {
            laggingSince = nil
            isLaggingKnown = false
        } else {
            // The bytes that it did not cover were written after this sync began.
            laggingSince = began
        }
    }
}
