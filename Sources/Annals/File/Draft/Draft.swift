// A transaction before it is committed: it reads, inserts, changes and deletes objects. The commit finds conflicts.
//
// Invariants:
// T1  `frames` has each object at most once when it is complete: a later change of an object includes the earlier one,
//     which then no longer counts.
// T2  Every version that the transaction replaces is the newest that `base` sees.
// T3  An object number is given to one transaction of this handle only.

/// For one thread at a time. So overlapping accesses to its own memory are not checked.
///
/// After its end, it may begin again with the same memory (`DraftRecycler`).
package final class Draft {
    /// The state that it reads, without its own changes. Nil while the transaction is appended, so that the next state
    /// can reuse the view.
    @exclusivity(unchecked) private var heldBase: View?
    let frames: DraftFrames
    let numbers: ObjectNumberSupply
    @exclusivity(unchecked) private(set) var shape: StoreShape
    /// Existing objects that were changed or deleted here.
    @exclusivity(unchecked) var changed = ChangedIDs()
    /// Objects that this transaction has deleted and that references may lead to.
    @exclusivity(unchecked) private(set) var deleted: [ObjectID] = []
    /// The same, for lookup.
    @exclusivity(unchecked) private var deletedSet = Set<UInt64>()
    /// Objects that were inserted and deleted here, and so never existed.
    @exclusivity(unchecked) private var vanished = Set<UInt64>()
    /// Objects whose numbers were drawn, but that are not inserted yet.
    @exclusivity(unchecked) var reserved = Set<UInt64>()
    /// By entity, except that of `lastDrawn`: the numbers drawn for it. Numbers below `next` belong to inserted
    /// objects.
    @exclusivity(unchecked) private var taken: [UInt16: DrawnNumbers] = [:]
    @exclusivity(unchecked) var lastDrawn = DrawnNumbers.none
    /// Earlier ranges of drawn numbers, if another transaction drew numbers in between.
    @exclusivity(unchecked) var earlier: [(entity: UInt16, numbers: Range<UInt64>)] = []

    /// Objects that were inserted again, and the positions of the references that they keep.
    @exclusivity(unchecked) var carried: [ObjectID: [Int]] = [:]

    /// Whether the rules of references to deleted objects have been carried out: this happens once, after the body.
    @exclusivity(unchecked) var areRulesApplied = false
    /// The references that objects have lost to these rules: by object and attribute.
    @exclusivity(unchecked) var losses: [ObjectID: [UInt16: Set<ObjectID>]] = [:]
    /// Whether the commit conflicts with any commit after `base`, because the draft relies on objects that it does not
    /// change.
    @exclusivity(unchecked) package var needsNewestState = false
    /// Whether the changes have been made in other stores, and the objects keep the times that these have set.
    @exclusivity(unchecked) package var keepsTimes = false

    /// The objects inserted or updated since the first call of `noteWritten`, once for each write; nil before.
    @exclusivity(unchecked) private(set) var written: [ObjectID]?

    /// Set in a rehearsal: then nothing is written, and the rehearsal notes errors.
    @exclusivity(unchecked) var rehearsal: Rehearsal?

    /// Called with the writer lock, just before the transaction is appended. If it throws, nothing is written.
    @exclusivity(unchecked) package var beforeAppending: (() throws(StoreError) -> Void)?
    /// Called with the writer lock when the transaction is appended, before any view of this handle contains it.
    @exclusivity(unchecked) package var afterAppending: ((AppendedTransaction) -> Void)?

    /// Without references: a commit of one row would notice the cost.
    struct DrawnNumbers {
        let entity: UInt16
        var first: UInt64 = 0
        var next: UInt64 = 0
        /// 0 before any number was drawn.
        var end: UInt64 = 0

        /// No entity has the number 0.
        static let none = DrawnNumbers(entity: 0)

        func contains(_ number: UInt64) -> Bool { number >= first && number < next }
    }

    /// Makes a draft that has not begun yet.
    init(_ numbers: ObjectNumberSupply, _ base: View, _ log: Log) {
        self.numbers = numbers
        heldBase = base
        shape = base.shape
        frames = log.makeFrames(catalog: base.shape.catalog)
    }

    /// Begins on a state, as if new.
    func begin(_ base: consuming View, author: String?, context: String?, expectedChanges: Int) {
        assert(taken.isEmpty && lastDrawn.entity == 0, "T3: a draft begins with the numbers of another transaction.")
        if shape === base.shape {
            frames.begin(expectedChanges: expectedChanges, catalog: nil)
        } else {
            shape = base.shape
            frames.begin(expectedChanges: expectedChanges, catalog: shape.catalog)
        }
        frames.prepared.setOrigin(author: author, context: context)
        heldBase = base
        changed.removeAll()
        if !vanished.isEmpty { vanished = [] }
        if !reserved.isEmpty { reserved = [] }
        if !deleted.isEmpty { (deleted, deletedSet) = ([], []) }
        if beforeAppending != nil { beforeAppending = nil }
        if afterAppending != nil { afterAppending = nil }
        if !carried.isEmpty { carried = [:] }
        areRulesApplied = false
        if !losses.isEmpty { losses = [:] }
        if written != nil { written = nil }
        (needsNewestState, keepsTimes) = (false, false)
    }

    /// From now on, `written` gets every inserted or updated object.
    func noteWritten() { if written == nil { written = [] } }

    /// Called after writing an object in another way.
    func didWrite(_ object: ObjectID) { written?.append(object) }

    /// Whether it is small enough to be reused for the next transaction.
    var isReusable: Bool { frames.isReusable && changed.memory <= 1 << 17 }

    /// The state that it reads, without its own changes, while its body runs.
    @inline(__always)
    package var base: View {
        guard let heldBase else { preconditionFailure("A transaction cannot be read while it is written.") }
        return heldBase
    }

    /// Ends its reading of the state.
    func releaseBase() { heldBase = nil }

    package var author: String? {
        get { frames.prepared.author }
        set { frames.prepared.author = newValue }
    }

    package var context: String? {
        get { frames.prepared.context }
        set { frames.prepared.context = newValue }
    }

    /// Whether its references must lead to objects, and deletions follow the delete rules of references.
    package var checksReferences: Bool {
        get { frames.checksReferences }
        set { frames.checksReferences = newValue }
    }

    /// The schema, with this transaction's own changes.
    package var catalog: SchemaCatalog { frames.catalog }

    package var hasChanges: Bool { frames.countingChanges > 0 || frames.prepared.changesSchema }

    // MARK: Schema

    /// Defines a new schema version. Only once, and before any other change. Throws `invalidArgument` for impossible
    /// definitions.
    package func changeSchema(_ definitions: [EntityDefinition]) throws(StoreError) {
        for definition in definitions { try IndexID.requireIndexable(definition) }
        try frames.changeSchema(definitions)
        shape = StoreShape(frames.catalog)
    }

    /// The layout for writing objects of the entity, in this transaction's schema; nil if the schema lacks the entity.
    @inline(__always)
    package func newestLayout(_ entity: UInt16) -> RowLayout? { shape.newestLayout(entity) }

    /// Throws `schemaChanged` if the layout is no longer the newest. Called for every object, so it counts no
    /// references.
    @inline(__always)
    package func requireNewest(_ layout: RowLayout) throws(StoreError) {
        if !shape.isNewest(layout) { throw Self.schemaChanged(layout) }
    }

    @inline(never)
    private static func schemaChanged(_ layout: RowLayout) -> StoreError {
        StoreError(
            .schemaChanged,
            "The schema of “\(layout.entity.name)” has changed: ask the transaction for the entity again.")
    }

    func layout(_ entity: UInt16) throws(StoreError) -> RowLayout {
        guard let layout = shape.newestLayout(entity) else {
            throw StoreError(.invalidArgument, "Entity \(entity) is not in the schema: define it before its objects.")
        }
        return layout
    }

    // MARK: Inserting

    /// Inserts an object with one value for each attribute of its entity's newest layout, in order.
    package func insert(entity: UInt16, _ values: [StoredValue]) throws(StoreError) -> ObjectID {
        try requireCount(values.count, try layout(entity))
        return try insert(entity: entity) { (row) throws(StoreError) in
            for position in values.indices {
                if case .absent = values[position] { continue }
                try row.set(stored: values[position], at: position)
            }
        }
    }

    func requireCount(_ count: Int, _ layout: RowLayout) throws(StoreError) {
        guard count == layout.count else {
            throw StoreError(.invalidArgument, "A row does not have one value for each attribute.")
        }
    }

    /// Inserts an object; `set` sets its attributes. The rest get their defaults, or are absent.
    package func insert(
        entity: UInt16, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) -> ObjectID {
        try insert(try layout(entity), set)
    }

    /// The same, with the entity's newest layout. Throws `schemaChanged` if the layout is no longer the newest.
    package func insert(
        _ layout: RowLayout, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) -> ObjectID {
        try requireNewest(layout)
        // Checked before drawing a number, because a row that is being written may belong to an object with a number.
        try frames.requireUsable()
        let object = try drawNumber(layout.number)
        do throws(StoreError) {
            try frames.write(.init(.insert, object, previous: nil), layout, .object, set)
        } catch {
            // The insertion failed, so the next object may get the number.
            if lastDrawn.entity == object.entityNumber, lastDrawn.next == object.number + 1 { lastDrawn.next -= 1 }
            throw error
        }
        written?.append(object)
        return object
    }

    // MARK: Updating

    /// Changes attributes of an object. Returns false, and writes nothing, if nothing differs. Throws `objectNotFound`.
    @discardableResult
    package func update(_ object: ObjectID, _ values: [(position: Int, value: StoredValue)]) throws(StoreError) -> Bool
    {
        let ascending = values.sorted { $0.position < $1.position }
        return try update(object) { (row) throws(StoreError) in
            for (position, value) in ascending { try row.set(stored: value, at: position) }
        }
    }

    /// Changes the attributes that `set` sets. Returns false, and writes nothing, if nothing differs. Throws
    /// `objectNotFound`.
    @discardableResult
    package func update(
        _ object: ObjectID, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        let layout = try layout(object.entityNumber)
        if isChangedHere(object) { return try updateAgain(object, layout, set) }
        do throws(StoreError) {
            try base.core.reading { () throws(StoreError) in
                guard let offset = try base.core.visibleRow(object, below: base.end) else { throw notFound(object) }
                assert(offset < base.end, "T2: a version is replaced that the transaction does not see.")
                let old = try base.core.row(at: offset, object.entityNumber, base.shape)
                try write(object, layout, old: old, previous: .row(offset: offset), set)
            }
        } catch  where error.code == .unchanged {
            return false
        }
        changed.insert(object.rawValue)
        written?.append(object)
        return true
    }

    private func write(
        _ object: ObjectID, _ layout: RowLayout, old: RowImage, previous: PreviousVersion,
        _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) {
        assert(!isChangedHere(object), "T1: a second change of an object does not include the first one.")
        try frames.write(.init(.update, object, previous: previous), layout, old: old, .difference, set)
    }

    /// Changes an object that this transaction has inserted or updated: the new change includes the earlier one.
    private func updateAgain(
        _ object: ObjectID, _ layout: RowLayout, _ set: (inout RowWriter) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        let (first, bytes) = try ownRow(object)
        do throws(StoreError) {
            try bytes.withRowView(layout) { (old) throws(StoreError) in
                // The set of attributes is empty for an insert.
                let entry = DraftFrames.Entry(
                    first.kind, object, previous: first.previous, attributes: first.attributes)
                try frames.write(entry, layout, old: old, .difference, set)
            }
        } catch  where error.code == .unchanged {
            return false
        }
        try frames.supersede()
        written?.append(object)
        return true
    }

    /// The transaction's latest change of an object, with its row. Throws `objectNotFound`.
    private func ownRow(_ object: ObjectID) throws(StoreError) -> (OwnChange, row: [UInt8]) {
        guard let change = try frames.ownChange(of: object), change.kind != .delete, let row = change.row else {
            throw notFound(object)
        }
        return (change, row)
    }

    // MARK: Deleting

    /// Deletes an object. Attributes preserved on deletion stay readable in the history. Throws `objectNotFound`.
    package func delete(_ object: ObjectID) throws(StoreError) {
        let layout = try layout(object.entityNumber)
        if isChangedHere(object) {
            try deleteAgain(object, layout)
            return noteDeleted(object)
        }
        try base.core.reading { () throws(StoreError) in
            guard let offset = try base.core.visibleRow(object, below: base.end) else { throw notFound(object) }
            let preserved = try preserved(layout) { () throws(StoreError) in
                try base.core.row(at: offset, object.entityNumber, base.shape)
            }
            try frames.delete(object, preserved: preserved, previous: .row(offset: offset))
        }
        changed.insert(object.rawValue)
        noteDeleted(object)
    }

    /// Whether it has deleted an object that references may lead to.
    var deletesAnything: Bool { !deleted.isEmpty }

    /// Whether it has deleted this object, and references may lead to it.
    func deletes(_ object: ObjectID) -> Bool { deletedSet.contains(object.rawValue) }

    private func noteDeleted(_ object: ObjectID) {
        if !shape.hasReferences || shape.referring(to: object.entityNumber).isEmpty { return }
        deleted.append(object)
        deletedSet.insert(object.rawValue)
        assert(deletedSet.count == deleted.count, "DR1: an object is deleted twice.")
    }

    func noteVanished(_ object: ObjectID) { vanished.insert(object.rawValue) }

    private func deleteAgain(_ object: ObjectID, _ layout: RowLayout) throws(StoreError) {
        let (first, bytes) = try ownRow(object)
        // An object inserted here never existed. One that was deleted before and inserted here again stays deleted.
        guard first.kind == .update, let previous = first.previous else {
            noteVanished(object)
            return try frames.takeOut(object)
        }
        try bytes.withRowView(layout) { (old) throws(StoreError) in
            try frames.delete(object, preserved: try preserved(layout) { old }, previous: previous)
        }
        try frames.supersede()
    }

    /// The row of a deletion; nil without preserved attributes.
    func preserved(
        _ layout: RowLayout, _ row: () throws(StoreError) -> RowImage
    ) throws(StoreError) -> [StoredValue]? {
        guard layout.slots.contains(where: { $0.isPreservedOnDeletion }) else { return nil }
        let old = try row()
        var values = [StoredValue](repeating: .absent, count: layout.count)
        var isEmpty = true
        for (position, slot) in layout.slots.enumerated() where slot.isPreservedOnDeletion {
            let number = layout.entity.attributes[position].number
            guard let place = old.isLike(layout) ? position : old.layout.position(ofAttribute: number),
                old.isPresent(place)
            else { continue }
            values[position] = try old.value(at: place)
            isEmpty = false
        }
        return isEmpty ? nil : values
    }

    private func notFound(_ object: ObjectID) -> StoreError {
        let name = shape.newestLayout(object.entityNumber)?.entity.name.text ?? "entity \(object.entityNumber)"
        return StoreError(
            .objectNotFound, "There is no object \(object.number) of “\(name)”: it was deleted, or never existed.")
    }

    // MARK: Reading

    /// Lends an object's row as this transaction sees it, with its own changes. Returns false if it has no row.
    package func withRow(
        _ object: ObjectID, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        guard isChangedHere(object) else { return try base.withRow(object, body) }
        guard let change = try frames.ownChange(of: object), change.kind != .delete, let row = change.row else {
            return false
        }
        try row.withRowView(try layout(object.entityNumber), body)
        return true
    }

    /// A whole value of a row that `withRow` lent, in the row or in value frames.
    package func value(_ row: RowImage, at position: Int) throws(StoreError) -> StoredValue {
        guard case .large(let reference) = try row.value(at: position),
            let content = try frames.ownContent(of: reference)
        else { return try base.value(row, at: position) }
        let type = row.slot(at: position).type
        guard let value = content.withUnsafeBytes({ StoredValue($0, type) }) else { throw row.malformed(position) }
        return value
    }

    /// The value without references to objects that do not exist for this transaction.
    ///
    /// - Parameter keepingDeleted: Whether to keep references to objects that it has deleted itself. The delete rules
    ///   remove these after the body, so they must still be there until then.
    package func withoutMissing(
        _ value: StoredValue, keepingDeleted: Bool = false
    ) throws(StoreError) -> StoredValue {
        try value.keepingReferences { (object) throws(StoreError) in try has(object, keepingDeleted) }
    }

    /// Only of objects that references may lead to.
    private func has(_ object: ObjectID, _ keepingDeleted: Bool) throws(StoreError) -> Bool {
        guard isChangedHere(object) else { return try base.has(object) }
        if keepingDeleted { return !reserved.contains(object.rawValue) }
        return !deletedSet.contains(object.rawValue) && !vanished.contains(object.rawValue)
            && !reserved.contains(object.rawValue)
    }

    /// Whether this transaction has inserted, updated or deleted the object.
    package func isChangedHere(_ object: ObjectID) -> Bool {
        if changed.contains(object.rawValue) { return true }
        let (entity, number) = (object.entityNumber, object.number)
        let drawn = lastDrawn.entity == entity ? lastDrawn : taken.isEmpty ? nil : taken[entity]
        guard let drawn else { return false }
        return drawn.contains(number) || earlier.contains { $0.entity == entity && $0.numbers.contains(number) }
    }

    // MARK: Object numbers

    @inline(__always)
    func drawNumber(_ entity: UInt16) throws(StoreError) -> ObjectID {
        if lastDrawn.entity != entity { goOver(to: entity) }
        if lastDrawn.next == lastDrawn.end { drawMore() }
        guard let object = ObjectID(entityNumber: entity, number: lastDrawn.next) else { throw .tooManyObjects }
        lastDrawn.next += 1
        assert(
            lastDrawn.entity == entity && lastDrawn.next <= lastDrawn.end, "T3: a number is used that was not drawn.")
        return object
    }

    func goOver(to entity: UInt16) {
        if lastDrawn.entity != 0 { taken[lastDrawn.entity] = lastDrawn }
        lastDrawn = (taken.isEmpty ? nil : taken.removeValue(forKey: entity)) ?? DrawnNumbers(entity: entity)
    }

    /// Draws numbers that no other transaction of this handle has, at `least` or above; twice as many each time.
    @inline(never)
    func drawMore(from least: UInt64 = 0) {
        let before = lastDrawn
        let count = before.end == 0 ? 1 : min((before.end - before.first) * 2, 4096)
        let known = base.nextNumber(of: before.entity)
        let first = numbers.draw(before.entity, count: count, from: max(known, least))
        assert(first >= known, "T3: the number of another object is drawn.")
        (lastDrawn.next, lastDrawn.end) = (first, first + count)
        if before.end == first { return }
        lastDrawn.first = first
        if before.first < before.next { earlier.append((before.entity, before.first..<before.next)) }
    }

    /// Returns unused numbers, for the next transaction.
    func returnNumbers() {
        if lastDrawn.entity != 0 { returnNumbers(lastDrawn) }
        lastDrawn = .none
        if !earlier.isEmpty { earlier = [] }
        if taken.isEmpty { return }
        for stretch in taken.values { returnNumbers(stretch) }
        taken = [:]
    }

    @inline(__always)
    private func returnNumbers(_ stretch: DrawnNumbers) {
        let first = frames.prepared.isCommitted ? stretch.next : stretch.first
        if first < stretch.end { numbers.returnNumbers(stretch.entity, from: first, end: stretch.end) }
    }

    // MARK: Committing

    /// Ends all changes. Does all work that does not need the writer lock.
    func complete() throws(StoreError) {
        try applyDeleteRules()
        try frames.complete()
    }

    /// Whether something is true of the lowest number that it has drawn of each entity.
    @inline(__always)
    func allDrawn(_ isTrue: (_ entity: UInt16, _ lowest: UInt64) -> Bool) -> Bool {
        if lastDrawn.entity != 0, !isTrue(lastDrawn.entity, lowest(lastDrawn)) { return false }
        return taken.isEmpty || taken.values.allSatisfy { isTrue($0.entity, lowest($0)) }
    }

    @inline(__always)
    private func lowest(_ stretch: DrawnNumbers) -> UInt64 {
        if earlier.isEmpty { return stretch.first }
        return earlier.reduce(stretch.first) { $1.entity == stretch.entity ? min($0, $1.numbers.lowerBound) : $0 }
    }
}

extension [UInt8] {
    /// Lends these bytes as a row of the layout.
    fileprivate func withRowView(
        _ layout: RowLayout, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) {
        try withUnsafeBufferPointer { (bytes) throws(StoreError) in
            try body(try RowImage(UnsafeRawBufferPointer(bytes), layout: layout))
        }
    }
}
