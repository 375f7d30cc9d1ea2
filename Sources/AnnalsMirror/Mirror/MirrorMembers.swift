// The other stores of a group, as their messages show them. Everything that a peer decides about them is here, as
// functions of values.
//
// Invariants:
// MM1  No transaction of a member that is still to come has a number in the group's order below its bound.
// MM2  What a member has, knows and promises only grows, and its receipts count alike in any order. The numbers of its
//      messages follow its clock, which may go back, so they decide nothing.
// MM3  A peer that has left never becomes a member again.
// MM4  All present members come to have the same transactions of a peer that has left. Each stops to take new ones when
//      it hears of it, and its receipts show that, and the last one that it has. Then the last of all of these is the
//      last one for all members. Until each has shown it, and this store has the last one, the peer's bound holds.

internal import Annals
package import FoundationEssentials

package struct MirrorMembers: Equatable, Sendable {
    package struct Member: Equatable, Sendable, Codable {
        package var name = ""
        /// The transactions that it has applied, by its receipts.
        package var applied = VersionVector()
        /// The transactions that it will not send again, by its receipts.
        package var settled = VersionVector()
        /// Its highest transaction that any message has named.
        package var newest: UInt64 = 0
        /// MM1.
        package var bound: UInt64 = 0
        /// When its last transaction that was merged here was committed, in seconds since 1970, by its clock.
        package var mergedAt: Double?
        /// It waits for a state.
        package var wantsState = false
        /// When its last message came, in seconds since 1970, by this machine's clock.
        package var lastSeen: Double?
        package var hasLeft = false
        /// The members that it waits for, and those that have left, by its receipts.
        package var members: [UUID] = []
        package var departed: [UUID] = []

        package init() {}
    }

    package let me: UUID
    package private(set) var all: [UUID: Member]
    /// Whether another peer has declared that this store is lost, or it has left.
    package private(set) var amIGone = false

    package init(me: UUID, _ all: [UUID: Member] = [:]) {
        (self.me, self.all) = (me, all)
        self.all[me] = nil
    }

    package subscript(peer: UUID) -> Member? { all[peer] }

    /// In the order of their bytes.
    package var present: [UUID] { all.filter { !$0.value.hasLeft }.keys.sorted(by: VersionVector.isBefore) }
    package var departed: [UUID] { all.filter { $0.value.hasLeft }.keys.sorted(by: VersionVector.isBefore) }

    // MARK: Messages

    private mutating func change(_ peer: UUID, _ body: (inout Member) -> Void) {
        guard peer != me else { return }
        body(&all[peer, default: Member()])
    }

    package mutating func add(_ peer: UUID) { change(peer) { _ in } }

    package mutating func join(_ peer: UUID, name: String) { change(peer) { $0.name = name } }

    package mutating func note(_ peer: UUID, newest number: UInt64) {
        guard number > 0 else { return }
        change(peer) { $0.newest = max($0.newest, number) }
    }

    package mutating func saw(_ peer: UUID, at seconds: Double) { change(peer) { $0.lastSeen = seconds } }

    package mutating func merged(_ peer: UUID, from seconds: Double) { change(peer) { $0.mergedAt = seconds } }

    package mutating func wantsState(_ peer: UUID) { change(peer) { $0.wantsState = true } }

    package mutating func raiseBound(of peer: UUID, to lamport: UInt64) {
        change(peer) { $0.bound = max($0.bound, lamport) }
    }

    package mutating func depart(_ peer: UUID) {
        if peer == me { amIGone = true }
        change(peer) { $0.hasLeft = true }
    }

    /// - Parameter knowledge: The transactions of other stores that are merged here.
    package mutating func receive(_ receipt: ReceiptMessage, from sender: UUID, knowledge: VersionVector) {
        for entry in receipt.applied.entries { note(entry.peer, newest: entry.number) }
        for peer in receipt.departed.peers { depart(peer) }
        for peer in receipt.members.peers { add(peer) }
        change(sender) { member in
            for entry in receipt.applied.entries {
                member.applied[entry.peer] = max(member.applied[entry.peer], entry.number)
            }
            for entry in receipt.settled.entries {
                member.settled[entry.peer] = max(member.settled[entry.peer], entry.number)
            }
            // MM2: a peer never knows less than before.
            let departed = Set(member.departed).union(receipt.departed.peers)
            let members = Set(member.members).union(receipt.members.peers).subtracting(departed)
            member.members = members.sorted(by: VersionVector.isBefore)
            member.departed = departed.sorted(by: VersionVector.isBefore)
            // Its next transaction has a higher number than all that it knew.
            if knowledge[sender] >= receipt.applied[sender] { member.bound = max(member.bound, receipt.lamport + 1) }
        }
        if !needsState(all[sender]?.applied ?? VersionVector(), of: sender) { change(sender) { $0.wantsState = false } }
    }

    // MARK: Decisions

    /// The number up to which each present member has confirmed the transactions of a store.
    package func confirmed(_ writer: UUID) -> UInt64 {
        var lowest = UInt64.max
        for (peer, member) in all where !member.hasLeft && peer != writer {
            lowest = min(lowest, member.applied[writer])
        }
        return lowest
    }

    /// A place in the group's order that no transaction still to come is before (MM1). Nil if no other store is known:
    /// then any number may come.
    ///
    /// - Parameters:
    ///   - lamport: The highest number that is known here.
    ///   - knowledge: The transactions of other stores that are merged here.
    ///   - isForState: Whether members that wait for a state need not know who has left: they take nothing before it.
    package func bound(_ lamport: UInt64, _ knowledge: VersionVector, isForState: Bool = false) -> Stamp? {
        guard !all.isEmpty else { return nil }
        var lowest = Stamp(lamport + 1, me)
        for (peer, member) in all
        where !isOver(peer, known: knowledge[peer], isForState) {
            lowest = min(lowest, Stamp(member.bound, peer))
        }
        return lowest
    }

    /// Whether a peer has left, every present member takes no new transactions of it any more, and this store has the
    /// last one (MM4). A member that waits for a state takes none of any peer, and cannot say so before it has the
    /// state.
    private func isOver(_ peer: UUID, known: UInt64, _ isForState: Bool) -> Bool {
        guard all[peer]?.hasLeft == true, last(of: peer, known: known) == known else { return false }
        return all.values.allSatisfy { member in
            member.hasLeft || member.departed.contains(peer) || isForState && member.wantsState
        }
    }

    /// The last transaction of a peer that this store shall have (MM4). More are accepted of a present one only.
    ///
    /// - Parameter known: Its last transaction that is merged here.
    package func last(of peer: UUID, known: UInt64) -> UInt64 {
        guard let member = all[peer], member.hasLeft else { return all[peer]?.newest ?? 0 }
        let others = all.values.filter { !$0.hasLeft && $0.departed.contains(peer) }.map { $0.applied[peer] }
        return max(known, others.max() ?? 0)
    }

    /// Whether a present member knows that this store has left.
    package var isMyLeavingKnown: Bool {
        let present = all.values.filter { !$0.hasLeft }
        return present.isEmpty || present.contains { $0.departed.contains(me) }
    }

    package func accepts(_ number: UInt64, of peer: UUID, known: UInt64) -> Bool {
        all[peer]?.hasLeft != true || number <= last(of: peer, known: known)
    }

    /// Whether a store with this knowledge lacks transactions that a member will not send again.
    ///
    /// - Parameter store: The store that lacks them.
    package func needsState(_ knowledge: VersionVector, of store: UUID) -> Bool {
        all.contains { peer, member in
            !member.hasLeft && peer != store
                && member.settled.entries.contains { $0.peer != store && $0.number > knowledge[$0.peer] }
        }
    }

    /// Whether a member has confirmed after it knew of this store, and this store has all that it had by then. Nothing
    /// else can be settled anywhere without a confirmation that names this store.
    ///
    /// - Parameter has: Whether this store has all transactions of a peer up to a number.
    package func isComplete(_ has: (UUID, UInt64) -> Bool) -> Bool {
        all.values.contains { member in
            !member.hasLeft && member.members.contains(me)
                && member.applied.entries.allSatisfy { $0.peer == me || has($0.peer, $0.number) }
        }
    }

    /// Whether a present peer is a member, as far as is known: it has published, confirmed, or named members. The rest
    /// are stores that join, like this one.
    package var hasMember: Bool {
        all.values.contains { member in
            !member.hasLeft && (member.newest > 0 || !member.applied.entries.isEmpty || !member.members.isEmpty)
        }
    }

    /// The members that have a state for this store.
    package var stateSources: [UUID] {
        present.filter { all[$0]?.wantsState == false && all[$0]?.settled.entries.isEmpty == false }
    }

    /// Whether this store answers for another writer: that one has left, or will not send the transaction again.
    package func answers(for writer: UUID, _ number: UInt64) -> Bool {
        guard let member = all[writer] else { return false }
        return member.hasLeft || number <= member.settled[writer]
    }
}
