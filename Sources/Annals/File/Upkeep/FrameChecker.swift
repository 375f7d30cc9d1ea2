// Checks the frames that the log's state has accepted more deeply: entries, rows and values (F17, F20 to F22), and
// notes facts that can only be checked after reading everything (F3, F10, F18, F19, F23, F30, F31, F33, F34).
//
// Invariants:
// CF1  `counts` holds the groups that are complete, `open` the members read since.
// CF2  Records of members whose commit frame never comes have a number above the last transaction's.

final class FrameChecker {
    var findings: FindingList
    private(set) var counts = CheckCounts()
    private var open = CheckCounts()
    private let changes: ExternalSorter<ChangeRecord>
    private let values: ExternalSorter<ValueRecord>
    private let places: ExternalSorter<OffsetRecord>
    private let checkpoints: CheckpointChecker
    private let consumers: ConsumerChecker
    private let files: any FileSystem
    private let file: Descriptor
    private let options: CheckOptions
    private let sortingUnit: Int
    private var largeValue: OpenLargeValue?
    private var lastMark: UInt64
    private var validator = ChangesValidator()
    private let hints: [(slot: UInt64, hint: Hint)]

    private struct OpenLargeValue {
        var checksum: UInt64
        var form = LargeValueForm()
    }

    init(
        _ files: any FileSystem, _ file: Descriptor, _ options: CheckOptions, header: FileHeader, hints: [HintSlot]
    ) throws(StoreError) {
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
        consumers = ConsumerChecker(
            header, ExternalSorter(files, directory: directory, memoryBytes: unit))
        let first = UInt64(FormatLimits.pageBytes)
        try places.append(OffsetRecord(.groupEnd, first, source: 0))
        checkHintNumbers(end: first, lastNumber: header.baseNumber)
    }

    /// Checks an accepted frame; `state` is the log's state after it.
    func check(_ frame: FrameView, _ state: LogState) throws(StoreError) {
        try notePlaces(frame)
        open.frames += 1
        open.frameBytes[Int(frame.header.kind.rawValue)] += UInt64(frame.header.frameBytes)
        do throws(StoreError) {
            switch frame.header.kind {
            case .transaction, .part: try checkChanges(frame, state.rowCatalog)
            case .rows: try checkChanges(frame, state.catalog)
            case .value: try checkValue(frame)
            default: break
            }
        } catch  where error.code == .damaged {
            findings.add(error.at(offset: frame.offset), rule: "F21")
        }
        try consumers.check(frame, state, into: &findings)
        try checkpoints.check(frame, before: counts, state, into: &findings)
        // Until its commit frame, a transaction does not count: CF1.
        guard !frame.header.isMember else { return }
        if frame.header.kind == .transaction { open.transactions += 1 }
        counts.add(open)
        open = CheckCounts()
        try places.append(OffsetRecord(.groupEnd, frame.end, source: frame.offset))
        checkHintNumbers(end: frame.end, lastNumber: state.lastNumber)
    }

    /// Checks the rules that need the whole file; only frames below `end` and transactions up to `lastNumber` count.
    /// `catalog` is that of the end.
    func finish(end: UInt64, lastNumber: UInt64, _ catalog: SchemaCatalog) throws(StoreError) {
        for (slot, hint) in hints {
            try notePlace(.hintEnd, hint.durableEnd, source: slot)
            if hint.checkpoint != 0 { try notePlace(.hintCheckpoint, hint.checkpoint, source: slot) }
            if hint.checkpoint != 0, hint.checkpoint >= hint.durableEnd {
                findings.add("F3", at: slot, "A hint refers to a checkpoint after its durable end.")
            }
        }
        try OffsetRecord.check(places, into: &findings)
        let window = ByteWindow(files, file, stepBytes: options.windowBytes)
        defer { withExtendedLifetime(window) {} }
        try consumers.finish(window, checkpoints.landmarks.first, into: &findings)
        try ValueRecord.check(values, lastNumber: lastNumber, into: &findings)
        // The values' memory is free at this point, and that of the changes when entries of indexes are sorted.
        let indexes = IndexChecker(
            files, file, options, checkpoints.found, checkpoints.nodes, end: StoreShape(catalog),
            memoryBytes: sortingUnit * 3)
        try VersionChain.check(changes, lastNumber: lastNumber, into: &findings) { (change) throws(StoreError) in
            try indexes.collect(change)
        }
        try indexes.finish(into: &findings)
    }

    // MARK: Places

    private func notePlaces(_ frame: FrameView) throws(StoreError) {
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

    /// Groups end, and frames begin, only at multiples of 8.
    private func notePlace(_ role: OffsetRecord.Role, _ place: UInt64, source: UInt64) throws(StoreError) {
        let record = OffsetRecord(role, place, source: source)
        if place % UInt64(FormatLimits.frameAlignment) != 0 {
            record.report(into: &findings)
        } else {
            try places.append(record)
        }
    }

    private func checkHintNumbers(end: UInt64, lastNumber: UInt64) {
        for (slot, hint) in hints where hint.durableEnd == end && hint.number != lastNumber {
            findings.add("F3", at: slot, "The number of a hint does not match the last transaction before its end.")
        }
    }

    // MARK: Changes and rows

    private func checkChanges(_ frame: FrameView, _ catalog: SchemaCatalog) throws(StoreError) {
        try validator.validate(frame, catalog) { (change, row) throws(StoreError) in
            if let row { try note(row, frame.header.number) }
            checkpoints.note(change)
            try changes.append(ChangeRecord(change, number: frame.header.number, frameOffset: frame.offset))
            open.changes += 1
        }
    }

    private func note(_ row: ChangesValidator.WrittenRow, _ number: UInt64) throws(StoreError) {
        open.rows += 1
        open.values += UInt64(row.view.presentCount)
        let layout = row.view.layout
        for position in layout.variables {
            guard case .large(let reference) = try row.view.variable(at: Int(position)) else { continue }
            try values.append(
                ValueRecord(
                    use: reference, type: layout.slots[Int(position)].type, row: row.offset, number: number))
        }
    }

    // MARK: Large values

    private func checkValue(_ frame: FrameView) throws(StoreError) {
        let piece = try ValuePiece.decode(frame)
        var value = largeValue ?? OpenLargeValue(checksum: 0)
        if piece.position == 0 { value = OpenLargeValue(checksum: frame.header.checksum) }
        value.form.accept(frame.body.slice(0, Int(piece.pieceBytes)))
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
