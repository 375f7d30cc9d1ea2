// History as values: transactions and their changes, independent of any store.

/// One transaction: its author, its time, and its changes.
public struct HistoryTransaction: HistoryRecord, Hashable, Sendable {
    /// The author, the time, and the other facts about the commit.
    public let header: TransactionHeader
    /// Whether it changes the schema: entities and handles must be looked up again.
    public let changesSchema: Bool
    /// The original transaction in another store, if this one was applied from there; nil if it was made here.
    public let origin: HistoryToken?
    /// The changes, in the order in which they were made. A transaction changes an object at most once.
    public let changes: [HistoryChange]
}

/// The members of the header become members of the same JSON object.
extension HistoryTransaction: Codable {
    private enum CodingKeys: String, CodingKey {
        case changesSchema, origin, changes
    }

    public init(from decoder: any Decoder) throws {
        header = try TransactionHeader(from: decoder)
        let container = try decoder.container(keyedBy: CodingKeys.self)
        changesSchema = try container.decode(Bool.self, forKey: .changesSchema)
        origin = try container.decodeIfPresent(HistoryToken.self, forKey: .origin)
        changes = try container.decode([HistoryChange].self, forKey: .changes)
    }

    public func encode(to encoder: any Encoder) throws {
        try header.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(changesSchema, forKey: .changesSchema)
        try container.encodeIfPresent(origin, forKey: .origin)
        try container.encode(changes, forKey: .changes)
    }
}

/// A transaction's change of one object.
public struct HistoryChange: Hashable, Sendable, Codable {
    /// The kinds of changes.
    public enum Kind: String, CaseIterable, Sendable, Hashable, Codable {
        /// The object was inserted.
        case insert
        /// Some of its attributes were changed.
        case update
        /// The object was deleted.
        case delete
    }

    /// The kind of change.
    public let kind: Kind
    /// The object that was changed.
    public let object: ObjectID
    /// The name of the object's entity; the last name if the entity was removed.
    public let entity: String
    /// The names of the attributes that an update changed, in the schema's order at that time. Empty for other kinds.
    public let attributes: [String]
    /// The object before the change. Nil for an insert, if values were not requested, or if history no longer has it.
    public let before: Row?
    /// The object after the change. Nil for a deletion, or if values were not requested.
    public let after: Row?
    /// The preserved attributes of a deleted object; the other attributes are null. Nil without any.
    public let preserved: Row?
    /// The schema that reading its rows with types needs.
    var origin = ChangeOrigin()

    private enum CodingKeys: String, CodingKey {
        case kind, object, entity, attributes, before, after, preserved
    }
}

/// The schema of a change's rows, in the store that the change was read from. A decoded change has none. It is not part
/// of the change's value: all origins are equal.
struct ChangeOrigin: Hashable, Sendable, CustomStringConvertible {
    var schema: PastSchema?

    var description: String { schema == nil ? "decoded" : "store" }

    static func == (left: Self, right: Self) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
