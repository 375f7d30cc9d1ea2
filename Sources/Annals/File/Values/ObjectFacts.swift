// What an error says of entities, attributes and objects, as values.

/// The entity, the attributes and the object that an error is about.
package struct ObjectFacts: ErrorFacts {
    package var entity: String
    package var attributes: [String]
    package var object: ObjectID?

    package init(_ entity: String, _ attributes: [String] = [], object: ObjectID? = nil) {
        (self.entity, self.attributes, self.object) = (entity, attributes, object)
    }
}

extension StoreError {
    /// The entity that the error is about: of `uniqueViolation`, `requiredMissing`, `typeMismatch`, `unknownEntity` and
    /// `unknownAttribute`. Nil if the error is about something else.
    public var entity: String? { (facts as? ObjectFacts)?.entity }

    /// The names of the attributes that the error is about, in the order of their key. Empty if it is about none.
    public var attributes: [String] { (facts as? ObjectFacts)?.attributes ?? [] }

    /// The object that has the value already, for `uniqueViolation`. Nil for other errors.
    public var object: ObjectID? { (facts as? ObjectFacts)?.object }

    package init(_ code: Code, _ message: String, _ facts: ObjectFacts) {
        self.init(code, message)
        self.facts = facts
    }
}
