// The mirror of a store, as programs use it: a thread that publishes and merges until it is stopped.

public import Annals
public import FoundationEssentials
internal import Synchronization

/// Keeps a store equal to the other stores of a group, on this machine and others.
///
/// Every store of the group is written locally, at any time, also without a connection. The mirror sends this store's
/// transactions to the others and merges theirs. Stores that have the same transactions have the same objects,
/// whatever the order in which the transactions came, and whatever the clocks of the machines show.
public final class Mirror: Sendable {
    /// The engine that carries the messages.
    public struct Route: Sendable {
        let open: @Sendable (_ group: String, _ peer: String, Interruption) throws -> any Courier

        /// A NATS server with JetStream.
        ///
        /// - Parameters:
        ///   - address: `nats://host:port`, or several with commas between them.
        ///   - token: If the server requires one.
        ///   - replicas: The copies of each message that the server must keep; nil for what it has.
        public static func nats(_ address: String, token: String? = nil, replicas: Int? = nil) -> Route {
            Route { group, peer, interruption in
                try NATSCourier(
                    address: address, credentials: token.map { .token($0) }, group: group, peer: peer,
                    replicas: replicas, interruption: interruption)
            }
        }

        /// A folder that the machines share: a network file system, or one that a synchronizer copies.
        public static func folder(_ path: String) -> Route {
            Route { group, peer, interruption in
                try FolderCourier(path: path, group: group, peer: peer, interruption: interruption)
            }
        }
    }

    /// The facts that a mirror knows about another store of its group.
    public struct Peer: Sendable, Hashable {
        /// The store's identifier.
        public let identifier: UUID
        /// Its last transaction that was merged here; 0 for none.
        public let merged: UInt64
        /// Its last transaction that this mirror has heard of.
        public let newest: UInt64
        /// The last transaction of this store that it has confirmed.
        public let confirmed: UInt64
    }

    /// The present state of a mirror.
    public struct Status: Sendable {
        /// Whether `start` was called, and `stop` was not.
        public var isRunning = false
        /// The other stores of the group, by identifier.
        public var peers: [Peer] = []
        /// The last transaction of this store that was published.
        public var published: UInt64 = 0
        /// How many values were overruled since the mirror was made.
        public var conflicts = 0
        /// The last error, with what to do; nil since the last success.
        public var lastError: StoreError?
    }

    /// The mirrored store.
    public let store: Store
    /// The name of the group.
    public let group: String
    private let route: Route
    private let running = Mutex(MirrorLoop?.none)
    /// Of the loop that was stopped last.
    private let lastStatus = Mutex(Status())

    /// Creates a mirror that does nothing yet. Throws `StoreError`: `invalidArgument` for an impossible group or
    /// address, `tooManyFiles`.
    public init(_ store: Store, group: String, through route: Route) throws {
        (self.store, self.group, self.route) = (store, group, route)
        // A wrong address is an error now, and not one of the thread.
        _ = try route.open(group, store.identifier.uuidString, try Interruption())
    }

    deinit { running.withLock { $0 }?.stop() }

    /// The present state.
    public var status: Status { running.withLock { $0 }?.status ?? lastStatus.withLock { $0 } }

    // MARK: On and off

    /// Begins to publish and to merge, in a thread of its own. Does nothing if the mirror runs.
    ///
    /// An engine that cannot be reached is no error here: the mirror tries again until it can. See `status`.
    ///
    /// Throws `StoreError`: `outOfMemory`, `tooManyFiles`, `closed`.
    public func start() async throws {
        if running.withLock({ $0 })?.isEnding == true { await stop() }
        try running.withLock { running throws in
            guard running == nil else { return }
            let interruption = try Interruption()
            let courier = try route.open(group, store.identifier.uuidString, interruption)
            let loop = MirrorLoop(store, courier, interruption)
            try loop.start()
            running = loop
        }
    }

    /// Stops, and returns when nothing of the mirror runs any more. Edits go on locally; `start()` catches up.
    public func stop() async {
        guard let loop = running.withLock({ $0 }) else { return }
        loop.stop()
        await loop.ended()
        running.withLock { running in
            guard running === loop else { return }
            lastStatus.withLock { $0 = loop.status }
            running = nil
        }
    }
}
