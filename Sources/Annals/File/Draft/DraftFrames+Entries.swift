// Reading the changes of a draft, before or after the commit.

extension DraftFrames {
    /// Its least size in the file, apart from names.
    var bytes: UInt64 { prepared.spool.count + UInt64(frameBytes) }

    /// The table of the commit frame, its record first, as it will be in the file once the transaction is committed:
    /// row and entry offsets count from `AppendedTransaction.commitFrame`. Requires a complete transaction, and lives
    /// as long.
    package var lastFrameTable: UnsafeRawBufferPointer {
        guard let last = prepared.last else {
            preconditionFailure(
                "A transaction must be complete before it is inspected.")
        }
        return UnsafeRawBufferPointer(last.bytes).slice(FrameField.bytes, last.tableBytes)
    }

    /// Passes all changes that count to `body`, in their order, until `body` returns false. Offsets count from the
    /// start of each change's frame.
    ///
    /// With `withRows`, a change's row comes with it, with its padding; otherwise the rows of frames that wait in a
    /// file are not read. `body` must not change the transaction; its argument lives until it returns. Throws errors of
    /// `body` and of reading.
    @inline(__always)
    package func forEachEntry(
        withRows: Bool = false, _ body: (ChangeView, UnsafeRawBufferPointer?) throws(StoreError) -> Bool
    ) throws(StoreError) {
        if superseded > 0 { return try forEachCountingEntry(withRows, body) }
        try forEachWrittenEntry(withRows, leavesOut: false, { _ in true }, body)
    }

    /// The same with rows, for changes of some entities: skips waiting frames in a file that have none of them. Other
    /// frames are passed whole.
    @inline(__always)
    package func forEachRowEntry(
        of isMeant: (UInt16) -> Bool, _ body: (ChangeView, UnsafeRawBufferPointer?) throws(StoreError) -> Bool
    ) throws(StoreError) {
        if superseded > 0 { return try forEachCountingEntry(true, body) }
        try forEachWrittenEntry(true, leavesOut: true, isMeant, body)
    }

    private func forEachCountingEntry(
        _ withRows: Bool, _ body: (ChangeView, UnsafeRawBufferPointer?) throws(StoreError) -> Bool
    ) throws(StoreError) {
        let own = try findOwnChanges()
        var place = OwnChanges.Place(part: 0, position: 0)
        func counts(_ change: ChangeView) -> Bool {
            // Positions ascend within a part, and each part has a change.
            let position = UInt32(change.entryOffset - FrameField.bytes)
            if position <= place.position { place.part += 1 }
            place.position = position
            return own.place(of: change.objectBits) == place
        }
        try forEachWrittenEntry(
            withRows, leavesOut: false, { _ in true },
            { (change, row) throws(StoreError) in counts(change) ? try body(change, row) : true })
    }

    /// The same, including changes that no longer count.
    private func forEachWrittenEntry(
        _ withRows: Bool, leavesOut: Bool, _ isMeant: (UInt16) -> Bool,
        _ body: (ChangeView, UnsafeRawBufferPointer?) throws(StoreError) -> Bool
    ) throws(StoreError) {
        guard state != .lent else { throw unusable() }
        for frame in prepared.members {
            guard case .part = frame.content else { continue }
            if leavesOut, try !has(isMeant, frame) { continue }
            let count = withRows ? Int(frame.frameBytes) : FrameField.bytes + Int(frame.tableBytes)
            let goesOn = try prepared.spool.withBytes(at: frame.spoolOffset, count: count) {
                (bytes) throws(StoreError) in
                let table = bytes.slice(FrameField.bytes, Int(frame.tableBytes))
                return try Self.visit(table, rowShift: 0, body) { offset in
                    withRows ? Self.row(at: offset, of: bytes) : nil
                }
            }
            if !goesOn { return }
        }
        let rows = self.body.bytes.slice(headroom, self.body.count - headroom)
        let front = FrameField.bytes + table.count
        _ = try Self.visit(table.bytes, rowShift: table.count, body) { offset in
            withRows ? Self.row(at: offset - front, of: rows) : nil
        }
    }

    /// Whether a frame has a change of an entity for which `isMeant` is true. Reads only its table.
    private func has(_ isMeant: (UInt16) -> Bool, _ frame: PreparedFrame) throws(StoreError) -> Bool {
        let start = frame.spoolOffset + UInt64(FrameField.bytes)
        return try prepared.spool.withBytes(at: start, count: Int(frame.tableBytes)) { (table) throws(StoreError) in
            // The visit ends early at the first one.
            try !Self.visit(
                table, rowShift: 0, { (change, _) in !isMeant(change.object.entityNumber) }, row: { _ in nil })
        }
    }

    private static func visit(
        _ table: UnsafeRawBufferPointer, rowShift: Int,
        _ body: (ChangeView, UnsafeRawBufferPointer?) throws(StoreError) -> Bool,
        row: (Int) -> UnsafeRawBufferPointer?
    ) throws(StoreError) -> Bool {
        var position = TransactionField.bytes
        while position < table.count {
            let change = ChangeView(at: position, of: table, rowShift: rowShift)
            guard try body(change, change.rowOffset.flatMap(row)) else { return false }
            position += change.entryBytes
        }
        return true
    }

    private static func row(at offset: Int, of bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let rowBytes = Int(bytes.integer(at: offset + RowField.rowBytes, as: UInt32.self))
        return bytes.slice(offset, rowBytes.paddedTo8)
    }
}
