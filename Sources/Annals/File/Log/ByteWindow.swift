// Private copies of parts of a file, read in large steps: checked bytes cannot change afterwards.

/// Reads a file through one buffer. Bytes it lends live until the next call, and as long as the window: the code that
/// makes one keeps it to the end of the function (`withExtendedLifetime`), because lent bytes are used after the last
/// call.
///
/// Sound although it holds a pointer: the memory belongs to this object alone, and only this object writes to it.
package final class ByteWindow {
    private let files: any FileSystem
    private let file: Descriptor
    private let stepBytes: Int
    /// The size of the next read: small at first, because opening a store usually needs few bytes.
    private var nextBytes: Int
    private var buffer: UnsafeMutableRawBufferPointer
    private var start: UInt64 = 0
    private var filled = 0

    package init(_ files: any FileSystem, _ file: Descriptor, stepBytes: Int) {
        self.files = files
        self.file = file
        self.stepBytes = max(stepBytes, FrameField.bytes)
        nextBytes = min(self.stepBytes, Self.firstBytes)
        buffer = .allocate(byteCount: nextBytes, alignment: 16)
    }

    deinit { buffer.deallocate() }

    private static let firstBytes = 4 << 10

    /// Another window on the same file, for reading few bytes.
    func beside(stepBytes: Int) -> ByteWindow { ByteWindow(files, file, stepBytes: stepBytes) }

    /// Up to `count` bytes at `offset`: fewer only if the file ends.
    func bytes(at offset: UInt64, count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        if let held = held(offset, count) { return held }
        try fill(from: offset, count: count)
        assert(start == offset && filled <= buffer.count, "A window holds other bytes than it was filled with.")
        let available = min(count, filled)
        return UnsafeRawBufferPointer(buffer).slice(0, available)
    }

    /// The first offset from `offset` on where the file may have other bytes than zeros; nil if it has none.
    func content(from offset: UInt64) throws(StoreError) -> UInt64? { try files.content(file, from: offset) }

    func fileSize() throws(StoreError) -> UInt64 { try files.size(file) }

    /// Forgets the bytes read so far: the next call reads the file again.
    func forget() { filled = 0 }

    private func held(_ offset: UInt64, _ count: Int) -> UnsafeRawBufferPointer? {
        guard offset >= start, offset - start <= UInt64(filled) else { return nil }
        let skipped = Int(offset - start)
        guard filled - skipped >= count else { return nil }
        return UnsafeRawBufferPointer(buffer).slice(skipped, count)
    }

    private func fill(from offset: UInt64, count: Int) throws(StoreError) {
        keepOverlap(from: offset)
        let wanted = max(count, nextBytes)
        nextBytes = min(nextBytes * 2, stepBytes)
        if buffer.count < wanted { grow(to: wanted) }
        while filled < wanted {
            let free = UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<wanted])
            let read = try files.read(file, at: offset + UInt64(filled), into: free)
            assert(read >= 0 && read <= free.count, "More bytes were read than were asked for.")
            if read == 0 { break }
            filled += read
        }
    }

    /// Moves the bytes already read to the front, so that no byte is read twice.
    private func keepOverlap(from offset: UInt64) {
        if offset >= start, offset - start < UInt64(filled) {
            let skipped = Int(offset - start)
            filled -= skipped
            if skipped > 0, let base = buffer.baseAddress { base.copyMemory(from: base + skipped, byteCount: filled) }
        } else {
            filled = 0
        }
        start = offset
    }

    private func grow(to count: Int) {
        assert(count > buffer.count && filled <= buffer.count, "A window shrinks.")
        let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        larger.copyMemory(from: UnsafeRawBufferPointer(buffer).slice(0, filled))
        buffer.deallocate()
        buffer = larger
    }
}
