// What is told of transactions that have come: enough to decide whether to look at them.

public import FoundationEssentials

/// Transactions have come: which, whose, and of what. One signal may stand for many.
///
/// Nothing is in it that history does not have: read the changes from history, up to `token`.
public struct ChangeSignal: Hashable, Sendable, Codable {
    /// The first and the last one. Signals of one watcher follow each other without gaps, unless authors are left out.
    public let numbers: ClosedRange<UInt64>
    /// The place in history directly after the last one: where to go on from.
    public let token: HistoryToken
    /// Who made them, each once, sorted, without the authors that are left out.
    public let authors: [String]
    /// Whether some name no author.
    public let includesUnnamedAuthor: Bool
    /// The processes that committed them, as their own systems number them; each once, ascending.
    public let processIDs: [UInt32]
    /// The names of the entities whose objects were changed, each once, sorted; those without history too, until
    /// compaction has passed them. See `isExact`.
    public let entities: [String]
    /// False if a transaction has so many changes (over 65,536) that they were not all looked at: `entities` are
    /// then all that the schema has.
    public let isExact: Bool
    /// Whether the schema was changed: entities and handles must be looked up again.
    public let changesSchema: Bool
    /// Whether this process made all of them, through whichever of its stores. It goes by process ID and program name,
    /// which two containers may have in common: to leave one's own commits out, leave out their author.
    public let isOwn: Bool

    /// The store's identifier.
    public var storeIdentifier: UUID { token.storeIdentifier }
}
