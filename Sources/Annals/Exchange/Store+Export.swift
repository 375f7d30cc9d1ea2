// Exporting transactions to other stores.

public import FoundationEssentials

extension Store {
    /// Calls `body` with the transactions after a place as values that another store can apply, oldest first, until
    /// `body` returns false.
    ///
    /// Without a place, everything is exported. If history was cleaned, the export begins with one transaction that
    /// inserts all objects as they were after the cleaned part. It has the number of that place. Apply it to a store
    /// that has no part of its content, including content from other stores (`holds`). The first transaction, and those
    /// that change the schema, contain the entities.
    ///
    /// Entities whose history is off are only in that first transaction, which is then the newest state. Later
    /// transactions lack their changes, and may be empty. A store that already has a part of the state cannot apply it.
    /// If a transaction of `target` was applied here, the export has no state and begins with the history of the other
    /// entities. For another store, export after `.number(0)` to get the same. A reference to an object that the other
    /// store never received is a reference to an unknown object there (`ApplyConflict`). If the history of an entity
    /// was turned on after `place`, this throws `historyGap`: export everything again.
    ///
    /// Transactions that were applied from other stores are exported too, and name their origin. A store that has them
    /// already skips them. Transactions that only note a skipped one are left out. Objects keep the name from the store
    /// in which they were first inserted. So stores may export to each other, in chains and in circles.
    ///
    /// A cleaned place is still valid if no transaction to export was cleaned after it. Cleaned transactions that
    /// `target` leaves out do not matter, if every call names that target and they were not cleaned by author.
    ///
    /// With a new identity, the transactions are exported as those of another store, which began with the objects that
    /// this store had at `place`. Use it for a store that was restored from a backup, or has left its group: the other
    /// stores have other transactions under its identifier, or take no more of them. `place` is then the last one in
    /// common. Transactions that a mirror has merged are left out, and a state that it has taken. The same place gives
    /// the same new identifier, so a store notices what it has applied already. Export everything after it at once:
    /// from another place, the identifier and the names of objects are others.
    ///
    /// Takes memory for one transaction at a time, and the first may contain all objects. Transactions that are not
    /// durable yet are exported too. If a power failure must not remove transactions that other stores have, export up
    /// to the snapshot of a durable place.
    ///
    /// - Parameters:
    ///   - place: The transaction to begin after: use the other store's `lastApplied`. Nil for everything.
    ///   - target: The identifier of the receiving store: transactions that were made there are left out. Nil for any
    ///     store.
    ///   - snapshot: The state to stop at; nil for the newest.
    ///   - newIdentity: Whether to export as another store. It needs a place.
    ///   - body: Called with each transaction. Return false to stop.
    ///
    /// Throws as `forEachTransaction`, `invalidArgument` for a new identity without a place, and errors of `body`.
    public func forEachExportedTransaction(
        after place: HistoryRequest.Place? = nil, to target: UUID? = nil, in snapshot: Snapshot? = nil,
        newIdentity: Bool = false, _ body: (ExportedTransaction) throws -> Bool
    ) throws {
        try forEachExportedTransaction(
            after: place, to: target, in: snapshot, newIdentity: newIdentity, leavingOut: [], body)
    }

    /// The same without some entities, by their numbers. No attribute of the rest may refer to one of them.
    package func forEachExportedTransaction(
        after place: HistoryRequest.Place?, to target: UUID? = nil, in snapshot: Snapshot?,
        newIdentity: Bool = false, leavingOut leftOut: Set<UInt16>, _ body: (ExportedTransaction) throws -> Bool
    ) throws {
        let end = if let snapshot { snapshot } else { try self.snapshot() }
        _ = try reading(end, end.engine)
        let shared = newIdentity ? try self.shared(place, end) : nil
        var reader = try ExportReader(end, to: target, apartFrom: shared, leavingOut: leftOut)
        let state = try place == nil ? wholeState(end, to: target) : nil
        let start = state.map { .number($0.view.number) } ?? place
        // Before the first call of `body`: a receiver that cannot continue after the state has no use for it.
        let rest = try state?.view.number == end.view.number ? nil : resolve(start, to: target, end)
        var previous: HistoryToken?
        if let state {
            let exported = try reader.readState(state)
            guard try body(exported) else { return }
            previous = exported.token
        }
        guard let (resolved, oldest) = rest else { return }
        if state == nil, shared == nil {
            previous = try lastExported(upTo: resolved.range.after, reader, oldest, end)
        }
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

    /// The last state in common with other stores.
    private func shared(_ place: HistoryRequest.Place?, _ end: Snapshot) throws(StoreError) -> Snapshot {
        guard let place else {
            throw StoreError(
                .invalidArgument,
                "An export with a new identity begins after the last transaction that other stores have under the old "
                    + "one: give that place. For a copy of everything, use a backup with a new identity.", path: path)
        }
        let number = try ResolvedRequest(HistoryRequest(after: place), self, end).range.after
        return Snapshot(try end.engine.view(asOf: number), end.engine, identifier)
    }

    /// The state with which the export begins; nil if it begins with history. That is so if history has every
    /// transaction that the receiver did not make, and also if it lacks only objects of entities whose history is off
    /// and the receiver cannot apply a state.
    private func wholeState(_ end: Snapshot, to target: UUID?) throws(StoreError) -> Snapshot? {
        guard let state = try oldestWhole(end) else { return nil }
        let oldest = try oldest(end, to: target)
        if oldest.exported.number == 0, state.view.number == oldest.number { return nil }
        // A receiver whose own transactions were applied here has their objects already, and cannot apply a state. So
        // the export begins with history, if that lacks only objects of entities whose history is off.
        guard let target, oldest.exported.number == 0, try AppliedOrigins(end).record(of: target) != nil else {
            return state
        }
        let whole = try oldestWhole(end, countsHistoryOff: false)
        return whole == nil || whole?.view.number == oldest.number ? nil : state
    }

    /// The state after which history has every transaction complete; nil if it has all transactions. The end, if the
    /// history of an entity is off and counts.
    private func oldestWhole(_ end: Snapshot, countsHistoryOff: Bool = true) throws(StoreError) -> Snapshot? {
        let (engine, view) = (end.engine, end.view)
        let coverage = try reading(nil, engine).coverage
        var number = try engine.tracked(view).lastCleaned(coverage, after: coverage.horizon) ?? coverage.horizon
        // The store's own entities are not exported.
        for gap in coverage.gaps(except: view.reservedEntities)
        where view.catalog.entity(gap.entity, version: view.catalog.newestVersion) != nil {
            let last = try GapReport(gap, engine, identifier).last
            if let last = last ?? (countsHistoryOff ? view.number : nil) { number = max(number, last) }
        }
        if number >= view.number, view.number > 0 { return end }
        guard number > 0 else { return nil }
        let state = try engine.view(asOf: number)
        return Snapshot(state, engine, identifier)
    }

    /// The beginning of history, and the last transaction up to there that would be exported; number 0 for none.
    private typealias Oldest = (number: UInt64, exported: HistoryToken)

    private func oldest(_ end: Snapshot, to target: UUID?) throws(StoreError) -> Oldest {
        let number = end.engine.oldestNumber
        let state = try end.engine.view(asOf: number)
        let oldest = Snapshot(state, end.engine, identifier)
        return (number, try ExportReach(oldest)?.last(for: target) ?? oldest.token)
    }

    /// The place to begin after; nil if nothing is left to export. A cleaned place is valid if no transaction to export
    /// was cleaned after it.
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
            // The tags of transactions that were left out are no longer known.
            case .token(let token)
            where token.number < oldest.number
                && (token.number > oldest.exported.number || token == oldest.exported):
                try requireOwner(token)
                start = .number(oldest.number)
            default: break
            }
            // The end is in the cleaned part: nothing after the place is left to export.
            if start != place, oldest.number >= end.view.number { return nil }
            do {
                // Each exported transaction names the one before it (ER1), which may be the step of an index.
                let request = try ResolvedRequest(HistoryRequest(after: start), self, end, takesIndexSteps: true)
                return (request, oldest)
            } catch  where error.code == .tokenExpired {
                // If another handle has cleaned in between, more may have been left out: look again.
                if end.engine.oldestNumber > oldest.number { continue }
                throw StoreError(
                    .tokenExpired,
                    "History no longer has everything after that place, because some of it up to "
                        + "\(error.oldestToken?.number ?? oldest.number) was cleaned: export everything, and apply it "
                        + "to a new store.", path: path,
                    oldestToken: error.oldestToken)
            }
        }
    }

    /// The last transaction up to a number that would be exported: a receiver that continues there has applied it.
    private func lastExported(
        upTo number: UInt64, _ reader: ExportReader, _ oldest: Oldest, _ end: Snapshot
    ) throws(StoreError) -> HistoryToken? {
        var token = oldest.exported
        var lending = HistoryLending(self, end.view, nil)
        let range = HistoryRange(after: oldest.number, before: number + 1, isNewestFirst: true)
        try end.engine.tracked(end.view).forEachTransaction(range) { (transaction) throws(StoreError) in
            try withUnsafePointer(to: transaction) { (transaction) throws(StoreError) in
                let transaction = HistoryTransactionView(lending.show(transaction))
                guard try reader.includes(transaction) else { return true }
                token = transaction.token
                return false
            }
        }
        return token.number > 0 ? token : nil
    }

    /// The same transactions as values. They are all in memory at once: use `limit`. Throws `StoreError`.
    public func export(
        after place: HistoryRequest.Place? = nil, to target: UUID? = nil, newIdentity: Bool = false, limit: Int? = nil
    ) throws -> [ExportedTransaction] {
        var transactions: [ExportedTransaction] = []
        guard limit.map({ $0 > 0 }) ?? true else { return [] }
        try forEachExportedTransaction(after: place, to: target, newIdentity: newIdentity) { (transaction) in
            transactions.append(transaction)
            return limit.map { transactions.count < $0 } ?? true
        }
        return transactions
    }
}
