// What a store lacks of the entities that a program declares when it opens it.

package import AnnalsFile

extension SchemaPlan {
    /// The changes that add what is declared and not there: entities, attributes, indexes, keys. Nothing is ever taken away, and where the
    /// store is more generous (an attribute that may be absent) it stays so. Whether history is kept stays as the store says: off is
    /// taking away, and a program that says nothing must not turn it on.
    ///
    /// Throws `schemaMismatch` where the store has an attribute of that name and another type or target.
    package static func additions(
        of declared: [EntityDescription], to catalog: SchemaCatalog
    ) throws(StoreError) -> [SchemaChange] {
        var changes: [SchemaChange] = []
        for entity in declared {
            // One of the store's own names is refused where it would be added.
            guard !IdentifierName(entity.name).isReserved, let number = catalog.number(ofEntity: entity.name),
                let definition = catalog.entity(number, version: catalog.newestVersion)
            else {
                changes.append(.addEntity(entity))
                continue
            }
            let present = try EntityDescription(definition, catalog)
            for attribute in entity.attributes {
                guard let there = present[attribute.name] else {
                    changes.append(.addAttribute(attribute, to: entity.name))
                    continue
                }
                if let change = try addition(of: attribute, to: there, of: entity.name) { changes.append(change) }
            }
            for key in entity.keys {
                guard let there = present.keys.first(where: { $0.attributes == key.attributes }) else {
                    changes.append(.addKey(key, to: entity.name))
                    continue
                }
                guard key.isUnique && !there.isUnique else { continue }
                changes += [.removeKey(there, from: entity.name), .addKey(key, to: entity.name)]
            }
        }
        return changes
    }

    private static func addition(
        of declared: AttributeDescription, to there: AttributeDescription, of entity: String
    ) throws(StoreError) -> SchemaChange? {
        guard declared.type == there.type else {
            throw StoreError(
                .schemaMismatch,
                "“\(declared.name)” of “\(entity)” is declared as \(declared.type) and is \(there.type) in the store: types do "
                    + "not change, so declare it as it is, or add an attribute under another name and carry the values over."
            )
        }
        guard declared.target == nil || declared.target == there.target else {
            throw StoreError(
                .schemaMismatch,
                "“\(declared.name)” of “\(entity)” refers to other objects than is declared: declare it as it is.")
        }
        let isIndexed = declared.isIndexed && !there.isIndexed
        let isUnique = declared.isUnique && !there.isUnique
        let isPreserved = declared.isPreservedOnDeletion && !there.isPreservedOnDeletion
        guard isIndexed || isUnique || isPreserved else { return nil }
        return .changeAttribute(
            declared.name, of: entity, isIndexed: isIndexed ? true : nil, isUnique: isUnique ? true : nil,
            isPreservedOnDeletion: isPreserved ? true : nil)
    }
}
