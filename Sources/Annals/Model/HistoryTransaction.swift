// History as values: transactions and their changes, independent of any store.

public import FoundationEssentials

/// One transaction: who changed what, and when.
public struct HistoryTransaction: Hashable, Sendable, Codable {
    /// The number: from 1, without gaps. It alone defines the order.
    public let number: UInt64
    /// The place in history directly after this transaction.
    public let token: HistoryToken
    /// When it was committed: microseconds since 1970, UTC. Never earlier than the transaction before, unless the clock
    /// was set back by more than an hour.
    public let microseconds: Int64
    /// Who made the change; nil if unknown.
    public let author: String?
    /// What they were doing, or where; nil if unknown.
    public let contextName: String?
    /// The process that committed it, as its own system numbered it.
    public let processID: UInt32
    /// The file name of the program.
    public let process: String?
    /// Whether it changes the schema: entities and handles must be looked up again.
    public let changesSchema: Bool
    /// The original transaction in another store, if this one was applied from there; nil if it was made here.
    public let origin: HistoryToken?
    /// The changes, in the order in which they were made. A transaction changes an object at most once.
    public let changes: [HistoryChange]

    /// The time as the nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }
}

/// What a transaction did to one object.
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

    /// What was done to the object.
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
    /// The preserved attributes of a deleted object; the other attributes are null. Nil if there are none.
    public let preserved: Row?
    /// For reading its rows with types.
    var origin = ChangeOrigin()

    private enum CodingKeys: String, CodingKey {
        case kind, object, entity, attributes, before, after, preserved
    }
}

/// The schema of a change's rows, in the store that the change was read from. A decoded change has none. It is no part
/// of the change's value: all are equal.
struct ChangeOrigin: Hashable, Sendable, CustomStringConvertible {
    var schema: PastSchema?

    var description: String { schema == nil ? "decoded" : "store" }

    static func == (left: Self, right: Self) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
