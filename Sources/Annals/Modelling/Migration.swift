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

    init(transaction: Transaction, before: Snapshot, conversions: [Conversion]) {
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
    func convertRest() throws(StoreError) {
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
