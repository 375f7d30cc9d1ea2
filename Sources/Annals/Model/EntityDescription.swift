// The description of one entity in a schema, as values that programs write and read.

/// Whether the history of an entity's objects is kept. How long it is kept is a setting of the store
/// (`Store.setRetention`).
public enum HistoryPolicy: String, CaseIterable, Sendable, Hashable, Codable {
    /// All changes are part of history.
    case full
    /// No changes are part of history. Turning history off removes the existing history. If it is turned on again, it
    /// begins with the transaction that does so.
    case off
}

/// An entity: its name, its attributes in order, its compound keys, and whether its history is kept.
public struct EntityDescription: Hashable, Sendable {
    /// 1 to 255 bytes of UTF-8, different from the names of all other entities.
    public var name: String
    /// The attributes in order. Positions count from 0.
    public var attributes: [AttributeDescription]
    /// The compound keys. For an index over one attribute, use the attribute's `isIndexed` or `isUnique`.
    public var keys: [IndexDescription]
    /// Used when the entity is added. Declaring an entity that the store has already does not change this: use
    /// `SchemaChange.changeEntity`.
    public var history: HistoryPolicy

    /// Describes an entity. Nothing is validated until it is added to a store.
    public init(
        _ name: String, attributes: [AttributeDescription], keys: [IndexDescription] = [],
        history: HistoryPolicy = .full
    ) {
        (self.name, self.attributes, self.keys, self.history) = (name, attributes, keys, history)
    }

    /// The attribute of that name, or nil. Linear in the number of attributes.
    public subscript(attribute: String) -> AttributeDescription? { attributes.first { isSameName($0.name, attribute) } }
}

extension EntityDescription: Codable {
    private enum CodingKeys: String, CodingKey {
        case name, attributes, keys, history
    }

    /// Old descriptions lack a history policy.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            try container.decode(String.self, forKey: .name),
            attributes: try container.decode([AttributeDescription].self, forKey: .attributes),
            keys: try container.decode([IndexDescription].self, forKey: .keys),
            history: try container.decodeIfPresent(HistoryPolicy.self, forKey: .history) ?? .full)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(attributes, forKey: .attributes)
        try container.encode(keys, forKey: .keys)
        if history != .full { try container.encode(history, forKey: .history) }
    }
}

/// An attribute. It is a relationship if its type refers to objects.
public struct AttributeDescription: Hashable, Sendable, Codable {
    /// 1 to 255 bytes of UTF-8, different from the names of all other attributes of the entity.
    public var name: String
    /// The type of its values. It never changes.
    public var type: AttributeType
    /// Whether it can be null.
    public var isOptional: Bool
    /// Whether the store keeps an ordered index of it, for ranges and equality.
    public var isIndexed: Bool
    /// Whether no two objects may have the same value. Finding objects by it is as fast as with an index. Any number of
    /// objects may have null.
    public var isUnique: Bool
    /// Whether history keeps its value when an object is deleted.
    public var isPreservedOnDeletion: Bool
    /// The value of objects inserted without the attribute, or before it existed; nil for null.
    public var defaultValue: Value?
    /// For references only: the entity of the objects referred to; nil for any.
    public var target: String?
    /// For references with a target only: the name of the other side at `target`; nil for none. It may be an attribute
    /// that refers back. If no attribute has the name, programs read the other side from the index of this one.
    public var inverse: String?
    /// For references only: the effect on this object of deleting an object that it refers to. It is not called
    /// `deleteRule`, because that of Core Data and SwiftData belongs to the object that is deleted.
    public var whenTargetIsDeleted: DeleteRule

    private enum CodingKeys: String, CodingKey {
        case name, type, isOptional, isIndexed, isUnique, isPreservedOnDeletion, defaultValue, target, inverse
        case whenTargetIsDeleted = "deleteRule"
    }

    /// Describes an attribute. By default it is optional and has no index.
    public init(
        _ name: String, _ type: AttributeType, isOptional: Bool = true, isIndexed: Bool = false, isUnique: Bool = false,
        isPreservedOnDeletion: Bool = false, defaultValue: Value? = nil, target: String? = nil, inverse: String? = nil,
        whenTargetIsDeleted: DeleteRule = .noAction
    ) {
        self.name = name
        self.type = type
        self.isOptional = isOptional
        self.isIndexed = isIndexed
        self.isUnique = isUnique
        self.isPreservedOnDeletion = isPreservedOnDeletion
        self.defaultValue = defaultValue
        self.target = target
        self.inverse = inverse
        self.whenTargetIsDeleted = whenTargetIsDeleted
    }
}

/// An index over several attributes, in order: a compound key.
public struct IndexDescription: Hashable, Sendable, Codable {
    /// The names of the attributes, the most significant first. Each may occur only once.
    public var attributes: [String]
    /// Whether no two objects may have the same values for all of them.
    public var isUnique: Bool

    /// Describes a key over attributes of the entity, the most significant first.
    public init(_ attributes: [String], isUnique: Bool = false) {
        self.attributes = attributes
        self.isUnique = isUnique
    }
}

/// Names are equal if their bytes are, as in the file. Swift strings are also equal if only their Unicode forms differ.
func isSameName(_ left: String, _ right: String) -> Bool { left.hasSameBytes(as: right) }
