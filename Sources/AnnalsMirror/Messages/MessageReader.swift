// Reads the fields of messages, and trusts none of them.

internal import Annals
internal import FoundationEssentials

/// A reading position in the bytes of a message.
///
/// The caller keeps the memory unchanged while the reader is in use. Sound because every access first compares its size
/// with the bytes that remain.
struct MessageReader {
    private let bytes: UnsafeRawBufferPointer
    /// Never above `bytes.count`.
    private(set) var position = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var remaining: Int { bytes.count &- position }
    var isAtEnd: Bool { position == bytes.count }

    // MARK: Numbers

    @inline(__always)
    mutating func readByte() throws(StoreError) -> UInt8 {
        guard position < bytes.count else { throw shortage() }
        let byte = bytes[position]
        position &+= 1
        return byte
    }

    /// A number in its shortest form.
    @inline(__always)
    mutating func readVarint() throws(StoreError) -> UInt64 {
        let first = try readByte()
        return first < 0x80 ? UInt64(first) : try readLongVarint(UInt64(first & 0x7f))
    }

    private mutating func readLongVarint(_ lowest: UInt64) throws(StoreError) -> UInt64 {
        var (number, shift) = (lowest, UInt64(7))
        while true {
            let byte = try readByte()
            // The tenth byte has the highest bit of the number, and nothing else.
            guard shift < 63 || byte <= 1 else { throw malformed("a number has more than 64 bits") }
            number |= UInt64(byte & 0x7f) &<< shift
            if byte < 0x80 {
                guard byte != 0 else { throw malformed("a number is longer than it needs to be") }
                return number
            }
            shift &+= 7
        }
    }

    mutating func readSigned() throws(StoreError) -> Int64 {
        let number = try readVarint()
        return Int64(bitPattern: number >> 1) ^ -Int64(bitPattern: number & 1)
    }

    /// A count of things with at least `bytes` bytes each. Never more than the message has room for.
    mutating func readCount(ofAtLeast bytes: Int) throws(StoreError) -> Int {
        let count = try readVarint()
        guard count <= UInt64(remaining / bytes) else { throw malformed("it counts more than it has bytes for") }
        return Int(count)
    }

    @inline(__always)
    mutating func readFixed<Integer: FixedWidthInteger & BitwiseCopyable>(
        _: Integer.Type
    ) throws(StoreError) -> Integer {
        let size = MemoryLayout<Integer>.size
        guard size <= remaining else { throw shortage() }
        let number = bytes.loadUnaligned(fromByteOffset: position, as: Integer.self)
        position &+= size
        return Integer(littleEndian: number)
    }

    // MARK: Bytes

    /// The next `count` bytes, not copied.
    @inline(__always)
    mutating func readBytes(_ count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        guard count >= 0, count <= remaining else { throw shortage() }
        let slice = UnsafeRawBufferPointer(rebasing: bytes[position..<position &+ count])
        position &+= count
        return slice
    }

    mutating func readText() throws(StoreError) -> String {
        let count = try readCount(ofAtLeast: 1)
        guard let text = try readBytes(count).text else { throw malformed("a text is not valid UTF-8") }
        return text
    }

    mutating func readData() throws(StoreError) -> [UInt8] { Array(try readBytes(try readCount(ofAtLeast: 1))) }

    mutating func readUUID() throws(StoreError) -> UUID {
        UUID(uuid: try readBytes(MemoryLayout<uuid_t>.size).loadUnaligned(as: uuid_t.self))
    }

    /// Throws unless everything was read.
    func finish() throws(StoreError) {
        guard isAtEnd else { throw malformed("bytes follow the last field") }
    }

    // MARK: Errors

    @inline(never)
    func malformed(_ what: String) -> StoreError { .malformedMessage(what, offset: position) }

    @inline(never)
    private func shortage() -> StoreError { malformed("a field extends beyond its end") }
}

extension [UInt8] {
    /// Calls `body` with the bytes.
    @inline(__always)
    func reading<Result>(
        _ body: (UnsafeRawBufferPointer) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        let result: Swift.Result<Result, StoreError> = withUnsafeBytes { bytes in
            do throws(StoreError) { return .success(try body(bytes)) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
