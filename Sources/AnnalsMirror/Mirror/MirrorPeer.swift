// A peer of a group: publishes the transactions of its store, and merges those of the others.
//
// A courier may lose, double, delay and reorder messages. The peer finds missing transactions by their numbers and
// requests them, until each peer has confirmed each transaction.
//
// Invariants:
// MI1  A transaction is merged after its predecessor from the same peer, and after everything that its writer knew.
// MI2  `unconfirmed` has each published transaction until every known peer has confirmed it.
// MI3  No transaction of a peer that is still to come is before its bound in the group's order.

package import Annals
package import FoundationEssentials

/// For one thread.
package final class MirrorPeer {
    private let merging: MergingStore
    private let courier: any Courier
    /// Seconds of a clock that never goes back.
    private let clock: () -> Double
    private var me: UUID { merging.store.identifier }

    // Sending.
    private var nextNumber: UInt64
    /// Own transactions that are not in a message yet.
    private var unsent: [OwnTransaction] = []
    /// The last own transaction in earlier messages.
    private var published: UInt64 = 0
    /// Messages that the courier has not acknowledged.
    private var outgoing: [OutgoingMessage] = []
    /// By number (MI2).
    private var unconfirmed: [UInt64: TransactionMessage] = [:]
    private var lastReceipt: ReceiptMessage?

    // Receiving.
    private var place: CourierPlace?
    private var joiner = MessageJoiner(maximumBytes: 32 << 20)
    /// Transactions that cannot be merged yet, by peer and by the number of their predecessor.
    private var waiting: [UUID: [UInt64: TransactionMessage]] = [:]
    /// Own transactions that others have requested in this step.
    private var requested: Set<UInt64> = []
    /// By peer: why its next transaction could not be merged. It is tried again in each step.
    package private(set) var obstacles: [UUID: StoreError] = [:]
    private var peers: [UUID: Peer] = [:]
    /// The conflicts since the last look.
    private var conflicts: [MergeConflict] = []

    // Asking again.
    private var nextReminder: Double
    private var reminderSeconds = MirrorPeer.firstReminderSeconds

    private static let firstReminderSeconds = 1.0
    private static let longestReminderSeconds = 64.0
    private static let batchBytes = 1 << 20

    /// The facts known about another peer.
    private struct Peer {
        /// The transactions that it has applied, by its last receipt.
        var applied = VersionVector()
        /// Its highest transaction that any message has named.
        var newest: UInt64 = 0
        /// MI3.
        var bound: Stamp
    }

    /// - Parameters:
    ///   - members: The other stores of the group.
    ///   - number: Of the first message: above those of earlier mirrors of the store.
    ///   - clock: Returns seconds; it never goes back.
    package init(
        _ merging: MergingStore, _ courier: any Courier, members: [UUID], firstNumber number: UInt64 = 1,
        clock: @escaping () -> Double
    ) {
        (self.merging, self.courier, self.clock) = (merging, courier, clock)
        nextNumber = number
        published = merging.settledOwn
        for member in members where member != merging.store.identifier {
            peers[member] = Peer(bound: Stamp(0, member))
        }
        nextReminder = clock() + Self.firstReminderSeconds
    }

    /// Whether every known peer has everything that this one knows of, and this one has all that it has heard of.
    package var isQuiet: Bool { outgoing.isEmpty && unconfirmed.isEmpty && missing.isEmpty && !isReceiptDue }

    /// Publishes what is new here, reads what has come, and merges what can be merged.
    ///
    /// - Parameters:
    ///   - seconds: How long to wait for messages if nothing is to be published.
    ///   - waits: Called with true before the wait, and with false after it.
    /// - Returns: Whether anything has happened. Throws the courier's errors; call it again after them.
    @discardableResult
    package func step(waitSeconds seconds: Double = 0, waits: (Bool) -> Void = { _ in }) throws -> Bool {
        try publish()
        waits(true)
        let batch: IncomingBatch
        do {
            defer { waits(false) }
            // A transaction that came before the wait began has ended no wait.
            let isIdle = try !merging.hasNews
            batch = try courier.messages(
                after: place, maximumBytes: Self.batchBytes, waitSeconds: isIdle ? seconds : 0)
        }
        for message in batch.messages { receive(message) }
        try answerRequests()
        let hasMerged = mergeWaiting()
        // Only now: after an error the same messages are read again.
        place = batch.place
        settle()
        try remind(hasProgress: hasMerged)
        try publish()
        return hasMerged || !batch.messages.isEmpty
    }

    // MARK: Publishing

    private func publish() throws {
        try sendOwn()
        if isReceiptDue { try sendReceipt() }
        guard !outgoing.isEmpty else { return }
        try courier.append(outgoing)
        outgoing = []
    }

    private func sendOwn() throws {
        unsent += try merging.takeOwn()
        while let own = unsent.first {
            let message = TransactionMessage(
                lamport: own.lamport, knowledge: own.knowledge, isKnowledgeComplete: true,
                transaction: own.transaction)
            unconfirmed[own.transaction.token.number] = message
            try send(.transaction(message))
            published = own.transaction.token.number
            unsent.removeFirst()
        }
    }

    private func send(_ content: MirrorMessage.Content) throws {
        let message = MirrorMessage(published: published, content)
        for body in try MessagePart.bodies(of: message, maximumBodyBytes: try courier.maximumBodyBytes) {
            outgoing.append(OutgoingMessage(number: nextNumber, body: body))
            nextNumber += 1
        }
    }

    /// Everything that this peer has, its own transactions included.
    private var applied: VersionVector {
        var applied = merging.knowledge
        if published > 0 { applied[me] = published }
        return applied
    }

    private var isReceiptDue: Bool { !applied.entries.isEmpty && lastReceipt?.applied != applied }

    private func sendReceipt() throws {
        // MI3: a receipt promises that the next transaction has a higher number. So those that have one go first.
        try sendOwn()
        let receipt = ReceiptMessage(applied: applied, lamport: merging.lamport, microseconds: 0)
        try send(.receipt(receipt))
        lastReceipt = receipt
    }

    // MARK: Receiving

    private func receive(_ incoming: IncomingMessage) {
        guard let sender = UUID(uuidString: incoming.sender), sender != me else { return }
        do throws(StoreError) {
            switch try MessageBody(incoming.body) {
            case .whole(let message): receive(message, from: sender)
            case .part(let part):
                let joined = try joiner.add(part, sender: incoming.sender, number: incoming.number)
                if let joined { receive(joined.message, from: sender) }
            }
        } catch {
            // A damaged message counts as lost: its transaction is requested again.
        }
    }

    private func receive(_ message: MirrorMessage, from sender: UUID) {
        note(sender, newest: message.published)
        switch message.content {
        case .transaction(let message):
            let number = message.transaction.token.number
            let writer = message.transaction.store
            guard writer != me else { return }
            note(writer, newest: number)
            for entry in message.knowledge.entries { note(entry.peer, newest: entry.number) }
            guard number > merging.knowledge[writer] else { return }
            waiting[writer, default: [:]][message.transaction.previous?.number ?? 0] = message
        case .receipt(let receipt): receive(receipt, from: sender)
        case .request(let requests):
            for request in requests where request.peer == me && requested.count < unconfirmed.count {
                requested.formUnion(unconfirmed.keys.filter { request.numbers.contains($0) })
            }
        case .join: if peers[sender] == nil { peers[sender] = Peer(bound: Stamp(0, sender)) }
        case .state, .leave, .statePart, .skipped: break
        }
    }

    private func note(_ peer: UUID, newest number: UInt64) {
        guard peer != me, number > 0 else { return }
        var facts = peers[peer] ?? Peer(bound: Stamp(0, peer))
        facts.newest = max(facts.newest, number)
        peers[peer] = facts
    }

    private func raiseBound(of peer: UUID, to lamport: UInt64) {
        guard let bound = peers[peer]?.bound else { return }
        peers[peer]?.bound = max(bound, Stamp(lamport, peer))
    }

    private func receive(_ receipt: ReceiptMessage, from sender: UUID) {
        for entry in receipt.applied.entries { note(entry.peer, newest: entry.number) }
        var peer = peers[sender] ?? Peer(bound: Stamp(0, sender))
        for entry in receipt.applied.entries where entry.number > peer.applied[entry.peer] {
            peer.applied[entry.peer] = entry.number
        }
        peer.newest = max(peer.newest, receipt.applied[sender])
        // Its next transaction has a higher number than all that it knew.
        if merging.knowledge[sender] >= receipt.applied[sender] {
            peer.bound = max(peer.bound, Stamp(receipt.lamport + 1, sender))
        }
        peers[sender] = peer
        let confirmed = peers.values.map { $0.applied[me] }.min() ?? 0
        for number in unconfirmed.keys where number <= confirmed { unconfirmed[number] = nil }
    }

    /// Sends requested transactions again: each once, and a bounded number. The rest is requested again.
    private func answerRequests() throws {
        let numbers = requested.sorted().prefix(Self.mostAnswers)
        requested = []
        for number in numbers { if let message = unconfirmed[number] { try send(.transaction(message)) } }
    }

    private static let mostAnswers = 1000

    // MARK: Merging

    /// Merges everything whose predecessors are here (MI1). A transaction that cannot be merged holds up only those
    /// that need it.
    private func mergeWaiting() -> Bool {
        var hasMerged = false
        var goesOn = true
        obstacles = [:]
        while goesOn {
            goesOn = false
            for writer in waiting.keys.sorted(by: VersionVector.isBefore) where obstacles[writer] == nil {
                while let message = nextReady(of: writer) {
                    do {
                        conflicts += try merging.merge(message.transaction, lamport: message.lamport) ?? []
                    } catch {
                        obstacles[writer] = error as? StoreError ?? StoreError(.damaged, "\(error)")
                        break
                    }
                    waiting[writer]?[message.transaction.previous?.number ?? 0] = nil
                    raiseBound(of: writer, to: message.lamport + 1)
                    (hasMerged, goesOn) = (true, true)
                }
            }
        }
        return hasMerged
    }

    private func nextReady(of writer: UUID) -> TransactionMessage? {
        guard let message = waiting[writer]?[merging.knowledge[writer]] else { return nil }
        let isReady = message.knowledge.entries.allSatisfy { $0.peer == me || merging.knowledge[$0.peer] >= $0.number }
        return isReady ? message : nil
    }

    private func settle() {
        // Without peers nobody knows who may come.
        guard !peers.isEmpty else { return }
        var stable = peers.values.map(\.bound).reduce(Stamp(merging.lamport + 1, me), min)
        // A new mirror of this store must publish again what is not confirmed.
        if let lowest = unconfirmed.values.map(\.lamport).min() { stable = min(stable, Stamp(lowest, me)) }
        merging.settle(below: stable)
    }

    /// Keeps the place from which a new mirror of the store goes on.
    package func save() throws { try merging.save() }

    /// Tells the group that this peer is here.
    package func join(name: String, instance: UInt64) throws {
        try send(.join(PeerMessage(peer: me, name: name, versions: 1...1, instance: instance)))
    }

    /// The highest number that any message of the courier has: a store that joins takes higher ones for what it has.
    package static func highestNumber(_ courier: any Courier) throws -> UInt64 {
        var (place, highest) = (CourierPlace?.none, UInt64(0))
        while true {
            let batch = try courier.messages(after: place, maximumBytes: batchBytes, waitSeconds: 0)
            for incoming in batch.messages {
                guard case .whole(let message)? = try? MessageBody(incoming.body) else { continue }
                switch message.content {
                case .transaction(let transaction): highest = max(highest, transaction.lamport)
                case .receipt(let receipt): highest = max(highest, receipt.lamport)
                default: continue
                }
            }
            if batch.messages.isEmpty, batch.place == place || !batch.beganAgain { return highest }
            place = batch.place
        }
    }

    /// A store that joins numbers its own transactions from this much above the highest number that it has read. So
    /// they come after everything that the group has settled, unless the group has made as many since.
    package static let joiningDistance: UInt64 = 1 << 32

    // MARK: Status

    /// For each other peer: its last transaction here, and the last own one that it has confirmed.
    package var known: [(peer: UUID, merged: UInt64, newest: UInt64, confirmed: UInt64)] {
        peers.keys.sorted(by: VersionVector.isBefore).map { peer in
            (peer, merging.knowledge[peer], peers[peer]?.newest ?? 0, peers[peer]?.applied[me] ?? 0)
        }
    }

    package var publishedNumber: UInt64 { published }

    package func takeConflicts() -> [MergeConflict] {
        defer { conflicts = [] }
        return conflicts
    }

    // MARK: Asking again

    /// By peer: the numbers of transactions that are missing here.
    private var missing: [RequestedNumbers] {
        peers.keys.sorted(by: VersionVector.isBefore).compactMap { peer in
            let (known, newest) = (merging.knowledge[peer], peers[peer]?.newest ?? 0)
            guard newest > known else { return nil }
            // Those that wait for others are here, from the one after the first missing one on.
            let end = waiting[peer]?.keys.filter { $0 >= known }.min() ?? newest
            return end > known ? RequestedNumbers(peer: peer, numbers: (known + 1)...end) : nil
        }
    }

    /// If something is missing, or not confirmed, for a while: requests it, and repeats the receipt, which names the
    /// newest transaction. The pauses grow until something comes.
    private func remind(hasProgress: Bool) throws {
        if hasProgress { reminderSeconds = Self.firstReminderSeconds }
        let now = clock()
        let missing = missing
        guard !missing.isEmpty || !unconfirmed.isEmpty else {
            nextReminder = now + Self.firstReminderSeconds
            return
        }
        guard now >= nextReminder else { return }
        if !missing.isEmpty { try send(.request(missing)) }
        try sendReceipt()
        nextReminder = now + reminderSeconds
        reminderSeconds = min(reminderSeconds * 2, Self.longestReminderSeconds)
    }
}
