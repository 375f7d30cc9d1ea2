// The origin of a transaction that came from another store.

internal import FoundationEssentials

extension HistoryTransactionView {
    /// The store's note from applying this transaction; nil if it was made in this store.
    func appliedRecord() throws(StoreError) -> AppliedRecord? { try appliedRecords(limit: 1).first }

    /// The places of other stores that are contained in the state which this transaction applied.
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
        try transaction.pointee.forEachChange { (change) throws(StoreError) in
            guard change.object.entityNumber == number else { return false }
            guard let row = try HistoryChangeView(change, context).after(),
                let record = AppliedRecord(row.values)
            else { return false }
            records.append(record)
            return records.count < limit
        }
        return records
    }

    /// The original transaction in another store, if this one was applied from there; nil if it was made here. Throws
    /// `damaged`.
    public func origin() throws(StoreError) -> HistoryToken? {
        guard let record = try appliedRecord(), !record.isSkipped else { return nil }
        return record.origin
    }
}
