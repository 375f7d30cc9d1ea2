// One state of the store, as a snapshot reads it.

/// The store's content below one end of the file. Cheap, and valid as long as the store is open; any thread may read
/// it.
///
/// Reads take no lock. A closure must not keep the row that it gets: its bytes are lent.
///
/// Sound although it is shared: it changes only through the only reference to it
/// (`Indexes.publish`), and for the same reason its accesses cannot overlap.
package final class View: @unchecked Sendable {
    @exclusivity(unchecked) package private(set) var end: UInt64
    /// The last transaction in it, its tag and its time.
    @exclusivity(unchecked) package private(set) var number: UInt64
    @exclusivity(unchecked) package private(set) var tag: UInt64
    @exclusivity(unchecked) package private(set) var time: Int64
    let shape: StoreShape
    let core: ReadCore
    /// Nil for a state of the past, whose objects are counted on request.
    @exclusivity(unchecked) private(set) var totals: StoreTotals?
    /// One for each of `shape.indexes`; nil if it is not built, or for a state of the past.
    @exclusivity(unchecked) private(set) var ordered: [OrderedIndex?]
    /// For a state of the past: the entities whose history was not kept, so that their objects at that time are
    /// unknown. Reading them may return later values.
    package let unknownEntities: Set<UInt16>
    /// For a state of the past with an older schema: its form in terms of the newest one.
    let past: PastSchema?

    init(
        end: UInt64, number: UInt64, tag: UInt64, time: Int64, shape: StoreShape, core: ReadCore,
        totals: StoreTotals?, ordered: [OrderedIndex?], unknownEntities: Set<UInt16> = [], past: PastSchema? = nil
    ) {
        self.end = end
        self.number = number
        self.tag = tag
        self.time = time
        self.shape = shape
        self.core = core
        self.totals = totals
        self.ordered = ordered
        self.unknownEntities = unknownEntities
        self.past = past
        assert(ordered.isEmpty || ordered.count == shape.indexes.count, "A view has other indexes than its schema.")
    }

    /// The same state in the terms of the newest schema: with the present names, and with attributes added since.
    var inPresentTerms: View {
        guard let past else { return self }
        return View(
            end: end, number: number, tag: tag, time: time, shape: past.present, core: core, totals: totals,
            ordered: ordered, unknownEntities: unknownEntities)
    }

    package var catalog: SchemaCatalog { shape.catalog }

    /// One above the highest object number ever used in an entity. Not for a state of the past.
    package func nextNumber(of entity: UInt16) -> UInt64 { totals?[entity].nextNumber ?? 1 }

    /// The numbers of the entities that are the store's own.
    package var reservedEntities: Set<UInt16> { shape.reservedEntities }

    /// The gaps in history, by the schema of this state; usually none.
    package var historyGaps: [HistoryGap] { shape.historyGaps }

    /// Advances to a later state of the same schema. The caller must have the only reference.
    @inline(__always)
    func advance(to state: LogProgress, _ totals: borrowing StoreTotals) {
        assert(state.end >= end && state.lastNumber >= number, "A view moves back.")
        (end, number, tag, time) = (state.end, state.lastNumber, state.lastTag, state.lastTime)
        if self.totals?.become(totals) == nil { self.totals = copy totals }
    }

    /// The same for the ordered indexes, if there are any.
    func advance(_ ordered: [OrderedIndex?]) {
        assert(ordered.isEmpty || ordered.count == shape.indexes.count, "A view has other indexes than its schema.")
        self.ordered = ordered
    }

    // MARK: One object

    /// Lends the object's row to `body`. False if the object does not exist. Constant time: three to five loads from
    /// memory.
    @inline(__always)
    package func withRow(
        _ object: ObjectID, _ body: (RowImage) throws(StoreError) -> Void
    ) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in
            guard shape.has(object.entityNumber), let offset = try core.visibleRow(object, below: end) else {
                return false
            }
            try body(try core.row(at: offset, object.entityNumber, shape))
            return true
        }
    }

    package func contains(_ object: ObjectID) throws(StoreError) -> Bool {
        try core.reading { () throws(StoreError) in
            guard shape.has(object.entityNumber) else { return false }
            return try core.visibleRow(object, below: end) != nil
        }
    }

    // MARK: All objects of an entity

    /// The number of the entity's objects. Constant time; for a state of the past, linear in the entity's objects.
    /// Throws `closed` and `forked` as in reading.
    package func count(entity: UInt16) throws(StoreError) -> UInt64 {
        guard shape.has(entity) else { return 0 }
        // Reads nothing of the file, but still throws the errors of reading.
        if let totals { return try core.reading { totals[entity].live } }
        var count: UInt64 = 0
        try scan(entity: entity) { (_, _) in
            count += 1
            return true
        }
        return count
    }

    /// Lends rows in the order of their object numbers, or in reverse, until `body` returns false.
    ///
    /// Linear in the numbers ever used between the two ends; stretches of 512 without an object are skipped.
    package func scan(
        entity: UInt16, from first: UInt64 = 1, through last: UInt64 = .max, reversed: Bool = false,
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard shape.has(entity), max(first, 1) <= last else { return }
        let limit = try core.reading { () throws(StoreError) in core.rows.numberLimit(entity) }
        guard limit > 0, first < limit else { return }
        let numbers = max(first, 1)...max(min(last, limit - 1), max(first, 1))
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: IndexNode.words)
        defer { words.deallocate() }
        if reversed {
            try scanDown(entity, numbers, words, body)
        } else {
            try scanUp(entity, numbers, words, body)
        }
    }

    private func scanUp(
        _ entity: UInt16, _ numbers: ClosedRange<UInt64>, _ words: UnsafeMutablePointer<UInt64>,
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        var next = numbers.lowerBound
        var found: UInt64 = 0
        while next <= numbers.upperBound {
            let leafStart = next & ~511
            let goesOn = try core.reading { () throws(StoreError) -> Bool in
                switch try core.rows.leaf(entity, next, into: words) {
                case .absent(let objects): next = (next & ~(objects - 1)) + objects
                case .present:
                    // RR1: each leaf is read in a section of its own.
                    var reader = RowReader(core, shape, entity: entity)
                    let last = min(leafStart + 511, numbers.upperBound)
                    for number in next...last {
                        let word = words[Int(number & 511)]
                        if word == 0 { continue }
                        found &+= 1
                        if try !visit(&reader, entity, number, word, body) { return false }
                    }
                    next = leafStart + 512
                    try requireFound(&found, entity)
                }
                return true
            }
            if !goesOn { return }
        }
    }

    private func scanDown(
        _ entity: UInt16, _ numbers: ClosedRange<UInt64>, _ words: UnsafeMutablePointer<UInt64>,
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) {
        var next = numbers.upperBound
        var found: UInt64 = 0
        while true {
            let first = max(next & ~511, numbers.lowerBound)
            var skipped: UInt64 = 0
            let goesOn = try core.reading { () throws(StoreError) -> Bool in
                switch try core.rows.leaf(entity, next, into: words) {
                case .absent(let objects): skipped = objects
                case .present:
                    // RR1: each leaf is read in a section of its own.
                    var reader = RowReader(core, shape, entity: entity)
                    for number in (first...next).reversed() {
                        let word = words[Int(number & 511)]
                        if word == 0 { continue }
                        found &+= 1
                        if try !visit(&reader, entity, number, word, body) { return false }
                    }
                    try requireFound(&found, entity)
                }
                return true
            }
            let reached = skipped > 0 ? next & ~(skipped - 1) : first
            if !goesOn || reached <= numbers.lowerBound { return }
            next = reached - 1
        }
    }

    /// The most objects that can have a version in the file: an entry has at least 16 bytes.
    var mostObjects: UInt64 { core.file.readableEnd / UInt64(ChangeField.bytes) }

    /// Called after a node of a scan, which has at least one object. Throws if more objects were found than the file
    /// has room for, because nodes refer to each other repeatedly.
    private func requireFound(_ found: inout UInt64, _ entity: UInt16) throws(StoreError) {
        found &+= 1
        // Nodes on the way to the number 0 may have none.
        guard found / 2 <= mostObjects + 1 else {
            throw StoreError(
                .damaged,
                "F30: the row index of entity \(entity) has more objects than the file. Restore the store from a "
                    + "backup."
            )
        }
    }

    @inline(__always)
    private func visit(
        _ reader: inout RowReader, _ entity: UInt16, _ number: UInt64, _ word: UInt64,
        _ body: (ObjectID, RowImage) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        // Both are in range: the entity is known, and the numbers begin with 1 and end with the limit of the index.
        let object = ObjectID(checked: UInt64(entity) << 48 | number)
        guard let offset = try core.visible(word, object, below: end) else { return true }
        return try body(object, try reader.row(at: offset))
    }

    // MARK: Large values

    /// The value, whole; a long one, in value frames, takes its size in memory. Call it in the closure that borrows the
    /// row.
    package func value(_ row: RowImage, at position: Int) throws(StoreError) -> StoredValue {
        let value = try row.value(at: position)
        guard case .large(let reference) = value else { return value }
        let content = try content(of: reference)
        guard let whole = StoredValue(content.bytes, row.layout.slots[position].type) else {
            throw row.malformed(position)
        }
        return whole
    }

    /// A large value, whole.
    func content(of reference: LargeValueReference) throws(StoreError) -> ByteWriter {
        // A forged reference may name any size.
        var content = ByteWriter(capacity: Int(clamping: min(reference.valueBytes, core.file.readableEnd)))
        try readLargeValue(reference) { (piece) throws(StoreError) in content.append(piece) }
        return content
    }

    /// Passes a large value to `visit` piece by piece. The pieces live until it returns.
    package func readLargeValue(
        _ reference: LargeValueReference, _ visit: (UnsafeRawBufferPointer) throws(StoreError) -> Void
    ) throws(StoreError) {
        var offset = reference.offset
        var position: UInt64 = 0
        while position < reference.valueBytes {
            let step = try core.reading { () throws(StoreError) -> (next: UInt64, bytes: UInt64) in
                let piece = try core.piece(of: reference, at: offset, position)
                try visit(piece.content)
                return (piece.end, UInt64(piece.content.count))
            }
            (offset, position) = (step.next, position + step.bytes)
        }
    }
}

/// An entity's next object number and number of objects.
package struct EntityTotals: Equatable, Sendable {
    /// One above the highest number ever used.
    package var nextNumber: UInt64 = 1
    package var live: UInt64 = 0
}

extension ReadCore {
    /// The piece of a large value that must be at this offset. Inside a read section.
    func piece(
        of reference: LargeValueReference, at offset: UInt64, _ position: UInt64
    ) throws(StoreError) -> (content: UnsafeRawBufferPointer, end: UInt64) {
        let start = try file.bytes(at: offset, count: FrameField.bytes)
        let frameBytes = Int(start.integer(at: FrameField.frameBytes, as: UInt32.self))
        let tableBytes = Int(start.integer(at: FrameField.tableBytes, as: UInt32.self))
        guard start[FrameField.kind] == FrameKind.value.rawValue, tableBytes == ValueField.bytes,
            frameBytes <= FormatLimits.maximumFrameBytes, frameBytes >= FrameField.bytes + tableBytes
        else { throw Self.lostValue(offset) }
        let bytes = try file.bytes(at: offset, count: frameBytes)
        let table = bytes.slice(FrameField.bytes, tableBytes)
        try ValueField.requireKnown(table, offset)
        let pieceBytes = Int(table.integer(at: ValueField.pieceBytes, as: UInt32.self))
        guard table.integer(at: ValueField.position, as: UInt64.self) == position,
            table.integer(at: ValueField.first, as: UInt64.self) == reference.offset,
            table.integer(at: ValueField.valueBytes, as: UInt64.self) == reference.valueBytes, pieceBytes > 0,
            pieceBytes <= frameBytes - FrameField.bytes - tableBytes,
            position > 0 || start.integer(at: FrameField.checksum, as: UInt64.self) == reference.checksum
        else { throw Self.lostValue(offset) }
        return (bytes.slice(FrameField.bytes + tableBytes, pieceBytes), offset + UInt64(frameBytes))
    }

    private static func lostValue(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged,
            "F23: a row refers to a large value, and no piece of it begins here. Restore the store from a backup.",
            offset: offset)
    }
}
