// Change signals, from any process.

extension Store {
    /// Signals of every transaction after now, from this store, from others of this process, and from other processes.
    ///
    /// Many transactions may come as one signal. None is missed, and none comes twice. The signals include this
    /// process's own commits: exclude their authors or their contexts if you do not want them.
    ///
    /// These signals need no history. If it was cleaned before a signal was made, because the process was stopped for
    /// example, one signal stands for all that came. It cannot say what they did: see ``ChangeSignal/isExact``.
    ///
    /// - Parameters:
    ///   - authors: Transactions by these authors are skipped. Transactions without an author always come.
    ///   - contextNames: Transactions with these context names are skipped. Those without one always come.
    ///
    /// Throws `StoreError`: `closed`, `damaged`, `diverged`.
    public func ownAndRemoteChanges(
        excluding authors: Set<String> = [], excludingContextNames contextNames: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        OwnAndRemoteChanges(
            store: self, number: try newest().view.number, start: .now, excluded: Exclusion(authors, contextNames))
    }

    /// Signals of every transaction after that number, including those that exist already. Also throws `StoreError`:
    /// `tokenUnknown`, `tokenExpired`.
    public func ownAndRemoteChanges(
        after number: UInt64, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        try ownAndRemoteChanges(after: .number(number), excluding: authors, excludingContextNames: contextNames)
    }

    /// Signals of every transaction after a token. Also throws `StoreError`: `tokenForeign`, `tokenUnknown`,
    /// `tokenExpired`, `tokenDiverged`.
    public func ownAndRemoteChanges(
        after token: HistoryToken, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        try ownAndRemoteChanges(after: .token(token), excluding: authors, excludingContextNames: contextNames)
    }

    /// Signals of every transaction after a place in history. With `.oldest`, cleaning before the first signal does not
    /// matter. Also throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`.
    public func ownAndRemoteChanges(
        after place: HistoryRequest.Place, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> OwnAndRemoteChanges {
        OwnAndRemoteChanges(
            store: self, number: try number(directlyAfter: place), start: place == .oldest ? .oldest : .place,
            excluded: Exclusion(authors, contextNames))
    }

    /// The same signals for a thread that waits, with the least delay. See
    /// `ownAndRemoteChanges(excluding:excludingContextNames:)`.
    ///
    /// Throws `StoreError`.
    public func changeWatcher(
        excluding authors: Set<String> = [], excludingContextNames contextNames: Set<String> = []
    ) throws -> ChangeWatcher {
        try ChangeWatcher(
            self, after: try newest().view.number, start: .now, excluding: Exclusion(authors, contextNames),
            asynchronously: false)
    }

    /// A watcher for transactions after that number. Also throws `StoreError`: `tokenUnknown`, `tokenExpired`.
    public func changeWatcher(
        after number: UInt64, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> ChangeWatcher {
        try changeWatcher(after: .number(number), excluding: authors, excludingContextNames: contextNames)
    }

    /// A watcher for transactions after a token. Also throws `StoreError`: `tokenForeign`, `tokenUnknown`,
    /// `tokenExpired`, `tokenDiverged`.
    public func changeWatcher(
        after token: HistoryToken, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> ChangeWatcher {
        try changeWatcher(after: .token(token), excluding: authors, excludingContextNames: contextNames)
    }

    /// A watcher for transactions after a place in history. With `.oldest`, cleaning before the first signal does not
    /// matter. Also throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenExpired`, `tokenDiverged`.
    public func changeWatcher(
        after place: HistoryRequest.Place, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> ChangeWatcher {
        try ChangeWatcher(
            self, after: try number(directlyAfter: place), start: place == .oldest ? .oldest : .place,
            excluding: Exclusion(authors, contextNames), asynchronously: false)
    }

    private func number(directlyAfter place: HistoryRequest.Place) throws(StoreError) -> UInt64 {
        let (engine, view) = try newest()
        return try number(directlyAfter: place, engine, view)
    }
}
