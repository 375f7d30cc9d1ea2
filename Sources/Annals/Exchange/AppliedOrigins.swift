// What was applied from which store.

internal import AnnalsFile
public import FoundationEssentials

/// The records of origins as they are in one state of a store.
struct AppliedOrigins {
    private let snapshot: Snapshot
    var storeIdentifier: UUID { snapshot.storeIdentifier }
    /// Nil where nothing was ever applied.
    private let handle: EntityHandle?

    init(_ snapshot: Snapshot) throws(StoreError) {
        self.snapshot = snapshot
        handle = try ReservedEntity.handle(ReservedEntity.origins, snapshot.view.catalog)
    }

    /// The record of a store, and the object that it is in; nil where nothing was applied from it.
    func record(of store: UUID) throws(StoreError) -> (object: ObjectID, record: AppliedRecord)? {
        guard let handle else { return nil }
        var found: (ObjectID, AppliedRecord)?
        try snapshot.forEachRow(
            of: handle, by: ["store"], from: .including([.uuid(store)]), to: .including([.uuid(store)])
        ) {
            (row) throws(StoreError) in
            let values = try row.row(entity: handle.name, names: handle.attributes).values
            found = AppliedRecord(values).map { (row.id, $0) }
            return false
        }
        return found
    }

    /// The places up to which the stores were applied.
    func tokens() throws(StoreError) -> [HistoryToken] {
        guard let handle else { return [] }
        var tokens: [HistoryToken] = []
        try snapshot.forEachRow(of: handle) { (row) throws(StoreError) in
            let values = try row.row(entity: handle.name, names: handle.attributes).values
            if let record = AppliedRecord(values) { tokens.append(record.token) }
            return true
        }
        return tokens.sorted()
    }

    /// Transactions of a store, those behind a number up to a last one, that came by way of a third store: what it left out of them is here too, since
    /// whoever exports a transaction exports first what it left out for having it.
    struct Ahead {
        var object: ObjectID
        var behind: UInt64
        var last: HistoryToken
    }

    /// The stretches that end at a number or behind it, ascending.
    func ahead(of store: UUID, from number: UInt64) throws(StoreError) -> [Ahead] {
        guard let handle = try ReservedEntity.handle(ReservedEntity.ahead, snapshot.view.catalog) else { return [] }
        var stretches: [Ahead] = []
        try snapshot.forEachRow(
            of: handle, by: ["store", "last"], from: .including([.uuid(store), .int(Int64(bitPattern: number))]),
            to: .including([.uuid(store)])
        ) {
            (row) throws(StoreError) in
            let values = try row.row(entity: handle.name, names: handle.attributes).values
            guard let behind = values[1].int, let last = values[2].int, let tag = values[3].int else { return true }
            let token = HistoryToken(
                storeIdentifier: store, number: UInt64(bitPattern: last), tag: UInt64(bitPattern: tag))
            stretches.append(Ahead(object: row.id, behind: UInt64(bitPattern: behind), last: token))
            return true
        }
        return stretches
    }

    /// Notes a transaction that is in no stretch yet and comes right behind another one by the way that it came.
    func noteAhead(_ token: HistoryToken, behind: UInt64, to pending: PendingTransaction) throws(StoreError) {
        guard let handle = try ReservedEntity.handle(ReservedEntity.ahead, pending.catalog) else { return }
        let known = try ahead(of: token.storeIdentifier, from: behind).first {
            $0.behind <= behind && $0.last.number < token.number
        }
        let last: [FileValue] = [.int(Int64(bitPattern: token.number)), .int(Int64(bitPattern: token.tag))]
        try mapping { () throws(FileError) in
            guard let known else {
                _ = try pending.insert(
                    entity: handle.number,
                    [.uuid(token.storeIdentifier.file), .int(Int64(bitPattern: behind))] + last)
                return
            }
            _ = try pending.update(known.object.file, [(position: 2, value: last[0]), (position: 3, value: last[1])])
        }
    }

    /// Notes what was applied last from a store. The first change of its transaction.
    func write(_ record: AppliedRecord, to pending: PendingTransaction) throws(StoreError) {
        let known = try self.record(of: record.token.storeIdentifier)
        guard let written = try ReservedEntity.handle(ReservedEntity.origins, pending.catalog) else { return }
        let passed = try ahead(of: record.token.storeIdentifier, from: 0)
            .prefix { $0.last.number <= record.token.number }
        try mapping { () throws(FileError) in
            if let known {
                _ = try pending.update(
                    known.object.file, record.values.enumerated().map { (position: $0.offset, value: $0.element) })
            } else {
                _ = try pending.insert(entity: written.number, record.values)
            }
            for stretch in passed { try pending.delete(stretch.object.file) }
        }
    }
}

extension Store {
    /// The places up to which transactions of other stores were applied here, one for each store that any came from, also by way of a third. To be
    /// exported from there next is what comes after its place.
    public var appliedOrigins: [HistoryToken] {
        get throws(StoreError) { try AppliedOrigins(try snapshot()).tokens() }
    }

    /// The place in the history of another store up to which its transactions were applied here; nil for none.
    public func lastApplied(from store: UUID) throws(StoreError) -> HistoryToken? {
        try AppliedOrigins(try snapshot()).record(of: store)?.record.token
    }
}
