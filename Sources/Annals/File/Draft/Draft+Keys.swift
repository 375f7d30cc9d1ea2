// Conflicts over unique keys between objects of a transaction, and with the store's objects.

extension Draft {
    private struct Key: Hashable {
        let index: Int
        let bytes: [UInt8]
    }

    /// The objects that would have a unique key of another object, in the order of the changes.
    ///
    /// - Parameter indexes: By entity, the unique indexes to check, by their place in the schema.
    func takenKeys(
        _ indexes: (UInt16) -> [Int]
    ) throws(StoreError) -> [(object: ObjectID, index: Int, by: ObjectID)] {
        var order: [(object: ObjectID, key: Key)] = []
        var objects: [Key: [ObjectID]] = [:]
        let shape = shape
        var writer = ByteWriter(capacity: 256)
        try frames.forEachEntry(withRows: true) { (change, bytes) throws(StoreError) in
            let entity = change.object.entityNumber
            guard change.kind != .delete, let bytes, let layout = shape.newestLayout(entity) else { return true }
            for index in indexes(entity) {
                let indexShape = shape.indexes[index]
                let row = try RowImage(bytes, layout: layout)
                do throws(StoreError) {
                    try indexShape.forEachKey(of: row, in: &writer, large: IndexShape.noLargeKeys) { bytes, hasAbsent in
                        if hasAbsent { return }
                        let key = Key(index: index, bytes: Array(bytes))
                        order.append((change.object, key))
                        objects[key, default: []].append(change.object)
                    }
                } catch {
                    try refuse(try indexShape.tooLarge(row, change.object) ?? error)
                }
            }
            return true
        }
        var taken: [(object: ObjectID, index: Int, by: ObjectID)] = []
        for (object, key) in order {
            guard let owner = try owner(of: key, objects[key] ?? []), owner != object else { continue }
            taken.append((object, key.index, owner))
        }
        return taken
    }

    /// The object that has a key of an index in the base. Linear in the entity's objects if this transaction has made
    /// the index.
    func holderInBase(of key: [UInt8], _ id: IndexID) throws(StoreError) -> ObjectID? {
        if base.hasIndex(id) { return try base.first(id, key: key) }
        guard base.shape.has(id.entity), let number = shape.index(of: id.entity, over: id.attributes) else {
            return nil
        }
        let index = shape.indexes[number]
        var holder: ObjectID?
        var writer = ByteWriter(capacity: 256)
        try base.scan(entity: id.entity) { (object, row) throws(StoreError) in
            try index.forEachKey(of: row, in: &writer, large: IndexShape.noLargeKeys) { (bytes, hasAbsent) in
                if !hasAbsent, bytes.elementsEqual(key) { holder = object }
            }
            return holder == nil
        }
        return holder
    }

    /// The object that keeps the key: the one that had it before, if it still has it, otherwise the first one.
    private func owner(of key: Key, _ objects: [ObjectID]) throws(StoreError) -> ObjectID? {
        let id = shape.indexes[key.index].id
        guard base.indexes(entity: id.entity).contains(id), let holder = try base.first(id, key: key.bytes),
            objects.contains(holder) || !isChangedHere(holder)
        else { return objects.first }
        return holder
    }
}
