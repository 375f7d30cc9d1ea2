// The objects that changed between two states, noted while history is read for another purpose.
//
// Invariants:
// CB1  If the IDs between two states are known, they include every object that a transaction between them changed. They
//      may include other objects.

/// The objects that changed on the way to a state, for contexts that move to it (`Context.merge(to:changed:)`).
///
/// Pass one to `Store.forEachTransaction(_:in:noting:_:)` while you read history. It notes the objects of every
/// transaction that is passed, also of those that the request does not select. Contexts that get it then need not read
/// history themselves.
public struct ChangedObjects: Sendable {
    /// The most objects that are noted. Comparing a context's objects costs less than reading more of them.
    static let maximumCount = 16_384

    /// The transactions after `start` up to `last` were read; nil before the first reading.
    private var start: UInt64?
    private var last: UInt64 = 0
    /// The state up to which they were read, once that is reached.
    private var end: HistoryToken?
    private var found: Set<ObjectID>?

    /// Creates an empty value: no changes are known.
    public init() {}

    /// The objects that changed up to the state, and perhaps some that did not; nil if they are not known: because
    /// history does not have all their changes, because they are more than 16,384, or because reading stopped early.
    public var ids: Set<ObjectID>? { end == nil ? nil : found }

    /// The objects that differ between two states; nil if they are not known. Constant time if they were noted from the
    /// older state on, otherwise linear in the noted objects.
    func ids(from older: Snapshot, to newer: Snapshot) throws(StoreError) -> Set<ObjectID>? {
        let number = older.view.number
        guard let start, start <= number, end == newer.token, let found else { return nil }
        if start == number { return found }
        var ids: Set<ObjectID> = []
        for id in found where try newer.isOther(id, than: older) { ids.insert(id) }
        return ids
    }

    /// Called when reading continues after a transaction. If that is not where it ended, notes begin again here.
    ///
    /// - Parameter isWhole: Whether history has all changes after it.
    fileprivate mutating func begin(after number: UInt64, isWhole: Bool) {
        end = nil
        if let start, (start...last).contains(number) {
            if !isWhole { found = nil }
            return
        }
        (start, last) = (number, number)
        found = isWhole ? [] : nil
    }

    /// - Parameter isStep: Whether it only moves a search index on.
    fileprivate mutating func note(_ transaction: TransactionView, isStep: Bool) throws(StoreError) {
        let isNext = transaction.number <= last + 1
        last = max(last, transaction.number)
        guard let count = found?.count else { return }
        assert(isNext, "CB1: a transaction was skipped.")
        if isStep { return }
        guard transaction.totalChanges <= UInt64(Self.maximumCount - count) else {
            found = nil
            return
        }
        try transaction.forEachChange { (change) in
            found?.insert(change.object)
            return true
        }
    }

    fileprivate mutating func end(at token: HistoryToken) { if last == token.number { end = token } }
}

extension Store {
    /// Calls `body` as `forEachTransaction(_:in:_:)` does, and notes the objects of all transactions on the way.
    /// History is read once for both.
    ///
    /// Several readings, each after the end of the one before, note everything from the beginning of the first one.
    /// Only readings in the order of transactions note anything. Throws as `forEachTransaction(_:in:_:)`.
    ///
    /// - Parameters:
    ///   - request: The conditions for transactions passed to `body`.
    ///   - snapshot: The state at which history ends.
    ///   - changed: Notes the objects.
    ///   - body: Called with each transaction that the request selects. Return false to stop.
    public func forEachTransaction(
        _ request: HistoryRequest, in snapshot: Snapshot, noting changed: inout ChangedObjects,
        _ body: (borrowing HistoryTransactionView) throws(StoreError) -> Bool
    ) throws {
        let resolved = try ResolvedRequest(request, self, snapshot)
        let range = resolved.range
        guard !range.isNewestFirst, resolved.limit > 0 else {
            return try forEachTransaction(request, in: snapshot, body)
        }
        let (_, coverage) = try reading(snapshot, resolved.engine)
        let (reserved, indexAuthor) = (
            resolved.view.reservedEntities, resolved.engine.number(ofName: ReservedEntity.indexAuthor)
        )
        // As in `changedObjects(after:in:atMost:of:)`, but known without reading history.
        let isWhole =
            coverage.gaps(except: reserved).isEmpty
            && coverage.cleanedEnd(after: range.after, before: .max, TransactionFilter()) == nil
        changed.begin(after: range.after, isWhole: isWhole)
        var (left, goesOn) = (resolved.limit, true)
        var lending = HistoryLending(self, resolved.view, resolved.changes)
        try resolved.engine.tracked(resolved.view).forEachTransaction(range) { (transaction) throws(StoreError) in
            try changed.note(transaction, isStep: transaction.isIndexStep(by: indexAuthor, reserved))
            guard try resolved.contains(transaction) else { return true }
            left -= 1
            goesOn = try withUnsafePointer(to: transaction) { (transaction) throws(StoreError) in
                try body(HistoryTransactionView(lending.show(transaction))) && left > 0
            }
            return goesOn
        }
        if goesOn { changed.end(at: snapshot.token) }
    }
}
