// Carrying out migrations: each is one transaction, with its changes of the schema and of rows.

internal import FoundationEssentials

extension Store {
    /// Opens a store for the entities of a program, and carries out the migrations that it has not had.
    ///
    /// A store that has had a migration which is not in the list belongs to a newer version of the program: then the
    /// store's declaration holds, and this program keeps the parts that it does not know.
    ///
    /// Parameters and errors are those of `init(at:entities:options:)`. Also throws `migrationFailed` if a migration
    /// throws: then it has changed nothing, but the migrations before it have run.
    public convenience init(
        at path: String, entities: [any Entity.Type], migrations: [Migration], options: Options = Options()
    ) throws {
        let declaration = try EntityDeclaration(entities)
        let names = migrations.map(\.name)
        guard Set(names).count == names.count, !names.contains("") else {
            throw StoreError(
                .invalidArgument,
                "A migration has an empty name, or two have the same name: give each its own name.")
        }
        try self.init(at: path, options: options)
        extensions.upkeep = DerivedUpkeep(declaration)
        do {
            try prepare(declaration, migrations)
            try declare(declaration.searches)
            extensions.models = declaration
        } catch {
            _ = try? abandon()
            throw error
        }
    }

    /// Creates a store in memory for the entities of a program. See `init(inMemory:options:)`.
    ///
    /// Throws `StoreError`: `modelInvalid`, and as the initializer that takes descriptions.
    public convenience init(
        inMemory entities: [any Entity.Type], migrations: [Migration] = [], options: Options = Options()
    ) throws {
        let folder = Self.makeMemoryFolder()
        defer { withExtendedLifetime(folder) {} }
        try self.init(at: folder.storePath, entities: entities, migrations: migrations, options: options)
    }

    func prepare(_ declaration: EntityDeclaration, _ migrations: [Migration]) throws {
        if options.access == .readWrite { try addUnderFormerNames(declaration, migrations) }
        var done = try migrationsDone()
        if try newest().view.catalog.isWithoutEntities, !migrations.isEmpty {
            guard options.access == .readWrite else {
                throw StoreError(
                    .schemaMismatch,
                    "The store is empty, and open for reading only: open it for writing once.", path: path)
            }
            try write { transaction in
                // Another process may have been faster.
                guard transaction.draft.catalog.isWithoutEntities else { return }
                try transaction.change(declaration, [], isOlder: false)
                for migration in migrations { try transaction.note(migration) }
            }
            done = try migrationsDone()
        }
        for migration in migrations where !done.contains(migration.name) {
            guard options.access == .readWrite else {
                throw StoreError(
                    .schemaMismatch,
                    "The migration “\(migration.name)” has not run on the store, which is open for reading only: open "
                        + "it for writing once.", path: path)
            }
            try carryOut(migration, declaration, isLast: migration.name == migrations.last?.name)
        }
        let isOlder = try !migrationsDone().isSubset(of: migrations.map(\.name))
        let rings = declaration.rings
        if options.access == .readWrite, try lacks(rings, declaration, isOlder) {
            // Old objects get derived values in the same transaction, and names are exchanged once.
            try write { try $0.change(declaration, [], isOlder: isOlder) }
        }
        let exchanged = rings.isEmpty ? [] : try snapshot().exchangedNames()
        try add(reserved: true) { (catalog) throws(StoreError) in
            let additions = try declaration.additions(to: catalog, isOlder: isOlder, exchanged: exchanged)
            // A reader needs no place for metadata.
            return self.options.access == .readWrite ? additions + Self.metadataAddition(catalog) : additions
        }
    }

    /// Whether the store has not noted rings of names, or attributes are added that are derived from other sides.
    private func lacks(_ rings: Set<String>, _ declaration: EntityDeclaration, _ isOlder: Bool) throws -> Bool {
        let exchanged = rings.isEmpty ? [] : try snapshot().exchangedNames()
        if !rings.isSubset(of: exchanged) { return true }
        return declaration.addsDerived(
            try declaration.additions(to: newest().view.catalog, isOlder: isOlder, exchanged: exchanged))
    }

    func migrationsDone() throws -> Set<String> {
        let prefix = Transaction.migrationPrefix
        return Set(
            try snapshot().allMetadataKeys().filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) })
    }

    static func metadataAddition(_ catalog: SchemaCatalog) -> [SchemaChange] {
        let isThere = catalog.number(ofEntity: ReservedEntity.metadata.name) != nil
        return isThere ? [] : [.addEntity(ReservedEntity.metadata.description)]
    }

    /// The errors that a migration can throw after its body has ended.
    private static let errorsOfMigrations: [StoreError.Code] = [
        .validationFailed, .uniqueViolation, .requiredMissing, .deleteDenied, .referenceMissing, .valueOutOfRange,
        .tooLarge,
    ]

    private func carryOut(_ migration: Migration, _ declaration: EntityDeclaration, isLast: Bool) throws {
        var isBody = false
        do {
            try write(contextName: migration.name) { transaction in
                isBody = true
                guard try !transaction.snapshot.allMetadataKeys().contains(Transaction.migrationPrefix + migration.name)
                else { return }
                let conversions = try transaction.change(declaration, migration.steps, isOlder: !isLast)
                let context = MigrationContext(
                    transaction: transaction, before: transaction.snapshot, conversions: conversions)
                try migration.body(context)
                try context.convertRest()
                try transaction.note(migration)
                isBody = false
            }
        } catch {
            let known = error as? StoreError
            guard
                isBody || Self.errorsOfMigrations.contains(where: { $0 == known?.code })
            else { throw error }
            var failed = StoreError(
                .migrationFailed,
                "The migration “\(migration.name)” failed, and the store is unchanged: "
                    + (known?.message ?? StoreError.sentence(error)), path: path)
            failed.facts = known?.facts
            throw failed
        }
    }
}

extension Transaction {
    static let migrationPrefix = ReservedEntity.ownKeyPrefix + "migration."

    fileprivate static let exchangePrefix = ReservedEntity.ownKeyPrefix + "exchanged."

    func note(exchange ring: String) throws(StoreError) {
        try setOwnMetadata(Date.now.timeIntervalSince1970, for: Self.exchangePrefix + ring)
    }

    /// Called in the migration's own transaction: MG1.
    func note(_ migration: Migration) throws {
        try setOwnMetadata(Date.now.timeIntervalSince1970, for: Self.migrationPrefix + migration.name)
    }

    /// Carries out the steps, then changes the schema to the declaration, as far as its parts exist then.
    @discardableResult
    fileprivate func change(
        _ declaration: EntityDeclaration, _ steps: [Migration.Step], isOlder: Bool
    ) throws(StoreError) -> [Conversion] {
        let catalog = draft.catalog
        let rings = declaration.rings
        let exchanged = rings.isEmpty ? [] : try snapshot.exchangedNames()
        var changes: [SchemaChange] = []
        var conversions: [Conversion] = []
        func replace(
            _ name: String, of entity: String, _ type: AttributeType, by new: AttributeDescription
        ) throws(StoreError) {
            let old = try SchemaPlan.numbers(ofAttribute: name, of: entity, after: changes, catalog)
            changes.append(.replaceAttribute(name, of: entity, by: new))
            let number = try SchemaPlan.numbers(ofAttribute: name, of: entity, after: changes, catalog).attribute
            // Of an attribute that this migration has made, it goes on with that one's conversion.
            let first = conversions.first { $0.entity == old.entity && $0.attribute == old.attribute }
            conversions.append(
                Conversion(
                    entity: old.entity, old: first?.old ?? old.attribute, attribute: number,
                    types: (first?.types ?? [type]) + [new.type]))
        }
        var stepped = catalog
        for (index, step) in steps.enumerated() {
            // While names are exchanged, two attributes have one name, so there is no schema after this step. An error
            // that stays is thrown after the last step.
            if let next = try? SchemaPlan.catalog(catalog, after: changes) { stepped = next }
            if let entity = step.changedEntity, declaration.declares(entity), !stepped.hasOrRenamed(entity) {
                // The attribute is added as declared.
                continue
            }
            switch step {
            case .change(let change):
                if let name = change.newEntity ?? change.changedEntity { try SchemaPlan.requireOpen(name) }
                changes.append(change)
            case .widen(let name, let entity, let type):
                let there = try attribute(name, entity, changes, catalog)
                guard Conversion.isPossible(there.type, type) else { throw Conversion.impossible(there.type, type) }
                let declared = declaration.attribute(name, of: entity)
                var new = there
                if let declared, declared.type == type {
                    new = declared
                } else if let declared, !isOlder, !steps[(index + 1)...].contains(where: { $0.changes(name, entity) }) {
                    // No later step gives it the declared type.
                    throw StoreError(
                        .schemaRefused,
                        "“\(name)” of “\(entity)” is declared with the type \(declared.type), but widened to \(type): "
                            + "use the same type.")
                }
                new.type = type
                new.defaultValue = nil
                new.isOptional = true
                try replace(name, of: entity, there.type, by: new)
            case .redeclare(let name, let entity):
                let there = try attribute(name, entity, changes, catalog)
                guard var new = declaration.attribute(name, of: entity), new.type == there.type else {
                    throw StoreError(
                        .schemaRefused,
                        "“\(name)” of “\(entity)” is not declared with its type in the store: widen it, or remove the "
                            + "step.")
                }
                if there.isOptional { new.isOptional = true }
                if !declaration.hasOtherValues(name, of: entity, than: there) {
                    changes.append(
                        .changeAttribute(
                            name, of: entity, isOptional: new.isOptional, isIndexed: new.isIndexed || there.isIndexed,
                            isUnique: new.isUnique, isPreservedOnDeletion: new.isPreservedOnDeletion,
                            inverse: new.inverse,
                            whenTargetIsDeleted: new.type.isReference ? new.whenTargetIsDeleted : nil))
                    continue
                }
                try replace(name, of: entity, there.type, by: new)
            }
        }
        stepped = try SchemaPlan.catalog(catalog, after: changes)
        changes +=
            try declaration.additions(to: stepped, isOlder: isOlder, exchanged: exchanged)
            + Store.metadataAddition(stepped)
        let definitions = try SchemaPlan.definitions(for: changes, catalog: catalog, addsReserved: true)
        if !definitions.isEmpty { try draft.changeSchema(definitions) }
        for ring in rings.subtracting(exchanged).inOrder() { try note(exchange: ring) }
        for name in declaration.entitiesWithNewDerived(changes) {
            if let number = draft.catalog.number(ofEntity: name) { refreshDerived(ofEntity: number) }
        }
        return conversions
    }

    /// An attribute as it is after changes of the schema.
    private func attribute(
        _ name: String, _ entity: String, _ changes: [SchemaChange], _ catalog: SchemaCatalog
    ) throws(StoreError) -> AttributeDescription {
        let stepped = try SchemaPlan.catalog(catalog, after: changes)
        guard let number = stepped.number(ofEntity: entity),
            let definition = stepped.entity(number, version: stepped.newestVersion)
        else { throw .unknownEntity(entity) }
        guard let attribute = try EntityDescription(definition, stepped)[name] else {
            throw .unknownAttribute(name, of: entity)
        }
        return attribute
    }
}

extension Migration.Step {
    /// The name of the entity that it changes; nil if it adds one.
    fileprivate var changedEntity: String? {
        switch self {
        case .widen(_, let entity, _), .redeclare(_, let entity): entity
        case .change(let change): change.changedEntity
        }
    }

    /// Whether it gives an attribute of that name another type or name.
    fileprivate func changes(_ name: String, _ entity: String) -> Bool {
        switch self {
        case .widen(let attribute, let other, _), .change(.renameAttribute(let attribute, let other, _)),
            .change(.removeAttribute(let attribute, let other)),
            .change(.replaceAttribute(let attribute, let other, _)):
            isSameName(attribute, name) && isSameName(other, entity)
        default: false
        }
    }
}

extension SchemaChange {
    /// The name of the entity that it changes; nil if it adds one.
    fileprivate var changedEntity: String? {
        switch self {
        case .addEntity: nil
        case .removeEntity(let name), .renameEntity(let name, _), .changeEntity(let name, _),
            .addAttribute(_, let name),
            .removeAttribute(_, let name), .renameAttribute(_, let name, _), .replaceAttribute(_, let name, _),
            .changeAttribute(_, let name, _, _, _, _, _, _), .addKey(_, let name), .removeKey(_, let name):
            name
        }
    }
}

extension SchemaChange {
    /// The name that an entity gets; nil if none gets one.
    fileprivate var newEntity: String? {
        switch self {
        case .addEntity(let entity): entity.name
        case .renameEntity(_, let name): name
        default: nil
        }
    }
}

extension SchemaCatalog {
    /// Whether the newest version has no entity but the store's own (MG2).
    var isWithoutEntities: Bool { entities(version: newestVersion).allSatisfy(\.name.isReserved) }

    /// Whether an entity has that name, or had it before it was renamed.
    fileprivate func hasOrRenamed(_ entity: String) -> Bool {
        number(ofEntity: entity) != nil || number(ofEntityFormerlyNamed: entity) != nil
    }
}

extension SchemaPlan {
    /// A catalog as it will be after changes.
    static func catalog(_ catalog: SchemaCatalog, after changes: [SchemaChange]) throws(StoreError) -> SchemaCatalog {
        let definitions = try definitions(for: changes, catalog: catalog, addsReserved: true)
        guard !definitions.isEmpty else { return catalog }
        var changed = catalog
        try changed.apply(SchemaDefinition(version: catalog.newestVersion + 1, entities: definitions))
        return changed
    }
}

extension EntityDeclaration {
    fileprivate func declares(_ entity: String) -> Bool { models.first(named: entity) != nil }

    /// The declared property of that name; nil if none is.
    fileprivate func attribute(_ name: String, of entity: String) -> AttributeDescription? {
        models.first(named: entity)?.property(named: name)?.description(isNew: true)
    }

    /// The entities to which changes of the schema add attributes that are derived from other sides.
    fileprivate func entitiesWithNewDerived(_ changes: [SchemaChange]) -> Set<String> {
        var names: Set<String> = []
        for change in changes {
            switch change {
            case .addAttribute(let attribute, let entity), .replaceAttribute(_, let entity, let attribute):
                let derived = models.first(named: entity)?.derived ?? []
                let isDerived = derived.contains { isSameName($0.attribute, attribute.name) }
                if isDerived { names.insert(entity) }
            default: continue
            }
        }
        return names
    }

    fileprivate func addsDerived(_ changes: [SchemaChange]) -> Bool { !entitiesWithNewDerived(changes).isEmpty }

    /// Whether old values mean something else in a property: it names another target or default than the store.
    fileprivate func hasOtherValues(_ name: String, of entity: String, than there: AttributeDescription) -> Bool {
        guard let property = models.first(named: entity)?.property(named: name) else { return true }
        let declared = property.description(isNew: false)
        return declared.target != there.target
            || declared.defaultValue.map { $0 != there.defaultValue ?? .null } ?? false
    }
}

extension Snapshot {
    /// The rings of names that the store has noted.
    fileprivate func exchangedNames() throws(StoreError) -> Set<String> {
        let prefix = Transaction.exchangePrefix
        return Set(try allMetadataKeys().filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) })
    }

    /// The handle of an entity by its number; nil if this state has none, or it is the store's own.
    func handle(ofNumber number: UInt16) throws(StoreError) -> EntityHandle? {
        guard let layout = view.shape.newestLayout(number), !layout.isReserved else { return nil }
        try requireKnown(number)
        return EntityHandle(layout)
    }
}
