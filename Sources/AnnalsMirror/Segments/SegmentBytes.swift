// Numbers and checksums in the bytes of segments and states.

internal import Annals

package enum SegmentBytes {
    package static func append<Number: FixedWidthInteger>(_ number: Number, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// A number whose bytes the caller has counted.
    package static func number<Number: FixedWidthInteger>(_ type: Number.Type, in bytes: [UInt8], at offset: Int)
        -> Number
    {
        bytes.withUnsafeBytes { Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Number.self)) }
    }

    package static func checksum(_ bytes: [UInt8], _ range: Range<Int>, seed: UInt64) -> UInt64 {
        bytes.withUnsafeBytes { Checksum.hash(UnsafeRawBufferPointer(rebasing: $0[range]), seed: seed) }
    }

    package static func checksum(_ bytes: ArraySlice<UInt8>, seed: UInt64) -> UInt64 {
        bytes.withUnsafeBytes { Checksum.hash($0, seed: seed) }
    }

    /// Whether bytes begin as another array does, as far as both reach.
    package static func agree(_ bytes: [UInt8], _ magic: [UInt8]) -> Bool {
        zip(bytes, magic).allSatisfy { $0 == $1 }
    }
}
