// What a schema says of one entity, as values that programs write and read.

/// Whether history is kept of what happens to an entity's objects. How long it stays is said for the store
/// (`Store.setRetention`).
public enum HistoryPolicy: String, CaseIterable, Sendable, Hashable, Codable {
    /// Every change is part of history.
    case full
    /// No change is. Turning history off gives up what there was of it; turned on again, it begins anew with the
    /// transaction that turns it on.
    case off
}

/// An entity: a name, attributes in their order, compound keys, and whether its changes are part of history.
public struct EntityDescription: Hashable, Sendable {
    /// 1 to 255 bytes of UTF-8, unlike that of any other entity.
    public var name: String
    /// In their order, which positions count from 0.
    public var attributes: [AttributeDescription]
    /// The compound keys. An index over a single attribute is part of the attribute.
    public var keys: [IndexDescription]
    /// Counts when the entity is added. Declaring one that the store has already changes nothing about it: that is what
    /// `SchemaChange.changeEntity` is for.
    public var history: HistoryPolicy

    /// Describes an entity. Nothing is checked before it is added to a store.
    public init(
        _ name: String, attributes: [AttributeDescription], keys: [IndexDescription] = [],
        history: HistoryPolicy = .full
    ) {
        self.name = name
        self.attributes = attributes
        self.keys = keys
        self.history = history
    }

    /// The attribute of that name. Linear.
    public subscript(attribute: String) -> AttributeDescription? { attributes.first { isSameName($0.name, attribute) } }
}

extension EntityDescription: Codable {
    private enum CodingKeys: String, CodingKey {
        case name, attributes, keys, history
    }

    /// What says nothing of history is from before there was a choice.
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

/// An attribute, or a relationship: an attribute whose type refers to objects.
public struct AttributeDescription: Hashable, Sendable, Codable {
    /// 1 to 255 bytes of UTF-8, unlike that of any other attribute of the entity.
    public var name: String
    /// What kind of value it has. It never changes.
    public var type: AttributeType
    /// Whether objects may lack it.
    public var isOptional: Bool
    /// Whether an ordered index is kept, for ranges and equality.
    public var isIndexed: Bool
    /// Whether no two objects may have the same value. Such an attribute is found as fast as an indexed one. Absent
    /// values are no values.
    public var isUnique: Bool
    /// Whether history keeps the value of a deleted object.
    public var isPreservedOnDeletion: Bool
    /// What an object has that was inserted without the attribute, or before there was one; nil for nothing.
    public var defaultValue: Value?
    /// The entity of the objects referred to; nil for any. For references only.
    public var target: String?
    /// The attribute of `target` that refers back; nil for none.
    public var inverse: String?
    /// What becomes of this object when the one referred to is deleted.
    public var deleteRule: DeleteRule

    /// Describes an attribute: optional and without an index, unless said otherwise.
    public init(
        _ name: String, _ type: AttributeType, isOptional: Bool = true, isIndexed: Bool = false, isUnique: Bool = false,
        isPreservedOnDeletion: Bool = false, defaultValue: Value? = nil, target: String? = nil, inverse: String? = nil,
        deleteRule: DeleteRule = .noAction
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
        self.deleteRule = deleteRule
    }
}

/// An index over several attributes, in order: a compound key.
public struct IndexDescription: Hashable, Sendable, Codable {
    /// Names of attributes, the most significant first, none twice.
    public var attributes: [String]
    /// Whether no two objects may have the same values for all of them.
    public var isUnique: Bool

    /// Describes a key over attributes of the entity, the most significant first.
    public init(_ attributes: [String], isUnique: Bool = false) {
        self.attributes = attributes
        self.isUnique = isUnique
    }
}

/// Names are the same when their bytes are, as in the file: strings would compare equal where letters are composed
/// differently.
func isSameName(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }
