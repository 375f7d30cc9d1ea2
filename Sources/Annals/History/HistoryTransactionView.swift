// History read in place: values are built only when they are requested.
//
// Invariants:
// HV1  A view refers by address to the frame of the function that lends it, and cannot be copied or kept. So it does
//     not outlive that function, and lending a change costs no reference count.

internal import FoundationEssentials

/// The state and transaction that a view of a transaction refers to (HV1).
struct HistoryContext {
    let view: View
    let storeIdentifier: UUID
    /// The current transaction, in the memory of the function that lends it (HV1).
    var transaction: UnsafePointer<TransactionView>
    /// The filter of shown changes; nil for all.
    let filter: ChangeFilter?
    /// The schema of the last changes that were made into values.
    private var past: PastSchema?

    /// The schema of the current transaction.
    mutating func pastSchema() -> PastSchema {
        let version = transaction.pointee.schemaVersion
        if let past, past.version == version { return past }
        let made = PastSchema(view.shape, version: version)
        past = made
        return made
    }

    init(view: View, storeIdentifier: UUID, transaction: UnsafePointer<TransactionView>, filter: ChangeFilter? = nil) {
        (self.view, self.storeIdentifier, self.transaction, self.filter) = (view, storeIdentifier, transaction, filter)
    }
}

/// One transaction of the history. It is valid until the closure that received it returns.
public struct HistoryTransactionView: ~Copyable {
    let context: UnsafeMutablePointer<HistoryContext>
    @usableFromInline let transaction: UnsafePointer<TransactionView>

    @inline(__always)
    init(_ context: UnsafeMutablePointer<HistoryContext>) {
        self.context = context
        transaction = context.pointee.transaction
    }

    /// The number: from 1, without gaps.
    @inlinable @inline(__always)
    public var number: UInt64 { transaction.pointee.number }

    /// The place in history directly after it.
    public var token: HistoryToken {
        HistoryToken(
            storeIdentifier: context.pointee.storeIdentifier, number: number, tag: transaction.pointee.tag)
    }

    /// When it was committed: microseconds since 1970, UTC.
    @inlinable @inline(__always)
    public var microseconds: Int64 { transaction.pointee.time }

    /// The name of the author; nil if unknown.
    @inlinable @inline(__always)
    public var author: String? { transaction.pointee.author }
    /// The author's activity, or the part of the program; nil if unknown.
    @inlinable @inline(__always)
    public var contextName: String? { transaction.pointee.context }
    /// The process that committed it, as its own system numbered it.
    public var processID: UInt32 { transaction.pointee.processID }
    /// The file name of the program.
    public var process: String? { transaction.pointee.process }

    /// The same as a value that you can keep.
    public var header: TransactionHeader {
        TransactionHeader(
            number: number, token: token, microseconds: microseconds, author: author, contextName: contextName,
            processID: processID, process: process)
    }

    /// The offset at which its frames end. For reports on the file's growth.
    package var fileEnd: UInt64 { transaction.pointee.end }

    /// Whether it changes the schema: entities and handles must be looked up again.
    public var changesSchema: Bool { transaction.pointee.changesSchema }

    /// The number of its changes, including those that a request does not select. Changes of entities whose history is
    /// off do not count.
    public var changeCount: UInt64 {
        let transaction = transaction.pointee
        guard let filter = context.pointee.filter, filter.hidesAnything else { return transaction.totalChanges }
        let version = transaction.schemaVersion
        var count: UInt64 = 0
        // An unreadable table counts as empty: reading it throws.
        try? transaction.forEachChange { (change) in
            if !filter.hides(change.object, version: version) { count += 1 }
            return true
        }
        return count
    }

    /// Calls `body` with each change, in the order in which they were made, until `body` returns false. If a request
    /// selected changes, passes only those. Throws `damaged`, `closed`, and errors of `body`.
    public func forEachChange(
        _ body: (borrowing HistoryChangeView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let context = context
        if context.pointee.filter != nil { return try forEachMatchingChange(body) }
        try transaction.pointee.forEachChange { (change) throws(StoreError) in
            try body(HistoryChangeView(change, context))
        }
    }

    /// The changes that the request selected.
    @inline(never)
    private func forEachMatchingChange(
        _ body: (borrowing HistoryChangeView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let context = context
        guard let filter = context.pointee.filter else { return }
        let (transaction, catalog) = (transaction.pointee, context.pointee.view.catalog)
        try transaction.forEachChange { (change) throws(StoreError) in
            guard filter.matches(change, version: transaction.schemaVersion, catalog) else { return true }
            return try body(HistoryChangeView(change, context))
        }
    }

    /// Returns the transaction as a value that you can keep, on request with the values of objects. Throws `damaged`,
    /// `closed`.
    public func value(includingValues: Bool = false) throws(StoreError) -> HistoryTransaction {
        var changes: [HistoryChange] = []
        if context.pointee.filter == nil { changes.reserveCapacity(Int(clamping: min(changeCount, 65_536))) }
        try forEachChange { (change) throws(StoreError) in
            changes.append(try change.value(includingValues: includingValues))
            return true
        }
        return HistoryTransaction(
            header: header, changesSchema: changesSchema, origin: try origin(), changes: changes)
    }
}

/// One change of a transaction. It is valid until the closure that received it returns.
public struct HistoryChangeView: ~Copyable {
    let change: ChangeView
    let context: UnsafeMutablePointer<HistoryContext>

    @inline(__always)
    init(_ change: ChangeView, _ context: UnsafeMutablePointer<HistoryContext>) {
        self.change = change
        self.context = context
    }

    /// The object that was changed.
    public var object: ObjectID { ObjectID(checked: change.objectBits) }

    /// The kind of change.
    public var kind: HistoryChange.Kind {
        if change.isUpdate { return .update }
        return change.isDeletion ? .delete : .insert
    }

    /// Whether an update changed the attribute at that position, in the schema of that time. False for inserts and
    /// deletions. Does not read the object: for callers that know that the schema has not changed.
    public func changes(at position: Int) -> Bool { change.contains(attributePosition: position) }

    /// The positions of the attributes that an update changed, in the schema of that time. Empty for inserts and
    /// deletions. Does not read the object.
    package var attributePositions: [Int] { change.attributePositions }

    /// The name of the object's entity; the last name if the entity was removed. Nil if the schema never had it.
    public var entity: String? {
        context.pointee.view.catalog.lastDefinition(ofEntity: change.object.entityNumber)?.name.text
    }

    /// The names of the attributes that an update changed, by their names at that time. Empty for inserts and
    /// deletions. Throws `damaged`.
    public func attributes() throws(StoreError) -> [String] {
        guard change.kind == .update else { return [] }
        let positions = change.attributePositions
        var names: [String] = []
        _ = try withRow(isBefore: false) { (row) throws(StoreError) in
            for position in positions {
                guard position < row.layout.count else { throw Self.impossible(row) }
                names.append(row.layout.names[position])
            }
        }
        return names
    }

    private static func impossible(_ row: RowImage) -> StoreError {
        StoreError(
            .damaged, "A change contains an attribute that its entity does not have: restore the store from a backup.",
            offset: row.fileOffset)
    }

    // MARK: Values

    /// The object before the change; nil for an insert, and if history no longer has it. Throws `damaged`.
    public func before() throws(StoreError) -> Row? { change.kind == .insert ? nil : try row(isBefore: true) }

    /// The object after the change; nil for a deletion. Throws `damaged`.
    public func after() throws(StoreError) -> Row? { change.kind == .delete ? nil : try row(isBefore: false) }

    /// The preserved attributes of a deleted object; nil without any, and for other changes. Throws `damaged`.
    public func preserved() throws(StoreError) -> Row? { change.kind == .delete ? try row(isBefore: false) : nil }

    /// Calls `body` with the object after the change, in place; for a deletion, with the preserved attributes.
    /// Positions are those of `entity`. Returns false without such values. Throws `damaged`, and errors of `body`.
    public func withAfter(
        in entity: EntityHandle, _ body: (borrowing RowView) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        let (view, object, role) = (context.pointee.view, change.object, role(isBefore: false))
        return try withRow(isBefore: false) { (row) throws(StoreError) in
            try withUnsafePointer(to: row) { (row) throws(StoreError) in
                try body(RowView(object, row, view: view, layout: entity.layout, as: role))
            }
        }
    }

    func withRow(
        isBefore: Bool, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        let (view, change) = (context.pointee.view, change)
        return isBefore ? try view.withRow(before: change, body) : try view.withRow(after: change, body)
    }

    private func role(isBefore: Bool) -> RowView.Role { change.kind == .delete && !isBefore ? .preserved : .history }

    /// The row, with the attributes that the entity had after the transaction.
    private func row(isBefore: Bool) throws(StoreError) -> Row? {
        var result: Row?
        let (view, object, role) = (context.pointee.view, change.object, role(isBefore: isBefore))
        let version = context.pointee.transaction.pointee.schemaVersion
        _ = try withRow(isBefore: isBefore) { (row) throws(StoreError) in
            // In the schema of that time: an older row has the defaults of newer attributes.
            let layout = view.catalog.layout(version: version, entity: object.entityNumber) ?? row.layout
            result = try withUnsafePointer(to: row) { (place) throws(StoreError) in
                try RowView(object, place, view: view, layout: layout, as: role)
                    .row(entity: layout.entity.name.text, names: layout.names)
            }
        }
        return result
    }

    /// Returns the change as a value that you can keep. It always contains the preserved attributes of a deleted
    /// object. Throws `damaged`.
    public func value(includingValues: Bool = false) throws(StoreError) -> HistoryChange {
        HistoryChange(
            kind: kind, object: object, entity: entity ?? "", attributes: try attributes(),
            before: includingValues ? try before() : nil, after: includingValues ? try after() : nil,
            preserved: try preserved(), origin: ChangeOrigin(schema: context.pointee.pastSchema()))
    }
}
