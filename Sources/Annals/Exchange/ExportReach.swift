// How far back the transactions reach that an export leaves out.
//
// A receiver's place stays where the last transaction was that it was given. Where those after it are left out, and
// are cleaned, that place is one that history does not have any more, and yet nothing is missing. So the store notes
// with each transaction that it applies or passes over which one is the last that is not left out.
//
// Invariants:
// LX1  There is at most one record. It speaks of the transaction that wrote it, so it is looked for in the state right
//     after that.
// LX2  What is noted is exact: all after `whole` are left out for everybody, `whole` itself is not; the same of `other`
//     and `store`.

internal import FoundationEssentials

/// What the exports up to one transaction, which was applied or only noted, have last.
struct ExportReach {
    /// The last transaction that is not a mere note: that one itself, or one before it. Number 0 for none.
    var whole: HistoryToken
    /// Where `whole` was first made; nil if it was made here, or is none.
    var store: UUID?
    /// The last one before `whole` that is exported to that store. Number 0 for none.
    var other: HistoryToken

    /// What an export has last. Number 0 for nothing.
    func last(for target: UUID?) -> HistoryToken { target != nil && target == store ? other : whole }

    /// Of the last transaction of a state; nil if that was made in this store.
    init?(_ state: Snapshot) throws(StoreError) {
        guard let values = try Self.record(state)?.values, values.count == 6,
            Self.number(values[0]) == state.view.number
        else { return nil }
        func token(_ number: Value, _ tag: Value) -> HistoryToken {
            HistoryToken(
                storeIdentifier: state.storeIdentifier, number: Self.number(number) ?? 0, tag: Self.number(tag) ?? 0)
        }
        // Its own tag was not known when it was written.
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

    /// Notes what an export has last after the transaction that applies what `origin` tells, or only notes it.
    static func write(
        origin: UUID, isSkipped: Bool, on base: Snapshot, to pending: PendingTransaction
    ) throws(StoreError) {
        guard let handle = try ReservedEntity.handle(ReservedEntity.leftOut, pending.catalog) else { return }
        let before = try ExportReach(base)
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
        let known = try record(base)?.object
        guard let known else {
            _ = try pending.insert(entity: handle.number, values)
            return
        }
        _ = try pending.update(
            known, values.enumerated().map { (position: $0.offset, value: $0.element) })
    }
}
