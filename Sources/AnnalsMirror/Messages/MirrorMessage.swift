// The messages that the peers of a group send to each other, as values.

package import Annals
package import FoundationEssentials

/// A message of a peer. MirrorMessages.md describes its bytes.
package struct MirrorMessage: Hashable, Sendable {
    /// The kinds of message and their content.
    package enum Content: Hashable, Sendable {
        case transaction(TransactionMessage)
        case state(StateMessage)
        case receipt(ReceiptMessage)
        case request([RequestedNumbers])
        case stateRequest(of: UUID)
        case join(PeerMessage)
        case leave(PeerMessage)
        case statePart(ExportedStatePart)
        /// A kind of a later version that this one may skip, with its bytes.
        case skipped(kind: UInt8, bytes: [UInt8])
    }

    /// Bits for later versions. A reader ignores those that it does not know, and keeps them.
    package struct OptionalBits: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        /// A reader that does not know the kind skips the message.
        package static let skippable = OptionalBits(rawValue: 1)
    }

    /// The largest number of a transaction in earlier messages of this sender; 0 if none had one. A receiver can tell
    /// from it which transactions a gap of message numbers may contain: see `MessagePosition`.
    package var published: UInt64
    package var content: Content
    /// Empty in version 1.
    package var optional: OptionalBits
    /// Bytes of a later version after the known content, which this one ignores and keeps. Empty in version 1.
    package var rest: [UInt8]

    package init(published: UInt64, _ content: Content, optional: OptionalBits = [], rest: [UInt8] = []) {
        self.published = published
        self.content = content
        self.optional = optional
        self.rest = rest
    }

    /// The number of the transaction that it contains; 0 for none.
    package var transactionNumber: UInt64 {
        if case .transaction(let message) = content { message.transaction.token.number } else { 0 }
    }
}

/// One transaction, with what its writer knew.
package struct TransactionMessage: Hashable, Sendable {
    package var lamport: UInt64
    /// The transactions that the sender had applied before: all entries, or those that its last message lacks.
    package var knowledge: VersionVector
    package var isKnowledgeComplete: Bool
    package var transaction: ExportedTransaction

    package init(
        lamport: UInt64, knowledge: VersionVector, isKnowledgeComplete: Bool, transaction: ExportedTransaction
    ) {
        self.lamport = lamport
        self.knowledge = knowledge
        self.isKnowledgeComplete = isKnowledgeComplete
        self.transaction = transaction
    }
}

/// The courier has a complete state under this name. The state begins with the same message.
package struct StateMessage: Hashable, Sendable {
    package var name: String
    /// The transactions that the state contains.
    package var knowledge: VersionVector
    /// The highest number in the group's order that it contains.
    package var lamport: UInt64

    package init(name: String, knowledge: VersionVector, lamport: UInt64) {
        (self.name, self.knowledge, self.lamport) = (name, knowledge, lamport)
    }
}

/// The transactions that the sender has applied durably, and the group as it knows it.
package struct ReceiptMessage: Hashable, Sendable {
    /// All entries.
    package var applied: VersionVector
    /// The tag of each of these transactions; 0 if the sender does not know it. By them a peer notices that an older
    /// state has replaced its store.
    package var tags: [UInt64]
    package var lamport: UInt64
    /// Microseconds since 1970, UTC, on the sender's clock. Only for showing the lag.
    package var microseconds: Int64
    /// The transactions that the sender will not send again: each peer that it knows has confirmed them.
    package var settled: VersionVector
    /// The other peers whose confirmation the sender waits for.
    package var members: PeerSet
    /// Peers that have left, or were declared lost.
    package var departed: PeerSet

    /// - Parameter tags: One for each entry of `applied`; nil if none is known.
    package init(
        applied: VersionVector, tags: [UInt64]? = nil, lamport: UInt64, microseconds: Int64,
        settled: VersionVector = VersionVector(), members: PeerSet = PeerSet(), departed: PeerSet = PeerSet()
    ) {
        (self.applied, self.lamport, self.microseconds) = (applied, lamport, microseconds)
        self.tags = tags ?? Array(repeating: 0, count: applied.entries.count)
        (self.settled, self.members, self.departed) = (settled, members, departed)
        assert(self.tags.count == applied.entries.count, "Each applied transaction has a tag.")
    }

    /// The last transaction of a peer that the sender has applied; nil without one, or without its tag.
    package func token(of peer: UUID) -> HistoryToken? {
        guard let index = applied.entries.firstIndex(where: { $0.peer == peer }), tags[index] > 0 else { return nil }
        return HistoryToken(storeIdentifier: peer, number: applied.entries[index].number, tag: tags[index])
    }
}

/// Peers, each once, in the order of their bytes.
package struct PeerSet: Hashable, Sendable {
    package private(set) var peers: [UUID] = []

    package init() {}

    package init(_ peers: some Sequence<UUID>) { self.peers = Set(peers).sorted(by: VersionVector.isBefore) }

    /// Nil unless they ascend.
    init?(ascending peers: [UUID]) {
        for (left, right) in zip(peers, peers.dropFirst()) {
            guard VersionVector.isBefore(left, right) else { return nil }
        }
        self.peers = peers
    }

    package func contains(_ peer: UUID) -> Bool { peers.contains(peer) }
}

/// The sender lacks transactions of a peer, whose numbers are in this range. Not every number has a transaction.
package struct RequestedNumbers: Hashable, Sendable {
    package var peer: UUID
    /// From 1.
    package var numbers: ClosedRange<UInt64>

    package init(peer: UUID, numbers: ClosedRange<UInt64>) {
        self.peer = peer
        self.numbers = numbers
    }
}

/// A peer joins or leaves the group.
package struct PeerMessage: Hashable, Sendable {
    package var peer: UUID
    /// For people.
    package var name: String
    /// The versions of messages that it reads.
    package var versions: ClosedRange<UInt8>
    /// A random number of the running mirror. It distinguishes two mirrors of one store.
    package var instance: UInt64
    /// Only if it leaves: the peer that is declared lost, if it is not the sender itself.
    package var lost: UUID?

    package init(peer: UUID, name: String, versions: ClosedRange<UInt8>, instance: UInt64, lost: UUID? = nil) {
        self.peer = peer
        self.name = name
        self.versions = versions
        self.instance = instance
        self.lost = lost
    }
}
