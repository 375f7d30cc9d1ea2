// Entities whose history is off, or was: the beginning of their history, and errors for requests of missing history.

internal import FoundationEssentials

extension Store {
    /// The place at which an entity's history begins: `oldestToken` if it was never off, nil while it is off, otherwise
    /// the place before the transaction that turned it on. Logarithmic in the number of transactions. Throws
    /// `StoreError`: `unknownEntity`.
    public func oldestToken(ofEntity name: String) throws -> HistoryToken? {
        let (engine, view) = try newest()
        guard !IdentifierName(name).isReserved, let number = view.catalog.number(ofEntity: name) else {
            throw StoreError.unknownEntity(name)
        }
        guard let gap = engine.tracked(view).coverage.gap(of: number) else { return try oldestToken(engine) }
        return try GapReport(gap, engine, identifier).begin
    }

    /// Throws if an answer about a range would lack cleaned transactions that the filter selects (`tokenExpired`), or
    /// changes of the named entities that history did not keep (`historyGap`). Without a filter, cleaned transactions
    /// may be missing.
    func requireWhole(
        _ range: HistoryRange, _ coverage: HistoryCoverage, _ engine: Engine, _ view: View,
        named: Set<UInt16>? = nil, filter: TransactionFilter? = TransactionFilter()
    ) throws(StoreError) {
        let history = engine.tracked(view)
        if let filter,
            let cleaned = try history.lastCleaned(
                coverage, after: range.after, before: range.before, filter: filter)
        {
            throw StoreError(
                .tokenExpired,
                "Transactions of some authors up to \(cleaned) were cleaned, including some after \(range.after): "
                    + "request history after \(cleaned), exclude these authors, or read everything again and continue "
                    + "from the state that you read.",
                path: path, oldestToken: try token(ofNumber: cleaned, engine, view))
        }
        let gap = try coverage.gap(named: named) { () throws(StoreError) in try history.schemaVersions(in: range) }
        if let gap { throw try GapReport(gap, engine, identifier).refusal(path: path) }
    }
}

/// The part of an entity's history that was not kept.
struct GapReport {
    let name: String
    let gap: HistoryGap
    /// The last transaction before the entity's history begins; nil if it has no history.
    let last: UInt64?
    /// The place after that transaction, or the oldest place of all if that is later.
    let begin: HistoryToken?

    init(_ gap: HistoryGap, _ engine: Engine, _ store: UUID) throws(StoreError) {
        let newest = try engine.viewOfThisFile()
        self.gap = gap
        name = newest.catalog.lastDefinition(ofEntity: gap.entity)?.name.text ?? "entity \(gap.entity)"
        guard case .resumed(let version) = gap.end else {
            (last, begin) = (nil, nil)
            return
        }
        let number = try engine.tracked(newest).firstNumber(ofSchemaVersion: version) - 1
        let oldest = try engine.oldest()
        let tag = number > oldest.number ? try engine.view(asOf: number).tag : oldest.tag
        last = max(number, oldest.number)
        begin = HistoryToken(storeIdentifier: store, number: max(number, oldest.number), tag: tag)
    }

    /// The error for requests of history.
    func refusal(path: String) -> StoreError {
        let message =
            switch (gap.end, last) {
            case (.resumed, let last?):
                "The history of “\(name)” begins after transaction \(last), but the request begins earlier: request "
                    + "history after \(last), leave the entity out, or read everything again and continue from there."
            case (.removed, _):
                "No history of “\(name)” was kept when it was removed: leave the entity out."
            default:
                "No history of “\(name)” is kept: leave the entity out, read its objects again, or turn its history "
                    + "on, which then begins."
            }
        return StoreError(.historyGap, message, path: path, oldestToken: begin)
    }

    /// The error for requests of objects as of a transaction, or before it.
    func refusal(asOf number: UInt64, path: String) -> StoreError {
        let what =
            "The objects of “\(name)” at transaction \(number) are unknown, because their history was not kept at that "
            + "time: "
        let message = last.map { "use transaction \($0) or a later one, or leave the entity out." }
        return StoreError(
            .historyGap, what + (message ?? "read the newest state, or leave the entity out."), path: path,
            oldestToken: begin)
    }
}

extension Snapshot {
    /// Throws if the entity's objects are not known for this state.
    @inline(__always)
    func requireKnown(_ entity: UInt16) throws(StoreError) {
        if !view.unknownEntities.isEmpty { try refuseUnknown(entity) }
    }

    @inline(never)
    private func refuseUnknown(_ entity: UInt16) throws(StoreError) {
        // A later entity is known to have no objects in this state.
        guard view.unknownEntities.contains(entity), view.catalog.isUsed(entity: entity) else { return }
        guard let gap = engine.tracked(try engine.viewOfThisFile()).coverage.gap(of: entity) else { return }
        throw try GapReport(gap, engine, storeIdentifier).refusal(asOf: view.number, path: engine.log.path)
    }
}
