// History as values: transactions and their changes, apart from any store.

public import FoundationEssentials

/// One transaction: who changed what, and when.
public struct HistoryTransaction: Hashable, Sendable, Codable {
    /// From 1, without gaps. The only order that counts.
    public let number: UInt64
    /// The place in history directly after this transaction.
    public let token: HistoryToken
    /// Microseconds since 1970, UTC; never lower than that of a transaction before, unless the clock was set back by
    /// more than an hour.
    public let microseconds: Int64
    /// Who made the change; nil if it was not said.
    public let author: String?
    /// What they were doing, or where; nil if it was not said.
    public let contextName: String?
    /// The process that committed it, as its own system numbered it.
    public let processID: UInt32
    /// The file name of the program.
    public let process: String?
    /// Whether it changes the schema: entities and handles must be looked up again.
    public let changesSchema: Bool
    /// The transaction of another store that this one is the applied form of; nil for one that was made here.
    public let origin: HistoryToken?
    /// In the order in which they were made. An object is changed at most once.
    public let changes: [HistoryChange]

    /// The nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }
}

/// What a transaction did to one object.
public struct HistoryChange: Hashable, Sendable, Codable {
    /// What can be done to an object.
    public enum Kind: String, CaseIterable, Sendable, Hashable, Codable {
        /// The object was made.
        case insert
        /// Attributes were given values.
        case update
        /// The object was removed.
        case delete
    }

    /// What was done to the object.
    public let kind: Kind
    /// The object that was changed.
    public let object: ObjectID
    /// The name of the object's entity; the last one that it had if it is removed.
    public let entity: String
    /// The names of the attributes that an update changed, in the order of the schema at the time. Empty for others.
    public let attributes: [String]
    /// The object before the change. Nil for an insert, if values were not requested, and if history no longer
    /// has it.
    public let before: Row?
    /// The object after the change. Nil for a deletion and if values were not requested.
    public let after: Row?
    /// What is kept of a deleted object: the values of its attributes that are preserved on deletion, the others
    /// absent. Nil for nothing.
    public let preserved: Row?
}
