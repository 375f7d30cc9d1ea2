// Changes objects after a transaction's body, including those that it has written already.

extension Draft {
    /// Sets attributes of objects that exist, even if the transaction has changed them already.
    package func amend(_ amendments: [ObjectID: [(position: Int, value: StoredValue)]]) throws(StoreError) {
        if amendments.isEmpty { return }
        // In a fixed order, the same in every process.
        for object in amendments.keys.inOrder() { try update(object, amendments[object, default: []]) }
    }
}
