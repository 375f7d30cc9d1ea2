// The transactions by which the store keeps its search indexes up to date. Requests of history and signals leave them
// out: they change no object that anyone could ask for.

extension ReservedEntity {
    /// The author of these transactions.
    static let indexAuthor = EntityDefinition.reservedPrefix + "search"
}

extension TransactionView {
    /// Whether the transaction only moves a search index on. `author` is the number of `indexAuthor`, nil if the store
    /// has no such name; `reserved` are the numbers of the store's own entities.
    @inline(__always)
    func isIndexStep(by author: UInt32?, _ reserved: Set<UInt16>) throws(StoreError) -> Bool {
        guard let author, authorNumber == author else { return false }
        return try changesOnly(reserved)
    }

    /// A program may use the name for its own changes.
    @inline(never)
    private func changesOnly(_ reserved: Set<UInt16>) throws(StoreError) -> Bool {
        var isStep = !changesSchema
        guard isStep else { return false }
        try forEachChange { (change) throws(StoreError) in
            isStep = reserved.contains(change.object.entityNumber)
            return isStep
        }
        return isStep
    }
}

extension Store {
    /// Whether only steps of an index follow a transaction, and at least one. Linear in their number.
    func hasOnlyIndexSteps(
        after number: UInt64, _ engine: Engine, _ view: View
    ) throws(StoreError) -> Bool {
        guard let author = engine.number(ofName: ReservedEntity.indexAuthor), number < view.number,
            number >= engine.tracking.horizon
        else { return false }
        var hasOnlySteps = true
        try engine.tracked(view).forEachTransaction(after: number) { (transaction) throws(StoreError) in
            hasOnlySteps = try transaction.isIndexStep(by: author, view.reservedEntities)
            return hasOnlySteps
        }
        return hasOnlySteps
    }

    /// The number of the transaction that `count` others follow, without the steps of an index. If history no longer
    /// has it, a number up to the beginning of history. Throws `tokenUnknown` if there are not so many.
    package func number(back count: UInt64) throws -> UInt64 {
        let (engine, view) = try newest()
        let author = engine.number(ofName: ReservedEntity.indexAuthor)
        // The transactions before `end` are all counted.
        var (left, end, found) = (count, view.number, UInt64?.none)
        if count > 0, author != nil {
            let history = engine.tracked(view)
            end = history.coverage.horizon
            let range = HistoryRange(after: end, before: .max, isNewestFirst: true)
            try history.forEachTransaction(range) { (transaction) throws(StoreError) in
                if try transaction.isIndexStep(by: author, view.reservedEntities) { return true }
                if left == 0 { found = transaction.number }
                left -= found == nil ? 1 : 0
                return found == nil
            }
        }
        if let found { return found }
        guard left <= end else {
            throw StoreError(
                .tokenUnknown, "-\(count) is before the first transaction: the last one is \(view.number).", path: path)
        }
        return end - left
    }
}
