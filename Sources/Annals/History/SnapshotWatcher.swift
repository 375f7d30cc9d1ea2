// Waiting for a newer state. Every part of the library that follows a store in a task waits here: contexts, lists of
// results, settings, and trackers. Mirrors wait in a thread.

/// Waits for states of a store, for code that reads only the present content and needs no history.
///
/// Create it with `Store.snapshotWatcher()`, and keep it from one wait to the next: making one costs system calls,
/// waiting does not. While it exists, each commit of another process costs that process some time in the kernel. It
/// keeps its store open.
public final class SnapshotWatcher: Sendable {
    private let wait: ChangeWait

    /// Throws `closed`, `forked`, and `invalidArgument` in the body of a write.
    init(_ store: Store) throws(StoreError) { wait = try ChangeWait(store, asynchronously: true) }

    var store: Store { wait.store }

    /// Returns the newest state as soon as it has a transaction after that of the token: at once, if such a transaction
    /// exists already. Occupies no thread while it waits.
    ///
    /// Several transactions may come as one state, and cleaned transactions do not matter.
    ///
    /// - Returns: The state; nil if the task is cancelled or `stop` was called.
    ///
    /// Throws `StoreError`: `tokenForeign`, `closed`, `storeRemoved`, `storeReplaced`, `diverged`, `damaged`, `forked`.
    public func next(
        after token: HistoryToken, isolation: isolated (any Actor)? = #isolation
    ) async throws -> Snapshot? {
        try store.requireOwner(token)
        let (last, identifier) = (token.number, store.identifier)
        let outcome = try await wait.find(until: nil, isolation: isolation) {
            (engine) throws(StoreError) -> Snapshot? in
            try engine.requireNotForked()
            let known = try engine.knownView()
            let view = known.number > last ? known : try engine.viewOfThisFile()
            return view.number > last ? Snapshot(view, engine, identifier) : nil
        }
        guard case .found(let newer) = outcome else { return nil }
        return newer
    }

    /// Ends a waiting `next`, and all later calls: they return nil. Any thread may call it.
    public func stop() { wait.stop() }
}

/// The same for a thread, with the least delay.
package final class StateWatcher: Sendable {
    private let wait: ChangeWait

    package init(_ store: Store) throws(StoreError) { wait = try ChangeWait(store, asynchronously: false) }

    /// Returns the place of the newest state as soon as it has a transaction after this number; nil if `stop` was
    /// called. Throws as `SnapshotWatcher.next`.
    package func next(after last: UInt64) throws(StoreError) -> HistoryToken? {
        let identifier = wait.store.identifier
        let outcome = try wait.find(until: nil) { (engine) throws(StoreError) -> HistoryToken? in
            try engine.requireNotForked()
            let view = try engine.viewOfThisFile()
            guard view.number > last else { return nil }
            return HistoryToken(storeIdentifier: identifier, number: view.number, tag: view.tag)
        }
        guard case .found(let token) = outcome else { return nil }
        return token
    }

    package func stop() { wait.stop() }
}

extension Store {
    /// A watcher for newer states, for tasks.
    ///
    /// Throws `StoreError`: `closed`, `forked`, and `invalidArgument` in the body of a write.
    public func snapshotWatcher() throws -> SnapshotWatcher {
        try SnapshotWatcher(self)
    }
}
