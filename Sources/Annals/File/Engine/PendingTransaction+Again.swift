// Inserting what was deleted once more, under the ID that it had: how a deletion is undone.

extension PendingTransaction {
    /// Inserts an object that was deleted, under its own ID. Throws `invalidArgument` where it is there, or never was.
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
