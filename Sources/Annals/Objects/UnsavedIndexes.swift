// The pending objects of a context, by entity and under the keys of the store's indexes: the cost of finding one does
// not depend on their number.
//
// Invariants:
// UI1  While there are indexes, `noted` has every object that became pending, or whose properties or place changed
//      while it was pending. Each search first adds the objects noted since the last one.
// UI2  Then `Members` has every pending object of its entity, and `Keys` has each of them under the keys of its present
//      properties, or in `unkeyed`. Both may have more: a search checks the objects.

/// Indexes of the pending objects of one context. Made at the first search.
final class UnsavedIndexes {
    fileprivate struct Members {
        var objects: Set<ObjectID> = []
        /// The number of noted objects that are in it.
        var seen = 0
    }

    fileprivate struct Keys {
        let layout: RowLayout
        var entries = OwnIndex()
        /// Objects without a key: a property cannot be stored, or is not read yet.
        var unkeyed: Set<ObjectID> = []
        var seen = 0
    }

    fileprivate struct Name: Hashable {
        let model: ObjectIdentifier
        let attributes: [UInt16]
    }

    fileprivate var noted: [ObjectID] = []
    fileprivate var members: [ObjectIdentifier: Members] = [:]
    fileprivate var keys: [Name: Keys] = [:]
    /// Objects that are, or were, pending and not shown.
    fileprivate var hidden: [ObjectIdentifier: Set<ObjectID>] = [:]

    /// Notes an object for the next search: UI1.
    func note(_ object: ObjectID) { noted.append(object) }

    func noteHidden(_ object: ObjectID, _ model: EntityModel) {
        hidden[ObjectIdentifier(model), default: []].insert(object)
    }

    fileprivate func forget() { (noted, members, keys) = ([], [:], [:]) }
}

extension ContextCore {
    /// The indexes, in memory proportional to the pending objects.
    private func unsavedIndexes() -> UnsavedIndexes {
        if let indexes {
            if indexes.noted.count > max(4096, pending.count * 8) { indexes.forget() }
            return indexes
        }
        let made = UnsavedIndexes()
        indexes = made
        logsEdits = true
        for object in pending.values where !object.isShown { made.noteHidden(object.id, object.model) }
        return made
    }

    // MARK: By entity

    /// The pending objects of an entity. Linear in them.
    func unsaved(of model: EntityModel) -> [any LiveObject] {
        let indexes = unsavedIndexes()
        let name = ObjectIdentifier(model)
        takeInMembers(indexes, model)
        var found: [any LiveObject] = []
        var gone: [ObjectID] = []
        for id in indexes.members[name]?.objects ?? [] {
            if let object = pending[id], object.model === model { found.append(object) } else { gone.append(id) }
        }
        for id in gone { indexes.members[name]?.objects.remove(id) }
        return found
    }

    /// Whether objects of an entity are pending.
    func hasUnsaved(of model: EntityModel) -> Bool {
        let indexes = unsavedIndexes()
        let name = ObjectIdentifier(model)
        takeInMembers(indexes, model)
        var gone: [ObjectID] = []
        defer { for id in gone { indexes.members[name]?.objects.remove(id) } }
        for id in indexes.members[name]?.objects ?? [] {
            if let object = pending[id], object.model === model { return true }
            gone.append(id)
        }
        return false
    }

    private func takeInMembers(_ indexes: UnsavedIndexes, _ model: EntityModel) {
        let name = ObjectIdentifier(model)
        guard var members = indexes.members.removeValue(forKey: name) else {
            let all = pending.pairs.filter { $0.value.model === model }.map(\.id)
            indexes.members[name] = UnsavedIndexes.Members(objects: Set(all), seen: indexes.noted.count)
            return
        }
        for id in indexes.noted[members.seen...] where pending[id]?.model === model { members.objects.insert(id) }
        members.seen = indexes.noted.count
        indexes.members[name] = members
    }

    /// Whether an object of one of these entities is pending and not shown.
    func hidesAny(of models: [EntityModel]) -> Bool {
        if models.isEmpty { return false }
        let indexes = unsavedIndexes()
        for model in models {
            let name = ObjectIdentifier(model)
            var gone: [ObjectID] = []
            defer { for id in gone { indexes.hidden[name]?.remove(id) } }
            for id in indexes.hidden[name] ?? [] {
                if let object = pending[id], !object.isShown { return true }
                gone.append(id)
            }
        }
        return false
    }

    // MARK: By key

    /// The pending objects of an entity that may be in ranges of an index: all that are, and perhaps more (UI2).
    func unsaved(
        of model: EntityModel, _ index: IndexID, _ ranges: [KeyRange], _ layout: RowLayout
    ) throws(StoreError) -> [any LiveObject] {
        let indexes = unsavedIndexes()
        let name = UnsavedIndexes.Name(model: ObjectIdentifier(model), attributes: index.attributes)
        var keys = try takenInKeys(indexes, name, index, model, layout)
        defer { indexes.keys[name] = keys }
        var found: [any LiveObject] = []
        for id in keys.entries.objects(ranges) {
            if let object = pending[id], object.model === model { found.append(object) }
        }
        for id in keys.unkeyed {
            if let object = pending[id], object.model === model {
                found.append(object)
            } else {
                keys.unkeyed.remove(id)
            }
        }
        return found
    }

    /// Removes the keys from the indexes, up to date.
    private func takenInKeys(
        _ indexes: UnsavedIndexes, _ name: UnsavedIndexes.Name, _ index: IndexID, _ model: EntityModel,
        _ layout: RowLayout
    ) throws(StoreError) -> UnsavedIndexes.Keys {
        let end = indexes.noted.count
        if var keys = indexes.keys.removeValue(forKey: name), keys.layout === layout,
            keys.entries.count <= max(4096, pending.count * 4)
        {
            // Objects that are read during this loop are noted again.
            for id in indexes.noted[keys.seen..<end] where pending[id]?.model === model {
                try add(id, index, layout, to: &keys)
            }
            keys.seen = end
            return keys
        }
        var keys = UnsavedIndexes.Keys(layout: layout)
        for object in unsaved(of: model) { try add(object.id, index, layout, to: &keys) }
        keys.seen = min(end, indexes.noted.count)
        return keys
    }

    private func add(
        _ id: ObjectID, _ index: IndexID, _ layout: RowLayout, to keys: inout UnsavedIndexes.Keys
    ) throws(StoreError) {
        guard let object = pending[id] else { return }
        guard let found = try object.ownKeys(index, layout, try snapshot) else {
            keys.unkeyed.insert(id)
            return
        }
        keys.unkeyed.remove(id)
        for key in found { keys.entries.add(id, key) }
    }

    // MARK: By reference

    /// The pending objects of an entity that may refer to an object by a property: all that do, and perhaps more.
    func unsavedReferrers(
        to object: ObjectID, _ model: EntityModel, _ property: String
    ) throws(StoreError) -> [any LiveObject] {
        let snapshot = try snapshot
        guard let number = snapshot.numberIfAny(of: model), let layout = snapshot.view.shape.newestLayout(number),
            let position = layout.position(ofProperty: property, snapshot.view.catalog)
        else { return unsaved(of: model) }
        let index = IndexID(
            entity: number, attributes: [layout.entity.attributes[position].number], isUnique: false)
        return try unsaved(of: model, index, [KeyRange(element: object)], layout)
    }
}

extension Object {
    /// The keys of the object under an index; nil if it has none. See `UnsavedIndexes`.
    func ownKeys(_ index: IndexID, _ layout: RowLayout, _ snapshot: Snapshot) throws(StoreError) -> [[UInt8]]? {
        guard let shown = loadedWhole else { return nil }
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        return withUnsafePointer(to: shown) { value in
            (try? binding.ownKeys(of: UnsafeRawPointer(value), index, layout)) ?? nil
        }
    }
}
