// The news about new transactions: enough for a program to decide whether to read them.

public import FoundationEssentials

/// New transactions: which, by whom, and on which entities. One signal may cover many transactions.
///
/// Everything in it is also in history: read the changes from there, up to `token`.
public struct ChangeSignal: Hashable, Sendable, Codable {
    /// The first and the last transaction. Signals of one watcher follow each other without gaps, unless authors or
    /// context names are excluded.
    public let numbers: ClosedRange<UInt64>
    /// The place in history directly after the last transaction: continue from there.
    public let token: HistoryToken
    /// The authors, each once, sorted, without excluded ones.
    public let authors: [String]
    /// Whether some transactions have no author.
    public let includesUnnamedAuthor: Bool
    /// The processes that committed the transactions: each ID once, ascending. A process ID is as its own system
    /// assigned it.
    public let processIDs: [UInt32]
    /// The names of the entities whose objects changed, each once, sorted. Until the next compaction, this includes
    /// entities whose history is off. See `isExact`.
    public let entities: [String]
    /// False if a transaction has too many changes (over 65,536) to read them all. Then `entities` contains all
    /// entities of the schema. False also if history was cleaned before a watcher without a place had seen it. Then
    /// `changesSchema` and `includesUnnamedAuthor` are true, and authors and processes are not known: both lists are
    /// empty.
    public let isExact: Bool
    /// Whether the schema changed: then look up entities and handles again.
    public let changesSchema: Bool
    /// Whether this process made all of the transactions, through any of its stores. The process itself remembers them:
    /// two containers with equal process IDs and program names are two processes. Transactions from before its restart
    /// are not its own. False also for old transactions of a process that takes turns with other processes thousands of
    /// times. To ignore all commits of a program, exclude their author.
    public let isOwn: Bool

    /// The store's identifier.
    public var storeIdentifier: UUID { token.storeIdentifier }
}
