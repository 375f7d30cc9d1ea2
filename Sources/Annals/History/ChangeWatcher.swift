// Waiting for transactions on a thread, and the position that signals move along.

/// A place in history that moves on with every signal it gives: each transaction is told exactly once, in order.
///
/// Made by `Store.changeWatcher`. Any thread may call it; threads that call `next` at the same time share the signals.
/// It keeps its store open.
public final class ChangeWatcher: Sendable {
    private struct Position {
        /// The last transaction that was told or passed over.
        var number: UInt64
        /// Whether it stands where history begins, wherever that is by now.
        var isAtOldest = false
        /// Where it ends, in the file with that salt; nil if it has to be found.
        var place: (salt: UInt64, offset: UInt64)?
    }

    private let wait: ChangeWait
    private let excluded: Set<String>
    private let state: Guarded<Position>

    init(
        _ store: Store, after number: UInt64, isAtOldest: Bool = false, excluding: Set<String>, asynchronously: Bool
    ) throws(StoreError) {
        wait = try ChangeWait(store, asynchronously: asynchronously)
        excluded = excluding
        state = Guarded(Position(number: number, isAtOldest: isAtOldest))
    }

    /// The last transaction that was told, or passed over because of its author.
    public var position: UInt64 { state.withLock { $0.number } }

    /// Waits until there are transactions after the position, and moves the position after them.
    ///
    /// The thread waits in the system and costs nothing meanwhile. If the system has no watch left (`fs.inotify`),
    /// it looks four times a second; nothing is missed then either.
    ///
    /// - Parameter timeout: How long to wait at most; nil for as long as it takes.
    /// - Returns: nil when the time has passed or `stop` was called.
    ///
    /// Throws `StoreError`: `tokenExpired` if history does not reach back to the position any more, `closed`,
    /// `storeRemoved`, `storeReplaced`, `diverged`,
    /// `damaged`; `invalidArgument` in the body of a write; `forked` in a child process. Linear in the transactions and
    /// changes that it tells, at most 65,536 of either but for one longer transaction, whose changes it does not look
    /// at.
    public func next(timeout: Duration? = nil) throws -> ChangeSignal? {
        let engine = wait.store.engine
        try engine.requireNotWriting()
        let outcome = try wait.find(until: Duration.deadline(after: timeout)) { (engine) throws(StoreError) in
            try look(engine)
        }
        guard case .found(let signal) = outcome else { return nil }
        return signal
    }

    /// The same for a task.
    func next(isolation: isolated (any Actor)?) async throws(StoreError) -> ChangeSignal? {
        let outcome = try await wait.find(until: nil, isolation: isolation) { (engine) throws(StoreError) in
            try look(engine)
        }
        guard case .found(let signal) = outcome else { return nil }
        return signal
    }

    /// Ends the `next` that waits, and all later ones, with nil. Any thread.
    public func stop() { wait.stop() }

    // MARK: Looking

    private func look(_ engine: Engine) throws(StoreError) -> ChangeSignal? {
        // Before the lock: in a child a thread of the parent's may hold it for ever.
        try engine.requireNotForked()
        return try state.withLock { (position) throws(StoreError) in
            var last = position.number
            var view = try { () throws(StoreError) in
                // Getting the engine has looked at the file just now, but did not say why it could not.
                let known = try engine.knownView()
                return known.number > last ? known : try engine.viewOfThisFile()
            }()
            // Another thread has told what the file that took this one's place has: that is looked at next.
            guard last <= view.number else { return nil }
            // In every look, because history may be cleaned during the wait.
            while true {
                if position.isAtOldest, engine.oldestNumber > last {
                    // Everything that was cleaned in this state is before the beginning of history.
                    last = min(engine.oldestNumber, view.number)
                    position = Position(number: last, isAtOldest: true)
                }
                do throws(StoreError) {
                    try wait.store.require(last, engine, view)
                    break
                } catch  where position.isAtOldest && error.code == .tokenExpired {
                    view = try engine.viewOfThisFile()
                }
            }
            while position.number < view.number {
                if let signal = try advance(&position, view, engine) { return signal }
            }
            return nil
        }
    }

    /// Moves on by at most one signal; nil if all that was passed over is left out.
    private func advance(
        _ position: inout Position, _ view: View, _ engine: Engine
    ) throws(StoreError) -> ChangeSignal? {
        let log = engine.log
        let salt = log.header.salt
        var summary = ChangeSummary(excluding: excluded, processID: log.processID, processName: log.processName)
        let place = position.place.flatMap { $0.salt == salt ? $0.offset : nil }
        try engine.tracked(view).forEachTransaction(after: position.number, at: place) {
            (transaction) throws(StoreError) in try summary.add(transaction)
        }
        guard summary.last > position.number else {
            throw StoreError(
                .damaged,
                "Transaction \(position.number + 1) is not where it should be: restore the store from a backup.",
                path: log.path)
        }
        position = Position(number: summary.last, place: (salt, summary.end))
        guard summary.told > 0 else { return nil }
        let token = HistoryToken(storeIdentifier: wait.store.identifier, number: summary.last, tag: summary.tag)
        return summary.signal(of: token, view.catalog)
    }
}
