// Compares the entities that a program declares at opening with the store's.

extension SchemaPlan {
    /// Returns the changes that add missing declared items: entities, attributes, indexes, keys.
    ///
    /// Nothing is ever removed. If the store is more permissive (an attribute may be null) or stricter through an index
    /// (an attribute is unique), it stays so. A declaration without a default accepts any default. Without target,
    /// inverse and delete rule, it accepts any of these; without only an inverse, any inverse. The store's history
    /// policy stays: a program that declares none must not turn history on.
    ///
    /// Throws `schemaMismatch` if an attribute of the store has another type, target, inverse, delete rule or default,
    /// or is required but declared optional.
    package static func additions(
        of declared: [EntityDescription], to catalog: SchemaCatalog
    ) throws(StoreError) -> [SchemaChange] {
        var changes: [SchemaChange] = []
        for entity in declared {
            // A reserved name is refused when it would be added.
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
            changes += additions(of: entity.keys, to: present.keys, of: entity.name)
        }
        return changes
    }

    /// Adds missing keys, and makes existing ones unique.
    static func additions(
        of declared: [IndexDescription], to present: [IndexDescription], of entity: String
    ) -> [SchemaChange] {
        var changes: [SchemaChange] = []
        for key in declared {
            guard let there = present.first(where: { $0.attributes == key.attributes }) else {
                changes.append(.addKey(key, to: entity))
                continue
            }
            guard key.isUnique && !there.isUnique else { continue }
            changes += [.removeKey(there, from: entity), .addKey(key, to: entity)]
        }
        return changes
    }

    /// The change that an attribute of the store needs to match a declared one; nil if it matches. Throws
    /// `schemaMismatch`.
    static func addition(
        of declared: AttributeDescription, to there: AttributeDescription, of entity: String
    ) throws(StoreError) -> SchemaChange? {
        guard declared.type == there.type else {
            throw mismatch(
                declared, of: entity, "has the type \(there.type)", "the type \(declared.type)",
                "types do not change, so declare the stored type, or add an attribute with another name and copy the "
                    + "values."
            )
        }
        guard !declared.isOptional || there.isOptional else {
            throw mismatch(
                declared, of: entity, "is required", "it as optional",
                "declare it as required, or make it optional first: “changeSchema” with “changeAttribute”.")
        }
        try requireSameReference(declared, there, of: entity)
        if let value = declared.defaultValue {
            // In the stored form: sets are sorted.
            let kept = try Value(try value.storedValue())
            guard kept == there.defaultValue ?? .null else {
                throw mismatch(
                    declared, of: entity,
                    there.defaultValue.map { "has the default \(shortText($0))" } ?? "has no default",
                    "the default \(shortText(value))",
                    "defaults do not change, so declare the stored default, or leave the default out.")
            }
        }
        return missingParts(of: there, for: declared, of: entity)
    }

    /// The indexes and the other side that an attribute of the store lacks; nil if it has them. Its default, and
    /// whether it may be null, do not change.
    static func missingParts(
        of there: AttributeDescription, for declared: AttributeDescription, of entity: String
    ) -> SchemaChange? {
        let isIndexed = declared.isIndexed && !there.isIndexed
        let isUnique = declared.isUnique && !there.isUnique
        let isPreserved = declared.isPreservedOnDeletion && !there.isPreservedOnDeletion
        let inverse = there.inverse == nil ? declared.inverse : nil
        guard isIndexed || isUnique || isPreserved || inverse != nil else { return nil }
        return .changeAttribute(
            declared.name, of: entity, isIndexed: isIndexed ? true : nil, isUnique: isUnique ? true : nil,
            isPreservedOnDeletion: isPreserved ? true : nil, inverse: inverse)
    }

    /// Throws if the declared target, inverse or delete rule differs from the store's.
    private static func requireSameReference(
        _ declared: AttributeDescription, _ there: AttributeDescription, of entity: String
    ) throws(StoreError) {
        guard let (here, wanted) = differenceOfReference(declared, there) else { return }
        let isTarget = declared.target != nil && declared.target != there.target
        throw mismatch(
            declared, of: entity, here, wanted,
            isTarget
                ? "targets do not change, so declare the stored target, or replace it: “changeSchema” with "
                    + "“replaceAttribute”, or a migration."
                : "declare the stored one, or change it: “changeSchema” with “changeAttribute”, or a migration.")
    }

    /// How the target, inverse or delete rule of an attribute of the store differs from a declared one, as parts of a
    /// sentence; nil if the store matches the declaration.
    static func differenceOfReference(
        _ declared: AttributeDescription, _ there: AttributeDescription
    ) -> (there: String, declared: String)? {
        let saysNothing = declared.target == nil && declared.inverse == nil && declared.whenTargetIsDeleted == .noAction
        guard !saysNothing else { return nil }
        if let target = declared.target, target != there.target {
            return (
                there.target.map { "refers to “\($0)”" } ?? "refers to any entity", "a reference to “\(target)”"
            )
        }
        // A property that the store lacks is added later.
        if let inverse = declared.inverse, let known = there.inverse, !isSameName(inverse, known) {
            return ("has the inverse “\(known)”", "the inverse “\(inverse)”")
        }
        guard declared.whenTargetIsDeleted == there.whenTargetIsDeleted else {
            return ("has the delete rule \(there.whenTargetIsDeleted)", "the rule \(declared.whenTargetIsDeleted)")
        }
        return nil
    }

    static func mismatch(
        _ attribute: AttributeDescription, of entity: String, _ there: String, _ declared: String, _ advice: String
    ) -> StoreError {
        StoreError(
            .schemaMismatch,
            "“\(attribute.name)” of “\(entity)” \(there) in the store, but the program declares \(declared): \(advice)",
            ObjectFacts(entity, [attribute.name]))
    }

    private static func shortText(_ value: Value) -> String {
        let text = value.date.map { "date(\($0.text))" } ?? "\(value)"
        return text.count <= 60 ? text : text.prefix(60) + "…"
    }
}
