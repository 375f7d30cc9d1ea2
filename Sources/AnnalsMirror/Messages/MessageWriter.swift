// Appends the fields of messages.

internal import Annals
internal import FoundationEssentials

/// The bytes of a message that is being written.
struct MessageWriter {
    private(set) var bytes: [UInt8] = []

    init(capacity: Int = 512) { bytes.reserveCapacity(capacity) }

    var count: Int { bytes.count }

    @inline(__always)
    mutating func append(_ byte: UInt8) { bytes.append(byte) }

    mutating func append(_ more: [UInt8]) { bytes.append(contentsOf: more) }

    /// Seven bits a byte, the lowest first; all bytes but the last have their highest bit set.
    @inline(__always)
    mutating func append(varint number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    @inline(__always)
    mutating func append(count: Int) { append(varint: UInt64(count)) }

    /// A number whose small negative values are short, too: 0, -1, 1, -2 become 0, 1, 2, 3.
    @inline(__always)
    mutating func append(signed number: Int64) { append(varint: UInt64(bitPattern: number << 1 ^ number >> 63)) }

    @inline(__always)
    mutating func append<Integer: FixedWidthInteger>(fixed number: Integer) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    @inline(__always)
    mutating func append(text: String) {
        append(count: text.utf8.count)
        bytes.append(contentsOf: text.utf8)
    }

    mutating func append(uuid: UUID) { withUnsafeBytes(of: uuid.uuid) { bytes.append(contentsOf: $0) } }

    // MARK: Overwriting

    mutating func patch<Integer: FixedWidthInteger>(_ number: Integer, at offset: Int) {
        withUnsafeBytes(of: number.littleEndian) { source in
            for (index, byte) in source.enumerated() { bytes[offset + index] = byte }
        }
    }

    /// The checksum of the bytes from `offset` on.
    func checksum(from offset: Int, _ count: Int, seed: UInt64) -> UInt64 {
        bytes.withUnsafeBytes { bytes in
            Checksum.hash(UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count]), seed: seed)
        }
    }
}
