// Reads single frames through a window, and steps from one to the next by their own headers.

/// Knows nothing of the chain: its users decide which frame must follow, and judge a bad one.
struct FrameCursor {
    let window: ByteWindow
    let salt: UInt64
    var position: UInt64

    init(_ window: ByteWindow, salt: UInt64, at position: UInt64) {
        (self.window, self.salt, self.position) = (window, salt, position)
    }

    /// The first 64 bytes at the position; fewer if the file ends within them.
    private func start() throws(StoreError) -> UnsafeRawBufferPointer {
        try window.bytes(at: position, count: FrameField.bytes)
    }

    func isZero() throws(StoreError) -> Bool { try start().allZero }

    /// The decoded header at the position.
    func decoded() throws(StoreError) -> DecodedFrameHeader {
        FrameHeader.decode(try start(), offset: position, salt: salt)
    }

    /// Whether the header at the position has a valid checksum but impossible sizes.
    func hasImpossibleSize() throws(StoreError) -> Bool {
        FrameHeader.hasImpossibleSize(try start(), offset: position, salt: salt)
    }

    /// The header at the position; nil if none checks. Throws `unsupportedVersion` if a newer program wrote it.
    func header() throws(StoreError) -> FrameHeader? { try decoded().header(at: position) }

    /// The frame with that header at the position. Its checksums are not verified; nil if the file ends within it. Its
    /// bytes live until the window's next read.
    func unverified(_ header: FrameHeader) throws(StoreError) -> FrameView? {
        let bytes = try window.bytes(at: position, count: Int(header.frameBytes))
        return bytes.count < Int(header.frameBytes) ? nil : FrameView(bytes, header: header, offset: position)
    }

    /// The same frame; nil also if it does not match its checksums.
    func frame(_ header: FrameHeader) throws(StoreError) -> FrameView? {
        guard let frame = try unverified(header), frame.checksumsMatch(salt: salt) else { return nil }
        return frame
    }

    /// The frame at the position, if it is of that kind, not larger than `limit`, and matches its checksums.
    func frame(
        _ kind: FrameKind, atMost limit: Int = FormatLimits.maximumFrameBytes
    ) throws(StoreError) -> FrameView? {
        guard let header = try header(), header.kind == kind, Int(header.frameBytes) <= limit else { return nil }
        return try frame(header)
    }
}
