// The objects that a transaction has inserted or updated so far.

extension Draft {
    /// Lends the rows of an entity that this transaction has written and not deleted, in the order of the changes,
    /// until `body` returns false. Linear in the transaction.
    func forEachOwnRow(
        of entity: UInt16, _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard hasChanges else { return }
        let layout = try layout(entity)
        try frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            guard change.object.entityNumber == entity, change.kind != .delete, let bytes else { return true }
            return try body(change.object, try RowImage(bytes, layout: layout))
        }
    }
}
