// The entities, attributes and objects that an error concerns, as values.

/// The entity, the attributes and the objects that an error concerns.
package struct ObjectFacts: ErrorFacts {
    package var entity: String
    package var attributes: [String]
    package var objects: [ObjectID]

    package init(_ entity: String, _ attributes: [String] = [], object: ObjectID? = nil) {
        self.init(entity, attributes, objects: object.map { [$0] } ?? [])
    }

    package init(_ entity: String, _ attributes: [String], objects: [ObjectID]) {
        (self.entity, self.attributes, self.objects) = (entity, attributes, objects)
    }
}

extension StoreError {
    /// The entity that the error concerns, for `uniqueViolation`, `requiredMissing`, `typeMismatch`, `unknownEntity`
    /// and `unknownAttribute`; for `referenceMissing` and `deleteDenied`, that of the objects that refer; for a value
    /// that cannot be stored, that of its object. Nil for other errors.
    public var entity: String? { (facts as? ObjectFacts)?.entity }

    /// The names of the attributes that the error concerns, in the order of their key. Empty without any.
    public var attributes: [String] { (facts as? ObjectFacts)?.attributes ?? [] }

    /// The object that already has the value, for `uniqueViolation`; the missing target, for `referenceMissing`; the
    /// first referring object, for `deleteDenied`. For `requiredMissing`, `valueOutOfRange` and `tooLarge` the object
    /// that has no value or a wrong one, if it is known. Nil for other errors.
    ///
    /// In errors of a context, the ID of an object that was never saved is the temporary one that its reference has.
    public var object: ObjectID? { objects.first }

    /// The objects that the error concerns. For `deleteDenied`, objects that refer to a deleted one and deny its
    /// deletion, or are not valid without it, at most 100. For `uniqueViolation` and `referenceMissing`, `object` and
    /// then the object to be written.
    public var objects: [ObjectID] { (facts as? ObjectFacts)?.objects ?? [] }

    /// A required attribute of an entity has no value.
    static func required(_ attribute: String, of entity: String) -> StoreError {
        StoreError(
            .requiredMissing, "“\(attribute)” of “\(entity)” is required: give it a value.",
            ObjectFacts(entity, [attribute]))
    }

    package init(_ code: Code, _ message: String, _ facts: ObjectFacts) {
        self.init(code, message)
        self.facts = facts
    }
}
