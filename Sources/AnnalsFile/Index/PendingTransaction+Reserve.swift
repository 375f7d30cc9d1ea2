// Object numbers before there are objects: those of a transaction may refer to each other in circles.

extension PendingTransaction {
    /// Gives out the ID of an object that this transaction will insert. Each one must be inserted, once, and not be read before.
    package func reserve(entity: UInt16) throws(FileError) -> ObjectID {
        _ = try layout(entity)
        return try takeNumber(entity)
    }

    /// Inserts an object under a reserved ID, with a value for each attribute of its entity's newest layout.
    package func insert(reserved object: ObjectID, _ values: [Value]) throws(FileError) {
        let layout = try layout(object.entity)
        guard values.count == layout.count else {
            throw FileError(.invalidArgument, "A row has not one value for each attribute.")
        }
        try builder.checkUsable()
        try builder.insert(object, layout: layout) { (row, bytes) throws(FileError) in
            _ = try RowWriter.write(layout, &row, &bytes, builder) { (writer) throws(FileError) in
                for (position, value) in values.enumerated() { try writer.set(value, at: position) }
            }
        }
    }
}
