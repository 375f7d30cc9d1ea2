// Ranges of an ordered index: collected first, read afterwards, so that the loads of many rows overlap.

/// The number of rows of a range that are looked up at once: their places, 8 bytes each, take less than 1 KiB including
/// the array's overhead. The allocator is much slower with more.
private let rangeStep = 120

extension View {
    /// The ordered indexes of an entity.
    package func indexes(entity: UInt16) -> [IndexID] { shape.indexes(of: entity).map { shape.indexes[$0].id } }

    /// Whether the index has its entries. Otherwise `range` sorts the entity's rows.
    package func hasBuilt(_ number: Int) -> Bool { number < ordered.count && ordered[number] != nil }

    /// Whether the schema of this state has the index.
    func hasIndex(_ id: IndexID) -> Bool { shape.index(of: id.entity, over: id.attributes) != nil }

    /// The number of an index in this state. Throws `invalidArgument` if the entity has no such index.
    package func indexNumber(_ id: IndexID) throws(StoreError) -> Int {
        guard let number = shape.index(of: id.entity, over: id.attributes) else {
            throw StoreError(.invalidArgument, "The entity has no index on these attributes: sort its rows instead.")
        }
        return number
    }

    /// Lends rows in the order of an index, or in reverse, until `body` returns false.
    ///
    /// Logarithmic to find the first one, then linear in the rows lent. For a state of the past, which has no indexes,
    /// and while an index is still to be built: linear in the entity's objects, and the keys of all rows in the range
    /// are in memory. A range over the index of a list of objects must be of one element. Throws `invalidArgument` if
    /// the range is of several elements.
    ///
    /// - Parameters:
    ///   - number: The index.
    ///   - object: The range continues after this object, in the direction of reading. Throws `objectNotFound` if the
    ///     view does not have it.
    ///   - offset: The number of objects to skip first. Only those with cut keys are read for it.
    ///   - isWhole: Whether `body` wants the whole range, so that the first step may be a large one.
    ///   - readsAll: Whether `body` reads each row whole, so that all of it is loaded ahead.
    func range(
        _ number: Int, _ keys: KeyRange, after object: ObjectID? = nil, offset: Int = 0, reversed: Bool = false,
        isWhole: Bool = false, readsAll: Bool = false, _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let indexShape = shape.indexes[number]
        try requireOneElement(indexShape, keys)
        var range = EntryRange(keys: keys, offset: max(0, offset), isReversed: reversed)
        if let object { range.begin(after: try place(of: object, indexShape, keys.lower)) }
        try withoutActuallyEscaping(body) { (body) throws(StoreError) in
            let visitor = RowVisitor(body)
            if number < ordered.count, let index = ordered[number] {
                try readRange(index, indexShape, &range, isWhole: isWhole, readsAll: readsAll, visitor)
            } else {
                try sortRange(indexShape, range, visitor)
            }
        }
    }

    /// The number of objects in a range of an index. Reads no row: linear in the leaves of the range, and constant for
    /// the whole index. For a state without that index: linear in the entity's objects.
    package func count(_ number: Int, _ keys: KeyRange) throws(StoreError) -> UInt64 {
        try requireOneElement(shape.indexes[number], keys)
        if number < ordered.count, let index = ordered[number] {
            return try core.reading { () throws(StoreError) in
                try index.count(from: keys.lower, to: keys.upper, core.file)
            }
        }
        var count: UInt64 = 0
        try forEachKey(shape.indexes[number], keys) { (_, _, _) in count += 1 }
        return count
    }

    /// The same as `range(_:_:after:offset:reversed:isWhole:readsAll:_:)` by the attributes of the index. Throws
    /// `invalidArgument` if the entity has no such index.
    package func range(
        _ id: IndexID, _ keys: KeyRange = KeyRange(), after object: ObjectID? = nil, offset: Int = 0,
        reversed: Bool = false, _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try range(try indexNumber(id), keys, after: object, offset: offset, reversed: reversed, body)
    }

    /// An object may have several elements, and would be in their range repeatedly.
    private func requireOneElement(_ index: IndexShape, _ keys: KeyRange) throws(StoreError) {
        guard index.isOfList else { return }
        if case .including(let key) = keys.lower, case .including(key) = keys.upper { return }
        throw StoreError(
            .invalidArgument,
            "The index of a list of objects can be read for only one element at a time: give the same element as both "
                + "bounds.")
    }

    /// The place of an object in an index. For the index of a list, its key is that of the requested element.
    private func place(
        of object: ObjectID, _ index: IndexShape, _ lower: IndexBound
    ) throws(StoreError) -> EntryPlace {
        guard object.entityNumber == index.id.entity else {
            throw StoreError(
                .invalidArgument, "A range continues after an object of its own entity: give the ID of such an object.")
        }
        var place: EntryPlace?
        _ = try withRow(object) { (row) throws(StoreError) in
            if index.isOfList, case .including(let key) = lower {
                place = EntryPlace(keptKey: key, wholeKey: key, object: object)
                return
            }
            var kept = ByteWriter(capacity: 512)
            _ = try index.appendKey(of: row, to: &kept, large: IndexShape.noLargeKeys)
            place = EntryPlace(keptKey: Array(kept.bytes), wholeKey: try fullKey(row, index), object: object)
        }
        guard let place else {
            throw StoreError(
                .objectNotFound,
                "The object \(object.number), after which the range continues, is missing in this state: continue in "
                    + "the snapshot that it was read from, or after its values.")
        }
        return place
    }

    /// The object with a key in an index; nil without one.
    package func first(_ id: IndexID, key: [UInt8]) throws(StoreError) -> ObjectID? {
        var found: ObjectID?
        try range(id, KeyRange(key)) { (object, _) in
            found = object
            return false
        }
        return found
    }

    private func readRange(
        _ index: OrderedIndex, _ indexShape: IndexShape, _ range: inout EntryRange, isWhole: Bool, readsAll: Bool,
        _ visitor: RowVisitor
    ) throws(StoreError) {
        var batch = RangeBatch()
        // Without this limit, entries that are out of order could lead back and forth without end.
        var left = mostObjects
        // The first step is small: most searches are for little.
        var step = isWhole ? rangeStep : 16
        while true {
            batch.reset(for: step)
            try core.reading { () throws(StoreError) in
                try index.forEach(from: range.keys.lower, to: range.keys.upper, reversed: range.isReversed, core.file) {
                    (key, object) throws(StoreError) in
                    // Cut keys are skipped after sorting.
                    if range.offset > 0, batch.objects.isEmpty, !IndexKey.isCut(key) {
                        range.offset -= 1
                        return true
                    }
                    return try batch.add(key, object, limit: step)
                }
            }
            let found = UInt64(batch.objects.count)
            guard found <= left else { throw ReadCore.badIndex(indexShape.id.entity) }
            left -= found
            if batch.isFull {
                if range.isReversed { range.keys.upper = batch.last } else { range.keys.lower = batch.last }
            }
            if try !lend(&batch, indexShape, &range, readsAll: readsAll, visitor) || !batch.isFull { return }
            step = rangeStep
        }
    }

    /// First all offsets, then a touch of each row, then the rows: so that the loads from memory overlap.
    private func lend(
        _ batch: inout RangeBatch, _ index: IndexShape, _ range: inout EntryRange, readsAll: Bool,
        _ visitor: RowVisitor
    ) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in
            for object in batch.objects {
                guard let offset = try core.visibleRow(object, below: end) else {
                    throw ReadCore.badIndex(index.id.entity)
                }
                batch.offsets.append(offset)
            }
            assert(batch.offsets.count == batch.objects.count, "A batch lacks the places of its rows.")
            batch.touch(core.file)
            if readsAll { batch.touchEnds(core.file) }
            if batch.hasCutKeys { try sortCutKeys(&batch, index, range.isReversed) }
            let first = try passedOver(batch, index, &range)
            let (objects, offsets) = (batch.objects, batch.offsets)
            var reader = RowReader(core, shape, entity: index.id.entity)
            for place in first..<objects.count {
                let object = objects[place]
                let row = try reader.row(at: offsets[place])
                guard try visitor.visit(object, row) else { return false }
            }
            return true
        }
    }

    /// The number of objects to skip at the beginning of a batch, because they lie before the start of the range or are
    /// passed over.
    private func passedOver(
        _ batch: borrowing RangeBatch, _ index: IndexShape, _ range: inout EntryRange
    ) throws(StoreError) -> Int {
        var first = 0
        // An index finds the place among cut keys only by their beginning.
        if let place = range.place, let run = batch.cutRuns.first, run.lowerBound == 0 {
            while first < run.upperBound {
                let row = try core.row(at: batch.offsets[first], index.id.entity, shape)
                if place.isBefore(try fullKey(row, index), batch.objects[first], range.isReversed) { break }
                first += 1
            }
        }
        range.place = nil
        let passed = min(range.offset, batch.objects.count - first)
        range.offset -= passed
        return first + passed
    }

    /// Cut keys have an order of their own: this sorts those that begin with the same bytes by their rows. A batch
    /// never ends inside such a run.
    private func sortCutKeys(_ batch: inout RangeBatch, _ index: IndexShape, _ reversed: Bool) throws(StoreError) {
        for run in batch.cutRuns where run.count > 1 {
            assert(run.upperBound <= batch.objects.count, "A run of cut keys is longer than its batch.")
            var keyed: [(key: [UInt8], object: ObjectID, offset: UInt64)] = []
            for place in run {
                let row = try core.row(at: batch.offsets[place], index.id.entity, shape)
                keyed.append((try fullKey(row, index), batch.objects[place], batch.offsets[place]))
            }
            keyed.putInOrder { left, right in
                if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) != reversed }
                return (left.object < right.object) != reversed
            }
            for (place, item) in zip(run, keyed) {
                (batch.objects[place], batch.offsets[place]) = (item.object, item.offset)
            }
        }
    }

    private func fullKey(_ row: RowImage, _ index: IndexShape) throws(StoreError) -> [UInt8] {
        var key = ByteWriter(capacity: 512)
        for column in try index.id.columns(in: row.layout, of: index.layout.entity) {
            switch column {
            case .position(let position):
                _ = try IndexKey.append(try row.value(at: position), row.layout.slots[position].type, &key)
            case .value(let value, let type): _ = try IndexKey.append(value, type, &key)
            }
        }
        return Array(key.bytes)
    }

    private func sortRange(
        _ index: IndexShape, _ range: EntryRange, _ visitor: RowVisitor
    ) throws(StoreError) {
        var found: [(key: [UInt8], object: ObjectID)] = []
        try forEachKey(index, range.keys) { (kept, object, row) throws(StoreError) in
            let key = index.isOfList ? kept : try fullKey(row, index)
            if let place = range.place, !place.isBefore(key, object, range.isReversed) { return }
            found.append((key, object))
        }
        found.putInOrder { left, right in
            left.key == right.key ? left.object < right.object : left.key.lexicographicallyPrecedes(right.key)
        }
        if range.isReversed { found.reverse() }
        for (_, object) in found.dropFirst(range.offset) {
            var goesOn = true
            _ = try withRow(object) { (row) throws(StoreError) in goesOn = try visitor.visit(object, row) }
            if !goesOn { return }
        }
    }

    /// The stored keys of all rows between two bounds, in no order.
    ///
    /// Bounds are compared as in the index, where long keys are cut; rows are sorted by their whole keys.
    private func forEachKey(
        _ index: IndexShape, _ keys: KeyRange, _ body: ([UInt8], ObjectID, RowImage) throws(StoreError) -> Void
    ) throws(StoreError) {
        var kept = ByteWriter(capacity: 512)
        try scan(entity: index.id.entity) { (object, row) throws(StoreError) in
            try index.forEachKey(of: row, in: &kept, large: IndexShape.noLargeKeys) {
                (key, _) throws(StoreError) in
                let bytes = Array(key)
                if keys.lower.isBelow(bytes, object), keys.upper.isAbove(bytes, object) {
                    try body(bytes, object, row)
                }
            }
            return true
        }
    }
}

/// The place of an object in an index.
private struct EntryPlace {
    /// The key as the index stores it: cut if it is long.
    var keptKey: [UInt8]
    var wholeKey: [UInt8]
    var object: ObjectID

    /// Whether another entry comes after this one, in the direction of reading.
    func isBefore(_ key: [UInt8], _ other: ObjectID, _ isReversed: Bool) -> Bool {
        if key == wholeKey { return isReversed ? other < object : other > object }
        return wholeKey.lexicographicallyPrecedes(key) != isReversed
    }
}

/// The rest of a range that is still to be read.
private struct EntryRange {
    var keys: KeyRange
    /// The number of objects still to be skipped.
    var offset: Int
    let isReversed: Bool
    /// The range begins after this place. Nil once it has begun.
    var place: EntryPlace?

    init(keys: KeyRange, offset: Int, isReversed: Bool) {
        (self.keys, self.offset, self.isReversed) = (keys, offset, isReversed)
    }

    /// Moves the end at which reading begins to that place, if it lies in the range. Among cut keys, which have an
    /// order of their own, moves it to the first key with the same beginning.
    mutating func begin(after place: EntryPlace) {
        self.place = place
        let isCut = place.keptKey.withUnsafeBytes { IndexKey.isCut($0) }
        let beginning = Array(place.keptKey.prefix(IndexKey.uncutBytes))
        let next: IndexBound = isCut ? .including(beginning) : .beside(key: place.keptKey, place.object)
        if isReversed {
            let upper = keys.upper
            if upper.isAbove(beginning, place.object), !upper.isLonger(than: beginning) { keys.upper = next }
        } else {
            let lower = keys.lower
            if lower.isBelow(beginning, place.object), !lower.isLonger(than: beginning) { keys.lower = next }
        }
    }
}

extension IndexBound {
    /// Whether the bound is among the keys that begin with these bytes, and so inside the range of all of them.
    fileprivate func isLonger(than beginning: [UInt8]) -> Bool {
        switch self {
        case .including(let bound), .excluding(let bound), .beside(let bound, _):
            bound.count > beginning.count && bound.starts(with: beginning)
        case .unbounded: false
        }
    }
}

/// Objects of a range that are looked up in one batch.
private struct RangeBatch: ~Copyable {
    var objects: [ObjectID] = []
    var offsets: [UInt64] = []
    private(set) var isFull = false
    /// The key that was added last, if it is cut or the batch may end after it; otherwise empty.
    private var lastKey = ByteWriter(withoutMemory: ())
    /// The runs of cut keys with the same beginning.
    private(set) var cutRuns: [Range<Int>] = []
    private var touchedBytes: UInt8 = 0

    var hasCutKeys: Bool { !cutRuns.isEmpty }

    /// The place at which reading continues after this batch.
    var last: IndexBound {
        guard let object = objects.last else { return .unbounded }
        return .beside(key: Array(lastKey.bytes), object)
    }

    /// Starts a batch with room for this number of objects.
    mutating func reset(for count: Int) {
        objects.removeAll(keepingCapacity: true)
        offsets.removeAll(keepingCapacity: true)
        objects.reserveCapacity(count)
        offsets.reserveCapacity(count)
        if !cutRuns.isEmpty { cutRuns.removeAll(keepingCapacity: true) }
        lastKey.truncate()
        isFull = false
    }

    /// Loads a byte of each cache line that a row of usual length has, without interpreting it.
    mutating func touch(_ file: VerifiedFile) {
        var touched: UInt8 = 0
        for offset in offsets {
            guard let bytes = file.unverifiedBytes(at: offset, count: 256) else { continue }
            touched ^= bytes[0] ^ bytes[64] ^ bytes[128] ^ bytes[192]
        }
        // Stored, so that the compiler keeps the loads.
        touchedBytes = touched
    }

    /// After `touch`: the same for the later cache lines of each row. One cache miss costs as much as making a text.
    mutating func touchEnds(_ file: VerifiedFile) {
        var touched: UInt8 = 0
        for offset in offsets {
            guard let header = file.unverifiedBytes(at: offset, count: RowField.bytes) else { continue }
            let rowBytes = header.integer(at: RowField.rowBytes, as: UInt32.self)
            // Only a hint: these bytes are not verified.
            let count = Int(min(rowBytes, 1024))
            guard count > 192, let bytes = file.unverifiedBytes(at: offset, count: count) else { continue }
            touched ^= bytes[count &- 1]
            var place = 256
            while place < count {
                touched ^= bytes[place]
                place &+= 64
            }
        }
        touchedBytes ^= touched
    }

    /// Adds an entry; false if the batch is full.
    mutating func add(_ key: UnsafeRawBufferPointer, _ object: ObjectID, limit: Int) throws(StoreError) -> Bool {
        let isCut = IndexKey.isCut(key)
        let continuesRun =
            isCut && IndexKey.isCut(lastKey.bytes)
            && OrderedBytes.commonBytes(key, lastKey.bytes, limit: IndexKey.uncutBytes) == IndexKey.uncutBytes
        if objects.count >= limit, !continuesRun {
            isFull = true
            return false
        }
        if continuesRun, let run = cutRuns.last {
            assert(run.upperBound == objects.count, "A run of cut keys has a gap.")
            cutRuns[cutRuns.count - 1] = run.lowerBound..<(objects.count + 1)
        } else if isCut {
            cutRuns.append(objects.count..<(objects.count + 1))
        }
        objects.append(object)
        lastKey.truncate()
        if isCut || objects.count >= limit { lastKey.append(key) }
        return true
    }
}

extension ReadCore {
    @inline(never)
    static func badIndex(_ entity: UInt16) -> StoreError {
        StoreError(.damaged, "F31: an ordered index of entity \(entity) refers to a missing object.")
    }
}
