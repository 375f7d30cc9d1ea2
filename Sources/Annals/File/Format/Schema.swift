// The content of a schema: entities, their attributes and keys, as values.

/// Offsets of the fields of a schema frame's table.
package enum SchemaField {
    package static let version = 0
    package static let definitions = 2
    package static let zero = 4
    package static let bytes = 8
}

/// Offsets of the fields of an entity's definition.
package enum EntityField {
    package static let definitionBytes = 0
    package static let entity = 4
    package static let state = 6
    package static let flags = 7
    package static let nameBytes = 8
    package static let attributes = 10
    package static let keys = 12
    package static let zero = 14
    package static let bytes = 16
}

/// Offsets of the fields of an attribute's definition.
package enum AttributeField {
    package static let number = 0
    package static let type = 2
    package static let flags = 3
    package static let target = 4
    package static let inverseBytes = 6
    package static let deleteRule = 8
    package static let zero = 9
    package static let nameBytes = 10
    package static let defaultBytes = 12
    package static let parameterBytes = 16
    package static let zero2 = 18
    package static let bytes = 20
    /// The value of `defaultBytes` for an attribute without a default.
    package static let noDefault: UInt32 = 4_294_967_295
}

package struct AttributeFlags: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let optional = AttributeFlags(rawValue: 1)
    package static let indexed = AttributeFlags(rawValue: 2)
    package static let unique = AttributeFlags(rawValue: 4)
    package static let preservedOnDeletion = AttributeFlags(rawValue: 8)
    package static let known: AttributeFlags = [.optional, .indexed, .unique, .preservedOnDeletion]
}

package struct AttributeDefinition: Hashable, Sendable {
    /// From 1, never reused within the entity.
    package var number: UInt16
    package var type: AttributeType
    package var flags: AttributeFlags
    /// The number of the entity to which the reference leads; 0 for any.
    package var target: UInt16
    /// The name of the other side at `target`; nil for none. Often no attribute has it: then programs read the other
    /// side from the index of this one.
    package var inverse: IdentifierName?
    package var deleteRule: DeleteRule
    package var name: IdentifierName
    /// A slot's content, or a variable value's bytes.
    package var defaultValue: [UInt8]?
    /// Parameters of later formats. This program only copies them.
    package var parameters: [UInt8] = []

    package init(
        number: UInt16, type: AttributeType, flags: AttributeFlags = [], target: UInt16 = 0, inverse: String? = nil,
        deleteRule: DeleteRule = .noAction, name: String, defaultValue: [UInt8]? = nil
    ) {
        (self.number, self.type, self.flags, self.target) = (number, type, flags, target)
        self.inverse = inverse.map { IdentifierName($0) }
        self.deleteRule = deleteRule
        self.name = IdentifierName(name)
        self.defaultValue = defaultValue
    }

    package var isOptional: Bool { flags.contains(.optional) }

    /// Whether a reference of this attribute may lead to objects of that one's entity.
    package func mayRefer(to object: ObjectID) -> Bool { target == 0 || target == object.entityNumber }
}

/// A compound key: its attributes, in order.
package struct KeyDefinition: Hashable, Sendable {
    package var isUnique: Bool
    package var attributes: [UInt16]

    package init(isUnique: Bool, attributes: [UInt16]) {
        self.isUnique = isUnique
        self.attributes = attributes
    }
}

/// An entity as one schema version defines it.
package struct EntityDefinition: Hashable, Sendable {
    /// The prefix of the names of entities that a store keeps for itself: their objects are the store's own notes.
    package static let reservedPrefix = "_annals."

    package enum State: UInt8, Sendable {
        case present = 1
        case removed = 2
    }

    /// From 1, never reused.
    package var number: UInt16
    package var state: State
    package var keepsNoHistory: Bool
    package var name: IdentifierName
    package var attributes: [AttributeDefinition]
    package var keys: [KeyDefinition]

    package init(
        number: UInt16, keepsNoHistory: Bool = false, name: String, attributes: [AttributeDefinition],
        keys: [KeyDefinition] = []
    ) {
        self.init(number, .present, keepsNoHistory, IdentifierName(name), attributes, keys)
    }

    /// The definition that removes an entity.
    package static func removal(of number: UInt16) -> EntityDefinition {
        EntityDefinition(number, .removed, false, IdentifierName(""), [], [])
    }

    init(
        _ number: UInt16, _ state: State, _ keepsNoHistory: Bool, _ name: IdentifierName,
        _ attributes: [AttributeDefinition], _ keys: [KeyDefinition]
    ) {
        (self.number, self.state, self.keepsNoHistory, self.name) = (number, state, keepsNoHistory, name)
        (self.attributes, self.keys) = (attributes, keys)
    }
}

/// The additions and changes of one schema version.
package struct SchemaDefinition: Hashable, Sendable {
    package var version: UInt16
    package var entities: [EntityDefinition]

    package init(version: UInt16, entities: [EntityDefinition]) {
        self.version = version
        self.entities = entities
    }
}

/// The name of an entity or attribute. Two are equal when their UTF-8 is, as in the file: strings also compare equal if
/// letters are composed differently.
package struct IdentifierName: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init(_ text: String) { self.text = text }

    package var description: String { text }

    /// Whether an entity of that name is one of the store's own.
    package var isReserved: Bool { text.utf8.starts(with: EntityDefinition.reservedPrefix.utf8) }

    package static func == (left: IdentifierName, right: IdentifierName) -> Bool {
        left.text.hasSameBytes(as: right.text)
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension AttributeDefinition {
    /// Whether an index covers the attribute alone.
    var isInIndex: Bool { flags.contains(.indexed) || flags.contains(.unique) || type.isReference }
}

extension EntityDefinition {
    /// The numbers of the attributes that are in an index, alone or as part of a key.
    var attributesInIndexes: Set<UInt16> {
        Set(attributes.lazy.filter(\.isInIndex).map(\.number)).union(keys.lazy.flatMap(\.attributes))
    }
}
