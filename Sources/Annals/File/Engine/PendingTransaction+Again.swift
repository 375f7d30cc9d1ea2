// Inserting a deleted object again, under its ID. This is how a deletion is undone.

extension PendingTransaction {
    /// Inserts a deleted object under its own ID. Throws `invalidArgument` if it exists or never did.
    package func insertAgain(
        _ object: ObjectID, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        let layout = try layout(object.entityNumber)
        let newest = try base.core.reading { () throws(StoreError) in
            try base.core.newestVersion(object, below: base.end)
        }
        guard case .deletion = PreviousVersion(rawValue: newest), !isChangedHere(object) else {
            throw StoreError(.invalidArgument, "Only an object that was deleted can be inserted again.")
        }
        try builder.insert(object, layout: layout, afterDeletion: PreviousVersion(rawValue: newest)) {
            (row, bytes) throws(StoreError) in
            _ = try RowWriter.write(layout, &row, &bytes, builder, set)
        }
        changed.insert(object.rawValue)
    }
}
