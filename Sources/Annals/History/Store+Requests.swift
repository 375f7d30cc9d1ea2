// Answers requests of history: as transactions, as changes, as objects, or as a count.

/// Lends views of transactions, one after the other, all at the same place in memory. They cannot be kept.
struct HistoryLending: ~Copyable {
    private let context: UnsafeMutablePointer<HistoryContext>
    private let view: View
    private let store: Store
    private let filter: ChangeFilter?
    private var isInitialized = false

    /// `filter` selects the changes that are shown; nil for all.
    init(_ store: Store, _ view: View, _ filter: ChangeFilter?) {
        (self.store, self.view, self.filter) = (store, view, filter)
        context = .allocate(capacity: 1)
    }

    deinit {
        if isInitialized { context.deinitialize(count: 1) }
        context.deallocate()
    }

    /// The place in memory, with the transaction in it.
    @inline(__always)
    mutating func show(_ transaction: UnsafePointer<TransactionView>) -> UnsafeMutablePointer<HistoryContext> {
        if isInitialized {
            context.pointee.transaction = transaction
        } else {
            context.initialize(
                to: HistoryContext(
                    view: view, storeIdentifier: store.identifier, transaction: transaction, filter: filter))
            isInitialized = true
        }
        return context
    }
}

extension Store {
    /// Calls `body` with each transaction that a request selects, with its matching changes, until `body` returns
    /// false.
    ///
    /// Nothing is missed, nothing comes twice, and no values are built. Finding the first transaction is logarithmic;
    /// the first request by date reads the header of every frame. The rest is linear in the change tables of the
    /// transactions that the request skips or returns. Memory use does not grow with the history.
    ///
    /// Throws `StoreError`: `tokenForeign`, `tokenExpired` (with the oldest token), `tokenUnknown`, `tokenDiverged`,
    /// `historyGap` (with the token to continue from, if one exists), `unknownEntity`, `unknownAttribute`, `damaged`,
    /// `closed`, and errors of `body`.
    ///
    /// - Parameters:
    ///   - request: The conditions.
    ///   - snapshot: The state at which history ends; nil for the newest.
    ///   - body: Called with each transaction. Return false to stop.
    public func forEachTransaction(
        _ request: HistoryRequest, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws {
        let resolved = try ResolvedRequest(request, self, snapshot)
        var left = resolved.limit
        try forEachTransaction(resolved) { (transaction) throws(StoreError) in
            left -= 1
            return try body(transaction) && left > 0
        }
    }

    /// As above, without the limit.
    func forEachTransaction(
        _ resolved: ResolvedRequest, _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard resolved.limit > 0 else { return }
        var lending = HistoryLending(self, resolved.view, resolved.changes)
        try resolved.engine.tracked(resolved.view).forEachTransaction(resolved.range) {
            (transaction) throws(StoreError) in
            guard try resolved.contains(transaction) else { return true }
            return try withUnsafePointer(to: transaction) { (transaction) throws(StoreError) in
                try body(HistoryTransactionView(lending.show(transaction)))
            }
        }
    }

    /// Calls `body` with each change that a request selects, and its transaction, until `body` returns false.
    /// Transactions come in the request's order; changes of a transaction always in the order in which they were made.
    /// Costs as `forEachTransaction`.
    ///
    /// Throws `StoreError`, as `forEachTransaction`.
    public func forEachChange(
        _ request: HistoryRequest, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView, borrowing HistoryChangeView) throws(StoreError) -> Bool
    ) throws {
        let resolved = try ResolvedRequest(request, self, snapshot)
        var left = resolved.limit
        try forEachTransaction(resolved) { (transaction) throws(StoreError) in
            var goesOn = true
            let context = transaction.context
            try transaction.forEachChange { (change) throws(StoreError) in
                left -= 1
                goesOn = try body(HistoryTransactionView(context), change) && left > 0
                return goesOn
            }
            return goesOn
        }
    }

    /// Calls `body` with each object of which a request selects changes, until `body` returns false. Each object comes
    /// once, by ascending ID, or by descending ID if the request's order is newest first. The objects are sorted in 32
    /// MiB of memory and, for more than about 600,000 changes, in a temporary file. Throws as `forEachTransaction`.
    public func forEachChangedObject(
        _ request: HistoryRequest, in snapshot: Snapshot? = nil, _ body: (ObjectID) throws -> Bool
    ) throws {
        let resolved = try ResolvedRequest(request, self, snapshot)
        let folding = try fold(resolved)
        var left = resolved.limit
        guard left > 0 else { return }
        var failure: (any Error)?
        try folding.forEachObject { (object) throws(StoreError) in
            do {
                left -= 1
                return try body(object) && left > 0
            } catch {
                failure = error
                return false
            }
        }
        if let failure { throw failure }
    }

    /// All changes that a request selects, ready to be folded.
    func fold(_ resolved: ResolvedRequest) throws(StoreError) -> ChangeFolding {
        let folding = ChangeFolding(resolved.engine.tracked(resolved.view), isReversed: resolved.range.isNewestFirst)
        try resolved.engine.tracked(resolved.view).forEachTransaction(resolved.range) {
            (transaction) throws(StoreError) in
            guard try resolved.selects(transaction) else { return true }
            let version = transaction.schemaVersion
            try transaction.forEachChange { (change) throws(StoreError) in
                if resolved.changes?.matches(change, version: version, resolved.view.catalog) ?? true {
                    try folding.append(change, of: transaction)
                }
                return true
            }
            return true
        }
        return folding
    }

    // MARK: Values

    /// The transactions that a request selects as values, with their matching changes. If `includingValues` is true,
    /// each change contains the object before and after. All of them are in memory at once: give the request a limit.
    /// Throws as `forEachTransaction`.
    public func history(
        _ request: HistoryRequest, includingValues: Bool = false
    ) throws -> [HistoryTransaction] {
        var transactions: [HistoryTransaction] = []
        try forEachTransaction(request) { (transaction) throws(StoreError) in
            transactions.append(try transaction.value(includingValues: includingValues))
            return true
        }
        return transactions
    }

    /// The changes that a request selects as values. All of them are in memory at once: give the request a limit.
    /// Throws as `forEachTransaction`.
    public func changes(
        _ request: HistoryRequest, includingValues: Bool = false
    ) throws -> [HistoryChange] {
        var changes: [HistoryChange] = []
        try forEachChange(request) { (_, change) throws(StoreError) in
            changes.append(try change.value(includingValues: includingValues))
            return true
        }
        return changes
    }

    /// The objects of which a request selects changes: each once, by ascending ID, or by descending ID if the request's
    /// order is newest first. Throws as `forEachTransaction`.
    public func changedObjects(_ request: HistoryRequest) throws -> [ObjectID] {
        var objects: [ObjectID] = []
        try forEachChangedObject(request) { (object) in
            objects.append(object)
            return true
        }
        return objects
    }

    /// The number of transactions that a request selects, at most its limit. Throws as `forEachTransaction`.
    public func transactionCount(_ request: HistoryRequest) throws -> Int {
        var count = 0
        try forEachTransaction(request) { (_) in
            count += 1
            return true
        }
        return count
    }
}
