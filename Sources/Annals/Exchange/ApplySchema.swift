// The schema changes that an exported transaction needs in a store. Pure functions.

enum ApplySchema {
    /// Returns the definitions of the next version: what the transaction renames, what it has and the store lacks, and
    /// the store's own entities if they are missing. These come last, so that in a new store the entities have the same
    /// numbers as in the exporting one. Throws `schemaMismatch`, `schemaRefused`.
    ///
    /// - Parameter transaction: Nil if only the store's own entities are requested.
    static func definitions(
        for transaction: ExportedTransaction?, _ catalog: SchemaCatalog
    ) throws(StoreError) -> [EntityDefinition] {
        var changes: [SchemaChange] = []
        if let transaction { changes = try self.changes(transaction, catalog) }
        for own in ReservedEntity.all
        where catalog.number(ofEntity: own.name) == nil {
            changes.append(.addEntity(own))
        }
        return try SchemaPlan.definitions(for: changes, catalog: catalog, addsReserved: true)
    }

    private static func changes(
        _ transaction: ExportedTransaction, _ catalog: SchemaCatalog
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
        else { throw .malformedExport("its schema has names that stores keep for themselves") }
        var renamed = catalog
        for rename in transaction.renames {
            guard let change = try change(rename, renamed) else { continue }
            let definitions = try SchemaPlan.definitions(for: [change], catalog: renamed)
            try renamed.apply(SchemaDefinition(version: renamed.newestVersion + 1, entities: definitions))
            changes.append(change)
        }
        // A transaction may use names from before a renaming here.
        schema = NamesBefore.renamed(schema, renamed)
        do throws(StoreError) {
            return changes + (try SchemaPlan.additions(of: schema, to: renamed))
        } catch  where error.code == .schemaMismatch {
            throw Self.mismatch(schema, renamed) ?? error
        }
    }

    /// An error about a type, with advice for a program that applies transactions: it has no declarations to change.
    private static func mismatch(_ schema: [EntityDescription], _ catalog: SchemaCatalog) -> StoreError? {
        for entity in schema {
            guard let number = catalog.number(ofEntity: entity.name),
                let definition = catalog.entity(number, version: catalog.newestVersion),
                let present = try? EntityDescription(definition, catalog)
            else { continue }
            for attribute in entity.attributes {
                guard let there = present[attribute.name], there.type != attribute.type else { continue }
                return StoreError(
                    .schemaMismatch,
                    "“\(attribute.name)” of “\(entity.name)” is \(attribute.type) in the transaction, but "
                        + "\(there.type) in this store, and applying changes no type: replace the attribute here first "
                        + "(“annals load” widens it), or clean the other store's history up to here and apply its "
                        + "export to a new store.")
            }
        }
        return nil
    }

    /// Nil if the store does not have what is renamed, or has the new name already.
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
