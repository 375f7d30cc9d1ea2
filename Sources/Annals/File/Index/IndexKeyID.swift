// The ordered indexes of an entity, by its definition.

/// Identifies one ordered index by its attributes, in order.
package struct IndexID: Hashable, Sendable {
    package let entity: UInt16
    /// Attribute numbers; at least one.
    package let attributes: [UInt16]
    /// Whether no two objects may have the same key.
    package let isUnique: Bool

    package init(entity: UInt16, attributes: [UInt16], isUnique: Bool) {
        (self.entity, self.attributes, self.isUnique) = (entity, attributes, isUnique)
    }

    /// The indexes of an entity: one for each attribute that is indexed or unique or refers to objects, and one for
    /// each key, without duplicates. Keys and options with the same attributes in the same order share one index,
    /// unique if any of them is. The index of a list of objects has an entry for each of its elements, and is never
    /// unique.
    ///
    /// In the order of the attributes, then of the keys. Keys with lists are skipped: `requireIndexable` refuses them
    /// when a schema is made.
    package static func all(of entity: EntityDefinition) -> [IndexID] {
        guard entity.state == .present else { return [] }
        var wanted: [IndexID] = []
        for attribute in entity.attributes where attribute.isInIndex {
            let isUnique = attribute.flags.contains(.unique) && !attribute.type.isObjectList
            wanted.append(IndexID(entity: entity.number, attributes: [attribute.number], isUnique: isUnique))
        }
        let single = entity.attributes.compactMap { $0.type.isObjectList ? nil : $0.number }.inOrder()
        for key in entity.keys where key.attributes.allSatisfy(single.hasSorted) {
            wanted.append(IndexID(entity: entity.number, attributes: key.attributes, isUnique: key.isUnique))
        }
        // No two attributes have the same number: only keys can be duplicates.
        if entity.keys.isEmpty { return wanted }
        var places: [[UInt16]: Int] = [:]
        var indexes: [IndexID] = []
        for index in wanted {
            if let place = places[index.attributes] {
                if index.isUnique { indexes[place] = index }
            } else {
                places[index.attributes] = indexes.count
                indexes.append(index)
            }
        }
        return indexes
    }

    /// Throws `invalidArgument` if the definition needs more for a list of objects than the index of its elements.
    package static func requireIndexable(_ entity: EntityDefinition) throws(StoreError) {
        let inKeys = Set(entity.keys.flatMap(\.attributes))
        for attribute in entity.attributes where attribute.type.isObjectList {
            guard attribute.flags.isDisjoint(with: [.indexed, .unique]), !inKeys.contains(attribute.number) else {
                throw StoreError(
                    .invalidArgument,
                    "The attribute \"\(attribute.name)\" of \"\(entity.name)\" is a list of objects: it cannot be "
                        + "indexed, unique or part of a key. Its elements already have an index.")
            }
        }
    }

    /// The location of each attribute of this index in rows of that layout.
    ///
    /// `entity` is the definition in force: it defines the value of an attribute in older rows. Throws
    /// `invalidArgument` if it does not have an attribute of the index.
    package func columns(
        in layout: RowLayout, of entity: EntityDefinition
    ) throws(StoreError) -> [IndexColumn] {
        var columns: [IndexColumn] = []
        columns.reserveCapacity(attributes.count)
        for number in attributes {
            guard let attribute = entity.attributes.first(where: { $0.number == number }) else {
                throw StoreError(
                    .invalidArgument,
                    "An index is defined for an attribute that the entity does not have.")
            }
            if let position = layout.position(ofAttribute: number) {
                columns.append(.position(position))
            } else {
                columns.append(.value(attribute.valueBeforeItExisted, attribute.type))
            }
        }
        return columns
    }
}

/// The source of one component of a row's key.
package enum IndexColumn: Sendable {
    /// The attribute at that position of the row's layout.
    case position(Int)
    /// The row has no such attribute, and this value is used instead.
    case value(StoredValue, AttributeType)
}
