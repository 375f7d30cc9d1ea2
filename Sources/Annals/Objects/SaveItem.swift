// A context's part of a save for one object. Computed before the writer lock is taken, and written with it.
//
// Invariants:
// OS1  Writing an item runs no code of the program: values of its own types are encoded before.
// OS2  An item knows no positions of attributes: another writer may change the schema before it is written.

internal import FoundationEssentials

/// One object to be saved, of any type.
protocol SaveItem: AnyObject, Sendable {
    var id: ObjectID { get }
    var kind: HistoryChange.Kind { get }
    /// Whether it is inserted under the ID that it had before it was deleted.
    var isAgain: Bool { get }
    /// The ID of an inserted object that updates one of the store; `id` is then that of the store's.
    var insertedID: ObjectID? { get }
    /// Whether the store is known to have another version than the one that the changes are relative to.
    var isContested: Bool { get }
    /// The properties that break the schema's rules.
    var failures: [ValidationFailure] { get }
    /// Whether it may be written as it is. Other objects, and the store's content, may still prevent it.
    var isValid: Bool { get }
    /// The same on a newer state of the store; nil if nothing is left to be saved. Adds conflicts.
    func rebased(
        on newer: Snapshot, _ policy: MergePolicy, _ conflicts: inout [MergeConflict]
    ) throws(StoreError) -> (any SaveItem)?
    /// For an inserted object, an update of the object in the store that has the same unique values; nil without one.
    /// `planned` are objects that must not be taken, `existing` maps the IDs of inserted objects to those of the taken
    /// ones.
    func updatingExisting(
        in newer: Snapshot, except planned: Set<ObjectID>, _ existing: PermanentIDs
    ) throws(StoreError) -> (any SaveItem)?
    /// The same without references to objects that were deleted in the store; nil if nothing is left to be saved.
    /// `inserted` are objects that are about to be there.
    func withoutDeletedTargets(
        in newer: Snapshot, except inserted: Set<ObjectID>, _ policy: MergePolicy,
        _ conflicts: inout [MergeConflict]
    ) throws(StoreError) -> (any SaveItem)?
    /// Takes an ID for an object to be inserted.
    func reserve(in transaction: Transaction) throws(StoreError) -> ObjectID
    /// Writes it. `permanent` has the IDs of the inserted objects by their temporary ones.
    func write(to transaction: Transaction, _ permanent: PermanentIDs) throws(StoreError)
    /// All reasons why it cannot be written, if an error was met first.
    func reasons(
        of error: StoreError, in transaction: Transaction, _ permanent: PermanentIDs
    ) throws(StoreError) -> [StoreError]
    /// The object that lies over the store's value until the save lands (BS3); nil if the object no longer exists.
    func send(_ core: ContextCore) -> (any SentObject)?
    /// Gives its object the ID that the transaction has given it. `permanent` has the IDs of the inserted objects by
    /// their temporary ones.
    func adoptID(_ flight: SaveInFlight, _ core: ContextCore, _ permanent: PermanentIDs)
}

final class SaveItemOf<E: Entity>: SaveItem {
    let reference: Reference<E>
    let kind: HistoryChange.Kind
    /// The value to save, with changes by hooks and derivations; the same object as `shown` without any.
    let value: SavedValue<E>
    /// The shown value when saving began.
    let shown: SavedValue<E>
    /// The base of the changes; nil for an inserted object.
    let base: SavedValue<E>?
    let isContested: Bool
    /// The item before it was computed for a newer state; nil if this is it.
    let first: SaveItemOf?
    /// The inserted object that updates one of the store; nil if it is the store's own.
    let inserted: Reference<E>?
    /// An inserted object that was in the store before, and gets its ID again.
    let isAgain: Bool
    /// The slots that an update writes; nil for all. Properties that the context has not changed keep their stored
    /// value, even if they read otherwise: a missing value, or a reference to a deleted object.
    private let written: [Int]?
    /// If the program's own code encodes some of the values (OS1), all that are written, by the properties' places in
    /// values: the transaction may have a newer schema than the snapshot, with other positions (OS2).
    private let encoded: [(offset: Int, value: StoredValue)]?
    let failures: [ValidationFailure]
    /// The error of the program's own code for a value that it cannot encode.
    private let unstorable: StoreError?
    /// The object's attributes that the type does not know, if the context keeps them (UV1).
    let unknown: UnknownValues?
    /// The state in which the object has attributes that the type does not know; nil if the type knows everything.
    let place: Snapshot?

    /// The schema version by which the object reads as it is shown, right after the transaction; nil if it may read
    /// otherwise (BS5).
    let shownVersion: Int?

    var id: ObjectID { reference.id }
    var insertedID: ObjectID? { inserted?.id }
    var isValid: Bool { failures.isEmpty && unstorable == nil }

    @inline(never)
    init(
        _ reference: Reference<E>, _ kind: HistoryChange.Kind, shown: SavedValue<E>, value: SavedValue<E>,
        base: SavedValue<E>?, isAgain: Bool, isContested: Bool = false, first: SaveItemOf? = nil,
        inserted: Reference<E>? = nil, unknown: UnknownValues? = nil, _ snapshot: Snapshot
    ) throws(StoreError) {
        (self.first, self.inserted) = (first, inserted)
        self.isContested = isContested
        (self.reference, self.kind, self.base, self.isAgain) = (reference, kind, base, isAgain)
        self.shown = shown
        let layout = try snapshot.layout(of: reference)
        let binding = try layout.binding(E.self, snapshot.view.catalog)
        self.unknown = unknown
        place = kind == .update && binding.isPartial ? snapshot : nil
        guard kind != .delete else {
            self.value = value
            (failures, encoded, unstorable, written, shownVersion) = ([], nil, nil, nil, nil)
            return
        }
        let model = binding.model
        if model.hasRules {
            var prepared = value.value
            failures = Self.prepare(&prepared, binding, reference.id)
            self.value = model.saved(prepared, orSame: value)
        } else {
            failures = []
            self.value = value
        }
        var written: [Int]?
        if kind == .update, let base {
            written = model.differences(base.value, self.value.value).map { model.properties[$0].offset }
        }
        self.written = written
        (encoded, unstorable) =
            try withUnsafePointer(to: self.value.value) { (value) throws(StoreError) in
                if binding.isWrittenByAddress && !binding.mayHaveLongValues(value) { return (nil, nil) }
                do throws(StoreError) {
                    return (try binding.encoded(value, at: written), nil)
                } catch {
                    guard error.isRefusal else { throw error }
                    return (nil, error)
                }
            }
        let isExact = encoded == nil && unstorable == nil && binding.readsAsWritten && self.value === shown
        shownVersion = isExact ? snapshot.schemaVersion : nil
    }

    private static func prepare(
        _ value: inout E, _ binding: EntityBinding, _ object: ObjectID
    ) -> [ValidationFailure] {
        withUnsafeMutablePointer(to: &value) { value in
            binding.model.rules.derive(UnsafeMutableRawPointer(value))
            return binding.model.rules.failures(UnsafeRawPointer(value)).map { $0.of(object) }
        }
    }

    // MARK: Writing

    func reserve(in transaction: Transaction) throws(StoreError) -> ObjectID {
        if isAgain { return id }
        guard id.isTemporary else {
            try transaction.draft.claim(id)
            return id
        }
        // Another writer may have given the name to another entity since the object was inserted.
        return try transaction.draft.reserve(entity: transaction.binding(E.self).1.number)
    }

    func write(to transaction: Transaction, _ permanent: PermanentIDs) throws(StoreError) {
        let draft = transaction.draft
        let (binding, layout) = try transaction.binding(E.self)
        let object = permanent[id] ?? id
        try binding.requireObject(object, layout)
        guard kind != .delete else { return try draft.delete(id) }
        if let unstorable { throw unstorable }
        if let encoded {
            let changes = binding.changes(encoded.map { (offset: $0.offset, value: $0.value.replacing(permanent)) })
            for (_, value) in changes where value.isTemporaryReference {
                try requirePermanent(self.value.value, permanent)
            }
            if kind == .update, !isAgain {
                _ = try transaction.update(id, changes, binding)
                return
            }
            return try write(draft, object, binding, layout) { (row) throws(StoreError) in
                try binding.write(changes, to: &row)
            }
        }
        if binding.model.referringSlots.isEmpty { return try write(value.value, draft, object, binding, layout) }
        var value = value.value
        if !permanent.isEmpty { _ = E.model.replaceReferences(permanent, in: &value) }
        try requirePermanent(value)
        try write(value, draft, object, binding, layout)
    }

    private func write(
        _ value: E, _ draft: Draft, _ object: ObjectID, _ binding: EntityBinding, _ layout: RowLayout
    ) throws(StoreError) {
        try withUnsafePointer(to: value) { (value) throws(StoreError) in
            try write(draft, object, binding, layout) { (row) throws(StoreError) in
                try binding.write(UnsafeRawPointer(value), to: &row, at: written)
            }
        }
    }

    func reasons(
        of error: StoreError, in transaction: Transaction, _ permanent: PermanentIDs
    ) throws(StoreError) -> [StoreError] {
        guard error.isRefusal, kind != .delete else { return [error] }
        let (binding, layout) = try transaction.binding(E.self)
        let reasons =
            unknownTemporaries(value.value, permanent)
            + withUnsafePointer(to: value.value) { binding.obstacles(UnsafeRawPointer($0), at: written, layout) }
        return reasons.isEmpty ? [error] : reasons
    }

    /// Throws `wrongContext` if the value refers to an object that only another context has.
    private func requirePermanent(_ value: E, _ permanent: PermanentIDs = [:]) throws(StoreError) {
        if let first = unknownTemporaries(value, permanent).first { throw first }
    }

    private func unknownTemporaries(_ value: E, _ permanent: PermanentIDs) -> [StoreError] {
        let model = E.model
        return model.referringSlots.flatMap { slot in
            model.references(at: slot, in: value).filter { $0.isTemporary && permanent[$0] == nil }
                .map { .unknownTemporary($0, of: model.properties[slot], model) }
        }
    }

    private func write(
        _ draft: Draft, _ object: ObjectID, _ binding: EntityBinding, _ layout: RowLayout,
        _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        if isAgain {
            // Another version of the program may know more attributes.
            try draft.insertAgain(object, setting: binding.known, kept: unknown ?? [:], set)
        } else if kind == .insert {
            try draft.insert(reserved: object, layout, set)
        } else {
            try draft.update(object, set)
        }
    }

    // MARK: Afterwards

    func send(_ core: ContextCore) -> (any SentObject)? {
        guard let object = core.registered(reference) else { return nil }
        return E.model.classes.find(.sentObject, SentObjectOf<E>.self).init(object, kind, base: base, sent: shown)
    }

    func adoptID(_ flight: SaveInFlight, _ core: ContextCore, _ permanent: PermanentIDs) {
        guard let found = flight.objects[insertedID ?? id], let sent = E.model.cast(found, to: E.self) else { return }
        if kind == .insert { core.didInsert(id) }
        if inserted != nil, let base {
            let former = core.registered(reference).flatMap { $0 === sent.object ? nil : $0 }
            core.recorder?.didUpdateExisting(sent.object.kept(base.value), with: sent.object, insteadOf: former)
            if let former { core.replace(former) }
        }
        core.rename(sent.object, to: Reference(permanent[id] ?? id))
        if kind != .delete { sent.land(self) }
    }

    /// The slots that the transaction has changed.
    var changedSlots: [Int] {
        let model = E.model
        return base.map { model.differences($0.value, value.value) } ?? Array(model.properties.indices)
    }

    /// The slots that hooks and derivations have computed.
    var computedSlots: [Int] {
        // Values that the policy has taken from other writers were not computed here.
        let (first, model) = (first ?? self, E.model)
        if first.shown === first.value { return [] }
        var computed = model.differences(first.shown.value, first.value.value)
        if first !== self, !computed.isEmpty {
            let others = model.differences(first.value.value, value.value)
            computed.removeAll { others.contains($0) }
        }
        return computed
    }
}

extension EntityModel {
    /// A value in an object: in that of another value, if both have the same bytes. Usually a hook has changed nothing.
    fileprivate func saved<E: Entity>(_ value: E, orSame other: SavedValue<E>) -> SavedValue<E> {
        let hasSameBytes = withUnsafeBytes(of: value) { value in
            withUnsafeBytes(of: other.value) { $0.hasSameBytes(as: value) }
        }
        return hasSameBytes ? other : saved(value)
    }
}

extension StoreError {
    fileprivate static func unknownTemporary(
        _ target: ObjectID, of property: EntityModel.Property, _ model: EntityModel
    ) -> StoreError {
        let entity = property.codec.target?.model.name ?? model.name
        return StoreError(
            .wrongContext,
            "“\(property.name)” of “\(model.name)” refers to an object of “\(entity)” that is not inserted in this "
                + "context, or was undone, discarded or deleted: insert it again, or refer to another object. If it is "
                + "inserted in another context, save that context first, and use the object's objectReference.",
            ObjectFacts(model.name, [property.name], object: target))
    }
}

extension StoredValue {
    fileprivate var isTemporaryReference: Bool {
        switch self {
        case .object(let object): object.isTemporary
        case .orderedObjects(let objects), .objects(let objects): objects.contains(where: \.isTemporary)
        default: false
        }
    }

    /// The same with other references.
    fileprivate func replacing(_ others: PermanentIDs) -> StoredValue {
        if others.isEmpty { return self }
        return switch self {
        case .object(let object): .object(others[object] ?? object)
        case .orderedObjects(let objects): .orderedObjects(objects.map { others[$0] ?? $0 })
        case .objects(let objects): .objects(objects.map { others[$0] ?? $0 }.sorted())
        default: self
        }
    }
}

extension Object {
    func saveItem(runsHooks: Bool, _ snapshot: Snapshot) throws(StoreError) -> (any SaveItem)? {
        if phase == .gone || phase == .stored && !hasChanges { return nil }
        let model = E.model
        let shown = model.saved(current)
        var value = shown.value
        let kind: HistoryChange.Kind
        switch phase {
        case .gone: return nil
        case .deleted:
            if runsHooks { value.willDelete() }
            kind = .delete
        case .inserted:
            if runsHooks {
                value.willInsert()
                value.willSave()
            }
            kind = .insert
        case .stored:
            if runsHooks { value.willSave() }
            kind = .update
        }
        let (core, id) = (core, id)
        if kind != .delete { try core.followRulesOfUnsaved(in: &value, of: id) }
        return try model.classes.find(.saveItem, SaveItemOf<E>.self)
            .init(
                reference, kind, shown: shown, value: model.saved(value, orSame: shown),
                base: phase == .inserted ? nil : saved,
                isAgain: phase == .inserted && !id.isTemporary && !core.isReserved(id),
                isContested: saved?.isContested ?? false,
                unknown: core.unknownValues.isEmpty ? nil : core.unknownValues[id], snapshot)
    }
}
