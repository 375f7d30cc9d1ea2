// Frames in private memory, verified there: bytes of a mapping can change after they were verified.

/// Copies frames one at a time. A lent frame lives until the next call.
///
/// Sound although it holds memory: the memory belongs to this object alone, and one thread uses it.
final class FrameCopy {
    private var buffer = ByteWriter(capacity: 1 << 16)

    init() {}

    /// The frame at an offset where one begins, verified in the copy. Call it inside a read section; the frame lives
    /// until that ends at the latest.
    ///
    /// Throws `damaged` if it does not match its checksums.
    func frame(at offset: UInt64, _ core: ReadCore) throws(StoreError) -> FrameView {
        guard core.file.isMapped else { return try core.frame(at: offset) }
        return try completed(try front(at: offset, core), core)
    }

    /// The frame at an offset without its body: header and table are verified in the copy. For a mapping.
    func front(at offset: UInt64, _ core: ReadCore) throws(StoreError) -> FrameView {
        buffer.truncate()
        try append(from: offset, count: FrameField.bytes, core, frame: offset)
        let decoded = FrameHeader.decode(buffer.bytes, offset: offset, salt: core.file.salt)
        guard let header = try decoded.header(at: offset) else { throw Self.damaged(offset) }
        // Room for the whole frame, so that appending the body does not move lent bytes.
        buffer.reserve(Int(header.frameBytes))
        try append(from: offset + UInt64(FrameField.bytes), count: Int(header.tableBytes), core, frame: offset)
        let table = buffer.bytes.slice(FrameField.bytes, Int(header.tableBytes))
        let frame = FrameView(
            offset: offset, header: header, table: table, body: UnsafeRawBufferPointer(start: nil, count: 0))
        guard frame.tableMatches(salt: core.file.salt) else { throw Self.damaged(offset) }
        return frame
    }

    /// The whole frame whose `front` was copied last.
    func completed(_ front: FrameView, _ core: ReadCore) throws(StoreError) -> FrameView {
        assert(
            buffer.count == FrameField.bytes + Int(front.header.tableBytes),
            "Another frame was copied before this one was complete.")
        let place = front.offset + UInt64(buffer.count)
        try append(from: place, count: front.header.bodyBytes, core, frame: front.offset)
        let frame = FrameView(buffer.bytes, header: front.header, offset: front.offset)
        guard frame.bodyMatches(salt: core.file.salt) else { throw Self.damaged(front.offset) }
        return frame
    }

    private func append(from place: UInt64, count: Int, _ core: ReadCore, frame: UInt64) throws(StoreError) {
        if count == 0 { return }
        guard let bytes = core.file.unverifiedBytes(at: place, count: count) else { throw Self.damaged(frame) }
        buffer.append(bytes)
    }

    private static func damaged(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged, "F7: a frame does not match its checksums. Restore the store from a backup.", offset: offset)
    }
}
