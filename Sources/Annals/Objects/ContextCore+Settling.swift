// Objects that have no edits any more, and objects at the other sides of their references.

internal import FoundationEssentials

extension ContextCore {
    /// An object is no longer shown. CX2: it stays in `pending` while it is being saved, because the snapshot may still
    /// have it.
    func removeUnlessSent(_ object: any LiveObject) {
        if inFlight?.objects[object.id] == nil { removePending(object) }
    }

    /// The shown value of an object without edits, as the base of edits. CX2: it may be newer than the snapshot.
    func shownValue<E: Entity>(of object: Object<E>) -> SavedValue<E> {
        SavedValue(object.current, isContested: pending[object.id] != nil)
    }

    /// An object has no edits any more. It stays in `pending` if it is being saved, or shows a newer version than the
    /// snapshot has.
    func removeUnlessNewer<E: Entity>(_ object: Object<E>) {
        if inFlight?.objects[object.id] != nil { return addPending(object) }
        let here = (try? snapshot)?.valueIfReadable(object.reference)
        if let here, E.model.firstDifference(here, object.current) == nil {
            removePending(object)
        } else {
            addPending(object)
        }
    }

    /// Before a save or a move: objects whose edits were reverted show the store's values.
    func settleUnedited() {
        for object in pending.values { object.settleIfUnedited() }
    }

    /// An object has no edits any more. They were relative to another version than the one at the context's place.
    func settle<E: Entity>(_ object: Object<E>) {
        if inFlight?.objects[object.id] == nil {
            if isNewest(object) {
                // `refresh` may have read it in a newer state than that of the context. It keeps that version.
                object.saved = nil
                return removeUnlessNewer(object)
            }
            if isMissing(object.id) { return dropIfGone(object) }
        }
        // If it cannot be read, the next save or move tries again.
        guard let stored = try? valueToShow(object.reference, in: snapshot) else { return }
        let (before, value) = (object.current, object.kept(stored))
        object.saved = nil
        if E.model.firstDifference(before, value) != nil {
            recorder?.willShow(value, of: object, own: [])
            object.show(value)
            noteOtherSides(of: object, from: before, to: value)
            noteTouched(object.id)
        }
        removeUnlessNewer(object)
    }

    /// Whether an object shows the value of the newest state.
    private func isNewest<E: Entity>(_ object: Object<E>) -> Bool {
        let newest = try? requireStore().newestSnapshot()
        guard let stored = newest?.valueIfReadable(object.reference) else { return false }
        return E.model.firstDifference(stored, object.current) == nil
    }

    /// Edits keep an object that another writer has deleted. Without edits it is gone.
    func dropIfGone<E: Entity>(_ object: Object<E>) {
        guard object.phase == .stored, inFlight?.objects[object.id] == nil, isMissing(object.id) else { return }
        object.saved = nil
        object.phase = .gone
        removePending(object)
        noteOtherSides(of: object, from: object.current, to: nil)
        object.notify(nil)
        noteTouched(object.id)
    }

    /// The objects of an entity that refer to an object by a property, as the context shows them (CX4).
    func referring(to object: ObjectID, _ model: EntityModel, _ name: String) throws(StoreError) -> [ObjectID] {
        var found = object.isTemporary ? [] : try snapshot.referring(to: object, model, name)
        guard !pending.isEmpty, let slot = model.properties.firstIndex(where: { $0.name == name }) else { return found }
        found.removeAll { pending[$0] != nil }
        for referrer in try unsavedReferrers(to: object, model, name) {
            if referrer.references(at: slot).contains(object) { found.append(referrer.id) }
        }
        return found.inOrder()
    }

    /// Notifies the objects at the other sides that an object refers to them now, or no longer does.
    func noteOtherSides<E: Entity>(of object: Object<E>, from before: E?, to after: E?) {
        guard !observedSides.isEmpty else { return }
        let model = E.model
        for slot in model.referringSlots {
            let old = Set(before.map { model.references(at: slot, in: $0) } ?? [])
            let new = Set(after.map { model.references(at: slot, in: $0) } ?? [])
            for target in old.symmetricDifference(new) {
                guard let held = registered(target) else { continue }
                if let inverse = model.properties[slot].inverse { held.notify([held.model.slot(at: inverse.offset)]) }
            }
        }
    }
}

extension Snapshot {
    fileprivate func valueIfReadable<E: Entity>(_ reference: Reference<E>) -> E? { try? value(reference) }
    /// The number of a model's entity; nil if the store does not know it.
    func numberIfAny(of model: EntityModel) -> UInt16? { view.catalog.number(ofEntity: model.name) }

    /// The layout of the entity of an object of a context. Throws `unknownEntity`.
    func layout<E: Entity>(of reference: Reference<E>) throws(StoreError) -> RowLayout {
        let number = reference.id.entityNumber
        guard let layout = view.shape.newestLayout(number), !layout.isReserved else { return try layout(of: E.model) }
        try requireKnown(number)
        return layout
    }

    /// Whether such an object of the type's entity exists. Constant time.
    func has<E: Entity>(_ reference: Reference<E>) throws(StoreError) -> Bool {
        let layout = try layout(of: E.model)
        guard layout.number == reference.id.entityNumber else { return false }
        return try view.contains(reference.id)
    }
}
