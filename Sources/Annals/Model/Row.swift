// An object as a value: its ID, and a value for each attribute.

/// What one object holds in one state of a store, apart from any store or snapshot.
///
/// The names are shared by all rows of a scan: a row costs its values.
public struct Row: Hashable, Sendable {
    public let id: ObjectID
    /// The name of its entity.
    public let entity: String
    /// The names of the entity's attributes, in the order of the schema.
    public let attributes: [String]
    /// A value for each of them.
    public let values: [Value]

    /// There must be as many values as attributes.
    public init(id: ObjectID, entity: String, attributes: [String], values: [Value]) {
        precondition(attributes.count == values.count, "A row has one value for each attribute.")
        self.id = id
        self.entity = entity
        self.attributes = attributes
        self.values = values
    }

    /// The value of the attribute of that name; nil where the entity has none of that name, `null` where the object has no value. Linear
    /// in the number of attributes.
    public subscript(attribute: String) -> Value? {
        attributes.firstIndex { isSameName($0, attribute) }.map { values[$0] }
    }
}
