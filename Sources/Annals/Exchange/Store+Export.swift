// Transactions leave the store.

public import FoundationEssentials

extension Store {
    /// Gives `body` the transactions after a place as values that another store can apply, oldest first, until it
    /// returns false.
    ///
    /// Without a place it gives everything: where history was cleaned it begins with one transaction that inserts all
    /// objects as they were after what was cleaned, and has the number of that place; it goes into a store that has
    /// nothing of what it holds, its own or others' (`holds`). The first transaction and those that change the schema
    /// have the entities with them.
    ///
    /// Entities whose history is off are in that first transaction only, which then is of the newest state; of later
    /// transactions their changes are left out, and what then remains may be nothing. A reference to an object that
    /// another store never got is there one to an unknown object (`ApplyConflict`). An entity whose history was turned
    /// on since `place` throws `historyGap`: export everything anew.
    ///
    /// Transactions that were applied from elsewhere are exported like all others, and name their origin; the store
    /// that has them already passes them over. Transactions that only note that something was passed over are left out.
    /// Objects keep the name that they have in the store in which they were first inserted. So stores may export to
    /// each other, in chains and in circles. A place that was cleaned is right as long as nothing after it was cleaned
    /// that would be exported; for what `target` leaves out that holds where it was named each time, and if it was
    /// not cleaned by its author.
    ///
    /// Takes memory for one transaction at a time, and for all objects where it begins with these. What is not durable
    /// yet is exported too: export up to the snapshot of a durable place where a loss of power must not take what
    /// others have.
    ///
    /// Throws as `forEachTransaction`, and what `body` throws.
    ///
    /// - Parameters:
    ///   - place: After which transaction to begin. What the other store's `lastApplied` gives is right; nil for
    ///     everything.
    ///   - target: The identifier of the store that they are for: what was first made there is left out. Nil for
    ///     whoever.
    ///   - snapshot: Where to stop; nil for the newest state.
    ///   - body: Called with each transaction. False ends the export.
    public func forEachExportedTransaction(
        after place: HistoryRequest.Place? = nil, to target: UUID? = nil, in snapshot: Snapshot? = nil,
        _ body: (ExportedTransaction) throws -> Bool
    ) throws {
        let end = if let snapshot { snapshot } else { try self.snapshot() }
        _ = try reading(end, end.engine)
        var reader = try ExportReader(end, to: target)
        let state = try place == nil ? wholeState(end, to: target) : nil
        let start = state.map { .number($0.view.number) } ?? place
        // Before anything is given: a state alone would be of no use to a receiver that then cannot go on.
        let rest = try state?.view.number == end.view.number ? nil : resolve(start, to: target, end)
        var previous: HistoryToken?
        if let state {
            let exported = try reader.readState(state)
            guard try body(exported) else { return }
            previous = exported.token
        }
        guard let (resolved, oldest) = rest else { return }
        if state == nil { previous = try lastExported(upTo: resolved.range.after, reader, oldest, end) }
        var isFirst = state == nil
        var failure: (any Error)?
        try forEachTransaction(resolved) { (transaction) throws(StoreError) -> Bool in
            guard let exported = try reader.read(transaction, previous: previous, isFirst: isFirst) else { return true }
            (previous, isFirst) = (exported.token, false)
            do {
                return try body(exported)
            } catch {
                failure = error
                return false
            }
        }
        if let failure { throw failure }
    }

    /// The state that everything begins with; nil if history holds all that the receiver has not made itself.
    private func wholeState(_ end: Snapshot, to target: UUID?) throws(StoreError) -> Snapshot? {
        guard let state = try oldestWhole(end) else { return nil }
        let oldest = try oldest(end, to: target)
        return oldest.exported.number == 0 && state.view.number == oldest.number ? nil : state
    }

    /// The state behind which history holds every transaction whole; nil if it holds all that there ever were. The
    /// end, if there is an entity of which no history is kept.
    private func oldestWhole(_ end: Snapshot) throws(StoreError) -> Snapshot? {
        let (engine, view) = (end.engine, end.view)
        let coverage = try reading(nil, engine).coverage
        var number = try engine.tracked(view).lastCleaned(coverage, after: coverage.horizon) ?? coverage.horizon
        for gap in coverage.gaps
        where view.catalog.entity(gap.entity, version: view.catalog.newestVersion) != nil {
            number = max(number, try GapReport(gap, engine, identifier).last ?? view.number)
        }
        if number >= view.number, view.number > 0 { return end }
        guard number > 0 else { return nil }
        let state = try engine.view(asOf: number)
        return Snapshot(state, engine, identifier)
    }

    /// Where history begins, and the last transaction up to there that would be exported; number 0 for none.
    private typealias Oldest = (number: UInt64, exported: HistoryToken)

    private func oldest(_ end: Snapshot, to target: UUID?) throws(StoreError) -> Oldest {
        let number = end.engine.oldestNumber
        let state = try end.engine.view(asOf: number)
        let oldest = Snapshot(state, end.engine, identifier)
        return (number, try ExportReach(oldest)?.last(for: target) ?? oldest.token)
    }

    /// What comes after a place; nil for nothing. One that was cleaned is right all the same if nothing after it
    /// would be exported of what was cleaned too.
    private func resolve(
        _ place: HistoryRequest.Place?, to target: UUID?, _ end: Snapshot
    ) throws(StoreError) -> (request: ResolvedRequest, oldest: Oldest)? {
        while true {
            let oldest = try oldest(end, to: target)
            var start = place
            switch place {
            case nil, .oldest: start = .number(oldest.number)
            case .number(let number) where number < oldest.number && number >= oldest.exported.number:
                start = .number(oldest.number)
            // Of those that are left out the tags are not known any more.
            case .token(let token)
            where token.number < oldest.number
                && (token.number > oldest.exported.number || token == oldest.exported):
                try requireOwner(token)
                start = .number(oldest.number)
            default: break
            }
            // An end from before what was cleaned: nothing after the place is left to be given.
            if start != place, oldest.number >= end.view.number { return nil }
            do {
                return (try ResolvedRequest(HistoryRequest(after: start), self, end), oldest)
            } catch  where error.code == .tokenExpired {
                // If others have cleaned meanwhile, what is left out may reach further now.
                if end.engine.oldestNumber > oldest.number { continue }
                throw StoreError(
                    .tokenExpired,
                    "History does not hold all that comes after that place: some of it up to "
                        + "\(error.oldestToken?.number ?? oldest.number) was "
                        + "cleaned. Export everything, and apply it to a new store.", path: path,
                    oldestToken: error.oldestToken)
            }
        }
    }

    /// The last transaction up to a number that would be exported: what a receiver that goes on there has applied.
    private func lastExported(
        upTo number: UInt64, _ reader: ExportReader, _ oldest: Oldest, _ end: Snapshot
    ) throws(StoreError) -> HistoryToken? {
        var token = oldest.exported
        var lending = HistoryLending(self, end.view, nil)
        let range = HistoryRange(after: oldest.number, before: number + 1, isNewestFirst: true)
        try end.engine.tracked(end.view).forEachTransaction(range) { (transaction) throws(StoreError) in
            let transaction = HistoryTransactionView(lending.show(transaction))
            guard try reader.includes(transaction) else { return true }
            token = transaction.token
            return false
        }
        return token.number > 0 ? token : nil
    }

    /// The same transactions as values, at most so many. They are all in memory at once. Throws `StoreError`.
    public func export(
        after place: HistoryRequest.Place? = nil, to target: UUID? = nil, limit: Int? = nil
    ) throws -> [ExportedTransaction] {
        var transactions: [ExportedTransaction] = []
        guard limit.map({ $0 > 0 }) ?? true else { return [] }
        try forEachExportedTransaction(after: place, to: target) { (transaction) in
            transactions.append(transaction)
            return limit.map { transactions.count < $0 } ?? true
        }
        return transactions
    }
}
