// History: every transaction, in order, from any place that it still reaches back to.

extension Store {
    /// Gives `body` every transaction after a number, oldest first, up to those that the snapshot contains, until it
    /// returns false.
    ///
    /// Nothing is missed, nothing comes twice, and nothing is made into a value: a hundred million changes a second can
    /// be looked through this way. Changes of entities whose history is off are left out. Throws `StoreError`:
    /// `tokenUnknown`, `tokenExpired`, `historyGap` where the history of an entity begins later, `damaged`, `closed`,
    /// and what `body` throws.
    ///
    /// - Parameters:
    ///   - number: The last transaction that is known already; 0 for the beginning.
    ///   - snapshot: Where to stop; nil for the newest.
    ///   - body: Called with each transaction. False ends the reading.
    public func forEachTransaction(
        after number: UInt64, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws {
        let engine = try snapshot?.engine ?? newest().engine
        let (view, coverage) = try reading(snapshot, engine)
        try require(number, engine, view)
        try requireWhole(HistoryRange(after: number, before: .max), coverage, engine, view)
        let filter = ChangeFilter.showing(view, coverage.gaps)
        var lending = HistoryLending(self, view, filter)
        try engine.tracked(view).forEachTransaction(after: number) { (transaction) throws(StoreError) in
            try body(HistoryTransactionView(lending.show(transaction)))
        }
    }

    /// The same from a token. Throws `StoreError`: `tokenForeign` and `tokenDiverged` besides: never an empty answer
    /// instead.
    public func forEachTransaction(
        after token: HistoryToken, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws {
        try validate(token)
        try forEachTransaction(after: token.number, in: snapshot, body)
    }

    /// Transactions after a number as values, oldest first, at most so many.
    ///
    /// - Parameters:
    ///   - number: The last transaction that is known already; 0 for the beginning.
    ///   - limit: How many at most; nil for all. They are all in memory at once.
    ///   - includingValues: Whether changes have the object before and after.
    ///
    /// Throws as `forEachTransaction`.
    public func history(
        after number: UInt64, limit: Int? = nil, includingValues: Bool = false
    ) throws -> [HistoryTransaction] {
        var transactions: [HistoryTransaction] = []
        guard limit.map({ $0 > 0 }) ?? true else { return [] }
        try forEachTransaction(after: number) { (transaction) throws(StoreError) in
            transactions.append(try transaction.value(includingValues: includingValues))
            return limit.map { transactions.count < $0 } ?? true
        }
        return transactions
    }

    /// The same from a token. Throws `StoreError`: `tokenForeign` and `tokenDiverged` besides: never an empty answer
    /// instead.
    public func history(
        after token: HistoryToken, limit: Int? = nil, includingValues: Bool = false
    ) throws -> [HistoryTransaction] {
        try validate(token)
        return try history(after: token.number, limit: limit, includingValues: includingValues)
    }
}
