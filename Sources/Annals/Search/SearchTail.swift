// The objects that have changed since a place in history: a search reads their rows, and the index is moved over them.
//
// Invariants:
// XT1  The list has every object of the entity that a transaction after the place has inserted, changed or deleted. If
//      history cannot tell, there is no list.

extension Snapshot {
    /// The objects of an entity that transactions after a place have changed up to this state, by ascending ID (XT1).
    /// Nil if history does not reach back to the place, lacks changes of the entity, or has more than `most` objects.
    func objects(
        of entity: UInt16, changedAfter place: TransactionPlace, atMost most: Int
    ) throws(StoreError) -> [ObjectID]? {
        guard view.past == nil, place.number <= view.number else { return nil }
        if place.number == view.number { return place.tag == view.tag ? [] : nil }
        guard try hasChanges(of: entity, after: place) else { return nil }
        let gap = view.historyGaps.first { $0.entity == entity }
        var found: Set<UInt64> = []
        var isWhole = true
        try engine.tracked(view).lendTransactions(after: place.number) { (transaction) throws(StoreError) in
            let transaction = transaction.pointee
            if gap?.hides(version: transaction.schemaVersion) ?? false { isWhole = false }
            try transaction.forEachChange { (change) in
                if change.object.entityNumber == entity { found.insert(change.object.rawValue) }
                return found.count <= most
            }
            return isWhole && found.count <= most
        }
        guard isWhole, found.count <= most else { return nil }
        return found.sorted().map { ObjectID(checked: $0) }
    }

    /// Whether history has all changes of an entity after a place, as far as its record of cleaning tells.
    private func hasChanges(of entity: UInt16, after place: TransactionPlace) throws(StoreError) -> Bool {
        let coverage = engine.tracked(view).coverage
        guard coverage.refusal(of: place.number, newest: view.number) == nil,
            coverage.cleanedEnd(after: place.number, before: view.number + 1, TransactionFilter()) == nil
        else { return false }
        // After another copy has replaced the store, the number may be that of another transaction.
        let header = engine.log.header
        let tag =
            place.number <= header.baseNumber
            ? header.tag(ofFolded: place.number) : try engine.view(asOf: place.number).tag
        return tag ?? place.tag == place.tag
    }
}
