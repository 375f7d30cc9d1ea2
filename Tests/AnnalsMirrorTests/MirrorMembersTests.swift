// The decisions of a peer about the other members of its group: small tables of receipts.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MirrorMembersTests {
    private let me = MessageSamples.uuid(1)
    private let a = MessageSamples.uuid(0xa)
    private let b = MessageSamples.uuid(0xb)
    private let c = MessageSamples.uuid(0xc)

    private func receipt(
        _ applied: [(UUID, UInt64)], lamport: UInt64, settled: [(UUID, UInt64)] = [], members: [UUID] = [],
        departed: [UUID] = []
    ) -> ReceiptMessage {
        ReceiptMessage(
            applied: MessageSamples.vector(applied), lamport: lamport, microseconds: 0,
            settled: MessageSamples.vector(settled), members: PeerSet(members), departed: PeerSet(departed))
    }

    private func vector(_ entries: (UUID, UInt64)...) -> VersionVector { MessageSamples.vector(entries) }

    /// MM1: a receipt bounds its sender only if the transactions before it are here.
    @Test func aReceiptBoundsWhatIsStillToCome() {
        var members = MirrorMembers(me: me)
        #expect(members.bound(7, vector()) == nil)
        members.add(a)
        #expect(members.bound(7, vector())?.lamport == 0)
        members.receive(receipt([(a, 3)], lamport: 5), from: a, knowledge: vector((a, 2)))
        #expect(members.bound(7, vector((a, 2)))?.lamport == 0)
        members.receive(receipt([(a, 3)], lamport: 5), from: a, knowledge: vector((a, 3)))
        #expect(members.bound(7, vector((a, 3)))?.lamport == 6)
        #expect(members.bound(4, vector((a, 3)))?.lamport == 5, "the next own one comes before")
        members.add(b)
        #expect(members.bound(7, vector((a, 3)))?.lamport == 0, "of a new member anything may come")
        // Also of one that waits, until it has promised something.
        members.wantsState(b)
        #expect(members.bound(7, vector((a, 3)), isForState: true)?.lamport == 0)
        members.receive(receipt([], lamport: 4), from: b, knowledge: vector((a, 3)))
        #expect(members.bound(7, vector((a, 3)), isForState: true)?.lamport == 5)
        members.receive(receipt([], lamport: 90), from: b, knowledge: vector((a, 3)))
        #expect(members.bound(7, vector((a, 3)), isForState: true)?.lamport == 6)
    }

    /// MM2
    @Test func numbersOnlyRise() {
        var members = MirrorMembers(me: me)
        members.receive(receipt([(me, 4), (a, 3)], lamport: 5, settled: [(a, 2)]), from: a, knowledge: vector((a, 3)))
        members.receive(receipt([(me, 2), (a, 1)], lamport: 2, settled: [(a, 1)]), from: a, knowledge: vector((a, 3)))
        #expect(members.confirmed(me) == 4 && members[a]?.settled[a] == 2 && members[a]?.bound == 6)
        #expect(members[a]?.newest == 3)
    }

    @Test func eachPresentMemberMustConfirm() {
        var members = MirrorMembers(me: me)
        #expect(members.confirmed(me) == .max)
        members.receive(receipt([(me, 4)], lamport: 5, members: [b]), from: a, knowledge: vector())
        #expect(members.confirmed(me) == 0, "a receipt names a member that has confirmed nothing")
        members.receive(receipt([(me, 3)], lamport: 5), from: b, knowledge: vector())
        #expect(members.confirmed(me) == 3)
        #expect(members.confirmed(b) == 0, "a writer need not confirm its own")
        members.depart(b)
        #expect(members.confirmed(me) == 4)
        members.add(b)
        #expect(members.confirmed(me) == 4, "MM3")
    }

    /// MM4
    @Test func thePeersAgreeOnTheLastTransactionOfOneThatLeft() {
        var members = MirrorMembers(me: me)
        let known = vector((c, 5))
        for peer in [a, b, c] { members.add(peer) }
        members.receive(receipt([(c, 5)], lamport: 9), from: c, knowledge: known)
        #expect(members.accepts(6, of: c, known: 5))
        members.depart(c)
        #expect(!members.accepts(6, of: c, known: 5))
        members.receive(receipt([(c, 5)], lamport: 9, departed: [c]), from: a, knowledge: known)
        #expect(members.last(of: c, known: 5) == 5)
        #expect(members.bound(20, known)?.lamport == 0, "the other member may still take one")
        members.receive(receipt([(c, 7)], lamport: 9), from: b, knowledge: known)
        #expect(!members.accepts(6, of: c, known: 5), "it has not stopped yet")
        members.receive(receipt([(c, 7)], lamport: 9, departed: [c]), from: b, knowledge: known)
        #expect(members.last(of: c, known: 5) == 7 && members.accepts(7, of: c, known: 5))
        #expect(!members.accepts(8, of: c, known: 5))
        #expect(members.bound(20, known)?.lamport == 10, "the bound of the one that left holds until 7 is here")
        members.receive(receipt([(c, 7), (a, 1), (b, 1)], lamport: 30), from: a, knowledge: vector((c, 7), (a, 1)))
        members.receive(
            receipt([(c, 7), (a, 1), (b, 1)], lamport: 30, departed: [c]), from: a, knowledge: vector((c, 7), (a, 1)))
        members.receive(
            receipt([(c, 7), (b, 1)], lamport: 31, departed: [c]), from: b, knowledge: vector((c, 7), (b, 1)))
        #expect(members.bound(40, vector((a, 1), (b, 1), (c, 7)))?.lamport == 31)
    }

    /// MM4: it cannot confirm before it has the state that it waits for.
    @Test func aMemberThatWaitsForAStateDoesNotHoldItUp() {
        var members = MirrorMembers(me: me)
        for peer in [a, b] { members.add(peer) }
        members.depart(b)
        #expect(members.bound(20, vector(), isForState: true)?.lamport == 0)
        members.wantsState(a)
        members.receive(receipt([], lamport: 50), from: a, knowledge: vector())
        members.wantsState(a)
        #expect(members.bound(20, vector(), isForState: true)?.lamport == 21)
        #expect(members.bound(20, vector())?.lamport == 0)
    }

    @Test func aStoreNeedsAStateForWhatAMemberWillNotSendAgain() {
        var members = MirrorMembers(me: me)
        members.receive(receipt([(a, 9), (b, 4)], lamport: 9, settled: [(b, 4)]), from: a, knowledge: vector())
        #expect(members.needsState(vector((b, 3)), of: me))
        #expect(!members.needsState(vector((b, 4)), of: me))
        #expect(members.answers(for: b, 4) == false, "the writer itself has not said so")
        members.receive(receipt([(b, 6)], lamport: 9, settled: [(b, 4)]), from: b, knowledge: vector())
        #expect(members.answers(for: b, 4) && !members.answers(for: b, 5))
        members.depart(a)
        members.depart(b)
        #expect(!members.needsState(vector(), of: me), "nobody is left to make one")
    }

    @Test func aStoreIsCompleteWithWhatAMemberHadWhenItNamedIt() {
        var members = MirrorMembers(me: me)
        members.receive(receipt([(a, 2), (b, 3)], lamport: 9, members: [b]), from: a, knowledge: vector())
        #expect(!members.isComplete { _, _ in true }, "nobody has named this store")
        members.receive(receipt([(a, 2), (b, 3)], lamport: 9, members: [b, me]), from: a, knowledge: vector())
        #expect(members.isComplete { _, _ in true })
        #expect(!members.isComplete { peer, _ in peer == a })
    }

    /// Receipts of one member, each with more than the one before it, count alike in any order.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func receiptsCountInAnyOrder(seed: UInt64) {
        var random = SeededRandom(seed)
        var receipts: [ReceiptMessage] = []
        var (applied, lamport) = ([me: 0, a: 0, b: 0, c: 0] as [UUID: UInt64], 1 as UInt64)
        var (present, departed) = ([me], []) as ([UUID], [UUID])
        for _ in 0..<6 {
            for peer in applied.keys.sorted(by: VersionVector.isBefore) {
                applied[peer, default: 0] += UInt64.random(in: 0...2, using: &random)
            }
            lamport += UInt64.random(in: 0...3, using: &random)
            if random.happens(0.4), !present.contains(c), !departed.contains(c) { present.append(c) }
            if random.happens(0.2), present.contains(c) { (present, departed) = ([me], [c]) }
            let entries = applied.filter { $0.value > 0 }.map { ($0.key, $0.value) }
            let settled = entries.map { ($0.0, $0.1 / 2) }.filter { $0.1 > 0 }
            receipts.append(
                receipt(entries, lamport: lamport, settled: settled, members: present, departed: departed))
        }
        func result(_ receipts: [ReceiptMessage]) -> MirrorMembers {
            var members = MirrorMembers(me: me)
            for receipt in receipts { members.receive(receipt, from: a, knowledge: vector((a, 100))) }
            return members
        }
        let expected = result(receipts)
        for _ in 0..<5 {
            #expect(result(receipts.shuffled(using: &random)) == expected, "seed \(seed)")
        }
    }
}
