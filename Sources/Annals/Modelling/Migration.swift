// Changes of a store that are more than additions: they run once for each store, each in one transaction.
//
// Invariants:
// MG1  A store notes each migration that it has had under its name, in the transaction that carries it out. So it runs
//      once, in whichever process is first, or not at all.
// MG2  A store without entities is new: it notes all migrations and runs none. A store with other entities than the
//      declared ones is not new, because a migration may rename them or move their objects.

internal import FoundationEssentials

/// A change of a store beyond adding missing parts: removing, renaming, other types, other rules, and new values for
/// old objects.
///
/// ```swift
/// let migrations = [
///     Migration("rank as a number", [.widen("rank", of: "Clip", to: .double)]),
///     Migration("no empty titles") { migration in
///         try migration.update(Clip.self) { old, clip in if clip.title.isEmpty { clip.title = "Untitled" } }
///     },
/// ]
/// let store = try Store(at: path, entities: [Clip.self], migrations: migrations)
/// ```
///
/// A migration is one transaction: if anything in it fails, or the process is killed, nothing has changed. History goes
/// on. Migrations run in their order. Never change or rename one that has run on a store: add another.
public struct Migration: Sendable {
    /// The name under which stores note that they have had it.
    public let name: String
    let steps: [Step]
    let body: @Sendable (MigrationContext) throws -> Void

    /// A change of the schema.
    public enum Step: Sendable {
        /// Any change of the schema.
        case change(SchemaChange)
        /// Gives an attribute another type and converts its values: integers to doubles, decimals or strings, doubles
        /// to decimals or strings, Booleans to integers or strings, UUIDs to strings, a reference to a list or a set, a
        /// list to a set.
        ///
        /// The name is the one after the steps before. A later step or migration may widen it again: the last type must
        /// be the declared one.
        case widen(String, of: String, to: AttributeType)
        /// Gives an attribute its present declaration: another delete rule, inverse, uniqueness, default or target.
        /// Values are kept.
        case redeclare(String, of: String)
    }

    /// Describes a migration.
    ///
    /// - Parameters:
    ///   - name: Different from the names of all other migrations.
    ///   - steps: Changes of the schema, which come first.
    ///   - body: Changes of objects, in the new schema.
    public init(
        _ name: String, _ steps: [Step] = [], _ body: @escaping @Sendable (MigrationContext) throws -> Void = { _ in }
    ) {
        (self.name, self.steps, self.body) = (name, steps, body)
    }
}

/// A migration while it runs.
public final class MigrationContext {
    /// The transaction, in the new schema. It sees its own changes.
    public let transaction: Transaction
    /// The state before the migration, in the old schema.
    public let before: Snapshot
    private let conversions: [Conversion]

    fileprivate init(transaction: Transaction, before: Snapshot, conversions: [Conversion]) {
        (self.transaction, self.before, self.conversions) = (transaction, before, conversions)
    }

    /// Changes all objects of an entity: `change` gets each object as it was, and its value in the new schema, with
    /// widened attributes converted. Each object is written once.
    ///
    /// Throws errors of `change`, and as `Transaction.update`.
    public func update<E: Entity>(_ type: E.Type, _ change: (Row, inout E) throws -> Void) throws {
        let (binding, layout) = try transaction.binding(E.self)
        guard let entity = try before.handle(ofNumber: layout.number) else { return }
        var failure: (any Error)?
        try before.lendRows(of: entity) { (row) throws(StoreError) in
            do {
                let reference = Reference<E>(row.id)
                let old = try row.row(entity: entity.name, names: entity.attributes)
                guard var value = try transaction.valueToChange(reference, binding, layout) else { return true }
                let read = transaction.mayReadOtherValues(row.id, binding) ? value : nil
                for conversion in conversions where conversion.entity == layout.number {
                    guard let position = entity.layout.position(ofAttribute: conversion.old) else { continue }
                    try conversion.apply(try row.value(at: position), binding, layout, to: &value)
                }
                try change(old, &value)
                _ = try transaction.write(&value, to: row.id, binding, layout, asRead: read)
                return true
            } catch {
                failure = error
                return false
            }
        }
        if let failure { throw failure }
    }

    /// Converts the values of the objects that the body has not written.
    fileprivate func convertRest() throws(StoreError) {
        for entity in Set(conversions.map(\.entity)).inOrder() {
            guard let handle = try before.handle(ofNumber: entity), let layout = transaction.draft.newestLayout(entity)
            else { continue }
            let conversions = conversions.filter { $0.entity == entity }
            try before.lendRows(of: handle) { (row) throws(StoreError) in
                guard !transaction.draft.isChangedHere(row.id) else { return true }
                var values: [(position: Int, value: StoredValue)] = []
                for conversion in conversions {
                    guard let old = handle.layout.position(ofAttribute: conversion.old),
                        let position = layout.position(ofAttribute: conversion.attribute)
                    else { continue }
                    let value = try conversion.converted(try row.value(at: old))
                    values.append((position, try value.storedValue()))
                }
                values.putInOrder { $0.position < $1.position }
                try transaction.draft.update(row.id, values)
                return true
            }
        }
    }
}

/// The new attribute that replaces one of another type. By numbers: other steps may change the names.
struct Conversion {
    let entity: UInt16
    /// Before the migration.
    let old: UInt16
    let attribute: UInt16
    /// The types that the value has one after the other.
    let types: [AttributeType]

    func apply<E: Entity>(
        _ before: Value, _ binding: EntityBinding, _ layout: RowLayout, to value: inout E
    ) throws(StoreError) {
        guard let position = layout.position(ofAttribute: attribute),
            let index = binding.properties.indices.first(where: { binding.position(of: $0) == position })
        else { return }
        let converted = try converted(before)
        try withUnsafeMutablePointer(to: &value) { (value) throws(StoreError) in
            try binding.store(converted, index, into: UnsafeMutableRawPointer(value))
        }
    }

    func converted(_ value: Value) throws(StoreError) -> Value {
        var value = value
        for (from, to) in zip(types, types.dropFirst()) { value = try Self.converted(value, from, to) }
        return value
    }

    static func converted(_ value: Value, _ from: AttributeType, _ to: AttributeType) throws(StoreError) -> Value {
        if from == to { return value }
        switch (value, to) {
        case (.null, _): return .null
        case (.int(let int), .double): return .double(Double(int))
        case (.int(let int), .decimal): return .decimal(Decimal(int))
        case (.int(let int), .string): return .string("\(int)")
        case (.double(let double), .decimal): return .decimal(Decimal(double))
        case (.double(let double), .string): return .string("\(double)")
        case (.bool(let bool), .int): return .int(bool ? 1 : 0)
        case (.bool(let bool), .string): return .string("\(bool)")
        case (.uuid(let uuid), .string): return .string(uuid.uuidString)
        case (.object(let object), .orderedObjects): return .orderedObjects([object])
        case (.object(let object), .objects): return .objects([object])
        case (.orderedObjects(let objects), .objects): return .objects(objects)
        default: throw impossible(from, to)
        }
    }

    static func impossible(_ from: AttributeType, _ to: AttributeType) -> StoreError {
        StoreError(
            .schemaRefused,
            "An attribute of the type \(from) cannot be widened to \(to): add another attribute, and copy the values "
                + "in the body of a migration.")
    }

    static func isPossible(_ from: AttributeType, _ to: AttributeType) -> Bool {
        switch (from, to) {
        case (.int, .double), (.int, .decimal), (.int, .string), (.double, .decimal), (.double, .string),
            (.bool, .int), (.bool, .string), (.uuid, .string), (.object, .orderedObjects), (.object, .objects),
            (.orderedObjects, .objects):
            true
        default: from == to
        }
    }
}

// MARK: Carrying out

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
        catalog.number(ofEntity: ReservedEntity.metadata.name) == nil ? [.addEntity(ReservedEntity.metadata)] : []
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
    fileprivate func handle(ofNumber number: UInt16) throws(StoreError) -> EntityHandle? {
        guard let layout = view.shape.newestLayout(number), !layout.isReserved else { return nil }
        try requireKnown(number)
        return EntityHandle(layout)
    }
}
