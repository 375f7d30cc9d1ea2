// Frames of a long transaction or a compaction, gathered so that few system calls write them.

/// Frames that follow each other, to be written in one piece.
final class GatheredFrames {
    private static let limitBytes = 1 << 20
    private(set) var offset: UInt64
    private var writer = ByteWriter(capacity: GatheredFrames.limitBytes + FormatLimits.maximumFrameBytes)

    init(at offset: UInt64) { self.offset = offset }

    var isFull: Bool { writer.count >= Self.limitBytes }
    var bytes: UnsafeRawBufferPointer { writer.bytes }

    func append(_ frame: UnsafeRawBufferPointer) {
        assert(!isFull, "Frames are gathered beyond the limit.")
        writer.append(frame)
    }

    /// Continues after the gathered frames were written.
    func goOn() {
        offset += UInt64(writer.count)
        writer.truncate()
    }
}
