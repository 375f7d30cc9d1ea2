// The transactions of a merging store as its history has them.

internal import Annals
internal import FoundationEssentials

/// A transaction of the store's history.
struct FoundTransaction {
    /// With the names that its objects had right after it.
    var exported: ExportedTransaction
    /// Of a merged transaction: what the mirror has kept with it.
    var record: MergeRecord?
    var changesSchema: Bool

    var number: UInt64 { exported.token.number }
    /// Whether it was made here, for the group: also one that came from a store outside of the group (`Store.apply`).
    /// The first transaction of an export has the schema in any case.
    var isOwn: Bool { (exported.origin == nil || record == nil) && (changesSchema || !exported.changes.isEmpty) }

    func kept() throws(StoreError) -> KeptTransaction? {
        try record?.content.map { (content) throws(StoreError) in try KeptTransaction(content) }
    }

    /// As it is merged, with the present names of entities and attributes.
    func transaction(_ stamp: Stamp, _ names: PresentNames) throws(StoreError) -> MergeTransaction {
        MergeTransaction(stamp, (try kept()?.transaction ?? exported).renamed(names))
    }

    /// As its group gets it.
    ///
    /// - Parameter previous: The own transaction before it.
    func own(after previous: HistoryToken?) -> ExportedTransaction {
        exported.following(previous, withSchema: changesSchema || previous == nil)
    }
}

extension MergingStore {
    private static let pageCount = 500
    private static let pageBytes = 1 << 20

    /// Reads the transactions after a number, oldest first, in bounded memory.
    ///
    /// - Parameter body: Returns false to end.
    func forEachTransaction(
        after number: UInt64, through end: UInt64 = .max, in snapshot: Snapshot, _ present: ExchangeView,
        _ body: (FoundTransaction) throws -> Bool
    ) throws {
        var start = number
        let end = min(end, snapshot.token.number)
        let local = local.numbers
        while start < end {
            var records: [UInt64: MergeRecord] = [:]
            var schemas: Set<UInt64> = []
            var (last, count, bytes) = (start, 0, 0)
            try store.forEachTransaction(after: start, in: snapshot) { (transaction) throws(StoreError) in
                guard transaction.number <= end else { return false }
                if let record = try store.mergeRecord(of: transaction) {
                    records[transaction.number] = record
                    bytes += record.content?.count ?? 0
                }
                if transaction.changesSchema { schemas.insert(transaction.number) }
                (last, count) = (transaction.number, count + 1)
                return count < Self.pageCount && bytes < Self.pageBytes
            }
            guard count > 0 else { return }
            var goesOn = true
            try store.forEachExportedTransaction(after: .number(start), in: snapshot, leavingOut: local) { exported in
                let number = exported.token.number
                guard number <= last else { return false }
                goesOn = try body(
                    FoundTransaction(
                        exported: try withNamesOfItsTime(exported, present),
                        record: records[number],
                        changesSchema: schemas.contains(number)))
                return goesOn && number < last
            }
            guard goesOn else { return }
            start = last
        }
    }

    /// Reads transactions of the window, in their order.
    func forEachTransaction(
        of places: [MergeWindow.Place], in snapshot: Snapshot, _ present: ExchangeView,
        _ body: (MergeWindow.Place, FoundTransaction) throws -> Void
    ) throws {
        var next = 0
        while next < places.count {
            // Neighbours are read together.
            var end = next + 1
            while end < places.count, places[end].number - places[end - 1].number <= Self.nearby { end += 1 }
            let (first, last) = (places[next].number, places[end - 1].number)
            try forEachTransaction(after: first - 1, through: last, in: snapshot, present) { found in
                if next < end, found.number == places[next].number {
                    try body(places[next], found)
                    next += 1
                }
                return next < end
            }
            guard next == end else {
                throw StoreError(
                    .tokenExpired, "The history of a transaction that the mirror still needs is gone.", path: store.path
                )
            }
        }
    }

    private static let nearby: UInt64 = 4

    /// Transactions of the window for a replay.
    ///
    /// - Parameter known: Those that were read before.
    func entries(
        _ places: [MergeWindow.Place], _ known: inout [UInt64: MergeEntry], _ schema: MergeSchema,
        _ present: ExchangeView
    ) throws(StoreError) -> [MergeEntry] {
        do {
            let new = places.filter { known[$0.number] == nil }
            let base = StoreBase(present, schema)
            try forEachTransaction(of: new, in: present.snapshot, present) { place, found in
                let transaction = try found.transaction(place.stamp, schema.presentNames)
                let isOwn = place.stamp.peer == identifier
                let stated = MergeState(schema, on: isOwn ? nil : base).stated(by: transaction)
                let changed = Set(found.exported.changes.map { GroupObject($0.object, from: identifier) })
                known[place.number] = MergeEntry(
                    place.isParked ? MergeTransaction(place.stamp, []) : transaction,
                    changed: changed.union(stated.changed.compactMap(\.object)))
            }
            try base.requireWhole()
        } catch {
            throw error as? StoreError ?? StoreError(.damaged, "\(error)")
        }
        return places.compactMap { known[$0.number] }
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

    func state(asOf number: UInt64) throws(StoreError) -> Snapshot {
        do {
            return try store.snapshot(asOf: number)
        } catch {
            throw error as? StoreError ?? StoreError(.damaged, "\(error)")
        }
    }
}
