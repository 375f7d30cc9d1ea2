// Waits until a store has something new: look, wait for a change, look again.
//
// Invariants:
// H1  Looking follows the start of the watch, and every wakeup. A signal is a hint: only the file decides.
// H2  A wait continues with the same file as its handle: after compaction, and after a restored backup that has
//     everything that the handle has seen.

internal import Synchronization

/// One listener of a store. The waiting code retains it, and it retains the store.
final class ChangeWait: Sendable {
    enum Outcome<Result: Sendable>: Sendable {
        case found(Result)
        case timePassed
        case stopped
    }

    /// Looks at the store; nil to continue waiting.
    typealias Look<Result> = (Engine) throws(StoreError) -> Result?

    let store: Store
    private let hub: ChangeHub
    private let listener: ChangeListener
    /// The hub ends waits; this also ends a call that would return without waiting.
    private let isStopped = Atomic(false)

    /// Throws `closed`, `forked`, and `invalidArgument` in the body of a write, which would wait for itself.
    init(_ store: Store, asynchronously: Bool) throws(StoreError) {
        self.store = store
        let engine = store.engine
        hub = engine.options.hub ?? .shared
        let hub = hub
        listener = try { () throws(StoreError) in
            try engine.requireNotWriting()
            return try hub.listen(
                directory: engine.log.directoryPath, name: engine.log.name, asynchronously: asynchronously)
        }()
    }

    deinit { hub.remove(listener) }

    /// Ends the wait, and all later ones. Any thread may call it.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        hub.stop(listener)
    }

    /// Waits on the calling thread, until `deadline` of the monotonic clock at the latest.
    func find<Result: Sendable>(
        until deadline: UInt64?, _ look: Look<Result>
    ) throws(StoreError) -> Outcome<Result> {
        var doubt = Doubt()
        while true {
            if isStopped.load(ordering: .acquiring) { return .stopped }
            let engine = store.engine
            if let result = try looking(engine, &doubt, look) { return .found(result) }
            switch hub.wait(for: listener, untilMonotonicMicroseconds: deadline) {
            case .news(let isInDoubt): doubt.isInDoubt = isInDoubt
            case .timePassed: return .timePassed
            case .stopped: return .stopped
            }
        }
    }

    /// The same without occupying a thread. If the task is cancelled, it ends as `stopped`. Before each result, the
    /// caller's actor does its other work: results without a pause would keep it from that.
    func find<Result: Sendable>(
        until deadline: UInt64?, isolation: isolated (any Actor)? = #isolation, _ look: Look<Result>
    ) async throws(StoreError) -> Outcome<Result> {
        var doubt = Doubt()
        while true {
            if Task.isCancelled || isStopped.load(ordering: .acquiring) { return .stopped }
            let engine = store.engine
            if let result = try looking(engine, &doubt, look) {
                await Task.yield()
                return .found(result)
            }
            switch await hub.wait(for: listener, untilMonotonicMicroseconds: deadline, isolation: isolation) {
            case .news(let isInDoubt): doubt.isInDoubt = isInDoubt
            case .timePassed: return .timePassed
            case .stopped: return .stopped
            }
        }
    }

    /// The knowledge of one wait about the store's place.
    private struct Doubt {
        /// Whether the file's name has changed.
        var isInDoubt = false
        /// The time since which no file has that name; nil if one has.
        var absentSince: UInt64?

        /// The time for which the name may be free while another file is put there, in microseconds.
        static let absence: UInt64 = 1_000_000
    }

    /// The file decides (H1), regardless of the reason for looking.
    private func looking<Result>(
        _ engine: Engine, _ doubt: inout Doubt, _ look: Look<Result>
    ) throws(StoreError) -> Result? {
        if let result = try look(engine) {
            if doubt.isInDoubt { hub.keepDoubt(listener) }
            return result
        }
        guard doubt.isInDoubt else { return nil }
        do throws(StoreError) {
            try engine.log.requirePlace()
            doubt.absentSince = nil
        } catch {
            if error.code == .storeReplaced {
                try engine.log.awaitAppend()
                // Look at the new file, if it continues the old one (H2).
                let newer = try? store.engineInPlace()
                if let newer, newer !== engine { return try look(newer) }
            }
            if error.code == .storeRemoved {
                let now = RealEnvironment().monotonicMicroseconds()
                let since = doubt.absentSince ?? now
                doubt.absentSince = since
                if now - since < Doubt.absence {
                    hub.lookInIntervals(listener)
                    return nil
                }
            }
            // Still report transactions made between the look and the removal.
            guard let result = try look(engine) else { throw error }
            hub.keepDoubt(listener)
            return result
        }
        if hub.isWatched(listener), !engine.log.isReachedByPath() { hub.lookInIntervals(listener) }
        return nil
    }
}

extension Duration {
    /// The end of a timeout on the monotonic clock; nil for never.
    static func deadline(after timeout: Duration?) -> UInt64? {
        guard let timeout else { return nil }
        let (moment, overflow) = RealEnvironment().monotonicMicroseconds().addingReportingOverflow(
            timeout.wholeMicroseconds)
        return overflow ? nil : moment
    }
}
