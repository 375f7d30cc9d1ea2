// Frames of a transaction in the making: begun, completed, and put into the spool if there are several.

extension TransactionBuilder {
    func beginFrame() {
        table.truncate()
        table.appendZeros(TransactionField.bytes)
        body.truncate()
        body.appendZeros(headroom)
        changesInFrame = 0
        if !relocations.isEmpty { relocations.removeAll(keepingCapacity: true) }
    }

    /// What the frame in the making has by now.
    @inline(__always)
    var frameBytes: Int { FrameField.bytes + table.count + body.count - headroom }

    /// Ends the frame in the making if the change would not fit.
    func makeRoom(entryBytes: Int, rowBytes: Int) throws(StoreError) {
        if frameBytes + entryBytes + rowBytes <= limits.maximumFrameBytes { return }
        if changesInFrame > 0 { try endFrame() }
        try requireFits(entryBytes: entryBytes, rowBytes: rowBytes)
    }

    /// Whether a change fits a frame of its own.
    func requireFits(entryBytes: Int, rowBytes: Int) throws(StoreError) {
        let front = FrameField.bytes + TransactionField.bytes
        guard front + entryBytes + rowBytes <= FormatLimits.maximumFrameBytes else {
            throw StoreError(.tooLarge, "A row of \(rowBytes) bytes does not fit a frame: use fewer attributes.")
        }
    }

    /// Completes the frame in the making, puts it into the spool and begins another.
    func endFrame() throws(StoreError) {
        let frame = completeFrame()
        try spoolFrame(frame, content: .part(frame.first, changesInFrame))
        beginFrame()
    }

    /// The last frame, complete except for what the commit settles. From now on the transaction cannot change.
    func lastFrame() -> CompleteFrame {
        if let completed { return completed }
        assert(superseded == 0, "B7: an object is in a completed transaction once.")
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

    private func spoolFrame(_ frame: CompleteFrame, content: PreparedFrame.Content) throws(StoreError) {
        let bytes = UnsafeRawBufferPointer(bytes(of: frame))
        try spool(
            bytes,
            PreparedFrame(
                content: content, spoolOffset: spool.count, frameBytes: UInt32(bytes.count),
                tableBytes: UInt32(frame.tableBytes), bodyChecksum: frame.bodyChecksum,
                relocations: frame.relocations))
    }

    /// A frame that could not be kept leaves a transaction that is not whole.
    private func spool(_ bytes: UnsafeRawBufferPointer, _ frame: PreparedFrame) throws(StoreError) {
        do throws(StoreError) {
            try spool.append(bytes)
        } catch {
            isBroken = true
            throw error
        }
        frames.append(frame)
    }

    func spoolScratch(tableBytes: Int, content: PreparedFrame.Content) throws(StoreError) {
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

extension UnsafeMutableRawBufferPointer {
    func slice(_ offset: Int, _ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: self[offset..<(offset + count)])
    }
}
