// Tracking: contexts follow the store, observers get changes by other authors, and history is cleaned once all readers
// have read it.

public import FoundationEssentials
internal import Synchronization

/// Follows changes of a store by other programs: merges them into contexts, calls observers, and cleans history.
///
/// ```swift
/// let tracker = try HistoryTracker(
///     store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share", "import"],
///     batchAuthors: ["import"], cleanStrategy: .byNotification(times: 10))
/// tracker.observe(Clip.self, [.insert]) { changes in print(changes.count, "new clips") }
/// ```
///
/// Two things are separate:
///
/// - **Contexts** follow the store. They adopt every change except their own saves, by any author. That needs no
///   history and delays no cleaning. At the end of a round they show the state up to which observers were called.
/// - **Observers, merge hooks and the deduplicator** follow history: each transaction by the other authors, once and in
///   order, after a cursor that is kept in the store. If history was cleaned before they have read it, they are
///   notified.
///
/// Work is done in rounds: fetch, observers, merge hooks, merge, deduplicator, cursor, clean. Commits that come during
/// a round are one further round. Starting begins with a round. Beside a writer at full speed (50 commits a
/// millisecond), a tracker rests after each piece of work for twice as long, at most 100 milliseconds.
///
/// A tracker uses only public functions of the store.
public final class HistoryTracker: Sendable {
    /// When history is cleaned. Every strategy removes the same: see ``HistoryCleaner``.
    public enum CleanStrategy: Hashable, Sendable {
        /// Only by hand, with `cleanerBuilder()`.
        case none
        /// After a round, if at least this number of seconds has passed since the last cleaning that removed something.
        case byDuration(seconds: TimeInterval)
        /// After this number of rounds since the last cleaning that removed something.
        case byNotification(times: Int)
    }

    /// The tracker's state.
    public enum State: Hashable, Sendable {
        /// Nothing: it was not started, or was stopped.
        case stopped
        /// It follows the store.
        case running
        /// It has ended because of an error that waiting does not cure. The error names a cure; `start()` begins again.
        /// If the store was closed, removed or replaced, another store and another tracker are needed.
        case failed(StoreError)
    }

    /// Repairs work that two programs have both done, in a context of its own. The body's changes in the context are
    /// saved together with the cursor: do not save them there.
    public typealias Deduplicator = @Sendable (_ transactions: [HistoryTransaction], _ context: Context) throws -> Void

    let core: TrackerCore

    /// A tracker whose contexts live in the isolation of the caller: the main actor, or another one.
    ///
    /// - Parameters:
    ///   - store: The store. The tracker keeps it open.
    ///   - contexts: The contexts that follow the store. The tracker does not retain them. For a context of another
    ///     isolation, call `attach` there.
    ///   - currentAuthor: The author of this program. Its transactions are not observed, except those of `ownContexts`.
    ///   - allAuthors: The authors whose transactions are observed; empty for all authors. If it names only the current
    ///     author, none are observed. Each author is registered as a reader of history for which cleaning waits,
    ///     except batch authors.
    ///   - includingMirroring: Whether transactions that were applied from another store are observed.
    ///   - batchAuthors: Authors that write and never read. Cleaning does not wait for them.
    ///   - ownContexts: Names of contexts of this program whose transactions are observed as if another author had made
    ///     them: its own batch work. Writes of the tracker's bodies are never observed.
    ///   - cleanStrategy: When history is cleaned.
    ///   - maximumDuration: The number of seconds after which history is removed even if a reader has not read it. The
    ///     store's retention may be shorter, and remains in force.
    ///   - logger: Gets the messages; nil for standard error, which gets notices and errors, and details from level 2.
    ///   - logLevel: 0 for no messages, 1 for important ones, 2 or more for details.
    ///   - autoStart: Whether it starts by itself, at the caller's first `await`. So observers that are registered
    ///     directly after the initializer miss nothing.
    ///   - consumer: The name of the cursor in the store; nil for the author's name. Two processes that track under one
    ///     author need different names.
    ///   - deduplicator: Called after the merge.
    ///   - isolation: The isolation of the contexts: the caller's.
    ///
    /// Throws `StoreError`: `invalidArgument` if no author is named, a name has more than 1024 bytes, the current
    /// author is a batch author, a count is below 1, a duration is negative or no number, or a context is of another
    /// store; `contextClosed`; errors of `Store.currentToken` and `Context.token`, such as `closed`.
    public convenience init(
        store: Store, contexts: [Context], currentAuthor: String, allAuthors: [String],
        includingMirroring: Bool = false, batchAuthors: [String] = [], ownContexts: [String] = [],
        cleanStrategy: CleanStrategy = .none, maximumDuration: TimeInterval = 604_800,
        logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1,
        autoStart: Bool = true, consumer: String? = nil, deduplicator: Deduplicator? = nil,
        isolation: isolated any Actor = #isolation
    ) throws {
        try self.init(
            store: store, contexts: contexts,
            TrackerSettings(
                currentAuthor: currentAuthor, allAuthors: allAuthors, includingMirroring: includingMirroring,
                batchAuthors: batchAuthors, ownContexts: ownContexts, cleanStrategy: cleanStrategy,
                maximumDuration: maximumDuration, logger: logger, logLevel: logLevel, consumer: consumer,
                deduplicator: deduplicator),
            autoStart: autoStart)
    }

    /// A tracker without contexts, for every isolation and every thread. If the caller cannot wait, such as on a plain
    /// thread, it starts at once: register observers first, with `autoStart: false` and `start()`.
    ///
    /// Parameters and errors are those of the other initializer.
    public convenience init(
        store: Store, currentAuthor: String, allAuthors: [String], includingMirroring: Bool = false,
        batchAuthors: [String] = [], ownContexts: [String] = [], cleanStrategy: CleanStrategy = .none,
        maximumDuration: TimeInterval = 604_800, logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1,
        autoStart: Bool = true, consumer: String? = nil, deduplicator: Deduplicator? = nil,
        isolation: isolated (any Actor)? = #isolation
    ) throws {
        try self.init(
            store: store,
            TrackerSettings(
                currentAuthor: currentAuthor, allAuthors: allAuthors, includingMirroring: includingMirroring,
                batchAuthors: batchAuthors, ownContexts: ownContexts, cleanStrategy: cleanStrategy,
                maximumDuration: maximumDuration, logger: logger, logLevel: logLevel, consumer: consumer,
                deduplicator: deduplicator),
            autoStart: autoStart)
    }

    /// The same with the cases of an enumeration as authors, such as `enum Author: String, CaseIterable`.
    public convenience init<Author: RawRepresentable<String>>(
        store: Store, contexts: [Context], currentAuthor: Author, allAuthors: [Author],
        includingMirroring: Bool = false, batchAuthors: [Author] = [], ownContexts: [String] = [],
        cleanStrategy: CleanStrategy = .none, maximumDuration: TimeInterval = 604_800,
        logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1, autoStart: Bool = true, consumer: String? = nil,
        deduplicator: Deduplicator? = nil, isolation: isolated any Actor = #isolation
    ) throws {
        try self.init(
            store: store, contexts: contexts, currentAuthor: currentAuthor.rawValue,
            allAuthors: allAuthors.map(\.rawValue), includingMirroring: includingMirroring,
            batchAuthors: batchAuthors.map(\.rawValue), ownContexts: ownContexts, cleanStrategy: cleanStrategy,
            maximumDuration: maximumDuration, logger: logger, logLevel: logLevel, autoStart: autoStart,
            consumer: consumer, deduplicator: deduplicator)
    }

    /// The same with the cases of an enumeration as authors, without contexts.
    public convenience init<Author: RawRepresentable<String>>(
        store: Store, currentAuthor: Author, allAuthors: [Author], includingMirroring: Bool = false,
        batchAuthors: [Author] = [], ownContexts: [String] = [], cleanStrategy: CleanStrategy = .none,
        maximumDuration: TimeInterval = 604_800, logger: (any HistoryTrackerLogger)? = nil, logLevel: Int = 1,
        autoStart: Bool = true, consumer: String? = nil, deduplicator: Deduplicator? = nil,
        isolation: isolated (any Actor)? = #isolation
    ) throws {
        try self.init(
            store: store, currentAuthor: currentAuthor.rawValue, allAuthors: allAuthors.map(\.rawValue),
            includingMirroring: includingMirroring, batchAuthors: batchAuthors.map(\.rawValue),
            ownContexts: ownContexts, cleanStrategy: cleanStrategy, maximumDuration: maximumDuration, logger: logger,
            logLevel: logLevel, autoStart: autoStart, consumer: consumer, deduplicator: deduplicator)
    }

    /// For tests, which set the clock.
    package convenience init(
        store: Store, contexts: [Context], _ settings: TrackerSettings, autoStart: Bool,
        isolation: isolated any Actor = #isolation
    ) throws {
        try self.init(store: store, settings, autoStart: false)
        for context in contexts {
            try core.requireOfThisStore(context)
            attach(context)
        }
        if autoStart { core.start(after: isolation) }
    }

    /// For tests, which set the clock.
    package init(
        store: Store, _ settings: TrackerSettings, autoStart: Bool, isolation: isolated (any Actor)? = #isolation
    ) throws {
        core = try TrackerCore(store, settings)
        if autoStart { core.start(after: isolation) }
    }

    deinit { core.end() }

    // MARK: Starting and stopping

    /// The state of the tracker.
    public var state: State { core.state.withLock { $0.phase } }

    /// Figures about the tracker's work since it was made.
    public var metrics: Metrics { core.state.withLock { $0.metrics } }

    /// Begins to follow the store, with a round for earlier transactions. Does nothing if the tracker runs.
    public func start(isolation: isolated (any Actor)? = #isolation) { core.start(after: isolation) }

    /// Follows the store in the calling task, for structured concurrency: starts the tracker if it does not run, and
    /// returns when it has ended, because the task was cancelled or `stop()` was called. Cancelling the task stops the
    /// tracker as `stop()` does.
    ///
    ///     try await withThrowingTaskGroup(of: Void.self) { group in
    ///         group.addTask { try await tracker.run() }
    ///         group.addTask { try await server.run() }
    ///         try await group.next()
    ///         group.cancelAll()
    ///     }
    ///
    /// Throws `StoreError`: the reason why the tracker has ended by itself, as in `state`; `invalidArgument` if a body
    /// of the tracker calls it, which would wait for itself.
    public func run(isolation: isolated (any Actor)? = #isolation) async throws {
        try await core.runToEnd(after: isolation)
    }

    /// Ends everything that the tracker started, and waits for it. The current round is ended properly: transactions
    /// that observers have got are not delivered again. If the cursor cannot be moved at that moment, because the store
    /// is busy or full, another tracker delivers them again. If a body of the tracker calls this, it does not wait.
    /// Attached contexts follow again after the next `start()`.
    ///
    /// Releasing the tracker ends it too, without waiting.
    public func stop() async { await core.stop() }

    /// Lets a context follow the store as long as the tracker runs. It lives in the isolation of the caller. The
    /// tracker does not retain it.
    ///
    /// A context that is closed or of another store is left out, and the log gets a message.
    ///
    /// Not for a plain thread: call `context.merge()` there.
    public func attach(_ context: Context, isolation: isolated any Actor = #isolation) {
        core.attach(context) { context, snapshot, changed in try context.merge(to: snapshot, changed: changed) }
    }

    /// Lets a context follow the store in its own way: `merging` is called instead of `context.merge(to:changed:)`. If
    /// it throws, as after any failed merge, the context is left out from then on.
    ///
    /// - Parameters:
    ///   - context: The context.
    ///   - isolation: The isolation of the context: the caller's.
    ///   - merging: Moves the context to the snapshot, the state up to which observers were called. Called also if no
    ///     transaction was for observers. `changed` has the objects that changed on the way to the snapshot.
    public func attach(
        _ context: Context, isolation: isolated any Actor = #isolation,
        merging: @escaping (_ context: Context, _ snapshot: Snapshot, _ changed: ChangedObjects) throws -> Void
    ) {
        core.attach(context, merging: merging)
    }

    /// A cleaner to call by hand, which removes the same history as the strategies. It works even if the tracker does
    /// not run.
    public func cleanerBuilder() -> HistoryCleaner { HistoryCleaner(core.store, core.settings) }
}
