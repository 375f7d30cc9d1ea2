// A transaction outside its store: as a value, and as one line of JSON.

public import FoundationEssentials

/// One transaction, with everything that another store needs to apply it.
///
/// It is `Codable`. It also has a text form of its own: one line of JSON (`jsonLine`).
public struct ExportedTransaction: Hashable, Sendable {
    /// The transaction's place in the exporting store: the store's identifier, the number, the tag.
    public let token: HistoryToken
    /// The place of the transaction exported before this one, which the receiving store must have applied. Nil if the
    /// export begins with this transaction, or if all earlier ones were left out.
    public let previous: HistoryToken?
    /// When it was committed: microseconds since 1970, UTC.
    public let microseconds: Int64
    /// The name of the author; nil if unknown.
    public let author: String?
    /// The author's activity, or the part of the program; nil if unknown.
    public let contextName: String?
    /// The place of the original transaction, if it was made in another store and applied to the exporting one. Nil if
    /// it was made in the exporting store.
    public let origin: HistoryToken?
    /// The place of the transaction that the original store exported before the original one, if it exists.
    public let originPrevious: HistoryToken?
    /// For a state, which contains all objects after a transaction: the places in other stores up to which the state
    /// contains their transactions. Nil for a plain transaction.
    public let holds: [HistoryToken]?
    /// The entities after the transaction, in the first transaction of an export and in those that change the schema.
    /// Otherwise nil.
    public let schema: [EntityDescription]?
    /// The names that differ from those before the transaction: for each entity its own, then those of its attributes.
    public let renames: [ExportedRename]
    /// The changes, in the order in which they were made.
    public package(set) var changes: [ExportedChange]

    /// The exporting store's identifier.
    public var store: UUID { token.storeIdentifier }
    /// The time as the nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }

    /// Creates a transaction of parts that are not validated here.
    package init(
        token: HistoryToken, previous: HistoryToken?, microseconds: Int64, author: String?, contextName: String?,
        origin: HistoryToken?, originPrevious: HistoryToken?, holds: [HistoryToken]?, schema: [EntityDescription]?,
        renames: [ExportedRename], changes: [ExportedChange]
    ) {
        (self.token, self.previous, self.microseconds) = (token, previous, microseconds)
        (self.author, self.contextName) = (author, contextName)
        (self.origin, self.originPrevious, self.holds) = (origin, originPrevious, holds)
        (self.schema, self.renames, self.changes) = (schema, renames, changes)
    }
}

/// A renaming of an entity or attribute.
public struct ExportedRename: Hashable, Sendable, Codable {
    /// The entity's name: after the transaction if an attribute is renamed, before it if the entity is renamed.
    public let entity: String
    /// The attribute's name before the transaction; nil if the entity is renamed.
    public let attribute: String?
    /// The new name, after the transaction.
    public let name: String

    package init(entity: String, attribute: String?, name: String) {
        (self.entity, self.attribute, self.name) = (entity, attribute, name)
    }
}

/// An exported transaction's change of one object.
public struct ExportedChange: Hashable, Sendable {
    /// The kind of change.
    public let kind: HistoryChange.Kind
    /// The object, by a name that every store understands.
    public let object: ExportedObject
    /// The name of the object's entity after the transaction.
    public let entity: String
    /// The names of the attributes of `values`: all for an insert, the written ones for an update, none for a deletion.
    public let attributes: [String]
    /// The values, one for each name.
    public let values: [ExportedValue]
    /// The values before an update. Nil for other kinds of change, and if history no longer had the values.
    public let before: [ExportedValue]?

    package init(
        kind: HistoryChange.Kind, object: ExportedObject, entity: String, attributes: [String],
        values: [ExportedValue], before: [ExportedValue]?
    ) {
        (self.kind, self.object, self.entity) = (kind, object, entity)
        (self.attributes, self.values, self.before) = (attributes, values, before)
    }
}

extension StoreError {
    /// `what` is the reason, as a part of a sentence.
    static func malformedExport(_ what: String) -> StoreError {
        StoreError(.exportMalformed, "This is not an exported transaction: \(what). Export it again.")
    }
}

// MARK: JSON

extension ExportedTransaction {
    /// The text form: one line of JSON, without a line ending. The same transaction always has the same text.
    public var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else {
            preconditionFailure("An exported transaction can always be written as JSON.")
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// Creates a transaction from its text form. Throws `StoreError`: `exportMalformed`, `unsupportedVersion`.
    public init(jsonLine: String) throws { try self.init(jsonLine: Data(jsonLine.utf8)) }

    /// Creates a transaction from its text form in UTF-8. Throws `StoreError`: `exportMalformed`, `unsupportedVersion`.
    public init(jsonLine: Data) throws {
        do {
            self = try JSONDecoder().decode(ExportedTransaction.self, from: jsonLine)
        } catch {
            throw Self.failure(error)
        }
    }

    /// The error for a line that cannot be decoded. It contains no values of the line, which may be private.
    private static func failure(_ error: any Error) -> StoreError {
        if let error = error as? StoreError { return error }
        guard let error = error as? DecodingError else { return .malformedExport("it cannot be read") }
        func place(_ path: [any CodingKey]) -> String {
            path.isEmpty
                ? "" : " at " + path.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        }
        switch error {
        case .keyNotFound(let key, let context):
            return .malformedExport("“\(key.stringValue)” is missing" + place(context.codingPath))
        case .typeMismatch(_, let context):
            return .malformedExport("a value has the wrong type" + place(context.codingPath))
        case .valueNotFound(_, let context): return .malformedExport("a value is null" + place(context.codingPath))
        case .dataCorrupted(let context) where context.codingPath.isEmpty:
            return .malformedExport("it is not JSON")
        case .dataCorrupted(let context):
            return .malformedExport("a value cannot be read" + place(context.codingPath))
        @unknown default: return .malformedExport("it cannot be read")
        }
    }
}

extension ExportedTransaction: Codable {
    /// The version of the text form. It is raised only if programs for the previous form would misread the new one.
    private static let formVersion = 1

    private enum Key: String, CodingKey {
        case annals, token, previous, time, author, context, origin, originPrevious, holds, schema, renames, shapes,
            changes
    }

    /// The entity and the attributes of a change's values. Changes in which both are the same share one shape.
    struct Shape: Codable {
        var entity: String
        var attributes: [String]

        func isSame(_ change: ExportedChange) -> Bool {
            isSameName(entity, change.entity) && attributes.elementsEqual(change.attributes, by: isSameName)
        }
    }

    struct Change: Codable {
        var insert: String?
        var update: String?
        var delete: String?
        var shape: Int
        var values: [ExportedValue]?
        var before: [ExportedValue]?
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        let form = try container.decode(Int.self, forKey: .annals)
        guard form == Self.formVersion else {
            throw StoreError(
                .unsupportedVersion,
                "The transaction was exported in form \(form), and this program reads form \(Self.formVersion): export "
                    + "it with this version of the program, or apply it with the version that exported it.")
        }
        token = try container.decode(HistoryToken.self, forKey: .token)
        previous = try container.decodeIfPresent(HistoryToken.self, forKey: .previous)
        microseconds = try container.decode(Int64.self, forKey: .time)
        author = try container.decodeIfPresent(String.self, forKey: .author)
        contextName = try container.decodeIfPresent(String.self, forKey: .context)
        origin = try container.decodeIfPresent(HistoryToken.self, forKey: .origin)
        originPrevious = try container.decodeIfPresent(HistoryToken.self, forKey: .originPrevious)
        holds = try container.decodeIfPresent([HistoryToken].self, forKey: .holds)
        schema = try container.decodeIfPresent([EntityDescription].self, forKey: .schema)
        renames = try container.decodeIfPresent([ExportedRename].self, forKey: .renames) ?? []
        let shapes = try container.decode([Shape].self, forKey: .shapes)
        changes = try container.decode([Change].self, forKey: .changes).map { try ExportedChange($0, shapes) }
        try validate()
    }

    /// Throws `exportMalformed` if its places are impossible.
    package func validate() throws(StoreError) {
        guard token.number > 0 else { throw .malformedExport("its number is 0") }
        if let previous {
            guard previous.storeIdentifier == store, (1..<token.number).contains(previous.number) else {
                throw .malformedExport("its predecessor is impossible")
            }
        }
        if let holds {
            let stores = holds.map(\.storeIdentifier)
            guard origin != nil || previous == nil, holds.allSatisfy({ $0.number > 0 }),
                Set(stores + [store, (origin ?? token).storeIdentifier]).count
                    == stores.count + (origin == nil ? 1 : 2)
            else { throw .malformedExport("the places that its state contains are impossible") }
        }
        guard let origin else { return }
        guard origin.storeIdentifier != store, origin.number > 0,
            originPrevious.map({ $0.storeIdentifier == origin.storeIdentifier && $0.number < origin.number }) ?? true
        else { throw .malformedExport("its origin is impossible") }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(Self.formVersion, forKey: .annals)
        try container.encode(token, forKey: .token)
        try container.encodeIfPresent(previous, forKey: .previous)
        try container.encode(microseconds, forKey: .time)
        try container.encodeIfPresent(author, forKey: .author)
        try container.encodeIfPresent(contextName, forKey: .context)
        try container.encodeIfPresent(origin, forKey: .origin)
        try container.encodeIfPresent(originPrevious, forKey: .originPrevious)
        try container.encodeIfPresent(holds, forKey: .holds)
        try container.encodeIfPresent(schema, forKey: .schema)
        if !renames.isEmpty { try container.encode(renames, forKey: .renames) }
        var shapes: [Shape] = []
        var places: [ShapeKey: Int] = [:]
        var written: [Change] = []
        written.reserveCapacity(changes.count)
        var last: Int?
        for change in changes {
            if last.map({ !shapes[$0].isSame(change) }) ?? true {
                let key = ShapeKey(change)
                if places[key] == nil {
                    places[key] = shapes.count
                    shapes.append(Shape(entity: change.entity, attributes: change.attributes))
                }
                last = places[key]
            }
            written.append(Change(change, last ?? 0))
        }
        try container.encode(shapes, forKey: .shapes)
        try container.encode(written, forKey: .changes)
    }

    /// Compares names by their bytes.
    private struct ShapeKey: Hashable {
        var names: [[UInt8]]
        init(_ change: ExportedChange) { names = ([change.entity] + change.attributes).map { Array($0.utf8) } }
    }
}

extension ExportedTransaction.Change {
    init(_ change: ExportedChange, _ shape: Int) {
        let object = change.object.description
        insert = change.kind == .insert ? object : nil
        update = change.kind == .update ? object : nil
        delete = change.kind == .delete ? object : nil
        self.shape = shape
        values = change.kind == .delete ? nil : change.values
        before = change.before
    }
}

extension ExportedChange {
    init(_ change: ExportedTransaction.Change, _ shapes: [ExportedTransaction.Shape]) throws(StoreError) {
        guard shapes.indices.contains(change.shape) else { throw .malformedExport("a change has no shape") }
        let shape = shapes[change.shape]
        switch (change.insert, change.update, change.delete) {
        case (_?, nil, nil): kind = .insert
        case (nil, _?, nil): kind = .update
        case (nil, nil, _?): kind = .delete
        default: throw .malformedExport("a change is not one of insert, update and delete")
        }
        guard let object = (change.insert ?? change.update ?? change.delete).flatMap(ExportedObject.init) else {
            throw .malformedExport("an object ID is malformed")
        }
        self.object = object
        entity = shape.entity
        attributes = shape.attributes
        values = change.values ?? []
        before = change.before
        guard values.count == attributes.count, before.map({ $0.count == attributes.count }) ?? true else {
            throw .malformedExport("a change does not have one value for each attribute")
        }
    }
}
