// The order of all transactions of a group, which every peer computes alike and without a clock.

package import Annals
package import FoundationEssentials

/// A transaction's place in the order of its group.
///
/// The number is one above the highest that the writer knew (Lamport, 1978). So a transaction comes after everything
/// that its writer had applied. Concurrent transactions with equal numbers are ordered by their peers.
package struct Stamp: Hashable, Sendable, Comparable {
    package var lamport: UInt64
    package var peer: UUID

    package init(_ lamport: UInt64, _ peer: UUID) { (self.lamport, self.peer) = (lamport, peer) }

    /// No stamp with this number comes before it.
    static func first(with lamport: UInt64) -> Stamp {
        Stamp(lamport, UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))
    }

    package static func < (left: Stamp, right: Stamp) -> Bool {
        if left.lamport != right.lamport { return left.lamport < right.lamport }
        return VersionVector.isBefore(left.peer, right.peer)
    }
}

/// The name of an object in the group: the store in which it was first inserted, and its ID there.
package struct GroupObject: Hashable, Sendable, Comparable {
    package let store: UUID
    package let id: ObjectID

    package init(_ store: UUID, _ id: ObjectID) { (self.store, self.id) = (store, id) }

    /// The name in an export of a store.
    package init(_ object: ExportedObject, from exporter: UUID) {
        (store, id) = (object.store ?? exporter, object.id)
    }

    package static func < (left: GroupObject, right: GroupObject) -> Bool {
        if left.store != right.store { return VersionVector.isBefore(left.store, right.store) }
        return left.id.rawValue < right.id.rawValue
    }
}
