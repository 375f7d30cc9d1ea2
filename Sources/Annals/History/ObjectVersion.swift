// The past of an object: every change of it in history, with author and time.

/// One change of an object, and its transaction.
public struct ObjectVersion: HistoryRecord, Hashable, Sendable {
    /// The author and time of the transaction, and other facts about it.
    public let header: TransactionHeader
    /// The change, with the object before and after it.
    public let change: HistoryChange

    /// A change and its transaction.
    public init(header: TransactionHeader, change: HistoryChange) { (self.header, self.change) = (header, change) }
}

/// The members of the header and the change become members of one JSON object.
extension ObjectVersion: Codable {
    private enum CodingKeys: String, CodingKey {
        case change
    }

    public init(from decoder: any Decoder) throws {
        header = try TransactionHeader(from: decoder)
        change = try decoder.container(keyedBy: CodingKeys.self).decode(HistoryChange.self, forKey: .change)
    }

    public func encode(to encoder: any Encoder) throws {
        try header.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(change, forKey: .change)
    }
}

extension Store {
    /// Calls `body` with every change of an object in history, newest first, each with its transaction, until `body`
    /// returns false.
    ///
    /// `change.after()` is the version of the object that the change made. If history has no changes of the object, or
    /// the object never existed, `body` is not called. The call follows the links between versions instead of searching
    /// history: about 10 to 100 microseconds for each version.
    ///
    /// Throws `StoreError`: `historyGap` if the entity's history is off; also `historyGap`, after all versions, if the
    /// object existed before the entity's history began again; `damaged`, `closed`, and errors of `body`.
    ///
    /// - Parameters:
    ///   - object: The object.
    ///   - number: Only changes after this transaction.
    ///   - snapshot: The state to begin with; nil for the newest.
    ///   - body: Called with each version. Return false to stop.
    public func forEachVersion(
        of object: ObjectID, after number: UInt64 = 0, in snapshot: Snapshot? = nil,
        _ body: (borrowing HistoryTransactionView, borrowing HistoryChangeView) throws(StoreError) -> Bool
    ) throws {
        let engine = snapshot?.engine ?? engine
        let (view, coverage) = try reading(snapshot, engine)
        guard !view.reservedEntities.contains(object.entityNumber) else { return }
        let gap = coverage.gap(of: object.entityNumber)
        let report = try gap.map { (gap) throws(StoreError) in try GapReport(gap, engine, identifier) }
        if let report, report.last == nil { throw report.refusal(path: path) }
        var isWhole = true
        // Cleaned transactions are in the file until compaction, but are no longer history.
        let oldest = max(number, coverage.horizon)
        // An object that was deleted before history began may be gone completely.
        var isFound = gap == nil
        var lending = HistoryLending(self, view, ChangeFilter.showing(view, coverage.gaps))
        var isEnded = false
        let isFolded = try engine.tracked(view).forEachVersion(of: object) {
            (transaction, change) throws(StoreError) in
            (isEnded, isFound) = (true, true)
            // Also for cleaned transactions: after compaction, their time would be unknown.
            if let gap, gap.hides(version: transaction.schemaVersion) {
                isWhole = false
                return false
            }
            guard transaction.number > oldest else { return false }
            if coverage.isCleaned(transaction.number, author: transaction.authorNumber) { return true }
            isEnded = try withUnsafePointer(to: transaction) { (transaction) throws(StoreError) in
                let context = lending.show(transaction)
                return try !body(HistoryTransactionView(context), HistoryChangeView(change, context))
            }
            return !isEnded
        }
        if isFolded, !isEnded { isWhole = false }
        if !isFolded, !isFound { isWhole = try !engine.wasGiven(object) }
        // Cleaned transactions are not a gap.
        guard !isWhole, let report, let last = report.last, last > oldest else { return }
        throw report.refusal(path: path)
    }

    /// The versions of an object as values, newest first: at most `limit` of them, and only those after transaction
    /// `number`. Throws as `forEachVersion`.
    public func versions(
        of object: ObjectID, after number: UInt64 = 0, limit: Int? = nil
    ) throws -> [ObjectVersion] {
        var versions: [ObjectVersion] = []
        guard limit.map({ $0 > 0 }) ?? true else { return [] }
        try forEachVersion(of: object, after: number) { (transaction, change) throws(StoreError) in
            versions.append(
                ObjectVersion(header: transaction.header, change: try change.value(includingValues: true)))
            return limit.map { versions.count < $0 } ?? true
        }
        return versions
    }
}
