// The mirror of a store, as programs use it: a thread that publishes and merges until it is stopped.

public import Annals
public import FoundationEssentials
internal import Synchronization

/// Keeps a store equal to the other stores of a group, on any machines.
///
/// Every store of the group is written locally, at any time, also without a connection. The mirror sends this store's
/// transactions to the other stores and merges theirs. Stores that have the same transactions have the same objects,
/// whatever the order in which the transactions came, and whatever the clocks of the machines show.
///
/// ```swift
/// let mirror = try Mirror(store, group: "notes", through: .nats("nats://127.0.0.1:4222", token: secret))
/// try await mirror.start()
/// print(mirror.status.peers)
/// await mirror.stop()
/// ```
///
/// Any thread may call any method. The mirror uses one thread of its own while it runs. It ends when the last reference
/// to the mirror goes, but only `stop()` waits for that.
public final class Mirror: Sendable {
    /// The mirrored store. Close it after `stop()` only.
    public let store: Store
    /// The name of the group.
    public let group: String
    /// The name that the other stores of the group show to people. It need not be unique.
    public let name: String
    /// Whether the mirror publishes, receives, or does both.
    public let direction: Direction
    private let localEntities: [String]?
    private let route: Route
    private let running = Mutex(MirrorLoop?.none)
    private let board = MirrorStatusBoard()

    /// The longest name of a mirror, in bytes of UTF-8.
    static let maximumNameBytes = 255

    /// Creates a mirror that does nothing yet. It connects to nothing and changes nothing. O(1).
    ///
    /// - Parameters:
    ///   - store: A store that is open for writing.
    ///   - group: The name of the stores that mirror each other: 1 to 64 bytes. Letters and digits are best.
    ///   - route: The engine that carries the messages.
    ///   - name: Shown to people by the other stores; 1 to 255 bytes. Nil is the name of this machine.
    ///   - direction: A mirror of one direction leaves the rest for a later one: see `Direction`.
    ///   - localEntities: The names of entities that stay in this store. No relation may lead from one of them to
    ///     another entity, or back. Nil for those that were local before; none for a new mirror. While the store is in
    ///     the group, a local entity stays so, and another one becomes local only if the group has no objects of it.
    ///     Otherwise the mirror shows `groupConflict`.
    /// - Throws: `StoreError`: `invalidArgument` for an impossible name, group, address or path, and for an entity that
    ///   the store does not have, unless it has none yet; `tooManyFiles`.
    public init(
        _ store: Store, group: String, through route: Route, name: String? = nil, direction: Direction = .both,
        localEntities: [String]? = nil
    ) throws {
        (self.store, self.group, self.route, self.direction) = (store, group, route, direction)
        self.localEntities = localEntities
        self.name = name ?? Self.nameOfMachine
        guard (1...Self.maximumNameBytes).contains(self.name.utf8.count) else {
            throw StoreError(
                .invalidArgument,
                "The name of a mirror has 1 to \(Self.maximumNameBytes) bytes of UTF-8: choose another one.")
        }
        // The same limit for each engine, so that a group can change from one to another.
        guard (1...NATSNames.maximumNameBytes).contains(group.utf8.count) else {
            throw StoreError(
                .invalidArgument,
                "The name of a group has 1 to \(NATSNames.maximumNameBytes) bytes of UTF-8: choose another one.")
        }
        if let localEntities { try Self.requireEntities(localEntities, of: store) }
        // A wrong address is an error now, and not one of the thread.
        _ = try route.open(group, store.identifier.uuidString, try Interruption())
    }

    /// A store without entities gets them later. One that was chosen before may have another name now.
    private static func requireEntities(_ names: [String], of store: Store) throws {
        let entities = try store.snapshot().entities
        let chosen = try MirrorRecord.load(store)?.local ?? LocalEntities()
        for name in names where !entities.isEmpty && !chosen.hasName(name) {
            guard entities.contains(where: { $0.name.utf8.elementsEqual(name.utf8) }) else {
                throw StoreError(
                    .invalidArgument, "This store has no entity “\(name)” that could be local: check the name.")
            }
        }
    }

    deinit {
        running.withLock { $0 }?.stop()
        board.finish()
    }

    private static var nameOfMachine: String {
        let name = ProcessInfo.processInfo.hostName
        return name.isEmpty || name.utf8.count > maximumNameBytes ? "localhost" : name
    }

    // MARK: The group

    /// Takes this store out of its group for good, and stops the mirror. Waits until the other stores have everything
    /// that this one has. The objects of this store stay as they are.
    ///
    /// A store that has left joins again as a new store only.
    ///
    /// Throws `StoreError`: `cancelled` if the mirror does not run, or is stopped meanwhile.
    public func leave() async throws {
        try await requireLoop().carryOut(.leave)
        await stop()
    }

    /// Declares that a store of the group is lost: the group does not wait for it any more. Transactions of it that no
    /// other store has are lost for the group. It joins again as a new store only.
    ///
    /// - Parameter store: The identifier of a peer.
    ///
    /// Throws `StoreError`: `cancelled` if the mirror does not run; `invalidArgument` if the group has no such store.
    public func forget(_ store: UUID) async throws {
        let known = try status.peers + (Self.lastStatus(of: self.store)?.peers ?? [])
        guard known.contains(where: { $0.identifier == store }) else {
            throw StoreError(.invalidArgument, "The group has no store \(store): see the peers in the status.")
        }
        try await requireLoop().carryOut(.forget(store))
    }

    /// Makes a copy the store that takes part in the group, because the original is gone for good: it was moved to
    /// another machine, or is lost. Never for a store whose original may still run.
    ///
    /// Throws `StoreError`: `mirroredElsewhere` while a mirror runs for the copy.
    public static func adopt(_ store: Store) throws {
        try MirrorLease.adopt(store) { mark in
            guard var record = try MirrorRecord.load(store) else { return }
            record.mark = mark
            try store.setMergeState(try record.stored())
        }
    }

    private func requireLoop() throws -> MirrorLoop {
        guard let loop = running.withLock({ $0 }) else {
            throw StoreError(.cancelled, "The mirror is not running: start it first.")
        }
        return loop
    }

    // MARK: On and off

    /// Begins to publish and to merge, in a thread of its own. Does nothing if the mirror runs.
    ///
    /// An engine that cannot be reached is no error here: the mirror tries again until it can. `status` has the error.
    ///
    /// - Throws: `StoreError`: `outOfMemory`, `tooManyFiles`, `closed`.
    public func start() async throws {
        if running.withLock({ $0 })?.isEnding == true { await stop() }
        try running.withLock { running throws in
            guard running == nil else { return }
            let interruption = try Interruption()
            let courier = try route.open(group, store.identifier.uuidString, interruption)
            let loop = MirrorLoop(store, name, direction, localEntities, courier, interruption, board)
            try loop.start()
            running = loop
        }
    }

    /// Stops, and returns when nothing of the mirror runs any more. Edits go on locally; `start()` catches up.
    ///
    /// The transaction that is being merged is finished first. A name service that does not answer can delay the
    /// end by its own timeout.
    public func stop() async {
        guard let loop = running.withLock({ $0 }) else { return }
        loop.stop()
        await loop.ended()
        running.withLock { if $0 === loop { $0 = nil } }
    }

    // MARK: Status

    /// The present state. Waits for nothing. O(1).
    public var status: Status { board.status }

    /// The present state, and then each change of it, until the iteration ends or the mirror goes.
    ///
    /// A slow reader gets the newest state: earlier ones that it has not read are dropped. A busy mirror changes many
    /// times a second, an idle one does not.
    public func statusUpdates() -> AsyncStream<Status> { board.updates() }

    /// The state of a store's mirror that any process has recorded last; nil if the store was never mirrored.
    ///
    /// For programs that do not run the mirror themselves. `isRunning` is false, and there are no `recentConflicts` and
    /// `weaknesses`. O(number of peers).
    ///
    /// - Throws: `StoreError`: `unsupportedVersion` for the record of a later version, `damaged`, `closed`.
    public static func lastStatus(of store: Store) throws -> Status? {
        try MirrorRecord.load(store).map { Status($0, of: store.identifier) }
    }
}
