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
