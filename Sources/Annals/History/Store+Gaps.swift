// Entities whose history is off, or was: where it begins, and who asks for what was not kept.
//
// Invariants:
// HC1  Nobody gets an answer without changes of an entity that they asked for, only because its history was not kept: they get `historyGap`.
// HC2  What is left out, and who is told so, follows from the newest schema that the file of the answer knows, not from what compaction has done.

internal import FoundationEssentials

extension Store {
    /// The place that an entity's history begins at: `oldestToken` where it was never off, nil while it is off, else the place before the
    /// transaction that turned it on. Throws `StoreError`: `unknownEntity`. Logarithmic in the number of transactions.
    public func oldestToken(ofEntity name: String) throws -> HistoryToken? {
        let (engine, view) = try newest()
        guard !IdentifierName(name).isReserved, let number = view.catalog.number(ofEntity: name) else {
            throw StoreError.unknownEntity(name)
        }
        guard let gap = view.historyGaps.first(where: { $0.entity == number }) else { return try oldestToken(engine) }
        return try GapReport(gap, engine, view, identifier).begin
    }

    /// What is not kept of history now, whichever state it is read from.
    func historyGaps(_ engine: Engine) throws(StoreError) -> [HistoryGap] {
        try engine.viewOfThisFile().historyGaps
    }

    /// Throws where a range of history lacks changes of an entity that is asked for: of one of those named, or, where none is named, of one that has a
    /// history.
    func requireNoGaps(
        _ gaps: [HistoryGap], in range: HistoryRange, named: Set<UInt16>?, _ engine: Engine, _ view: View
    ) throws(StoreError) {
        let asked = gaps.filter { named?.contains($0.entity) ?? $0.concernsAll }
        if asked.isEmpty { return }
        let versions = try engine.tracked(view).schemaVersions(in: range)
        guard let gap = asked.first(where: { $0.meets(versions) }) else { return }
        throw try GapReport(gap, engine, identifier).refusal(path: path)
    }
}

/// Tells of one entity what is not kept.
struct GapReport {
    let name: String
    let gap: HistoryGap
    /// The last transaction that is no part of the entity's history; nil where it has none.
    let last: UInt64?
    /// The place behind that one, or the oldest one of all where that is later.
    let begin: HistoryToken?

    /// `newest` is the newest state of the engine's file.
    init(_ gap: HistoryGap, _ engine: Engine, _ newest: View, _ store: UUID) throws(StoreError) {
        self.gap = gap
        name = newest.catalog.lastDefinition(ofEntity: gap.entity)?.name.text ?? "entity \(gap.entity)"
        guard case .resumed(let version) = gap.end else {
            (last, begin) = (nil, nil)
            return
        }
        let (number, tag) = try { () throws(StoreError) in
            let number = try engine.tracked(newest).firstNumber(ofSchemaVersion: version) - 1
            if number > engine.oldestNumber { return (number, try engine.view(asOf: number).tag) }
            let oldest = try engine.oldest()
            return (oldest.number, oldest.tag)
        }()
        last = number
        begin = HistoryToken(storeIdentifier: store, number: number, tag: tag)
    }

    init(_ gap: HistoryGap, _ engine: Engine, _ store: UUID) throws(StoreError) {
        let newest = try engine.viewOfThisFile()
        try self.init(gap, engine, newest, store)
    }

    /// For who asks for history.
    func refusal(path: String) -> StoreError {
        let message =
            switch (gap.end, last) {
            case (.resumed, let last?):
                "The history of “\(name)” begins behind transaction \(last), and it is asked for from before: ask for what comes after \(last), leave "
                    + "the entity out, or read everything anew and go on from there."
            case (.removed, _):
                "No history of “\(name)” was kept when it was removed: leave the entity out."
            default:
                "No history of “\(name)” is kept: leave the entity out, read its objects anew, or turn its history on, which "
                    + "begins then."
            }
        return StoreError(.historyGap, message, path: path, oldestToken: begin)
    }

    /// For who asks what objects were as of a transaction, or before it.
    func refusal(asOf number: UInt64, path: String) -> StoreError {
        let what = "What “\(name)” was at transaction \(number) is not known, because no history of it was kept then: "
        let message = last.map { "take \($0) or a later one, or leave the entity out." }
        return StoreError(
            .historyGap, what + (message ?? "read the newest state, or leave the entity out."), path: path,
            oldestToken: begin)
    }
}

extension Snapshot {
    /// Throws where it is not known what the entity was in this state.
    @inline(__always)
    func requireKnown(_ entity: UInt16) throws(StoreError) {
        if !view.unknownEntities.isEmpty { try refuseUnknown(entity) }
    }

    @inline(never)
    private func refuseUnknown(_ entity: UInt16) throws(StoreError) {
        // What was added later is not in this state: of that it is known.
        guard view.unknownEntities.contains(entity), view.catalog.isUsed(entity: entity) else { return }
        let newest = try engine.viewOfThisFile()
        guard let gap = newest.historyGaps.first(where: { $0.entity == entity }) else { return }
        throw try GapReport(gap, engine, newest, storeIdentifier).refusal(asOf: view.number, path: engine.log.path)
    }
}
