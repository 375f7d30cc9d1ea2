// Applying transactions of other stores, each once.

internal import FoundationEssentials

extension Store {
    /// Applies a transaction of another store. It becomes a new transaction here, which names the other one as its
    /// origin. It is made on the newest state, under the writer lock.
    ///
    /// Apply the transactions of a store in the order in which they are exported. Applying one again does nothing. One
    /// that comes too early throws `applyGap`. So does a state if a part of its content is here already. A transaction
    /// that was made here, or has already come from a third store, is skipped, and a note of it is written. Objects get
    /// IDs of this store, and references are translated.
    ///
    /// Missing entities, attributes, indexes and keys are added, and renamed ones get their new name. Nothing is
    /// removed. An attribute that both have keeps its default here, and may be null here if it may be null there. A
    /// different type, target, inverse or delete rule throws `schemaMismatch`.
    ///
    /// An update conflicts if an attribute has neither the value that the update found nor the one that it wrote; see
    /// `ApplyConflict`. Derived attributes of the types that the store was opened with do not conflict: they are
    /// computed again. A deletion deletes the object as it is here now, and does nothing if it was deleted here too. It
    /// conflicts if another object refers to it here and must not lose that reference.
    ///
    /// Takes memory for the changes of the transaction. Logarithmic for each change.
    ///
    /// - Parameters:
    ///   - transaction: The transaction that the other store exported.
    ///   - policy: The reaction to conflicts with changes made here.
    ///   - author: The author of the change, for the history. Nil for the original author, or for no author if only a
    ///     note is written.
    ///   - contextName: The context, in the same way.
    ///   - durability: The condition to wait for; nil for the store's setting.
    ///
    /// Throws `StoreError`: `applyConflict`, `applyGap`, `originDiverged`, `schemaMismatch`, `exportMalformed`, and
    /// errors of `write`. Then nothing has changed.
    @discardableResult
    public func apply(
        _ transaction: ExportedTransaction, conflicts policy: ConflictPolicy = .error, author: String? = nil,
        contextName: String? = nil, durability: Durability? = nil
    ) throws -> ApplyResult {
        guard transaction.store != identifier else {
            try requireOwn(transaction.token)
            return ApplyResult(outcome: .alreadyHere, token: nil, conflicts: [])
        }
        if let origin = transaction.origin, origin.storeIdentifier == identifier { try requireOwn(origin) }
        // Most repeated transactions are recognised without the lock.
        if try AppliedOrigins(try snapshot()).isApplied(transaction) {
            return ApplyResult(outcome: .alreadyApplied, token: nil, conflicts: [])
        }
        var withheld = WithheldChanges()
        while true {
            var planned: PlannedObjects?
            do {
                let (result, token) = try writeDraft(
                    author ?? transaction.author, contextName ?? transaction.contextName, durability, validates: false
                ) { draft, engine in
                    let base = Snapshot(draft.base, engine, identifier)
                    let result = try Self.apply(
                        transaction, policy, base, draft, extensions.upkeep, withheld, &planned)
                    // A mere note is the caller's own change.
                    if result.outcome == .alreadyHere { (draft.author, draft.context) = (author, contextName) }
                    return result
                }
                return ApplyResult(outcome: result.outcome, token: token, conflicts: result.conflicts)
            } catch {
                guard var error = error as? StoreError else {
                    preconditionFailure("This body throws StoreError only.")
                }
                // Derived values are known only now. Nothing was written: the next attempt leaves out the values that
                // they are derived from.
                if let planned, withheld.add(error.upkeepObstacles, planned) { continue }
                if error.path == nil { error.path = path }
                throw error
            }
        }
    }

    /// Throws `originDiverged` if a transaction names this store as its origin, but was not made here.
    private func requireOwn(_ token: HistoryToken) throws(StoreError) {
        do throws(StoreError) {
            try require(token, engine)
        } catch  where error.code == .tokenExpired {
            // It was cleaned here, so nothing more can be checked.
        } catch  where error.code == .tokenUnknown || error.code == .tokenDiverged {
            throw StoreError(
                .originDiverged,
                "Transaction \(token.number) was made in this store, but is missing from it: it was lost in a power "
                    + "failure, or an older copy replaced the store. Its changes cannot be brought back into this "
                    + "store: apply it to a new store.",
                path: path)
        }
    }

    private static func apply(
        _ transaction: ExportedTransaction, _ policy: ConflictPolicy, _ base: Snapshot, _ draft: Draft,
        _ upkeep: (any TransactionUpkeep)?, _ withheld: WithheldChanges, _ planned: inout PlannedObjects?
    ) throws(StoreError) -> (outcome: ApplyResult.Outcome, conflicts: [ApplyConflict]) {
        let origins = try AppliedOrigins(base)
        if try origins.isApplied(transaction) { return (.alreadyApplied, []) }
        try origins.requireNext(transaction)
        let isHere = try origins.hasOrigin(of: transaction)
        if !isHere { try origins.requireState(transaction) }
        let definitions = try ApplySchema.definitions(for: isHere ? nil : transaction, draft.catalog)
        if !definitions.isEmpty { try draft.changeSchema(definitions) }
        try origins.note(transaction, isSkipped: isHere, in: draft)
        let origin = transaction.origin ?? transaction.token
        try ExportReach.write(origin: origin.storeIdentifier, isSkipped: isHere, on: base, to: draft)
        if isHere { return (.alreadyHere, []) }
        var plan = try ApplyPlan(transaction, policy, base, draft, upkeep, withheld: withheld)
        try plan.work()
        if upkeep != nil { planned = plan.planned }
        if plan.conflicts.isEmpty || policy != .error { try plan.carryOut() }
        guard plan.conflicts.isEmpty || policy != .error else { throw conflictError(plan.conflicts, transaction) }
        return (.applied, plan.conflicts)
    }

    private static func conflictError(
        _ conflicts: [ApplyConflict], _ transaction: ExportedTransaction
    ) -> StoreError {
        let listed = conflicts.prefix(5).map(\.description).joined(separator: " ")
        let more = conflicts.count > 5 ? " And \(conflicts.count - 5) more." : ""
        return StoreError(
            .applyConflict,
            "Transaction \(transaction.token.number) of the store \(transaction.store) conflicts with changes made "
                + "here: \(listed)\(more) Apply it with the policy “exportWins” or “storeWins”, or change the objects "
                + "here first.", applyConflicts: conflicts)
    }
}

extension AppliedOrigins {
    /// Whether the transaction was applied before. Throws `originDiverged` if another one with its number was. Only the
    /// last two are known. A tag depends on everything before it, so the last transaction shows another history, if no
    /// earlier one does.
    func isApplied(_ transaction: ExportedTransaction) throws(StoreError) -> Bool {
        guard let last = try record(of: transaction.store)?.record else { return false }
        for token in [transaction.previous, transaction.token].compactMap(\.self) where last.contradicts(token) {
            throw Self.diverged(token)
        }
        return transaction.token.number <= last.token.number
    }

    /// Throws if this is not the next transaction from its store.
    func requireNext(_ transaction: ExportedTransaction) throws(StoreError) {
        let record = try record(of: transaction.store)?.record
        let last = record?.token
        guard let previous = transaction.previous else {
            // The export may have left out all earlier transactions of its store.
            let mayFollow = transaction.holds == nil && record?.isAlwaysExported(to: storeIdentifier) == false
            guard last == nil || mayFollow else {
                throw StoreError(
                    .applyGap,
                    "Transactions of the store \(transaction.store) up to \(last?.number ?? 0) were applied, and this "
                        + "one begins again with \(transaction.token.number): export transactions after "
                        + "\(last?.number ?? 0). If its history no longer goes back that far, apply everything to a "
                        + "new store.")
            }
            return
        }
        guard previous.number <= last?.number ?? 0 else {
            throw StoreError(
                .applyGap,
                last.map { last in
                    "The next transaction to apply from the store \(transaction.store) is the one after "
                        + "\(last.number), but this one, \(transaction.token.number), comes after \(previous.number): "
                        + "apply those between first, or export transactions after \(last.number). If its history no "
                        + "longer goes back that far, apply everything to a new store."
                }
                    ?? "No transaction of the store \(transaction.store) was applied yet, but transaction "
                    + "\(transaction.token.number) comes after \(previous.number): export from the beginning.")
        }
        guard let record, previous.number < record.token.number, record.isAlwaysExported(to: storeIdentifier) else {
            return
        }
        throw StoreError(
            .originDiverged,
            "Transaction \(transaction.token.number) of the store \(transaction.store) comes after \(previous.number), "
                + "but \(record.token.number) was applied here: that store has lost it in a power failure, or is "
                + "another copy, or this was exported for another store. Export durable transactions only, and begin "
                + "with a new store.")
    }

    private static func diverged(_ token: HistoryToken) -> StoreError {
        StoreError(
            .originDiverged,
            "The store \(token.storeIdentifier) has another transaction \(token.number) than the one that was applied "
                + "here: it lost that one in a power failure, or is another copy. Export durable transactions only, "
                + "and begin with a new store.")
    }

    /// Whether this store has the original transaction. Throws `originDiverged` if it has another one with that number.
    /// Only the last two are known.
    func hasOrigin(of transaction: ExportedTransaction) throws(StoreError) -> Bool {
        guard let origin = transaction.origin else { return false }
        if origin.storeIdentifier == storeIdentifier { return true }
        guard let last = try record(of: origin.storeIdentifier)?.record else { return false }
        for token in [transaction.originPrevious, origin].compactMap(\.self) where last.contradicts(token) {
            throw Self.diverged(token)
        }
        return last.token.number >= origin.number
    }

    /// Throws if a part of a state's content is here already: the state does not contain the changes to it in between.
    func requireState(_ transaction: ExportedTransaction) throws(StoreError) {
        guard let holds = transaction.holds else { return }
        for place in holds + [transaction.origin ?? transaction.token] {
            let isOwn = place.storeIdentifier == storeIdentifier
            let here = try isOwn ? place.number : record(of: place.storeIdentifier)?.record.token.number
            guard let here else { continue }
            throw StoreError(
                .applyGap,
                "Transaction \(transaction.token.number) of the store \(transaction.store) is a state with changes "
                    + "from "
                    + (isOwn ? "this store" : "the store \(place.storeIdentifier)")
                    + " up to \(place.number), but this store has changes from there up to \(here), and the changes "
                    + "between are unknown. Export its history after transaction 0 instead, which lacks only objects "
                    + "without history, and apply it to a new store. If that history was cleaned, exporting it throws "
                    + "“tokenExpired”.")
        }
    }

    /// Notes that a transaction is the origin of this one, and leaves the last one of its store as it is: that may be a
    /// later one.
    func noteAgain(_ transaction: ExportedTransaction, in draft: Draft) throws(StoreError) {
        guard var record = try record(of: transaction.store)?.record else { return }
        (record.first, record.firstPrevious) = (transaction.token, transaction.previous)
        try write(record, to: draft)
    }

    /// Notes that the transaction was applied or skipped. A transaction that came through a third store counts as
    /// coming from its original store: its predecessors there were exported first, except for transactions made here.
    func note(
        _ transaction: ExportedTransaction, isSkipped: Bool, in draft: Draft
    ) throws(StoreError) {
        let isState = transaction.holds != nil
        let record = AppliedRecord(
            token: transaction.token, previous: transaction.previous, isSkipped: isSkipped, first: transaction.origin,
            firstPrevious: transaction.originPrevious, isState: isState)
        try write(record, to: draft)
        if isSkipped { return }
        if let origin = transaction.origin {
            let record = AppliedRecord(
                token: origin, previous: transaction.originPrevious, isSkipped: false, isState: isState)
            try write(record, to: draft)
        }
        for place in transaction.holds ?? [] {
            try write(AppliedRecord(token: place, isSkipped: false, isState: true), to: draft)
        }
    }
}
