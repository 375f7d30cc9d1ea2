// Applying a transaction of another store as something else: as what it means after all that was made concurrently.

internal import FoundationEssentials

/// The effect of a transaction of another store on this one, as a mirror has worked it out.
package struct MergedTransaction: Sendable {
    /// The transaction itself. It is noted as applied.
    package var transaction: ExportedTransaction
    /// The changes to write instead of its own, in any order, each of another object. Updates have the present values
    /// as `before`. Names have a store.
    package var changes: [ExportedChange]
    /// Names that lead to the object of another name from now on.
    package var joined: [(name: ExportedObject, object: ExportedObject)]
    /// Names of insertions in `changes` that led to other objects before.
    package var separated: [ExportedObject]
    /// Objects here that go because other objects take all their names.
    package var removed: [ObjectID]
    /// Objects that are gone, and have no place among the objects here: their names lead to no object from now on, but
    /// stay together.
    package var gone: [(main: ExportedObject, names: [ExportedObject])]
    /// The transaction's number in the order of its group.
    package var order: UInt64
    /// The transaction in a form of the mirror, to be kept with it; nil if the changes are the transaction's own.
    package var content: [UInt8]?
    /// Whether the transaction was noted as applied before, without these changes.
    package var isAgain: Bool

    package init(
        _ transaction: ExportedTransaction, as changes: [ExportedChange],
        joined: [(name: ExportedObject, object: ExportedObject)] = [], separated: [ExportedObject] = [],
        removed: [ObjectID] = [], gone: [(main: ExportedObject, names: [ExportedObject])] = [], order: UInt64,
        content: [UInt8]? = nil, isAgain: Bool = false
    ) {
        (self.transaction, self.changes) = (transaction, changes)
        (self.joined, self.separated) = (joined, separated)
        (self.removed, self.gone, self.order, self.content) = (removed, gone, order, content)
        self.isAgain = isAgain
    }
}

extension Store {
    /// Writes a merged transaction, as `apply` writes one.
    ///
    /// - Parameter number: The last transaction of the state that the changes were worked out on.
    /// - Throws: `StoreError`: `conflict` if the store has later transactions: work the changes out again. Also the
    ///   errors of `apply`; `applyConflict` means that the changes contradict the state.
    @discardableResult
    package func apply(
        _ merged: MergedTransaction, onto number: UInt64, durability: Durability? = nil
    ) throws -> ApplyResult {
        let transaction = merged.transaction
        let (outcome, token) = try writeDraft(
            transaction.author, transaction.contextName, durability, validates: false
        ) { (draft, engine) throws -> ApplyResult.Outcome in
            let base = Snapshot(draft.base, engine, identifier)
            let origins = try AppliedOrigins(base)
            draft.keepsTimes = true
            if try !merged.isAgain && origins.isApplied(transaction) { return .alreadyApplied }
            guard base.view.number == number else {
                throw StoreError(
                    .conflict, "The store has changed since the changes were computed: compute them again.")
            }
            if !merged.isAgain { try origins.requireNext(transaction) }
            let definitions = try ApplySchema.definitions(
                for: transaction, draft.catalog, isMerged: true, keepsTypes: true)
            if !definitions.isEmpty { try draft.changeSchema(definitions) }
            if merged.isAgain {
                try origins.noteAgain(transaction, in: draft)
            } else {
                try origins.note(transaction, isSkipped: false, in: draft)
            }
            try draft.note(MergeRecord(order: merged.order, content: merged.content), of: transaction.store, base)
            try ExportReach.write(origin: transaction.store, isSkipped: false, on: base, to: draft)
            try writeChanges(merged, base, draft)
            return .applied
        }
        return ApplyResult(outcome: outcome, token: token, conflicts: [])
    }

    private func writeChanges(_ merged: MergedTransaction, _ base: Snapshot, _ draft: Draft) throws(StoreError) {
        var content = merged.transaction
        content.changes = merged.changes
        var plan = try ApplyPlan(
            content, .exportWins, base, draft, extensions.upkeep, withheld: WithheldChanges(),
            joined: Dictionary(
                merged.joined.map { (ForeignObject($0.name), ForeignObject($0.object)) }, uniquingKeysWith: { $1 }),
            separated: Set(merged.separated.map(ForeignObject.init)), removed: merged.removed,
            gone: merged.gone.map { (ForeignObject($0.main), $0.names.map(ForeignObject.init)) })
        try plan.work()
        try plan.carryOut()
        // A reference to an object that goes is no longer the same value, and is written in any case.
        let conflicts = plan.conflicts.filter { $0.reason != .changedHere }
        guard conflicts.isEmpty else {
            throw StoreError(
                .applyConflict, "A merged transaction contradicts the store: \(conflicts[0].description)",
                applyConflicts: conflicts)
        }
    }

    /// Writes the effect of an earlier transaction of this store once more, as a new transaction of this store, with
    /// the state of its mirror.
    ///
    /// - Parameter number: As above.
    package func applyAgain(_ merged: MergedTransaction, onto number: UInt64, _ record: MergeRecord) throws {
        let transaction = merged.transaction
        _ = try writeDraft(
            transaction.author, transaction.contextName, nil, validates: false
        ) { (draft, engine) throws -> Void in
            let base = Snapshot(draft.base, engine, identifier)
            guard base.view.number == number else {
                throw StoreError(
                    .conflict, "The store has changed since the changes were computed: compute them again.")
            }
            try draft.note(record, of: identifier, base)
            try writeChanges(merged, base, draft)
        }
    }

    /// The record of a merged transaction; nil for any other.
    package func mergeRecord(
        of transaction: borrowing HistoryTransactionView
    ) throws(StoreError) -> MergeRecord? {
        try transaction.mergeRecord(of: identifier)
    }

    /// The state of the store's mirror; nil if it never had one.
    package func mergeState() throws -> MergeRecord? {
        try snapshot().mergeRecord(of: identifier)?.record
    }

    /// Keeps the state of the store's mirror.
    package func setMergeState(_ state: MergeRecord) throws {
        _ = try writeDraft(nil, nil, nil, validates: false) { (draft, engine) throws -> Void in
            let definitions = try ApplySchema.definitions(for: nil, draft.catalog, isMerged: true)
            if !definitions.isEmpty { try draft.changeSchema(definitions) }
            try draft.note(state, of: identifier, Snapshot(draft.base, engine, identifier))
        }
    }
}

extension Store {
    /// Deletes all objects, applies a state of a group, and keeps the state of the store's mirror, as one transaction.
    ///
    /// - Parameters:
    ///   - kept: The numbers of entities whose objects stay.
    ///   - record: Returns the state of the mirror for the number of the transaction; `hadObjects` if objects were
    ///     deleted. Called once, at the end.
    ///   - parts: Calls its argument with each part in order. Called once.
    /// - Throws: `StoreError`: the errors of `applyState(author:durability:_:)`. Then nothing has changed.
    package func applyMergedState(
        keeping kept: Set<UInt16> = [], record: (_ number: UInt64, _ hadObjects: Bool) throws -> MergeRecord,
        _ parts: ((ExportedStatePart) throws -> Void) throws -> Void
    ) throws {
        _ = try writeDraft(nil, nil, nil, validates: false) { draft, engine in
            let base = Snapshot(draft.base, engine, identifier)
            draft.keepsTimes = true
            var application = StateApplication(base, draft, of: identifier, isReplacement: true, keeping: kept)
            try parts { try application.apply($0) }
            guard application.isComplete else { throw StateApplication.malformed("its end is missing") }
            try draft.note(try record(base.view.number + 1, application.hasDeleted), of: identifier, base)
        }
    }
}

extension Snapshot {
    /// Returns whether there were any.
    ///
    /// - Parameter kept: The numbers of entities whose objects stay.
    func deleteObjects(in draft: Draft, except kept: Set<UInt16>) throws(StoreError) -> Bool {
        var hadObjects = false
        for entity in view.catalog.entities(version: view.catalog.newestVersion)
        where !entity.name.isReserved && !kept.contains(entity.number) {
            try view.scan(entity: entity.number, from: 1) { (object, _) throws(StoreError) in
                hadObjects = true
                try draft.delete(object)
                return true
            }
        }
        return hadObjects
    }
}

/// A mirror's record of one store.
package struct MergeRecord: Equatable, Sendable {
    /// In the order of the group.
    package var order: UInt64
    package var content: [UInt8]?

    package init(order: UInt64, content: [UInt8]?) { (self.order, self.content) = (order, content) }

    fileprivate init?(_ values: [Value]) {
        guard values.count == 3, let order = values[1].int else { return nil }
        self.order = UInt64(bitPattern: order)
        content = values[2].data.map { Array($0) }
    }
}

extension Snapshot {
    fileprivate func mergeRecord(of store: UUID) throws(StoreError) -> (object: ObjectID, record: MergeRecord?)? {
        guard let handle = try ReservedEntity.handle(ReservedEntity.merged, view.catalog) else { return nil }
        var found: (ObjectID, MergeRecord?)?
        try lendRows(
            of: handle, by: ["store"], from: .including([.uuid(store)]), to: .including([.uuid(store)])
        ) { (row) throws(StoreError) in
            found = (row.id, MergeRecord(try row.row(entity: handle.name, names: handle.attributes).values))
            return false
        }
        return found
    }
}

extension ForeignObject {
    /// A name with a store.
    fileprivate init(_ name: ExportedObject) {
        guard let store = name.store else { preconditionFailure("A merged change names an object without a store.") }
        self.init(store: store, id: name.id)
    }
}

extension Draft {
    fileprivate func note(_ record: MergeRecord, of store: UUID, _ base: Snapshot) throws(StoreError) {
        guard let written = try ReservedEntity.handle(ReservedEntity.merged, catalog) else { return }
        let known = try base.mergeRecord(of: store)?.object
        try write(
            [
                .uuid(store.stored), .int(Int64(bitPattern: record.order)),
                record.content.map { .data($0) } ?? .absent,
            ], of: written, to: known)
    }
}

extension HistoryTransactionView {
    /// `own` is the store itself, whose record is not about a transaction.
    func mergeRecord(of own: UUID) throws(StoreError) -> MergeRecord? {
        let context = context
        let view = context.pointee.view
        guard !view.reservedEntities.isEmpty, let number = view.catalog.number(ofEntity: ReservedEntity.merged.name)
        else { return nil }
        var record: MergeRecord?
        try transaction.pointee.forEachChange { (change) throws(StoreError) in
            guard change.object.entityNumber == number else { return true }
            if let row = try HistoryChangeView(change, context).after(), row.values.first?.uuid != own {
                record = MergeRecord(row.values)
            }
            return record == nil
        }
        return record
    }
}
