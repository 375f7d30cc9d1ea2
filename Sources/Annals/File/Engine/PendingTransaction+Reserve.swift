// Object numbers before there are objects. Objects of a transaction may refer to each other in circles.

extension PendingTransaction {
    /// Returns the ID of an object that this transaction will insert. The object must be inserted, once, and not be
    /// read before.
    package func reserve(entity: UInt16) throws(StoreError) -> ObjectID {
        _ = try layout(entity)
        return try drawNumber(entity)
    }

    /// Inserts an object under a reserved ID, with a value for each attribute of its entity's newest layout.
    package func insert(reserved object: ObjectID, _ values: [StoredValue]) throws(StoreError) {
        let layout = try layout(object.entityNumber)
        try requireCount(values.count, layout)
        try builder.requireUsable()
        try builder.insert(object, layout: layout) { (row, bytes) throws(StoreError) in
            _ = try RowWriter.write(layout, &row, &bytes, builder) { (writer) throws(StoreError) in
                for (position, value) in values.enumerated() { try writer.set(stored: value, at: position) }
            }
        }
    }
}
