// Unique keys while a transaction is applied: the objects that have them, and those that lose them.

extension ApplyPlan {
    struct UniqueKey: Hashable {
        var index: IndexID
        var bytes: [UInt8]
    }

    /// Notes the keys of the object that the change frees.
    mutating func noteKeysGivenUp(_ change: ExportedChange) throws(StoreError) {
        let foreign = foreign(change.object)
        guard change.kind != .insert, let object = try local(change.object), withheld.everything == nil,
            withheld.whole[foreign] == nil
        else { return }
        if change.kind == .delete {
            deleted.insert(object)
            return
        }
        guard let layout = draft.newestLayout(object.entityNumber),
            !uniqueIndexes(object.entityNumber).isEmpty
        else { return }
        let now = try current(object, layout)
        guard let before = change.before, !now.isEmpty else { return }
        let left = withheldAttributes(foreign)
        for (position, value) in try values(change, before, layout).values
        where policy == .exportWins || value?.isSame(as: now[position]) == true {
            if left.contains(layout.entity.attributes[position].number) { continue }
            givesUpKeys[object, default: []].insert(layout.entity.attributes[position].number)
        }
    }

    /// Another object that has one of the row's unique keys and keeps it, and the positions of that key.
    func keyHolder(
        _ row: [StoredValue], _ layout: RowLayout, of object: ObjectID?
    ) throws(StoreError) -> (ObjectID, positions: [Int])? {
        for index in uniqueIndexes(layout.number) where !isWorkedOut(index) {
            guard let key = try key(index, row, layout) else { continue }
            if let holder = claimed[key], holder != object { return (holder, positions(index, layout)) }
            let found = try draft.holderInBase(of: key.bytes, index)
            guard let holder = found, holder != object, !deleted.contains(holder) else {
                continue
            }
            if let given = givesUpKeys[holder], !given.isDisjoint(with: index.attributes) { continue }
            return (holder, positions(index, layout))
        }
        return nil
    }

    mutating func claim(_ row: [StoredValue], _ layout: RowLayout, _ object: ObjectID) throws(StoreError) {
        for index in uniqueIndexes(layout.number) where !isWorkedOut(index) {
            if let key = try key(index, row, layout) { claimed[key] = object }
        }
    }

    /// In the schema that the transaction brings.
    func uniqueIndexes(_ entity: UInt16) -> [IndexID] {
        draft.shape.indexes(of: entity).map { draft.shape.indexes[$0].id }.filter(\.isUnique)
    }

    private func positions(_ index: IndexID, _ layout: RowLayout) -> [Int] {
        index.attributes.compactMap { layout.position(ofAttribute: $0) }
    }

    /// Nil if a part of the key is null: then the object has no key.
    private func key(_ index: IndexID, _ row: [StoredValue], _ layout: RowLayout) throws(StoreError) -> UniqueKey? {
        let positions = positions(index, layout)
        let values = positions.map { row[$0] }
        guard positions.count == index.attributes.count, !values.contains(.absent) else { return nil }
        var key = ByteWriter(capacity: 256)
        try IndexKey.append(values: values, types: positions.map { layout.slots[$0].type }, to: &key)
        return UniqueKey(index: index, bytes: Array(key.bytes))
    }
}
