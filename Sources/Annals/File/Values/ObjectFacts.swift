// What an error says of entities, attributes and objects, as values.

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
    /// `unknownAttribute`; of `referenceMissing` and `deleteDenied` that of the objects that refer. Nil if the error is
    /// about something else.
    public var entity: String? { (facts as? ObjectFacts)?.entity }

    /// The names of the attributes that the error is about, in the order of their key. Empty if it is about none.
    public var attributes: [String] { (facts as? ObjectFacts)?.attributes ?? [] }

    /// The object that has the value already, for `uniqueViolation`; the one that is referred to and does not exist,
    /// for `referenceMissing`; the first one that refers, for `deleteDenied`. Nil for other errors.
    public var object: ObjectID? { objects.first }

    /// The objects that the error is about. For `deleteDenied`, those that refer to a deleted object and deny that, or
    /// are not valid without it, at most 100.
    public var objects: [ObjectID] { (facts as? ObjectFacts)?.objects ?? [] }

    package init(_ code: Code, _ message: String, _ facts: ObjectFacts) {
        self.init(code, message)
        self.facts = facts
    }
}
