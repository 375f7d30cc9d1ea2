// A store that takes part in a group: which of its transactions are its own, and what those of others mean here.
//
// Invariants:
// MG1  The objects of the store are those that all its transactions give, its own and merged ones, applied in the
//      group's order.
// MG2  A transaction's number in the group's order is above those of all transactions before it in this store.
// MG3  `window` has every transaction after `floor`, and each of them comes after all transactions up to `floor`.
// MG4  A transaction is settled only if each member of the group has confirmed it. So the store can send all others
//      again, its own and merged ones.

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
    private(set) var window = MergeWindow()
    /// The names that its transactions have.
    private var windowNames = PresentNames()
    private var highest: UInt64
    /// The highest number in the group's order that is known here. Own transactions get higher ones.
    package var lamport: UInt64 { max(highest, record.lowest) }
    /// By peer, the last transaction that was merged here.
    package private(set) var knowledge: VersionVector
    private var lastPublished: HistoryToken?
    /// By number, the store's own transactions of the window.
    private(set) var published: [UInt64: HistoryToken] = [:]
    /// By store, the transactions of the window: their numbers there and in the group's order. Both ascend.
    private(set) var unsettled: [UUID: ArraySlice<(number: UInt64, lamport: UInt64)>] = [:]
    private var unpublished: [OwnTransaction] = []
    /// The last schema: most transactions change nothing about it.
    private var knownSchema: (version: UInt16, schema: MergeSchema)?
    /// The parts of the window's transactions that were left out.
    var lost: [Stamp: Set<MergeLoss>] = [:]
    /// The number of merges that had to replay.
    package private(set) var replays = 0

    /// The consumer of the store's history that keeps the window from being cleaned.
    package static let consumer = "annals.mirror"

    /// Continues where the store's last mirror was. Throws `tokenExpired` if history was cleaned since, although the
    /// mirror's consumer needed it.
    package init(_ store: Store) throws {
        self.store = store
        try store.registerConsumer(Self.consumer, at: .oldest)
        if let record = try MirrorRecord.load(store) {
            self.record = record
        } else {
            record = MirrorRecord(first: try Self.beginning(of: store))
            try store.setMergeState(try record.stored())
        }
        floor = record.floor
        (seen, highest) = (floor.number, floor.lamport)
        (knowledge, lastPublished) = (floor.knowledge, floor.published)
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
        record.lowest = lowest
        record.isAdmitted = true
        fill(&record)
        try store.setMergeState(try record.stored())
        return try MergingStore(store)
    }

    /// The durable state of the mirror, without what only the peer knows.
    package var savedRecord: MirrorRecord { record }

    // MARK: Own transactions

    /// The store's own transactions since the last call, in their order.
    package func takeOwn() throws -> [OwnTransaction] {
        try look(upTo: try store.snapshot())
        defer { unpublished = [] }
        return unpublished
    }

    /// Whether the store has transactions that were not looked at.
    package var hasNews: Bool {
        get throws { try store.snapshot().token.number > seen }
    }

    /// Reads the transactions up to a state.
    private func look(upTo snapshot: Snapshot) throws {
        guard snapshot.token.number > seen else { return }
        var records: [UInt64: MergeRecord] = [:]
        var schemas: Set<UInt64> = []
        try store.forEachTransaction(after: seen, in: snapshot) { (transaction) throws(StoreError) in
            if let record = try store.mergeRecord(of: transaction) { records[transaction.number] = record }
            if transaction.changesSchema { schemas.insert(transaction.number) }
            return true
        }
        let present = try ExchangeView(snapshot)
        let schema = try schema(of: present)
        use(schema.presentNames)
        try store.forEachExportedTransaction(after: .number(seen), in: snapshot) { exported in
            let exported = try withNamesOfItsTime(exported, present)
            if let origin = exported.origin, let record = records[exported.token.number] {
                try note(merged: exported, from: origin, record, schema)
            } else {
                // Also one that came from a store outside of the group (`Store.apply`): for the group it is made here.
                // The first transaction of an export has the schema in any case.
                let changesSchema = schemas.contains(exported.token.number)
                if changesSchema || !exported.changes.isEmpty { try note(own: exported, changesSchema, schema) }
            }
            return true
        }
        seen = snapshot.token.number
    }

    /// The transaction with the names that its objects had right after it. Objects that went because others took all
    /// their names have none now, and an export names them as if they were inserted here.
    private func withNamesOfItsTime(
        _ exported: ExportedTransaction, _ present: ExchangeView
    ) throws -> ExportedTransaction {
        var past: ExchangeView?
        func name(_ object: ExportedObject) throws(StoreError) -> ExportedObject {
            guard object.store == nil, try !present.exists(object.id) else { return object }
            let view: ExchangeView
            if let past { view = past } else { view = try ExchangeView(try state(asOf: exported.token.number)) }
            past = view
            let name = try view.name(of: object.id)
            return name.store == identifier ? object : name
        }
        func value(_ value: ExportedValue) throws(StoreError) -> ExportedValue {
            switch value.content {
            case .plain: return value
            case .object(let object): return ExportedValue(.object(try name(object)))
            case .orderedObjects(let objects): return ExportedValue(.orderedObjects(try objects.map(name)))
            case .objects(let objects): return ExportedValue(.objects(try objects.map(name)))
            }
        }
        var renamed = exported
        renamed.changes = try exported.changes.map { change throws(StoreError) in
            ExportedChange(
                kind: change.kind, object: try name(change.object), entity: change.entity,
                attributes: change.attributes, values: try change.values.map(value),
                before: try change.before.map { (before) throws(StoreError) in try before.map(value) })
        }
        return renamed
    }

    /// Notes a transaction that an earlier mirror of this store has merged.
    private func note(
        merged exported: ExportedTransaction, from origin: HistoryToken, _ record: MergeRecord, _ schema: MergeSchema
    ) throws {
        let stamp = Stamp(record.order, origin.storeIdentifier)
        highest = max(highest, record.order)
        note(origin.number, stamp)
        let kept = try record.content.map { (content) throws(StoreError) in try KeptTransaction(content) }
        let exported = exported.renamed(schema.presentNames)
        let transaction = MergeTransaction(stamp, kept?.transaction.renamed(schema.presentNames) ?? exported)
        // Its names may lead to objects by transactions that are settled.
        let present = MergeState(schema, on: try StoreBase(try store.snapshot(), schema))
        let resources = try resources(of: exported, schema).union(present.stated(by: transaction))
        var entry = MergeEntry(transaction, resources)
        entry.isOpen = kept?.isOpen ?? false
        entry.movesNames = kept != nil
        window.append(entry, number: exported.token.number)
    }

    private func note(own exported: ExportedTransaction, _ changesSchema: Bool, _ schema: MergeSchema) throws {
        highest = lamport + 1
        let transaction = exported.following(lastPublished, withSchema: changesSchema || lastPublished == nil)
        unpublished.append(OwnTransaction(lamport: lamport, knowledge: knowledge, transaction: transaction))
        lastPublished = exported.token
        published[exported.token.number] = exported.token
        unsettled[identifier, default: []].append((exported.token.number, lamport))
        let renamed = exported.renamed(schema.presentNames)
        let merged = MergeTransaction(Stamp(lamport, identifier), renamed)
        let resources = try resources(of: renamed, schema).union(MergeState(schema).stated(by: merged))
        window.append(MergeEntry(merged, resources), number: exported.token.number)
    }

    /// Notes that a transaction of another store is here.
    private func note(_ number: UInt64, _ stamp: Stamp) {
        knowledge[stamp.peer] = number
        unsettled[stamp.peer, default: []].append((number, stamp.lamport))
    }

    private func resources(of exported: ExportedTransaction, _ schema: MergeSchema) throws -> MergeResources {
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

    // MARK: Transactions of others

    /// Merges the next transaction of a peer. Everything that its writer knew must be merged already.
    ///
    /// - Returns: What was overruled; nil if the transaction is here already.
    package func merge(_ transaction: ExportedTransaction, lamport order: UInt64) throws -> [MergeConflict]? {
        let stamp = Stamp(order, transaction.store)
        while true {
            let snapshot = try store.snapshot()
            try look(upTo: snapshot)
            guard knowledge[transaction.store] < transaction.token.number else { return nil }
            if floor.number > 0, stamp.lamport <= floor.lamport { try reopen(for: stamp) }
            let view = try ExchangeView(snapshot)
            let schema = try schema(of: view, after: transaction)
            // Its names are used here only if the transaction is applied.
            let window =
                schema.presentNames == windowNames ? self.window : self.window.renamed(schema.presentNames)
            let renamed = transaction.renamed(schema.presentNames)
            let now = StoreBase(view, schema)
            let named = MergeTransaction(stamp, renamed)
            var pasts: [PastBase] = []
            let (outcome, isReplay) = try MergeReplay.merge(
                named, into: now, window,
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
                removed: difference.removed, gone: difference.gone, order: order,
                content: try content(transaction, order, outcome, isExact: isExact))
            do {
                let result = try store.apply(merged, onto: snapshot.token.number)
                if isReplay { replays += 1 }
                let overwritten = overwritten(by: named, renamed, now, outcome)
                use(schema.presentNames)
                note(result, transaction, outcome, isExact ? nil : difference, stamp)
                return conflicts(outcome) + overwritten
            } catch let error as StoreError where error.code == .conflict {
                // Another writer was faster.
                continue
            }
        }
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
        let (own, last, snapshot) = (unpublished, seen, try store.snapshot())
        (seen, highest, knowledge) = (floor.number, floor.lamport, floor.knowledge)
        lastPublished = floor.published
        (window, published, unsettled) = (MergeWindow(), [:], [:])
        try look(upTo: snapshot)
        unpublished = own + unpublished.filter { $0.transaction.token.number > last }
    }

    /// The transaction for a later mirror of the store; nil if the written changes are enough.
    private func content(
        _ transaction: ExportedTransaction, _ order: UInt64, _ outcome: MergeOutcome, isExact: Bool
    ) throws(StoreError) -> [UInt8]? {
        let isOpen = outcome.hasRefusedDeletions
        return isExact && !isOpen ? nil : try KeptTransaction(transaction: transaction, isOpen: isOpen).encoded(order)
    }

    private func state(asOf number: UInt64) throws(StoreError) -> Snapshot {
        do {
            return try store.snapshot(asOf: number)
        } catch {
            throw error as? StoreError ?? StoreError(.damaged, "\(error)")
        }
    }

    private func note(
        _ result: ApplyResult, _ transaction: ExportedTransaction, _ outcome: MergeOutcome,
        _ difference: MergeDifference?, _ stamp: Stamp
    ) {
        note(transaction.token.number, stamp)
        highest = max(highest, stamp.lamport)
        guard let token = result.token, let entry = outcome.entries.first(where: { $0.stamp == stamp }) else { return }
        seen = token.number
        var merged = entry
        // Otherwise its own changes are the difference.
        if let difference {
            merged.resources.formUnion(difference.resources)
            merged.movesNames = difference.movesNames
        }
        window.append(merged, number: token.number)
    }

    func noteSaved(_ record: MirrorRecord) { self.record = record }

    // MARK: Settled transactions

    /// Moves the floor above transactions that no later one can come before.
    package func settle(below stable: Stamp) {
        let (count, place) = cut(below: stable)
        guard count > 0 else { return }
        floor = place
        for (number, entry) in window.entries.prefix(count) {
            let peer = entry.stamp.peer
            if peer == identifier { published[number] = nil }
            unsettled[peer]?.removeFirst()
        }
        window.removeFirst(count)
        lost = lost.filter { $0.key.lamport > place.lamport }
    }

    /// The place after the transactions of the window that no later one can come before, and their number.
    private func cut(below stable: Stamp) -> (count: Int, place: MergePlace) {
        // Usually nothing new is settled.
        guard let first = window.entries.first, first.entry.stamp.lamport < stable.lamport else { return (0, floor) }
        // Numbers alone decide whether a transaction comes before a place: those of one number stay together.
        let stamps = window.entries.map { Stamp.first(with: $0.entry.stamp.lamport) }
        let count = MergeReplay.settled(stamps, below: .first(with: stable.lamport))
        guard let last = window.entries.prefix(count).last else { return (0, floor) }
        var (place, highest) = (floor, [UUID: UInt64]())
        place.number = last.number
        for (_, entry) in window.entries.prefix(count) {
            place.lamport = max(place.lamport, entry.stamp.lamport)
            highest[entry.stamp.peer] = max(highest[entry.stamp.peer] ?? 0, entry.stamp.lamport)
        }
        for (peer, lamport) in highest {
            guard let last = unsettled[peer]?.last(where: { $0.lamport <= lamport }) else { continue }
            if peer == identifier {
                place.published = published[last.number]
            } else {
                place.knowledge[peer] = last.number
            }
        }
        return (count, place)
    }

    /// The newest place that is before `stable`: its state has nothing that a transaction still to come can change.
    package func place(before stable: Stamp) -> MergePlace { cut(below: stable).place }

    /// The first transaction of the window that not every member has confirmed.
    func firstUnconfirmed(_ confirmed: (UUID) -> UInt64) -> Stamp? {
        unsettled.compactMap { peer, entries -> Stamp? in
            let end = confirmed(peer)
            let index = entries.partitioningIndex { $0.number > end }
            return index < entries.endIndex ? Stamp(entries[index].lamport, peer) : nil
        }.min()
    }

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

    /// The schema of a state, or that after a transaction.
    func schema(of view: ExchangeView, after transaction: ExportedTransaction? = nil) throws -> MergeSchema {
        let brings = transaction?.schema != nil
        if !brings, let known = knownSchema, known.version == view.schemaVersion { return known.schema }
        let (entities, names) = try view.schema(after: brings ? transaction : nil)
        let schema = MergeSchema(entities, presentNames: names)
        if !brings { knownSchema = (view.schemaVersion, schema) }
        return schema
    }

    /// Gives everything in the window the present names.
    private func use(_ names: PresentNames) {
        guard names != windowNames else { return }
        window = window.renamed(names)
        windowNames = names
    }
}

extension ExportedTransaction {
    /// The same, following the last transaction that its group got from this store.
    fileprivate func following(_ previous: HistoryToken?, withSchema: Bool) -> ExportedTransaction {
        ExportedTransaction(
            token: token, previous: previous, microseconds: microseconds, author: author, contextName: contextName,
            origin: nil, originPrevious: nil, holds: nil, schema: withSchema ? schema : nil, renames: renames,
            changes: changes)
    }
}

extension ArraySlice {
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
