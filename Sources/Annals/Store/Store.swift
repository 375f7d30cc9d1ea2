// One open store: opening, closing, and its content.

public import FoundationEssentials

/// An open store file. Any thread may use it, and several processes may have the file open at once.
///
/// Read through snapshots: they never wait for a writer. Write with `write`: one transaction at a time across all
/// processes. A `Snapshot` keeps the store open. After `close`, every call throws `closed`.
public final class Store: Sendable {
    /// Options for opening a store.
    public struct Options: Sendable {
        /// The condition that a commit waits for, unless the commit has its own.
        public var durability: Durability
        /// The time for which a commit waits for other writers before it throws `busy`. At least 3 milliseconds.
        public var lockTimeout: Duration
        /// Whether the store is opened for reading only, or for writing too.
        public var access: Access
        /// The way of reading the file.
        public var reading: Reading
        /// Whether a missing store is created. Otherwise opening it throws `notFound`.
        public var createsIfMissing: Bool
        /// The users that may use a new store. An existing one keeps its permissions, even when it is compacted.
        public var sharing: Sharing
        /// The conditions for automatic compaction; nil for never. The retention of history is a setting of the store
        /// itself (`setRetention`).
        public var automaticCompaction: AutomaticCompaction?
        /// For reading by copies: the memory that they may take before they are dropped.
        package var copiedBytes = EngineOptions().copiedBytes
        /// The memory that changed indexes may take before they are written.
        package var dirtyNodeBytes = EngineOptions().dirtyNodeBytes
        /// The hub for change signals; nil for the process's own.
        package var hub: ChangeHub?
        /// The clock and other services of the machine.
        package var environment: any Environment = RealEnvironment()

        /// The standard options, except those that you pass.
        public init(
            durability: Durability = .full, lockTimeout: Duration = .seconds(5), access: Access = .readWrite,
            reading: Reading = .mapped, createsIfMissing: Bool = true, sharing: Sharing = .user,
            automaticCompaction: AutomaticCompaction? = AutomaticCompaction()
        ) {
            (self.durability, self.lockTimeout, self.access, self.reading) = (durability, lockTimeout, access, reading)
            self.createsIfMissing = createsIfMissing
            (self.sharing, self.automaticCompaction) = (sharing, automaticCompaction)
        }
    }

    /// The access that a handle has to the store.
    public typealias Access = FileAccess

    /// The way of reading the file.
    public typealias Reading = FileReading

    /// The conditions for automatic compaction.
    public typealias AutomaticCompaction = Annals.AutomaticCompaction

    /// The users that may use a new store, or the new folder of a group.
    public enum Sharing: Sendable, Hashable {
        /// This user alone: mode 0600, a folder 0700.
        case user
        /// Also the members of the group that the file or folder gets from the folder above it: mode 0660, a folder
        /// 2770, so new files in it get the same group. The umask does not matter.
        case group
    }

    /// The path of the file, with symbolic links resolved. The path of a store in memory begins with `memory:/`, and
    /// opens the store again in this process.
    public let path: String
    /// The store's identifier. It is set when the store is created and never changes, not even in copies.
    public let identifier: UUID
    let handle: StoreHandle
    let options: Options
    let asyncWrites = WriteQueue()
    /// Sound although any thread may read it: only initializers set it, before the store is shared.
    @exclusivity(unchecked) nonisolated(unsafe) var extensions = StoreExtensions()
    /// The context of the main actor; nil before its first use.
    @MainActor var mainContextKeeper: (any StoreContextKeeper)?
    /// Whether this handle created the store.
    let wasMade: Bool

    /// Opens a store. Creates a missing one if `options.createsIfMissing` is true.
    ///
    /// Opening reads the part of the file after the last checkpoint.
    ///
    /// - Parameters:
    ///   - path: The file. Its directory must exist.
    ///   - entities: The entities that the program expects. Missing entities, attributes, indexes and keys are added in
    ///     one transaction. Nothing is removed.
    ///   - options: See `Options`.
    ///
    /// Throws `StoreError`: `notFound`, `notAStore`, `unsupportedVersion`, `damaged`, `permissionDenied`,
    /// `schemaMismatch`, `busy`, and errors of the system. If it throws, a store that it created is removed again.
    public init(
        at path: String, entities: [EntityDescription] = [], options: Options = Options()
    ) throws {
        self.options = options
        let (engine, wasMade) = try Self.openEngine(path, options)
        self.wasMade = wasMade
        handle = StoreHandle(
            engine, trigger: options.automaticCompaction, reportFailure: AutomaticCompaction.log,
            prepareCompaction: Self.forgetDeletedWords)
        self.path = engine.log.path
        identifier = UUID(engine.log.header.storeID)
        guard !entities.isEmpty else { return }
        do throws(StoreError) {
            try add { (catalog) throws(StoreError) in try SchemaPlan.additions(of: entities, to: catalog) }
        } catch {
            _ = try? abandon()
            throw error
        }
    }

    /// Opens the store at a file URL. Throws `StoreError`: `invalidArgument` for another kind of URL, and as
    /// `init(at:entities:options:)`.
    public convenience init(
        at url: URL, entities: [EntityDescription] = [], options: Options = Options()
    ) throws {
        guard url.isFileURL else {
            throw StoreError(
                .invalidArgument,
                "A store is opened by a file URL, and this URL has another scheme: pass a file URL.")
        }
        try self.init(at: url.path(percentEncoded: false), entities: entities, options: options)
    }

    private static func openEngine(
        _ path: String, _ options: Options
    ) throws(StoreError) -> (engine: Engine, wasMade: Bool) {
        var chosen = EngineOptions(hub: options.hub)
        chosen.log.lockTimeoutMicroseconds = options.lockTimeout.wholeMicroseconds
        (chosen.reading, chosen.copiedBytes) = (options.reading, options.copiedBytes)
        chosen.dirtyNodeBytes = options.dirtyNodeBytes
        if options.sharing == .group { chosen.log.mode = 0o660 }
        let files = try files(for: path)
        let environment = options.environment
        guard options.access == .readWrite, options.createsIfMissing else {
            let engine = try Engine.open(
                path, access: options.access, options: chosen, files: files, environment: environment)
            return (engine, false)
        }
        return try Engine.openOrCreate(path, options: chosen, files: files, environment: environment)
    }

    /// Adds missing parts of the schema: those that `additions` returns for a schema. Other processes may do so at the
    /// same time: the later one finds nothing to add.
    func add(
        reserved: Bool = false, _ additions: @escaping (SchemaCatalog) throws(StoreError) -> [SchemaChange]
    ) throws(StoreError) {
        guard try !additions(try newest().view.catalog).isEmpty else { return }
        guard options.access == .readWrite else {
            throw StoreError(
                .schemaMismatch,
                "The store lacks declared entities, attributes or indexes, and is open for reading only: open it for "
                    + "writing once.", path: path)
        }
        do {
            _ = try handle.commit(author: nil, context: nil, durability: options.durability) { draft in
                let definitions = try SchemaPlan.definitions(
                    for: try additions(draft.catalog), catalog: draft.catalog, addsReserved: reserved)
                if !definitions.isEmpty { try draft.changeSchema(definitions) }
            }
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("This body throws StoreError only.") }
            throw error
        }
    }

    /// Makes everything durable and closes the file. Waits for calls on other threads. Later calls throw `closed`, also
    /// on snapshots. Do not call it from a body that reads rows or history: it would wait for that body.
    ///
    /// Throws if the last transactions could not be made durable. The store is closed in any case. A second call does
    /// nothing.
    public func close() throws {
        extensions.indexer?.stop()
        try handle.close()
    }

    // MARK: Content

    /// Returns the newest state. It contains everything that was acknowledged before the call, in any process. Cheap,
    /// and takes no lock.
    ///
    /// Throws `StoreError`.
    public func snapshot() throws -> Snapshot {
        let (engine, view) = try newest()
        return Snapshot(view, engine, identifier)
    }

    /// The engine of the current file. Compaction replaces the file, so get the engine once for each call.
    var engine: Engine { (try? handle.newest())?.engine ?? handle.current }

    /// The engine of the file that has the store's name now. Throws `storeReplaced` if that is another store, or an
    /// older state of this one, and `storeRemoved` if the name does not exist.
    func engineInPlace() throws(StoreError) -> Engine {
        try handle.onNewest { (engine) throws(StoreError) in
            try engine.log.requirePlace()
            return engine
        }
    }

    /// The mark of the store (`UUIDBytes.mark`).
    var mark: UInt32 { handle.current.log.header.storeID.mark }

    /// The newest state, and its engine.
    func newest() throws(StoreError) -> (engine: Engine, view: View) {
        try handle.newest()
    }

    /// The entities of the newest schema, in the order in which they were added. Throws `StoreError`.
    public var entities: [EntityDescription] {
        get throws { try snapshot().entities }
    }

    /// Returns an entity of the newest schema, for reading and writing by position. Throws `StoreError`:
    /// `unknownEntity`.
    public func entity(_ name: String) throws -> EntityHandle { try snapshot().entity(name) }

    /// Sizes and counts. Throws `StoreError`.
    public var statistics: StoreStatistics {
        get throws {
            let (engine, view) = try newest()
            let statistics = try engine.statistics()
            var objects: [String: UInt64] = [:]
            for entity in view.catalog.entities(version: view.catalog.newestVersion) where !entity.name.isReserved {
                objects[entity.name.text] = statistics.liveObjects[entity.number] ?? 0
            }
            var bytes: [String: UInt64] = [:]
            for kind in FrameKind.allCases { bytes["\(kind)"] = statistics.frameBytes[kind] ?? 0 }
            let use = try engine.spaceByUse(in: view)
            return StoreStatistics(
                fileBytes: statistics.fileBytes, endBytes: statistics.end, transactions: statistics.transactions,
                objects: objects, bytesByKind: bytes, dirtyNodeBytes: statistics.dirtyNodeBytes,
                compactionFailure: handle.compactionFailure.withLock { $0?.description },
                space: StoreStatistics.Space(
                    liveBytes: use.live, historyBytes: use.history, garbageBytes: use.garbage, indexBytes: use.index,
                    freeBytes: statistics.fileBytes - min(statistics.fileBytes, statistics.end)))
        }
    }
}

extension Duration {
    /// Microseconds from 0 to the largest number.
    var wholeMicroseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000)
        let (sum, carried) = product.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000_000))
        return overflow || carried ? .max : sum
    }
}
