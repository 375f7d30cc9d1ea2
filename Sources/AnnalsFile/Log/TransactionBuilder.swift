// Encodes a transaction before anybody is locked out: under the lock only numbers, offsets and names are settled.
//
// Invariants:
// B1  Frames in the spool are complete but for what the commit settles; the frame in the making is in `table` and `body`.
// B2  The table and rows in the making fit a frame of the writer's limit, unless they are a single change.
// B3  A row stands at `headroom` + its body offset in `body`; the table goes in front of it when the frame is complete.

/// A transaction in the making: schema changes first, then inserts, updates and deletions in any order.
///
/// For one thread at a time. Nothing is written to the store before `Log.append`.
package final class TransactionBuilder {
    package var author: String?
    package var context: String?
    /// The schema that rows are encoded with, this transaction's own changes included.
    package private(set) var catalog: SchemaCatalog
    package private(set) var changes: UInt64 = 0

    let limits: LogLimits
    /// The newest schema version when this was begun: the commit fails if it is no longer.
    let baseSchemaVersion: UInt16
    private(set) var changesSchema = false
    private(set) var frames: [PreparedFrame] = []
    private(set) var values = 0
    let spool: Spool
    /// Of the file that this transaction was begun for: its checksums fit no other.
    let salt: UInt64
    /// Whether it is in the store. It is committed once.
    var isCommitted = false
    private var table = ByteWriter(capacity: 256)
    private var body = ByteWriter(capacity: 1024)
    private var headroom: Int
    private var changesInFrame: UInt32 = 0
    private var relocations: [Relocation] = []
    private var completed: CompleteFrame?
    /// A part of it could not be kept: it cannot be committed.
    private(set) var isBroken = false
    /// Reused for pieces of values and schema frames.
    private var scratch = ByteWriter(capacity: 64)

    init(
        limits: LogLimits, catalog: SchemaCatalog, salt: UInt64, spool: Spool, expectedChanges: Int
    ) {
        self.limits = limits
        self.catalog = catalog
        self.salt = salt
        self.spool = spool
        baseSchemaVersion = catalog.newestVersion
        let expected = max(1, min(expectedChanges, limits.maximumFrameBytes / 32))
        headroom = FrameField.bytes + TransactionField.bytes + expected * 2 * ChangeField.bytes
        beginFrame()
    }

    private func beginFrame() {
        table.truncate()
        table.appendZeros(TransactionField.bytes)
        body.truncate()
        body.appendZeros(headroom)
        changesInFrame = 0
        relocations.removeAll(keepingCapacity: true)
    }

    // MARK: Schema

    /// Defines a new schema version. Only once, and before any change.
    package func changeSchema(_ definitions: [EntityDefinition]) throws(FileError) {
        guard changes == 0, frames.isEmpty, changesInFrame == 0, !changesSchema else {
            throw FileError(.invalidArgument, "A transaction changes the schema once, and before anything else.")
        }
        let schema = SchemaDefinition(version: catalog.newestVersion &+ 1, entities: definitions)
        var changed = catalog
        do throws(FileError) {
            try changed.apply(schema)
        } catch {
            throw FileError(.invalidArgument, error.message)
        }
        // A definition is never split, so it may need a longer frame than the writer's own limit.
        let longest = definitions.map(\.encodedBytes).max() ?? 0
        let tableBytes = max(limits.maximumFrameBytes - FrameField.bytes, longest + SchemaField.bytes)
        for table in try schema.encodeTables(
            maximumTableBytes: min(tableBytes, FormatLimits.maximumFrameBytes - FrameField.bytes))
        {
            scratch.truncate()
            scratch.appendZeros(FrameField.bytes)
            scratch.append(table)
            try spoolScratch(tableBytes: table.count, content: .schema)
        }
        catalog = changed
        changesSchema = true
    }

    // MARK: Changes

    package func insert(
        _ object: ObjectID, _ row: [Value], afterDeletion previous: PreviousVersion? = nil
    ) throws(FileError) {
        try change(.insert, object, row, previous: previous)
    }

    /// `positions` are those of the attributes written, in the entity's attribute list.
    package func update(
        _ object: ObjectID, _ row: [Value], positions: [Int], previous: PreviousVersion
    ) throws(FileError) {
        guard !positions.isEmpty else {
            throw FileError(.invalidArgument, "An update names at least one attribute.")
        }
        try change(.update, object, row, previous: previous, positions: positions)
    }

    /// `preserved` is a row with only the attributes to preserve; nil for none.
    package func delete(
        _ object: ObjectID, preserved: [Value]? = nil, previous: PreviousVersion
    ) throws(FileError) {
        try change(.delete, object, preserved, previous: previous)
    }

    private func change(
        _ kind: ChangeKind, _ object: ObjectID, _ row: [Value]?, previous: PreviousVersion?, positions: [Int] = []
    ) throws(FileError) {
        try checkUsable()
        guard let layout = catalog.layout(version: catalog.newestVersion, entity: object.entity) else {
            throw FileError(
                .invalidArgument, "Entity \(object.entity) is not in the schema: define it before its objects.")
        }
        let words = try attributeWords(positions, layout: layout)
        let entryBytes = ChangeField.bytes + (previous == nil ? 0 : 8) + words.count * 8
        guard let row else {
            try makeRoom(entryBytes: entryBytes, rowBytes: 0)
            appendEntry(kind, object, rowPosition: 0, previous: previous, words: words)
            return
        }
        let values = try moveOutLargeValues(row)
        let rowBytes = layout.variableOffset + values.reduce(0) { $0 + $1.variableBytes }
        try makeRoom(entryBytes: entryBytes, rowBytes: rowBytes.paddedTo8)
        let start = body.count
        try RowEncoder.append(
            values, layout: layout, entryDistance: distance, schemaVersion: catalog.newestVersion,
            isDeletion: kind == .delete, to: &body)
        appendEntry(kind, object, rowPosition: start - headroom + FrameField.bytes, previous: previous, words: words)
        noteRelocations(values, layout: layout, rowStart: start)
    }

    /// Inserts an object whose row `setValues` sets slot by slot: the fast way in. `variableBytes` is the size of its variable values, none of
    /// them longer than the format's inline limit.
    @inline(__always)
    package func insert(
        _ object: ObjectID, layout: RowLayout, variableBytes: Int,
        _ setValues: (inout RowBuilder, inout ByteWriter) -> Void
    ) throws(FileError) {
        try checkUsable()
        try makeRoom(entryBytes: ChangeField.bytes, rowBytes: (layout.variableOffset + variableBytes).paddedTo8)
        let start = body.count
        var row = RowBuilder(layout, entryDistance: distance, schemaVersion: catalog.newestVersion, in: &body)
        setValues(&row, &body)
        row.finish(in: &body)
        appendEntry(.insert, object, rowPosition: start - headroom + FrameField.bytes, previous: nil, words: [])
    }

    /// From the next entry to the next row, in units of 8 bytes, as if the table had no bytes.
    private var distance: UInt16 { UInt16(truncatingIfNeeded: (body.count - headroom - table.count) / 8) }

    private func attributeWords(_ positions: [Int], layout: RowLayout) throws(FileError) -> [UInt64] {
        guard let last = positions.max() else { return [] }
        guard last < layout.count, positions.allSatisfy({ $0 >= 0 }) else {
            throw FileError(.invalidArgument, "An update names an attribute that its entity does not have.")
        }
        var words = [UInt64](repeating: 0, count: last / 64 + 1)
        for position in positions { words[position / 64] |= 1 << UInt64(position % 64) }
        return words
    }

    private func appendEntry(
        _ kind: ChangeKind, _ object: ObjectID, rowPosition: Int, previous: PreviousVersion?, words: [UInt64]
    ) {
        table.append(object.rawValue)
        table.append(UInt32(truncatingIfNeeded: rowPosition))
        table.append(kind.rawValue)
        table.append(UInt8(words.count) | (previous == nil ? 0 : ChangeField.previousBit))
        table.append(UInt16(0))
        if let previous { table.append(previous.rawValue) }
        for word in words { table.append(word) }
        changes += 1
        changesInFrame += 1
    }

    /// Ends the frame in the making where the change would not fit it.
    private func makeRoom(entryBytes: Int, rowBytes: Int) throws(FileError) {
        let used = FrameField.bytes + table.count + body.count - headroom
        if used + entryBytes + rowBytes <= limits.maximumFrameBytes { return }
        if changesInFrame > 0 {
            let frame = completeFrame()
            try spoolFrame(frame, content: .part(frame.first, changesInFrame))
            beginFrame()
        }
        guard FrameField.bytes + table.count + entryBytes + rowBytes <= FormatLimits.maximumFrameBytes else {
            throw FileError(.tooLarge, "A row of \(rowBytes) bytes does not fit a frame: use fewer attributes.")
        }
    }

    // MARK: Large values

    /// Takes a value in pieces from `source`, which fills the buffer it is given and says how much of it; never with nothing.
    /// The value may then stand in rows of this transaction.
    package func addLargeValue(
        bytes: UInt64, from source: (UnsafeMutableRawBufferPointer) throws(FileError) -> Int
    ) throws(FileError) -> Value {
        guard bytes >= 1, bytes <= UInt64(FormatLimits.maximumValueBytes) else {
            throw FileError(.tooLarge, "A value has 1 to \(FormatLimits.maximumValueBytes) bytes, this one \(bytes).")
        }
        let front = FrameField.bytes + ValueField.bytes
        let pieceLimit = UInt64((limits.maximumFrameBytes - front) & ~7)
        try checkUsable()
        var position: UInt64 = 0
        var piecesSoFar = 0
        while position < bytes {
            let piece = Int(min(pieceLimit, bytes - position))
            scratch.truncate()
            scratch.appendZeros(front + piece.paddedTo8)
            do throws(FileError) {
                try fill(scratch.mutableBytes(front..<(front + piece)), from: source)
            } catch {
                // The pieces so far belong to no value.
                frames.removeLast(piecesSoFar)
                throw error
            }
            let record = ValuePiece(valueBytes: bytes, position: position, first: 0, pieceBytes: UInt32(piece))
            record.encode(into: scratch.mutableBytes(FrameField.bytes..<front))
            try spoolScratch(tableBytes: ValueField.bytes, content: .value(values, position))
            position += UInt64(piece)
            piecesSoFar += 1
        }
        values += 1
        guard let reference = PendingValue.reference(index: values - 1, bytes: bytes) else {
            throw FileError(.tooLarge, "A transaction holds fewer large values than that.")
        }
        return .large(reference)
    }

    private func fill(
        _ buffer: UnsafeMutableRawBufferPointer,
        from source: (UnsafeMutableRawBufferPointer) throws(FileError) -> Int
    ) throws(FileError) {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
            let count = try source(rest)
            guard count > 0, count <= rest.count else {
                throw FileError(.invalidArgument, "A large value's source ended before the size that was announced.")
            }
            done += count
        }
    }

    private func moveOutLargeValues(_ row: [Value]) throws(FileError) -> [Value] {
        let positions = RowEncoder.valuesToMoveOut(
            row,
            limits: InlineLimits(valueBytes: limits.maximumInlineValueBytes, rowBytes: limits.maximumInlineRowBytes))
        if positions.isEmpty { return row }
        var values = row
        for position in positions { values[position] = try moveOut(row[position]) }
        return values
    }

    private func moveOut(_ value: Value) throws(FileError) -> Value {
        var content = ByteWriter(capacity: max(64, value.variableBytes))
        switch value {
        case .string(let text), .json(let text): content.append(text: text)
        case .data(let bytes): content.append(bytes)
        case .orderedObjects(let objects):
            guard ObjectList.isDistinct(objects) else {
                throw FileError(.invalidArgument, "An ordered list names an object twice.")
            }
            for object in objects { content.append(object.rawValue) }
        case .objects(let objects): for object in ObjectList.set(objects) { content.append(object.rawValue) }
        default: break
        }
        var done = 0
        return try addLargeValue(bytes: UInt64(content.count)) { buffer throws(FileError) in
            let count = min(buffer.count, content.count - done)
            buffer.copyMemory(from: content.bytes.slice(done, count))
            done += count
            return count
        }
    }

    private func noteRelocations(_ values: [Value], layout: RowLayout, rowStart: Int) {
        guard self.values > 0 else { return }
        for (position, value) in values.enumerated() {
            guard case .large(let reference) = value, let index = PendingValue.index(of: reference, of: self.values)
            else { continue }
            let slot = body.bytes.integer(at: rowStart + Int(layout.slots[position].offset), as: UInt32.self)
            let end = Int(slot & ~RowField.largeBit)
            relocations.append(Relocation(position: rowStart - headroom + end - ReferenceField.bytes, value: index))
        }
    }

    // MARK: Frames

    /// The last frame, complete but for what the commit settles. From now on the transaction cannot change.
    func lastFrame() -> CompleteFrame {
        if let completed { return completed }
        let frame = completeFrame()
        completed = frame
        return frame
    }

    /// A complete frame as bytes in `body`: where it starts there, and what was found out about it.
    struct CompleteFrame {
        var start: Int
        var tableBytes: Int
        var bodyChecksum: UInt64
        var first: UInt64
        var relocations: [Relocation]
    }

    /// Puts the table in front of the rows and settles where rows and entries are.
    private func completeFrame() -> CompleteFrame {
        let front = FrameField.bytes + table.count
        if front > headroom { widenHeadroom(to: front) }
        let start = headroom - front
        let frameBytes = body.count - start
        let frame = body.mutableBytes(start..<body.count)
        frame.slice(FrameField.bytes, table.count).copyMemory(from: table.bytes)
        settleRows(in: frame, tableBytes: table.count)
        let rows = UnsafeRawBufferPointer(frame).slice(front, frameBytes - front)
        return CompleteFrame(
            start: start, tableBytes: table.count, bodyChecksum: FrameHeader.bodyChecksum(rows, salt: salt),
            first: changes - UInt64(changesInFrame),
            relocations: relocations.map { Relocation(position: $0.position + front, value: $0.value) })
    }

    var changesInLastFrame: UInt32 { changesInFrame }

    /// The bytes of a complete frame that has not been spooled.
    func bytes(of frame: CompleteFrame) -> UnsafeMutableRawBufferPointer {
        body.mutableBytes(frame.start..<body.count)
    }

    private func widenHeadroom(to front: Int) {
        let rows = body.count - headroom
        var wider = ByteWriter(capacity: front + rows)
        wider.appendZeros(front)
        wider.append(body.bytes.slice(headroom, rows))
        body = wider
        headroom = front
    }

    /// Rows and entries were placed as if the table had no bytes.
    private func settleRows(in frame: UnsafeMutableRawBufferPointer, tableBytes: Int) {
        let shift = UInt16(truncatingIfNeeded: tableBytes / 8)
        var entry = FrameField.bytes + TransactionField.bytes
        let end = FrameField.bytes + tableBytes
        while entry < end {
            let shape = frame[entry + ChangeField.shape]
            let position = frame.integer(at: entry + ChangeField.row, as: UInt32.self)
            if position != 0 {
                let row = Int(position) + tableBytes
                frame.store(UInt32(truncatingIfNeeded: row), at: entry + ChangeField.row)
                let distance = frame.integer(at: row + RowField.entryDistance, as: UInt16.self)
                frame.store(distance &+ shift, at: row + RowField.entryDistance)
            }
            entry += ChangeField.bytes + (shape & ChangeField.previousBit == 0 ? 0 : 8) + Int(shape & 0x1F) * 8
        }
    }

    private func spoolFrame(_ frame: CompleteFrame, content: PreparedFrame.Content) throws(FileError) {
        let bytes = UnsafeRawBufferPointer(bytes(of: frame))
        try spool(
            bytes,
            PreparedFrame(
                content: content, spoolOffset: spool.count, frameBytes: UInt32(bytes.count),
                tableBytes: UInt32(frame.tableBytes), bodyChecksum: frame.bodyChecksum,
                relocations: frame.relocations))
    }

    /// A frame that could not be kept leaves a transaction that is not whole.
    private func spool(_ bytes: UnsafeRawBufferPointer, _ frame: PreparedFrame) throws(FileError) {
        do throws(FileError) {
            try spool.append(bytes)
        } catch {
            isBroken = true
            throw error
        }
        frames.append(frame)
    }

    /// Throws where nothing can be added any more.
    private func checkUsable() throws(FileError) {
        guard completed == nil, !isBroken else {
            throw FileError(
                .invalidArgument,
                "A transaction cannot change once it was committed, or once a part of it could not be kept: begin another."
            )
        }
    }

    private func spoolScratch(tableBytes: Int, content: PreparedFrame.Content) throws(FileError) {
        let front = FrameField.bytes + tableBytes
        let rest = scratch.bytes.slice(front, scratch.count - front)
        try spool(
            scratch.bytes,
            PreparedFrame(
                content: content, spoolOffset: spool.count, frameBytes: UInt32(scratch.count),
                tableBytes: UInt32(tableBytes), bodyChecksum: FrameHeader.bodyChecksum(rest, salt: salt),
                relocations: []))
    }
}

/// A place in a frame where a reference to a value of the same transaction stands, whose offset the commit settles.
struct Relocation {
    /// From the frame's start (while the frame is in the making: from the first row).
    var position: Int
    var value: Int
}

/// A member frame in the spool.
struct PreparedFrame {
    enum Content {
        case schema
        /// Which large value, and where in it the piece begins.
        case value(Int, UInt64)
        /// The index of its first change, and how many it has.
        case part(UInt64, UInt32)
    }

    var content: Content
    var spoolOffset: UInt64
    var frameBytes: UInt32
    var tableBytes: UInt32
    var bodyChecksum: UInt64
    var relocations: [Relocation]
}

/// References to values whose place is not known yet: offsets so high that no file has them.
enum PendingValue {
    static func reference(index: Int, bytes: UInt64) -> LargeValueReference? {
        LargeValueReference(
            offset: FormatLimits.maximumFileBytes - UInt64(index + 1) * 8, valueBytes: bytes, checksum: 0)
    }

    static func index(of reference: LargeValueReference, of count: Int) -> Int? {
        let index = (FormatLimits.maximumFileBytes - reference.offset) / 8
        return index >= 1 && index <= UInt64(count) ? Int(index) - 1 : nil
    }
}

extension UnsafeMutableRawBufferPointer {
    func slice(_ offset: Int, _ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: self[offset..<(offset + count)])
    }
}
