// Requests carried out: as transactions, as changes, as objects, as a number.

/// Hands views of transactions out, one after the other, over one place in memory: what refers to it cannot be kept.
struct HistoryLending: ~Copyable {
    private let context: UnsafeMutablePointer<HistoryContext>
    private let view: View
    private let store: Store
    private let filter: ChangeFilter?
    private var isInitialized = false

    /// `filter` chooses the changes that are shown; nil for all.
    init(_ store: Store, _ view: View, _ filter: ChangeFilter?) {
        self.store = store
        self.view = view
        self.filter = filter
        context = .allocate(capacity: 1)
    }

    deinit {
        if isInitialized { context.deinitialize(count: 1) }
        context.deallocate()
    }

    /// The place, with the transaction in it.
    mutating func show(_ transaction: TransactionView) -> UnsafeMutablePointer<HistoryContext> {
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
    /// Gives `body` the transactions that a request chooses, with the changes that match, until it returns false.
    ///
    /// Nothing is missed, nothing comes twice, and nothing is made into a value. Logarithmic to find the first
    /// transaction (the first date that is requested costs a look at the header of every frame), then linear in the
    /// change tables of what the request passes or gives out; takes no memory that grows with history.
    ///
    /// Throws `StoreError`: `tokenForeign`, `tokenExpired` (with the oldest token), `tokenUnknown`, `tokenDiverged`,
    /// `historyGap` (with the token to go on from, if
    /// there is one), `unknownEntity`, `unknownAttribute`, `damaged`, `closed`, and what `body` throws.
    ///
    /// - Parameters:
    ///   - request: What is chosen.
    ///   - snapshot: Where history ends; nil for the newest state.
    ///   - body: Called with each transaction. False ends the reading.
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

    /// Whatever the limit.
    func forEachTransaction(
        _ resolved: ResolvedRequest, _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard resolved.limit > 0 else { return }
        var lending = HistoryLending(self, resolved.view, resolved.changes)
        try resolved.engine.tracked(resolved.view).forEachTransaction(resolved.range) {
            (transaction) throws(StoreError) in
            guard try resolved.contains(transaction) else { return true }
            let context = lending.show(transaction)
            return try body(HistoryTransactionView(context))
        }
    }

    /// Gives `body` the changes that a request chooses, each with its transaction, until it returns false. In the
    /// request's order of transactions; within a transaction always in the order in which they were made. Else as
    /// `forEachTransaction`.
    ///
    /// Throws `StoreError`.
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

    /// Gives `body` the objects that a request finds changes of, each once, by ascending ID (descending where it asks
    /// for the newest first), until it returns false. Sorted in 32 MiB of memory and, beyond some 600,000 changes, a
    /// temporary file. Throws as `forEachTransaction`.
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

    /// All changes that a request chooses, ready to be folded.
    func fold(_ resolved: ResolvedRequest) throws(StoreError) -> ChangeFolding {
        let folding = ChangeFolding(resolved.engine.tracked(resolved.view), isReversed: resolved.range.isNewestFirst)
        try resolved.engine.tracked(resolved.view).forEachTransaction(resolved.range) {
            (transaction) throws(StoreError) in
            guard resolved.transactions.matches(transaction) else { return true }
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

    /// The transactions that a request chooses as values, with the changes that match, and with the objects before and
    /// after each where `includingValues` says so. They are all in memory at once: give the request a limit. Throws as
    /// `forEachTransaction`.
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

    /// The changes that a request chooses as values. They are all in memory at once: give the request a limit. Throws
    /// as `forEachTransaction`.
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

    /// The objects that a request finds changes of, each once, by ascending ID, or descending. Throws as
    /// `forEachTransaction`.
    public func changedObjects(_ request: HistoryRequest) throws -> [ObjectID] {
        var objects: [ObjectID] = []
        try forEachChangedObject(request) { (object) in
            objects.append(object)
            return true
        }
        return objects
    }

    /// How many transactions a request chooses, its limit at most. Throws as `forEachTransaction`.
    public func transactionCount(_ request: HistoryRequest) throws -> Int {
        var count = 0
        try forEachTransaction(request) { (_) in
            count += 1
            return true
        }
        return count
    }
}
