// History in a program's own types.

internal import FoundationEssentials

/// What history has kept of a deleted object: its properties that are preserved on deletion.
public struct Tombstone<E: Entity>: Sendable {
    /// The reference that the object had.
    public let reference: Reference<E>
    private let row: Row?

    init(_ reference: Reference<E>, _ row: Row?) { (self.reference, self.row) = (reference, row) }

    /// The value that a property had. Nil if it had none, if the property is not preserved on deletion, or if the value
    /// is none of its type.
    public subscript<V>(path: any KeyPath<E, V> & Sendable) -> V? {
        value(MemoryLayout<E>.offset(of: path)) as? V
    }

    /// The value that an optional property had.
    public subscript<V>(path: any KeyPath<E, V?> & Sendable) -> V? {
        value(MemoryLayout<E>.offset(of: path)) as? V
    }

    private func value(_ offset: Int?) -> Any? {
        guard let row, let property = E.model.property(at: offset), let value = property.value(in: row), !value.isNull
        else { return nil }
        return property.codec.property(of: value)
    }
}

extension HistoryChange {
    /// What was kept of a deleted object. Nil if the change is no deletion, or one of another entity.
    public func tombstone<E: Entity>(of type: E.Type) -> Tombstone<E>? {
        guard kind == .delete, isSameName(entity, E.model.name) else { return nil }
        return Tombstone(Reference(object), preserved)
    }

    /// The object before the change. Nil for an insert, if the change is of another entity, if values were not
    /// requested, or if history no longer has it. A property that did not exist then has its initial value. History has
    /// the names of its time: a property is also found under the names that its schema says it had before.
    ///
    /// Throws `StoreError`: `valueOutOfRange` if a value is none of its property's type.
    public func before<E: Entity>(of type: E.Type) throws -> E? { try value(before) }

    /// The object after the change. As `before(of:)`.
    public func after<E: Entity>(of type: E.Type) throws -> E? { try value(after) }

    /// The reference of the object; nil if it is of another entity.
    public func reference<E: Entity>(to type: E.Type) -> Reference<E>? {
        isSameName(entity, E.model.name) ? Reference(object) : nil
    }

    /// Whether an update changed a property. False for inserts, deletions and other entities.
    public func changes<E: Entity>(_ path: any PartialKeyPath<E> & Sendable) -> Bool {
        guard kind == .update, isSameName(entity, E.model.name),
            let property = E.model.property(at: MemoryLayout<E>.offset(of: path))
        else { return false }
        return attributes.contains { property.isNamed($0) }
    }

    private func value<E: Entity>(_ row: Row?) throws -> E? {
        guard let row else { return nil }
        let model = E.model
        guard isSameName(entity, model.name) else { return nil }
        try model.requireValid()
        var value = E()
        try withUnsafeMutablePointer(to: &value) { try model.store(row, in: UnsafeMutableRawPointer($0)) }
        return value
    }
}

extension EntityModel {
    /// Replaces the properties of a new value by those of a row of history. It is not generic, because a generic
    /// function looks types up for each property.
    fileprivate func store(_ row: Row, in value: UnsafeMutableRawPointer) throws {
        for position in properties.indices {
            // Parts of the property, because a copy of it counts a dozen references.
            let codec = properties[position].codec
            var found = row[properties[position].name]
            if found == nil { found = properties[position].formerValue(in: row) }
            guard let stored = found, codec.isOptional || !stored.isNull else { continue }
            if codec.store(stored, at: value + properties[position].offset) { continue }
            let property = properties[position].name
            throw StoreError(
                .valueOutOfRange,
                "“\(property)” of “\(name)” has a value in history that its type in the program does not have.",
                ObjectFacts(name, [property]))
        }
    }
}

extension EntityModel.Property {
    /// Whether the property has this name, or had it.
    fileprivate func isNamed(_ name: String) -> Bool {
        isSameName(name, self.name) || formerNames.contains { isSameName(name, $0) }
    }

    /// The property's value in a row of history; nil if the row has it under none of its names.
    fileprivate func value(in row: Row) -> Value? { row[name] ?? formerValue(in: row) }

    fileprivate func formerValue(in row: Row) -> Value? { formerNames.lazy.compactMap { row[$0] }.first }
}
