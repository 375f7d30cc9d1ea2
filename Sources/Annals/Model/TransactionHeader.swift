// The facts about a transaction, the same in all types that name one.

public import FoundationEssentials

/// The author and context of a transaction, its process, and its time.
public struct TransactionHeader: Hashable, Sendable, Codable {
    /// The number: from 1, without gaps. It alone defines the order.
    public let number: UInt64
    /// The place in history directly after the transaction.
    public let token: HistoryToken
    /// When it was committed: microseconds since 1970, UTC. Never earlier than the transaction before, unless the clock
    /// was set back by more than an hour.
    public let microseconds: Int64
    /// The name of the author; nil if unknown.
    public let author: String?
    /// The activity, or the part of the program, that made the change; nil if unknown.
    public let contextName: String?
    /// The process that committed it, as its own system numbered it.
    public let processID: UInt32
    /// The file name of the program.
    public let process: String?

    /// The time as the nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }
}

/// A value that belongs to one transaction. It has the properties of the transaction's header: `version.author`. The
/// types of this library share them; do not adopt it.
public protocol HistoryRecord {
    /// The header of the transaction.
    var header: TransactionHeader { get }
}

extension HistoryRecord {
    /// The transaction's number: from 1, without gaps. It alone defines the order.
    public var number: UInt64 { header.number }
    /// The place in history directly after the transaction.
    public var token: HistoryToken { header.token }
    /// When it was committed: microseconds since 1970, UTC.
    public var microseconds: Int64 { header.microseconds }
    /// The name of the author; nil if unknown.
    public var author: String? { header.author }
    /// The activity, or the part of the program, that made the change; nil if unknown.
    public var contextName: String? { header.contextName }
    /// The process that committed it, as its own system numbered it.
    public var processID: UInt32 { header.processID }
    /// The file name of the program.
    public var process: String? { header.process }
    /// The time as the nearest `Date`.
    public var timestamp: Date { header.timestamp }
}
