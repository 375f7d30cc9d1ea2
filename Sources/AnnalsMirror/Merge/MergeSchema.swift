// The facts of a schema that decide how transactions merge: required attributes, unique keys, delete rules.

package import Annals

package struct MergeSchema: Sendable {
    struct Attribute: Sendable {
        var type: AttributeType
        var isOptional: Bool
        var rule: DeleteRule
        var target: String?
        var defaultValue: MergeValue
    }

    /// A unique key: an attribute, or several.
    package struct Key: Hashable, Sendable {
        var entity: String
        var attributes: [String]
    }

    struct Entity: Sendable {
        var attributes: [String: Attribute] = [:]
        var keys: [Key] = []
    }

    private(set) var entities: [String: Entity] = [:]
    /// For names from before renamings. Everything that is merged uses the present ones.
    let presentNames: PresentNames

    package init(_ descriptions: [EntityDescription], presentNames: PresentNames = PresentNames()) {
        self.presentNames = presentNames
        for description in descriptions {
            var entity = Entity()
            for attribute in description.attributes {
                entity.attributes[attribute.name] = Attribute(
                    type: attribute.type, isOptional: attribute.isOptional, rule: attribute.whenTargetIsDeleted,
                    target: attribute.target, defaultValue: attribute.defaultValue.map(MergeValue.init) ?? .null)
                if attribute.isUnique {
                    entity.keys.append(Key(entity: description.name, attributes: [attribute.name]))
                }
            }
            for key in description.keys where key.isUnique {
                entity.keys.append(Key(entity: description.name, attributes: key.attributes))
            }
            entities[description.name] = entity
        }
    }

    func attribute(_ name: String, of entity: String) -> Attribute? { entities[entity]?.attributes[name] }

    func keys(of entity: String) -> [Key] { entities[entity]?.keys ?? [] }
}

extension MergeSchema {
    /// The names of the attributes of an entity, sorted.
    func attributes(of entity: String) -> [String] { (entities[entity]?.attributes.keys.sorted()) ?? [] }

    /// Whether transactions have the same resources by another schema.
    func hasSameResources(as other: MergeSchema) -> Bool {
        presentNames == other.presentNames
            && entities.filter { !$0.value.keys.isEmpty }.mapValues(\.keys)
                == other.entities.filter { !$0.value.keys.isEmpty }.mapValues(\.keys)
    }
}
