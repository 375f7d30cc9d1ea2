// The frames of a draft: begun, completed, and put into the spool if there are several.

extension DraftFrames {
    func beginFrame() {
        table.truncate()
        table.appendZeros(TransactionField.bytes)
        body.truncate()
        // Completing the frame writes the part that it needs: B3.
        body.skip(headroom)
        changesInFrame = 0
        if !relocations.isEmpty { relocations.removeAll(keepingCapacity: true) }
    }

    /// The size of the open frame.
    @inline(__always)
    var frameBytes: Int { FrameField.bytes + table.count + body.count - headroom }

    /// Ends the open frame if the change would not fit.
    func makeRoom(entryBytes: Int, rowBytes: Int) throws(StoreError) {
        if frameBytes + entryBytes + rowBytes <= limits.maximumFrameBytes { return }
        if changesInFrame > 0 { try endFrame() }
        try requireFits(entryBytes: entryBytes, rowBytes: rowBytes)
        assert(changesInFrame == 0, "B2: a change is added to a full frame.")
    }

    /// Throws unless a change fits a frame of its own.
    func requireFits(entryBytes: Int, rowBytes: Int) throws(StoreError) {
        let front = FrameField.bytes + TransactionField.bytes
        guard front + entryBytes + rowBytes <= FormatLimits.maximumFrameBytes else {
            throw StoreError(.tooLarge, "A row of \(rowBytes) bytes does not fit into a frame: use fewer attributes.")
        }
    }

    /// Completes the open frame, puts it into the spool and begins another.
    func endFrame() throws(StoreError) {
        let frame = completeFrame()
        // The spool may be a file, which gets no bytes that were never written.
        frame.bytes.slice(0, FrameField.bytes).initializeMemory(as: UInt8.self, repeating: 0)
        try spool(
            UnsafeRawBufferPointer(frame.bytes),
            PreparedFrame(
                content: .part(frame.firstChange, frame.changes), spoolOffset: prepared.spool.count,
                frameBytes: UInt32(frame.bytes.count), tableBytes: UInt32(frame.tableBytes),
                bodyChecksum: frame.bodyChecksum, relocations: frame.relocations))
        beginFrame()
    }

    /// Prepares the last frame. From now on the transaction cannot change.
    package func complete() throws(StoreError) {
        if state == .complete { return }
        try requireUsable()
        try settle()
        assert(superseded == 0, "B7: a completed transaction contains an object once.")
        (prepared.changes, prepared.schemaVersion) = (changes, schemaVersion)
        prepared.last = completeFrame()
        state = .complete
    }

    /// Puts the table in front of the rows and settles the offsets of rows and entries.
    private func completeFrame() -> LastFrame {
        assert(frameBytes <= limits.maximumFrameBytes || changesInFrame <= 1, "B2: a frame is longer than its limit.")
        let front = FrameField.bytes + table.count
        if front > headroom { widenHeadroom(to: front) }
        assert(headroom >= front, "B3: a table does not fit in front of the rows.")
        let frame = body.mutableBytes((headroom - front)..<body.count)
        frame.slice(FrameField.bytes, table.count).copyMemory(from: table.bytes)
        settleRows(in: frame, tableBytes: table.count)
        let rows = UnsafeRawBufferPointer(frame).slice(front, frame.count - front)
        return LastFrame(
            bytes: frame, tableBytes: table.count, bodyChecksum: FrameHeader.bodyChecksum(rows, salt: prepared.salt),
            firstChange: changes - UInt64(changesInFrame), changes: changesInFrame,
            relocations: relocations.map { Relocation(position: $0.position + front, value: $0.value) })
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
                assert(row >= end && row < frame.count, "B4: a row does not lie after its table.")
                frame.store(UInt32(truncatingIfNeeded: row), at: entry + ChangeField.row)
                let distance = frame.integer(at: row + RowField.entryDistance, as: UInt16.self)
                frame.store(distance &+ shift, at: row + RowField.entryDistance)
            }
            entry += ChangeField.bytes + (shape & ChangeField.previousBit == 0 ? 0 : 8) + Int(shape & 0x1F) * 8
        }
        assert(entry == end, "B4: the entries do not fill their table.")
    }

    /// Marks the transaction as broken if a frame cannot be kept.
    private func spool(_ bytes: UnsafeRawBufferPointer, _ frame: PreparedFrame) throws(StoreError) {
        do throws(StoreError) {
            try prepared.spool.append(bytes)
        } catch {
            state = .broken
            throw error
        }
        assert(
            frame.spoolOffset + UInt64(bytes.count) == prepared.spool.count,
            "B1: a frame is not at its place in the spool.")
        prepared.members.append(frame)
    }

    func spoolScratch(tableBytes: Int, content: PreparedFrame.Content) throws(StoreError) {
        let front = FrameField.bytes + tableBytes
        let rest = scratch.bytes.slice(front, scratch.count - front)
        try spool(
            scratch.bytes,
            PreparedFrame(
                content: content, spoolOffset: prepared.spool.count, frameBytes: UInt32(scratch.count),
                tableBytes: UInt32(tableBytes), bodyChecksum: FrameHeader.bodyChecksum(rest, salt: prepared.salt),
                relocations: []))
    }
}
