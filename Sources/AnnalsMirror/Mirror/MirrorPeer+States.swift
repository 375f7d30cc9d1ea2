// Joining a group, if necessary from a state: a store that lacks transactions that no member sends any more asks a
// member for a state.
//
// A member makes the state of a place that no transaction still to come is before. It knows of the store that joins, so
// it keeps everything after that place until this store has it. And it confirms nothing more without naming that
// store. So no member can settle a transaction that the store cannot get.

package import Annals
internal import FoundationEssentials

extension MirrorPeer {
    // MARK: The store that joins

    /// Begins to mirror a store, or goes on.
    ///
    /// - Parameters:
    ///   - number: Of the first message: above those of earlier mirrors of the store.
    ///   - name: For people.
    ///   - instance: A random number.
    ///   - direction: Once the store is a member.
    ///   - localEntities: Nil for those that were local before.
    ///   - clock: Returns seconds; it never goes back.
    package static func begin(
        _ store: Store, _ courier: any Courier, firstNumber number: UInt64, name: String = "", instance: UInt64,
        direction: Mirror.Direction = .both, localEntities: [String]? = nil, clock: @escaping () -> Double
    ) throws -> MirrorPeer {
        // Before anything holds history for it.
        if try MirrorRecord.load(store)?.hasLeft == true { throw leftGroup(store) }
        let peer = MirrorPeer(
            try MergingStore(store, localEntities: localEntities), courier, firstNumber: number, name: name,
            instance: instance,
            direction: direction, clock: clock)
        // Before a message of this run is sent.
        try peer.save()
        try peer.announce()
        return peer
    }

    /// Goes on from one phase to the next.
    func join(_ batch: IncomingBatch) throws {
        switch phase {
        case .listens(let end):
            if members.needsState(merging.knowledge, of: me), members.isComplete({ _, _ in true }) {
                waitForState()
            } else if members.isComplete(has) {
                try becomeMember()
            } else if !members.hasMember, batch.messages.isEmpty, clock() >= end {
                try becomeMember()
            }
        case .member:
            // Just after it has joined, it may lack some of them: those that have them send them.
            guard receives, reminderSeconds >= Self.longestReminderSeconds,
                members.needsState(merging.knowledge, of: me)
            else { return }
            throw StoreError(
                .groupConflict,
                "The group has settled transactions that this store lacks: it was founded twice, or this store was "
                    + "restored from a backup. Keep one of both: join with a new store, and bring what only this one "
                    + "has into it (annals export, annals apply).", path: store.path)
        case .leaves: break
        case .waitsForState:
            if !members.needsState(merging.knowledge, of: me) {
                // Those that had settled something are gone.
                phase = .listens(until: clock() + Self.listeningSeconds)
                return
            }
            guard let (message, sender) = announced else { return }
            announced = nil
            // A member that does not know of this store does not keep later transactions for it. Nor does it have those
            // after a state that it made before, for another store.
            guard let member = members[sender], member.members.contains(me),
                member.settled.entries.allSatisfy({ $0.peer == me || $0.number <= message.knowledge[$0.peer] })
            else { return }
            if try apply(message) { begin() }
        }
    }

    private func waitForState() {
        phase = .waitsForState
        waiting = [:]
        (nextReminder, reminderSeconds) = (clock(), Self.firstReminderSeconds)
    }

    private func becomeMember() throws {
        if hasHeardGroup, merging.savedRecord.first.published != nil { try requireWholeHistory() }
        let lowest = highestHeard > 0 ? highestHeard + Self.joiningDistance : 0
        merging = try MergingStore.admitted(store, above: lowest) { fill(&$0) }
        begin()
    }

    private func begin() {
        phase = .member
        published = publishedBefore
        if !receives { waiting = [:] }
        (unsent, messagesBefore) = ([], [])
        lastReceipt = nil
        reminderSeconds = Self.firstReminderSeconds
    }

    /// Each time another one: the last may be off.
    func askForState() throws {
        let sources = members.stateSources
        guard !sources.isEmpty else { return }
        try promise()
        try send(.stateRequest(of: sources[stateAttempts % sources.count]))
        stateAttempts += 1
    }

    /// MM1: a state that a member makes while this store waits, for it or for another one, may have everything up to a
    /// number. All transactions of this store come after that, also if it takes another state. So it promises the
    /// number in a receipt that confirms nothing, and keeps it.
    private func promise() throws {
        if merging.savedRecord.lowest <= highestHeard {
            let lowest = highestHeard + Self.joiningDistance
            try merging.save {
                fill(&$0)
                $0.lowest = lowest
            }
        }
        try send(
            .receipt(
                ReceiptMessage(
                    applied: VersionVector(), tags: [], lamport: merging.savedRecord.lowest,
                    microseconds: Int64(Date.now.timeIntervalSince1970 * 1_000_000), settled: VersionVector(),
                    members: PeerSet([]), departed: PeerSet([]))))
    }

    /// A store that joins a group brings its objects by its transactions.
    private func requireWholeHistory() throws {
        let snapshot = try store.snapshot()
        let isWhole =
            try store.oldestToken.number == 0
            && snapshot.entities.allSatisfy { entity in
                try entity.history == .full || merging.local.numbers.contains(snapshot.entity(entity.name).number)
            }
        if isWhole { return }
        throw StoreError(
            .mirrorNeedsEmptyStore,
            "This store has objects, and its history does not begin with them: join with a new store, and bring its "
                + "objects into it (annals export, annals apply).", path: store.path)
    }

    private struct NoState: Error {}

    private static let patientRequests = 3

    /// Returns false if the courier does not have the state any more, or another one.
    private func apply(_ message: StateMessage) throws -> Bool {
        var joiner = StatePartJoiner()
        let (local, names) = (merging.local, try merging.localNames(in: store.snapshot()))
        let lowest = max(merging.savedRecord.lowest, message.lamport + Self.joiningDistance)
        do {
            try store.applyMergedState(
                keeping: local.numbers,
                record: { number, hadObjects throws in
                    if hadObjects { try requireWholeHistory() }
                    var knowledge = message.knowledge
                    knowledge[me] = 0
                    var record = MirrorRecord(
                        first: MergePlace(number: number, lamport: message.lamport, knowledge: knowledge),
                        lowest: lowest)
                    (record.isAdmitted, record.local) = (true, local)
                    if hadObjects { record.remaking = MirrorRecord.Remaking(after: 0, end: number - 1) }
                    fill(&record)
                    record.place = nil
                    return try record.stored()
                },
                { apply in
                    try withoutActuallyEscaping(apply) { apply in
                        let isThere = try courier.fetchState(named: message.name) { body in
                            guard let part = try joiner.add(body) else { return }
                            guard joiner.message == message else { throw NoState() }
                            try apply(try names.admitted(part))
                        }
                        if !isThere { throw NoState() }
                    }
                })
        } catch is NoState {
            return false
        } catch let error as StoreError where error.code == .courierDamaged || error.code == .exportMalformed {
            return false
        }
        merging = try MergingStore(store)
        return true
    }

    // MARK: The store that has a state

    /// Makes a state for all that have asked, as soon as it is enough for one of them.
    func answerStateRequests() throws {
        stateRequests = stateRequests.filter { peer, _ in
            members[peer]?.wantsState == true && members[peer]?.hasLeft == false
        }
        guard !stateRequests.isEmpty, phase == .member,
            // Without own transactions that only this store has: the store that joins could not send them again.
            let bound = members.bound(promised, merging.knowledge, isForState: true)
        else { return }
        let place = try merging.place(before: bound)
        let contents = place.contents(me)
        // A state that makes this peer unnecessary afterwards is better. But a member that is off must not hold it up.
        let isUrgent = stateRequests.values.contains { $0 > Self.patientRequests }
        guard place.number > 0, isUrgent || !members.needsState(contents, of: me) else { return }
        let snapshot = try merging.snapshot(at: place)
        let message = StateMessage(
            name: "state-\(me.uuidString)", knowledge: contents, lamport: place.lamport)
        var bodies = try StateBodies(
            of: store, in: snapshot, without: merging.local, about: message,
            maximumBodyBytes: try courier.maximumBodyBytes)
        try courier.storeState(named: message.name) { try bodies.next() }
        // It shows that this peer knows of the stores that have asked.
        try sendReceipt()
        try send(.state(message))
        stateRequests = [:]
    }
}
