// Ranges of an ordered index: collected first, read afterwards, so that the loads of many rows overlap.

/// How many rows of a range are looked up at once.
private let rangeStep = 128

extension View {
    /// The ordered indexes of an entity.
    package func indexes(entity: UInt16) -> [IndexID] { shape.indexes(of: entity).map { shape.indexes[$0].id } }

    /// Whether the entries of an index stand ready: else `range` sorts the entity's rows.
    package func hasBuilt(_ id: IndexID) -> Bool {
        shape.indexes(of: id.entity).contains { number in
            shape.indexes[number].id == id && number < ordered.count && ordered[number] != nil
        }
    }

    /// Lends rows in the order of an index, or the other way round, until `body` returns false.
    ///
    /// Logarithmic to find the first one, then linear in the rows lent. For a state of the past, which has no indexes, and while an index is
    /// still to be built: linear in the entity's objects, and the keys of all rows in the range are in memory. Throws `invalidArgument` where
    /// the entity has no such index.
    package func range(
        _ id: IndexID, from lower: IndexBound = .unbounded, to upper: IndexBound = .unbounded, reversed: Bool = false,
        _ body: (ObjectID, RowView) throws(FileError) -> Bool
    ) throws(FileError) {
        guard
            let number = shape.indexes(of: id.entity).first(where: { shape.indexes[$0].id.attributes == id.attributes })
        else {
            throw FileError(.invalidArgument, "The entity has no index over these attributes: sort its rows instead.")
        }
        if number < ordered.count, let index = ordered[number] {
            try readRange(index, shape.indexes[number], lower, upper, reversed, body)
        } else {
            try sortRange(shape.indexes[number], lower, upper, reversed, body)
        }
    }

    /// The object with a key in an index; nil where there is none.
    package func first(_ id: IndexID, key: [UInt8]) throws(FileError) -> ObjectID? {
        var found: ObjectID?
        try range(id, from: .including(key), to: .including(key)) { (object, _) in
            found = object
            return false
        }
        return found
    }

    private func readRange(
        _ index: OrderedIndex, _ indexShape: IndexShape, _ lower: IndexBound, _ upper: IndexBound, _ reversed: Bool,
        _ body: (ObjectID, RowView) throws(FileError) -> Bool
    ) throws(FileError) {
        var batch = RangeBatch()
        // Entries that are out of order would lead back and forth for ever.
        var left = mostObjects
        var (lower, upper) = (lower, upper)
        // The first step is small: most who look for something look for little.
        var step = 16
        while true {
            batch.reset()
            let isFull = try core.reading { () throws(FileError) in
                try index.forEach(from: lower, to: upper, reversed: reversed, core.file) {
                    (key, object) throws(FileError) in
                    guard left > 0 else { throw ReadCore.badIndex(indexShape.id.entity) }
                    left -= 1
                    return try batch.add(key, object, limit: step)
                }
                return batch.isFull
            }
            if isFull {
                let last = batch.last
                if reversed { upper = last } else { lower = last }
            }
            if try !lend(&batch, indexShape, reversed, body) || !isFull { return }
            step = rangeStep
        }
    }

    /// First where all the rows are, then a touch of each, then the rows: so that the loads from memory overlap.
    private func lend(
        _ batch: inout RangeBatch, _ index: IndexShape, _ reversed: Bool,
        _ body: (ObjectID, RowView) throws(FileError) -> Bool
    ) throws(FileError) -> Bool {
        try core.reading { () throws(FileError) in
            for object in batch.objects {
                guard let offset = try core.visibleRow(object, below: end) else {
                    throw ReadCore.badIndex(index.id.entity)
                }
                batch.offsets.append(offset)
            }
            batch.touch(core.file)
            if batch.hasCutKeys { try sortCutKeys(&batch, index, reversed) }
            for (object, offset) in zip(batch.objects, batch.offsets) {
                guard try body(object, try core.row(at: offset, object.entity, shape)) else { return false }
            }
            return true
        }
    }

    /// Keys that are cut stand in an order of their own: what begins with the same bytes is sorted by the rows. A batch never ends inside such a run.
    private func sortCutKeys(_ batch: inout RangeBatch, _ index: IndexShape, _ reversed: Bool) throws(FileError) {
        for run in batch.cutRuns where run.count > 1 {
            var keyed: [(key: [UInt8], object: ObjectID, offset: UInt64)] = []
            for place in run {
                let row = try core.row(at: batch.offsets[place], index.id.entity, shape)
                keyed.append((try fullKey(row, index), batch.objects[place], batch.offsets[place]))
            }
            keyed.sort { left, right in
                if left.key != right.key { return left.key.lexicographicallyPrecedes(right.key) != reversed }
                return (left.object < right.object) != reversed
            }
            for (place, item) in zip(run, keyed) {
                (batch.objects[place], batch.offsets[place]) = (item.object, item.offset)
            }
        }
    }

    private func fullKey(_ row: RowView, _ index: IndexShape) throws(FileError) -> [UInt8] {
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
        _ index: IndexShape, _ lower: IndexBound, _ upper: IndexBound, _ reversed: Bool,
        _ body: (ObjectID, RowView) throws(FileError) -> Bool
    ) throws(FileError) {
        var found: [(key: [UInt8], object: ObjectID)] = []
        var kept = ByteWriter(capacity: 512)
        try scan(entity: index.id.entity) { (object, row) throws(FileError) in
            // Bounds are compared as in the index, where long keys are cut; rows are sorted by their whole keys.
            kept.truncate()
            _ = try index.appendKey(of: row, to: &kept, large: Indexes.noLargeKeys)
            let bytes = Array(kept.bytes)
            if lower.isBelow(bytes), upper.isAbove(bytes) { found.append((try fullKey(row, index), object)) }
            return true
        }
        found.sort { left, right in
            left.key == right.key ? left.object < right.object : left.key.lexicographicallyPrecedes(right.key)
        }
        if reversed { found.reverse() }
        for (_, object) in found {
            var goesOn = true
            _ = try withRow(object) { (row) throws(FileError) in goesOn = try body(object, row) }
            if !goesOn { return }
        }
    }
}

extension IndexBound {
    fileprivate func isBelow(_ key: [UInt8]) -> Bool {
        switch self {
        case .including(let bound): key.starts(with: bound) || bound.lexicographicallyPrecedes(key)
        case .excluding(let bound): !key.starts(with: bound) && bound.lexicographicallyPrecedes(key)
        case .unbounded, .beside: true
        }
    }

    fileprivate func isAbove(_ key: [UInt8]) -> Bool {
        switch self {
        case .including(let bound): key.starts(with: bound) || key.lexicographicallyPrecedes(bound)
        case .excluding(let bound): !key.starts(with: bound) && key.lexicographicallyPrecedes(bound)
        case .unbounded, .beside: true
        }
    }
}

/// Objects of a range that are looked up together.
private struct RangeBatch: ~Copyable {
    var objects: [ObjectID] = []
    var offsets: [UInt64] = []
    private(set) var isFull = false
    private var lastKey = ByteWriter(capacity: 256)
    /// Where runs of cut keys with the same beginning are.
    private(set) var cutRuns: [Range<Int>] = []
    private var touchedBytes: UInt8 = 0

    var hasCutKeys: Bool { !cutRuns.isEmpty }

    /// Where reading goes on behind this batch.
    var last: IndexBound {
        guard let object = objects.last else { return .unbounded }
        return .beside(key: Array(lastKey.bytes), object)
    }

    mutating func reset() {
        objects.removeAll(keepingCapacity: true)
        offsets.removeAll(keepingCapacity: true)
        cutRuns.removeAll(keepingCapacity: true)
        lastKey.truncate()
        isFull = false
    }

    /// Loads a byte of each cache line that a row of usual length has, whatever stands there.
    mutating func touch(_ file: VerifiedFile) {
        var touched: UInt8 = 0
        for offset in offsets {
            guard let bytes = file.unverifiedBytes(at: offset, count: 256) else { continue }
            touched ^= bytes[0] ^ bytes[64] ^ bytes[128] ^ bytes[192]
        }
        // Kept, so that the loads are not left out.
        touchedBytes = touched
    }

    /// Takes an entry; false where the batch is full.
    mutating func add(_ key: UnsafeRawBufferPointer, _ object: ObjectID, limit: Int) throws(FileError) -> Bool {
        let isCut = IndexKey.isCut(key)
        let continuesRun =
            isCut && IndexKey.isCut(lastKey.bytes)
            && OrderedBytes.commonBytes(key, lastKey.bytes, limit: IndexKey.uncutBytes) == IndexKey.uncutBytes
        if objects.count >= limit, !continuesRun {
            isFull = true
            return false
        }
        if continuesRun, let run = cutRuns.last {
            cutRuns[cutRuns.count - 1] = run.lowerBound..<(objects.count + 1)
        } else if isCut {
            cutRuns.append(objects.count..<(objects.count + 1))
        }
        objects.append(object)
        lastKey.truncate()
        lastKey.append(key)
        return true
    }
}

extension ReadCore {
    @inline(never)
    static func badIndex(_ entity: UInt16) -> FileError {
        FileError(.damaged, "F31: an ordered index of entity \(entity) names an object that there is not.")
    }
}
