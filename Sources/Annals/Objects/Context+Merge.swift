// Moving a context to a newer state: objects that are held show it, and edits stay.

internal import FoundationEssentials

extension Context {
    /// Moves the context to the newest state of the store. Objects in use show it from then on. Unsaved changes stay;
    /// an attribute that was changed on both sides keeps the unsaved value, and saving settles the conflict. Observers
    /// and live results get one notification.
    ///
    /// Needs no history. Costs one comparison for each held object, or less if the history shows that fewer have
    /// changed.
    ///
    /// - Returns: The token of the new place.
    ///
    /// Throws `StoreError`: `contextClosed`, `damaged`, `closed`. Then the context has not moved.
    @discardableResult
    public func merge() throws -> HistoryToken {
        let store = try core.requireStore()
        try core.batch { () throws(StoreError) in try core.move(to: try store.newestSnapshot()) }
        return try token
    }

    /// Moves the context to a state of the store, and never back: a context that is further on stays where it is. Apart
    /// from that as `merge()`.
    ///
    /// Several contexts that are moved to one snapshot show the same state, although the store may be further on. The
    /// context moves to the newest state instead if it cannot be moved to this one: if the snapshot is of the past
    /// (`Store.snapshot(asOf:)`) or of another handle, or if `refresh` has read an object in a newer state.
    ///
    /// - Parameters:
    ///   - snapshot: The state.
    ///   - changed: The objects that changed on the way to it. If they are known from the context's own state on, the
    ///     context does not read history.
    /// - Returns: The token of the context's place.
    ///
    /// Throws `StoreError`: `tokenForeign` if the snapshot is of another store, and as `merge(upTo:)`.
    @discardableResult
    public func merge(to snapshot: Snapshot, changed: ChangedObjects = ChangedObjects()) throws -> HistoryToken {
        let store = try core.requireStore()
        guard core.canStand(at: snapshot, of: store) else { return try merge(upTo: snapshot.token) }
        let here = try token
        guard snapshot.token.number >= here.number else { return here }
        try core.batch { () throws(StoreError) in try core.move(to: snapshot, changed) }
        return try token
    }

    /// Moves the context to a state that contains a transaction, if it does not contain it yet. As `merge()`.
    ///
    /// Throws `StoreError`: `tokenForeign`, `tokenUnknown`, `tokenDiverged` if it is no place of this store; and as
    /// `merge()`.
    @discardableResult
    public func merge(upTo token: HistoryToken) throws -> HistoryToken {
        let store = try core.requireStore()
        try store.requireSeen(token)
        let here = try self.token
        return token.number <= here.number ? here : try merge()
    }

    /// Moves the context to a state that contains these transactions. As `merge(upTo:)`.
    @discardableResult
    public func merge(_ transactions: [HistoryTransaction]) throws -> HistoryToken {
        guard let last = transactions.max(by: { $0.number < $1.number }) else { return try token }
        return try merge(upTo: last.token)
    }

    /// Merges by itself, in the isolation of the actor that calls it, after each change of the store by this or
    /// another process. It ends when the context is closed or released, and after an error, which `followError` has
    /// then.
    ///
    /// Not for a plain thread: call `merge()` there.
    ///
    /// Throws `StoreError`: `contextClosed`, `closed`.
    public func follow(isolation: isolated any Actor = #isolation) throws {
        let store = try core.requireStore()
        let watcher = try store.snapshotWatcher()
        follower?.cancel()
        followError = nil
        follower = Task { [weak self] in
            // The task runs in the isolation of the caller.
            _ = isolation
            do {
                try await Self.follow(watcher) { self }
            } catch {
                self?.followingEnded(error)
            }
        }
    }

    private func followingEnded(_ error: any Error) {
        guard let error = error as? StoreError else { return }
        followError = error
        guard error.code != .closed, error.code != .contextClosed else { return }
        let name = [author, name].compactMap(\.self).first.map { "“\($0)” " } ?? ""
        StandardError.log("The context \(name)no longer follows the store. \(error)")
    }

    /// Merges after each change of the store by this or another process, until the task is cancelled: `follow()` for a
    /// task of your own, which gets the error that ends it. The context merges first, so nothing is missed between two
    /// calls.
    ///
    ///     try await context.followUntilCancelled()
    ///
    /// Returns when the task is cancelled. Keeps the context until then.
    ///
    /// Throws `StoreError`: the reason why it cannot continue. `contextClosed` or `closed` if the context or the store
    /// was closed, `storeRemoved` or `storeReplaced` if another file has taken the store's place; errors of `merge()`.
    public func followUntilCancelled(isolation: isolated any Actor = #isolation) async throws {
        try await Self.follow(core.requireStore().snapshotWatcher()) { self }
    }

    /// Moves a context to each newer state, until it is gone or the task is cancelled.
    private static func follow(
        _ watcher: SnapshotWatcher, isolation: isolated any Actor = #isolation, _ context: () -> Context?
    ) async throws {
        while let place = try context()?.token, let newer = try await watcher.next(after: place) {
            await context()?.waitForChangesInPlace()
            try context()?.merge(to: newer)
        }
    }

    /// Returns when no property of an object is being changed in place, as by an `async` function that has it as
    /// `inout`. A merge that changes such an object stops the program: wait in a task that merges by itself.
    /// `follow()`, `followUntilCancelled()` and a tracker do so.
    public func waitForChangesInPlace(isolation: isolated any Actor = #isolation) async { await core.untilFree() }

    /// Ends the following that `follow()` began.
    public func stopFollowing() {
        follower?.cancel()
        follower = nil
    }
}

extension Store {
    func newestSnapshot() throws(StoreError) -> Snapshot {
        let (engine, view) = try newest()
        return Snapshot(view, engine, identifier)
    }

    /// The objects that were changed after a number; nil if they are too many, or history does not contain the changes.
    ///
    /// - Parameters:
    ///   - entities: The entities of the objects; nil for all.
    ///   - known: Objects that are left out if `entities` is nil.
    func changedObjects(
        after number: UInt64, in newer: Snapshot, atMost limit: Int, of entities: Set<UInt16>? = nil,
        except known: ObjectIDTable<any SentObject>? = nil
    ) throws(StoreError) -> Set<ObjectID>? {
        let (view, coverage) = try reading(newer, newer.engine)
        // Nobody has an object of the store's own entities.
        let reserved = view.reservedEntities
        guard entities != nil || coverage.gaps(except: reserved).isEmpty else { return nil }
        try require(number, newer.engine, view)
        try requireWhole(
            HistoryRange(after: number, before: .max), coverage, newer.engine, view, named: entities)
        let indexAuthor = newer.engine.number(ofName: ReservedEntity.indexAuthor)
        var found: Set<ObjectID> = []
        var isTooMuch = false
        try newer.engine.tracked(view).forEachTransaction(after: number) { (transaction) throws(StoreError) in
            guard let entities else {
                if try transaction.isIndexStep(by: indexAuthor, reserved) { return true }
                isTooMuch = transaction.totalChanges > UInt64(limit - min(limit, found.count))
                if isTooMuch { return false }
                try transaction.forEachChange { (change) in
                    if known?[change.object] == nil { found.insert(change.object) }
                    return true
                }
                return true
            }
            try transaction.forEachChange { (change) in
                if entities.contains(change.object.entityNumber) { found.insert(change.object) }
                isTooMuch = found.count > limit
                return !isTooMuch
            }
            return !isTooMuch
        }
        return isTooMuch ? nil : found
    }
}

extension ContextCore {
    /// Whether a context of a store can move to a state. A state of the past has no indexes, and only states of the
    /// same handle are in one order. CX5
    fileprivate func canStand(at snapshot: Snapshot, of store: Store) -> Bool {
        snapshot.view.totals != nil && snapshot.view.number >= newestShown && store.handle.has(snapshot.engine)
    }

    /// Moves to another state: the one way by which a commit reaches a context. If it throws, nothing has changed,
    /// except that inserted objects may have their permanent IDs.
    ///
    /// A save that the state contains lands: its objects are no longer under its overlay.
    ///
    /// - Parameter known: The objects that changed on the way, as far as they are known.
    func move(to newer: Snapshot, _ known: ChangedObjects = ChangedObjects()) throws(StoreError) {
        let older = try snapshot
        assert(newer.view.number >= max(older.view.number, newestShown), "CX5: a context moves to an older state.")
        let flight = inFlight
        let landing = flight.flatMap { $0.isContained(in: newer) ? $0 : nil }
        landing?.adoptIDs(self)
        if !pending.isEmpty { settleUnedited() }
        guard newer.token != older.token || landing != nil else { return }
        let changed = newer.token == older.token ? [] : try changes(from: older, to: newer, known, landing)
        assert(changed == nil || newer.schemaVersion == older.schemaVersion, "CX6: a schema changes what objects show.")
        if landing != nil { inFlight = nil }
        do throws(StoreError) {
            let (refreshments, written) = try refreshments(from: older, to: newer, changed, landing)
            let sides = try observedSideLists()
            recorder?.isShowingEndedGroup = landing?.endsGroup ?? false
            defer { recorder?.isShowingEndedGroup = false }
            for refreshment in refreshments { refreshment.willChange() }
            stand(at: newer)
            for refreshment in refreshments { refreshment.apply() }
            for object in written { removePending(object) }
            for refreshment in refreshments { refreshment.didChange() }
            landing?.ending = .landed
            if !pending.isEmpty { deleteNewReferrers() }
            if !sides.isEmpty { try tellObservers(ofSides: sides) }
        } catch {
            // Only a completed move changes the save in flight.
            if landing?.ending == nil { inFlight = flight }
            throw error
        }
        if newer.token != older.token { noteMoved(from: older, changed) }
    }

    /// New values for the objects that may differ between two states. `changed` are those that history names; nil if
    /// all are compared. `written` are objects of the save that show their new values already (BS5).
    private func refreshments(
        from older: Snapshot, to newer: Snapshot, _ changed: Set<ObjectID>?, _ landing: SaveInFlight?
    ) throws(StoreError) -> (refreshments: [any ObjectRefreshment], written: [any LiveObject]) {
        var refreshments: [any ObjectRefreshment] = []
        var written: [any LiveObject] = []
        if let landing {
            let isOwnState = landing.number == newer.token.number && recorder == nil
            // Also those of which nothing was written.
            for sent in landing.objects.values {
                if isOwnState, sent.isShownAsWritten(in: newer) {
                    written.append(sent.live)
                    continue
                }
                try keepUnknownValues(of: sent.live, older, newer)
                if let found = try sent.live.refreshment(newer, landing: landing) { refreshments.append(found) }
            }
        }
        func refresh(_ object: any LiveObject) throws(StoreError) {
            if landing?.objects[object.id] != nil { return }
            try keepUnknownValues(of: object, older, newer)
            if let found = try object.refreshment(newer, landing: nil) { refreshments.append(found) }
        }
        if let changed {
            for id in changed {
                if let object = registered(id) { try refresh(object) }
            }
        } else {
            for object in storedObjects {
                // An object under an overlay, or with other edits, may differ from both states.
                // CX6.
                let isCompared =
                    !object.mayBeOffPlace && inFlight?.objects[object.id] == nil
                    && newer.schemaVersion == older.schemaVersion
                if isCompared, try !newer.isOther(object.id, than: older) { continue }
                try refresh(object)
            }
        }
        return (refreshments, written)
    }

    private func tellObservers(ofSides before: [ObjectID: [[ObjectID]]]) throws(StoreError) {
        for (id, lists) in try observedSideLists() {
            guard let object = registered(id), let before = before[id] else { continue }
            let first = object.model.properties.count
            let slots = lists.indices.filter { lists[$0] != before[$0] }.map { first + $0 }
            if !slots.isEmpty { object.notify(slots) }
        }
    }

    /// The objects that may differ between two states: those that are known already, or from history; nil if comparing
    /// the held objects costs less, or history does not contain the changes.
    private func changes(
        from older: Snapshot, to newer: Snapshot, _ known: ChangedObjects, _ landing: SaveInFlight?
    ) throws(StoreError) -> Set<ObjectID>? {
        // CX6.
        if newer.schemaVersion != older.schemaVersion { return nil }
        let transactions = newer.token.number &- older.token.number
        let limit = hasListeners ? max(registeredCount, 1024) : registeredCount
        if let ids = try known.ids(from: older, to: newer) { return ids.count <= limit ? ids : nil }
        guard newer.token.number > older.token.number, transactions <= limit else { return nil }
        do throws(StoreError) {
            // The objects of the save are refreshed in any case: only listeners need them here.
            return try requireStore().changedObjects(
                after: older.token.number, in: newer, atMost: limit, except: hasListeners ? nil : landing?.objects)
        } catch {
            // Expired, or an entity's history is off.
            return nil
        }
    }
}
