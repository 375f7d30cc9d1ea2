// Saving: everything that is unsaved becomes one transaction.
//
// Invariants:
// CS1  If the transaction is not committed, everything is unsaved as it was.
// CS2  No code of the program runs under the writer lock.
// CS3  Each written value was computed for the versions that the transaction replaces. If another writer was faster, it
//      is computed again.

internal import FoundationEssentials

extension Context {
    /// Saves all unsaved changes, as one transaction, and moves the context to the newest state.
    ///
    /// Unsaved changes are compared with the newest state of the store. `mergePolicy` settles conflicts. Entities'
    /// `willInsert`, `willSave` and `willDelete` run first, then derived properties and validation. Delete rules are
    /// carried out on the newest state. If saving throws, nothing is saved, and the context is unchanged.
    ///
    /// - Returns: The transaction's token. If nothing has changed, the token of the context's place.
    ///
    /// Throws `StoreError`: `mergeConflict`, which lists the conflicts; `validationFailed`, `uniqueViolation`,
    /// `requiredMissing`, `referenceMissing`, `deleteDenied`, `valueOutOfRange`, `referenceForeign`, `tooLarge` for a
    /// value in an index, `invalidArgument` for a list that names an object twice: `StoreError.failures` has all
    /// failures, each property of an object by itself; `wrongContext` and `objectGone` if an object was changed that
    /// must not be (these are reported once); `contextClosed`; and errors of `Store.write`.
    @discardableResult
    public func save() throws -> HistoryToken { try save(nil) }

    /// Saves as `save()` does, and advances the cursor of a consumer in the same transaction: after a kill, both have
    /// happened or neither. If nothing is unsaved, the cursor alone is advanced.
    ///
    /// Throws as `save()`, and errors of `Store.advanceConsumer`: then nothing is saved. `validate()` does not check
    /// the consumer.
    @discardableResult
    public func save(
        advancing consumer: String, from: HistoryToken, to: HistoryToken
    ) throws -> HistoryToken {
        try save { transaction in try transaction.advanceConsumer(consumer, from: from, to: to) }
    }

    private func save(_ addition: ((Transaction) throws -> Void)?) throws -> HistoryToken {
        let store = try core.requireStore()
        let recalled = try core.endFlight(store)
        guard let plan = try SavePlan(core) else {
            if let addition { _ = try store.writeOptimistically(author: author, contextName: name, addition) }
            core.recorder?.endSavedGroup()
            return try token
        }
        var retry = SaveRetry(store, plan, mergePolicy, upserts: upserts)
        while true {
            let ready = try retry.newestPlan()
            let outcome = SaveOutcome()
            do throws(StoreError) {
                let saved = try store.save(ready, outcome, addition, author: author, contextName: name)
                core.land(core.send(plan, ready, outcome), in: store)
                core.recorder?.endSavedGroup()
                recalled?.successor = saved
                if let saved { return saved }
                return try core.snapshot.token
            } catch {
                if case .appended = outcome.state {
                    // It is in the file, but may not be durable.
                    core.land(core.send(plan, ready, outcome), in: store)
                    core.recorder?.endSavedGroup()
                    throw error
                }
                try retry.requireAnother(after: error, ready)
            }
        }
    }

    /// Saves as `save()` does, and waits for the writer lock and the sync without occupying the actor.
    ///
    /// The saves of a context run one after the other. A call saves the changes that are unsaved when its turn comes;
    /// from then on they count as saved. So edits that are made while the transaction is written stay unsaved, and
    /// `rollback()` and `discard(_:)` go back to the values being saved. If the save fails, its changes are unsaved
    /// again. A `save()` in the meantime saves everything at once, if the transaction is not being appended yet.
    ///
    /// Throws as `save()`, and `CancellationError` if the task is cancelled before the transaction is appended.
    @discardableResult
    public func saveInBackground(isolation: isolated any Actor = #isolation) async throws -> HistoryToken {
        await core.beginSaving()
        defer { core.endSaving() }
        while true {
            let store = try core.requireStore()
            try core.endFlight(store)
            guard let plan = try SavePlan(core) else { return try token }
            let endsGroup = core.recorder?.endSavedGroup() ?? false
            let flight = core.send(plan, plan, SaveOutcome(), endsGroup: endsGroup)
            if let token = try await save(plan, flight, store) { return token }
        }
    }

    /// Writes a plan. Returns nil if another save has recalled it, and then failed.
    private func save(
        _ plan: SavePlan, _ flight: SaveInFlight, _ store: Store, isolation: isolated any Actor = #isolation
    ) async throws -> HistoryToken? {
        var retry = SaveRetry(store, plan, mergePolicy, upserts: upserts)
        do {
            while true {
                let ready = try retry.newestPlan()
                do {
                    let result = try await store.save(ready, in: flight, author: author, contextName: name)
                    await core.untilFree()
                    core.land(flight, in: store)
                    if let token = result.token { return token }
                    return try core.snapshot.token
                } catch let error as StoreError where flight.ending == nil && !flight.isAppended {
                    try retry.requireAnother(after: error, ready)
                }
            }
        } catch {
            await core.untilFree()
            if flight.isAppended {
                core.land(flight, in: store)
                throw error
            }
            if flight.ending == .takenBack { return flight.successor }
            core.takeBack(flight)
            throw error
        }
    }

    /// Throws the errors that `save()` would throw now, and saves nothing: hooks run, derived properties are computed,
    /// delete rules are carried out, and unique values and references are looked up in the newest state. Nothing in the
    /// context changes, and no lock is taken.
    ///
    /// Throws as `save()`: all reasons at once, in `StoreError.failures`.
    public func validate() throws {
        let store = try core.requireStore()
        if let failure = core.failure { throw failure }
        guard let plan = try SavePlan(core) else { return }
        if let refusal = try SaveRetry(store, plan, mergePolicy, upserts: upserts).refusal() { throw refusal }
    }
}

extension Store {
    fileprivate func save(
        _ plan: SavePlan, _ outcome: SaveOutcome, _ addition: ((Transaction) throws -> Void)?, author: String?,
        contextName: String?
    ) throws(StoreError) -> HistoryToken? {
        do {
            let token = try writeOptimistically(author: author, contextName: contextName) { transaction in
                let permanent = try plan.write(to: transaction)
                try addition?(transaction)
                transaction.afterAppending { outcome.append($0, permanent) }
            }.token
            outcome.end(isUnchanged: true)
            return token
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("This body throws StoreError only.") }
            throw error
        }
    }

    /// The same on the store's thread for asynchronous writes.
    fileprivate func save(
        _ plan: SavePlan, in flight: SaveInFlight, author: String?, contextName: String?,
        isolation: isolated any Actor = #isolation
    ) async throws -> SaveResult {
        let write = flight.begin(plan)
        let outcome = flight.outcome
        return try await write.run(in: asyncWrites) { write in
            var isUnchanged = false
            defer { outcome.end(isUnchanged: isUnchanged) }
            let (permanent, token) = try self.writeOptimistically(author: author, contextName: contextName) {
                transaction in
                try write.run(transaction) { transaction in
                    let permanent = try plan.write(to: transaction)
                    transaction.afterAppending { outcome.append($0, permanent) }
                    return permanent
                }
            }
            isUnchanged = true
            return SaveResult(permanent: permanent, token: token)
        }
    }
}

/// Everything that one save writes.
struct SavePlan: Sendable {
    private let items: [any SaveItem]
    /// Objects that cannot be written at all, and why.
    private let refused: [(object: ObjectID, reason: StoreError)]
    /// The state that the items were computed for.
    let base: Snapshot

    private init(
        _ items: [any SaveItem], _ refused: [(object: ObjectID, reason: StoreError)], _ base: Snapshot
    ) {
        (self.items, self.refused, self.base) = (items, refused, base)
    }

    /// The unsaved changes of a context; nil without any. Throws the error that was noted since the last save.
    init?(_ core: ContextCore) throws(StoreError) {
        if let failure = core.takeFailures() { throw failure }
        core.batch { core.settleUnedited() }
        var items: [any SaveItem] = []
        items.reserveCapacity(core.pending.count)
        let base = try core.snapshot
        // In the order of insertion: objects get their numbers in it.
        var refused: [(object: ObjectID, reason: StoreError)] = []
        for id in core.pending.sortedIDs {
            do throws(StoreError) {
                if let item = try core.pending[id]?.saveItem(runsHooks: true, base) { items.append(item) }
            } catch {
                guard error.isRefusal else { throw error }
                refused.append((id, error.about(id)))
            }
        }
        if items.isEmpty, refused.isEmpty { return nil }
        self.init(items, refused, base)
    }

    /// Whether every object may be written as it is. Other objects, and the store's content, may still prevent it.
    var isValid: Bool { refused.isEmpty && items.allSatisfy(\.isValid) }

    /// Why a store would refuse this on the state that it was computed for: all reasons as one error; nil if it would
    /// not.
    func refusal(_ store: Store) throws(StoreError) -> StoreError? {
        var failures: [ValidationFailure] = []
        for item in items { failures += item.failures }
        var temporary: [ObjectID: ObjectID] = [:]
        var others: [StoreError] = []
        let found = try store.rehearse(on: base) { (transaction) throws(StoreError) in
            for (id, permanent) in try write(to: transaction).pairs { temporary[permanent] = id }
        }
        for error in found {
            let error = error.naming(temporary)
            if error.code == .validationFailed { failures += error.validationFailures } else { others.append(error) }
        }
        let invalid = failures.isEmpty ? [] : [StoreError.validationFailed(failures)]
        return .refused(refused.map(\.reason) + invalid + others)
    }

    /// The same for a newer state, without the changes that the policy has decided against. Throws `mergeConflict`.
    ///
    /// - Parameter settlesTargets: Whether to look for references to objects deleted in the store, too.
    func rebased(
        on newer: Snapshot, _ policy: MergePolicy, upserts: Bool, settlesTargets: Bool
    ) throws(StoreError) -> SavePlan {
        var conflicts: [MergeConflict] = []
        var refused = refused
        var rebased: [any SaveItem] = []
        rebased.reserveCapacity(items.count)
        for item in items {
            var isSame = item.kind == .insert && !item.isAgain
            if item.kind != .insert, !item.isContested { isSame = try !newer.isOther(item.id, than: base) }
            if isSame {
                rebased.append(item)
            } else if let item = try item.rebased(on: newer, policy, &conflicts) {
                // Otherwise the policy has decided against it, and its object will show the store's value.
                rebased.append(item)
            }
        }
        if settlesTargets {
            let inserted = Set(rebased.lazy.filter { $0.kind == .insert }.map(\.id))
            var settled: [any SaveItem] = []
            settled.reserveCapacity(rebased.count)
            for item in rebased {
                do throws(StoreError) {
                    let item = try item.withoutDeletedTargets(in: newer, except: inserted, policy, &conflicts)
                    if let item { settled.append(item) }
                } catch {
                    guard error.isRefusal else { throw error }
                    refused.append((item.id, error.about(item.id)))
                }
            }
            rebased = settled
        }
        guard conflicts.isEmpty else { throw .mergeConflict(conflicts) }
        if upserts { try Self.upsert(&rebased, newer) }
        return SavePlan(rebased, refused, newer)
    }

    /// Makes updates of the inserts whose unique values an object of the store has.
    private static func upsert(_ items: inout [any SaveItem], _ newer: Snapshot) throws(StoreError) {
        // Two of a plan's objects must not have one value. The transaction finds that out.
        var planned = Set(items.map(\.id))
        var existing: PermanentIDs = [:]
        var found = -1
        // A reference that is part of a key may be to an object that turns out to be in the store, too.
        while existing.count > found {
            found = existing.count
            for index in items.indices where items[index].kind == .insert {
                guard let update = try items[index].updatingExisting(in: newer, except: planned, existing) else {
                    continue
                }
                planned.insert(update.id)
                existing[items[index].id] = update.id
                items[index] = update
            }
        }
    }

    /// The body of the transaction (CS2). Throws `conflict` if an object was changed since the state of the plan (CS3).
    /// Returns the IDs of the inserted objects by their temporary ones.
    func write(to transaction: Transaction) throws(StoreError) -> PermanentIDs {
        let now = transaction.snapshot
        var permanent: PermanentIDs = [:]
        permanent.reserveCapacity(items.count { $0.kind == .insert })
        for (object, _) in refused {
            // In a rehearsal only: a plan with these is not saved.
            let id = object.isTemporary ? try transaction.draft.reserve(entity: object.entityNumber) : object
            permanent[object] = id
            transaction.draft.noteUnwritten(id)
        }
        for item in items {
            if item.kind == .insert {
                let id = try item.reserve(in: transaction)
                if id != item.id { permanent[item.id] = id }
                if !item.isAgain { continue }
            }
            if let inserted = item.insertedID { permanent[inserted] = item.id }
            if try now.isOther(item.id, than: base) {
                throw StoreError(.conflict, "Another writer has changed an object that this save changes: save again.")
            }
        }
        for item in items {
            do throws(StoreError) {
                try item.write(to: transaction, permanent)
            } catch {
                let object = permanent[item.id] ?? item.id
                for error in try item.reasons(of: error, in: transaction, permanent) {
                    try transaction.draft.refuse(error.about(item.id), unwritten: object)
                }
            }
        }
        return permanent
    }

    /// The objects that lie over the store's values while this is being written.
    func send(_ core: ContextCore) -> ObjectIDTable<any SentObject> {
        var objects = ObjectIDTable<any SentObject>()
        objects.reserveCapacity(items.count)
        for item in items { objects[item.id] = item.send(core) }
        return objects
    }

    func adoptIDs(_ flight: SaveInFlight, _ core: ContextCore, _ permanent: PermanentIDs) {
        for item in items { item.adoptID(flight, core, permanent) }
    }
}

extension ContextCore {
    /// The changes of a plan are on their way: they lie over the store's values from now on.
    ///
    /// - Parameter ready: The same plan for the state on which it is written.
    func send(
        _ plan: SavePlan, _ ready: SavePlan, _ outcome: SaveOutcome, endsGroup: Bool = false
    ) -> SaveInFlight {
        let flight = SaveInFlight(plan.send(self), ready, outcome, endsGroup: endsGroup)
        inFlight = flight
        return flight
    }

    /// Moves to a state that contains the save. Committed changes must not look unsaved (BS1), so this throws nothing.
    /// If the newest state cannot be read, the next read throws the error, and the save lands later.
    func land(_ flight: SaveInFlight, in store: Store) {
        guard flight.ending == nil else { return }
        do throws(StoreError) {
            try batch { () throws(StoreError) in try move(to: try store.newestSnapshot()) }
        } catch {
            batch { flight.adoptIDs(self) }
            note(error)
        }
    }

    /// The changes of a save that was not written are unsaved again (CS1).
    func takeBack(_ flight: SaveInFlight) {
        guard flight.ending == nil else { return }
        flight.ending = .takenBack
        inFlight = nil
        batch { for object in flight.objects.values { object.takeBack(self) } }
    }

    /// For a save that begins: a save that is not being appended yet is recalled, and one that is written lands.
    ///
    /// - Returns: The recalled save.
    @discardableResult
    func endFlight(_ store: Store) throws(StoreError) -> SaveInFlight? {
        guard let flight = inFlight else { return nil }
        flight.recall()
        guard flight.isAppended else {
            takeBack(flight)
            return flight
        }
        try batch { () throws(StoreError) in try move(to: try store.newestSnapshot()) }
        return nil
    }
}
