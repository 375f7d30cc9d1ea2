// Objects of a context that are deleted before they were ever saved: the same delete rules apply to them.

internal import FoundationEssentials

extension ContextCore {
    func noteDeletedUnsaved(_ object: ObjectID) {
        // If nothing is unsaved, nothing refers to the earlier ones.
        if pending.isEmpty { deletedUnsaved.removeAll() }
        deletedUnsaved.insert(object)
    }

    /// Undo may have restored one, and another writer may have inserted one that was in the store before.
    private func isDeletedUnsaved(_ object: ObjectID) -> Bool {
        deletedUnsaved.contains(object) && pending[object] == nil && (object.isTemporary || isMissing(object))
    }

    /// Applies, to a value that is about to be saved, the delete rules for references to objects that were deleted
    /// unsaved. Rules that act at the deletion were applied then. Throws `deleteDenied`.
    func followRulesOfUnsaved<E: Entity>(in value: inout E, of object: ObjectID) throws(StoreError) {
        if deletedUnsaved.isEmpty { return }
        let model = E.model
        for slot in model.referringSlots {
            let targets = model.references(at: slot, in: value)
            let left = targets.filter { !isDeletedUnsaved($0) }
            if left.count == targets.count { continue }
            let property = model.properties[slot]
            switch property.deleteRule {
            case .noAction, .nullify: model.setReferences(left, at: slot, in: &value)
            case .deny: throw .deletedUnsaved(property, of: object, model)
            // Referring objects were deleted with it. An object that refers to it since gets an error when it is
            // written.
            case .cascade: continue
            }
        }
    }
}

extension StoreError {
    fileprivate static func deletedUnsaved(
        _ property: EntityModel.Property, of object: ObjectID, _ model: EntityModel
    ) -> StoreError {
        let target = property.codec.target?.model.name ?? model.name
        return StoreError(
            .deleteDenied,
            "“\(property.name)” of an object of “\(model.name)” refers to an object of “\(target)” that was deleted "
                + "before it was saved, and the rule of “\(property.name)” denies that: let it refer to another object "
                + "or to none, or delete the referring object too.",
            ObjectFacts(model.name, [property.name], objects: [object]))
    }
}
