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
        acknowledged = published
        bytesSent += outgoing.reduce(0) { $0 + UInt64($1.body.count) }
        outgoing = []
    }

    /// A power failure must not take back what the group has got, or that this store has confirmed.
    private func makeDurable() throws {
        let token = try store.snapshot().token
        guard token != durable else { return }
        try store.waitUntil(token, durable: true)
        durable = token
    }

    /// Some of the own transactions that are not published: each step sends more.
    func sendOwn() throws {
        guard phase == .member, hasCaughtUp else { return }
        guard publishes else {
            _ = try merging.looked()
            return
        }
        if unsent.isEmpty { unsent = try merging.takeOwn() }
        var count = 0
        defer { unsent.removeFirst(count) }
        for own in unsent {
            let number = own.transaction.token.number
            if nextNumber > (messagesBefore.last?.message ?? discarded) + Self.messagesBetween {
                messagesBefore.append((number, nextNumber - 1))
            }
            try send(.transaction(TransactionMessage(own)))
            published = number
            count += 1
        }
    }

    /// The effect of the direction on the group, for people; nil if there is none.
    var waits: String? {
        guard phase == .member else { return nil }
        return switch direction {
        case .both: nil
        case .publish: "This mirror only publishes: the other stores keep the history that this one lacks."
        case .receive:
            merging.hasOwn(after: published)
                ? "This mirror only receives: transactions of this store wait, and all stores keep their history since "
                    + "the first of them." : nil
        }
    }

    private static let messagesBetween: UInt64 = 100

    func send(_ content: MirrorMessage.Content) throws {
        // A store that joins has published nothing, also if its history begins later.
        let message = MirrorMessage(published: phase == .member || phase == .leaves ? published : 0, content)
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
        phase == .member && unsent.isEmpty && outgoing.isEmpty && !merging.isUnpublished
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

    /// MM1: the transactions of this store that are still to come have higher numbers in the group's order.
    var promised: UInt64 { unsent.first.map { $0.lamport - 1 } ?? merging.promised }

    func sendReceipt() throws {
        guard hasCaughtUp else { return }
        // Usually that is all that has a number in the group's order.
        try sendOwn()
        // The group relies on who is a member for this store: it must not forget that.
        if merging.savedRecord.hasOtherGroup(than: members) { try save() }
        let applied = applied
        let receipt = ReceiptMessage(
            applied: applied, tags: try merging.tags(of: applied), lamport: promised,
            microseconds: Int64(Date.now.timeIntervalSince1970 * 1_000_000),
            settled: merging.settledContents, members: PeerSet(members.present), departed: PeerSet(members.departed))
        try send(.receipt(receipt))
        lastReceipt = receipt
    }

    // MARK: Answers

    /// Sends requested transactions again: a bounded number. The rest is requested again.
    func answerRequests() throws {
        let (own, others) = (requested, requestedOfOthers)
        (requested, requestedOfOthers) = ([], [:])
        var last: UInt64 = 0
        var count = 0
        for numbers in own.sorted(by: { $0.lowerBound < $1.lowerBound }) where count < Self.mostAnswers {
            // Each once, and none that is still to be published.
            let (start, end) = (max(numbers.lowerBound, last + 1), min(numbers.upperBound, published))
            guard start <= end else { continue }
            try answer(start...end, of: me, &count)
            last = end
        }
        for (writer, numbers) in others.sorted(by: { VersionVector.isBefore($0.key, $1.key) }) {
            count = 0
            try answer(numbers, of: writer, &count)
        }
    }

    private func answer(_ numbers: ClosedRange<UInt64>, of writer: UUID, _ count: inout Int) throws {
        try merging.forEachMessage(from: writer, numbers) { message in
            try send(.transaction(message))
            count += 1
            return count < Self.mostAnswers
        }
    }

    private static let mostAnswers = 1000

    /// Frees the messages before the first transaction that not every member has. Receipts and requests among them have
    /// done their work: who joins gets new ones.
    func discard() throws {
        guard phase == .member else { return }
        let settled = merging.settledOwn
        let end = messagesBefore.partitioningIndex { $0.transaction > settled }
        let last: UInt64
        if settled >= published {
            last = nextNumber - 1
        } else if end > messagesBefore.startIndex {
            last = messagesBefore[end - 1].message
        } else {
            return
        }
        messagesBefore.removeFirst(end - messagesBefore.startIndex)
        guard outgoing.isEmpty, last >= discarded + Self.discardDistance else { return }
        try courier.discard(through: last)
        discarded = last
    }

    private static let discardDistance: UInt64 = 1000
}
