// Being told of changes, from any process.

extension Store {
    /// Signals of every transaction after now, from this store, others of this process, and other processes.
    ///
    /// Many transactions may come as one signal, none is missed and none comes twice. Commits of this process are told
    /// as well: leave their authors out where that is not wanted.
    ///
    /// - Parameter authors: Whose transactions are not told; the position moves on over them. Transactions without an
    ///   author are always told.
    ///
    /// Throws `StoreError`: `closed`, `damaged`, `diverged`.
    public func ownAndRemoteChanges(excluding authors: Set<String> = []) throws -> OwnAndRemoteChanges {
        OwnAndRemoteChanges(store: self, number: try newest().view.number, excluded: authors)
    }

    /// The same after a number: what is there already is told first. Throws `StoreError`: `tokenUnknown`,
    /// `tokenExpired` besides.
    public func ownAndRemoteChanges(
        after number: UInt64, excluding authors: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        try ownAndRemoteChanges(after: .number(number), excluding: authors)
    }

    /// The same after a token. Throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`
    /// besides.
    public func ownAndRemoteChanges(
        after token: HistoryToken, excluding authors: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        try ownAndRemoteChanges(after: .token(token), excluding: authors)
    }

    /// The same after a place in history. After `.oldest`, cleaning before the first signal does not matter. Throws
    /// `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged` besides.
    public func ownAndRemoteChanges(
        after place: HistoryRequest.Place, excluding authors: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        OwnAndRemoteChanges(
            store: self, number: try number(behind: place), isAtOldest: place == .oldest, excluded: authors)
    }

    /// The same signals for a thread that waits: the way with the least delay. See `ownAndRemoteChanges(excluding:)`.
    ///
    /// Throws `StoreError`.
    public func changeWatcher(excluding authors: Set<String> = []) throws -> ChangeWatcher {
        try ChangeWatcher(self, after: try newest().view.number, excluding: authors, asynchronously: false)
    }

    /// The same after a number. Throws `StoreError`: `tokenUnknown`, `tokenExpired` besides.
    public func changeWatcher(
        after number: UInt64, excluding authors: Set<String> = []
    ) throws -> ChangeWatcher {
        try changeWatcher(after: .number(number), excluding: authors)
    }

    /// The same after a token. Throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`
    /// besides.
    public func changeWatcher(
        after token: HistoryToken, excluding authors: Set<String> = []
    ) throws -> ChangeWatcher {
        try changeWatcher(after: .token(token), excluding: authors)
    }

    /// The same after a place in history. After `.oldest`, cleaning before the first signal does not matter. Throws
    /// `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged` besides.
    public func changeWatcher(
        after place: HistoryRequest.Place, excluding authors: Set<String> = []
    ) throws -> ChangeWatcher {
        try ChangeWatcher(
            self, after: try number(behind: place), isAtOldest: place == .oldest, excluding: authors,
            asynchronously: false)
    }

    private func number(behind place: HistoryRequest.Place) throws(StoreError) -> UInt64 {
        let (engine, view) = try newest()
        return try number(behind: place, engine, view)
    }
}
