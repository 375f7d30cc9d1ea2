// A store of a group, as a mirror shows it.

package import FoundationEssentials

/// The facts about another store of the group.
package struct MirrorMember: Hashable, Sendable {
    package var identifier: UUID
    /// For people; empty until its mirror has announced one.
    package var name: String
    /// Its last transaction that was merged here; 0 for none.
    package var merged: UInt64
    /// Its last transaction that this mirror has heard of.
    package var newest: UInt64
    /// When that one was committed, by its writer's clock; nil for none, and after a state.
    package var mergedAt: Date?
    /// The last transaction of this store that it has confirmed.
    package var confirmed: UInt64
    /// When its last message came, by this machine's clock.
    package var lastSeen: Date?
    /// Whether it has left, or was declared lost.
    package var hasLeft: Bool

    package init(_ identifier: UUID, _ member: MirrorMembers.Member, merged: UInt64, confirmed: UInt64) {
        (self.identifier, name, hasLeft) = (identifier, member.name, member.hasLeft)
        (self.merged, newest, self.confirmed) = (merged, member.newest, confirmed)
        mergedAt = member.mergedAt.map { Date(timeIntervalSince1970: $0) }
        lastSeen = member.lastSeen.map { Date(timeIntervalSince1970: $0) }
    }
}
