// A transaction outside its store: as a value, and as one line of JSON.

public import FoundationEssentials

/// One transaction with all that another store needs to apply it.
///
/// It is `Codable`, and has a text of its own: one line of JSON (`jsonLine`).
public struct ExportedTransaction: Hashable, Sendable {
    /// The transaction in the store that exports it: the store's identifier, the number, the tag.
    public let token: HistoryToken
    /// The exported transaction before it, which a store must have applied that applies this one. Nil for none:
    /// everything begins here, or all before it was left out.
    public let previous: HistoryToken?
    /// When it was committed: microseconds since 1970, UTC.
    public let microseconds: Int64
    /// Who made the change; nil if it was not said.
    public let author: String?
    /// What they were doing, or where; nil if it was not said.
    public let contextName: String?
    /// The transaction as it was first made, where the exporting store has applied it itself; nil if it was made
    /// there.
    public let origin: HistoryToken?
    /// What came before that one.
    public let originPrevious: HistoryToken?
    /// If it is no transaction, but the state after one: the places of other stores up to which the state holds
    /// what was made there. Nil for a transaction.
    public let holds: [HistoryToken]?
    /// The entities after it: of the first one of an export, and of those that change the schema.
    public let schema: [EntityDescription]?
    /// What it renames, in its order.
    public let renames: [ExportedRename]
    /// In the order in which they were made.
    public let changes: [ExportedChange]

    /// The store that exports it.
    public var store: UUID { token.storeIdentifier }
    /// The nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }
}

/// An entity or attribute that has another name after a transaction than before.
public struct ExportedRename: Hashable, Sendable, Codable {
    /// The entity, by its name after the transaction where an attribute is renamed, otherwise by its name before.
    public let entity: String
    /// The name of the attribute before; nil if the entity is renamed.
    public let attribute: String?
    /// The name after the transaction.
    public let name: String
}

/// What an exported transaction does to one object.
public struct ExportedChange: Hashable, Sendable {
    /// What was done to the object.
    public let kind: HistoryChange.Kind
    /// The object, by the name that every store knows it by.
    public let object: ExportedObject
    /// The name of the object's entity after the transaction.
    public let entity: String
    /// The names of the attributes that `values` are of: all of an insert, those that an update wrote, none of a
    /// deletion.
    public let attributes: [String]
    /// A value for each of them.
    public let values: [ExportedValue]
    /// The values before an update; nil for other changes, and where history did not have them any more.
    public let before: [ExportedValue]?
}

extension StoreError {
    /// `what` is the part of a sentence that says why.
    static func malformedExport(_ what: String) -> StoreError {
        StoreError(.exportMalformed, "This is no exported transaction: \(what). Export it again.")
    }
}

// MARK: JSON

extension ExportedTransaction {
    /// The text form: one line of JSON, without an end of line. The same for the same transaction.
    public var jsonLine: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(self) else {
            preconditionFailure("Nothing in an exported transaction cannot be written as JSON.")
        }
        return String(decoding: data, as: UTF8.self)
    }

    /// Reads the text form. Throws `StoreError`: `exportMalformed`, `unsupportedVersion`.
    public init(jsonLine: String) throws { try self.init(jsonLine: Data(jsonLine.utf8)) }

    /// The same from UTF-8. Throws `StoreError`.
    public init(jsonLine: Data) throws {
        do {
            self = try JSONDecoder().decode(ExportedTransaction.self, from: jsonLine)
        } catch {
            throw Self.failure(error)
        }
    }

    /// Without anything of the line in it, which may hold values.
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
            return .malformedExport("something is of another type" + place(context.codingPath))
        case .valueNotFound(_, let context): return .malformedExport("something is null" + place(context.codingPath))
        case .dataCorrupted(let context) where context.codingPath.isEmpty:
            return .malformedExport("it is not JSON")
        case .dataCorrupted(let context):
            return .malformedExport("something cannot be read" + place(context.codingPath))
        @unknown default: return .malformedExport("it cannot be read")
        }
    }
}

extension ExportedTransaction: Codable {
    /// Grows when a reader of the form before would take the new one wrongly.
    private static let formVersion = 1

    private enum Key: String, CodingKey {
        case annals, token, previous, time, author, context, origin, originPrevious, holds, schema, renames, shapes,
            changes
    }

    /// Which attributes of which entity the values of changes are of: named once for all changes that have the same.
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
        guard try container.decode(Int.self, forKey: .annals) == Self.formVersion else {
            throw StoreError(
                .unsupportedVersion,
                "The transaction was exported by a newer version: export it with this one, or apply it with that.")
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

    private func validate() throws(StoreError) {
        guard token.number > 0 else { throw .malformedExport("its number is 0") }
        if let previous {
            guard previous.storeIdentifier == store, (1..<token.number).contains(previous.number) else {
                throw .malformedExport("what comes before it does not")
            }
        }
        if let holds {
            let stores = holds.map(\.storeIdentifier)
            guard origin != nil || previous == nil, holds.allSatisfy({ $0.number > 0 }),
                Set(stores + [store, (origin ?? token).storeIdentifier]).count
                    == stores.count + (origin == nil ? 1 : 2)
            else { throw .malformedExport("the places that its state holds cannot be") }
        }
        guard let origin else { return }
        guard origin.storeIdentifier != store, origin.number > 0,
            originPrevious.map({ $0.storeIdentifier == origin.storeIdentifier && $0.number < origin.number }) ?? true
        else { throw .malformedExport("its origin cannot be") }
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

    /// Names by their bytes.
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
        guard shapes.indices.contains(change.shape) else { throw .malformedExport("a change names no shape") }
        let shape = shapes[change.shape]
        switch (change.insert, change.update, change.delete) {
        case (_?, nil, nil): kind = .insert
        case (nil, _?, nil): kind = .update
        case (nil, nil, _?): kind = .delete
        default: throw .malformedExport("a change is not one of insert, update and delete")
        }
        guard let object = (change.insert ?? change.update ?? change.delete).flatMap(ExportedObject.init) else {
            throw .malformedExport("an object ID is none")
        }
        self.object = object
        entity = shape.entity
        attributes = shape.attributes
        values = change.values ?? []
        before = change.before
        guard values.count == attributes.count, before.map({ $0.count == attributes.count }) ?? true else {
            throw .malformedExport("a change has not one value for each attribute")
        }
    }
}
