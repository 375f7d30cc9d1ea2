// The record of applied transactions of other stores.

public import FoundationEssentials

/// The records of origins in one state of a store.
struct AppliedOrigins {
    private let snapshot: Snapshot
    var storeIdentifier: UUID { snapshot.storeIdentifier }
    /// Nil if nothing was ever applied.
    private let handle: EntityHandle?
    private let last = LastLookup()

    /// The state does not change, and an application looks up one record several times.
    private final class LastLookup {
        var result: (store: UUID, found: (object: ObjectID, record: AppliedRecord)?)?
    }

    init(_ snapshot: Snapshot) throws(StoreError) {
        self.snapshot = snapshot
        handle = try ReservedEntity.handle(ReservedEntity.origins, snapshot.view.catalog)
    }

    /// The record of a store, and the object that contains it; nil if nothing was applied from that store.
    func record(of store: UUID) throws(StoreError) -> (object: ObjectID, record: AppliedRecord)? {
        if let result = last.result, result.store == store { return result.found }
        guard let handle else { return nil }
        var found: (object: ObjectID, record: AppliedRecord)?
        try snapshot.lendRows(
            of: handle, by: ["store"], from: .including([.uuid(store)]), to: .including([.uuid(store)])
        ) {
            (row) throws(StoreError) in
            let values = try row.row(entity: handle.name, names: handle.attributes).values
            found = AppliedRecord(values).map { (row.id, $0) }
            return false
        }
        last.result = (store, found)
        return found
    }

    /// The places up to which stores were applied.
    func tokens() throws(StoreError) -> [HistoryToken] {
        guard let handle else { return [] }
        var tokens: [HistoryToken] = []
        try snapshot.lendRows(of: handle) { (row) throws(StoreError) in
            let values = try row.row(entity: handle.name, names: handle.attributes).values
            if let record = AppliedRecord(values) { tokens.append(record.token) }
            return true
        }
        return tokens.inOrder()
    }

    /// Notes the last transaction that was applied from a store. The first record that the new transaction writes names
    /// the applied transaction.
    func write(_ record: AppliedRecord, to draft: Draft) throws(StoreError) {
        let known = try self.record(of: record.token.storeIdentifier)
        guard let written = try ReservedEntity.handle(ReservedEntity.origins, draft.catalog) else { return }
        try draft.write(record.values, of: written, to: known?.object)
    }
}

extension Store {
    /// The places up to which transactions of other stores were applied here: one for each store, including stores
    /// whose transactions came through a third one. From each store, export the transactions after its place next.
    ///
    /// Throws `StoreError`.
    public var appliedOrigins: [HistoryToken] {
        get throws { try AppliedOrigins(try snapshot()).tokens() }
    }

    /// The place in another store's history up to which its transactions were applied here; nil if none were.
    ///
    /// Throws `StoreError`.
    public func lastApplied(from store: UUID) throws -> HistoryToken? {
        try AppliedOrigins(try snapshot()).record(of: store)?.record.token
    }
}
