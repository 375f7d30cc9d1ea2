// An open store: the log with its indexes, its views, and transactions on it.
//
// Invariants:
// S1  The indexes follow the log: a published state is the same in both.
// S2  A transaction is written only if every version that it replaces is still the newest one, under the writer lock.

internal import Synchronization

/// The engine of one open store file. Any thread may call it.
package final class Engine: Sendable {
    package let log: Log
    let indexes: Indexes
    package let options: EngineOptions
    let numbers = ObjectNumberSupply()
    let clockSteps = ClockSteps()
    /// The last transaction that ended. The next one reuses its memory.
    let spare = DraftRecycler()
    /// The number of changes in the last transaction, as a guess for the next one.
    let expectedChanges = Atomic<Int>(1)
    /// When this handle next checks the retention: by the time of transactions, and by the file's end.
    let nextRetentionTime = Atomic<Int64>(.min)
    let nextRetentionEnd = Atomic<UInt64>(0)
    /// An estimate of the bytes that compaction would have freed at this handle's last check.
    let garbage = Atomic<Int>(0)
    /// The bytes of all rows of live objects, and the end of the file, when they were last measured here.
    let measuredRows = Guarded<(end: UInt64, bytes: UInt64)?>(nil)
    /// The thread that runs a `write` body; 0 for none.
    let writingThread = Atomic<UInt>(0)

    private init(_ log: Log, _ indexes: Indexes, _ options: EngineOptions) {
        (self.log, self.indexes, self.options) = (log, indexes, options)
    }

    // MARK: Opening and closing

    /// Opens an existing store: reads the last checkpoint and the frames after it. Throws the errors of `Log.open`.
    package static func open(
        _ path: String, access: FileAccess = .readWrite, options: EngineOptions = EngineOptions(),
        files: any FileSystem, environment: any Environment
    ) throws(StoreError) -> Engine {
        let start = Start(options)
        let log = try Log.open(
            path, access: access, options: options.logOptions, files: files, environment: environment,
            start: start.begin)
        return try start.engine(log)
    }

    /// Opens the store that has the name in a place, or `file`. Takes over both, as `Log.open(at:)`.
    package static func open(
        at place: StorePlace, file: Descriptor? = nil, access: FileAccess = .readWrite,
        options: EngineOptions = EngineOptions(), files: any FileSystem, environment: any Environment
    ) throws(StoreError) -> Engine {
        let start = Start(options)
        let log = try Log.open(
            at: place, file: file, access: access, options: options.logOptions, files: files, environment: environment,
            start: start.begin)
        return try start.engine(log)
    }

    /// Creates an empty store and opens it. Throws `alreadyExists` if the name is taken.
    package static func create(
        _ path: String, storeID: UUIDBytes? = nil, options: EngineOptions = EngineOptions(), files: any FileSystem,
        environment: any Environment
    ) throws(StoreError) -> Engine {
        let start = Start(options)
        let log = try Log.create(
            path, storeID: storeID, options: options.logOptions, files: files, environment: environment,
            start: start.begin)
        return try start.engine(log)
    }

    /// Opens the store, or creates a missing one, and returns which it did. Several processes may do so at once.
    package static func openOrCreate(
        _ path: String, options: EngineOptions = EngineOptions(), files: any FileSystem, environment: any Environment
    ) throws(StoreError) -> (engine: Engine, wasMade: Bool) {
        do throws(StoreError) {
            return (try open(path, options: options, files: files, environment: environment), false)
        } catch  where error.code == .notFound {
            do throws(StoreError) {
                return (try create(path, options: options, files: files, environment: environment), true)
            } catch  where error.code == .alreadyExists {
                return (try open(path, options: options, files: files, environment: environment), false)
            }
        }
    }

    /// Keeps the indexes that were made while the log was opened.
    private final class Start {
        private let options: EngineOptions
        private var indexes: Indexes?

        init(_ options: EngineOptions) { self.options = options }

        func begin(_ opening: FileBeingOpened) throws(StoreError) -> LogStart {
            let indexes = try Indexes(opening, options)
            self.indexes = indexes
            let state = try indexes.restore(opening)
            return LogStart(follower: indexes, state: state)
        }

        func engine(_ log: Log) throws(StoreError) -> Engine {
            guard let indexes else { throw StoreError(.closed, "The store was not opened.") }
            return Engine(log, indexes, options)
        }
    }

    /// Makes everything durable and records in the file that it was closed cleanly. First writes a checkpoint if
    /// opening would otherwise take long.
    ///
    /// Waits for running calls on other threads, reads included; later calls throw `closed`. Closing twice does
    /// nothing. Do not call it in a body that reads: it would wait for that body.
    package func close() throws(StoreError) {
        if log.process.wasForked { return }
        try requireNotWriting()
        // Wakes threads that wait for changes, because none will come.
        defer { (options.hub ?? .existing)?.poke(directory: log.directoryPath, name: log.name) }
        if log.access == .readWrite, isCheckpointWorthClosing() {
            // A checkpoint only saves time. Closing continues without it.
            try? writeCheckpoint()
        }
        try log.close()
    }

    // MARK: Views

    /// The newest state. It contains everything that was acknowledged before the call, in any process. Takes no lock of
    /// other processes. Throws `storeReplaced` if another file has taken this one's place.
    @inline(__always)
    package func view() throws(StoreError) -> View { try log.catchUp { _ in indexes.newest } }

    /// The newest state of this file, for callers that make several calls on the newest file. If another file has taken
    /// its place since, returns the last state of this one.
    package func viewOfThisFile() throws(StoreError) -> View {
        try log.catchUp(looksAtPlace: false) { _ in indexes.newest }
    }

    /// The newest state that this handle has seen. Does not look at the file. Throws `closed`, `forked`.
    package func knownView() throws(StoreError) -> View { try log.whatIsKnown { indexes.newest } }

    /// The state after a transaction, as this file has it. Throws `invalidArgument` for a number above the last one's
    /// or below the file's history.
    package func view(asOf number: UInt64) throws(StoreError) -> View {
        let newest = try viewOfThisFile()
        guard number <= newest.number, number >= log.header.baseNumber else {
            throw StoreError(
                .invalidArgument,
                "There is no transaction \(number): the store has transactions \(log.header.baseNumber + 1) to "
                    + "\(newest.number).",
                path: log.path)
        }
        if number == newest.number { return newest }
        return try tracked(newest).past(number)
    }

    package var durableEnd: UInt64 { log.durableEnd }

    package func makeDurable(through end: UInt64) throws(StoreError) {
        try requireNotWriting()
        try log.makeDurable(through: end)
    }

    /// Throws in the body of `write`, for calls that would wait for that body.
    package func requireNotWriting() throws(StoreError) {
        guard writingThread.load(ordering: .relaxed) != 0,
            writingThread.load(ordering: .relaxed) == SystemCalls.currentThread
        else {
            return
        }
        throw StoreError(
            .invalidArgument,
            "The body of a write cannot commit, write, wait or close, because it would wait for itself: make all "
                + "changes with the body's transaction.",
            path: log.path)
    }
}
