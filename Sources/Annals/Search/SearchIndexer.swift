// Keeps the search indexes of a store up to date.
//
// Invariants:
// XW1  Nothing waits for the indexer, and nothing depends on it: a search looks at the rows of what it has not done.
// XW2  The consumer's cursor is never after the place of an index, so cleaning leaves the history that a step reads.

package import FoundationEssentials
internal import Synchronization

/// Moves the indexes of a handle's store over what was written.
package final class SearchUpdates: Sendable {
    /// The author of the indexer's transactions, and its name as a consumer of history.
    static let name = ReservedEntity.indexAuthor

    let handle: StoreHandle
    let identifier: UUID
    let durability = Durability.relaxed

    package init(_ handle: StoreHandle, _ identifier: UUID) { (self.handle, self.identifier) = (handle, identifier) }

    /// The entities that have an index.
    package func entities() throws(StoreError) -> [UInt16] {
        try SearchBlocks(handle.newest().view)?.records().map(\.entity) ?? []
    }

    /// Moves the index of an entity one step on.
    package func moveOn(_ entity: UInt16, _ limits: SearchLimits = SearchLimits()) throws -> SearchProgress {
        try step(entity, limits) { (step) throws(StoreError) in try step.moveOn(of: entity) }
    }

    /// Joins segments of an index, if enough are of about the same size or have many dead objects.
    package func join(_ entity: UInt16, _ limits: SearchLimits = SearchLimits()) throws -> SearchProgress {
        try step(entity, limits) { (step) throws(StoreError) in
            SearchProgress(hasWritten: try step.join())
        }
    }

    private func step(
        _ entity: UInt16, _ limits: SearchLimits, _ body: (inout SearchStep) throws(StoreError) -> SearchProgress
    ) throws -> SearchProgress {
        var progress: SearchProgress
        do {
            progress = try step(entity, limits, movesConsumer: true, body)
        } catch {
            // Another process has indexed another entity meanwhile, or has cleaned history. The step is done again and
            // leaves the cursor alone, which only keeps more history (XW2).
            guard let error = error as? StoreError, Self.isAboutConsumer(error) else { throw error }
            progress = try step(entity, limits, movesConsumer: false, body)
        }
        if progress.hasWritten { try keepConsumer() }
        return progress
    }

    private func step(
        _ entity: UInt16, _ limits: SearchLimits, movesConsumer: Bool,
        _ body: (inout SearchStep) throws(StoreError) -> SearchProgress
    ) throws -> SearchProgress {
        try handle.commit(author: Self.name, durability: durability) { draft in
            let engine = handle.engine(of: draft.base) ?? handle.current
            let snapshot = Snapshot(draft.base, engine, identifier)
            guard var step = try SearchStep(snapshot, draft, entity, limits) else { return SearchProgress() }
            let progress = try body(&step)
            if progress.hasWritten, movesConsumer { try self.advance(draft, engine, entity, step.state.place) }
            return progress
        }.result
    }

    /// Whether another process has moved, lost or removed the consumer of the indexes.
    private static func isAboutConsumer(_ error: StoreError) -> Bool {
        [.consumerConflict, .consumerLost, .consumerUnknown].contains(error.code)
    }

    /// Moves the indexes over all changes, and writes the segments with dead objects again without them. So a deleted
    /// word is in no index. Objects that were not built yet can wait.
    func forgetDeadObjects(_ limits: SearchLimits = SearchLimits(), goesOn: () -> Bool = { true }) throws {
        for entity in try entities() {
            _ = try moveOn(entity, limits)
            var progress = SearchProgress(hasWritten: true)
            while progress.hasWritten, goesOn() {
                progress = try step(entity, limits) { (step) throws(StoreError) in
                    SearchProgress(hasWritten: try step.rewrite())
                }
            }
        }
    }

    // MARK: The consumer

    /// Moves the cursor in the step's transaction (XW2).
    private func advance(
        _ draft: Draft, _ engine: Engine, _ entity: UInt16, _ place: TransactionPlace
    ) throws(StoreError) {
        guard let known = engine.tracking.consumer(Self.name)?.place, known.number >= engine.tracking.horizon,
            let least = try leastPlace(draft.base, entity, place), least.number > known.number
        else { return }
        try draft.advance(Self.name, from: known, to: least)
    }

    /// The least place of all indexes, with that of an entity as it will be.
    private func leastPlace(
        _ view: View, _ entity: UInt16? = nil, _ place: TransactionPlace? = nil
    ) throws(StoreError) -> TransactionPlace? {
        var places = place.map { [$0] } ?? []
        for record in try SearchBlocks(view)?.records() ?? [] where record.entity != entity {
            if let state = record.state { places.append(state.place) }
        }
        return places.min { $0.number < $1.number }
    }

    /// Registers the consumer if it is missing, and moves it if cleaning has passed it. Without any index, removes it:
    /// cleaning would wait for it. If the store has no room for another consumer, it does without (XW1): cleaning may
    /// then take history that a step needs, and the index is built again.
    func keepConsumer() throws(StoreError) {
        try handle.onNewest { (engine) throws(StoreError) in
            let known = engine.tracking.consumer(Self.name)
            if known != nil, try SearchBlocks(try engine.view())?.records().isEmpty ?? true {
                _ = try engine.removeConsumer(Self.name, durability: durability)
                return
            }
            if let known, known.place.number >= engine.tracking.horizon { return }
            guard let place = try leastPlace(try engine.view()), place.number >= engine.tracking.horizon else { return }
            do throws(StoreError) {
                if known == nil {
                    _ = try engine.register(Self.name, .reads, at: place, durability: durability)
                } else {
                    _ = try engine.resetConsumer(Self.name, to: place, durability: durability)
                }
            } catch {
                // If another process has removed it, the next step registers it.
                guard error.code == .consumerUnknown || error.code == .tooLarge else { throw error }
            }
        }
    }

    /// Whether a step would have much to do.
    package func areBehind() throws(StoreError) -> Bool {
        let view = try handle.newest().view
        return try SearchBlocks(view)?.records().contains { record in
            guard let state = record.state else { return false }
            return view.nextNumber(of: record.entity) > state.nextToBuild || !state.isReadable
                || view.number > state.place.number + SearchIndexer.changesBetweenSteps
        } ?? false
    }

    /// Does everything that is left to do. `goesOn` is asked after each step. A damaged index keeps no other from being
    /// brought up to date: its error is thrown in the end.
    package func finish(
        _ limits: SearchLimits = SearchLimits(), _ goesOn: () throws -> Bool = { true }
    ) throws {
        var damage: StoreError?
        for entity in try entities() {
            do {
                guard try finish(entity, limits, goesOn) else { return }
            } catch {
                guard let error = error as? StoreError, error.code == .damaged else { throw error }
                damage = damage ?? error
            }
        }
        if let damage { throw damage }
    }

    /// Returns false if `goesOn` has.
    private func finish(_ entity: UInt16, _ limits: SearchLimits, _ goesOn: () throws -> Bool) throws -> Bool {
        while true {
            let progress = try moveOn(entity, limits)
            let hasJoined = try !progress.isBuilding && join(entity, limits).hasWritten
            if progress.hasWritten || hasJoined, try !goesOn() { return false }
            if !progress.isBuilding, !hasJoined { return true }
        }
    }
}

/// Does the work of `SearchUpdates` on a thread of a handle that writes, when enough has changed.
final class SearchIndexer: SearchUpkeep {
    /// The number of changes that a handle makes before it moves the indexes on. A search reads about as many rows in
    /// a few milliseconds.
    static let changesBetweenSteps: UInt64 = 1024
    private static let pauseMicroseconds: UInt64 = 10_000_000

    /// The texts that the types of the handle search.
    let declarations: [SearchDeclaration]
    private let updates: SearchUpdates
    private let work = BackgroundWork()
    private let changes = Atomic<Int>(0)
    private let isStopping = Atomic<Bool>(false)
    private let process = OwnProcess()
    /// The last failure, which is reported once.
    private let failure = Guarded<StoreError?>(nil)

    init(_ updates: SearchUpdates, _ declarations: [SearchDeclaration]) {
        (self.updates, self.declarations) = (updates, declarations)
        updates.handle.current.options.searchBell.answer { [weak self] in self?.wake() }
    }

    deinit { stop() }

    func noteChanges(_ count: Int) { changes.wrappingAdd(count, ordering: .relaxed) }

    /// Before this, a step would not find the changes. XW1: it only wakes the thread.
    func noteCommit() { if changes.load(ordering: .relaxed) >= Int(Self.changesBetweenSteps) { wake() } }

    func wake() {
        // A thread cannot follow a simulated clock.
        guard updates.handle.current.options.log.synchronizesInBackground else { return }
        // Sound: `stop` waits until the thread has ended.
        let unowned = Unmanaged.passUnretained(self)
        // Without a thread, searches look at more rows.
        try? work.start(name: "annals-search") {
            let indexer = unowned.takeUnretainedValue()
            return withExtendedLifetime(indexer) { indexer.step() }
        }
        work.wake()
    }

    private func step() -> BackgroundWork.Next {
        changes.store(0, ordering: .relaxed)
        do {
            try updates.finish { !self.isStopping.load(ordering: .relaxed) }
            failure.withLock { $0 = nil }
            return .wait
        } catch {
            note(error)
            let now = updates.handle.current.log.environment.monotonicMicroseconds()
            return .again(at: now + Self.pauseMicroseconds)
        }
    }

    private func note(_ error: any Error) {
        guard let error = error as? StoreError else { return }
        switch error.code {
        case .busy, .cancelled, .closed, .forked, .consumerConflict, .storeReplaced, .storeRemoved: return
        default: break
        }
        let isNew = failure.withLock { last in
            defer { last = error }
            return last != error
        }
        if isNew {
            StandardError.log("A search index could not be brought up to date, so searches take longer. \(error)")
        }
    }

    func stop() {
        // The child has no thread to wait for, and the parent may have locked what this would lock.
        if process.wasForked { return }
        isStopping.store(true, ordering: .relaxed)
        work.stop()
        work.join()
    }
}
