// The errors for changes that an index does not allow: they name the attributes, and objects that people can find.

extension IndexShape {
    /// `isNew`: `object`, which refers to `target`, is not in the store yet, so its number would mean nothing to the
    /// reader.
    func missing(_ target: ObjectID, from object: ObjectID, _ shape: StoreShape, isNew: Bool) -> StoreError {
        let entity = layout.entity.name.text
        let sentence: String
        if let reference, !reference.mayRefer(to: target) {
            let wanted = reference.target
            let name = shape.newestLayout(wanted)?.entity.name.text ?? "entity \(wanted)"
            sentence = "which is not an object of “\(name)”: refer to an object of that entity."
        } else {
            sentence = "which does not exist: insert it in the same transaction, or refer to another object."
        }
        let referrer = isNew ? "a new object of “\(entity)”" : "“\(entity)” \(object.number)"
        return StoreError(
            .referenceMissing, "\(attributeNames) of \(referrer) refers to \(target), \(sentence)",
            ObjectFacts(entity, attributes, objects: [target, object]))
    }

    /// `referrers` refer to an object to be deleted.
    func denied(_ object: ObjectID, _ referrers: [ObjectID]) -> StoreError {
        let entity = layout.entity.name.text
        let named = referrers.prefix(10).map(\.description).joined(separator: ", ")
        let more = referrers.count > 10 ? " and more" : ""
        let refers = referrers.count > 1 ? "refer" : "refers"
        return StoreError(
            .deleteDenied,
            "\(object) cannot be deleted: \(attributeNames) of “\(entity)” \(named)\(more) \(refers) to it. Change or "
                + "delete the referring objects first.",
            ObjectFacts(entity, attributes, objects: referrers))
    }

    /// `other` has the value that `object` should get; `isNew` if it is not in the store yet.
    func uniqueViolation(of object: ObjectID, by other: ObjectID, isNew: Bool) -> StoreError {
        let reason =
            isNew
            ? "two objects of this transaction have the same value: give one of them another value."
            : "object \(other) has this value already: choose another value, or change that object."
        return StoreError(
            .uniqueViolation,
            "\(attributeNames) of “\(layout.entity.name)” must be unique, and \(reason)",
            ObjectFacts(layout.entity.name.text, attributes, objects: [other, object]))
    }

    /// The objects of each pair have the same values.
    func uniqueViolation(_ pairs: [(ObjectID, ObjectID)]) -> StoreError {
        let listed = pairs.map { "\($0.1.number) and \($0.0.number)" }.joined(separator: ", ")
        return StoreError(
            .uniqueViolation,
            "Objects \(listed) of “\(layout.entity.name)” have the same value of \(attributeNames), which "
                + "must be unique: give one of them another value, or delete it.",
            ObjectFacts(layout.entity.name.text, attributes, object: pairs.first?.1))
    }
}
