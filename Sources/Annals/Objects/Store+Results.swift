// Lists of values that stay current, from any thread: a sequence of lists, each with its difference to the last.
//
// Invariants:
// SR1  Each element has the values that fetching finds in its state, in the order of fetching; without sort keys, in
//      the order of insertion. Its difference leads from the element before it to this one.
// SR2  Waiting begins before the first state is read, so no transaction is missed.

public import FoundationEssentials

extension Store {
    /// The objects that satisfy a predicate, as an asynchronous sequence of lists: the first one at once, then another
    /// one after each change, by any process, that makes a difference.
    ///
    /// ```swift
    /// for try await update in store.results(Clip.self, sortedBy: .descending(\.rank)) {
    ///     show(update.values, update.diff)
    /// }
    /// ```
    ///
    /// A reader that is slow gets the newest list, with one difference for all changes that it has missed. A difference
    /// is computed from the history. If history lacks the changes, or has more of them than objects exist, the sequence
    /// fetches again and compares. It does the same if the predicate follows a relationship and a property that it
    /// reads of related objects has changed.
    ///
    /// While it waits, it occupies no thread and makes no system calls. It works outside the reader's actor. The
    /// sequence keeps the store open. It ends when its task is cancelled.
    ///
    /// - Parameters:
    ///   - type: The entity.
    ///   - predicate: The condition; nil for all objects.
    ///   - sort: Their order; the first key counts most. Without one, that of their insertion.
    ///
    /// Iterating throws as `Snapshot.fetch`, and `closed`, `storeRemoved`, `storeReplaced`, `forked`.
    public func results<E: Entity>(
        _ type: E.Type, where predicate: Predicate<Object<E>>? = nil, sortedBy sort: SortKey<E>...
    ) -> StoreResults<E> {
        StoreResults(store: self, predicate: predicate, sort: SortKey.parts(of: sort), query: nil, limit: nil)
    }

    /// The objects whose searchable texts match a query, as an asynchronous sequence of lists.
    ///
    /// Each change of an object of the entity repeats the search, because it may change the rank of every match. With a
    /// `limit` that costs little.
    ///
    /// - Parameters:
    ///   - type: The entity. Its schema must have a property with the option `.searchable`.
    ///   - query: The words.
    ///   - predicate: A further condition; nil for none.
    ///   - sort: Their order; the first key counts most. Without one, the best match first.
    ///   - limit: The most objects in a list: the first ones. Nil for all.
    ///
    /// Iterating throws as `Snapshot.search`, and `closed`, `storeRemoved`, `storeReplaced`, `forked`.
    public func results<E: Entity>(
        _ type: E.Type, for query: SearchQuery, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil
    ) -> StoreResults<E> {
        StoreResults(
            store: self, predicate: predicate, sort: SortKey.parts(of: sort), query: query, limit: limit)
    }

    /// The same for a text as people type it.
    public func results<E: Entity>(
        _ type: E.Type, for text: String, where predicate: Predicate<Object<E>>? = nil,
        sortedBy sort: SortKey<E>..., limit: Int? = nil
    ) -> StoreResults<E> {
        StoreResults(
            store: self, predicate: predicate, sort: SortKey.parts(of: sort), query: SearchQuery(text), limit: limit)
    }
}

/// One state of a list of results, and how it differs from the last one.
public struct ResultsUpdate<E: Entity>: Sendable {
    /// The references of the objects, in order.
    public let references: [Reference<E>]
    /// The objects as values, in the same order.
    public let values: [E]
    /// The difference to the last update. In the first one, everything is inserted.
    public let diff: ResultsDiff
    /// The state that was read.
    public let snapshot: Snapshot
}

/// Lists of the objects that satisfy a predicate, each after a change. Create it with `Store.results`.
///
/// Each iteration begins with the whole list. It ends when its task is cancelled, and after it has thrown.
public struct StoreResults<E: Entity>: AsyncSequence, Sendable {
    public typealias Element = ResultsUpdate<E>
    public typealias Failure = any Error

    let store: Store
    let predicate: Predicate<Object<E>>?
    let sort: [SortPart<E>]
    let query: SearchQuery?
    let limit: Int?

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(results: self) }

    /// One iteration. Use it in one task.
    public struct AsyncIterator: AsyncIteratorProtocol {
        private let results: StoreResults
        private var list: FollowedList<E>?
        private var hasEnded = false

        init(results: StoreResults) { self.results = results }

        public mutating func next() async throws -> ResultsUpdate<E>? { try await next(isolation: nil) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> ResultsUpdate<E>? {
            if hasEnded { return nil }
            let before = list
            // Otherwise the list would be copied to be changed.
            list = nil
            do {
                if let (next, update) = try await results.advance(before) {
                    list = next
                    return update
                }
            } catch {
                hasEnded = true
                throw error
            }
            hasEnded = true
            return nil
        }
    }

    /// The next list, and the update that leads to it; nil if the task is cancelled. Not in the caller's isolation.
    private func advance(_ list: consuming FollowedList<E>?) async throws -> (FollowedList<E>, ResultsUpdate<E>)? {
        if Task.isCancelled { return nil }
        guard var list else {
            // SR2
            let watcher = try store.snapshotWatcher()
            return try FollowedList.first(self, watcher, try store.newestSnapshot())
        }
        while let newer = try await list.newerSnapshot() {
            if let update = try list.update(to: newer) { return (list, update) }
        }
        return nil
    }
}

/// The list of one iteration.
private struct FollowedList<E: Entity>: Sendable {
    private let watcher: SnapshotWatcher
    private var snapshot: Snapshot
    private var search: LiveSearch<E>
    private var list: LiveRows<E>

    static func first(
        _ results: StoreResults<E>, _ watcher: SnapshotWatcher, _ snapshot: Snapshot
    ) throws -> (FollowedList, ResultsUpdate<E>) {
        let search = try LiveSearch(
            results.predicate, results.sort, for: results.query, limit: results.limit, followsValues: true, snapshot,
            results.store.declaredModels)
        let order = try search.order(snapshot)
        var first = FollowedList(
            watcher: watcher, snapshot: snapshot, search: search, list: LiveRows(isDescending: order.isDescending))
        // Everything is new.
        let plan = first.list.plan(try first.fetched(order))
        first.list.show(plan)
        return (first, first.update(plan.diff))
    }

    /// Waits for a newer state; nil if the task is cancelled.
    func newerSnapshot() async throws -> Snapshot? {
        try await watcher.next(after: snapshot.token, isolation: nil)
    }

    /// Moves to a newer state (SR1). Nil if the list is the same there.
    mutating func update(to newer: Snapshot) throws -> ResultsUpdate<E>? {
        let older = snapshot
        snapshot = newer
        let isSameSchema = older.schemaVersion == newer.schemaVersion
        if !isSameSchema { search = try search.renewed(newer, watcher.store.declaredModels) }
        let order = try search.order(newer)
        let touched = isSameSchema ? try self.touched(after: older, order) : nil
        let changes: [LiveRows<E>.Change]
        if let touched, !search.isSearch {
            changes = try self.changes(touched, order)
        } else if let touched, try isSameSearch(touched, since: older) {
            changes = try changedValues(touched)
        } else {
            changes = try fetched(order)
        }
        if changes.isEmpty { return nil }
        let plan = list.plan(changes)
        list.show(plan)
        return plan.diff.isEmpty ? nil : update(plan.diff)
    }

    private func update(_ diff: ResultsDiff) -> ResultsUpdate<E> {
        let mark = snapshot.mark
        return ResultsUpdate(
            references: list.order.map { Reference($0, of: mark) }, values: list.order.compactMap { list[$0]?.content },
            diff: diff, snapshot: snapshot)
    }

    /// The objects of the entity that may have changed; nil if all may have.
    private func touched(after older: Snapshot, _ order: LiveSearch<E>.Order) throws(StoreError) -> Set<ObjectID>? {
        guard !search.dependencies.isUnknown, !(search.isSearch && search.dependencies.isEvaluated) else { return nil }
        let entities = search.dependencies.entities.union([order.entity])
        let limit = max(1024, list.order.count)
        let changed: Set<ObjectID>?
        do throws(StoreError) {
            changed = try watcher.store.changedObjects(
                after: older.token.number, in: snapshot, atMost: limit, of: entities)
        } catch {
            // Expired, or an entity's history is off.
            return nil
        }
        guard let changed else { return nil }
        for object in changed {
            if try search.dependencies.isAffected(by: object, .inStore, older, snapshot) { return nil }
        }
        return changed.filter { $0.entityNumber == order.entity }
    }

    /// Whether a search finds the same as in an older state, although these objects have changed.
    private func isSameSearch(_ touched: Set<ObjectID>, since older: Snapshot) throws(StoreError) -> Bool {
        for object in touched {
            if try search.dependencies.isAffected(byOwn: Reference<E>(object), .inStore, older, snapshot) {
                return false
            }
        }
        return true
    }

    /// The objects of the list that have other values at their old places.
    private func changedValues(_ touched: Set<ObjectID>) throws(StoreError) -> [LiveRows<E>.Change] {
        var changes: [LiveRows<E>.Change] = []
        for object in touched {
            guard let row = list[object], let value = try snapshot.value(Reference<E>(object)) else { continue }
            add(value, row.key, of: object, &changes)
        }
        return changes
    }

    private mutating func changes(
        _ touched: Set<ObjectID>, _ order: LiveSearch<E>.Order
    ) throws -> [LiveRows<E>.Change] {
        try search.recordingReads(snapshot) { [self] reads in try changes(touched, order, reads) }
    }

    private func changes(
        _ touched: Set<ObjectID>, _ order: LiveSearch<E>.Order, _ reads: ReadRecorder?
    ) throws(StoreError) -> [LiveRows<E>.Change] {
        let fetch = try Fetch(snapshot, search.predicate, reads: reads)
        let (condition, layout, view) = (fetch.run.plan.condition, fetch.run.plan.layout, snapshot.view)
        let reader = ConditionReader(view: view)
        var changes: [LiveRows<E>.Change] = []
        for object in touched {
            var isMatch = false
            _ = try view.withRow(object) { (row) throws(StoreError) in
                isMatch = try reader.matches(condition, row, object, layout)
            }
            let value = isMatch ? try snapshot.value(Reference<E>(object)) : nil
            try add(value, of: object, order, &changes)
        }
        return changes
    }

    /// The difference to a new fetch.
    private mutating func fetched(_ order: LiveSearch<E>.Order) throws -> [LiveRows<E>.Change] {
        try search.recordingReads(snapshot) { [self] reads in try fetched(order, reads) }
    }

    private func fetched(
        _ order: LiveSearch<E>.Order, _ reads: ReadRecorder?
    ) throws(StoreError) -> [LiveRows<E>.Change] {
        var left = Set(list.order)
        var changes: [LiveRows<E>.Change] = []
        if let matches = try search.matches(snapshot) {
            for match in matches {
                left.remove(match.reference.id)
                add(match.value, try search.key(of: match, order), of: match.reference.id, &changes)
            }
        } else {
            var fetch = try Fetch(snapshot, search.predicate, reads: reads)
            try fetch.forEachValue { (reference, value) throws(StoreError) in
                left.remove(reference.id)
                try add(value, of: reference.id, order, &changes)
                return true
            }
        }
        for object in left { changes.append(LiveRows.Change(old: object, new: nil)) }
        return changes
    }

    private func add(
        _ value: E?, of object: ObjectID, _ order: LiveSearch<E>.Order, _ changes: inout [LiveRows<E>.Change]
    ) throws(StoreError) {
        let row = list[object]
        guard let value else {
            if row != nil { changes.append(LiveRows.Change(old: object, new: nil)) }
            return
        }
        if let row, E.model.firstDifference(row.content, value) == nil { return }
        add(value, try order.key(of: value), of: object, &changes)
    }

    private func add(_ value: E, _ key: LiveKey, of object: ObjectID, _ changes: inout [LiveRows<E>.Change]) {
        let row = list[object]
        let isSame = row.map { E.model.firstDifference($0.content, value) == nil } ?? false
        if isSame, row?.key == key { return }
        changes.append(
            LiveRows.Change(
                old: row == nil ? nil : object, new: (object, LiveRows.Row(key: key, content: value)),
                isUpdated: row != nil && !isSame))
    }
}
