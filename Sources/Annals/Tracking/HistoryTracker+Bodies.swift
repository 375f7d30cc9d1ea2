// The bodies that a tracker calls: observers, merge hooks, the deduplicator.

public import FoundationEssentials
internal import Synchronization

/// An observer of an entity.
struct Observer: Sendable {
    let id: UUID
    let name: String?
    let entity: String
    let kinds: Set<HistoryChange.Kind>
    let body: Body
    let resynchronized: (@Sendable (Snapshot) async throws -> Void)?

    enum Body: Sendable {
        case plain(@Sendable (ChangeGroup) async throws -> Void)
        /// Writes in the transaction that also moves its own cursor, which has this name in the store.
        case writing(cursor: String, @Sendable (ChangeGroup, Transaction) throws -> Void)
    }

    var isWriting: Bool { if case .writing = body { true } else { false } }

    func wants(_ group: ChangeGroup) -> Bool { entity == group.entity && kinds.contains(group.kind) }

    /// How messages call it.
    var title: String { name.map { "Observer “\($0)”" } ?? "An observer of “\(entity)”" }
}

/// The decision of a merge hook.
public enum MergeHookResult: Hashable, Sendable {
    /// Continue with the next hook, and in the end with the merge.
    case goOn
    /// Call no other hook, and do not merge in this round.
    case finish
}

struct MergeHook: Sendable {
    let id: UUID
    let body: @Sendable ([HistoryTransaction]) async throws -> MergeHookResult
}

extension HistoryTracker {
    /// Calls `body` with the changes of an entity's objects by other authors: once for each transaction and kind, in
    /// order.
    ///
    /// A body that throws is called again up to three times, after 0.1, 0.4 and 1.6 seconds. After that its work is
    /// parked (see `parked`), and all other work continues. Until the body succeeds, it is then called again after 1, 4
    /// and 16 milliseconds, so a body that always fails causes little delay. If the process is killed, the body is
    /// called again for transactions that the cursor had not passed.
    ///
    /// The store must have the entity, and its history must be on. If not, the log gets a message when the observer is
    /// registered, and `metrics.lastError` is `unknownEntity` or `historyGap`. The observer is called once that has
    /// changed.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - kinds: The kinds of changes. If it is empty, the log gets a message, and `metrics.lastError` is
    ///     `invalidArgument`.
    ///   - name: If given, work that fails is parked in the store, and a later process can replay it. An observer
    ///     replaces one with the same name.
    ///   - body: Gets the changes. Called in no isolation.
    ///   - resynchronized: Called once after history was lost, with the state from which observing continues: read the
    ///     values that you need from it.
    /// - Returns: The ID for `removeObserver`.
    @discardableResult
    public func observe<E: Entity>(
        _ type: E.Type, _ kinds: Set<HistoryChange.Kind>, name: String? = nil,
        _ body: @escaping @Sendable (_ changes: ObservedChanges<E>) async throws -> Void,
        resynchronized: (@Sendable (_ snapshot: Snapshot) async throws -> Void)? = nil
    ) -> UUID {
        core.add(
            Observer(
                id: UUID(), name: name, entity: core.name(of: type), kinds: kinds,
                body: .plain { group in try await body(ObservedChanges(group)) }, resynchronized: resynchronized))
    }

    /// Calls `body` with the changes by other authors, and with a transaction. Its writes and the cursor are one
    /// commit, so it takes effect exactly once, even if a process is killed at any moment. No other effect can happen
    /// exactly once: do not print, send or count elsewhere.
    ///
    /// The cursor is a separate consumer of the store, `"\(consumer)/\(name)"`. The body is called outside the writer
    /// lock, up to three times if other writers commit during it. The transaction has the current author. If the body
    /// throws, nothing is written, and it is tried again and parked like other bodies.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - kinds: The kinds of changes.
    ///   - name: The name of the observer, which is the same in each run of the program.
    ///   - body: Gets the changes and the transaction, and must not keep it.
    ///   - resynchronized: As for other observers.
    /// - Returns: The ID for `removeObserver`.
    @discardableResult
    public func observeInTransaction<E: Entity>(
        _ type: E.Type, _ kinds: Set<HistoryChange.Kind>, name: String,
        _ body: @escaping @Sendable (_ changes: ObservedChanges<E>, _ transaction: Transaction) throws -> Void,
        resynchronized: (@Sendable (_ snapshot: Snapshot) async throws -> Void)? = nil
    ) -> UUID {
        core.add(
            Observer(
                id: UUID(), name: name, entity: core.name(of: type), kinds: kinds,
                body: .writing(cursor: core.settings.consumer + "/" + name) { group, transaction in
                    try body(ObservedChanges(group), transaction)
                }, resynchronized: resynchronized))
    }

    /// Calls `callback` with the changes of a named entity's objects by other authors: once for each transaction.
    ///
    /// - Returns: The ID for `removeObserver`.
    ///
    /// Throws `StoreError`: `unknownEntity`; `historyGap` if the history of the entity is off.
    @discardableResult
    public func registerObserver(
        entityName: String, operation: HistoryChange.Kind,
        callback: @escaping @Sendable (_ versions: [ObjectVersion]) async throws -> Void
    ) throws -> UUID {
        guard try core.store.oldestToken(ofEntity: entityName) != nil else { throw TrackerCore.noHistory(entityName) }
        return core.add(
            Observer(
                id: UUID(), name: nil, entity: entityName, kinds: [operation],
                body: .plain { group in
                    let header = group.transaction.header
                    try await callback(group.changes.map { ObjectVersion(header: header, change: $0) })
                }, resynchronized: nil))
    }

    /// Removes an observer. Its cursor in the store, if it has one, stays: `Store.removeConsumer` removes it
    /// permanently.
    ///
    /// - Returns: Whether it existed.
    @discardableResult
    public func removeObserver(id: UUID) -> Bool { core.removeObservers { $0.id == id } }

    /// Removes the observers of an entity that want a kind of change.
    public func removeObserver(entityName: String, operation: HistoryChange.Kind) {
        core.removeObservers { $0.entity == entityName && $0.kinds.contains(operation) }
    }

    /// Removes all observers.
    public func removeAllObservers() { core.removeObservers { _ in true } }

    /// Calls `body` before contexts are merged, with the fetched transactions. Hooks are called in the order of
    /// registration, until one of them returns `finish`.
    ///
    /// Contexts stay in their isolation, so a hook does not get them: to merge differently, use `attach` with a
    /// closure. A hook that throws is called again up to three times, then parked, and the round continues.
    ///
    /// - Parameters:
    ///   - hook: The ID of the hook to call it before; nil, or an ID that is not registered, for the last place.
    ///   - body: Makes the decision.
    /// - Returns: The ID for `removeMergeHook`.
    @discardableResult
    public func registerMergeHook(
        before hook: UUID? = nil,
        _ body: @escaping @Sendable (_ transactions: [HistoryTransaction]) async throws -> MergeHookResult
    ) -> UUID {
        let added = MergeHook(id: UUID(), body: body)
        core.state.withLock { state in
            let position = state.hooks.firstIndex { $0.id == hook } ?? state.hooks.endIndex
            state.hooks.insert(added, at: position)
        }
        return added.id
    }

    /// Removes a merge hook. Returns whether it existed.
    @discardableResult
    public func removeMergeHook(id: UUID) -> Bool {
        core.state.withLock { state in
            let count = state.hooks.count
            state.hooks.removeAll { $0.id == id }
            return state.hooks.count < count
        }
    }

    /// Removes all merge hooks.
    public func removeAllMergeHooks() { core.state.withLock { $0.hooks = [] } }
}

extension TrackerCore {
    func name<E: Entity>(of type: E.Type) -> String { (type.schema as? Schema<E>)?.name ?? "\(type)" }

    func add(_ observer: Observer) -> UUID {
        let isReplaced = state.withLock { state in
            let count = state.observers.count
            if let name = observer.name { state.observers.removeAll { $0.name == name } }
            state.observers.append(observer)
            return state.observers.count <= count
        }
        if isReplaced { log(1, .notice, "\(observer.title) replaces the observer with the same name.") }
        if observer.kinds.isEmpty {
            let error = StoreError(.invalidArgument, "\(observer.title) observes no kind of change: name at least one.")
            log(1, .error, error.message)
            state.withLock { $0.metrics.lastError = error }
        }
        // Any other error of the store is met and reported by the tracker's task.
        if let obstacle = try? obstacle(toObserving: observer.entity) { name(observer.entity, obstacle) }
        return observer.id
    }

    /// The reason for which nothing of an entity can be observed; nil if it can. Throws other errors of the store.
    func obstacle(toObserving entity: String) throws -> StoreError? {
        do {
            return try store.oldestToken(ofEntity: entity) == nil ? Self.noHistory(entity) : nil
        } catch let error as StoreError where error.code == .unknownEntity {
            return Self.isMissing(entity)
        }
    }

    /// Names the entity in the log: once, until it can be observed.
    func name(_ entity: String, _ obstacle: StoreError) {
        guard state.withLock({ $0.named.insert(entity).inserted }) else { return }
        log(1, .error, obstacle.message)
        state.withLock { $0.metrics.lastError = obstacle }
    }

    /// After a change of the schema: the log may name these entities again, if they become a problem again.
    func forgetNamed() throws {
        for entity in state.withLock({ $0.named }) where try obstacle(toObserving: entity) == nil {
            state.withLock { _ = $0.named.remove(entity) }
        }
    }

    @discardableResult
    func removeObservers(_ isRemoved: (Observer) -> Bool) -> Bool {
        state.withLock { state in
            let count = state.observers.count
            state.observers.removeAll(where: isRemoved)
            return state.observers.count < count
        }
    }

    private static func isMissing(_ entity: String) -> StoreError {
        StoreError(
            .unknownEntity,
            "“\(entity)” is observed, but the store has no such entity: open the store with the type in `entities:`, "
                + "or do not observe it.")
    }

    static func noHistory(_ entity: String) -> StoreError {
        StoreError(
            .historyGap,
            "“\(entity)” is observed, but its history is off: turn it on, so that it begins at that time, or do not "
                + "observe it. Contexts still follow the entity.")
    }
}
