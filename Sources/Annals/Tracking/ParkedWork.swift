// Work of bodies that failed again and again: kept, shown, done later or skipped.

public import FoundationEssentials
internal import Synchronization

/// The input of a tracker's body when it failed for good.
public struct ParkedWork: Hashable, Sendable, Codable, Identifiable {
    /// The kinds of bodies.
    public enum Body: String, Hashable, Sendable, Codable {
        /// An observer.
        case observer
        /// A merge hook.
        case mergeHook
        /// The deduplicator.
        case deduplicator
    }

    /// The work's own ID.
    public let id: UUID
    /// The body that failed.
    public let body: Body
    /// The name of the observer. If it has one, its work is kept in the store. If not, it ends with the tracker.
    public let name: String?
    /// The first and the last transaction that the body got.
    public let transactions: ClosedRange<UInt64>
    /// The place in history directly after the last of them.
    public let token: HistoryToken
    /// The entity that was observed, by its name then; nil for hooks and the deduplicator.
    public let entity: String?
    /// The number of the entity, which stays if the entity is renamed. Nil for work that an earlier version has parked.
    var entityNumber: UInt16?
    /// The kinds of changes that the observer got.
    public let kinds: [HistoryChange.Kind]
    /// The error of the body, as text.
    public let error: String
    /// The number of times the body was called.
    public let attempts: Int
    /// The observer or hook in this process, if it has no name.
    let bodyID: UUID?

    func failed(_ error: any Error) -> ParkedWork { failed("\(error)", after: 1) }

    /// The same work, after further attempts.
    func failed(_ error: String, after more: Int) -> ParkedWork {
        ParkedWork(
            id: id, body: body, name: name, transactions: transactions, token: token, entity: entity,
            entityNumber: entityNumber, kinds: kinds, error: error, attempts: attempts + more, bodyID: bodyID)
    }

    /// Whether the same observer got the same changes.
    func isSameWork(as other: ParkedWork) -> Bool {
        let isSameEntity =
            if let entityNumber, let number = other.entityNumber { entityNumber == number } else {
                entity == other.entity
            }
        return name == other.name && isSameEntity && kinds == other.kinds && transactions == other.transactions
    }

    /// The key of a consumer's parked work in the store's metadata.
    static func key(_ consumer: String) -> String { "HistoryTracker.parked/" + consumer }
}

extension Store {
    /// The parked work that trackers with this consumer keep in the store: of observers that have a name. In the order
    /// in which it was parked.
    ///
    /// Throws `StoreError`, as `metadata`.
    public func parkedWork(ofConsumer consumer: String) throws -> [ParkedWork] {
        try metadata(ParkedWork.key(consumer), as: [ParkedWork].self) ?? []
    }
}

extension Transaction {
    /// Adds parked work of an observer with a name. A process may have parked it before, and died before the cursor
    /// moved: then that entry is updated.
    func park(_ work: ParkedWork, ofConsumer consumer: String) throws {
        try changeParkedWork(consumer) { works in
            if let position = works.firstIndex(where: { $0.isSameWork(as: work) }) {
                works[position] = works[position].failed(work.error, after: work.attempts)
            } else {
                works.append(work)
            }
        }
    }

    /// Changes the parked work of a consumer.
    func changeParkedWork(_ consumer: String, _ change: (inout [ParkedWork]) -> Void) throws {
        let key = ParkedWork.key(consumer)
        var works = try snapshot.metadata(key, as: [ParkedWork].self) ?? []
        change(&works)
        try setMetadata(works.isEmpty ? nil : works, for: key)
    }
}

extension HistoryTracker {
    /// The work that failed and waits for `replay` or `skip`: parked by this tracker, or kept in the store. It delays
    /// neither other work nor cleaning.
    ///
    /// Throws `StoreError`, as `Store.metadata`.
    public var parked: [ParkedWork] {
        get throws {
            try core.store.parkedWork(ofConsumer: core.settings.consumer) + core.state.withLock { $0.parked }
        }
    }

    /// Calls the body of parked work once more, with the same changes from history. If it succeeds, the work is done.
    /// If it throws, the work stays parked, and the error is thrown.
    ///
    /// If several processes replay work of a writing observer at the same time, one of them writes, and the rest throw
    /// `invalidArgument`. Other bodies may be called by each of them.
    ///
    /// Throws `StoreError`: `tokenExpired` if the changes were cleaned since: then `skip` it; `invalidArgument` if the
    /// work is not parked any more, or no observer with its name is registered for such changes; and errors of the
    /// body.
    public func replay(_ work: ParkedWork) async throws { try await core.replay(work) }

    /// Drops parked work without doing it.
    ///
    /// Throws `StoreError`, as `Store.write`.
    public func skip(_ work: ParkedWork) async throws { try await core.skip(work) }
}

extension TrackerCore {
    func replay(_ work: ParkedWork) async throws {
        let transactions = try transactions(of: work)
        let replay = try body(of: work, transactions)
        // The caller that removes work from memory owns it.
        let place = takeUnstored(work)
        if place == nil {
            let stored: [ParkedWork] = try store.parkedWork(ofConsumer: settings.consumer)
            if !stored.contains(where: { $0.id == work.id }) { throw Self.isNotParked }
        }
        do {
            try await replay(place == nil)
        } catch {
            let failed = work.failed(error)
            if let place {
                state.withLock { $0.parked.insert(failed, at: min(place, $0.parked.count)) }
            } else {
                try await replace(work, failed)
            }
            throw error
        }
    }

    /// Reads the work's transactions from history again. Throws if history no longer has them, or if this tracker does
    /// not observe them.
    private func transactions(of work: ParkedWork) throws -> [HistoryTransaction] {
        do {
            return try fetchedTransactions(of: work)
        } catch let error as StoreError where error.code == .tokenExpired {
            throw StoreError(
                .tokenExpired,
                "History no longer contains the changes of this work, so it cannot be replayed: skip it.",
                path: store.path)
        }
    }

    /// The present name of the work's entity.
    private func entity(of work: ParkedWork) throws -> String? {
        guard let number = work.entityNumber else { return work.entity }
        let present = try store.entities.first { try store.entity($0.name).number == number }
        return present?.name ?? work.entity
    }

    private func fetchedTransactions(of work: ParkedWork) throws -> [HistoryTransaction] {
        try store.validate(work.token)
        let entity = try entity(of: work)
        var request = HistoryRequest(
            after: .number(work.transactions.lowerBound - 1), before: .number(work.transactions.upperBound + 1),
            entities: entity.map { [$0] }, kinds: entity == nil ? nil : Set(work.kinds))
        select(settings.observedAuthors, in: &request)
        var transactions: [HistoryTransaction] = []
        try store.forEachTransaction(request, in: try store.snapshot()) { (transaction) throws(StoreError) in
            if try observes(transaction) { transactions.append(try transaction.value(includingValues: true)) }
            return true
        }
        if transactions.isEmpty {
            throw StoreError(
                .invalidArgument,
                "The authors and mirroring of this tracker exclude the changes of this work: replay it with a tracker "
                    + "like the one that parked it, or skip it.")
        }
        return transactions
    }

    /// Calls the body. If the work is in the store, it is then removed there.
    private func body(
        of work: ParkedWork, _ transactions: [HistoryTransaction]
    ) throws -> (_ isStored: Bool) async throws -> Void {
        switch work.body {
        case .observer:
            let observer = try observer(of: work)
            let groups = transactions.flatMap(ChangeGroup.groups).filter { observer.wants($0) }
            switch observer.body {
            case .plain(let body):
                return { isStored in
                    for group in groups { try await body(group) }
                    if isStored { try await self.replace(work, nil) }
                }
            case .writing(_, let body):
                return { isStored in try await self.write(work, isStored: isStored, groups, body) }
            }
        case .mergeHook:
            guard let hook = state.withLock({ $0.hooks.first { $0.id == work.bodyID } }) else {
                throw bodyIsMissing(work)
            }
            return { _ in _ = try await hook.body(transactions) }
        case .deduplicator:
            guard let deduplicator = settings.deduplicator else { throw bodyIsMissing(work) }
            return { isStored in
                let context = self.store.makeContext(author: self.settings.author, name: Self.deduplicatorName)
                defer { context.close() }
                try self.call(deduplicator, transactions, context)
                try context.save()
                if isStored { try await self.replace(work, nil) }
            }
        }
    }

    private func observer(of work: ParkedWork) throws -> Observer {
        let observer = state.withLock { state in
            state.observers.first { work.name == nil ? $0.id == work.bodyID : $0.name == work.name }
        }
        guard let observer else { throw bodyIsMissing(work) }
        guard observer.entity == (try entity(of: work)), observer.kinds.isSuperset(of: work.kinds) else {
            throw StoreError(
                .invalidArgument,
                "\(observer.title) is registered for other changes than those of this work: register it as before, or "
                    + "skip the work.")
        }
        return observer
    }

    /// Calls the body in a transaction that also removes the work from the store. So the work is done once, even if
    /// another process replays it at the same time.
    private func write(
        _ work: ParkedWork, isStored: Bool, _ groups: [ChangeGroup],
        _ body: @escaping @Sendable (ChangeGroup, Transaction) throws -> Void
    ) async throws {
        let consumer = settings.consumer
        try await store.writeOptimistically(author: settings.author, contextName: work.name) { transaction in
            if isStored {
                var isParked = false
                try transaction.changeParkedWork(consumer) { works in
                    isParked = works.contains { $0.id == work.id }
                    works.removeAll { $0.id == work.id }
                }
                if !isParked { throw Self.isNotParked }
            }
            for group in groups { try body(group, transaction) }
        }
    }

    private static var isNotParked: StoreError {
        StoreError(.invalidArgument, "This work is no longer parked: it was replayed or skipped.")
    }

    private func bodyIsMissing(_ work: ParkedWork) -> StoreError {
        let what = work.name.map { "observer named “\($0)”" } ?? "\(work.body.rawValue)"
        return StoreError(
            .invalidArgument, "The \(what) of this work is not registered: register it first, or skip the work.")
    }

    /// Keeps work in the store if its body has a name and the store has a place for it; otherwise in memory.
    func park(_ work: ParkedWork, title: String) async throws {
        if work.name != nil {
            let consumer = settings.consumer
            do {
                try await store.writeOptimistically(author: settings.author) { try $0.park(work, ofConsumer: consumer) }
                noteParked(work, title)
                return
            } catch let error as StoreError where error.code == .invalidArgument {
                log(1, .notice, "The store has no place for parked work: \(error.message)")
            }
        }
        state.withLock { $0.parked.append(work) }
        noteParked(work, title)
    }

    /// Keeps work of a writing observer, and moves its cursor beyond it.
    func park(_ work: ParkedWork, title: String, moving cursor: String, from start: HistoryToken) async throws {
        let consumer = settings.consumer
        do {
            try await store.writeOptimistically(author: settings.author) { transaction in
                try transaction.park(work, ofConsumer: consumer)
                try transaction.advanceConsumer(cursor, from: start, to: work.token)
            }
        } catch let error as StoreError where error.code == .invalidArgument {
            log(1, .notice, "The store has no place for parked work: \(error.message)")
            try await advance([cursor: (start, work.token)])
            state.withLock { $0.parked.append(work) }
        }
        noteParked(work, title)
    }

    func noteParked(_ work: ParkedWork, _ title: String) {
        state.withLock { $0.metrics.parked += 1 }
        let numbers = work.transactions
        let which =
            numbers.count == 1
            ? "transaction \(numbers.lowerBound)" : "transactions \(numbers.lowerBound) to \(numbers.upperBound)"
        log(
            1, .error,
            "\(title) has failed \(work.attempts) times for \(which), so the work is parked: replay or skip it. The "
                + "last error: \(work.error)")
    }

    func skip(_ work: ParkedWork) async throws {
        if takeUnstored(work) == nil { try await replace(work, nil) }
    }

    /// Removes the work from the list in memory. Returns its place there.
    private func takeUnstored(_ work: ParkedWork) -> Int? {
        state.withLock { state in
            let place = state.parked.firstIndex { $0.id == work.id }
            if let place { state.parked.remove(at: place) }
            return place
        }
    }

    /// Replaces or removes work in the store.
    private func replace(_ work: ParkedWork, _ other: ParkedWork?) async throws {
        let consumer = settings.consumer
        try await store.writeOptimistically(author: settings.author) { transaction in
            try transaction.changeParkedWork(consumer) { works in
                guard let position = works.firstIndex(where: { $0.id == work.id }) else { return }
                if let other { works[position] = other } else { works.remove(at: position) }
            }
        }
    }
}
