// A store of a group, as a mirror knows and records it.

package import FoundationEssentials

/// The facts about another store of the group.
package struct MirrorMember: Hashable, Sendable, Codable {
    package var identifier: UUID
    /// For people; empty until its mirror has announced one.
    package var name: String
    /// Its last transaction that was merged here; 0 for none.
    package var merged: UInt64
    /// Its last transaction that this mirror has heard of.
    package var newest: UInt64
    /// The last transaction of this store that it has confirmed.
    package var confirmed: UInt64
    /// When its last message came, by this machine's clock.
    package var lastSeen: Date?
    /// Whether it has left, or was declared lost.
    package var hasLeft: Bool

    package init(
        identifier: UUID, name: String, merged: UInt64, newest: UInt64, confirmed: UInt64, lastSeen: Date?,
        hasLeft: Bool
    ) {
        (self.identifier, self.name, self.lastSeen, self.hasLeft) = (identifier, name, lastSeen, hasLeft)
        (self.merged, self.newest, self.confirmed) = (merged, newest, confirmed)
    }
}

extension MirrorPeer {
    /// The other stores of the group, by identifier.
    package var members: [MirrorMember] {
        known.map {
            MirrorMember(
                identifier: $0.peer, name: "", merged: $0.merged, newest: $0.newest, confirmed: $0.confirmed,
                lastSeen: nil, hasLeft: false)
        }
    }
}
