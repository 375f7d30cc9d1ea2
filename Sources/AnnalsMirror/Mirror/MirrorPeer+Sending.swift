// Publishing transactions, receipts and requests.

internal import Annals
package import FoundationEssentials

extension MirrorPeer {
    func publish() throws {
        try sendOwn()
        if isReceiptDue { try sendReceipt() }
        guard !outgoing.isEmpty else { return }
        try makeDurable()
        try courier.append(outgoing)
        outgoing = []
    }

    /// A power failure must not take back what the group has got, or that this store has confirmed.
    private func makeDurable() throws {
        let token = try store.snapshot().token
        guard token != durable else { return }
        try store.waitUntil(token, durable: true)
        durable = token
    }

    func sendOwn() throws {
        guard phase == .member, hasCaughtUp else { return }
        unsent += try merging.takeOwn()
        var count = 0
        defer { unsent.removeFirst(count) }
        for own in unsent {
            let message = TransactionMessage(
                lamport: own.lamport, knowledge: own.knowledge, isKnowledgeComplete: true,
                transaction: own.transaction)
            unsettled[own.transaction.token.number] = message
            unsettledNumbers.append(own.transaction.token.number)
            messagesBefore.append((own.transaction.token.number, nextNumber - 1))
            try send(.transaction(message))
            published = own.transaction.token.number
            count += 1
        }
    }

    func send(_ content: MirrorMessage.Content) throws {
        let message = MirrorMessage(published: published, content)
        for body in try MessagePart.bodies(of: message, maximumBodyBytes: try courier.maximumBodyBytes) {
            outgoing.append(OutgoingMessage(number: nextNumber, body: body))
            nextNumber += 1
        }
    }

    /// Tells the group that this peer is here.
    func announce() throws {
        try send(.join(PeerMessage(peer: me, name: name, versions: 1...1, instance: instance)))
    }

    /// Declares that a peer is lost. The group does not wait for it any more; it must join again with a new store.
    package func declareLost(_ peer: UUID) throws {
        members.depart(peer)
        // Receipts show it to the other members in any case.
        try save()
        try send(
            .leave(PeerMessage(peer: me, name: name, versions: 1...1, instance: instance, lost: peer)))
    }

    /// Whether every member has all transactions that this store has, so that it may leave.
    package var mayLeave: Bool {
        phase == .member && unsent.isEmpty && outgoing.isEmpty
            && merging.firstUnconfirmed { members.confirmed($0) } == nil
    }

    /// Takes this store out of the group, for good. Its objects stay as they are.
    package func leave() throws {
        members.depart(me)
        try save()
        phase = .leaves
        try sendLeaving()
    }

    func sendLeaving() throws {
        try send(.leave(PeerMessage(peer: me, name: name, versions: 1...1, instance: instance)))
    }

    /// Whether this store has left, and a receipt of a member shows it. Until then, `step` sends it again.
    package var hasLeft: Bool { phase == .leaves && outgoing.isEmpty && members.isMyLeavingKnown }

    /// Everything that this peer has, its own transactions included.
    private var applied: VersionVector {
        var applied = merging.knowledge
        if published > 0 { applied[me] = published }
        return applied
    }

    var isReceiptDue: Bool {
        guard phase == .member, hasCaughtUp else { return false }
        let (applied, group) = (applied, PeerSet(members.present))
        if applied.entries.isEmpty, group.peers.isEmpty { return false }
        return lastReceipt?.applied != applied || lastReceipt?.members != group
            || lastReceipt?.departed != PeerSet(members.departed)
    }

    func sendReceipt() throws {
        guard hasCaughtUp else { return }
        // MM1: a receipt promises that the next transaction has a higher number. So those that have one go first.
        try sendOwn()
        // The group relies on who is a member for this store: it must not forget that.
        if merging.savedRecord.hasOtherGroup(than: members) { try save() }
        let receipt = ReceiptMessage(
            applied: applied, lamport: merging.lamport, microseconds: Int64(Date.now.timeIntervalSince1970 * 1_000_000),
            settled: merging.settledContents, members: PeerSet(members.present), departed: PeerSet(members.departed))
        try send(.receipt(receipt))
        lastReceipt = receipt
    }

    // MARK: Answers

    /// Sends requested transactions again: each once, and a bounded number. The rest is requested again.
    func answerRequests() throws {
        let (own, others) = (requested.sorted().prefix(Self.mostAnswers), requestedOfOthers)
        (requested, requestedOfOthers) = ([], [:])
        for number in own { if let message = unsettled[number] { try send(.transaction(message)) } }
        for (writer, numbers) in others.sorted(by: { VersionVector.isBefore($0.key, $1.key) }) {
            var count = 0
            try merging.forEachMerged(from: writer, numbers) { message in
                try send(.transaction(message))
                count += 1
                return count < Self.mostAnswers
            }
        }
    }

    private static let mostAnswers = 1000

    /// Frees the messages before the first transaction that not every member has. Receipts and requests among them have
    /// done their work: who joins gets new ones.
    func discard() throws {
        guard phase == .member else { return }
        let settled = merging.settledOwn
        messagesBefore.removeFirst(messagesBefore.prefix { $0.transaction <= settled }.count)
        let last = messagesBefore.first?.message ?? (nextNumber - 1)
        guard outgoing.isEmpty, last >= discarded + Self.discardDistance else { return }
        try courier.discard(through: last)
        discarded = last
    }

    private static let discardDistance: UInt64 = 1000
}
