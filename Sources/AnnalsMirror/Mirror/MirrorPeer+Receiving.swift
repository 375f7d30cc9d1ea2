// Receiving messages, merging, and asking for what is missing.

internal import Annals
internal import FoundationEssentials

extension MirrorPeer {
    /// Throws `storeRestored` and `storeCopied`.
    func receive(_ incoming: IncomingMessage) throws {
        guard let sender = UUID(uuidString: incoming.sender), let message = message(in: incoming) else { return }
        if sender == me {
            try receiveOwn(message)
        } else {
            receive(message, from: sender)
            if let number = Self.ownNumber(in: message, me) {
                try ownHistory.requireKnown(number, newest: store.snapshot().token.number)
            }
            if case .receipt(let receipt) = message.content, let token = receipt.token(of: me) {
                unchecked[sender] = token
            }
        }
    }

    /// Nil for a part, and for a damaged message: it counts as lost, and its transaction is requested again.
    private func message(in incoming: IncomingMessage) -> MirrorMessage? {
        switch try? MessageBody(incoming.body) {
        case .whole(let message)?: message
        case .part(let part)?: try? joiner.add(part, sender: incoming.sender, number: incoming.number)?.message
        case nil: nil
        }
    }

    /// The last transaction of this store that another one has, by its message.
    private static func ownNumber(in message: MirrorMessage, _ me: UUID) -> UInt64? {
        switch message.content {
        case .transaction(let message): message.knowledge[me] > 0 ? message.knowledge[me] : nil
        case .receipt(let receipt): receipt.applied[me] > 0 ? receipt.applied[me] : nil
        default: nil
        }
    }

    /// Compares the last receipts with the own history. A peer with other transactions applies no more of this store,
    /// so it is enough to look from time to time.
    ///
    /// - Parameter all: Whether to look now.
    func checkReceipts(all: Bool) throws {
        guard !unchecked.isEmpty, all || clock() >= nextCheck else { return }
        defer { (unchecked, nextCheck) = ([:], clock() + Self.checkSeconds) }
        for token in unchecked.values { try requireKnown(token) }
    }

    private static let checkSeconds = 1.0

    private func requireKnown(_ token: HistoryToken) throws {
        try ownHistory.requireKnown(token, newest: store.snapshot().token.number) {
            (number) throws(StoreError) in try store.tag(ofTransaction: number)
        }
    }

    private func receiveOwn(_ message: MirrorMessage) throws {
        switch message.content {
        case .join(let join):
            do {
                try ownHistory.see(join)
            } catch {
                // So that the other mirror notices it, too.
                try announce()
                try courier.append(outgoing)
                throw error
            }
            if join.instance == instance { try catchUp() }
        case .transaction(let message):
            let token = message.transaction.token
            if !hasCaughtUp, token.number > newestOwn?.number ?? 0 { newestOwn = token }
        default: break
        }
    }

    /// The messages that were there when this run began are read.
    func catchUp() throws {
        guard !hasCaughtUp else { return }
        if let newestOwn { try requireKnown(newestOwn) }
        try checkReceipts(all: true)
        hasCaughtUp = true
    }

    private func receive(_ message: MirrorMessage, from sender: UUID) {
        members.saw(sender, at: Date.now.timeIntervalSince1970)
        lastHeard[sender] = clock()
        members.note(sender, newest: message.published)
        switch message.content {
        case .transaction(let message):
            let number = message.transaction.token.number
            let writer = message.transaction.store
            (highestHeard, hasHeardGroup) = (max(highestHeard, message.lamport), true)
            guard writer != me else { return }
            members.note(writer, newest: number)
            for entry in message.knowledge.entries { members.note(entry.peer, newest: entry.number) }
            guard phase != .waitsForState, receives, number > merging.knowledge[writer] else { return }
            waiting[writer, default: WaitingTransactions()].insert(message)
        case .receipt(let receipt):
            highestHeard = max(highestHeard, receipt.lamport)
            // One that waits for a state only promises.
            if !receipt.applied.entries.isEmpty || !receipt.members.peers.isEmpty { hasHeardGroup = true }
            members.receive(receipt, from: sender, knowledge: merging.knowledge)
        case .request(let requests): for request in requests { note(request) }
        case .join(let message):
            members.join(sender, name: message.name)
            // The store that joins needs a receipt of this one.
            lastReceipt = nil
        case .leave(let message):
            members.depart(message.lost ?? sender)
        case .stateRequest(let source):
            members.wantsState(sender)
            if source == me { stateRequests[sender, default: 0] += 1 }
        case .state(let message): if phase == .waitsForState { announced = (message, sender) }
        case .statePart, .skipped: break
        }
    }

    /// The writer answers. If it does not, every member does that has its transactions.
    private func note(_ request: RequestedNumbers) {
        if request.peer == me {
            // The peer that asks may lack the last receipt, too.
            lastReceipt = nil
            if requested.count < Self.mostRequests { requested.append(request.numbers) }
        } else if request.numbers != Self.receiptRequest,
            members.answers(for: request.peer, request.numbers.lowerBound) || isSilent(request.peer)
        {
            requestedOfOthers[request.peer] = request.numbers
        }
    }

    /// Whether a peer has sent nothing for a while.
    private func isSilent(_ peer: UUID) -> Bool { clock() - (lastHeard[peer] ?? 0) > Self.silentSeconds }

    private static let silentSeconds = 20.0
    /// No transaction has this number: a request for the receipt alone.
    private static let receiptRequest = UInt64.max...UInt64.max
    private static let mostRequests = 1000

    // MARK: Merging

    /// Merges, for some time, everything whose predecessors are here (MI1). A transaction that cannot be merged holds
    /// up only those that need it.
    func mergeWaiting() -> Bool {
        hasMoreToMerge = false
        guard phase == .member, receives else { return false }
        var hasMerged = false
        var goesOn = true
        obstacles = [:]
        let end = clock() + Self.mergingSeconds
        while goesOn {
            goesOn = false
            for writer in waiting.keys.sorted(by: VersionVector.isBefore) where obstacles[writer] == nil {
                while let message = nextReady(of: writer) {
                    if hasMerged, clock() >= end {
                        hasMoreToMerge = true
                        return true
                    }
                    do {
                        note(try merging.merge(message.transaction, lamport: message.lamport) ?? [])
                    } catch {
                        obstacles[writer] = error as? StoreError ?? StoreError(.damaged, "\(error)")
                        break
                    }
                    waiting[writer]?.removeFirst()
                    members.merged(writer, from: Double(message.transaction.microseconds) / 1e6)
                    members.raiseBound(of: writer, to: message.lamport + 1)
                    (hasMerged, goesOn) = (true, true)
                }
            }
        }
        return hasMerged
    }

    func note(_ lost: [MergeConflict]) {
        conflicts += lost
        conflictCount += lost.count
    }

    /// Whether a peer's transactions up to a number are merged, or are here.
    func has(_ writer: UUID, _ number: UInt64) -> Bool { chain(of: writer).end >= number }

    /// The last transaction of a peer that is here together with all before it, and the numbers before which the next
    /// one that is here comes.
    private func chain(of writer: UUID) -> (end: UInt64, gap: UInt64?) {
        var end = merging.knowledge[writer]
        guard let waiting = waiting[writer] else { return (end, nil) }
        for message in waiting.all {
            let previous = message.transaction.previous?.number ?? 0
            if previous > end { return (end, previous) }
            end = max(end, message.transaction.token.number)
        }
        return (end, nil)
    }

    private func nextReady(of writer: UUID) -> TransactionMessage? {
        let known = merging.knowledge[writer]
        while let first = waiting[writer]?.first, first.transaction.token.number <= known {
            waiting[writer]?.removeFirst()
        }
        guard let message = waiting[writer]?.first else { return nil }
        let first = message.transaction.token.number
        guard message.transaction.previous?.number ?? 0 <= known, members.accepts(first, of: writer, known: known)
        else {
            return nil
        }
        let isReady = message.knowledge.entries.allSatisfy { $0.peer == me || merging.knowledge[$0.peer] >= $0.number }
        return isReady ? message : nil
    }

    // MARK: Asking again

    /// By peer: the numbers of transactions that are missing here.
    var missing: [RequestedNumbers] {
        guard receives else { return [] }
        return members.all.keys.sorted(by: VersionVector.isBefore).compactMap { peer in
            let (known, gap) = chain(of: peer)
            let last = members.last(of: peer, known: merging.knowledge[peer])
            let end = min(gap ?? last, last)
            return end > known ? RequestedNumbers(peer: peer, numbers: (known + 1)...end) : nil
        }
    }

    /// The peers that have not confirmed everything send their receipts again, which may be lost.
    private var unconfirmed: [RequestedNumbers] {
        members.present.compactMap { peer in
            guard phase == .member, let member = members[peer], member.applied[me] < published else { return nil }
            return RequestedNumbers(peer: peer, numbers: Self.receiptRequest)
        }
    }

    /// If something is missing, or not confirmed, for a while: requests it, and repeats the receipt, which names the
    /// newest transaction. The pauses grow until something comes.
    func remind(hasProgress: Bool) throws {
        if hasProgress { reminderSeconds = Self.firstReminderSeconds }
        let now = clock()
        let missing = phase == .waitsForState ? [] : missing
        guard !missing.isEmpty || isUnconfirmed || phase != .member || !stateRequests.isEmpty else {
            nextReminder = now + Self.firstReminderSeconds
            return
        }
        guard now >= nextReminder else { return }
        let requests = missing + unconfirmed.filter { request in !missing.contains { $0.peer == request.peer } }
        if !requests.isEmpty { try send(.request(requests)) }
        switch phase {
        case .listens: try announce()
        case .waitsForState: try askForState()
        case .leaves: try sendLeaving()
        case .member: try sendReceipt()
        }
        nextReminder = now + reminderSeconds
        reminderSeconds = min(reminderSeconds * 2, Self.longestReminderSeconds)
    }

    // MARK: Status

    /// The other stores of the group, by identifier.
    package var known: [MirrorMember] {
        var record = merging.savedRecord
        fill(&record)
        return record.known(me)
    }

    /// A store that joins numbers its own transactions from this much above the highest number that it has read. So
    /// they come after everything that the group has settled, unless the group has made as many since.
    package static let joiningDistance: UInt64 = 1 << 32
}
