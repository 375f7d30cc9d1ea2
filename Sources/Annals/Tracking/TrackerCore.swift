// A tracker's life: starting, following, waiting after errors, ending.
//
// Invariants:
// TR1  At most one task follows the store for a tracker, and rounds run one after the other.
// TR2  A round that has begun is completed: stopping ends it after the transaction that bodies are called for.
// TR3  The tracker's task does not retain the tracker. Neither retains contexts.
// TR7  The store is watched only from the first wait on, and not while the tracker rests. Each watch of a file costs
//      a writer of that file time in the kernel, with every commit.
// TR8  The task is never cancelled, and so no body is. Stopping ends the task's waits.

internal import FoundationEssentials
internal import Synchronization

extension HistoryTracker {
    /// Figures about a tracker's work since it was made.
    public struct Metrics: Hashable, Sendable {
        /// Signals of new transactions.
        public var signals = 0
        /// Rounds: several signals may be one.
        public var rounds = 0
        /// Transactions that observers, hooks or the deduplicator got.
        public var transactions = 0
        /// Changes in these transactions.
        public var changes = 0
        /// Merges of contexts.
        public var merges = 0
        /// The number of transactions after the cursor at the end of the last round.
        public var lag: UInt64 = 0
        /// Cleanings that removed something.
        public var cleanings = 0
        /// Work that was parked.
        public var parked = 0
        /// The number of times history was lost.
        public var lost = 0
        /// The last error, also of bodies if it is one of the store.
        public var lastError: StoreError?
    }
}

/// The variables of a tracker's life.
struct TrackerState: Sendable {
    var phase = HistoryTracker.State.stopped
    var task: Task<Void, Never>?
    /// The waits of the task: for transactions, or for a moment. The first stays from one wait to the next.
    var watcher: SnapshotWatcher?
    var pause: Task<Void, Never>?
    /// Whether the last call was to start, and whether the task that runs is to end.
    var isWanted = false
    var isStopping = false
    var metrics = HistoryTracker.Metrics()
    var attachments: [Attachment] = []
    var observers: [Observer] = []
    var hooks: [MergeHook] = []
    var parked: [ParkedWork] = []
    /// The observers whose last work was parked.
    var failing: Set<UUID> = []
    /// The consumer's place in the store; nil before the first round of a run.
    var cursor: HistoryToken?
    /// The consumer's place in the store at the end of the last run.
    var lastCursor: HistoryToken?
    /// The time at which the consumer reached that place, from the store.
    var moved: Date?
    /// The place up to which observers were notified that history is lost, until the cursors are there. They are
    /// notified once.
    var told: HistoryToken?
    /// The work since the tracker last waited or rested.
    var pace: TrackerPace?
    /// The cursors of writing observers, by name.
    var cursors: [String: HistoryToken] = [:]
    /// The last transactions that plain observers and hooks got in this process. After an error a round is repeated,
    /// and they are not called again.
    var observed: UInt64 = 0
    var hooked: UInt64 = 0
    var hooksGoOn = true
    /// Authors that are not observed, and that the log has named; an empty name for none.
    var leftOut: Set<String> = []
    /// Whether transactions of authors that are not observed are read until the log has named the authors. Their
    /// history may be cleaned before that of observed authors.
    var readsLeftOut = true
    /// Observed entities without history, as far as known, by that version of the schema.
    var withoutHistory: Set<String> = []
    var schemaVersion = 0
    /// Observed entities that the log has named, because they are missing or have no history.
    var named: Set<String> = []
    var schedule: CleaningSchedule
    var trust = ClockTrust()
}

/// A piece of the tracker's work, and the speed of other writers during it.
struct TrackerPace: Sendable {
    /// A writer at full speed commits this number of transactions in a millisecond.
    private static let rate = 50.0
    /// In less time, little is known of a writer's speed.
    private static let shortestWork = Duration.milliseconds(4)
    private static let longestRest = Duration.milliseconds(100)

    /// The last transaction and the time when the work began.
    private var newest: UInt64
    private var uptime: Duration

    init(newest: UInt64, uptime: Duration) { (self.newest, self.uptime) = (newest, uptime) }

    /// The time to rest now; nil without a writer at full speed. Work without rest would take memory and caches from
    /// the writer all the time.
    mutating func rest(newest: UInt64, uptime: Duration) -> Duration? {
        let time = uptime - self.uptime
        guard time >= Self.shortestWork else { return nil }
        let arrived = newest - min(newest, self.newest)
        self = TrackerPace(newest: newest, uptime: uptime)
        return Double(arrived) >= time / .milliseconds(1) * Self.rate ? min(time * 2, Self.longestRest) : nil
    }
}

/// All of a tracker that its task needs (TR3).
final class TrackerCore: Sendable {
    static let deduplicatorName = "deduplicator"
    /// The tracker in whose body the current code runs.
    @TaskLocal static var current: ObjectIdentifier?

    let store: Store
    let settings: TrackerSettings
    let state: Mutex<TrackerState>

    init(_ store: Store, _ settings: TrackerSettings) throws {
        try settings.requireValid()
        // Throws `closed`, among other errors.
        _ = try store.currentToken
        self.store = store
        self.settings = settings
        state = Mutex(TrackerState(schedule: CleaningSchedule(settings.strategy)))
    }

    func log(_ level: Int, _ type: HistoryTrackerLogType, _ message: @autoclosure () -> String) {
        guard settings.logLevel >= level else { return }
        settings.logger.log(type: type, message: message())
    }

    var isStopping: Bool { state.withLock { $0.isStopping } }

    // MARK: Starting and stopping

    /// Starts, once `isolation` is free (TR1): its code has then registered its observers.
    func start(after isolation: (any Actor)?) {
        state.withLock { state in
            guard state.task == nil || state.isStopping && !state.isWanted else { return }
            state.isWanted = true
            state.phase = .running
            // A body that has stopped its tracker still runs, perhaps.
            let last = state.task
            state.task = Task { [self] in
                await last?.value
                await Self.wait(for: isolation)
                guard begins() else { return }
                let ended = await Self.$current.withValue(ObjectIdentifier(self)) { await run() }
                self.state.withLock { state in
                    if !state.isStopping { (state.isWanted, state.phase) = (false, ended) }
                    state.isStopping = true
                }
            }
        }
    }

    private func begins() -> Bool {
        state.withLock { state in
            guard state.isWanted else { return false }
            state.isStopping = false
            state.lastCursor = state.cursor ?? state.lastCursor
            (state.cursor, state.told) = (nil, nil)
            state.cursors = [:]
            state.withoutHistory = []
            state.failing = []
            return true
        }
    }

    /// Returns when the actor has been free. Without a call that needs the actor, the optimizer omits the switch to it.
    private static func wait(for actor: isolated (any Actor)?) async { actor?.preconditionIsolated() }

    func end() {
        _ = beginToStop()
        for attachment in state.withLock({ $0.attachments }) { attachment.end() }
    }

    /// Returns the task that ends.
    private func beginToStop() -> Task<Void, Never>? {
        let (task, watcher, pause) = state.withLock { state in
            (state.isStopping, state.isWanted) = (true, false)
            if state.phase == .running { state.phase = .stopped }
            return (state.task, state.watcher, state.pause)
        }
        watcher?.stop()
        pause?.cancel()
        return task
    }

    func stop() async {
        let task = beginToStop()
        // A body that waited for itself would never end.
        if Self.current == ObjectIdentifier(self) { return }
        await task?.value
    }

    /// Starts, and returns when the tracker has ended. Throws the reason if it has ended by itself.
    func runToEnd(after isolation: isolated (any Actor)?) async throws {
        guard Self.current != ObjectIdentifier(self) else {
            throw StoreError(
                .invalidArgument,
                "A body of a tracker calls the tracker's run(), which waits for the body: call start().")
        }
        start(after: isolation)
        guard let task = state.withLock({ $0.task }) else { return }
        await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            _ = beginToStop()
        }
        if case .failed(let error) = state.withLock({ $0.phase }) { throw error }
    }

    // MARK: Following

    /// Follows the store until it is stopped. Returns how it ended.
    private func run() async -> HistoryTracker.State {
        log(1, .info, "“\(settings.author)” follows the store at \(store.path).")
        for author in settings.batchAuthors where settings.observedAuthors?.contains(author) == false {
            log(
                1, .notice,
                "The batch author “\(author)” is not in `allAuthors`, so it is not observed: add it there, or "
                    + "leave it out of `batchAuthors`.")
        }
        var delay = Duration.milliseconds(50)
        var lost: StoreError?
        while !isStopping {
            do {
                try await follow(lost) {
                    lost = nil
                    delay = .milliseconds(50)
                }
            } catch let error as StoreError {
                state.withLock { $0.metrics.lastError = error }
                switch error.code {
                case .busy, .noSpace, .tooManyFiles, .inputOutput:
                    log(1, .notice, "Tries again in \(delay): \(error)")
                    await pause(for: delay)
                    delay = min(delay * 2, .seconds(5))
                case .tokenExpired, .consumerLost, .consumerUnknown, .tokenDiverged, .tokenUnknown, .historyGap:
                    // Continuing from the newest state did not help either: wait before the next attempt.
                    if lost != nil { await pause(for: delay) }
                    lost = error
                case .consumerConflict where standsBack():
                    log(1, .notice, "A backup was restored, so the cursors are at earlier places.")
                default:
                    let error = explained(error)
                    log(1, .fault, "The tracker has ended: \(error)")
                    return .failed(error)
                }
            } catch {
                preconditionFailure("Only errors of the store end a tracker: \(error)")
            }
        }
        log(1, .info, "“\(settings.author)” no longer follows the store.")
        return .stopped
    }

    /// Rounds, until the tracker is to stop (TR2).
    private func follow(_ lost: StoreError?, _ succeeded: () -> Void) async throws {
        defer { state.withLock { $0.watcher = nil } }
        if let lost {
            try await resynchronize(after: lost)
            succeeded()
        }
        try begin()
        var next: Snapshot? = try store.snapshot()
        while next != nil {
            let rest = try await round(&next)
            succeeded()
            if let rest { await self.rest(for: rest) }
            next = try await nextSnapshot()
        }
    }

    /// Leaves the processor to a writer at full speed for this time. TR7
    func rest(for duration: Duration) async {
        state.withLock { $0.watcher = nil }
        await pause(for: duration)
        state.withLock { $0.pace = nil }
    }

    /// Waits for this time, or until the tracker is to stop (TR8).
    private func pause(for duration: Duration) async {
        let clock = settings.clock
        let pause = Task<Void, Never> { try? await clock.sleep(for: duration) }
        if state.withLock({ state in
            state.pause = pause
            return state.isStopping
        }) {
            pause.cancel()
        }
        await pause.value
        state.withLock { $0.pause = nil }
    }

    /// Remembers where a piece of work begins, unless it continues another one without a rest.
    func beginWork() throws {
        guard state.withLock({ $0.pace == nil }) else { return }
        let pace = TrackerPace(newest: try store.currentToken.number, uptime: settings.clock.uptime)
        state.withLock { $0.pace = pace }
    }

    /// The time to rest after a batch, if more is to do and another writer works at full speed.
    func restIsDue() throws -> Duration? {
        let (newest, uptime) = (try store.currentToken.number, settings.clock.uptime)
        return state.withLock { state in
            guard newest > state.cursor?.number ?? 0 else {
                state.pace = nil
                return nil
            }
            return state.pace?.rest(newest: newest, uptime: uptime)
        }
    }

    /// Waits for transactions after the cursor. Returns nil when the tracker is to end.
    private func nextSnapshot() async throws -> Snapshot? {
        let (known, watcher) = state.withLock { ($0.cursor, $0.watcher) }
        if isStopping { return nil }
        guard let cursor = known else { return try store.snapshot() }
        var next: Snapshot?
        if watcher == nil, case let snapshot = try store.snapshot(), snapshot.token.number > cursor.number {
            next = snapshot
        } else {
            next = try await (watcher ?? startWatcher()).next(after: cursor)
        }
        if next != nil { state.withLock { $0.metrics.signals += 1 } }
        return isStopping ? nil : next
    }

    private func startWatcher() throws -> SnapshotWatcher {
        let watcher = try store.snapshotWatcher()
        let isStopping = state.withLock { state in
            state.watcher = watcher
            return state.isStopping
        }
        if isStopping { watcher.stop() }
        return watcher
    }

    /// Registers the readers, and reads the place of the consumer.
    private func begin() throws {
        if state.withLock({ $0.cursor != nil }) { return }
        let cleaner = HistoryCleaner(store, settings)
        try cleaner.registerReaders()
        guard let consumer = try store.consumer(settings.consumer) else {
            throw StoreError(
                .consumerUnknown, "The consumer “\(settings.consumer)” was removed while the tracker started.")
        }
        if consumer.isLost {
            throw StoreError(
                .consumerLost, "History was cleaned before the consumer “\(settings.consumer)” had read it.")
        }
        state.withLock { state in
            (state.cursor, state.moved) = (consumer.cursor, consumer.lastSeen)
            // If the last run could not move it, observers have got more.
            if consumer.cursor == state.lastCursor { return }
            (state.observed, state.hooked) = (consumer.cursor.number, consumer.cursor.number)
        }
        if let age = try store.retention.age, age / .seconds(1) < settings.maximumDuration {
            log(
                1, .notice,
                "The store keeps history for \(age), not for the \(settings.maximumDuration) seconds of "
                    + "`maximumDuration`: change one of the two if you did not intend this.")
        }
    }

    /// Continues from the newest state, because history does not reach back to the cursor.
    private func resynchronize(after error: StoreError) async throws {
        let told = state.withLock { $0.told }
        let token = if let told { told } else { try await tellObservers(ofLossAfter: error) }
        state.withLock { $0.told = token }
        for name in [settings.consumer] + writingCursors {
            if try store.consumer(name) == nil {
                try store.registerConsumer(name, kind: .reads, at: token)
            } else {
                try store.resetConsumer(name, to: token)
            }
        }
        state.withLock { state in
            state.metrics.lost += 1
            state.told = nil
            state.cursor = token
            state.cursors = [:]
            (state.observed, state.hooked) = (token.number, token.number)
        }
    }

    /// Returns the place up to which history is lost for them.
    private func tellObservers(ofLossAfter error: StoreError) async throws -> HistoryToken {
        let snapshot = try store.snapshot()
        let token = snapshot.token
        let cursor = try state.withLock({ $0.cursor }) ?? store.consumer(settings.consumer)?.cursor
        log(
            1, .error,
            "History was lost: \(error.message) Observers of “\(settings.author)” miss transactions after "
                + "\(cursor.map { "\($0.number)" } ?? "0"), up to \(token.number), and continue from there.")
        try await merge(to: snapshot, ChangedObjects())
        for observer in state.withLock({ $0.observers }) {
            guard let resynchronized = observer.resynchronized else { continue }
            do {
                _ = try await attempts { try await resynchronized(snapshot) }
            } catch {
                log(1, .error, "\(observer.title) could not read everything again: \(error)")
            }
        }
        return token
    }

    var writingCursors: [String] {
        state.withLock { state in
            state.observers.compactMap { observer in
                if case .writing(let cursor, _) = observer.body { cursor } else { nil }
            }
        }
    }

    /// Whether the store has cursors from before this tracker's last move. Then no program has moved them: another
    /// file, a backup of the store, has taken its place. The next round begins with the cursors of the store; observers
    /// are not called again.
    private func standsBack() -> Bool {
        let (cursor, cursors, moved) = state.withLock { ($0.cursor, $0.cursors, $0.moved) }
        guard let cursor, let moved else { return false }
        var known = cursors
        known[settings.consumer] = cursor
        for (name, place) in known {
            guard let consumer = try? store.consumer(name) else { return false }
            guard consumer.cursor == place || consumer.lastSeen < moved else { return false }
        }
        guard let consumer = try? store.consumer(settings.consumer) else { return false }
        state.withLock { state in
            (state.cursor, state.cursors) = (nil, [:])
            state.lastCursor = consumer.cursor
        }
        return true
    }

    private func explained(_ error: StoreError) -> StoreError {
        guard error.code == .consumerConflict else { return error }
        let process = (try? store.consumer(settings.consumer))?.map { "process \($0.processID)" } ?? "another process"
        return StoreError(
            .consumerConflict,
            "The consumer “\(settings.consumer)” was moved by \(process), because two trackers use the name: give each "
                + "its own name with the parameter `consumer:`.", path: store.path)
    }

    private static let (delays, shortDelays) = ([100, 400, 1600], [1, 4, 16])

    /// Calls a body up to four times, with longer and longer waits. Returns its result, or throws its last error;
    /// throws an error of the store at once. An observer that has failed for good waits less from then on, until it
    /// succeeds: if it fails for every transaction, the rest of the round must not wait two seconds for each.
    func attempts<Result>(of observer: UUID? = nil, _ body: () async throws -> Result) async throws -> Result {
        let isFailing = observer.map { id in state.withLock { $0.failing.contains(id) } } ?? false
        for delay in isFailing ? Self.shortDelays : Self.delays {
            do {
                let result = try await body()
                if isFailing, let observer { state.withLock { _ = $0.failing.remove(observer) } }
                return result
            } catch let error as StoreFailure {
                throw error
            } catch {
                // While stopping, the remaining attempts follow at once.
                if !isStopping { await pause(for: .milliseconds(delay)) }
            }
        }
        do {
            return try await body()
        } catch {
            if let observer, !(error is StoreFailure) { state.withLock { _ = $0.failing.insert(observer) } }
            throw error
        }
    }
}
