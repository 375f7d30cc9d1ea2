// One open store: opening, closing, what it is, what it says.

public import FoundationEssentials

/// An open store file. Any thread may use it, and several processes may have the file open at once.
///
/// Reading goes through snapshots and never waits for anybody. Writing goes through `commit` and `write`, one
/// transaction at a time across all processes. A `Snapshot` keeps the store open. After `close` everything throws
/// `closed`.
public final class Store: Sendable {
    /// What can be chosen when a store is opened.
    public struct Options: Sendable {
        /// What a commit waits for unless it says otherwise.
        public var durability = Durability.full
        /// How long a commit waits for another process before it throws `busy`: 3 milliseconds at least.
        public var lockTimeout = Duration.seconds(5)
        /// Whether the store is opened for writing.
        public var access = Access.readWrite
        /// How the file is read.
        public var reading = Reading.mapped
        /// Whether a store is made if there is none. Otherwise opening throws `notFound`.
        public var createsIfMissing = true
        /// When the store is compacted by itself; nil for never. How much history is kept is said in the store
        /// (`setRetention`).
        public var automaticCompaction: AutomaticCompaction? = AutomaticCompaction()
        /// Where callers wait for changes; nil for the process's own place.
        package var hub: ChangeHub?

        /// The standard choice of everything.
        public init() {}
    }

    /// What a handle may do with the store.
    public enum Access: Sendable, Hashable {
        /// Nothing is written, nothing is made, no lock is taken.
        case readOnly
        /// Reading and writing. The file must be writable.
        case readWrite
    }

    /// How the file is read.
    public enum Reading: Sendable, Hashable {
        /// Through memory that the system maps: the fastest. A foreign program that truncates the file ends this
        /// process.
        case mapped
        /// Through copies: slower, and safe from that too.
        case copied
    }

    /// The file, symbolic links followed.
    public let path: String
    /// Given to the store when it was made, the same for ever, also in copies.
    public let identifier: UUID
    let generations: StoreFiles
    let options: Options
    let asyncWrites = WriteQueue()
    /// Whether there was no store before this handle.
    let wasMade: Bool

    /// Opens a store, or makes one if there is none and `options.createsIfMissing` says so.
    ///
    /// - Parameters:
    ///   - path: The file. Its directory must exist.
    ///   - entities: What the program expects. What the store lacks of it (entities, attributes, indexes, keys) is
    ///     added in one transaction; nothing is removed.
    ///   - options: See `Options`.
    ///
    /// Throws `StoreError`: `notFound`, `notAStore`, `unsupportedVersion`, `damaged`, `permissionDenied`,
    /// `schemaMismatch`, `busy`, and what the system
    /// says; a store that was made for it then goes again. Reads what was written since the last checkpoint.
    public init(
        at path: String, entities: [EntityDescription] = [], options: Options = Options()
    ) throws {
        self.options = options
        let (engine, wasMade) = try Self.openEngine(path, options)
        self.wasMade = wasMade
        generations = StoreFiles(engine, trigger: options.automaticCompaction?.trigger)
        self.path = engine.log.path
        identifier = UUID(engine.log.header.storeID)
        guard !entities.isEmpty else { return }
        do throws(StoreError) {
            try add(entities)
        } catch {
            _ = try? abandon()
            throw error
        }
    }

    /// The same for the URL of a file. Throws `StoreError`: `invalidArgument` for another URL.
    public convenience init(
        at url: URL, entities: [EntityDescription] = [], options: Options = Options()
    ) throws {
        guard url.isFileURL else {
            throw StoreError(.invalidArgument, "A store is opened by the URL of a file, this is another URL.")
        }
        try self.init(at: url.path(percentEncoded: false), entities: entities, options: options)
    }

    private static func openEngine(
        _ path: String, _ options: Options
    ) throws(StoreError) -> (engine: Engine, wasMade: Bool) {
        var chosen = EngineOptions()
        chosen.log.lockTimeoutMicroseconds = options.lockTimeout.wholeMicroseconds
        chosen.reading = options.reading == .mapped ? .mapped : .copied
        chosen.hub = options.hub
        let files = RealFileSystem()
        let environment = RealEnvironment()
        let access: FileAccess = options.access == .readWrite ? .readWrite : .readOnly
        guard options.access == .readWrite, options.createsIfMissing else {
            return (
                try Engine.open(path, access: access, options: chosen, files: files, environment: environment), false
            )
        }
        return try Engine.openOrCreate(path, options: chosen, files: files, environment: environment)
    }

    /// Adds what the store lacks. Others may be opening it for the same reason: the later one finds that nothing is
    /// lacking any more.
    private func add(_ entities: [EntityDescription]) throws(StoreError) {
        let catalog = try newest().view.catalog
        guard try !SchemaPlan.additions(of: entities, to: catalog).isEmpty else { return }
        guard options.access == .readWrite else {
            throw StoreError(
                .schemaMismatch,
                "The store lacks entities, attributes or indexes that are declared, and is open for reading only: "
                    + "open it "
                    + "for writing once.", path: path)
        }
        do {
            _ = try generations.commit(author: nil, context: nil, durability: options.durability) { pending in
                let changes = try SchemaPlan.additions(of: entities, to: pending.catalog)
                let definitions = try SchemaPlan.definitions(for: changes, catalog: pending.catalog)
                if !definitions.isEmpty { try pending.changeSchema(definitions) }
            }
        } catch {
            guard let error = error as? StoreError else { preconditionFailure("Nobody else's error can be met here.") }
            throw error
        }
    }

    /// Makes everything durable and closes the file. Waits for calls on other threads; later ones throw `closed`,
    /// snapshots too. Not to be called from a body that reads rows or history: it would wait for that body.
    ///
    /// Throws what kept the last transactions from becoming durable; the store is closed all the same. A second time
    /// does nothing.
    public func close() throws { try generations.close() }

    // MARK: What is in it

    /// The newest state: it contains everything acknowledged before the call, in any process. Cheap; takes no lock.
    ///
    /// Throws `StoreError`.
    public func snapshot() throws -> Snapshot {
        let (engine, view) = try newest()
        return Snapshot(view, engine, identifier)
    }

    /// The engine of the file as it is now: compaction puts another file in its place. Taken once for each call.
    var engine: Engine { (try? generations.newest())?.engine ?? generations.current }

    /// The newest state, and the engine that it is of.
    func newest() throws(StoreError) -> (engine: Engine, view: View) {
        try generations.newest()
    }

    /// The entities of the newest schema, in the order in which they were added. Throws `StoreError`.
    public var entities: [EntityDescription] {
        get throws { try snapshot().entities }
    }

    /// An entity of the newest schema, for reading and writing by position. Throws `StoreError`: `unknownEntity`.
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
                space: StoreStatistics.Space(
                    liveBytes: use.live, historyBytes: use.history, garbageBytes: use.garbage, indexBytes: use.index,
                    freeBytes: statistics.fileBytes - min(statistics.fileBytes, statistics.end)))
        }
    }
}

extension Duration {
    /// Not below 0, and the largest number if there are more.
    var wholeMicroseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000)
        let (sum, carried) = product.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000_000))
        return overflow || carried ? .max : sum
    }
}
