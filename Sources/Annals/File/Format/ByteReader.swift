// Reads little-endian fields from untrusted bytes, never beyond their end.

/// A reading position in bytes of a file that are in memory.
///
/// Reading past the end throws `damaged` with the offset in the file. The caller keeps the memory unchanged while the
/// reader or bytes from it are in use. Sound because every access first compares its size with the bytes that remain.
package struct ByteReader {
    package let bytes: UnsafeRawBufferPointer
    /// The file offset of the first byte.
    package let fileOffset: UInt64
    /// Never above `bytes.count`.
    package private(set) var position = 0

    package init(_ bytes: UnsafeRawBufferPointer, fileOffset: UInt64 = 0) {
        self.bytes = bytes
        self.fileOffset = fileOffset
    }

    package var remaining: Int { bytes.count &- position }
    package var isAtEnd: Bool { position == bytes.count }

    // MARK: Integers

    package mutating func readUInt8() throws(StoreError) -> UInt8 { try read(UInt8.self) }
    package mutating func readUInt16() throws(StoreError) -> UInt16 { try read(UInt16.self) }
    package mutating func readUInt32() throws(StoreError) -> UInt32 { try read(UInt32.self) }
    package mutating func readUInt64() throws(StoreError) -> UInt64 { try read(UInt64.self) }
    package mutating func readInt64() throws(StoreError) -> Int64 { try read(Int64.self) }

    @inline(__always)
    private mutating func read<Integer: FixedWidthInteger>(_: Integer.Type) throws(StoreError) -> Integer {
        let size = MemoryLayout<Integer>.size
        guard size <= remaining else { throw shortage() }
        let value = bytes.loadUnaligned(fromByteOffset: position, as: Integer.self)
        position &+= size
        return Integer(littleEndian: value)
    }

    // MARK: Bytes

    /// The next `count` bytes, not copied.
    package mutating func readBytes(_ count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        guard count >= 0, count <= remaining else { throw shortage() }
        let slice = UnsafeRawBufferPointer(rebasing: bytes[position..<position &+ count])
        position &+= count
        assert(position <= bytes.count, "A reader is beyond the end of its bytes.")
        return slice
    }

    /// A reader over the next `count` bytes, which this one skips.
    package mutating func readPart(_ count: Int) throws(StoreError) -> ByteReader {
        let offset = currentOffset
        return ByteReader(try readBytes(count), fileOffset: offset)
    }

    /// The next `count` bytes as text. Throws `damaged` unless they are valid UTF-8.
    package mutating func readText(_ count: Int) throws(StoreError) -> String {
        let start = currentOffset
        guard let text = try readBytes(count).text else {
            throw StoreError(.damaged, "A text is not valid UTF-8.", offset: start)
        }
        return text
    }

    /// Skips `count` bytes that must be zero.
    package mutating func readZeros(_ count: Int) throws(StoreError) {
        let start = currentOffset
        for byte in try readBytes(count) where byte != 0 {
            throw StoreError(.damaged, "Bytes that must be zero are not.", offset: start)
        }
    }

    /// Skips `count` bytes that are zero in this format. Throws `unsupportedVersion` if they are not.
    package mutating func readReserved(_ count: Int) throws(StoreError) {
        let start = currentOffset
        for byte in try readBytes(count) where byte != 0 {
            throw .newer("A reserved field is in use", offset: start)
        }
    }

    /// The error about something before the current position that only a later format defines.
    @inline(never)
    func newer(_ what: String) -> StoreError { .newer(what, offset: currentOffset) }

    /// Throws `damaged` unless everything was read.
    package func finish() throws(StoreError) {
        guard isAtEnd else { throw damaged("Bytes follow the last field.") }
    }

    // MARK: Errors

    package var currentOffset: UInt64 { fileOffset &+ UInt64(position) }

    /// An error about the current position.
    @inline(never)
    package func damaged(_ message: String) -> StoreError { StoreError(.damaged, message, offset: currentOffset) }

    @inline(never)
    private func shortage() -> StoreError { damaged("A field extends beyond the bytes that contain it.") }
}
