// One round: fetch, observers, merge hooks, merge, deduplicator, cursor, clean. The transactions of one fetch are a
// batch. A round has several batches if there are many transactions.
//
// Invariants:
// TR4  The cursor moves to a transaction only after every body has had it, or its work was parked. Hooks after one that
//      has returned `.finish` need not have it.
// TR5  A writing observer's effects and the move of its own cursor are one commit. The deduplicator's effects and the
//      move of the tracker's cursor are one commit, too.
// TR6  A round reads one state of the store. Later commits are for the next round. After a batch it rests if another
//      writer works at full speed.
// TR9  Contexts are moved in the last batch of a round, to the state that the round reads. Observers were called up to
//      that state. A round that is stopped before its last batch moves no contexts.
// TR10  A round reads history once, for observers and contexts.

internal import FoundationEssentials
internal import Synchronization

extension TrackerCore {
    /// A piece of history that is handled together.
    private struct Batch: Sendable {
        var transactions: [HistoryTransaction] = []
        /// The place to which the cursor moves.
        var end: HistoryToken
        var isLast = true
    }

    /// The state that a round reads (TR6), and its findings for contexts.
    private struct Round {
        let snapshot: Snapshot
        var changed = ChangedObjects()
        /// Whether no hook has decided against the merge.
        var merges = true
    }

    /// The limits of the history in memory at once; a single larger transaction exceeds them.
    private static let (maximumTransactions, maximumChanges) = (1024, 16_384)

    /// Takes the state to read, so that it is not retained during the next wait. Returns how long to rest before the
    /// next round; nil for not at all.
    func round(_ newest: inout Snapshot?) async throws -> Duration? {
        guard let snapshot = newest.take() else { return nil }
        let isOtherSchema = state.withLock { state in
            state.metrics.rounds += 1
            guard state.schemaVersion != snapshot.schemaVersion else { return false }
            (state.withoutHistory, state.schemaVersion) = ([], snapshot.schemaVersion)
            return true
        }
        if isOtherSchema { try forgetNamed() }
        var round = Round(snapshot: snapshot)
        while true {
            guard let start = state.withLock({ $0.cursor }) else { return nil }
            try beginWork()
            try prepareWritingObservers(start)
            var batch = try fetch(after: start, in: &round)
            try await observe(&batch)
            if try await !callHooks(batch) { round.merges = false }
            if batch.isLast, round.merges { try await merge(to: snapshot, round.changed) }
            try await finish(batch, from: start)
            if batch.isLast || isStopping { break }
            if let due = try restIsDue() { await rest(for: due) }
            if isStopping { break }
        }
        try clean()
        return try restIsDue()
    }

    // MARK: Fetching

    /// Reads the next batch of history, for observers and contexts (TR10).
    private func fetch(after start: HistoryToken, in round: inout Round) throws -> Batch {
        let snapshot = round.snapshot
        var batch = Batch(end: snapshot.token)
        guard start.number < batch.end.number else { return batch }
        let (observers, needsAll, withoutHistory, hasContexts) = state.withLock { state in
            (
                state.observers, !state.hooks.isEmpty || settings.deduplicator != nil, state.withoutHistory,
                !state.attachments.isEmpty
            )
        }
        let entities = Set(observers.map(\.entity)).subtracting(withoutHistory)
        let authors = settings.observedAuthors
        let observesNobody = authors?.isEmpty == true && settings.ownContexts.isEmpty
        guard needsAll || !entities.isEmpty, !observesNobody else {
            if hasContexts { note(after: start, in: &round) }
            return batch
        }
        // Authors that are not listed are read until the log has named them.
        let (leftOut, readsLeftOut) = state.withLock { ($0.leftOut, $0.readsLeftOut) }
        let asksForOthers = authors != nil && readsLeftOut && leftOut.count < Self.maximumLeftOut
        var request = HistoryRequest(
            after: .token(start), entities: needsAll ? nil : entities,
            kinds: needsAll ? nil : observers.reduce(into: []) { $0.formUnion($1.kinds) })
        let excluded = Set(leftOut.map { $0.isEmpty ? nil : $0 })
        select(asksForOthers ? nil : authors, except: excluded, in: &request)
        var changes = 0
        do {
            func take(_ transaction: borrowing HistoryTransactionView) throws(StoreError) -> Bool {
                guard try observes(transaction) else { return true }
                if let authors, !authors.contains(transaction.author), transaction.author != settings.author {
                    // A transaction that only declares entities changes no object, so observers miss nothing.
                    if transaction.changeCount > 0 { noteLeftOut(transaction.author) }
                    return true
                }
                if batch.transactions.count >= Self.maximumTransactions || changes >= Self.maximumChanges {
                    batch.isLast = false
                    return false
                }
                let value = try transaction.value(includingValues: true)
                changes += value.changes.count
                batch.transactions.append(value)
                return true
            }
            if hasContexts {
                try store.forEachTransaction(request, in: snapshot, noting: &round.changed, take)
            } else {
                try store.forEachTransaction(request, in: snapshot, take)
            }
        } catch let error as StoreError where error.code == .tokenExpired && asksForOthers {
            // Perhaps only history of authors that are not observed was cleaned. Fetch again without these authors.
            state.withLock { $0.readsLeftOut = false }
            return try fetch(after: start, in: &round)
        } catch let error as StoreError where error.code == .historyGap || error.code == .unknownEntity {
            // Fetch again without the entities that have no history. If all have history now, that of one has begun
            // again, and its earlier changes are lost.
            guard try leaveOutEntities(entities) else { throw error }
            return try fetch(after: start, in: &round)
        }
        if !batch.isLast, let last = batch.transactions.last { batch.end = last.token }
        let (count, total) = (batch.transactions.count, changes)
        state.withLock { state in
            state.metrics.transactions += count
            state.metrics.changes += total
        }
        return batch
    }

    /// Notes the changed objects for contexts, if no transactions are fetched for bodies. Errors do not matter: if
    /// history does not have everything, each context compares its objects.
    private func note(after start: HistoryToken, in round: inout Round) {
        let nothing = HistoryRequest(after: .token(start), authors: [])
        try? store.forEachTransaction(nothing, in: round.snapshot, noting: &round.changed) { _ in true }
    }

    /// Restricts a request to the transactions that bodies get: those of `authors`, or of all other authors if it is
    /// nil, and those of this program's observed contexts.
    func select(_ authors: Set<String?>?, except excluded: Set<String?> = [], in request: inout HistoryRequest) {
        let written = state.withLock { $0.observers.filter(\.isWriting).compactMap(\.name) }
        let own = settings.ownContexts.subtracting(written + [Self.deduplicatorName])
        request.authors = authors
        request.excludedAuthors = excluded
        guard !own.isEmpty else {
            request.excludedAuthors.insert(settings.author)
            return
        }
        let (author, contexts) = (Optional(settings.author), own.map(Optional.some))
        request.authors?.insert(author)
        request.predicate = #Predicate { $0.author != author || contexts.contains($0.contextName) }
    }

    /// Logs, once for each author, that its transactions are left out. An observer that counts may need them.
    private func noteLeftOut(_ author: String?) {
        guard state.withLock({ $0.leftOut.insert(author ?? "").inserted }) else { return }
        log(
            1, .notice,
            (author.map { "“\($0)” has committed transactions, but is not in `allAuthors`" }
                ?? "Transactions were committed without an author, so `allAuthors` cannot contain it")
                + ": these transactions are left out. "
                + (author == nil ? "Give the program an author, or leave" : "Add the author, or leave")
                + " `allAuthors` empty to observe all authors.")
    }

    private static let maximumLeftOut = 16

    /// Whether bodies get a transaction, if its author is observed. Called before its changes are read, because a
    /// transaction that was applied from another store may have very many.
    func observes(_ transaction: borrowing HistoryTransactionView) throws(StoreError) -> Bool {
        if settings.includesMirrors { return true }
        return try transaction.origin() == nil
    }

    /// Remembers which of the entities have no history. Returns false if every entity has a history.
    private func leaveOutEntities(_ entities: Set<String>) throws -> Bool {
        var missing: Set<String> = []
        for name in entities {
            guard let obstacle = try obstacle(toObserving: name) else { continue }
            self.name(name, obstacle)
            missing.insert(name)
        }
        let found = missing
        state.withLock { $0.withoutHistory.formUnion(found) }
        return !missing.isEmpty
    }

    // MARK: Observers

    /// Registers the cursors of new writing observers.
    private func prepareWritingObservers(_ start: HistoryToken) throws {
        for name in writingCursors where state.withLock({ $0.cursors[name] == nil }) {
            let consumer = try store.consumer(name) ?? store.registerConsumer(name, kind: .reads, at: start)
            if consumer.isLost {
                throw StoreError(.consumerLost, "History was cleaned before the observer “\(name)” had read it.")
            }
            state.withLock { $0.cursors[name] = consumer.cursor }
        }
    }

    /// Calls observers with each transaction. If the tracker is stopped between two transactions, the batch ends there.
    private func observe(_ batch: inout Batch) async throws {
        for (position, transaction) in batch.transactions.enumerated() {
            if isStopping, position > 0 {
                batch.end = batch.transactions[position - 1].token
                batch.transactions.removeSubrange(position...)
                batch.isLast = false
                return
            }
            let (observers, observed) = state.withLock { ($0.observers, $0.observed) }
            guard !observers.isEmpty else { continue }
            let groups = ChangeGroup.groups(of: transaction)
            if transaction.number > observed {
                for group in groups {
                    for observer in observers where observer.wants(group) {
                        guard case .plain(let body) = observer.body else { continue }
                        try await call(observer, group, body)
                    }
                }
                state.withLock { $0.observed = transaction.number }
            }
            for observer in observers {
                guard case .writing(let cursor, let body) = observer.body else { continue }
                let wanted = groups.filter { observer.wants($0) }
                if !wanted.isEmpty { try await write(observer, cursor, wanted, body) }
            }
        }
    }

    private func call(
        _ observer: Observer, _ group: ChangeGroup, _ body: @Sendable (ChangeGroup) async throws -> Void
    ) async throws {
        do {
            try await attempts(of: observer.id) { try await body(group) }
        } catch {
            try await park(work(observer, [group], error), title: observer.title)
        }
    }

    private func work(_ observer: Observer, _ groups: [ChangeGroup], _ error: any Error) -> ParkedWork {
        ParkedWork(
            id: UUID(), body: .observer, name: observer.name,
            transactions: groups[0].transaction.number...groups[0].transaction.number,
            token: groups[0].transaction.token, entity: observer.entity,
            entityNumber: groups[0].changes.first?.object.entityNumber, kinds: groups.map(\.kind),
            error: "\(error)", attempts: 4, bodyID: observer.name == nil ? observer.id : nil)
    }

    /// Calls a writing observer in the transaction that moves its cursor (TR5). Errors of the store end the round.
    private func write(
        _ observer: Observer, _ cursor: String, _ groups: [ChangeGroup],
        _ body: @escaping @Sendable (ChangeGroup, Transaction) throws -> Void
    ) async throws {
        let place = groups[0].transaction.token
        guard let start = state.withLock({ $0.cursors[cursor] }), start.number < place.number else { return }
        let failed = FailureOfBody()
        let write = { @Sendable (transaction: Transaction) in
            failed.error.withLock { $0 = nil }
            do {
                for group in groups { try body(group, transaction) }
            } catch {
                failed.error.withLock { $0 = error }
                throw error
            }
            try transaction.advanceConsumer(cursor, from: start, to: place)
        }
        let outcome: (any Error)? = try await {
            do {
                try await attempts(of: observer.id) {
                    do {
                        try await store.writeOptimistically(author: settings.author, contextName: observer.name, write)
                    } catch {
                        // The error is the store's, not the body's. It concerns the whole tracker, and calling the body
                        // again would not help.
                        if failed.error.withLock({ $0 == nil }) { throw StoreFailure(error: error) }
                        throw error
                    }
                }
                return nil
            } catch let error as StoreFailure {
                throw error.error
            } catch {
                return error
            }
        }()
        if let outcome {
            let work = work(observer, groups, outcome)
            try await park(work, title: observer.title, moving: cursor, from: start)
        }
        state.withLock { $0.cursors[cursor] = place }
    }

    // MARK: Hooks

    /// Calls the merge hooks. Returns whether to merge the contexts (TR9).
    private func callHooks(_ batch: Batch) async throws -> Bool {
        guard let last = batch.transactions.last else { return true }
        let (hooks, hooked, goesOn) = state.withLock { ($0.hooks, $0.hooked, $0.hooksGoOn) }
        // When a round is repeated after an error, its hooks may have decided already.
        guard last.number > hooked else { return goesOn }
        var result = MergeHookResult.goOn
        for hook in hooks where result == .goOn {
            do {
                result = try await attempts { try await hook.body(batch.transactions) }
            } catch {
                let work = ParkedWork(
                    id: UUID(), body: .mergeHook, name: nil,
                    transactions: batch.transactions[0].number...last.number, token: last.token, entity: nil, kinds: [],
                    error: "\(error)", attempts: 4, bodyID: hook.id)
                try await park(work, title: "A merge hook")
            }
        }
        let decision = result == .goOn
        state.withLock { ($0.hooked, $0.hooksGoOn) = (last.number, decision) }
        return decision
    }

    // MARK: Deduplicator, cursor, cleaning

    /// Calls the deduplicator, then moves the cursor, after everything else (TR4).
    private func finish(_ batch: Batch, from start: HistoryToken) async throws {
        guard batch.end.number > start.number else { return }
        var isMoved = false
        if let deduplicator = settings.deduplicator, let last = batch.transactions.last {
            do {
                isMoved = try await deduplicate(batch, from: start, deduplicator)
            } catch let error as StoreFailure {
                throw error.error
            } catch {
                let work = ParkedWork(
                    id: UUID(), body: .deduplicator, name: Self.deduplicatorName,
                    transactions: batch.transactions[0].number...last.number, token: last.token, entity: nil, kinds: [],
                    error: "\(error)", attempts: 4, bodyID: nil)
                try await park(work, title: "The deduplicator")
            }
        }
        let (end, others) = state.withLock { state in
            (batch.end, state.cursors.filter { $0.value.number < batch.end.number })
        }
        var moves = others.mapValues { (from: $0, to: end) }
        if !isMoved { moves[settings.consumer] = (start, end) }
        try await advance(moves)
        let newest = try store.currentToken.number
        let moved = try store.consumer(settings.consumer)?.lastSeen
        state.withLock { state in
            (state.cursor, state.moved) = (end, moved)
            for name in others.keys { state.cursors[name] = end }
            state.metrics.lag = newest - min(end.number, newest)
        }
        log(2, .debug, "“\(settings.author)” has read history up to transaction \(end.number).")
    }

    /// Moves cursors. If another writer has the lock, this waits for the lock without occupying a thread of the pool.
    func advance(_ moves: [String: (from: HistoryToken, to: HistoryToken)]) async throws {
        if moves.isEmpty { return }
        do {
            try store.advanceConsumers(moves, timeout: .zero)
        } catch let error as StoreError {
            guard error.code == .busy else { throw error }
            try await store.writeOptimistically(author: settings.author, durability: .relaxed) { transaction in
                for (name, move) in moves { try transaction.advanceConsumer(name, from: move.from, to: move.to) }
            }
        }
    }

    /// Errors of saving after which the deduplicator is not called again, because its own changes do not cause them.
    private static let errorsOfTheStore: Set<StoreError.Code> = [
        .busy, .noSpace, .tooManyFiles, .inputOutput, .durabilityUnknown, .damaged, .unsupportedVersion, .closed,
        .storeRemoved, .storeReplaced, .consumerConflict, .consumerLost, .consumerUnknown,
    ]

    /// Calls the deduplicator with a context of its own. Saving that context also moves the cursor. Returns whether the
    /// cursor has moved.
    private func deduplicate(
        _ batch: Batch, from start: HistoryToken, _ deduplicator: HistoryTracker.Deduplicator
    ) async throws -> Bool {
        try await attempts {
            let context = store.makeContext(author: settings.author, name: Self.deduplicatorName)
            defer { context.close() }
            try call(deduplicator, batch.transactions, context)
            guard context.hasChanges else { return false }
            do {
                try context.save(advancing: settings.consumer, from: start, to: batch.end)
            } catch let error as StoreError where Self.errorsOfTheStore.contains(error.code) {
                throw StoreFailure(error: error)
            }
            return true
        }
    }

    /// Calls the deduplicator. Throws if it has closed the context, because a closed context has nothing to save.
    func call(
        _ deduplicator: HistoryTracker.Deduplicator, _ transactions: [HistoryTransaction], _ context: Context
    ) throws {
        try deduplicator(transactions, context)
        do {
            _ = try context.token
        } catch {
            throw StoreError(
                .contextClosed,
                "The deduplicator has closed its context, so its changes are not saved: leave the context open.")
        }
    }

    /// The time and the uptime of the same moment. If the process was suspended between reading them, both are read
    /// again.
    private func times() -> (now: Date, uptime: Duration) {
        while true {
            let (before, now, after) = (settings.clock.uptime, settings.clock.now, settings.clock.uptime)
            if after - before < .seconds(60) { return (now, after) }
        }
    }

    private func clean() throws {
        let (now, uptime) = times()
        let isDue = state.withLock { state in
            let isBelieved = state.trust.believes(now: now, uptime: uptime)
            return state.schedule.isDue(at: uptime) && isBelieved
        }
        guard isDue else { return }
        do {
            let removed = try HistoryCleaner(store, settings).clean()
            guard removed > 0 else { return }
            state.withLock { state in
                state.schedule.hasCleaned(at: uptime)
                state.metrics.cleanings += 1
            }
            log(1, .info, "\(removed) \(removed == 1 ? "transaction was" : "transactions were") removed from history.")
        } catch let error as StoreError where error.code == .busy {
            log(2, .debug, "Cleaning waits for the next round: \(error)")
        }
    }
}

/// An error of the store, not of a body.
struct StoreFailure: Error {
    let error: any Error
}

/// An error of a body inside a commit.
private final class FailureOfBody: Sendable {
    let error = Mutex<(any Error)?>(nil)
}
