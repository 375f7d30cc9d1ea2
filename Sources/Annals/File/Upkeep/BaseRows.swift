// The rows of the state with which a compacted file begins.

/// An unfinished rows frame.
struct BaseRows: ~Copyable {
    private let limitBytes: Int
    private var table = ByteWriter(capacity: 1 << 14)
    private var body = ByteWriter(capacity: 1 << 16)
    private var entries: UInt32 = 0

    init(limitBytes: Int) {
        self.limitBytes = limitBytes
        reset()
    }

    private mutating func reset() {
        entries = 0
        body.truncate()
        table.truncate()
        table.appendZeros(FrameField.bytes + RowsField.bytes)
    }

    func hasRoom(for row: RowImage) -> Bool {
        entries == 0 || table.count + body.count + ChangeField.bytes + row.rowBytes.paddedTo8 <= limitBytes
    }

    /// `copier` has copied the row's large values; nil without any.
    mutating func append(
        _ object: ObjectID, _ row: RowImage, _ copier: FrameCopier?, _ proof: RowProof
    ) throws(StoreError) {
        assert(hasRoom(for: row), "A row does not fit its frame.")
        table.append(object.rawValue)
        // The row's offset in the body, until `write` adds the table's size.
        table.append(UInt32(body.count))
        table.append(UInt32(0))
        let start = body.count
        body.append(UnsafeRawBufferPointer(rebasing: row.bytes[..<row.rowBytes]))
        let copy = body.bytes.slice(start, row.rowBytes)
        proof.note(object, copy)
        // Validates the copy, because the row itself may change.
        try copier?.relocate(try RowImage(copy, layout: row.layout), at: start, in: &body)
        body.appendPadding()
        entries += 1
    }

    /// Appends the frame and begins another one.
    mutating func write(_ target: Engine, _ copier: FrameCopier, _ appender: Appender) throws(StoreError) {
        guard entries > 0 else { return }
        copier.needsCheckpoint = true
        let front = table.count
        table.patch(entries, at: FrameField.bytes)
        table.append(body.bytes)
        for index in 0..<Int(entries) {
            let entry = FrameField.bytes + RowsField.bytes + index * ChangeField.bytes
            let row = front + Int(table.bytes.integer(at: entry + ChangeField.row, as: UInt32.self))
            try RowMove.settle(&table, row: row, entry: entry)
        }
        let offset = appender.state.end
        let bytes = table.mutableBytes(0..<table.count)
        let tableBytes = front - FrameField.bytes
        let header = try appender.append(copied: bytes, kind: .rows, isMember: false, tableBytes: tableBytes)
        let frame = FrameView(
            offset: offset, header: header, table: UnsafeRawBufferPointer(bytes.slice(FrameField.bytes, tableBytes)),
            body: UnsafeRawBufferPointer(bytes.slice(front, bytes.count - front)))
        try target.indexes.applyCopied(frame, start: 1, maintainingOrdered: false)
        reset()
    }
}
