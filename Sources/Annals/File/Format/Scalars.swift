// Decodes scalars from UTF-8 and encodes them, without making a String.

/// Reads the scalars of bytes. Ends early at bytes that are not valid UTF-8.
struct ScalarReader {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0
    private(set) var isMalformed = false

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    @inline(__always)
    mutating func next() -> UInt32? {
        guard offset < bytes.count else { return nil }
        let first = bytes[offset]
        if first < 0x80 {
            offset &+= 1
            return UInt32(first)
        }
        return nextOfSeveral(first)
    }

    private mutating func nextOfSeveral(_ first: UInt8) -> UInt32? {
        let count = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
        guard first >= 0xC2, first <= 0xF4, bytes.count &- offset >= count else { return malformed() }
        var scalar = UInt32(first) & (0x7F &>> UInt32(count))
        for place in 1..<count {
            let byte = bytes[offset &+ place]
            guard byte & 0xC0 == 0x80 else { return malformed() }
            scalar = scalar &<< 6 | UInt32(byte & 0x3F)
        }
        let least: UInt32 = count == 2 ? 0x80 : count == 3 ? 0x800 : 0x10000
        guard scalar >= least, scalar <= 0x10FFFF, scalar & 0xFFFF_F800 != 0xD800 else { return malformed() }
        offset &+= count
        return scalar
    }

    private mutating func malformed() -> UInt32? {
        isMalformed = true
        return nil
    }
}

enum UTF8Bytes {
    static func of(_ scalars: [UInt32]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(scalars.count &* 2)
        for scalar in scalars {
            switch scalar {
            case 0..<0x80: bytes.append(UInt8(scalar))
            case 0x80..<0x800: bytes += [0xC0 | UInt8(scalar &>> 6), continuation(scalar)]
            case 0x800..<0x10000:
                bytes += [0xE0 | UInt8(scalar &>> 12), continuation(scalar &>> 6), continuation(scalar)]
            default:
                bytes += [
                    0xF0 | UInt8(scalar &>> 18), continuation(scalar &>> 12), continuation(scalar &>> 6),
                    continuation(scalar),
                ]
            }
        }
        return bytes
    }

    private static func continuation(_ scalar: UInt32) -> UInt8 { 0x80 | UInt8(scalar & 0x3F) }
}
