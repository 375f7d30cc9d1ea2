// Transactions of other stores come in, each once.

internal import FoundationEssentials

extension Store {
    /// Applies a transaction of another store: by a new transaction, which names it as its origin, on the newest state,
    /// under the writer lock.
    ///
    /// The transactions of a store are applied in the order in which they are exported, each once: one that was applied
    /// before does nothing, and one that comes too early throws `applyGap`, and so does a state that holds what partly
    /// is here. What was first made here, or came from a third store already, is passed over and noted. Objects get IDs
    /// of this store, references are translated. What the store lacks of the entities (entities, attributes, indexes,
    /// keys) is added, and what was renamed gets its new name; nothing is removed, and types do not change:
    /// `schemaMismatch`.
    ///
    /// An update contradicts where an attribute has neither the value that it found nor the one that it wrote; see
    /// `ApplyConflict`. A deletion deletes what the object has become here, and does nothing if it was deleted here
    /// too. A reference to an object that was deleted here stays as it is.
    ///
    /// Takes memory for the changes of the transaction. Logarithmic for each change.
    ///
    /// - Parameters:
    ///   - transaction: What the other store has exported.
    ///   - policy: What to do if it contradicts what was changed here.
    ///   - author: Who makes the change, as history says it; nil for the author there, and for nobody where it is only
    ///     noted.
    ///   - contextName: The same for the context.
    ///   - durability: What the call waits for; nil for the store's own choice.
    ///
    /// Throws `StoreError`: `applyConflict`, `applyGap`, `originDiverged`, `schemaMismatch`, `exportMalformed`, and
    /// what committing throws; then nothing has changed.
    @discardableResult
    public func apply(
        _ transaction: ExportedTransaction, conflicts policy: ConflictPolicy = .refuse, author: String? = nil,
        contextName: String? = nil, durability: Durability? = nil
    ) throws -> ApplyResult {
        guard transaction.store != identifier else {
            try requireOwn(transaction.token)
            return ApplyResult(outcome: .alreadyHere, token: nil, conflicts: [])
        }
        if let origin = transaction.origin, origin.storeIdentifier == identifier { try requireOwn(origin) }
        // Most that comes twice is known without any lock.
        if try AppliedOrigins(try snapshot()).isApplied(transaction) {
            return ApplyResult(outcome: .alreadyApplied, token: nil, conflicts: [])
        }
        do {
            let (result, token) = try writePending(
                author ?? transaction.author, contextName ?? transaction.contextName, durability
            ) { pending, engine in
                let base = Snapshot(pending.base, engine, identifier)
                let result = try Self.apply(transaction, policy, base, pending)
                // What is only noted here is nobody's change but the caller's.
                if result.outcome == .alreadyHere { (pending.author, pending.context) = (author, contextName) }
                return result
            }
            return ApplyResult(outcome: result.outcome, token: token, conflicts: result.conflicts)
        } catch {
            guard var error = error as? StoreError else { preconditionFailure("Nobody else's error can be met here.") }
            if error.path == nil { error.path = path }
            throw error
        }
    }

    /// Throws `originDiverged` where a transaction that names this store is not one of its own.
    private func requireOwn(_ token: HistoryToken) throws(StoreError) {
        do throws(StoreError) {
            try require(token, engine)
        } catch  where error.code == .tokenExpired {
            // It was cleaned here: that it was there is all that can be said.
        } catch  where error.code == .tokenUnknown || error.code == .tokenDiverged {
            throw StoreError(
                .originDiverged,
                "Transaction \(token.number) was made in this store, and is not in it: it was lost with the power, or "
                    + "the store was replaced by an older copy. What it changed cannot be brought back into this "
                    + "store: apply it to a new one.",
                path: path)
        }
    }

    private static func apply(
        _ transaction: ExportedTransaction, _ policy: ConflictPolicy, _ base: Snapshot, _ pending: PendingTransaction
    ) throws(StoreError) -> (outcome: ApplyResult.Outcome, conflicts: [ApplyConflict]) {
        let origins = try AppliedOrigins(base)
        if try origins.isApplied(transaction) { return (.alreadyApplied, []) }
        try origins.requireNext(transaction)
        let isHere = try origins.hasOrigin(of: transaction)
        if !isHere { try origins.requireState(transaction) }
        let definitions = try ApplySchema.definitions(for: isHere ? nil : transaction, pending.catalog)
        if !definitions.isEmpty { try pending.changeSchema(definitions) }
        try origins.note(transaction, isSkipped: isHere, in: pending)
        let origin = transaction.origin ?? transaction.token
        try ExportReach.write(origin: origin.storeIdentifier, isSkipped: isHere, on: base, to: pending)
        if isHere { return (.alreadyHere, []) }
        var plan = try ApplyPlan(transaction, policy, base, pending)
        try plan.work()
        guard plan.conflicts.isEmpty || policy != .refuse else { throw conflictError(plan.conflicts, transaction) }
        try plan.carryOut()
        return (.applied, plan.conflicts)
    }

    private static func conflictError(
        _ conflicts: [ApplyConflict], _ transaction: ExportedTransaction
    ) -> StoreError {
        let listed = conflicts.prefix(5).map(\.description).joined(separator: " ")
        let more = conflicts.count > 5 ? " And \(conflicts.count - 5) more." : ""
        return StoreError(
            .applyConflict,
            "Transaction \(transaction.token.number) of the store \(transaction.store) contradicts what was changed "
                + "here: \(listed)\(more) Apply it "
                + "with the policy “theirs” or “ours”, or change what is here first.", applyConflicts: conflicts)
    }
}

extension AppliedOrigins {
    /// Whether it came before. Throws `originDiverged` where another one with its number did, as far as that is known:
    /// of the last one and the one before it. Tags tell everything before them, so another history shows at the last
    /// one at the latest.
    func isApplied(_ transaction: ExportedTransaction) throws(StoreError) -> Bool {
        guard let last = try record(of: transaction.store)?.record else { return false }
        for token in [transaction.previous, transaction.token].compactMap(\.self) where last.contradicts(token) {
            throw Self.diverged(token)
        }
        return transaction.token.number <= last.token.number
    }

    /// Throws if it is not the next one from its store.
    func requireNext(_ transaction: ExportedTransaction) throws(StoreError) {
        let record = try record(of: transaction.store)?.record
        let last = record?.token
        guard let previous = transaction.previous else {
            // What its store has given before it may all have been left out.
            let mayFollow = transaction.holds == nil && record?.isAlwaysExported(to: storeIdentifier) == false
            guard last == nil || mayFollow else {
                throw StoreError(
                    .applyGap,
                    "Transactions of the store \(transaction.store) up to \(last?.number ?? 0) were applied, and this "
                        + "one begins anew with \(transaction.token.number): export what comes after "
                        + "\(last?.number ?? 0). If its history does not reach back to that any more, apply everything "
                        + "to a new store.")
            }
            return
        }
        guard previous.number <= last?.number ?? 0 else {
            throw StoreError(
                .applyGap,
                last.map { last in
                    "Of the store \(transaction.store) the transaction after \(last.number) is next, and this one, "
                        + "\(transaction.token.number), comes behind \(previous.number): apply those between first, or "
                        + "export what comes after \(last.number). If its history does not reach back to that any "
                        + "more, apply everything to a new store."
                }
                    ?? "Nothing was applied from the store \(transaction.store) yet, and transaction "
                    + "\(transaction.token.number) comes behind "
                    + "\(previous.number): export from the beginning.")
        }
        guard let record, previous.number < record.token.number, record.isAlwaysExported(to: storeIdentifier) else {
            return
        }
        throw StoreError(
            .originDiverged,
            "Transaction \(transaction.token.number) of the store \(transaction.store) comes behind "
                + "\(previous.number), and \(record.token.number) was applied here: that store has lost it with the "
                + "power, or is another copy, or this was exported for another store. Export up to what is durable, "
                + "and begin with a new store.")
    }

    private static func diverged(_ token: HistoryToken) -> StoreError {
        StoreError(
            .originDiverged,
            "The store \(token.storeIdentifier) has another transaction \(token.number) than the one that was applied "
                + "here: it lost that one with the power, or is another copy. Export up to what is durable, and begin "
                + "with a new store.")
    }

    /// Whether the store has what the transaction was at first. Throws `originDiverged` where it has another one of
    /// that number, as far as that is known: of the last one and the one before it.
    func hasOrigin(of transaction: ExportedTransaction) throws(StoreError) -> Bool {
        guard let origin = transaction.origin else { return false }
        if origin.storeIdentifier == storeIdentifier { return true }
        guard let last = try record(of: origin.storeIdentifier)?.record else { return false }
        for token in [transaction.originPrevious, origin].compactMap(\.self) where last.contradicts(token) {
            throw Self.diverged(token)
        }
        return last.token.number >= origin.number
    }

    /// Throws if a state holds what partly is here: a state does not tell what has become of that in between.
    func requireState(_ transaction: ExportedTransaction) throws(StoreError) {
        guard let holds = transaction.holds else { return }
        for place in holds + [transaction.origin ?? transaction.token] {
            let isOwn = place.storeIdentifier == storeIdentifier
            let here = try isOwn ? place.number : record(of: place.storeIdentifier)?.record.token.number
            guard let here else { continue }
            throw StoreError(
                .applyGap,
                "Transaction \(transaction.token.number) of the store \(transaction.store) is a state that holds what "
                    + "was made in "
                    + (isOwn ? "this store" : "the store \(place.storeIdentifier)")
                    + " up to \(place.number), and here is what was made there up to "
                    + "\(here): what became of it in between is not known. Apply it to a new store.")
        }
    }

    /// Notes that the transaction was applied or passed over. What comes by way of a third store counts as come from
    /// where it was made: its export has exported first what came before it there, but for what was made here.
    func note(
        _ transaction: ExportedTransaction, isSkipped: Bool, in pending: PendingTransaction
    ) throws(StoreError) {
        let isState = transaction.holds != nil
        let record = AppliedRecord(
            transaction.token, previous: transaction.previous, isSkipped: isSkipped, first: transaction.origin,
            firstPrevious: transaction.originPrevious, isState: isState)
        try write(record, to: pending)
        if isSkipped { return }
        if let origin = transaction.origin {
            let record = AppliedRecord(
                origin, previous: transaction.originPrevious, isSkipped: false, isState: isState)
            try write(record, to: pending)
        }
        for place in transaction.holds ?? [] {
            try write(AppliedRecord(place, previous: nil, isSkipped: false, isState: true), to: pending)
        }
    }
}
