// The schema changes that an exported transaction needs in a store. Pure functions.

enum ApplySchema {
    /// Returns the definitions of the next version: the transaction's renames, parts of its schema that the store
    /// lacks, and the store's own entities if they are missing. These come last, so that in a new store the entities
    /// have the same numbers as in the exporting one. Throws `schemaMismatch`, `schemaRefused`.
    ///
    /// - Parameters:
    ///   - transaction: Nil if only the store's own entities are requested.
    ///   - keepsTypes: Whether an attribute that has another type there stays as it is here: then the caller looks at
    ///     the values.
    static func definitions(
        for transaction: ExportedTransaction?, _ catalog: SchemaCatalog, isMerged: Bool = false,
        keepsTypes: Bool = false
    ) throws(StoreError) -> [EntityDefinition] {
        var changes: [SchemaChange] = []
        if let transaction { changes = try self.changes(transaction, catalog, keepsTypes) }
        for own in ReservedEntity.all + (isMerged ? [ReservedEntity.merged] : [])
        where catalog.number(ofEntity: own.name) == nil {
            changes.append(.addEntity(own.description))
        }
        // So it is for almost all transactions.
        if changes.isEmpty { return [] }
        return try SchemaPlan.definitions(for: changes, catalog: catalog, addsReserved: true)
    }

    private static func changes(
        _ transaction: ExportedTransaction, _ catalog: SchemaCatalog, _ keepsTypes: Bool
    ) throws(StoreError) -> [SchemaChange] {
        guard var schema = transaction.schema else { return [] }
        // A default that refers to an object would name a different object here.
        for entity in schema.indices {
            for attribute in schema[entity].attributes.indices
            where schema[entity].attributes[attribute].type.isReference {
                schema[entity].attributes[attribute].defaultValue = nil
            }
        }
        var changes: [SchemaChange] = []
        guard !schema.contains(where: { IdentifierName($0.name).isReserved }),
            !transaction.renames.contains(where: {
                IdentifierName($0.entity).isReserved || ($0.attribute == nil && IdentifierName($0.name).isReserved)
            })
        else { throw .malformedExport("its schema has names that are reserved for the store's own entities") }
        var renamed = catalog
        for rename in transaction.renames {
            guard let change = try change(rename, renamed) else { continue }
            let definitions = try SchemaPlan.definitions(for: [change], catalog: renamed)
            try renamed.apply(SchemaDefinition(version: renamed.newestVersion + 1, entities: definitions))
            changes.append(change)
        }
        // A transaction may use names from before a renaming here.
        schema = NamesBefore.renamed(schema, renamed)
        return changes + (try additions(of: schema, to: renamed, keepsTypes))
    }

    /// The changes after which the store can hold everything that the transaction may write. A default that both have
    /// stays as it is here, because an exported insert has all values. An attribute that may be null there may be null
    /// here, too.
    private static func additions(
        of schema: [EntityDescription], to catalog: SchemaCatalog, _ keepsTypes: Bool
    ) throws(StoreError) -> [SchemaChange] {
        var changes: [SchemaChange] = []
        for entity in schema {
            guard let number = catalog.number(ofEntity: entity.name),
                let definition = catalog.entity(number, version: catalog.newestVersion)
            else {
                changes.append(.addEntity(entity))
                continue
            }
            let present = try EntityDescription(definition, catalog)
            for var attribute in entity.attributes {
                guard let there = present[attribute.name] else {
                    // Objects here have no value for it.
                    if attribute.defaultValue == nil { attribute.isOptional = true }
                    changes.append(.addAttribute(attribute, to: entity.name))
                    continue
                }
                if keepsTypes, attribute.type != there.type { continue }
                try requireSame(attribute, there, of: entity.name)
                if attribute.isOptional, !there.isOptional {
                    changes.append(.changeAttribute(there.name, of: entity.name, isOptional: true))
                }
                let parts = SchemaPlan.missingParts(of: there, for: attribute, of: entity.name)
                if let parts { changes.append(parts) }
            }
            changes += SchemaPlan.additions(of: entity.keys, to: present.keys, of: entity.name)
        }
        return changes
    }

    /// Throws `schemaMismatch`, with advice for a program that applies transactions.
    private static func requireSame(
        _ attribute: AttributeDescription, _ there: AttributeDescription, of entity: String
    ) throws(StoreError) {
        let title = "“\(attribute.name)” of “\(entity)”"
        guard there.type == attribute.type else {
            throw mismatch(
                "\(title) is \(attribute.type) in the transaction, but \(there.type) in this store, and applying does "
                    + "not change types: replace the attribute here first (“annals load --widen” does it), or clean "
                    + "the other store's history up to here and apply its export to a new store.", attribute, entity)
        }
        guard let (here, declared) = SchemaPlan.differenceOfReference(attribute, there) else { return }
        throw mismatch(
            "\(title) \(here) in this store, but has \(declared) in the transaction: change it in one of the stores "
                + "first, with “changeSchema” or a migration.", attribute, entity)
    }

    private static func mismatch(_ message: String, _ attribute: AttributeDescription, _ entity: String) -> StoreError {
        StoreError(.schemaMismatch, message, ObjectFacts(entity, [attribute.name]))
    }

    /// Nil if the store does not have the renamed thing, or has the new name already.
    private static func change(
        _ rename: ExportedRename, _ catalog: SchemaCatalog
    ) throws(StoreError) -> SchemaChange? {
        guard let number = catalog.number(ofEntity: rename.entity),
            let entity = catalog.entity(number, version: catalog.newestVersion)
        else { return nil }
        guard let attribute = rename.attribute else {
            return catalog.number(ofEntity: rename.name) == nil ? .renameEntity(rename.entity, to: rename.name) : nil
        }
        let names = entity.attributes.map(\.name)
        guard names.contains(IdentifierName(attribute)), !names.contains(IdentifierName(rename.name)) else {
            return nil
        }
        return .renameAttribute(attribute, of: rename.entity, to: rename.name)
    }
}
