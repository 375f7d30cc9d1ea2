// The facts that a mirror shows to programs and people.

public import Annals
public import FoundationEssentials

extension Mirror {
    /// The facts that a mirror knows about another store of its group.
    public struct Peer: Sendable, Hashable {
        /// The store's identifier.
        public let identifier: UUID
        /// The name that its mirror has for people. Until it has announced one, the identifier's text.
        public let name: String
        /// The number of its last transaction that was merged here; 0 for none.
        public let merged: UInt64
        /// When that one was committed, by the clock of its machine; nil for none, and if it came with a state.
        public let mergedAt: Date?
        /// The number of its last transaction that this mirror has heard of.
        public let newest: UInt64
        /// The number of the last transaction of this store that it has confirmed: it has all up to there.
        public let confirmed: UInt64
        /// When its last message came here, by the clock of this machine; nil for never.
        public let lastSeen: Date?
        /// Whether it has left the group, or was declared lost. Then no store waits for its confirmations.
        public let hasLeft: Bool

        /// How many of its transactions are missing here: at most this many. Numbers of a store's transactions need not
        /// be consecutive for its group, because merged transactions have numbers, too.
        public var lag: UInt64 { newest > merged ? newest - merged : 0 }

        /// The age of its last transaction that was merged here, in seconds, if later ones are missing; 0 if none is,
        /// nil if unknown. Only as right as the clocks of both machines.
        public var lagSeconds: Double? {
            lag == 0 ? 0 : mergedAt.map { max(0, Date.now.timeIntervalSince($0)) }
        }

        init(_ member: MirrorMember) {
            identifier = member.identifier
            name = member.name.isEmpty ? member.identifier.uuidString : member.name
            (merged, newest, confirmed) = (member.merged, member.newest, member.confirmed)
            mergedAt = member.mergedAt
            (lastSeen, hasLeft) = (member.lastSeen, member.hasLeft)
        }
    }

    /// A part of a transaction that has lost against a transaction that its writer did not know. History has it.
    public struct Conflict: Sendable, Hashable {
        /// The reason why it has lost.
        public enum Reason: Sendable, Hashable {
            /// The object was deleted, or its insertion was left out.
            case objectIsGone
            /// Another object has the unique values.
            case keyTaken
            /// The attribute refers to an object that is gone, or would be null although it is required.
            case referenceIsGone
            /// The object was not deleted: another one refers to it and must not lose the reference.
            case stillReferred
            /// Both have written the attribute, and the other one is later in the group's order.
            case overwritten
        }

        /// The object in this store; nil if this store has never had it. It may be deleted.
        public let object: ObjectID?
        /// The attribute; nil if the whole change of the object was left out.
        public let attribute: String?
        /// Why it has lost.
        public let reason: Reason
        /// The value that the attribute has after the merge; null if `attribute` is nil.
        public let kept: Value
        /// The value that has lost; null if `attribute` is nil. Objects that this store has never had are left out.
        public let lost: Value
        /// The identifier of the store whose transaction has lost. It may be this one.
        public let loser: UUID
    }

    /// A transaction of another store that does not fit the schema here. The store keeps it, and has confirmed it. It
    /// takes effect, in its place in the group's order, when the schema has changed so that it fits.
    public struct Parked: Sendable, Hashable {
        /// The identifier of the store whose transaction it is.
        public let store: UUID
        /// The transaction's number there.
        public let number: UInt64
        /// The reason, and how to mend it.
        public let reason: StoreError

        init(_ parked: ParkedTransaction) {
            (store, number) = (parked.store, parked.number)
            reason = StoreError(StoreError.Code(rawValue: parked.reason.code), parked.reason.message)
        }
    }

    /// The state of a mirror at one moment.
    public struct Status: Sendable, Hashable {
        /// Whether `start` was called, and `stop` was not. A running mirror need not be connected: see `lastError`.
        public internal(set) var isRunning = false
        /// The number of the last transaction of this store that was published; 0 for none.
        public internal(set) var published: UInt64 = 0
        /// The bytes of messages that this mirror has sent and received since it was made, those that came twice
        /// included. States are not counted.
        public internal(set) var bytesSent: UInt64 = 0
        public internal(set) var bytesReceived: UInt64 = 0
        /// The other stores of the group, in the order of their identifiers.
        public internal(set) var peers: [Peer] = []
        /// The number of conflicts since the mirror was made.
        public internal(set) var conflicts = 0
        /// The last conflicts, at most `maximumRecentConflicts`, the oldest first.
        public internal(set) var recentConflicts: [Conflict] = []
        /// The first parked transactions, at most 100, in the order in which they came. After each change of the schema
        /// the mirror tries all of them again.
        public internal(set) var parked: [Parked] = []
        /// The entities that stay in this store, by the names by which they were chosen.
        public internal(set) var localEntities: [String] = []
        /// The weak points of the engine, a sentence each: one copy, memory only, a limit. Known when the mirror has
        /// connected for the first time. Also the effects of the mirror's direction, and entities without history.
        public internal(set) var weaknesses: [String] = []
        /// The last error, with what to do; nil since the last success. The mirror tries again by itself.
        public internal(set) var lastError: StoreError?

        /// The largest number of `recentConflicts`.
        public static let maximumRecentConflicts = 100

        init() {}

        init(_ record: MirrorRecord, of store: UUID) {
            peers = record.known(store).map { Peer($0) }
            (published, conflicts) = (record.published, record.conflicts)
            parked = (record.parked ?? []).map { Parked($0) }
            localEntities = record.local.names
            lastError = record.error.map { StoreError(StoreError.Code(rawValue: $0.code), $0.message) }
        }

        mutating func add(_ conflicts: [Conflict]) {
            self.conflicts += conflicts.count
            recentConflicts = (recentConflicts + conflicts).suffix(Self.maximumRecentConflicts)
        }
    }
}

extension Mirror.Conflict {
    /// - Parameter view: The state of the store after the merge; nil if it cannot be read.
    init(_ conflict: MergeConflict, in view: ExchangeView?) {
        object = try? view?.object(named: ExportedObject(conflict.object.id, of: conflict.object.store))
        (attribute, loser) = (conflict.attribute, conflict.loser.peer)
        (kept, lost) = (Value(conflict.kept, in: view), Value(conflict.lost, in: view))
        reason =
            switch conflict.reason {
            case .objectIsGone: .objectIsGone
            case .keyTaken: .keyTaken
            case .referenceIsGone: .referenceIsGone
            case .stillReferred: .stillReferred
            case .overwritten: .overwritten
            }
    }
}

extension Value {
    /// - Parameter view: Has the objects to which the names of the group lead.
    fileprivate init(_ value: MergeValue, in view: ExchangeView?) {
        func local(_ name: GroupObject) -> ObjectID? { try? view?.object(named: ExportedObject(name)) }
        switch value {
        case .null: self = .null
        case .plain(let exported): self = exported.value ?? .null
        case .object(let name): self = local(name).map { .object($0) } ?? .null
        case .ordered(let names): self = .orderedObjects(names.compactMap(local))
        case .objects(let names): self = .objects(names.compactMap(local))
        }
    }
}
