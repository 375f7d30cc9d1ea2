// A peer of a group: publishes the transactions of its store, and merges those of the others.
//
// A courier may lose, double, delay and reorder messages. The peer finds missing transactions by their numbers and
// requests them, until each peer has confirmed each transaction. `MirrorMembers` decides everything about the others.
//
// Invariants:
// MI1  A transaction is merged after its predecessor from the same peer, and after everything that its writer knew.
// MI2  A published transaction stays in the window of the store until every member has confirmed it.
// MI3  A peer that is not admitted to the group neither publishes nor merges: its transactions come after all that the
//      group has settled.
// MI4  A store that only publishes confirms nothing new, and one that only receives promises nothing above its first
//      transaction that waits. So the group keeps everything that they still need, or will still send.

public import Annals
package import FoundationEssentials

/// For one thread.
package final class MirrorPeer {
    let store: Store
    var merging: MergingStore
    let courier: any Courier
    /// Seconds of a clock that never goes back.
    let clock: () -> Double
    var me: UUID { store.identifier }
    /// For people.
    let name: String
    /// A random number of this run.
    let instance: UInt64
    /// Kept in the record.
    package var mark: StoreMark?

    /// A store that joins takes what it needs for that in any case.
    var direction: Mirror.Direction
    var publishes: Bool { direction != .receive }
    var receives: Bool { direction != .publish || phase != .member }

    // Sending.
    var nextNumber: UInt64
    /// Own transactions that are not in a message yet.
    var unsent: [OwnTransaction] = []
    /// The last own transaction in earlier messages.
    var published: UInt64 = 0
    /// The last own transaction in messages that the courier has acknowledged.
    var acknowledged: UInt64 = 0
    /// Messages that the courier has not acknowledged.
    var outgoing: [OutgoingMessage] = []
    /// Bytes of messages since the last look.
    var (bytesSent, bytesReceived): (UInt64, UInt64) = (0, 0)
    /// For some own transactions, the last message before each: once each member has the transaction, these may go.
    var messagesBefore: ArraySlice<(transaction: UInt64, message: UInt64)> = []
    var discarded: UInt64 = 0
    var lastReceipt: ReceiptMessage?
    /// The last transaction that is known to survive a power failure.
    var durable: HistoryToken?

    // Receiving.
    var place: CourierPlace?
    var joiner = MessageJoiner(maximumBytes: MirrorPeer.unfinishedBytes)
    /// Transactions that cannot be merged yet, by peer.
    var waiting: [UUID: WaitingTransactions] = [:]
    /// Own transactions that others have requested in this step.
    var requested: [ClosedRange<UInt64>] = []
    /// The same for transactions of stores that do not answer.
    var requestedOfOthers: [UUID: ClosedRange<UInt64>] = [:]
    /// Whether a step has ended before everything was merged that could be.
    var hasMoreToMerge = false
    /// When each peer was heard of last, by `clock`.
    var lastHeard: [UUID: Double] = [:]
    /// By peer: why its next transaction could not be merged. It is tried again in each step.
    package internal(set) var obstacles: [UUID: StoreError] = [:]
    package internal(set) var members: MirrorMembers
    /// The conflicts since the last look.
    var conflicts: [MergeConflict] = []
    var conflictCount = 0

    /// Whether this run has read the messages that were there when it began. Before, it publishes nothing: they may
    /// show that an older state of the store has replaced it.
    var hasCaughtUp = false
    var ownHistory: OwnHistoryCheck
    /// By peer: the last transaction of this store in its receipts, if it was not compared with the own history.
    var unchecked: [UUID: HistoryToken] = [:]
    /// When to compare again, by `clock`.
    var nextCheck = 0.0
    /// The last own transaction in these messages.
    var newestOwn: HistoryToken?

    // Joining.
    package internal(set) var phase: Phase
    /// The highest number in the group's order in any message.
    var highestHeard: UInt64 = 0
    /// Whether another peer has sent anything but that it joins.
    var hasHeardGroup = false
    /// A state that another peer has announced, and that peer.
    var announced: (message: StateMessage, sender: UUID)?
    /// How often each peer has asked this one for a state.
    var stateRequests: [UUID: Int] = [:]
    /// Which source of states is asked next.
    var stateAttempts = 0

    // Asking again.
    var nextReminder: Double
    var reminderSeconds = MirrorPeer.firstReminderSeconds

    /// The way of a store into its group.
    package enum Phase: Equatable, Sendable {
        /// It collects the transactions of the group. If no member answers, it founds the group at this time.
        case listens(until: Double)
        /// It lacks transactions that a member will not send again.
        case waitsForState
        case member
        /// It tells the others that it leaves, until one has answered.
        case leaves
    }

    /// How long a store listens for a group. Then it founds one, if the courier has nothing of another peer.
    static let listeningSeconds = 5.0
    static let firstReminderSeconds = 1.0
    private static let shortestPauseSeconds = 0.05
    static let longestReminderSeconds = 64.0
    static let batchBytes = 1 << 20
    /// How long a step merges: then it shows what it has done, and can be ended.
    static let mergingSeconds = 0.5
    private static let unfinishedBytes = 32 << 20
    private static let mostShown = 100

    /// - Parameters:
    ///   - number: Of the first message: above those of earlier mirrors of the store.
    ///   - clock: Returns seconds; it never goes back.
    package init(
        _ merging: MergingStore, _ courier: any Courier, firstNumber number: UInt64 = 1, name: String = "",
        instance: UInt64 = 0, direction: Mirror.Direction = .both, clock: @escaping () -> Double
    ) {
        store = merging.store
        self.direction = direction
        (self.merging, self.courier, self.clock) = (merging, courier, clock)
        (self.name, self.instance) = (name, instance)
        ownHistory = OwnHistoryCheck(
            store: merging.store.identifier, instance: instance, earlier: Set(merging.savedRecord.instances),
            common: merging.savedRecord.published)
        nextNumber = number
        discarded = number - 1
        let record = merging.savedRecord
        members = MirrorMembers(me: merging.store.identifier, record.members)
        place = record.place.map { CourierPlace($0) }
        conflictCount = record.conflicts
        nextReminder = clock() + Self.firstReminderSeconds
        phase = record.isAdmitted ? .member : .listens(until: clock() + Self.listeningSeconds)
        published = publishedBefore
    }

    /// Whether every member has everything that this one knows of, and this one has all that it has heard of.
    package var isQuiet: Bool {
        phase == .member && hasCaughtUp && outgoing.isEmpty && !(publishes && merging.isUnpublished) && !isUnconfirmed
            && missing.isEmpty && !isReceiptDue && stateRequests.isEmpty
    }

    /// Whether a member has not confirmed all transactions of this store.
    var isUnconfirmed: Bool { published > members.confirmed(me) }

    /// When `step` has something to do again although no message comes: in seconds from now.
    package var pauseSeconds: Double {
        isQuiet && obstacles.isEmpty ? .infinity : max(Self.shortestPauseSeconds, nextReminder - clock())
    }

    /// Publishes what is new here, reads what has come, and merges what can be merged.
    ///
    /// - Parameters:
    ///   - seconds: How long to wait for messages if nothing is to be published.
    ///   - waits: Called with true before the wait, and with false after it.
    /// - Returns: Whether anything has happened. Throws the courier's errors; call it again after them.
    @discardableResult
    package func step(waitSeconds seconds: Double = 0, waits: (Bool) -> Void = { _ in }) throws -> Bool {
        try requireMembership()
        try publish()
        // A wait that a signal ends looks like the end of the messages. So the first ones are read without waiting.
        if hasCaughtUp { waits(true) }
        let batch: IncomingBatch
        do {
            defer { if hasCaughtUp { waits(false) } }
            // A transaction that came before the wait began has ended no wait.
            let isIdle = try hasCaughtUp && !hasMoreToMerge && (phase != .member || !publishes || !merging.hasNews)
            // Only one message: otherwise more and more would wait while merging is slower than reading.
            batch = try courier.messages(
                after: place, maximumBytes: hasMoreToMerge ? 1 : Self.batchBytes, waitSeconds: isIdle ? seconds : 0)
        }
        for message in batch.messages {
            bytesReceived += UInt64(message.body.count)
            try receive(message)
        }
        if batch.messages.isEmpty { try catchUp() }
        try checkReceipts(all: false)
        try requireMembership()
        try answerRequests()
        let previous = phase
        try join(batch)
        // First: its transactions come before later ones of this store.
        note(phase == .member ? try merging.remake() : [])
        note(phase == .member ? try merging.mergeParked() : [])
        let hasMerged = mergeWaiting()
        // Only now: after an error the same messages are read again.
        place = previous == .waitsForState && phase != .waitsForState ? nil : batch.place
        try settle()
        try answerStateRequests()
        try remind(hasProgress: hasMerged)
        try publish()
        try discard()
        return hasMerged || !batch.messages.isEmpty
    }

    private func requireMembership() throws(StoreError) {
        guard phase != .leaves, members.amIGone || merging.savedRecord.hasLeft else { return }
        throw Self.leftGroup(store)
    }

    static func leftGroup(_ store: Store) -> StoreError {
        StoreError(
            .leftGroup,
            "This store has left its group, or was declared lost there. Its later transactions are here only: join "
                + "with a new store, and bring them into it: “annals export OLD --after N --new-identity | annals "
                + "apply NEW -”. N is the last transaction of this store that the group has: see “merged” in “annals "
                + "mirror status” of another store.", path: store.path)
    }

    private func settle() throws {
        guard phase == .member else { return }
        // Without peers it is unknown which store may still come.
        guard let bound = members.bound(merging.lamport, merging.knowledge) else { return }
        let unconfirmed = merging.firstUnconfirmed { members.confirmed($0) }
        try merging.settle(below: min(bound, unconfirmed ?? bound))
        let settled = merging.settledOwn
        guard settled > published else { return }
        published = settled
        unsent.removeAll { $0.transaction.token.number <= settled }
    }

    /// Keeps the place from which a new mirror of the store goes on.
    package func save() throws { try merging.save { fill(&$0) } }

    func fill(_ record: inout MirrorRecord) {
        record.members = members.all
        record.place = place?.text
        record.merged = merging.knowledge
        if record.instances.last != instance {
            record.instances = record.instances.suffix(MirrorRecord.mostInstances - 1) + [instance]
        }
        if let mark { record.mark = mark }
        (record.published, record.conflicts) = (publishedNumber, conflictCount)
        record.hasLeft = record.hasLeft || members.amIGone
        record.parked = parked.isEmpty ? nil : parked
        record.error = obstacle.map { MirrorRecord.Failure(code: $0.code.rawValue, message: $0.message) }
    }

    /// The reason why transactions cannot be merged.
    package var obstacle: StoreError? { obstacles.min { VersionVector.isBefore($0.key, $1.key) }?.value }

    /// The first parked transactions.
    var parked: [ParkedTransaction] { Array(merging.parkedTransactions.prefix(Self.mostShown)) }

    package func takeConflicts() -> [MergeConflict] {
        defer { conflicts = [] }
        return conflicts
    }

    func takeBytes() -> (sent: UInt64, received: UInt64) {
        defer { (bytesSent, bytesReceived) = (0, 0) }
        return (bytesSent, bytesReceived)
    }

    /// Later own transactions are published, again perhaps. A store that only receives publishes none again: the others
    /// request those that they lack.
    var publishedBefore: UInt64 { publishes ? merging.settledOwn : max(merging.settledOwn, publishedNumber) }

    /// The last own transaction that the courier has acknowledged, to any mirror of the store.
    package var publishedNumber: UInt64 { max(acknowledged, merging.savedRecord.published) }
}

extension StoreError.Code {
    /// A store whose history was cleaned, or is off, can bring no objects into a group: join with a new store.
    public static let mirrorNeedsEmptyStore = Self(rawValue: "mirrorNeedsEmptyStore")
    /// The store and its group have gone different ways: join with a new store.
    public static let groupConflict = Self(rawValue: "groupConflict")
    /// The store has left its group, or was declared lost: join with a new store.
    public static let leftGroup = Self(rawValue: "leftGroup")
}
