// Makes store files by hand, with right checksums, so that a test can break one rule and no other.

import Annals
import SimulatedDisk

/// A change as it will stand in a frame.
struct ForgedChange {
    var object: ObjectID
    var kind: ChangeKind
    /// A row as `EncodedRow` makes it; its distance is settled later. Nil for none.
    var row: [UInt8]?
    /// As the entry says it.
    var previous: UInt64?
    var words: [UInt64] = []

    static func insert(_ number: Int, _ row: [UInt8], previous: UInt64? = nil) -> ForgedChange {
        ForgedChange(object: Note.object(number), kind: .insert, row: row, previous: previous)
    }

    static func update(_ number: Int, _ row: [UInt8], previous: UInt64, words: [UInt64] = [1]) -> ForgedChange {
        ForgedChange(object: Note.object(number), kind: .update, row: row, previous: previous, words: words)
    }

    static func delete(_ number: Int, previous: UInt64) -> ForgedChange {
        ForgedChange(object: Note.object(number), kind: .delete, row: nil, previous: previous)
    }
}

/// Where a forged frame and what is in it came to stand in the file.
struct ForgedFrame {
    var offset: UInt64
    var end: UInt64
    var checksum: UInt64
    var entries: [UInt64] = []
    var rows: [UInt64] = []
}

/// A file in the making: frames are added at its end, and what comes next is right unless the test says otherwise.
struct ForgedFile {
    var header: FileHeader
    private(set) var bytes: [UInt8]
    var previousChecksum: UInt64
    var lastNumber: UInt64 = 0
    var lastTag: UInt64 = 0
    var time: Int64 = 1_000_000
    var schemaVersion: UInt16 = 0
    /// The mark of frames to come.
    var mark: UInt64 = 4096
    /// Where the open transaction begins, how many changes it has, and whether it has schema frames.
    private var openStart: UInt64?
    private var openChanges: UInt64 = 0
    private var changesSchema = false

    init(salt: UInt64 = 0x5A17, storeID: UUIDBytes = UUIDBytes(high: 1, low: 2), generation: UInt64 = 0) {
        header = FileHeader(storeID: storeID, generation: generation, salt: salt, created: 500_000)
        bytes = header.encoded()
        previousChecksum = header.checksum
    }

    /// Begins with a header page that this program would not make.
    init(_ page: [UInt8]) throws {
        header = try page.withUnsafeBytes { try FileHeader.decode($0) }
        bytes = page
        previousChecksum = header.checksum
    }

    /// Goes on after the last frame of a store that was read to its end.
    init(goingOnBehind bytes: [UInt8], _ state: LogState) {
        header = state.header
        self.bytes = Array(bytes[..<Int(state.end)])
        previousChecksum = state.endChecksum
        (lastNumber, lastTag, time) = (state.lastNumber, state.lastTag, state.lastTime + 1)
        (schemaVersion, mark) = (state.schemaVersion, state.durableMark)
    }

    /// Takes away what is from there on, where a frame begins.
    mutating func cut(to offset: Int) {
        previousChecksum = bytes.withUnsafeBytes {
            $0.loadUnaligned(fromByteOffset: offset + FrameField.previousChecksum, as: UInt64.self)
        }
        bytes.removeSubrange(offset...)
    }

    var end: UInt64 { UInt64(bytes.count) }

    /// The whole file, with its spare page.
    func finished(spareBytes: Int = 4096) -> [UInt8] { bytes + [UInt8](repeating: 0, count: spareBytes) }

    mutating func change(_ offset: UInt64, _ edit: (inout UInt8) -> Void) { edit(&bytes[Int(offset)]) }

    mutating func write(_ hint: Hint) {
        bytes.replaceSubrange(
            hint.slotOffset..<(hint.slotOffset + HintField.bytes), with: hint.encoded(salt: header.salt))
    }

    // MARK: Frames

    /// Adds a frame. `edit` may change its header before the checksum of that is computed.
    @discardableResult
    mutating func add(
        _ kind: FrameKind, isMember: Bool = false, table: [UInt8] = [], body: [UInt8] = [], number: UInt64? = nil,
        mark: UInt64? = nil, edit: (inout [UInt8]) -> Void = { _ in }
    ) -> ForgedFrame {
        let offset = end
        var frame = FrameHeader(
            kind: kind, isMember: isMember, frameBytes: UInt32(FrameField.bytes + table.count + body.count),
            tableBytes: UInt32(table.count), number: number ?? (isMember ? lastNumber + 1 : lastNumber),
            durableMark: mark ?? self.mark, previousChecksum: previousChecksum,
            tableChecksum: table.withUnsafeBytes { FrameHeader.tableChecksum($0, salt: header.salt) },
            bodyChecksum: body.withUnsafeBytes { FrameHeader.bodyChecksum($0, salt: header.salt) })
        var bytes = [UInt8](repeating: 0, count: FrameField.bytes)
        bytes.withUnsafeMutableBytes { frame.encode(into: $0, offset: offset, salt: header.salt) }
        edit(&bytes)
        let covered = bytes[FrameField.frameBytes...]
        let checksum = Array(covered).withUnsafeBytes { Checksum.hash($0, seed: header.salt ^ offset) }
        bytes.put(checksum, at: FrameField.checksum)
        self.bytes += bytes + table + body
        previousChecksum = checksum
        return ForgedFrame(offset: offset, end: end, checksum: checksum)
    }

    /// Adds frames that were made elsewhere, as they are.
    mutating func addRaw(_ raw: [UInt8]) { bytes += raw }

    @discardableResult
    mutating func addMember(
        _ kind: FrameKind, table: [UInt8], body: [UInt8] = [], number: UInt64? = nil
    ) -> ForgedFrame {
        let frame = add(kind, isMember: true, table: table, body: body, number: number)
        openStart = openStart ?? frame.offset
        return frame
    }

    @discardableResult
    mutating func addSchema(table: [UInt8]) -> ForgedFrame {
        if !changesSchema { schemaVersion += 1 }
        changesSchema = true
        return addMember(.schema, table: table)
    }

    /// A piece of a value; `first` is where the value begins, for the pieces after the first.
    @discardableResult
    mutating func addValue(
        _ piece: [UInt8], of valueBytes: Int? = nil, position: Int = 0, first: UInt64? = nil, isMember: Bool = true,
        edit: (inout ValuePiece) -> Void = { _ in }
    ) -> ForgedFrame {
        var record = ValuePiece(
            valueBytes: UInt64(valueBytes ?? piece.count), position: UInt64(position), first: first ?? end,
            pieceBytes: UInt32(piece.count))
        edit(&record)
        var table = [UInt8](repeating: 0, count: ValueField.bytes)
        table.withUnsafeMutableBytes { record.encode(into: $0) }
        guard isMember else { return add(.value, table: table, body: piece.padded) }
        return addMember(.value, table: table, body: piece.padded)
    }

    // MARK: Transactions

    /// What a test may change of a frame with changes, before its tag and checksums are computed.
    struct Edits {
        var record: (inout TransactionRecord) -> Void = { _ in }
        /// The entries, without the record before them.
        var entries: (inout [UInt8]) -> Void = { _ in }
        var body: (inout [UInt8]) -> Void = { _ in }
        var tag: (inout UInt64) -> Void = { _ in }
        var number: (UInt64) -> UInt64 = { $0 }
    }

    @discardableResult
    mutating func addPart(_ changes: [ForgedChange], _ edits: Edits = Edits()) -> ForgedFrame {
        var (content, frame) = layOut(changes, edits, recordBytes: TransactionField.bytes)
        var record = nextRecord(changes.count)
        record.totalChanges = 0
        record.changesSchema = false
        edits.record(&record)
        content.table.withUnsafeMutableBytes { record.encode(into: $0) }
        frame = placed(frame, addMember(.part, table: content.table, body: content.body))
        openChanges += UInt64(changes.count)
        return frame
    }

    /// Ends the transaction, and begins it where no member did.
    @discardableResult
    mutating func addCommit(_ changes: [ForgedChange] = [], _ edits: Edits = Edits()) -> ForgedFrame {
        var (content, frame) = layOut(changes, edits, recordBytes: TransactionField.bytes)
        var record = nextRecord(changes.count)
        edits.record(&record)
        content.table.withUnsafeMutableBytes { record.encode(into: $0) }
        let bodyChecksum = content.body.withUnsafeBytes { FrameHeader.bodyChecksum($0, salt: header.salt) }
        record.tag = content.table.withUnsafeBytes {
            TransactionRecord.tag(
                previousTag: lastTag, previousChecksum: previousChecksum, bodyChecksum: bodyChecksum, table: $0)
        }
        edits.tag(&record.tag)
        content.table.put(record.tag, at: TransactionField.tag)
        let added = add(
            .transaction, table: content.table, body: content.body, number: edits.number(lastNumber + 1))
        frame = placed(frame, added)
        lastNumber += 1
        lastTag = record.tag
        time += 1
        (openStart, openChanges, changesSchema) = (nil, 0, false)
        return frame
    }

    /// A frame of rows without history.
    @discardableResult
    mutating func addRows(_ changes: [ForgedChange], count: Int? = nil) -> ForgedFrame {
        var (content, frame) = layOut(changes, Edits(), recordBytes: RowsField.bytes)
        content.table.put(UInt32(count ?? changes.count), at: RowsField.entries)
        frame = placed(frame, add(.rows, table: content.table, body: content.body))
        return frame
    }

    private func nextRecord(_ changes: Int) -> TransactionRecord {
        var record = TransactionRecord()
        record.time = time
        record.start = openStart ?? end
        record.changes = UInt32(changes)
        record.firstChange = openChanges
        record.totalChanges = openChanges + UInt64(changes)
        record.processID = 7
        record.schemaVersion = schemaVersion
        record.changesSchema = changesSchema
        return record
    }

    /// Entries and rows with the offsets that they have from each other. The result's offsets count from the frame's
    /// start.
    private func layOut(
        _ changes: [ForgedChange], _ edits: Edits, recordBytes: Int
    ) -> (content: (table: [UInt8], body: [UInt8]), frame: ForgedFrame) {
        let entryBytes = changes.map { ChangeField.bytes + ($0.previous == nil ? 0 : 8) + $0.words.count * 8 }
        let bodyStart = FrameField.bytes + recordBytes + entryBytes.reduce(0, +)
        var frame = ForgedFrame(offset: 0, end: 0, checksum: 0)
        var entries: [UInt8] = []
        var body: [UInt8] = []
        for change in changes {
            let entry = FrameField.bytes + recordBytes + entries.count
            let row = bodyStart + body.count
            frame.entries.append(UInt64(entry))
            frame.rows.append(change.row == nil ? 0 : UInt64(row))
            entries += change.entry(row: change.row == nil ? 0 : row)
            guard var bytes = change.row else { continue }
            bytes.put(UInt16((row - entry) / 8), at: RowField.entryDistance)
            body += bytes
        }
        edits.entries(&entries)
        edits.body(&body)
        return (([UInt8](repeating: 0, count: recordBytes) + entries, body), frame)
    }

    private func placed(_ frame: ForgedFrame, _ added: ForgedFrame) -> ForgedFrame {
        var placed = added
        placed.entries = frame.entries.map { $0 + added.offset }
        placed.rows = frame.rows.map { $0 == 0 ? 0 : $0 + added.offset }
        return placed
    }
}

extension ForgedChange {
    fileprivate func entry(row: Int) -> [UInt8] {
        var entry = [UInt8](repeating: 0, count: ChangeField.bytes)
        entry.put(object.rawValue, at: ChangeField.object)
        entry.put(UInt32(row), at: ChangeField.row)
        entry[ChangeField.kind] = kind.rawValue
        entry[ChangeField.shape] = UInt8(words.count) | (previous == nil ? 0 : ChangeField.previousBit)
        for word in (previous.map { [$0] } ?? []) + words {
            entry += [UInt8](repeating: 0, count: 8)
            entry.put(word, at: entry.count - 8)
        }
        return entry
    }
}

extension [UInt8] {
    mutating func put<Integer: FixedWidthInteger>(_ value: Integer, at offset: Int) {
        Swift.withUnsafeBytes(of: value.littleEndian) { replaceSubrange(offset..<(offset + $0.count), with: $0) }
    }

    /// With zeros up to a multiple of 8.
    var padded: [UInt8] { self + [UInt8](repeating: 0, count: (8 - count % 8) % 8) }
}
