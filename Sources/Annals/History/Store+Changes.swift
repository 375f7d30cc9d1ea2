// Change signals, from any process.

extension Store {
    /// Signals of every transaction after a place in history, also of those that exist already: from this store, from
    /// other stores of this process, and from other processes.
    ///
    /// ```swift
    /// for try await signal in try store.changes(excluding: ["app"]) { print(signal.entities) }
    /// ```
    ///
    /// Many transactions may come as one signal. None is missed, and none comes twice. The signals include this
    /// process's own commits: exclude their authors or their contexts if you do not want them.
    ///
    /// After `.now`, the signals need no history. If it was cleaned before a signal was made, because the process was
    /// stopped for example, one signal covers all new transactions. It cannot describe them: see
    /// ``ChangeSignal/isExact``. After `.oldest`, cleaning before the first signal does not matter. Otherwise, a place
    /// that history no longer reaches back to is an error.
    ///
    /// - Parameters:
    ///   - place: The place where the signals begin.
    ///   - authors: Transactions by these authors are skipped. Transactions without an author always come.
    ///   - contextNames: Transactions with these context names are skipped. Those without one always come.
    ///
    /// Throws `StoreError`: `closed`, `damaged`, `diverged`; for a place also `tokenForeign`, `tokenUnknown`,
    /// `tokenExpired`, `tokenDiverged`.
    public func changes(
        after place: HistoryRequest.Place = .now, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> ChangeSignals {
        ChangeSignals(
            store: self, number: try number(directlyAfter: place), start: ChangeWatcher.Start(place),
            excluded: Exclusion(authors, contextNames))
    }

    /// The same signals for a thread that waits, with the least delay. Parameters and errors are those of
    /// `changes(after:excluding:excludingContextNames:)`.
    public func changeWatcher(
        after place: HistoryRequest.Place = .now, excluding authors: Set<String> = [],
        excludingContextNames contextNames: Set<String> = []
    ) throws -> ChangeWatcher {
        try ChangeWatcher(
            self, after: try number(directlyAfter: place), start: ChangeWatcher.Start(place),
            excluding: Exclusion(authors, contextNames), asynchronously: false)
    }

    private func number(directlyAfter place: HistoryRequest.Place) throws(StoreError) -> UInt64 {
        let (engine, view) = try newest()
        return try number(directlyAfter: place, engine, view)
    }
}
