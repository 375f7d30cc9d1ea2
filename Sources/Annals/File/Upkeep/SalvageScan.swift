// Finds every frame of a file that checks, even if nothing leads to it, and notes its content. Only salvage searches
// for frames.
//
// Invariants:
// SS1  A frame is read only if its header, table and body check. A header checks only in its file and at its offset.
// SS2  `changes` has every change of the frames read. Changes that exceed its memory wait in a file.

/// A change of an object, and its offset.
struct SalvagedChange: SortRecord {
    var object: UInt64
    /// The offset of the row, or of the entry of a deletion.
    var place: UInt64
    /// The bytes from there to the end of the frame.
    var rest: UInt32
    var isDeletion: Bool

    static func < (left: SalvagedChange, right: SalvagedChange) -> Bool {
        left.object == right.object ? left.place < right.place : left.object < right.object
    }

    static func == (left: SalvagedChange, right: SalvagedChange) -> Bool {
        left.object == right.object && left.place == right.place
    }
}

/// One pass over one file.
final class SalvageScan {
    private let window: ByteWindow
    private let salt: UInt64
    private let fileBytes: UInt64
    private let options: SalvageOptions
    private var reported: UInt64 = 0
    let changes: ExternalSorter<SalvagedChange>
    private(set) var transactions = SalvageTransactions()
    private(set) var definitions: [(offset: UInt64, schema: SchemaDefinition)] = []
    /// The offsets of checkpoints, and the number of counting changes found below each.
    private(set) var checkpoints: [(offset: UInt64, changes: UInt64)] = []
    private(set) var nodes = SalvagedNodes()
    private var changesRead: UInt64 = 0
    /// Bytes skipped below the first frame of a transaction. They may have held a compaction's rows.
    private(set) var bytesPassedOverInBase: UInt64 = 0
    private var isInBase = true
    /// By entity: one above the highest object number in any frame.
    private(set) var nextNumbers: [UInt16: UInt64] = [:]
    /// The features of later formats that the file uses. The new store declares the same.
    private(set) var features = FormatFeatures.none
    /// The offset of a skipped frame that stops writers.
    var stopsWriters: UInt64?
    /// The end and checksum of the last frame whose header checks, and whether a recovery has dropped it.
    private var last: (end: UInt64, checksum: UInt64, isStray: Bool)?

    init(
        _ window: ByteWindow, salt: UInt64, fileBytes: UInt64, changes: ExternalSorter<SalvagedChange>,
        _ options: SalvageOptions
    ) {
        (self.window, self.salt, self.fileBytes, self.changes) = (window, salt, fileBytes, changes)
        self.options = options
    }

    private func tell(_ position: UInt64) throws(StoreError) {
        guard position >= reported + UInt64(options.windowBytes) else { return }
        reported = position
        try options.report(position, of: fileBytes)
    }

    /// Throws `unsupportedVersion` if a newer program wrote data that the new store would lack, and errors of reading.
    func run(header: FileHeader?, hints: [HintSlot], _ report: inout SalvageReport) throws(StoreError) {
        var position = UInt64(FormatLimits.pageBytes)
        var expected = position
        if let header { last = (position, header.checksum, false) }
        while let (offset, header) = try nextHeader(from: position) {
            assert(offset >= position, "The scan goes back.")
            try tell(offset)
            let isStray = isStray(header, at: offset)
            let end = offset + UInt64(header.frameBytes)
            last = (end, header.checksum, isStray)
            if isStray {
                report.framesStray += 1
            } else if let frame = try FrameCursor(window, salt: salt, at: offset).frame(header), try collect(frame) {
                report.framesRead += 1
                notePassedOver(expected, offset, &report)
                if frame.header.kind == .transaction || frame.header.kind == .part { isInBase = false }
                (position, expected) = (end, end)
                continue
            } else {
                report.framesBad += 1
                transactions.collect(header, at: offset, changes: 0, record: nil, isGood: false)
            }
            position = offset + UInt64(FormatLimits.frameAlignment)
        }
        notePassedOver(expected, try usedEnd(from: expected), &report)
        try transactions.finish(hints: hints) { (run) throws(StoreError) in
            !(try window.bytes(at: run.stretch.end, count: FrameField.bytes)).allZero
        }
        report.transactionsComplete = transactions.complete
        report.transactionsWithGaps = transactions.withGaps
        report.changesUnfinished = transactions.changesDropped
    }

    private func notePassedOver(_ start: UInt64, _ end: UInt64, _ report: inout SalvageReport) {
        assert(start <= end, "Bytes are passed over twice.")
        report.notePassedOver(start, end)
        if isInBase, end > start { bytesPassedOverInBase += end - start }
    }

    /// A frame directly after another one that it does not follow in the chain was dropped. The lower one was written
    /// later.
    private func isStray(_ header: FrameHeader, at offset: UInt64) -> Bool {
        guard let last, last.end == offset else { return false }
        return last.isStray || header.previousChecksum != last.checksum
    }

    /// The first header that checks (SS1), from an offset on.
    private func nextHeader(from start: UInt64) throws(StoreError) -> (UInt64, FrameHeader)? {
        var place = start
        let step = 1 << 16
        while place + UInt64(FrameField.bytes) <= fileBytes {
            try tell(place)
            let bytes = try window.bytes(at: place, count: step)
            var index = 0
            while index + FrameField.bytes <= bytes.count {
                let offset = place + UInt64(index)
                let decoded = FrameHeader.decode(bytes.slice(index, FrameField.bytes), offset: offset, salt: salt)
                if let header = try decoded.header(at: offset) { return (offset, header) }
                index += FormatLimits.frameAlignment
            }
            if bytes.count < step { return nil }
            place += UInt64(index)
        }
        return nil
    }

    /// The end of the last nonzero byte from an offset on; the offset itself if all are zeros.
    private func usedEnd(from start: UInt64) throws(StoreError) -> UInt64 {
        var place = start
        var end = start
        while true {
            let bytes = try window.bytes(at: place, count: 1 << 16)
            if !bytes.allZero, let index = bytes.lastIndex(where: { $0 != 0 }) { end = place + UInt64(index) + 1 }
            if bytes.count < 1 << 16 { return end }
            place += UInt64(bytes.count)
        }
    }

    // MARK: The content of frames

    /// Returns false if the frame checks but has the wrong form for its kind. No writer writes such a frame.
    private func collect(_ frame: FrameView) throws(StoreError) -> Bool {
        assert(frame.checksumsMatch(salt: salt), "SS1: a frame that does not check is read.")
        let kind = frame.header.kind
        var count: UInt64 = 0
        var record: TransactionRecord?
        do throws(StoreError) {
            switch kind {
            case .transaction, .part, .rows:
                if kind == .rows {
                    _ = try RowsField.entries(frame)
                } else {
                    record = try TransactionRecord.decode(frame.table)
                }
                count = try countChanges(frame)
                try noteChanges(frame)
            case .schema:
                definitions.append((frame.offset, try SchemaDefinition(table: frame.table, fileOffset: frame.offset)))
            case .nodes:
                try NodesField.requireKnown(frame)
                nodes.note(frame)
            case .metadata:
                for record in try MetadataRecord.decodeAll(frame) {
                    switch record {
                    case .objectNumbers(let entity, let next): note(next: next, entity)
                    case .features(let found): try note(found)
                    case .name, .clockStep, .retention: break
                    }
                }
            case .checkpoint: try note(try CheckpointField.features(frame))
            // These frames do not matter, unless a newer program wrote them.
            case .consumer: _ = try ConsumerRecord.decode(frame)
            case .cleaning: _ = try CleaningRecord.decode(frame)
            case .value: _ = try ValuePiece.decode(frame)
            case .skipped where frame.header.stopsWriters: stopsWriters = stopsWriters ?? frame.offset
            case .skipped, .recovery, .seal, .replacing: break
            }
        } catch  where error.code == .damaged {
            return false
        }
        let commit = kind == .transaction ? record : nil
        transactions.collect(frame.header, at: frame.offset, changes: count, record: commit, isGood: true)
        changesRead += count
        if kind == .checkpoint { checkpoints.append((frame.offset, changesRead - transactions.changesDropped)) }
        return true
    }

    private func note(_ found: FormatFeatures) throws(StoreError) {
        try found.requireReadable()
        features.formUnion(found)
    }

    private func countChanges(_ frame: FrameView) throws(StoreError) -> UInt64 {
        var cursor = ChangeCursor(frame)
        var count: UInt64 = 0
        while try cursor.next() != nil { count += 1 }
        return count
    }

    /// Notes every change: SS2.
    private func noteChanges(_ frame: FrameView) throws(StoreError) {
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            note(next: change.object.number + 1, change.object.entityNumber)
            let isDeletion = change.kind == .delete
            let start = isDeletion ? change.entryOffset : change.rowOffset ?? change.entryOffset
            try changes.append(
                SalvagedChange(
                    object: change.object.rawValue, place: frame.offset + UInt64(start),
                    rest: frame.header.frameBytes - UInt32(start), isDeletion: isDeletion))
        }
    }

    func note(next: UInt64, _ entity: UInt16) {
        if next > nextNumbers[entity] ?? 1 { nextNumbers[entity] = next }
    }
}
