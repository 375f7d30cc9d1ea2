// Where a transaction was first made, if it came from another store.

internal import FoundationEssentials

extension HistoryTransactionView {
    /// What the store noted when it applied this transaction; nil for one that was made here.
    func appliedRecord() throws(StoreError) -> AppliedRecord? { try appliedRecords(limit: 1).first }

    /// The places of other stores that the state holds which this transaction has applied.
    func heldPlaces() throws(StoreError) -> [HistoryToken] {
        let records = try appliedRecords()
        guard let origin = records.first?.origin else { return [] }
        return records.dropFirst().map(\.token).filter { $0.storeIdentifier != origin.storeIdentifier }
    }

    private func appliedRecords(limit: Int = .max) throws(StoreError) -> [AppliedRecord] {
        let context = context
        let view = context.pointee.view
        guard !view.reservedEntities.isEmpty,
            let number = view.catalog.number(ofEntity: ReservedEntity.origins.name)
        else { return [] }
        var records: [AppliedRecord] = []
        try context.pointee.transaction.forEachChange { (change) throws(StoreError) in
            guard change.object.entityNumber == number else { return false }
            guard let row = try HistoryChangeView(change, context).after(),
                let record = AppliedRecord(row.values)
            else { return false }
            records.append(record)
            return records.count < limit
        }
        return records
    }

    /// The transaction of another store that this one is the applied form of, as it was first made; nil for one that
    /// was made here. Throws `damaged`.
    public func origin() throws(StoreError) -> HistoryToken? {
        guard let record = try appliedRecord(), !record.isSkipped else { return nil }
        return record.origin
    }
}
