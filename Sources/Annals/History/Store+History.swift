// Reading history: every transaction, in order, from any place that history reaches back to.

extension Store {
    /// Calls `body` with every transaction after a number, oldest first, up to the newest one in the snapshot, until
    /// `body` returns false.
    ///
    /// Nothing is missed, nothing comes twice, and no values are built: this reads a hundred million changes a second.
    /// Changes of entities whose history is off are left out.
    ///
    /// Throws `StoreError`: `tokenUnknown`, `tokenExpired`, `historyGap` if the history of an entity begins later,
    /// `damaged`, `closed`, and errors of `body`.
    ///
    /// - Parameters:
    ///   - number: The last transaction that you know already; 0 for the beginning.
    ///   - snapshot: The state to stop at; nil for the newest.
    ///   - body: Called with each transaction. Return false to stop.
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
        try engine.tracked(view).lendTransactions(after: number) { (transaction) throws(StoreError) in
            try body(HistoryTransactionView(lending.show(transaction)))
        }
    }

    /// Reads history after a token. Also throws `StoreError`: `tokenForeign` and `tokenDiverged`. It never returns an
    /// empty answer instead.
    public func forEachTransaction(
        after token: HistoryToken, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws {
        try validate(token)
        try forEachTransaction(after: token.number, in: snapshot, body)
    }

    /// Transactions after a number as values, oldest first.
    ///
    /// - Parameters:
    ///   - number: The last transaction that you know already; 0 for the beginning.
    ///   - limit: The most transactions to return; nil for all. They are all in memory at once.
    ///   - includingValues: Whether changes contain the object before and after.
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

    /// Transactions after a token as values. Also throws `StoreError`: `tokenForeign` and `tokenDiverged`. It never
    /// returns an empty answer instead.
    public func history(
        after token: HistoryToken, limit: Int? = nil, includingValues: Bool = false
    ) throws -> [HistoryTransaction] {
        try validate(token)
        return try history(after: token.number, limit: limit, includingValues: includingValues)
    }
}
