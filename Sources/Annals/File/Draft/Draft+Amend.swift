// Changing what a transaction has written already, or not yet, when its body has ended.

extension Draft {
    /// Sets attributes of objects that exist, whatever the transaction has done to them.
    package func amend(_ amendments: [ObjectID: [(position: Int, value: StoredValue)]]) throws(StoreError) {
        if amendments.isEmpty { return }
        // In an order that does not depend on the process.
        for object in amendments.keys.sorted() { try update(object, amendments[object, default: []]) }
    }
}
