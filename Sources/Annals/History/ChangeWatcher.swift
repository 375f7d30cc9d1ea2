// Waiting for transactions on a thread, and the position that advances with each signal.

/// A position in history that advances with each signal: every transaction is reported exactly once, in order.
///
/// Create it with `Store.changeWatcher`. Any thread may call it; threads that call `next` at the same time share the
/// signals. It keeps its store open.
public final class ChangeWatcher: Sendable {
    /// The place where a watcher begins. It decides the reaction if history no longer reaches back to the position.
    enum Start: Sendable {
        /// The beginning of history, even if it moves: until the first signal, the watcher continues from there.
        case oldest
        /// A place: the watcher fails.
        case place
        /// After the newest transaction: one signal covers all cleaned transactions.
        case now

        init(_ place: HistoryRequest.Place) {
            switch place {
            case .oldest: self = .oldest
            case .now: self = .now
            case .number, .token, .date: self = .place
            }
        }
    }

    private struct Position {
        /// The last transaction that was reported or skipped.
        var number: UInt64
        var start: Start
        /// The end of that transaction, in the file with that salt; nil if it must be looked up.
        var place: (salt: UInt64, offset: UInt64)?
    }

    private let wait: ChangeWait
    private let excluded: Exclusion
    private let state: Guarded<Position>

    init(
        _ store: Store, after number: UInt64, start: Start, excluding: Exclusion, asynchronously: Bool
    ) throws(StoreError) {
        wait = try ChangeWait(store, asynchronously: asynchronously)
        excluded = excluding
        state = Guarded(Position(number: number, start: start))
    }

    /// The number of the last transaction that was reported, or skipped because of its author.
    public var position: UInt64 { state.withLock { $0.number } }

    /// Waits for transactions after the position, and moves the position to the last of them.
    ///
    /// The thread waits in the system, which costs nothing. If the system has no watch left (`fs.inotify`), the thread
    /// looks four times a second instead, and still misses nothing.
    ///
    /// A signal covers at most 65,536 transactions, and takes time for these and for their changes. The changes of a
    /// single larger transaction are not read.
    ///
    /// - Parameter timeout: The longest wait; nil for no limit.
    /// - Returns: The signal; nil if the time has passed or `stop` was called.
    ///
    /// Throws `StoreError`: `tokenExpired` if history no longer reaches back to the position and the watcher was made
    /// for a place, `closed`, `storeRemoved`,
    /// `storeReplaced`, `diverged`, `damaged`; `invalidArgument` in the body of a write; `forked` in a child process.
    public func next(timeout: Duration? = nil) throws -> ChangeSignal? {
        let engine = wait.store.engine
        try engine.requireNotWriting()
        let outcome = try wait.find(until: Duration.deadline(after: timeout)) { (engine) throws(StoreError) in
            try look(engine)
        }
        guard case .found(let signal) = outcome else { return nil }
        return signal
    }

    /// `next` for a task.
    func next(isolation: isolated (any Actor)?) async throws(StoreError) -> ChangeSignal? {
        let outcome = try await wait.find(until: nil, isolation: isolation) { (engine) throws(StoreError) in
            try look(engine)
        }
        guard case .found(let signal) = outcome else { return nil }
        return signal
    }

    /// Ends a waiting `next`, and all later calls: they return nil. Any thread may call it.
    public func stop() { wait.stop() }

    // MARK: Looking

    private func look(_ engine: Engine) throws(StoreError) -> ChangeSignal? {
        // Before the lock: in a child process, a thread of the parent may hold the lock forever.
        try engine.requireNotForked()
        return try state.withLock { (position) throws(StoreError) in
            var last = position.number
            var view = try { () throws(StoreError) in
                // Getting the engine has just read the file, but does not report a failure to read it.
                let known = try engine.knownView()
                return known.number > last ? known : try engine.viewOfThisFile()
            }()
            // Another thread has reported from a file that replaced this one. The next look reads that file.
            guard last <= view.number else { return nil }
            // Repeated in every look, because history may be cleaned during the wait.
            while true {
                if position.start == .oldest, engine.oldestNumber > last {
                    // All transactions that this state has cleaned are before the beginning of history.
                    last = min(engine.oldestNumber, view.number)
                    position = Position(number: last, start: .oldest)
                }
                do throws(StoreError) {
                    try wait.store.require(last, engine, view)
                    break
                } catch  where error.code == .tokenExpired && position.start != .place {
                    view = try engine.viewOfThisFile()
                    if position.start == .now { return pass(&position, view) }
                }
            }
            while position.number < view.number {
                if let signal = try advance(&position, view, engine) { return signal }
            }
            return nil
        }
    }

    /// Reports everything up to the newest state; history no longer has most of it.
    private func pass(_ position: inout Position, _ view: View) -> ChangeSignal {
        let numbers = position.number + 1...view.number
        position = Position(number: view.number, start: .now)
        let token = HistoryToken(storeIdentifier: wait.store.identifier, number: view.number, tag: view.tag)
        return ChangeSummary.signal(ofCleaned: numbers, token, view.catalog)
    }

    /// Advances by at most one signal; nil if every transaction was excluded.
    private func advance(
        _ position: inout Position, _ view: View, _ engine: Engine
    ) throws(StoreError) -> ChangeSignal? {
        let log = engine.log
        let salt = log.header.salt
        var summary = ChangeSummary(excluding: excluded, engine, view)
        let place = position.place.flatMap { $0.salt == salt ? $0.offset : nil }
        try engine.tracked(view).forEachTransaction(after: position.number, at: place) {
            (transaction) throws(StoreError) in try summary.add(transaction)
        }
        guard summary.last > position.number else {
            throw StoreError(
                .damaged,
                "Transaction \(position.number + 1) is missing from its place: restore the store from a backup.",
                path: log.path)
        }
        let start = position.start == .oldest ? .place : position.start
        position = Position(number: summary.last, start: start, place: (salt, summary.end))
        guard summary.told > 0 else { return nil }
        let token = HistoryToken(storeIdentifier: wait.store.identifier, number: summary.last, tag: summary.tag)
        return summary.signal(of: token, view.catalog)
    }
}
