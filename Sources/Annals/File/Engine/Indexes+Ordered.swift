// Updates the ordered indexes: finds the keys that a transaction removes and inserts, and keeps unique keys unique.

/// A transaction's changes of ordered indexes, computed before it is written.
struct OrderedChanges: ~Copyable {
    private var keys = ByteWriter(withoutMemory: ())
    private var entries: [Entry] = []
    /// With this number of keys, several belong to most nodes of an index: they are applied in order, so that each node
    /// is in the processor's cache for all of its keys. Sorting fewer costs more than it saves.
    private static let sortedCount = 4096
    /// A longer list is sorted in several rounds: its order takes memory too.
    private static let sortedAtOnce = 1 << 20
    private static let keyBytesAtOnce = 256

    private struct Entry {
        let index: Int
        let object: ObjectID
        let isInsert: Bool
        let hasAbsent: Bool
        let start: Int
        let count: Int
    }

    var isEmpty: Bool { entries.isEmpty }

    /// The memory of the noted changes.
    var memoryBytes: Int { keys.count + entries.count * MemoryLayout<Entry>.stride }

    mutating func removeAll() {
        keys.truncate()
        entries.removeAll(keepingCapacity: true)
    }

    /// Notes that an object's key in an index changes from that of one row to that of the other; nil for no row.
    @inline(__always)
    mutating func note(
        _ number: Int, _ index: IndexShape, _ object: ObjectID, from old: RowImage?, to new: RowImage?,
        large: IndexKey.LargeValueReader
    ) throws(StoreError) {
        keys.reserve(Self.keyBytesAtOnce)
        if index.isOfList { return try noteElements(number, index, object, from: old, to: new, large: large) }
        let start = keys.count
        var oldHasAbsent = false
        var newHasAbsent = false
        if let old { oldHasAbsent = try index.appendKey(of: old, to: &keys, large: large) }
        let middle = keys.count
        if let new { newHasAbsent = try index.appendKey(of: new, to: &keys, large: large) }
        let end = keys.count
        if old != nil, new != nil, middle - start == end - middle,
            OrderedBytes.commonBytes(
                keys.bytes.slice(start, middle - start), keys.bytes.slice(middle, end - middle), limit: end - middle)
                == end - middle
        {
            return keys.truncate(to: start)
        }
        if old != nil {
            entries.append(
                Entry(
                    index: number, object: object, isInsert: false, hasAbsent: oldHasAbsent, start: start,
                    count: middle - start))
        }
        if new != nil {
            entries.append(
                Entry(
                    index: number, object: object, isInsert: true, hasAbsent: newHasAbsent, start: middle,
                    count: end - middle))
        }
    }

    /// Notes the elements of a list that only one of the rows has.
    private mutating func noteElements(
        _ number: Int, _ index: IndexShape, _ object: ObjectID, from old: RowImage?, to new: RowImage?,
        large: IndexKey.LargeValueReader
    ) throws(StoreError) {
        var before: Set<ObjectID> = []
        var after: Set<ObjectID> = []
        if let old { before = Set(try index.elements(of: old, large: large)) }
        if let new { after = Set(try index.elements(of: new, large: large)) }
        for (elements, isInsert) in [(before.subtracting(after), false), (after.subtracting(before), true)] {
            for element in elements.sorted() {
                let start = keys.count
                IndexKey.append(element: element, to: &keys)
                entries.append(
                    Entry(
                        index: number, object: object, isInsert: isInsert, hasAbsent: false, start: start,
                        count: keys.count - start))
            }
        }
    }

    /// Passes each newly referenced object to `body`, with the referring object and the number of the index.
    func forEachNewTarget(
        _ shape: StoreShape,
        _ body: (_ target: ObjectID, _ object: ObjectID, _ index: Int) throws(StoreError) -> Void
    ) throws(StoreError) {
        for entry in entries where entry.isInsert && !entry.hasAbsent && shape.indexes[entry.index].reference != nil {
            let key = keys.bytes.slice(entry.start, entry.count)
            guard let target = IndexKey.element(ofKey: key) else { continue }
            try body(target, entry.object, entry.index)
        }
    }

    /// Removes all old keys first, so that objects may exchange keys. Then inserts, calling `check` for each key of a
    /// unique index.
    func apply(
        to ordered: inout [OrderedIndex?], _ shape: StoreShape, _ source: VerifiedFile,
        check: (OrderedIndex, IndexShape, UnsafeRawBufferPointer, ObjectID) throws(StoreError) -> Void
    ) throws(StoreError) {
        try forEachEntry(isInsert: false) { (entry, key) throws(StoreError) in
            _ = try ordered[entry.index]?.remove(key, entry.object, source)
        }
        try forEachEntry(isInsert: true) { (entry, key) throws(StoreError) in
            let index = shape.indexes[entry.index]
            if index.id.isUnique, !entry.hasAbsent, let content = ordered[entry.index] {
                try check(content, index, key, entry.object)
            }
            _ = try ordered[entry.index]?.insert(key, entry.object, source)
        }
    }

    @inline(__always)
    private borrowing func forEachEntry(
        isInsert: Bool, _ body: (Entry, UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        guard entries.count >= Self.sortedCount else {
            for entry in entries where entry.isInsert == isInsert {
                try body(entry, keys.bytes.slice(entry.start, entry.count))
            }
            return
        }
        for first in stride(from: 0, to: entries.count, by: Self.sortedAtOnce) {
            for place in inOrder(first..<min(first + Self.sortedAtOnce, entries.count), isInsert: isInsert) {
                let entry = entries[first + Int(place.number)]
                try body(entry, keys.bytes.slice(entry.start, entry.count))
            }
        }
    }

    /// The places of entries, in the order of the indexes and of their keys. Entries of one key stay in the order of
    /// noting.
    private borrowing func inOrder(_ range: Range<Int>, isInsert: Bool) -> [Place] {
        let (bytes, entries) = (keys.bytes, entries[range])
        var places: [Place] = []
        places.reserveCapacity(entries.count)
        for (number, entry) in entries.enumerated() where entry.isInsert == isInsert {
            let key = bytes.slice(entry.start, entry.count)
            places.append(
                Place(
                    start: OrderedBytes.word(of: key, at: 0), next: OrderedBytes.word(of: key, at: 8),
                    index: UInt32(entry.index), number: UInt32(number)))
        }
        places.sort { (left, right) in
            if left.index != right.index { return left.index < right.index }
            if left.start != right.start { return left.start < right.start }
            if left.next != right.next { return left.next < right.next }
            let (a, b) = (
                entries[range.lowerBound + Int(left.number)], entries[range.lowerBound + Int(right.number)]
            )
            let order = OrderedBytes.compare(
                bytes.slice(a.start, a.count), bytes.slice(b.start, b.count), from: 0, to: min(a.count, b.count))
            if order != 0 { return order < 0 }
            return a.count == b.count ? left.number < right.number : a.count < b.count
        }
        return places
    }

    private struct Place {
        /// The key's first 16 bytes, which usually decide.
        let start, next: UInt64
        let index: UInt32
        /// The index of the entry, from the first of the range on.
        let number: UInt32
    }
}

extension Indexes {
    /// Notes a change for the indexes of its entity. `row` is the row that it wrote; `rowOffset` is its offset in the
    /// file, for errors, or 0 if it is not there yet.
    func note(
        _ change: ChangeView, row: UnsafeRawBufferPointer?, at rowOffset: UInt64 = 0, _ state: OrderedState,
        in changes: inout OrderedChanges, large: IndexKey.LargeValueReader
    ) throws(StoreError) {
        let entity = change.object.entityNumber
        let shape = state.shape
        var new: RowImage?
        if change.kind != .delete, let row { new = try rowView(row, at: rowOffset, entity, shape) }
        for number in shape.indexes(of: entity) where state.ordered[number] != nil {
            let index = shape.indexes[number]
            // The set has positions in the row's layout, which may be older than the newest.
            if change.kind == .update, new?.layout === index.layout,
                !index.positions.contains(where: { change.contains(attributePosition: $0) })
            {
                continue
            }
            try core.reading { () throws(StoreError) in
                var old: RowImage?
                if case .row(let offset) = change.previous, change.kind != .insert {
                    old = try core.row(at: offset, entity, shape)
                }
                try changes.note(number, index, change.object, from: old, to: new, large: large)
            }
        }
    }

    /// The same error with the attributes and the object, if the error concerns a key that is too large.
    private func tooLarge(
        _ change: ChangeView, _ row: UnsafeRawBufferPointer?, _ shape: StoreShape, _ error: StoreError
    ) throws(StoreError) -> StoreError? {
        guard error.code == .tooLarge, let row else { return nil }
        let image = try rowView(row, at: 0, change.object.entityNumber, shape)
        for number in shape.indexes(of: change.object.entityNumber) {
            if let error = try shape.indexes[number].tooLarge(image, change.object) { return error }
        }
        return nil
    }

    private func rowView(
        _ bytes: UnsafeRawBufferPointer, at offset: UInt64, _ entity: UInt16, _ shape: StoreShape
    ) throws(StoreError) -> RowImage {
        let version = try RowHeader(bytes).schemaVersion
        guard let layout = shape.layout(version: version, entity: entity) else {
            throw StoreError(.damaged, "F21: a row has a missing schema version or entity.")
        }
        return try RowImage(bytes, layout: layout, fileOffset: offset)
    }

    /// Notes another process's change for the ordered indexes. Its writer has ensured that keys are unique.
    func noteOrdered(_ change: ChangeView, _ frame: FrameView, in changes: inout OrderedChanges) throws(StoreError) {
        let offset = frame.offset + UInt64(change.rowOffset ?? 0)
        try note(
            change, row: frame.row(of: change), at: offset, OrderedState(shape: shape, ordered: ordered), in: &changes
        ) {
            (_, _) throws(StoreError) in
            throw StoreError(
                .damaged, "F37: an indexed value is not stored in its row. Restore the store from a backup.",
                offset: offset)
        }
    }

    /// Updates the ordered indexes with the noted changes.
    func settle(_ changes: inout OrderedChanges) throws(StoreError) {
        if changes.isEmpty { return }
        try changes.apply(to: &ordered, shape, core.file) { (_, _, _, _) in }
        changes.removeAll()
    }

    /// The schema and the ordered indexes after a transaction.
    struct OrderedState {
        var shape: StoreShape
        var ordered: [OrderedIndex?]
        /// Whether a new index was built.
        var hasBuilt = false

        init(shape: StoreShape, ordered: [OrderedIndex?]) { (self.shape, self.ordered) = (shape, ordered) }

        /// The indexes of a state under a new schema version. An added index is empty if its entity has no objects, and
        /// otherwise nil, still to be built. The same holds for an index whose keys change, because an attribute that
        /// old rows lack has a different default now.
        init(
            after catalog: SchemaCatalog, _ before: StoreShape, _ ordered: [OrderedIndex?], _ totals: StoreTotals,
            _ deltas: OrderedDeltaPolicy
        ) {
            let next = StoreShape(catalog)
            assert(ordered.count == before.indexes.count, "A schema has other indexes than were given.")
            shape = next
            // Usually the row has the same keys in the same order, so the search begins after the last one found.
            var expected = 0
            self.ordered = next.indexes.map { (index) -> OrderedIndex? in
                let own = before.indexes(of: index.id.entity)
                let rest = own.clamped(to: expected..<max(expected, own.upperBound))
                let isIt = { (number: Int) in before.indexes[number].id == index.id }
                if let number = rest.first(where: isIt) ?? own.first(where: isIt) {
                    expected = number + 1
                    if before.indexes[number].hasSameDefaults(as: index) { return ordered[number] }
                }
                return totals[index.id.entity].live == 0 ? OrderedIndex(deltas) : nil
            }
        }
    }

    /// The schema and the ordered indexes after a transaction; nil if nothing changes.
    ///
    /// `prepared` are indexes of this state that its schema needs. Other missing indexes are built here. Throws
    /// `uniqueViolation` if two objects would have one unique key after the transaction: it may add a unique index and
    /// remove duplicates. With the writer lock; changes nothing.
    func orderedState(
        after transaction: DraftFrames, _ prepared: [PreparedIndex] = []
    ) throws(StoreError) -> OrderedState? {
        if !transaction.prepared.changesSchema, shape.indexes.isEmpty { return nil }
        var next = OrderedState(shape: shape, ordered: ordered)
        if transaction.prepared.changesSchema { next = after(transaction.catalog) }
        if next.shape.indexes.isEmpty { return next }
        var unsettled: [(number: Int, keys: [[UInt8]])] = []
        for (number, index) in next.shape.indexes.enumerated() where next.ordered[number] == nil {
            if let ready = prepared.first(where: { $0.shape.id == index.id }) {
                next.ordered[number] = ready.content
            } else {
                let built = try build(index, next.shape, toleratesDuplicates: transaction.changes > 0)
                next.ordered[number] = built.content
                if !built.duplicates.isEmpty { unsettled.append((number, built.duplicates)) }
            }
            next.hasBuilt = true
        }
        var changes = OrderedChanges()
        let shape = next.shape
        func hasIndex(_ entity: UInt16) -> Bool { !shape.indexes(of: entity).isEmpty }
        try transaction.forEachRowEntry(of: hasIndex) { (change, row) throws(StoreError) in
            if hasIndex(change.object.entityNumber) {
                do throws(StoreError) {
                    try note(change, row: row, next, in: &changes, large: IndexShape.noLargeKeys)
                } catch {
                    throw try tooLarge(change, row, next.shape, error) ?? error
                }
            }
            return true
        }
        if !changes.isEmpty {
            try changes.apply(to: &next.ordered, next.shape, core.file) {
                (content, index, key, object) throws(StoreError) in
                // A shortened key contains its length and hash instead of its rest.
                if let other = try content.first(key, core.file), other != object {
                    let isNew = try core.reading { () throws(StoreError) in try rows.newest(other) } == 0
                    throw index.uniqueViolation(of: object, by: other, isNew: isNew)
                }
            }
        }
        for (number, keys) in unsettled {
            if let content = next.ordered[number] { try requireUnique(keys, content, next.shape.indexes[number]) }
        }
        if next.shape.hasReferences, transaction.checksReferences {
            try requireReferences(changes, transaction, next)
        }
        assert(!next.ordered.contains { $0 == nil }, "A state after a transaction lacks an index.")
        return next
    }

    func after(_ catalog: SchemaCatalog) -> OrderedState {
        OrderedState(after: catalog, shape, ordered, totals, rows.deltas.ordered)
    }

    /// Builds an index over the existing rows while all other writers wait, in unlimited memory. `IndexBuild` avoids
    /// both.
    ///
    /// For cases that could not be prepared: a schema change in the body of `write`, and an index that was missing when
    /// this handle adopted it. It is missing if the process that added it died before its checkpoint. The next commit
    /// builds it.
    ///
    /// Returns the unique keys that several rows have. Throws `uniqueViolation` if any exist and none are tolerated.
    private func build(
        _ index: IndexShape, _ shape: StoreShape, toleratesDuplicates: Bool
    ) throws(StoreError) -> (content: OrderedIndex, duplicates: [[UInt8]]) {
        var built = OrderedIndex(rows.deltas.ordered)
        var key = ByteWriter(capacity: 256)
        var duplicates: [(ObjectID, ObjectID)] = []
        var keys: Set<[UInt8]> = []
        let rows = View(
            end: .max, number: 0, tag: 0, time: 0, shape: shape, core: core, totals: nil, ordered: [])
        try rows.scan(entity: index.id.entity) { (object, row) throws(StoreError) in
            try index.forEachKey(of: row, in: &key, large: IndexShape.noLargeKeys) {
                (bytes, hasAbsent) throws(StoreError) in
                if index.id.isUnique, !hasAbsent, let other = try built.first(bytes, core.file) {
                    if toleratesDuplicates {
                        keys.insert(Array(bytes))
                    } else {
                        duplicates.append((object, other))
                    }
                }
                try built.insert(bytes, object, core.file)
            }
            return duplicates.count < 10
        }
        guard duplicates.isEmpty else { throw index.uniqueViolation(duplicates) }
        return (built, keys.inOrder { $0.lexicographicallyPrecedes($1) })
    }

    /// Throws `uniqueViolation` if several entries have one of the keys.
    private func requireUnique(
        _ keys: [[UInt8]], _ content: OrderedIndex, _ index: IndexShape
    ) throws(StoreError) {
        var duplicates: [(ObjectID, ObjectID)] = []
        for key in keys where duplicates.count < 10 {
            var first: ObjectID?
            try content.forEach(from: .including(key), to: .including(key), core.file) { (found, object) in
                guard found.elementsEqual(key) else { return true }
                if let first { duplicates.append((object, first)) } else { first = object }
                return duplicates.count < 10
            }
        }
        guard duplicates.isEmpty else { throw index.uniqueViolation(duplicates) }
    }
}
