// A request of history: its range, its sources, and its changes.

public import FoundationEssentials

/// Selects transactions and changes of the history.
///
/// Places, authors and contexts select transactions. Entities, objects, kinds and attributes select changes: then
/// transactions come with their matching changes only, and a transaction without a matching change is left out. A
/// transaction without any change, such as a pure schema change, comes only if the request selects no changes.
///
/// Changes of entities whose history is off come only if the request names no entities. Requesting such an entity (in
/// `entities`, or by one of its objects or attributes) throws `historyGap`. So does a request that begins before the
/// history of a requested entity was turned on again.
///
/// All conditions must hold; in `anyOf`, at least one. A nil condition selects everything, an empty set selects
/// nothing. Skipping a transaction by author, context or predicate takes constant time, for any number of changes. No
/// condition reads rows.
///
/// Transactions by which the store keeps its search indexes up to date come only if `authors` names their author,
/// `_annals.search`.
///
/// ```swift
/// // What the app's imports did, and everything by the extension and the service:
/// let request = HistoryRequest(
///     after: .token(token),
///     anyOf: [
///         HistoryRequest.Source(authors: ["app"], contextNames: ["import"]),
///         HistoryRequest.Source(authors: ["share", "service"]),
///     ])
/// ```
public struct HistoryRequest: Sendable {
    /// A place in history.
    public enum Place: Hashable, Sendable {
        /// Directly after the transaction with that number; 0 is the beginning.
        case number(UInt64)
        /// Directly after the token's transaction.
        case token(HistoryToken)
        /// Directly after the last transaction that was committed at that moment or earlier. If the clock was once set
        /// back by more than an hour, all transactions before that count as older than the later ones.
        case date(Date)
        /// The beginning of history. The store looks it up when it uses the place, so cleaning in the meantime does not
        /// matter: a request after it selects the remaining transactions. A consumer begins at `Store.oldestToken`,
        /// after which no transaction is missing.
        case oldest
        /// Directly after the newest transaction, when the store uses the place.
        case now
    }

    /// The order of transactions.
    public enum Order: Hashable, Sendable {
        /// By ascending number.
        case oldestFirst
        /// By descending number.
        case newestFirst
    }

    /// Authors and contexts that belong together. A transaction must match both.
    public struct Source: Hashable, Sendable {
        /// These authors; a nil element means no author. Nil for all.
        public var authors: Set<String?>?
        /// These context names; a nil element means no context. Nil for all.
        public var contextNames: Set<String?>?

        /// Selects transactions that match both.
        public init(authors: Set<String?>? = nil, contextNames: Set<String?>? = nil) {
            (self.authors, self.contextNames) = (authors, contextNames)
        }
    }

    /// Only transactions after this place. Nil for the beginning of history.
    public var after: Place?
    /// Only transactions before this place. A named transaction is not included, nor one that was committed at exactly
    /// the given moment. Nil for no end.
    public var before: Place?
    /// Only transactions by these authors; a nil element means no author. An unknown name matches nothing.
    public var authors: Set<String?>?
    /// No transactions by these authors; a nil element means no author.
    public var excludedAuthors: Set<String?>
    /// Only transactions with these context names; a nil element means no context.
    public var contextNames: Set<String?>?
    /// No transactions with these context names; a nil element means no context.
    public var excludedContextNames: Set<String?>
    /// Only transactions that at least one of these selects; nil for all.
    public var anyOf: [Source]?
    /// Only transactions for which this is true; nil for all. Comparisons of `author` and `contextName` with constants
    /// (`==`, `!=`, `contains`), joined by `&&`, `||` and `!`, cost as much as `authors`. Other expressions are
    /// evaluated for each transaction that the other conditions select, which takes about a microsecond. Errors of the
    /// predicate are thrown as `invalidArgument`.
    public var predicate: Predicate<TransactionFacts>?
    /// Only changes of objects of these entities. Use their names in the newest schema; for a removed entity, its last
    /// name.
    public var entities: Set<String>?
    /// Only changes of these objects.
    public var objects: Set<ObjectID>?
    /// Only changes of these kinds.
    public var kinds: Set<HistoryChange.Kind>?
    /// Names of attributes, by the name of their entity: only updates that changed one of them. Inserts and deletions
    /// do not match. For a renamed attribute, use its newest name, or an earlier one that is not another attribute's
    /// last name.
    public var changedAttributes: [String: Set<String>]?
    /// The order in which transactions come.
    public var order: Order
    /// The most results to return: transactions, changes, objects or net changes, depending on the call. Nil for all.
    public var limit: Int?

    /// A request for everything that meets these conditions.
    public init(
        after: Place? = nil, before: Place? = nil, authors: Set<String?>? = nil, excludedAuthors: Set<String?> = [],
        contextNames: Set<String?>? = nil, excludedContextNames: Set<String?> = [], anyOf: [Source]? = nil,
        where predicate: Predicate<TransactionFacts>? = nil, entities: Set<String>? = nil,
        objects: Set<ObjectID>? = nil, kinds: Set<HistoryChange.Kind>? = nil,
        changedAttributes: [String: Set<String>]? = nil,
        order: Order = .oldestFirst, limit: Int? = nil
    ) {
        (self.after, self.before, self.authors, self.excludedAuthors) = (after, before, authors, excludedAuthors)
        (self.contextNames, self.excludedContextNames, self.anyOf) = (contextNames, excludedContextNames, anyOf)
        (self.predicate, self.entities, self.objects, self.kinds) = (predicate, entities, objects, kinds)
        (self.changedAttributes, self.order, self.limit) = (changedAttributes, order, limit)
    }
}
