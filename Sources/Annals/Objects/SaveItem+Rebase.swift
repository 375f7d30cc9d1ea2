// A save's item for a newer state of the store: conflicts are settled, or reported.

internal import FoundationEssentials

extension SaveItemOf {
    func rebased(
        on newer: Snapshot, _ policy: MergePolicy, _ conflicts: inout [MergeConflict]
    ) throws(StoreError) -> (any SaveItem)? {
        guard let base = base?.value else {
            return isAgain ? try insertedAgain(newer, policy, &conflicts) : self
        }
        let theirs = try newer.value(reference)
        if kind == .delete { return try deletion(theirs, newer, policy, &conflicts) }
        guard let theirs else {
            switch policy {
            case .error:
                conflicts.append(.whole(.deletedInStore, id, E.model.name))
                return self
            case .storeWins, .rollback: return nil
            case .objectWins, .overwrite:
                var unknown = unknown
                if let values = try place?.unknownValues(of: id, E.model) { unknown = values }
                return try SaveItemOf(
                    reference, .insert, shown: shown, value: value, base: nil, isAgain: true,
                    first: first ?? self, unknown: unknown, newer)
            }
        }
        let mine = value.value
        let merge = ThreeWayMerge(base: base, mine: mine, theirs: theirs)
        var merged = merge.value
        if !merge.conflicts.isEmpty {
            switch policy {
            case .error:
                conflicts += merge.conflicts.map {
                    .attribute($0, id, base: base, mine: mine, theirs: theirs)
                }
            case .storeWins: E.model.copy(merge.conflicts, from: theirs, to: &merged)
            case .objectWins: break
            case .overwrite: merged = mine
            case .rollback: return nil
            }
        }
        return try SaveItemOf(
            reference, .update, shown: shown, value: SavedValue(merged), base: SavedValue(theirs), isAgain: false,
            first: first ?? self, newer)
    }

    /// Undo shows a deleted object again, and another writer may have inserted it again, too.
    private func insertedAgain(
        _ newer: Snapshot, _ policy: MergePolicy, _ conflicts: inout [MergeConflict]
    ) throws(StoreError) -> (any SaveItem)? {
        guard let theirs = try newer.value(reference) else { return self }
        switch policy {
        case .error:
            let mine = value.value
            conflicts += E.model.contestedDifferences(mine, theirs).map {
                .attribute($0, id, base: nil, mine: mine, theirs: theirs)
            }
        case .storeWins, .rollback: return nil
        case .objectWins, .overwrite: break
        }
        return try SaveItemOf(
            reference, .update, shown: shown, value: value, base: SavedValue(theirs), isAgain: false,
            first: first ?? self, newer)
    }

    private func deletion(
        _ theirs: E?, _ newer: Snapshot, _ policy: MergePolicy, _ conflicts: inout [MergeConflict]
    ) throws(StoreError) -> (any SaveItem)? {
        // Both have deleted it.
        guard let theirs, let base = base?.value else { return nil }
        guard !E.model.contestedDifferences(base, theirs).isEmpty else { return self }
        switch policy {
        case .error: conflicts.append(.whole(.changedInStore, id, E.model.name))
        case .storeWins, .rollback: return nil
        case .objectWins, .overwrite: break
        }
        return try SaveItemOf(
            reference, .delete, shown: shown, value: value, base: SavedValue(theirs), isAgain: false, newer)
    }

    func updatingExisting(
        in newer: Snapshot, except planned: Set<ObjectID>, _ existing: PermanentIDs
    ) throws(StoreError) -> (any SaveItem)? {
        guard id.isTemporary else { return nil }
        let layout = try newer.layout(of: E.model)
        let (shape, binding) = (newer.view.shape, try layout.binding(E.self, newer.view.catalog))
        let indexes = shape.indexes(of: layout.number).map { shape.indexes[$0].id }
        var value = value.value
        if !existing.isEmpty { _ = E.model.replaceReferences(existing, in: &value) }
        for index in indexes where index.isUnique && newer.view.hasIndex(index) {
            let key: [UInt8]?
            do throws(StoreError) {
                key = try withUnsafePointer(to: value) { (value) throws(StoreError) in
                    try binding.key(of: UnsafeRawPointer(value), index, layout)
                }
            } catch {
                guard error.isRefusal else { throw error }
                // Writing it throws the reason.
                continue
            }
            guard let key, let other = try newer.view.first(index, key: key), !planned.contains(other),
                let theirs = try newer.value(Reference<E>(other))
            else { continue }
            return try SaveItemOf(
                Reference(other), .update, shown: shown, value: self.value, base: SavedValue(theirs), isAgain: false,
                first: self,
                inserted: reference, newer)
        }
        return nil
    }

    func withoutDeletedTargets(
        in newer: Snapshot, except inserted: Set<ObjectID>, _ policy: MergePolicy,
        _ conflicts: inout [MergeConflict]
    ) throws(StoreError) -> (any SaveItem)? {
        if kind == .delete { return self }
        let model = E.model
        let theirs = base?.value
        let value = value.value
        let changed = theirs.map { model.differences($0, value) }
        var settled = value
        var isChanged = false
        for slot in model.referringSlots where changed?.contains(slot) != false {
            let targets = model.references(at: slot, in: value)
            let left = try newer.withoutDeleted(targets, except: inserted)
            if left.count == targets.count { continue }
            isChanged = true
            if model.properties[slot].codec.attributeType.isObjectList {
                model.setReferences(left, at: slot, in: &settled)
                continue
            }
            switch (policy, theirs) {
            case (.error, _):
                conflicts.append(
                    .attribute(slot, id, base: theirs, mine: value, theirs: theirs, kind: .targetDeleted))
            case (.rollback, .some): return nil
            case (.storeWins, .some(let theirs)): model.copy([slot], from: theirs, to: &settled)
            case (.objectWins, _), (.overwrite, _), (.storeWins, .none), (.rollback, .none):
                if model.properties[slot].isRequired {
                    throw .targetDeleted(targets[0], of: model.properties[slot], id, model)
                }
                model.setReferences([], at: slot, in: &settled)
            }
        }
        guard isChanged else { return self }
        return try SaveItemOf(
            reference, kind, shown: shown, value: SavedValue(settled), base: base, isAgain: isAgain,
            isContested: isContested, first: first ?? self, inserted: self.inserted, unknown: unknown, newer)
    }
}

extension StoreError {
    fileprivate static func targetDeleted(
        _ target: ObjectID, of property: EntityModel.Property, _ object: ObjectID, _ model: EntityModel
    ) -> StoreError {
        let what = object.isTemporary ? "a new object of “\(model.name)”" : "\(object) of “\(model.name)”"
        return StoreError(
            .referenceMissing,
            "“\(property.name)” of \(what) refers to \(target), which was deleted in the store, and must refer to an "
                + "object: let it refer to another object, or discard or delete the referring object.",
            ObjectFacts(model.name, [property.name], object: target))
    }
}
