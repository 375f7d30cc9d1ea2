// Saving: everything that is unsaved becomes one transaction.
//
// Invariants:
// CS1  Until the transaction is committed nothing of the context has changed: after an error it is as it was.
// CS2  No code of the program runs under the writer lock.
// CS3  What is written was worked out for the versions that the transaction replaces. If another writer was faster, it
//      is worked out again.

internal import FoundationEssentials

extension Context {
    /// Saves everything that is unsaved, as one transaction, and moves the context to the newest state.
    ///
    /// Unsaved changes are compared with the newest state of the store. `mergePolicy` settles what both have changed.
    /// Entities' `willInsert`, `willSave` and `willDelete` run first, then derived properties and validation. Delete
    /// rules are carried out on the newest state. If saving throws, nothing is saved, and the context is as it was.
    ///
    /// - Returns: The transaction's token. If nothing has changed, the token of the context's place.
    ///
    /// Throws `StoreError`: `mergeConflict`, which lists the conflicts; `validationFailed`, which lists all failures;
    /// `uniqueViolation`, `requiredMissing`, `referenceMissing`, `deleteDenied`, `valueOutOfRange`; `wrongContext` and
    /// `objectGone` if an object was changed that must not be (these are reported once); `contextClosed`; and what
    /// `Store.commit` throws.
    @discardableResult
    public func save() throws -> HistoryToken { try save(nil) }

    /// Saves as `save()` does, and advances the cursor of a consumer in the same transaction: after a kill, both have
    /// happened or neither. If nothing is unsaved, the cursor alone is advanced.
    ///
    /// Throws as `save()`, and what `Store.advanceConsumer` throws.
    @discardableResult
    public func save(
        advancing consumer: String, from: HistoryToken, to: HistoryToken
    ) throws -> HistoryToken {
        try save { transaction in try transaction.advanceConsumer(consumer, from: from, to: to) }
    }

    private func save(_ addition: ((Transaction) throws -> Void)?) throws -> HistoryToken {
        let store = try core.requireStore()
        guard let plan = try SavePlan(core) else {
            if let addition { _ = try store.commit(author: author, contextName: name, addition) }
            core.recorder?.endSavedGroup()
            return try token
        }
        let deadline = Duration.deadline(after: store.options.lockTimeout)
        while true {
            let ready = try plan.rebased(on: try store.newestSnapshot(), mergePolicy, upserts: upserts)
            do throws(StoreError) {
                let (permanent, saved) = try store.save(ready, addition, author: author, contextName: name)
                let place = core.finish(ready, permanent, saved, store)
                core.recorder?.endSavedGroup()
                return place
            } catch {
                try ready.requireAnother(after: error, store, deadline, upserts: upserts)
            }
        }
    }

    /// Saves as `save()` does, and waits for the writer lock and the sync without occupying the actor.
    ///
    /// What is saved is what is unsaved when it is called. Edits made meanwhile stay unsaved.
    ///
    /// Throws as `save()`, and `CancellationError` if the task is cancelled before the transaction is appended.
    @discardableResult
    public func saveInBackground(isolation: isolated any Actor = #isolation) async throws -> HistoryToken {
        let store = try core.requireStore()
        guard let plan = try SavePlan(core) else { return try token }
        let isEnded = core.recorder?.endSavedGroup() ?? false
        let deadline = Duration.deadline(after: store.options.lockTimeout)
        let (author, name) = (author, name)
        while true {
            let ready = try plan.rebased(on: try store.newestSnapshot(), mergePolicy, upserts: upserts)
            do {
                let (permanent, saved) = try await store.commit(author: author, contextName: name) { transaction in
                    try ready.write(to: transaction)
                }
                return core.finish(ready, permanent, saved, store, groupIsEnded: isEnded)
            } catch let error as StoreError {
                try ready.requireAnother(after: error, store, deadline, upserts: upserts)
            }
        }
    }

    /// Runs what saving runs before it writes, without saving: hooks, derived properties and validation. Nothing in
    /// the context changes. Throws `StoreError`: `validationFailed`, with all failures; `valueOutOfRange`.
    public func validate() throws {
        _ = try core.requireStore()
        _ = try SavePlan(core)?.requireValid()
    }
}

extension Store {
    fileprivate func save(
        _ plan: SavePlan, _ addition: ((Transaction) throws -> Void)?, author: String?, contextName: String?
    ) throws(StoreError) -> (permanent: PermanentIDs, saved: HistoryToken?) {
        do {
            let (permanent, token) = try commit(author: author, contextName: contextName) { transaction in
                let permanent = try plan.write(to: transaction)
                try addition?(transaction)
                return permanent
            }
            return (permanent, token)
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("Nobody else's error can be met here.") }
            throw error
        }
    }
}

/// Everything that one save writes.
struct SavePlan: Sendable {
    private let items: [any SaveItem]
    /// The state that the items were worked out for.
    fileprivate let base: Snapshot
    /// What the merge policy has decided against.
    private let dropped: [any SaveItem]

    private init(_ items: [any SaveItem], dropped: [any SaveItem] = [], _ base: Snapshot) {
        (self.items, self.dropped, self.base) = (items, dropped, base)
    }

    /// What is unsaved in a context; nil if nothing is. Throws what was noted since the last save.
    init?(_ core: ContextCore) throws(StoreError) {
        if let failure = core.takeFailures() { throw failure }
        var items: [any SaveItem] = []
        items.reserveCapacity(core.pending.count)
        let base = try core.snapshot
        // In the order of insertion: objects get their numbers in it.
        for id in core.pending.sortedIDs {
            if let item = try core.pending[id]?.saveItem(runsHooks: true, base) { items.append(item) }
        }
        if items.isEmpty { return nil }
        self.init(items, base)
    }

    func requireValid() throws(StoreError) {
        var failures: [ValidationFailure] = []
        for item in items where !item.failures.isEmpty { failures += item.failures }
        guard failures.isEmpty else { throw .validationFailed(failures) }
    }

    /// The same for a newer state. Throws `mergeConflict`, `validationFailed`.
    func rebased(on newer: Snapshot, _ policy: MergePolicy, upserts: Bool) throws(StoreError) -> SavePlan {
        var conflicts: [MergeConflict] = []
        var rebased: [any SaveItem] = []
        rebased.reserveCapacity(items.count)
        var dropped = dropped
        for item in items {
            var isSame = item.kind == .insert && !item.isAgain
            if item.kind != .insert, !item.isContested { isSame = try !newer.isOther(item.id, than: base) }
            if isSame {
                rebased.append(item)
            } else if let item = try item.rebased(on: newer, policy, &conflicts) {
                rebased.append(item)
            } else {
                dropped.append(item)
            }
        }
        guard conflicts.isEmpty else { throw .mergeConflict(conflicts) }
        if upserts { try Self.upsert(&rebased, newer) }
        let plan = SavePlan(rebased, dropped: dropped, newer)
        try plan.requireValid()
        return plan
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

    /// The body of the transaction. Throws `conflict` if an object was changed since the state of the plan. Returns the
    /// IDs of the inserted objects by their temporary ones.
    func write(to transaction: Transaction) throws(StoreError) -> PermanentIDs {
        let now = transaction.snapshot
        var permanent: PermanentIDs = [:]
        permanent.reserveCapacity(items.count { $0.kind == .insert })
        for item in items {
            if item.kind == .insert {
                let id = try item.reserve(in: transaction)
                if id != item.id { permanent[item.id] = id }
                if !item.isAgain { continue }
            }
            if let inserted = item.insertedID { permanent[inserted] = item.id }
            if try now.isOther(item.id, than: base) {
                throw StoreError(.conflict, "Another writer has changed an object meanwhile: save again.")
            }
        }
        for item in items { try item.write(to: transaction, permanent) }
        return permanent
    }

    fileprivate func savedIDs(_ permanent: PermanentIDs) -> Set<ObjectID> {
        Set(items.map { permanent[$0.id] ?? $0.id })
    }

    func finish(_ core: ContextCore, _ permanent: PermanentIDs, _ newer: Snapshot) {
        for item in dropped { item.drop(core, newer) }
        for item in items { item.finish(core, permanent) }
    }

    /// Throws the error, unless it says that another writer was faster and there is time left.
    func requireAnother(
        after error: StoreError, _ store: Store, _ deadline: UInt64?, upserts: Bool
    ) throws(StoreError) {
        var isOvertaken = error.code == .conflict
        if upserts, error.code == .uniqueViolation {
            // Another writer may have inserted the object meanwhile.
            isOvertaken = try store.newestSnapshot().token.number > base.token.number
        }
        guard isOvertaken else { throw error }
        guard let deadline, RealEnvironment().monotonicMicroseconds() < deadline else {
            throw StoreError(
                .busy, "Other writers change the objects of this context again and again: save again.")
        }
    }
}

extension ContextCore {
    /// Takes over what was saved, and moves to a state that contains it. What is committed must not look unsaved, so
    /// nothing is thrown here: if the newest state cannot be read, the next call that reads says so.
    fileprivate func finish(
        _ plan: SavePlan, _ permanent: PermanentIDs, _ saved: HistoryToken?, _ store: Store,
        groupIsEnded: Bool = false
    ) -> HistoryToken {
        recorder?.isShowingEndedGroup = groupIsEnded
        defer { recorder?.isShowingEndedGroup = false }
        batch {
            var newer: Snapshot?
            do throws(StoreError) { newer = try store.newestSnapshot() } catch { note(error) }
            plan.finish(self, permanent, newer ?? plan.base)
            if !permanent.isEmpty {
                for object in pending.values { object.replaceReferences(permanent) }
                recorder?.replaceReferences(permanent)
            }
            do throws(StoreError) {
                if let newer { try move(to: newer) { plan.savedIDs(permanent) } }
            } catch { note(error) }
        }
        return saved ?? (try? snapshot.token) ?? plan.base.token
    }
}
