// The small changes of a mutation: bits, bytes, and integers that limits turn on.

internal import SimulatedDisk
import TestSupport

/// Random numbers, and changes of a range of bytes that depend on nothing else.
struct ByteChanger {
    private var generator: SeededRandom

    init(seed: UInt64) { generator = SeededRandom(seed) }

    mutating func next(below bound: Int) -> Int { generator.next(below: bound) }

    /// Numbers that limits, signs and overflows turn on.
    private static let interesting: [UInt64] = [
        0, 1, 2, 7, 8, 16, 24, 64, 127, 128, 255, 256, 1000, 1001, 1024, 4095, 4096, 4104, 0x7FFF, 0x8000, 0xFFFF,
        0x10000, 0x10001, 0x40000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF, 1 << 40, 1 << 48, 1 << 62,
        0x7FFF_FFFF_FFFF_FFFF, 1 << 63, .max - 1, .max,
    ]

    /// Changes a few bytes or one integer in a range.
    mutating func change(_ bytes: inout [UInt8], _ range: Range<Int>) {
        guard range.count > 0 else { return }
        let offset = range.lowerBound + generator.next(below: range.count)
        switch generator.next(below: 6) {
        case 0: bytes[offset] ^= 1 << UInt8(generator.next(below: 8))
        case 1: bytes[offset] = UInt8(truncatingIfNeeded: generator.next())
        case 2: bytes[offset] &+= generator.next(below: 2) == 0 ? 1 : .max
        case 3: copyWithin(&bytes, range, to: offset)
        default: storeInteger(&bytes, range, near: offset)
        }
    }

    private mutating func copyWithin(_ bytes: inout [UInt8], _ range: Range<Int>, to offset: Int) {
        let count = 1 + generator.next(below: min(64, range.upperBound - offset))
        let source = range.lowerBound + generator.next(below: range.count - count + 1)
        for index in 0..<count { bytes[offset + index] = bytes[source + index] }
    }

    /// A hostile length, count or offset, where integers stand: at a multiple of their size, mostly.
    private mutating func storeInteger(_ bytes: inout [UInt8], _ range: Range<Int>, near offset: Int) {
        let size = 1 << generator.next(below: 4)
        let place = generator.next(below: 4) > 0 ? offset & ~(size - 1) : offset
        guard place >= range.lowerBound, place + size <= range.upperBound else { return }
        let value = integer()
        switch size {
        case 1: bytes.store(UInt8(truncatingIfNeeded: value), at: place)
        case 2: bytes.store(UInt16(truncatingIfNeeded: value), at: place)
        case 4: bytes.store(UInt32(truncatingIfNeeded: value), at: place)
        default: bytes.store(value, at: place)
        }
    }

    mutating func integer() -> UInt64 {
        switch generator.next(below: 4) {
        case 0: return generator.next() >> UInt64(generator.next(below: 64))
        case 1: return UInt64(4096 + 8 * generator.next(below: 1024))
        default: return ByteChanger.interesting[generator.next(below: ByteChanger.interesting.count)]
        }
    }
}
