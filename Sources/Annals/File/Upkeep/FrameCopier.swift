// Copies transactions into another file: the same numbers, times, tags, changes and rows. Offsets become those of the
// other file.
//
// Invariants:
// Q1  The target's row index has the newest version of every object after the copied frames. So it has the previous
//     version of each copied change.
// Q2  `values` has every large value to which the rows of a frame refer before the frame is copied. A row may reuse a
//     value of an earlier row that is not copied: undoing does that. Such a value is copied with the row.
// Q3  A transaction's counts do not include changes left out. Its commit frame records that some are.

/// The new offset of a large value, and the fields of references to it.
private struct CopiedValue {
    let first: UInt64
    let checksum: UInt64
    let sourceChecksum: UInt64
    let valueBytes: UInt64
    /// Known after the last piece is copied.
    var forms: ValueForms = []
}

/// Copies frames of one file in their order into another. Damaged changes and rows are not copied.
final class FrameCopier {
    private let source: Engine
    private let target: Engine
    private let folded: FoldedHistory
    private var values: [UInt64: CopiedValue] = [:]
    var names: CopiedNames
    private var validator = ChangesValidator()
    private var buffer = ByteWriter(capacity: 1 << 16)
    private let pieces = FrameCopy()
    /// The source's catalog. It has every schema version of the rows that are copied next.
    var catalog: SchemaCatalog
    /// Whether rows of the frame refer to large values.
    private var hasReferences = false
    /// The start of the transaction that is being copied.
    private var start: UInt64?
    /// Whether it has schema frames.
    private var changesSchema = false
    /// The value whose pieces are being copied: its offsets in the target and the source, and its form.
    private var openValue: (first: UInt64, source: UInt64, form: LargeValueForm) = (0, 0, LargeValueForm())
    /// Whether even a small file needs a checkpoint: an index over existing rows was added, or rows belong to no
    /// transaction. Only a checkpoint contains the number of such rows, which salvage needs.
    var needsCheckpoint = false

    /// Of the current transaction: the number of changes that its parts have kept, whether any change was left out, and
    /// the large values of the kept rows, nil if not needed yet.
    private var keptInParts: UInt64 = 0
    private var lacksChanges = false
    private var wantedValues: Set<UInt64>?

    init(_ source: Engine, _ target: Engine, _ folded: FoldedHistory) {
        (self.source, self.target, self.folded) = (source, target, folded)
        names = CopiedNames(source, target)
        catalog = folded.state.catalog
    }

    /// Copies a frame of a transaction. `maintaining`: whether the target's ordered indexes follow.
    func copy(_ frame: FrameView, maintaining: Bool, _ appender: Appender) throws(StoreError) {
        if appender.state.open == nil { try names.define(of: frame, appender) }
        if frame.header.kind == .value, try isLeftOut(value: frame) { return }
        if frame.header.kind == .part || frame.header.kind == .transaction {
            try validate(frame, newestVersion: appender.state.schemaVersion + (changesSchema ? 1 : 0))
            if hasReferences { try copyMissingValues(of: frame, appender) }
        }
        let offset = appender.state.reach
        buffer.truncate()
        buffer.appendZeros(FrameField.bytes)
        switch frame.header.kind {
        case .part, .transaction:
            let kept = try appendChanges(of: frame, start: start ?? offset)
            if kept == 0, lacksChanges, frame.header.kind == .part { return }
        default:
            buffer.append(frame.table)
            buffer.append(frame.body)
        }
        if start == nil { start = offset }
        if frame.header.kind == .schema { changesSchema = true }
        let isCommit = frame.header.kind == .transaction
        var tableBytes = frame.table.count
        if isCommit || frame.header.kind == .part { tableBytes = copiedTableBytes }
        let piece = frame.header.kind == .value ? try settlePiece(frame, at: offset) : nil
        let header = try appender.append(
            copied: buffer.mutableBytes(0..<buffer.count), kind: frame.header.kind, isMember: !isCommit,
            tableBytes: tableBytes)
        if let piece { note(piece, frame, at: offset, header.checksum) }
        guard isCommit || frame.header.kind == .part else {
            target.indexes.note(header, at: offset)
            return
        }
        let first = start ?? offset
        if isCommit {
            let catalog = appender.state.catalog
            if target.indexes.shape.catalog.newestVersion != catalog.newestVersion {
                if target.indexes.hasRowsToIndex(after: catalog) { needsCheckpoint = true }
                target.indexes.adopt(catalog)
                // Objects may have an index now that had none before.
                touchesIndexes = true
                if !maintaining { target.indexes.dropOrdered() }
            }
            start = nil
            changesSchema = false
            (keptInParts, lacksChanges, wantedValues) = (0, false, nil)
        }
        let copied = FrameView(buffer.bytes, header: header, offset: offset)
        // Ordered indexes read rows in the file. Without them, many frames are written at once.
        let looksAtRows = maintaining && touchesIndexes
        if looksAtRows { try appender.flush() }
        do throws(StoreError) {
            try target.indexes.applyCopied(copied, start: first, maintainingOrdered: looksAtRows)
        } catch {
            throw error.at(offset: frame.offset)
        }
    }

    // MARK: Changes

    /// `newestVersion` is the newest schema version at the frame.
    private func validate(_ frame: FrameView, newestVersion: UInt16) throws(StoreError) {
        hasReferences = false
        do throws(StoreError) {
            try validator.validate(frame, catalog) { (_, row) throws(StoreError) in
                guard let row else { return }
                if row.hasReferences { hasReferences = true }
                try row.view.require(schemaVersionUpTo: newestVersion)
            }
        } catch {
            throw error.at(offset: frame.offset)
        }
    }

    private var copiedTableBytes = 0
    /// Whether the frame changes objects that have ordered indexes.
    private var touchesIndexes = false

    /// Appends the record, the entries with the target's links, and the rows. Returns the number of kept changes.
    private func appendChanges(of frame: FrameView, start: UInt64) throws(StoreError) -> UInt32 {
        var record = try TransactionRecord.decode(frame.table)
        record.isCopied = true
        record.start = start
        try names.settle(&record)
        buffer.appendZeros(TransactionField.bytes)
        touchesIndexes = false
        let number = frame.header.number
        var kept: UInt32 = 0
        // One section for all changes: entering one costs as much as a lookup.
        try target.indexes.core.reading { () throws(StoreError) in
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                if folded.leavesOut(change.object, in: number) { continue }
                kept += 1
                try append(change)
            }
        }
        let isWhole = kept == record.changes
        settle(&record, kept: kept, isCommit: frame.header.kind == .transaction)
        record.encode(into: buffer.mutableBytes(FrameField.bytes..<FrameField.bytes + TransactionField.bytes))
        copiedTableBytes = buffer.count - FrameField.bytes
        let front = buffer.count
        guard isWhole else {
            try appendKeptRows(of: frame, front: front)
            return kept
        }
        buffer.append(frame.body)
        try settleRows(from: frame, front: front)
        return kept
    }

    /// Counts the kept changes.
    private func settle(_ record: inout TransactionRecord, kept: UInt32, isCommit: Bool) {
        assert(kept <= record.changes, "Q3: more changes are kept than there were.")
        if kept < record.changes { lacksChanges = true }
        record.changes = kept
        record.firstChange = keptInParts
        keptInParts += UInt64(kept)
        guard isCommit else { return }
        record.totalChanges = keptInParts
        record.lacksChanges = record.lacksChanges || lacksChanges
    }

    private func append(_ change: ChangeView) throws(StoreError) {
        // Q1.
        let previous = try target.indexes.rows.newest(change.object)
        if !target.indexes.shape.indexes(of: change.object.entityNumber).isEmpty { touchesIndexes = true }
        let isNeeded = change.kind == .update || change.kind == .delete
        guard isNeeded == (previous != 0 && previous & 1 == 0) else { throw ReadCore.badLink(change.frameOffset) }
        let words = change.attributeWords
        let shape = UInt8(words.count / 8) | (previous != 0 ? ChangeField.previousBit : 0)
        buffer.append(change.objectBits)
        // The row's offset in the source. Settled once the table is complete.
        buffer.append(UInt32(change.rowOffset ?? 0))
        buffer.append(change.kind.rawValue)
        buffer.append(shape)
        buffer.append(UInt16(0))
        if previous != 0 { buffer.append(previous) }
        buffer.append(words)
    }

    /// Settles the distances between entries and rows, and relocates references.
    private func settleRows(from frame: FrameView, front: Int) throws(StoreError) {
        let shift = front - FrameField.bytes - frame.table.count
        var position = FrameField.bytes + TransactionField.bytes
        while position < front {
            let change = ChangeView(
                at: position - FrameField.bytes,
                of: buffer.bytes.slice(FrameField.bytes, copiedTableBytes))
            let bytes = change.entryBytes
            let object = change.object
            if let old = change.rowOffset {
                let row = old + shift
                try RowMove.settle(&buffer, row: row, entry: position)
                if hasReferences { try relocate(row: row, object) }
            }
            position += bytes
        }
    }

    /// Appends the rows of the kept entries, and settles them.
    private func appendKeptRows(of frame: FrameView, front: Int) throws(StoreError) {
        let bodyStart = FrameField.bytes + frame.table.count
        var position = FrameField.bytes + TransactionField.bytes
        while position < front {
            let change = ChangeView(
                at: position - FrameField.bytes, of: buffer.bytes.slice(FrameField.bytes, copiedTableBytes))
            let (bytes, object) = (change.entryBytes, change.object)
            if let old = change.rowOffset {
                let source = frame.body.slice(old - bodyStart, frame.body.count - (old - bodyStart))
                let row = buffer.count
                buffer.append(UnsafeRawBufferPointer(rebasing: source[..<(try RowHeader(source).rowBytes.paddedTo8)]))
                try RowMove.settle(&buffer, row: row, entry: position)
                if hasReferences { try relocate(row: row, object) }
            }
            position += bytes
        }
    }

    // MARK: Large values

    /// Whether a piece belongs to a value that only omitted rows refer to.
    private func isLeftOut(value frame: FrameView) throws(StoreError) -> Bool {
        guard frame.header.isMember, frame.header.number <= folded.last else { return false }
        if wantedValues == nil { wantedValues = try valuesOfKeptRows(after: frame) }
        let first = try ValuePiece.decode(frame).first
        return wantedValues.map { !$0.contains(first) } ?? false
    }

    /// The large values to which the kept rows of a transaction refer. Reads on from its first value. It decides only
    /// which values are copied: if one is missing, a row that refers to it is not copied.
    private func valuesOfKeptRows(after value: FrameView) throws(StoreError) -> Set<UInt64> {
        let number = value.header.number
        var found: Set<UInt64> = []
        var position = value.end
        while true {
            let frame = try source.indexes.core.frame(at: position)
            guard frame.header.number == number else { throw ReadCore.badLink(position) }
            position = frame.end
            guard frame.header.kind == .part || frame.header.kind == .transaction else { continue }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                guard !folded.leavesOut(change.object, in: number), let row = change.rowOffset else { continue }
                let view = try source.indexes.core.row(
                    at: frame.offset + UInt64(row), change.object.entityNumber, folded.state.shape)
                for place in try view.referencePlaces() { found.insert(place.reference.offset) }
            }
            if frame.header.kind == .transaction { return found }
        }
    }

    private func relocate(row: Int, _ object: ObjectID) throws(StoreError) {
        let image = try image(buffer.bytes.slice(row, buffer.count - row), of: object, at: UInt64(row))
        try relocate(image, at: row, in: &buffer)
    }

    /// A row of a frame that is copied.
    private func image(
        _ bytes: UnsafeRawBufferPointer, of object: ObjectID, at offset: UInt64
    ) throws(StoreError) -> RowImage {
        let version = try RowHeader(bytes).schemaVersion
        guard let layout = catalog.layout(version: version, entity: object.entityNumber) else {
            throw ReadCore.badLink(offset)
        }
        return try RowImage(bytes, layout: layout)
    }

    /// The copy of a large value (Q2). Throws `damaged` if there is none with these fields.
    private func value(of place: RowImage.ReferencePlace) throws(StoreError) -> CopiedValue {
        let reference = place.reference
        guard let value = values[reference.offset], value.valueBytes == reference.valueBytes,
            value.sourceChecksum == reference.checksum
        else {
            throw StoreError(
                .damaged, "F23: a row refers to a missing large value. Restore the store from a backup.",
                offset: reference.offset)
        }
        guard value.forms.isSuperset(of: .needed(for: place.type)) else {
            throw StoreError(
                .damaged,
                "F22: a large value does not have the type of its attribute. Restore the store from a backup.",
                offset: reference.offset)
        }
        return value
    }

    /// Examines the piece in the buffer, and writes its value's offset into it.
    private func settlePiece(_ frame: FrameView, at offset: UInt64) throws(StoreError) -> ValuePiece {
        let piece = try ValuePiece.decode(frame)
        if piece.position == 0 { openValue = (offset, frame.offset, LargeValueForm()) }
        openValue.form.accept(frame.body.slice(0, Int(piece.pieceBytes)))
        buffer.patch(openValue.first, at: FrameField.bytes + ValueField.first)
        return piece
    }

    private func note(_ piece: ValuePiece, _ frame: FrameView, at offset: UInt64, _ checksum: UInt64) {
        if piece.position == 0 {
            values[frame.offset] = CopiedValue(
                first: offset, checksum: checksum, sourceChecksum: frame.header.checksum, valueBytes: piece.valueBytes)
        }
        if piece.position + UInt64(piece.pieceBytes) == piece.valueBytes {
            values[openValue.source]?.forms = openValue.form.finish()
        }
    }

    /// Copies the large values of a base row, as frames of the base.
    func copyValues(of row: RowImage, _ appender: Appender) throws(StoreError) {
        for place in try row.referencePlaces() where values[place.reference.offset] == nil {
            try copyValue(place.reference, isMember: false, appender)
        }
    }

    /// Copies the large values of a frame's kept rows that the target lacks, as members of its transaction.
    private func copyMissingValues(of frame: FrameView, _ appender: Appender) throws(StoreError) {
        let bodyStart = FrameField.bytes + frame.table.count
        var cursor = ChangeCursor(frame)
        while let change = try cursor.next() {
            guard let row = change.rowOffset, !folded.leavesOut(change.object, in: frame.header.number) else {
                continue
            }
            let bytes = frame.body.slice(row - bodyStart, frame.body.count - (row - bodyStart))
            let image = try image(bytes, of: change.object, at: frame.offset + UInt64(row))
            for place in try image.referencePlaces() where values[place.reference.offset] == nil {
                let first = appender.state.reach
                try appender.prepareMore(UInt64(source.options.log.limits.maximumFrameBytes))
                try copyValue(place.reference, isMember: true, appender)
                if start == nil { start = first }
            }
        }
    }

    private func copyValue(
        _ reference: LargeValueReference, isMember: Bool, _ appender: Appender
    ) throws(StoreError) {
        var position = reference.offset
        var left = reference.valueBytes
        while left > 0 {
            let frame = try pieces.frame(at: position, source.indexes.core)
            let offset = appender.state.reach
            buffer.truncate()
            buffer.appendZeros(FrameField.bytes)
            buffer.append(frame.table)
            buffer.append(frame.body)
            let piece = try settlePiece(frame, at: offset)
            guard frame.header.kind == .value, UInt64(piece.pieceBytes) <= left,
                piece.valueBytes == reference.valueBytes, piece.position == piece.valueBytes - left
            else {
                throw ReadCore.badLink(position)
            }
            let header = try appender.append(
                copied: buffer.mutableBytes(0..<buffer.count), kind: .value, isMember: isMember,
                tableBytes: frame.table.count)
            target.indexes.note(header, at: offset)
            note(piece, frame, at: offset, header.checksum)
            left -= UInt64(piece.pieceBytes)
            position = frame.end
        }
    }

    /// Changes the references of a row at `place` of `frame` to the target's offsets.
    func relocate(_ row: RowImage, at place: Int, in frame: inout ByteWriter) throws(StoreError) {
        for reference in try row.referencePlaces() {
            let value = try value(of: reference)
            frame.patch(value.first, at: place + reference.position + ReferenceField.offset)
            frame.patch(value.checksum, at: place + reference.position + ReferenceField.checksum)
        }
    }
}

/// Moves rows to new offsets.
enum RowMove {
    /// Writes the row's offset into its entry, and the entry's distance into the row. Both count from the frame's
    /// start, like offsets in the buffer.
    static func settle(_ buffer: inout ByteWriter, row: Int, entry: Int) throws(StoreError) {
        guard row > entry, (row - entry) % 8 == 0, let distance = UInt16(exactly: (row - entry) / 8),
            row + RowField.bytes <= buffer.count
        else { throw ReadCore.badLink(UInt64(entry)) }
        buffer.patch(UInt32(row), at: entry + ChangeField.row)
        buffer.patch(distance, at: row + RowField.entryDistance)
    }
}

extension RowImage {
    /// A reference to a large value, its position in the row, and its attribute's type.
    struct ReferencePlace {
        let position: Int
        let reference: LargeValueReference
        let type: AttributeType
    }

    /// The part of F21 that the validator cannot check, because it has all versions of the source.
    func require(schemaVersionUpTo newest: UInt16) throws(StoreError) {
        guard bytes.integer(at: RowField.schemaVersion, as: UInt16.self) > newest else { return }
        throw RowHeader.damaged("a row has a schema version that is defined after it.", fileOffset)
    }

    func referencePlaces() throws(StoreError) -> [ReferencePlace] {
        var places: [ReferencePlace] = []
        for position in layout.variables {
            guard case .large(let reference) = try variable(at: Int(position)),
                let content = try variableBytes(Int(position)).0.baseAddress, let start = bytes.baseAddress
            else { continue }
            places.append(
                ReferencePlace(
                    position: content - start, reference: reference, type: layout.slots[Int(position)].type))
        }
        return places
    }
}
