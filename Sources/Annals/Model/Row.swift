// An object as a value: its ID, and a value for each attribute.

/// The values of one object in one state of a store, independent of any store or snapshot.
///
/// All rows of a scan share the names, so a row takes memory for its values only.
public struct Row: Hashable, Sendable {
    /// The ID of the object.
    public let id: ObjectID
    /// The name of its entity.
    public let entity: String
    /// The names of the entity's attributes, in the order of the schema.
    public let attributes: [String]
    /// The values, one for each name.
    public let values: [Value]

    /// Creates a row. There must be as many values as names: otherwise this traps.
    public init(id: ObjectID, entity: String, attributes: [String], values: [Value]) {
        precondition(attributes.count == values.count, "A row has one value for each attribute.")
        (self.id, self.entity, self.attributes, self.values) = (id, entity, attributes, values)
    }

    /// The value of the attribute of that name: `null` if the object has no value, nil if the entity has no such
    /// attribute. Linear in the number of attributes.
    public subscript(attribute: String) -> Value? {
        attributes.firstIndex { isSameName($0, attribute) }.map { values[$0] }
    }

    /// The value of the attribute of that name; `null` if the object has no value. Linear in the number of attributes.
    ///
    /// - Throws: `StoreError.unknownAttribute` if the entity has no attribute of that name.
    public func value(_ attribute: String) throws -> Value {
        guard let value = self[attribute] else { throw StoreError.unknownAttribute(attribute, of: entity) }
        return value
    }
}

extension Row: Codable {
    private enum CodingKeys: String, CodingKey {
        case id, entity, attributes, values
    }

    /// Decodes an object with the members `id`, `entity`, `attributes` (names) and `values` (one for each name).
    ///
    /// - Throws: `DecodingError.dataCorrupted` if the numbers of names and values differ.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let attributes = try container.decode([String].self, forKey: .attributes)
        let values = try container.decode([Value].self, forKey: .values)
        guard attributes.count == values.count else {
            throw DecodingError.dataCorruptedError(
                forKey: .values, in: container, debugDescription: "A row has one value for each attribute.")
        }
        self.init(
            id: try container.decode(ObjectID.self, forKey: .id),
            entity: try container.decode(String.self, forKey: .entity), attributes: attributes, values: values)
    }
}
