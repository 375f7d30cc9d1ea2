// The last transaction that an export really contains.
//
// A receiver's place is the last transaction that it was given. If all transactions after it are left out of exports,
// and are then cleaned, history no longer contains that place, although the receiver misses nothing. So with each
// transaction that a store applies or skips, it notes the last one that is not left out.
//
// Invariants:
// LX1  At most one record exists. It is about the transaction that wrote it, so it is read in the state directly after
//     that transaction.
// LX2  The record is exact: all transactions after `whole` are left out for every receiver, and `whole` is not. The
//     same holds for `other` and `store`.

internal import FoundationEssentials

/// The last transaction that an export contains, up to one that applied another store's, or only noted it.
struct ExportReach {
    /// The last transaction that is not a mere note (LX2): the given one, or one before it. Number 0 for none.
    var whole: HistoryToken
    /// The store in which `whole` was made; nil if it was made here, or does not exist.
    var store: UUID?
    /// The last transaction before `whole` that is exported to that store. Number 0 for none.
    var other: HistoryToken

    /// The last transaction of an export. Number 0 for none.
    func last(for target: UUID?) -> HistoryToken { target != nil && target == store ? other : whole }

    /// For the last transaction of a state; nil if it was made in this store.
    init?(_ state: Snapshot) throws(StoreError) {
        guard let values = try Self.record(state)?.values else { return nil }
        self.init(values, state)
    }

    private init?(_ values: [Value], _ state: Snapshot) {
        guard values.count == 6, Self.number(values[0]) == state.view.number else { return nil }
        func token(_ number: Value, _ tag: Value) -> HistoryToken {
            HistoryToken(
                storeIdentifier: state.storeIdentifier, number: Self.number(number) ?? 0, tag: Self.number(tag) ?? 0)
        }
        // The transaction's own tag was not known when the record was written (LX1).
        whole = values[1].int == nil ? state.token : token(values[1], values[2])
        store = values[3].uuid
        other = token(values[4], values[5])
    }

    private static func record(_ state: Snapshot) throws(StoreError) -> (object: ObjectID, values: [Value])? {
        guard let handle = try ReservedEntity.handle(ReservedEntity.leftOut, state.view.catalog) else { return nil }
        var found: (ObjectID, [Value])?
        try state.lendRows(of: handle) { (row) throws(StoreError) in
            found = (row.id, try row.row(entity: handle.name, names: handle.attributes).values)
            return false
        }
        return found
    }

    private static func number(_ value: Value) -> UInt64? { value.int.map { UInt64(bitPattern: $0) } }

    /// Notes the last exported transaction, in the new transaction that applies one of `origin`, or only notes it.
    static func write(
        origin: UUID, isSkipped: Bool, on base: Snapshot, to draft: Draft
    ) throws(StoreError) {
        guard let handle = try ReservedEntity.handle(ReservedEntity.leftOut, draft.catalog) else { return }
        let known = try record(base)
        let before = known.flatMap { ExportReach($0.values, base) }
        var values: [StoredValue] = [.int(Int64(bitPattern: base.view.number + 1))]
        func append(_ token: HistoryToken) {
            values += [.int(Int64(bitPattern: token.number)), .int(Int64(bitPattern: token.tag))]
        }
        if isSkipped {
            append(before?.whole ?? base.token)
            values.append(before?.store.map { .uuid($0.stored) } ?? .absent)
            append(before?.other ?? base.token)
        } else {
            values += [.absent, .absent, .uuid(origin.stored)]
            append(before?.last(for: origin) ?? base.token)
        }
        try draft.write(values, of: handle, to: known?.object)
    }
}
