// An object's past: every change that history holds of it, with who made it and when.

public import FoundationEssentials

/// One change that an object has gone through, and its transaction.
public struct ObjectVersion: Hashable, Sendable, Codable {
    /// The transaction's number and the place after it.
    public let number: UInt64
    /// The place directly after the transaction.
    public let token: HistoryToken
    /// When it was committed: microseconds since 1970, UTC.
    public let microseconds: Int64
    /// Who made the change; nil if it was not said.
    public let author: String?
    /// What they were doing, or where; nil if it was not said.
    public let contextName: String?
    /// The process that committed it, as its own system numbered it.
    public let processID: UInt32
    /// The file name of the program.
    public let process: String?
    /// With the object before and after.
    public let change: HistoryChange

    /// The nearest `Date`.
    public var timestamp: Date { Microseconds.date(microseconds) }
}

extension Store {
    /// Gives `body` every change that history holds of an object, newest first, each with its transaction, until it
    /// returns false.
    ///
    /// `change.after()` is the version of the object that the change made. Nothing is given where history holds none,
    /// or if there was never such an object. Follows the links between versions instead of looking through history:
    /// some 10 to 100 microseconds a version.
    ///
    /// Throws `StoreError`: `historyGap` where history of the entity is off, and after all versions since it began
    /// anew where the object was there before;
    /// `damaged`, `closed`, and what `body` throws.
    ///
    /// - Parameters:
    ///   - object: The object.
    ///   - number: Only what came after this transaction.
    ///   - snapshot: Where the past begins; nil for the newest state.
    ///   - body: Called with each version. False ends the reading.
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
        // What was cleaned stands there until compaction passes it, and is no history any more.
        let oldest = max(number, coverage.horizon)
        // Of what was deleted before history began nothing may be left.
        var isFound = gap == nil
        var lending = HistoryLending(self, view, ChangeFilter.showing(view, coverage.gaps))
        var isEnded = false
        let isFolded = try engine.tracked(view).forEachVersion(of: object) {
            (transaction, change) throws(StoreError) in
            (isEnded, isFound) = (true, true)
            // Also of what was cleaned: compaction would leave nothing that tells when it was.
            if let gap, gap.hides(version: transaction.schemaVersion) {
                isWhole = false
                return false
            }
            guard transaction.number > oldest else { return false }
            if coverage.isCleaned(transaction.number, author: transaction.authorNumber) { return true }
            let context = lending.show(transaction)
            isEnded = try !body(HistoryTransactionView(context), HistoryChangeView(change, context))
            return !isEnded
        }
        if isFolded, !isEnded { isWhole = false }
        if !isFolded, !isFound { isWhole = try !engine.wasGiven(object) }
        // What was cleaned is no gap.
        guard !isWhole, let report, let last = report.last, last > oldest else { return }
        throw report.refusal(path: path)
    }

    /// The versions of an object as values, newest first, at most so many, and only those after a transaction. Throws
    /// as `forEachVersion`.
    public func versions(
        of object: ObjectID, after number: UInt64 = 0, limit: Int? = nil
    ) throws -> [ObjectVersion] {
        var versions: [ObjectVersion] = []
        guard limit.map({ $0 > 0 }) ?? true else { return [] }
        try forEachVersion(of: object, after: number) { (transaction, change) throws(StoreError) in
            versions.append(
                ObjectVersion(
                    number: transaction.number, token: transaction.token, microseconds: transaction.microseconds,
                    author: transaction.author, contextName: transaction.contextName,
                    processID: transaction.processID, process: transaction.process,
                    change: try change.value(includingValues: true)))
            return limit.map { versions.count < $0 } ?? true
        }
        return versions
    }
}
