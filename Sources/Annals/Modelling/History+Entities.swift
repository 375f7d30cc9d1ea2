// History in a program's own types.

public import FoundationEssentials

/// The part of a deleted object that history has kept: its properties that are preserved on deletion.
public struct Tombstone<E: Entity>: Sendable {
    /// The reference that the object had.
    public let reference: Reference<E>
    private let row: Row?
    private let binding: HistoryBinding

    init(_ reference: Reference<E>, _ row: Row?, _ binding: HistoryBinding) {
        (self.reference, self.row, self.binding) = (reference, row, binding)
    }

    /// The value that a property had. Nil if it had none, if the property is not preserved on deletion, or if the value
    /// is none of its type.
    public subscript<V>(path: any KeyPath<E, V> & Sendable) -> V? {
        value(E.model.index(of: path)) as? V
    }

    /// The value that an optional property had.
    public subscript<V>(path: any KeyPath<E, V?> & Sendable) -> V? {
        value(E.model.index(of: path)) as? V
    }

    private func value(_ index: Int?) -> Any? {
        guard let row, let index,
            let value = try? binding.kept(index, in: row), !value.isNull
        else { return nil }
        return E.model.properties[index].codec.property(of: value, in: reference.store)
    }
}

extension HistoryRequest {
    /// A request for changes of entities of the program, by their types: `HistoryRequest(entities: [Clip.self])`.
    public init(
        after: Place? = nil, before: Place? = nil, authors: Set<String?>? = nil, excludedAuthors: Set<String?> = [],
        contextNames: Set<String?>? = nil, excludedContextNames: Set<String?> = [], anyOf: [Source]? = nil,
        where predicate: Predicate<TransactionFacts>? = nil, entities: [any Entity.Type],
        objects: Set<ObjectID>? = nil, kinds: Set<HistoryChange.Kind>? = nil,
        changedAttributes: [String: Set<String>]? = nil, order: Order = .oldestFirst, limit: Int? = nil
    ) {
        self.init(
            after: after, before: before, authors: authors, excludedAuthors: excludedAuthors,
            contextNames: contextNames, excludedContextNames: excludedContextNames, anyOf: anyOf, where: predicate,
            entities: Set(entities.map { $0.model.name }), objects: objects, kinds: kinds,
            changedAttributes: changedAttributes, order: order, limit: limit)
    }
}

extension HistoryChange {
    /// The preserved properties of a deleted object. Nil if the change is no deletion, or one of another entity.
    public func tombstone<E: Entity>(of type: E.Type) -> Tombstone<E>? {
        guard kind == .delete, isSameName(entity, E.model.name) else { return nil }
        return Tombstone(Reference(object, of: storeMark), preserved, binding(type))
    }

    /// The object before the change. Nil for an insert, if the change is of another entity, if values were not
    /// requested, or if history no longer has it.
    ///
    /// It is read as an object of the newest state. A property is found under each name that its attribute has had. One
    /// that did not exist then has its default or initial value. Values that a migration has widened since are
    /// converted. A decoded change has only the names of its time: then a property is found under its name and under
    /// the former names in its schema.
    ///
    /// Throws `StoreError`: `valueOutOfRange` if a value is none of its property's type.
    public func before<E: Entity>(of type: E.Type) throws -> E? { try value(before) }

    /// The object after the change. As `before(of:)`.
    public func after<E: Entity>(of type: E.Type) throws -> E? { try value(after) }

    /// The reference of the object; nil if it is of another entity.
    public func reference<E: Entity>(to type: E.Type) -> Reference<E>? {
        isSameName(entity, E.model.name) ? Reference(object, of: storeMark) : nil
    }

    /// Whether an update changed a property. False for inserts, deletions and other entities.
    public func changes<E: Entity>(_ path: any PartialKeyPath<E> & Sendable) -> Bool {
        guard kind == .update, isSameName(entity, E.model.name) else { return false }
        guard let index = E.model.index(of: path) else { return false }
        return attributes.contains { binding(E.self).isNamed(index, $0) }
    }

    /// The mark of the store; 0 if the change was decoded.
    private var storeMark: UInt32 { origin.schema?.layout(ofEntity: object.entityNumber)?.storeMark ?? 0 }

    private func value<E: Entity>(_ row: Row?) throws -> E? {
        guard let row, isSameName(entity, E.model.name) else { return nil }
        try E.model.requireValid()
        var value = E()
        let binding = binding(E.self)
        try withUnsafeMutablePointer(to: &value) { try binding.store(row, in: UnsafeMutableRawPointer($0)) }
        return value
    }

    private func binding<E: Entity>(_ type: E.Type) -> HistoryBinding {
        guard let schema = origin.schema, let layout = schema.layout(ofEntity: object.entityNumber) else {
            return HistoryBinding(E.model)
        }
        return schema.attachment(ObjectIdentifier(type), layout.number) {
            HistoryBinding(E.model, layout, schema.present)
        }
    }
}

/// The locations of a type's properties in the rows of history of one schema version. Sound although it is shared:
/// nothing in it changes.
final class HistoryBinding: RowLayoutAttachment, @unchecked Sendable {
    private struct Place {
        /// The position in the row; nil if the version does not have the attribute.
        var position: Int?
        /// The property's value if the row lacks it.
        var fallback = Value.null
        /// The type of the attribute, if values are widened.
        var widened: AttributeType?
    }

    private let model: EntityModel
    /// The names of the attributes in the version; nil if the version is not known, and only the row's names are.
    private let names: [String]?
    /// One for each property.
    private let places: [Place]
    /// The mark of the store; 0 if it is not known.
    private let storeMark: UInt32

    /// For rows of an unknown schema.
    init(_ model: EntityModel) { (self.model, names, places, storeMark) = (model, nil, [], 0) }

    /// - Parameters:
    ///   - layout: The layout of the rows.
    ///   - present: The shape of the rows in terms of the newest schema.
    init(_ model: EntityModel, _ layout: RowLayout, _ present: StoreShape) {
        self.model = model
        names = layout.names
        storeMark = layout.storeMark
        let newest = present.newestLayout(layout.number)
        places = model.properties.map { property in
            var place = Place()
            let names = [property.name] + property.formerNames
            guard let newest,
                let position = names.lazy.compactMap({ newest.position(ofProperty: $0, present.catalog) }).first
            else { return place }
            let attribute = newest.entity.attributes[position]
            place.position = layout.position(ofAttribute: attribute.number)
            place.fallback = (try? Value(attribute.valueBeforeItExisted)) ?? .null
            let type = property.codec.attributeType
            if attribute.type != type, Conversion.isPossible(attribute.type, type) { place.widened = attribute.type }
            return place
        }
    }

    /// Whether a row has the attributes of the version.
    private func isOfVersion(_ row: Row) -> Bool { names.map { $0.count == row.values.count } ?? false }

    /// The value of a property in a row; nil if the row has none.
    func kept(_ index: Int, in row: Row) throws(StoreError) -> Value? {
        guard isOfVersion(row) else { return row[model.properties[index].name] ?? former(index, in: row) }
        guard let position = places[index].position else { return nil }
        let value = row.values[position]
        guard let type = places[index].widened else { return value }
        return try Conversion.converted(value, type, model.properties[index].codec.attributeType)
    }

    private func former(_ index: Int, in row: Row) -> Value? {
        model.properties[index].formerNames.lazy.compactMap { row[$0] }.first
    }

    /// Whether the attribute of that name in the version is the property.
    func isNamed(_ index: Int, _ name: String) -> Bool {
        if let names { return places[index].position.map { isSameName(names[$0], name) } ?? false }
        let property = model.properties[index]
        return isSameName(name, property.name) || property.formerNames.contains { isSameName(name, $0) }
    }

    /// Replaces the properties of a new value by those of a row. It is not generic, because a generic function looks
    /// types up for each property.
    func store(_ row: Row, in value: UnsafeMutableRawPointer) throws(StoreError) {
        let isOfVersion = isOfVersion(row)
        for index in model.properties.indices {
            // Parts of the property, because a copy of it counts a dozen references.
            let (codec, offset) = (model.properties[index].codec, model.properties[index].offset)
            var found = try kept(index, in: row)
            if found == nil, isOfVersion { found = places[index].fallback }
            guard let stored = found, codec.isOptional || !stored.isNull else { continue }
            if codec.store(stored, of: storeMark, at: value + offset) { continue }
            let property = model.properties[index].name
            throw StoreError(
                .valueOutOfRange,
                "“\(property)” of “\(model.name)” has a value in history that is not a value of its type in the "
                    + "program: use a wider type, or a newer version of the program.",
                ObjectFacts(model.name, [property]))
        }
    }
}
