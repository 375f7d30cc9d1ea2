// What is asked of history: from where to where, whose transactions, which changes.

public import FoundationEssentials

/// A choice of transactions and changes.
///
/// What it says of transactions (places, authors, contexts) chooses transactions. What it says of changes (entities,
/// objects, kinds, attributes) chooses changes: transactions then come only with the changes that match, and those in
/// which none does are left out. A transaction without any change, such as one that changes the schema alone, comes
/// only if nothing is said of changes.
///
/// Entities whose history is off are left out of what says nothing of entities; to ask for one of them (among
/// `entities`, by one of its objects or attributes) throws `historyGap`, and so does a request that reaches back to
/// before the history of an entity began anew that it asks for.
///
/// Everything that is said must hold; nil says nothing, and an empty set matches nothing. To pass a transaction by
/// author or context costs the same however many changes it has; no filter looks at a row.
public struct HistoryRequest: Hashable, Sendable {
    /// A place in history.
    public enum Place: Hashable, Sendable {
        /// Directly after the transaction of that number; 0 is the beginning.
        case number(UInt64)
        /// Directly after the token's transaction.
        case token(HistoryToken)
        /// Directly after the last transaction that was committed at that moment or earlier. If the clock was set back
        /// by more than an hour, everything before that counts as older than what came later.
        case date(Date)
        /// Where history begins. The store looks it up when it uses the place, so cleaning meanwhile does not matter.
        case oldest
    }

    /// The order of transactions.
    public enum Order: Hashable, Sendable {
        /// By ascending number.
        case oldestFirst
        /// By descending number.
        case newestFirst
    }

    /// Only what came after this: the transaction that the place is after does not belong to it. Nil for the beginning
    /// of what history holds.
    public var after: Place?
    /// Only what came before this: the named transaction does not belong to it, nor one that was committed at that very
    /// moment. Nil for no end.
    public var before: Place?
    /// Only transactions of these authors; nil among them is no author. A name that nobody has used matches nothing.
    public var authors: Set<String?>?
    /// No transactions of these authors; nil among them is no author.
    public var excludedAuthors: Set<String?>
    /// Only transactions of these contexts; nil among them is no context.
    public var contextNames: Set<String?>?
    /// No transactions of these contexts; nil among them is no context.
    public var excludedContextNames: Set<String?>
    /// Only changes of objects of these entities, named as they are in the newest schema, or as they were last where
    /// they are removed.
    public var entities: Set<String>?
    /// Only changes of these objects.
    public var objects: Set<ObjectID>?
    /// Only changes of these kinds.
    public var kinds: Set<HistoryChange.Kind>?
    /// Names of attributes by the name of their entity: only updates that changed one of them. Inserts and deletions
    /// change no attribute in this sense. An attribute that was renamed is found under its newest name.
    public var changedAttributes: [String: Set<String>]?
    /// The order in which transactions come.
    public var order: Order
    /// How many results at most: transactions, changes, objects or net changes, whatever is requested. Nil for all.
    public var limit: Int?

    /// A request for everything, but for what is said.
    public init(
        after: Place? = nil, before: Place? = nil, authors: Set<String?>? = nil, excludedAuthors: Set<String?> = [],
        contextNames: Set<String?>? = nil, excludedContextNames: Set<String?> = [], entities: Set<String>? = nil,
        objects: Set<ObjectID>? = nil,
        kinds: Set<HistoryChange.Kind>? = nil, changedAttributes: [String: Set<String>]? = nil,
        order: Order = .oldestFirst, limit: Int? = nil
    ) {
        self.after = after
        self.before = before
        self.authors = authors
        self.excludedAuthors = excludedAuthors
        self.contextNames = contextNames
        self.excludedContextNames = excludedContextNames
        self.entities = entities
        self.objects = objects
        self.kinds = kinds
        self.changedAttributes = changedAttributes
        self.order = order
        self.limit = limit
    }
}
