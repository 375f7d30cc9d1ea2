// The part of history that can be requested: which places, which transactions, and which changes of which entities.
//
// Invariants:
// HC1  A place can be requested from the horizon to the newest transaction; a transaction, if it is above the horizon.
// HC2  No answer lacks a requested transaction because those of its author were cleaned: it is `tokenExpired` instead.
//      A request from the beginning of history requests only uncleaned transactions.
// HC3  No answer lacks changes of a requested entity because its history was not kept: it is `historyGap` instead. A
//      request for all entities concerns those that have a history, even if not from its beginning.
// HC4  Omissions depend only on the present knowledge of the file that answers, not on the state that is read or on
//      compaction.

/// The coverage at one moment: the answers to several questions agree.
package struct HistoryCoverage: Sendable {
    /// The place at which history begins.
    package let horizon: UInt64
    /// The authors with cleaned transactions above the horizon, each with the number below which these were cleaned.
    package let hidden: [CleaningRecord.Hidden]
    package let gaps: [HistoryGap]

    package init(horizon: UInt64, hidden: [CleaningRecord.Hidden], gaps: [HistoryGap]) {
        (self.horizon, self.hidden, self.gaps) = (horizon, hidden, gaps)
    }

    /// The reason why a place cannot be requested (HC1); nil if it can.
    package func refusal(of place: UInt64, newest: UInt64) -> StoreError.Code? {
        place > newest ? .tokenUnknown : place < horizon ? .tokenExpired : nil
    }

    /// Whether a transaction was cleaned, alone or with all earlier ones. (HC2)
    package func isCleaned(_ number: UInt64, author: UInt32) -> Bool {
        number <= horizon || hidden.contains { $0.author == author && number < $0.before }
    }

    /// An exclusive upper bound for cleaned transactions of a range that the filter may show; nil without any.
    package func cleanedEnd(after number: UInt64, before end: UInt64, _ filter: TransactionFilter) -> UInt64? {
        let limit = hidden.filter { filter.shows(author: $0.author) }.map { min($0.before, end) }.max()
        return limit.flatMap { number + 1 < $0 ? $0 : nil }
    }

    package func gap(of entity: UInt16) -> HistoryGap? { gaps.first { $0.entity == entity } }

    /// The gaps of other entities than these.
    package func gaps(except entities: Set<UInt16>) -> [HistoryGap] { gaps.filter { !entities.contains($0.entity) } }

    /// The first gap that a request meets (HC3): of the entities that it names, or of all that have a history.
    /// `versions` are the schema versions of its transactions; computed only if such an entity exists.
    package func gap(
        named: Set<UInt16>?, _ versions: () throws(StoreError) -> ClosedRange<UInt16>?
    ) throws(StoreError) -> HistoryGap? {
        let requested = gaps.filter { named?.contains($0.entity) ?? $0.concernsAll }
        if requested.isEmpty { return nil }
        let versions = try versions()
        return requested.first { $0.meets(versions) }
    }
}

extension TrackedView {
    /// The requests that can be answered now (HC4), if this is the newest state.
    package var coverage: HistoryCoverage {
        let tracking = log.current.tracking
        return HistoryCoverage(horizon: tracking.horizon, hidden: tracking.hidden, gaps: view.historyGaps)
    }

    /// The last transaction above `number` and below `end` that was cleaned with its author's transactions, and that
    /// the filter would show; nil without one.
    package func lastCleaned(
        _ coverage: HistoryCoverage, after number: UInt64, before end: UInt64 = .max,
        filter: TransactionFilter = TransactionFilter()
    ) throws(StoreError) -> UInt64? {
        guard let limit = coverage.cleanedEnd(after: number, before: end, filter) else { return nil }
        var last: UInt64?
        try forEachTransaction(after: number) { (transaction) in
            if transaction.number >= limit { return false }
            let isCleaned = coverage.isCleaned(transaction.number, author: transaction.authorNumber)
            if isCleaned, filter.matches(transaction) { last = transaction.number }
            return true
        }
        return last
    }
}
