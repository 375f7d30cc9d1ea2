// A store that takes part in a group: which of its transactions are its own, and what those of others mean here.
//
// Invariants:
// MG1  The objects of the store are those that all its transactions give, its own and merged ones, applied in the
//      group's order.
// MG2  A transaction's number in the group's order is above those of all transactions before it in this store.
// MG3  `window` has every transaction after `floor`, and each of them comes after all transactions up to `floor`.
// MG4  A transaction is settled only if each member of the group has confirmed it. So the store can send all others
//      again, its own and merged ones: they are in history.

package import Annals
internal import FoundationEssentials

/// A transaction of this store, for its group.
package struct OwnTransaction: Sendable {
    package var lamport: UInt64
    /// The last transaction of each peer that was merged before it.
    package var knowledge: VersionVector
    package var transaction: ExportedTransaction
}

/// For one thread.
package final class MergingStore {
    package let store: Store
    var identifier: UUID { store.identifier }
    /// The last transaction of the store that was looked at.
    private var seen: UInt64
    private(set) var floor: MergePlace
    private var record: MirrorRecord
    package var local: LocalEntities { record.local }
    private(set) var window = MergeWindow()
    /// The schema for which the window has resources.
    private var windowSchema: MergeSchema?
    /// Places of the window from which history can be read with everything that was known there.
    private(set) var marks: ArraySlice<MergePlace> = []
    private var highest: UInt64
    /// The highest number in the group's order that is known here. Own transactions get higher ones.
    package var lamport: UInt64 { max(highest, record.lowest) }
    /// By peer, the last transaction that was merged here.
    package private(set) var knowledge: VersionVector
    private var lastOwn: HistoryToken?
    private var unpublished: UnpublishedTransactions
    /// The last schema: most transactions change nothing about it.
    private var knownSchema: (version: UInt16, schema: MergeSchema)?
    /// The parts of the window's transactions that were left out.
    var lost: [Stamp: Set<MergeLoss>] = [:]
    /// Transactions that are here without an effect, in their order of history (MK1).
    private(set) var parked: [Stamp] = []
    /// Why they do not fit.
    var reasons: [Stamp: ParkedTransaction] = [:]
    /// The schema with which they were tried last; nil for none.
    var triedVersion: UInt16?
    /// The number of merges that had to replay.
    package private(set) var replays = 0

    /// The consumer that holds the store's history for the window (MG4).
    package static let consumer = "annals.mirror"

    /// Continues where the store's last mirror was. Throws `tokenExpired` if history was cleaned since, although the
    /// mirror's consumer needed it.
    ///
    /// - Parameter names: The local entities; nil for those that were local before. Throws `groupConflict` for a change
    ///   that is impossible (MO3).
    package init(_ store: Store, localEntities names: [String]? = nil) throws {
        self.store = store
        try store.registerConsumer(Self.consumer, kind: [.reads, .holds], at: .oldest)
        let known = try MirrorRecord.load(store)
        var record = try known ?? MirrorRecord(first: Self.beginning(of: store))
        if let names { try record.setLocalEntities(names, in: store) }
        if record != known { try store.setMergeState(try record.stored()) }
        self.record = record
        floor = record.floor
        (seen, highest) = (floor.number, floor.lamport)
        (knowledge, lastOwn) = (floor.knowledge, floor.published)
        unpublished = UnpublishedTransactions(after: floor.published?.number ?? 0)
        try look(upTo: try store.snapshot())
    }

    /// The beginning of history. If it was cleaned, a group can begin with the present state only.
    private static func beginning(of store: Store) throws -> MergePlace {
        guard try store.oldestToken.number > 0 else { return MergePlace(lamport: 0) }
        let token = try store.snapshot().token
        return MergePlace(number: token.number, lamport: 0, published: token)
    }

    /// Begins with own numbers above this one: the group is as far as that.
    package static func admitted(_ store: Store, above lowest: UInt64, _ fill: (inout MirrorRecord) -> Void) throws
        -> MergingStore
    {
        var record = try MirrorRecord.load(store) ?? MirrorRecord(first: beginning(of: store))
        record.lowest = max(record.lowest, lowest)
        record.isAdmitted = true
        fill(&record)
        try store.setMergeState(try record.stored())
        return try MergingStore(store)
    }

    /// The durable state of the mirror, without what only the peer knows.
    package var savedRecord: MirrorRecord { record }

    // MARK: Own transactions

    /// The next of the store's own transactions, in their order: some of them, and none only if there are no more.
    package func takeOwn() throws -> [OwnTransaction] {
        let snapshot = try store.snapshot()
        try look(upTo: snapshot)
        if let lastOwn, unpublished.lacks(lastOwn.number) {
            try forEachOwn(unpublished.next...UInt64.max, in: snapshot) { unpublished.append($0) }
        }
        return unpublished.take()
    }

    /// Whether `takeOwn` has more.
    package var hasNews: Bool {
        get throws { try isUnpublished || store.snapshot().token.number > seen }
    }

    /// Whether an own transaction that has a number in the group's order was not taken.
    var isUnpublished: Bool { lastOwn.map { $0.number >= unpublished.next } ?? false }

    /// The last own transaction that was taken.
    var taken: UInt64 { unpublished.next - 1 }

    func hasOwn(after number: UInt64) -> Bool { lastOwn.map { $0.number > number } ?? false }

    /// Own transactions that are still to be taken have higher numbers in the group's order.
    var promised: UInt64 {
        guard isUnpublished, let first = window.firstPlace(of: identifier, unpublished.next...UInt64.max) else {
            return lamport
        }
        return first.stamp.lamport - 1
    }

    /// The present state. All its transactions are in the window.
    func looked() throws -> Snapshot {
        let snapshot = try store.snapshot()
        try look(upTo: snapshot)
        return snapshot
    }

    /// Reads the transactions up to a state.
    private func look(upTo snapshot: Snapshot) throws {
        guard snapshot.token.number > seen else { return }
        try findLocalEntities(in: snapshot)
        let present = try ExchangeView(snapshot)
        let schema = try schema(of: present)
        try use(schema, snapshot)
        try forEachTransaction(after: seen, in: snapshot, present) { found in
            if let origin = found.exported.origin, let record = found.record {
                try note(merged: found, from: origin, record, schema, snapshot)
            } else if found.isOwn {
                try note(own: found, schema)
            }
            seen = found.number
            return true
        }
        seen = snapshot.token.number
    }

    /// Notes a transaction that an earlier mirror of this store has merged.
    private func note(
        merged found: FoundTransaction, from origin: HistoryToken, _ record: MergeRecord, _ schema: MergeSchema,
        _ snapshot: Snapshot
    ) throws {
        let stamp = Stamp(record.order, origin.storeIdentifier)
        highest = max(highest, record.order)
        let kept = try found.kept()
        mark(before: found.number)
        // MK1: one that was parked comes again.
        knowledge[stamp.peer] = max(knowledge[stamp.peer], origin.number)
        window.append(
            MergeWindow.Place(
                number: found.number, stamp: stamp, origin: origin.number, movesNames: kept?.movesNames ?? false,
                isParked: kept?.isParked ?? false),
            try resources(of: found, stamp, schema, snapshot))
        if kept?.isParked == true {
            parked.append(stamp)
        } else {
            parked.removeAll { $0 == stamp }
        }
    }

    private func note(own found: FoundTransaction, _ schema: MergeSchema) throws {
        highest = lamport + 1
        let own = OwnTransaction(
            lamport: lamport, knowledge: knowledge, transaction: found.own(after: lastOwn))
        mark(before: found.number)
        unpublished.append(own, after: lastOwn?.number ?? 0)
        lastOwn = found.exported.token
        let stamp = Stamp(lamport, identifier)
        window.append(
            MergeWindow.Place(number: found.number, stamp: stamp, origin: found.number),
            try resources(of: found, stamp, schema, nil))
    }

    /// The contents of history before a transaction, after every few of them.
    private func mark(before number: UInt64) {
        guard number > (marks.last?.number ?? floor.number) + Self.markDistance else { return }
        marks.append(MergePlace(number: number - 1, lamport: 0, published: lastOwn, knowledge: knowledge))
    }

    private static let markDistance: UInt64 = 500

    /// The resources of a transaction that is in history. Names may lead to objects by transactions that are settled.
    private func resources(
        of found: FoundTransaction, _ stamp: Stamp, _ schema: MergeSchema, _ snapshot: Snapshot?
    ) throws -> MergeResources {
        let present = MergeState(schema, on: try snapshot.map { try StoreBase($0, schema) })
        return try written(by: found.exported.renamed(schema.presentNames), schema)
            .union(present.stated(by: try found.transaction(stamp, schema.presentNames)))
            .union(try found.kept()?.objects ?? MergeResources())
    }

    private func written(by exported: ExportedTransaction, _ schema: MergeSchema) throws -> MergeResources {
        let state = MergeState(schema)
        var resources = MergeResources()
        var past: StoreBase?
        for change in exported.changes {
            let name = GroupObject(change.object, from: identifier)
            func object(_ values: [ExportedValue]) -> MergeObject {
                var object = MergeObject(change.entity, [:])
                for (attribute, value) in zip(change.attributes, values) {
                    object[attribute] = MergeValue(value, from: identifier)
                }
                return object
            }
            var before = change.before.map(object)
            if change.kind != .insert, before == nil {
                if past == nil {
                    past = try StoreBase(try store.snapshot(asOf: exported.token.number - 1), schema)
                }
                before = past?.object(name)
            }
            let after = change.kind == .delete ? nil : object(change.values)
            resources.formUnion(state.resources(of: name, from: before, to: after))
        }
        try past?.requireWhole()
        return resources
    }

    /// Has the window use the names and keys of a schema.
    private func use(_ schema: MergeSchema, _ snapshot: Snapshot) throws {
        guard let new = try window(for: schema, snapshot) else { return }
        (window, windowSchema) = (new, schema)
    }

    /// The window with the resources that its transactions have by another schema: reads all of them. Nil if they have
    /// the same ones.
    private func window(for schema: MergeSchema, _ snapshot: Snapshot) throws -> MergeWindow? {
        if windowSchema?.hasSameResources(as: schema) == true { return nil }
        var new = MergeWindow()
        let present = try ExchangeView(snapshot)
        try forEachTransaction(of: Array(window.places), in: snapshot, present) { place, found in
            let isOwn = place.stamp.peer == identifier
            new.append(place, try resources(of: found, place.stamp, schema, isOwn ? nil : snapshot))
        }
        return new
    }

    // MARK: Transactions of others

    /// Merges the next transaction of a peer. Everything that its writer knew must be merged already. One that does not
    /// fit the schema is parked.
    ///
    /// - Returns: What was overruled; nil if the transaction is here already.
    package func merge(_ transaction: ExportedTransaction, lamport order: UInt64) throws -> [MergeConflict]? {
        let stamp = Stamp(order, transaction.store)
        while true {
            let snapshot = try store.snapshot()
            try look(upTo: snapshot)
            guard knowledge[transaction.store] < transaction.token.number else { return nil }
            let transaction = try localNames(in: snapshot).admitted(transaction)
            if floor.number > 0, stamp.lamport <= floor.lamport { try reopen(for: stamp) }
            do {
                return try merge(transaction, stamp, onto: snapshot, isAgain: false)
            } catch let error as StoreError where error.code == .conflict {
                // Another writer was faster.
                continue
            } catch let error as StoreError where Self.isForParking(error) {
                guard try park(transaction, stamp, error, onto: snapshot) else { continue }
                return []
            }
        }
    }

    /// - Parameter isAgain: Whether it is parked.
    func merge(
        _ transaction: ExportedTransaction, _ stamp: Stamp, onto snapshot: Snapshot, isAgain: Bool
    ) throws -> [MergeConflict] {
        let view = try ExchangeView(snapshot)
        let schema = try schema(of: view, after: transaction)
        // Its names are used here only if the transaction is applied.
        let newWindow = try window(for: schema, snapshot)
        let renamed = transaction.renamed(schema.presentNames)
        try schema.requireFitting(renamed)
        let now = StoreBase(view, schema)
        let named = MergeTransaction(stamp, renamed)
        var pasts: [PastBase] = []
        var known: [UInt64: MergeEntry] = [:]
        let (outcome, isReplay) = try MergeReplay.merge(
            named, into: now, newWindow ?? window,
            read: { (places) throws(StoreError) in try entries(places, &known, schema, view) },
            past: { (place) throws(StoreError) in
                let state = try state(asOf: place.end - 1)
                let past = try PastBase(state, before: now, place, schema)
                pasts.append(past)
                return past
            }, schema)
        let difference = try MergeDifference(outcome, from: now, schema)
        for past in pasts { try past.requireWhole() }
        let isExact = difference.isExactly(named)
        let merged = MergedTransaction(
            transaction, as: difference.changes, joined: difference.joined, separated: difference.separated,
            removed: difference.removed, gone: difference.gone, order: stamp.lamport,
            content: try content(transaction, stamp, outcome, isExact && !isAgain ? nil : difference),
            isAgain: isAgain)
        // The mirror syncs before it confirms. Transactions that a power failure takes back come again.
        let result = try store.apply(merged, onto: snapshot.token.number, durability: .relaxed)
        if isReplay { replays += 1 }
        let overwritten = try overwritten(by: named, renamed, now, outcome, schema)
        if let newWindow { (window, windowSchema) = (newWindow, schema) }
        note(result, transaction, outcome, isExact ? nil : difference, stamp)
        return conflicts(outcome) + overwritten
    }

    /// Goes back to the place with which the store began in the group, for a transaction that comes before the floor. A
    /// store that joined the group has not seen how far the group was.
    private func reopen(for stamp: Stamp) throws {
        guard floor.number > record.first.number, stamp.lamport > record.first.lamport || record.first.number == 0,
            try store.oldestToken.number <= record.first.number
        else {
            throw StoreError(
                .tokenExpired,
                "A transaction of the store \(stamp.peer) comes before everything that the history here has: join that "
                    + "store to the group again.")
        }
        floor = record.first
        // A new mirror must not begin at the place that was wrong.
        record.floor = floor
        try store.setMergeState(try record.stored())
        (seen, highest, knowledge) = (floor.number, floor.lamport, floor.knowledge)
        (lastOwn, window, marks, parked) = (floor.published, MergeWindow(), [], [])
        // Those that were taken stay so.
        unpublished = UnpublishedTransactions(after: unpublished.next - 1)
        try look(upTo: try store.snapshot())
    }

    /// The transaction for a later mirror of the store; nil if the written changes are enough.
    ///
    /// - Parameter difference: Nil if these are the transaction's own.
    private func content(
        _ transaction: ExportedTransaction, _ stamp: Stamp, _ outcome: MergeOutcome, _ difference: MergeDifference?
    ) throws(StoreError) -> [UInt8]? {
        guard difference != nil || outcome.hasRefusedDeletions else { return nil }
        var kept = KeptTransaction(transaction)
        if outcome.hasRefusedDeletions { kept.objects = outcome.resources }
        kept.movesNames = difference?.movesNames ?? false
        return try kept.encoded(stamp.lamport)
    }

    private func note(
        _ result: ApplyResult, _ transaction: ExportedTransaction, _ outcome: MergeOutcome,
        _ difference: MergeDifference?, _ stamp: Stamp
    ) {
        highest = max(highest, stamp.lamport)
        if let token = result.token { mark(before: token.number) }
        knowledge[stamp.peer] = max(knowledge[stamp.peer], transaction.token.number)
        parked.removeAll { $0 == stamp }
        guard let token = result.token else { return }
        seen = token.number
        window.append(
            MergeWindow.Place(
                number: token.number, stamp: stamp, origin: transaction.token.number,
                movesNames: difference?.movesNames ?? false),
            // Otherwise its own changes are the difference.
            difference.map { outcome.resources.union($0.resources) } ?? outcome.resources)
    }

    /// Notes that a transaction was parked.
    func note(parked transaction: ExportedTransaction, _ stamp: Stamp, _ number: UInt64, _ resources: MergeResources) {
        highest = max(highest, stamp.lamport)
        mark(before: number)
        knowledge[stamp.peer] = transaction.token.number
        seen = number
        parked.append(stamp)
        window.append(
            MergeWindow.Place(number: number, stamp: stamp, origin: transaction.token.number, isParked: true),
            resources)
    }

    /// The tags of the last merged transactions of other stores; 0 for one that is not known.
    func tags(of vector: VersionVector) throws -> [UInt64] {
        let known = try store.appliedOrigins
        return vector.entries.map { entry in
            known.first { $0.storeIdentifier == entry.peer && $0.number == entry.number }?.tag ?? 0
        }
    }

    func noteSaved(_ record: MirrorRecord) { self.record = record }

    // MARK: Settled transactions

    /// Moves the floor above transactions that no later one can come before.
    package func settle(below stable: Stamp) throws {
        let (count, place) = try cut(below: stable)
        guard place.number > floor.number else { return }
        floor = place
        window.removeFirst(count)
        unpublished.settle(through: settledOwn)
        marks = marks.drop { $0.number <= place.number }
        lost = lost.filter { $0.key.lamport > place.lamport }
    }

    /// The place after the transactions of the window that no later one can come before, and their number. Numbers
    /// alone decide whether a transaction comes before a place: those of one number stay together.
    private func cut(below stable: Stamp) throws -> (count: Int, place: MergePlace) {
        // MK1
        let count = window.settled(below: parked.reduce(stable) { min($0, $1) }.lamport)
        var place = floor
        var own: UInt64?
        for settled in window.places.prefix(count) {
            place.number = settled.number
            place.lamport = max(place.lamport, settled.stamp.lamport)
            if settled.stamp.peer == identifier {
                own = settled.origin
            } else {
                place.knowledge[settled.stamp.peer] = max(place.knowledge[settled.stamp.peer], settled.origin)
            }
        }
        if let own { place.published = try store.snapshot(asOf: own).token }
        // Nobody needs the history of transactions that the group does not get.
        if count == window.count, seen > place.number + Self.markDistance { place.number = seen }
        return (count, place)
    }

    /// The newest place that is before `stable`: its state has nothing that a transaction still to come can change.
    package func place(before stable: Stamp) throws -> MergePlace { try cut(below: stable).place }

    /// The first transaction of the window that not every member has confirmed.
    func firstUnconfirmed(_ confirmed: (UUID) -> UInt64) -> Stamp? { window.firstUnconfirmed(confirmed) }

    /// The transactions of all stores up to the floor.
    package var settledContents: VersionVector { floor.contents(identifier) }

    /// The last own transaction up to the floor; 0 for none.
    package var settledOwn: UInt64 { floor.published?.number ?? 0 }

    /// A state at a place.
    package func snapshot(at place: MergePlace) throws -> Snapshot { try state(asOf: place.number) }

    /// Keeps the place from which a new mirror of the store begins. Later transactions stay in history for it.
    ///
    /// - Parameter fill: Sets what only the peer knows.
    package func save(_ fill: (inout MirrorRecord) -> Void = { _ in }) throws {
        var next = record
        next.floor = floor
        fill(&next)
        guard next != record else { return }
        try store.setMergeState(try next.stored())
        record = next
        // After the state: a mirror that begins in between needs more history than it reads. Transactions that are
        // still to be made again are nowhere but in history.
        guard floor.number > 0, record.remaking == nil, let cursor = try store.consumer(Self.consumer)?.cursor else {
            return
        }
        let place = try store.snapshot(asOf: floor.number).token
        if place.number > cursor.number { try store.advanceConsumer(Self.consumer, from: cursor, to: place) }
    }

    /// Without local entities, this costs nothing.
    func localNames(in snapshot: Snapshot) throws -> LocalNames {
        local.isEmpty ? .none : try LocalNames(local, in: snapshot)
    }

    /// Notes local entities that have come to exist.
    private func findLocalEntities(in snapshot: Snapshot) throws {
        var next = record
        try next.local.find(in: snapshot)
        guard next != record else { return }
        try store.setMergeState(try next.stored())
        record = next
    }

    /// The schema of a state, or that after a transaction.
    func schema(of view: ExchangeView, after transaction: ExportedTransaction? = nil) throws -> MergeSchema {
        let brings = transaction?.schema != nil
        if !brings, let known = knownSchema, known.version == view.schemaVersion { return known.schema }
        let (entities, names) = try view.schema(after: brings ? transaction : nil)
        try localNames(in: view.snapshot).requireSeparate(entities)
        let schema = MergeSchema(entities, presentNames: names)
        if !brings { knownSchema = (view.schemaVersion, schema) }
        return schema
    }
}

extension RandomAccessCollection where Index == Int {
    /// The first index for which the condition is true, where it is true from some index on. Logarithmic.
    func partitioningIndex(_ isAfter: (Element) -> Bool) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if isAfter(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
