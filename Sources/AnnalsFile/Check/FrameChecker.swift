// Checks the frames that the log's state has accepted more deeply: entries, rows and values (F17, F20 to F22), and notes what can
// only be checked when everything was read (F3, F10, F18, F19, F23, F30, F31).
//
// Invariants:
// K1  `counts` holds the groups that are complete, `open` the members read since.
// K2  Records of members whose commit frame never comes have a number above the last transaction's.

final class FrameChecker {
    var findings: FindingList
    private(set) var counts = CheckCounts()
    private var open = CheckCounts()
    private let changes: ExternalSorter<ChangeRecord>
    private let values: ExternalSorter<ValueRecord>
    private let places: ExternalSorter<PlaceRecord>
    private let checkpoints: CheckpointChecker
    private let files: any FileSystem
    private let file: Descriptor
    private let options: CheckOptions
    private let sortingUnit: Int
    private var largeValue: OpenLargeValue?
    private var lastMark: UInt64
    private var layouts = LayoutCache()
    private let hints: [(slot: UInt64, hint: Hint)]

    private struct OpenLargeValue {
        var checksum: UInt64
        var form = LargeValueForm()
    }

    init(
        _ files: any FileSystem, _ file: Descriptor, _ options: CheckOptions, header: FileHeader, hints: [HintSlot]
    ) throws(FileError) {
        findings = FindingList(maximum: options.maximumFindings)
        (self.files, self.file, self.options) = (files, file, options)
        let unit = options.sortingBytes / 14
        sortingUnit = unit
        let directory = options.spillDirectory
        changes = ExternalSorter(files, directory: directory, memoryBytes: unit * 8)
        values = ExternalSorter(files, directory: directory, memoryBytes: unit * 3)
        places = ExternalSorter(files, directory: directory, memoryBytes: unit)
        lastMark = UInt64(FormatLimits.pageBytes)
        self.hints = zip(HintField.slots, hints).compactMap { (offset, slot) in
            if case .good(let hint) = slot { (UInt64(offset), hint) } else { nil }
        }
        checkpoints = CheckpointChecker(
            files, file, salt: header.salt, hinted: Set(self.hints.map(\.hint.checkpoint)),
            nodes: ExternalSorter(files, directory: directory, memoryBytes: unit))
        let first = UInt64(FormatLimits.pageBytes)
        try places.append(PlaceRecord(.groupEnd, first, source: 0))
        checkHintNumbers(end: first, lastNumber: header.baseNumber)
    }

    /// Checks a frame that was accepted; `state` is what the log says behind it.
    func check(_ frame: FrameView, _ state: LogState) throws(FileError) {
        try notePlaces(frame)
        open.frames += 1
        open.frameBytes[Int(frame.header.kind.rawValue)] += UInt64(frame.header.frameBytes)
        do throws(FileError) {
            switch frame.header.kind {
            case .transaction, .part: try checkChanges(frame, state.rowCatalog)
            case .rows: try checkRows(frame, state.catalog)
            case .value: try checkValue(frame)
            default: break
            }
        } catch  where error.code == .damaged {
            findings.add(error.at(offset: frame.offset), rule: "F21")
        }
        try checkpoints.check(frame, before: counts, state, into: &findings)
        guard !frame.header.isMember else { return }
        if frame.header.kind == .transaction { open.transactions += 1 }
        counts.add(open)
        open = CheckCounts()
        try places.append(PlaceRecord(.groupEnd, frame.end, source: frame.offset))
        checkHintNumbers(end: frame.end, lastNumber: state.lastNumber)
    }

    /// Checks what needs everything that was read; `end` and `lastNumber` tell what of it counts.
    func finish(end: UInt64, lastNumber: UInt64) throws(FileError) {
        for (slot, hint) in hints {
            try notePlace(.hintEnd, hint.durableEnd, source: slot)
            if hint.checkpoint != 0 { try notePlace(.hintCheckpoint, hint.checkpoint, source: slot) }
        }
        try PlaceRecord.check(places, into: &findings)
        try ValueRecord.check(values, lastNumber: lastNumber, into: &findings)
        // The values' memory is free by now, and that of the changes when entries of indexes are sorted.
        let indexes = IndexChecker(
            files, file, options, checkpoints.found, checkpoints.nodes, memoryBytes: sortingUnit * 3)
        try VersionChain.check(changes, lastNumber: lastNumber, into: &findings) { (change) throws(FileError) in
            try indexes.take(change)
        }
        try indexes.finish(into: &findings)
    }

    // MARK: Places

    private func notePlaces(_ frame: FrameView) throws(FileError) {
        if frame.header.durableMark != lastMark {
            lastMark = frame.header.durableMark
            try notePlace(.durableMark, lastMark, source: frame.offset)
        }
        if frame.header.kind == .checkpoint { try notePlace(.checkpoint, frame.offset, source: frame.offset) }
        if frame.header.kind == .seal {
            let checkpoint = try SealRecord.decode(frame).checkpoint
            if checkpoint != 0 { try notePlace(.sealCheckpoint, checkpoint, source: frame.offset) }
        }
    }

    /// No group ends, and no frame begins, but at a multiple of 8.
    private func notePlace(_ role: PlaceRecord.Role, _ place: UInt64, source: UInt64) throws(FileError) {
        let record = PlaceRecord(role, place, source: source)
        if place % UInt64(FormatLimits.frameAlignment) != 0 {
            record.report(into: &findings)
        } else {
            try places.append(record)
        }
    }

    private func checkHintNumbers(end: UInt64, lastNumber: UInt64) {
        for (slot, hint) in hints where hint.durableEnd == end && hint.number != lastNumber {
            findings.add("F3", at: slot, "The number of a hint is not that of the last transaction below its end.")
        }
    }

    // MARK: Changes and rows

    private func checkChanges(_ frame: FrameView, _ catalog: SchemaCatalog) throws(FileError) {
        let record = try TransactionRecord.decode(frame.table)
        try checkEntries(frame, expected: record.changes, catalog, rule: "F13")
    }

    private func checkRows(_ frame: FrameView, _ catalog: SchemaCatalog) throws(FileError) {
        guard frame.table.count >= RowsField.bytes,
            frame.table.integer(at: RowsField.zero, as: UInt32.self) == 0
        else { throw FileError(.damaged, "F17: the table of a rows frame has another form.") }
        let expected = frame.table.integer(at: RowsField.entries, as: UInt32.self)
        try checkEntries(frame, expected: expected, catalog, rule: "F17")
    }

    private func checkEntries(
        _ frame: FrameView, expected: UInt32, _ catalog: SchemaCatalog, rule: String
    ) throws(FileError) {
        var cursor = ChangeCursor(frame)
        var position = FrameField.bytes + frame.table.count
        var entries: UInt64 = 0
        while let change = try cursor.next() {
            entries += 1
            if let row = change.rowOffset {
                guard row == position else {
                    throw FileError(
                        .damaged, "F20: a row does not stand where the one before it ends.",
                        offset: frame.offset + UInt64(change.entryOffset))
                }
                position += try checkRow(change, at: row, frame, catalog)
            }
            checkpoints.note(change)
            try changes.append(ChangeRecord(change, number: frame.header.number, frameOffset: frame.offset))
        }
        open.changes += entries
        guard entries == UInt64(expected) else {
            throw FileError(.damaged, "\(rule): a frame has not as many changes as it says.")
        }
        guard position == Int(frame.header.frameBytes) else {
            throw FileError(.damaged, "F20: the rows of a frame do not fill its body.")
        }
    }

    /// Gives back the size of the row with its padding.
    private func checkRow(
        _ change: ChangeView, at row: Int, _ frame: FrameView, _ catalog: SchemaCatalog
    ) throws(FileError) -> Int {
        let offset = frame.offset + UInt64(row)
        let start = row - FrameField.bytes - frame.table.count
        let bytes = frame.body.slice(start, frame.body.count - start)
        let header = try RowHeader(bytes, fileOffset: offset)
        guard Int(header.entryDistance) * 8 == row - change.entryOffset else {
            throw FileError(.damaged, "F20: a row does not lead back to its change entry.", offset: offset)
        }
        guard let layout = layouts.layout(header.schemaVersion, change.object.entity, catalog) else {
            throw FileError(.damaged, "F21: a row is of a schema version or entity that there is not.", offset: offset)
        }
        if let last = change.lastAttributePosition, last >= layout.count {
            throw FileError(
                .damaged, "F21: an attribute set names an attribute that the entity does not have.", offset: offset)
        }
        let view = try RowView(bytes, layout: layout, fileOffset: offset)
        try view.validate(isDeletion: change.kind == .delete)
        open.rows += 1
        open.values += UInt64(view.presentCount)
        for position in layout.variables {
            guard case .large(let reference) = try view.variable(at: Int(position)) else { continue }
            try values.append(
                ValueRecord(
                    use: reference, type: layout.slots[Int(position)].type, row: offset, number: frame.header.number))
        }
        return header.rowBytes.paddedTo8
    }

    // MARK: Large values

    private func checkValue(_ frame: FrameView) throws(FileError) {
        let piece = try ValuePiece.decode(frame)
        var value = largeValue ?? OpenLargeValue(checksum: 0)
        if piece.position == 0 { value = OpenLargeValue(checksum: frame.header.checksum) }
        value.form.take(frame.body.slice(0, Int(piece.pieceBytes)))
        let isLast = piece.position + UInt64(piece.pieceBytes) == piece.valueBytes
        largeValue = isLast ? nil : value
        guard isLast else { return }
        open.largeValues += 1
        try values.append(
            ValueRecord(
                definedAt: piece.first, valueBytes: piece.valueBytes, checksum: value.checksum,
                number: frame.header.number, forms: value.form.finish()))
    }
}

/// Remembers the layout that was asked for last: rows of one kind stand together.
private struct LayoutCache {
    private var version: UInt16 = 0
    private var entity: UInt16 = 0
    private var last: RowLayout?

    /// What a version says of an entity never changes, so the catalog may be another one each time.
    mutating func layout(_ version: UInt16, _ entity: UInt16, _ catalog: SchemaCatalog) -> RowLayout? {
        if let last, version == self.version, entity == self.entity { return last }
        guard let found = catalog.layout(version: version, entity: entity) else { return nil }
        (self.version, self.entity, last) = (version, entity, found)
        return found
    }
}
