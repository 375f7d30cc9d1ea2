// The entities, attributes and objects that an error concerns, as values.

/// The entity, the attributes and the objects that an error is about.
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
    /// The entity that the error is about: of `uniqueViolation`, `requiredMissing`, `typeMismatch`, `unknownEntity` and
    /// `unknownAttribute`; of `referenceMissing` and `deleteDenied` that of the objects that refer; of a value that
    /// cannot be stored that of its object. Nil if the error is about something else.
    public var entity: String? { (facts as? ObjectFacts)?.entity }

    /// The names of the attributes that the error is about, in the order of their key. Empty if it is about none.
    public var attributes: [String] { (facts as? ObjectFacts)?.attributes ?? [] }

    /// The object that has the value already, for `uniqueViolation`; the one that is referred to and does not exist,
    /// for `referenceMissing`; the first one that refers, for `deleteDenied`. For `requiredMissing`, `valueOutOfRange`
    /// and `tooLarge` the object that has no value or a wrong one, if it is known. Nil for other errors.
    ///
    /// In errors of a context, the ID of an object that was never saved is the temporary one that its reference has.
    public var object: ObjectID? { objects.first }

    /// The objects that the error is about. For `deleteDenied`, those that refer to a deleted object and deny that, or
    /// are not valid without it, at most 100. For `uniqueViolation` and `referenceMissing`, `object` and then the
    /// object that was to be written.
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
