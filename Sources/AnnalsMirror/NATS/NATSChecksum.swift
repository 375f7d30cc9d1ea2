// The checksum of a state: CRC-32C.

/// CRC-32C (Castagnoli) of bytes that come in parts.
package struct NATSChecksum: Sendable {
    private var state: UInt32 = .max

    package init() {}

    package var value: UInt32 { ~state }

    package mutating func add(_ bytes: [UInt8]) {
        var state = state
        for byte in bytes { state = Self.table[Int(UInt8(truncatingIfNeeded: state) ^ byte)] ^ (state >> 8) }
        self.state = state
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0x82f6_3b78 ^ (value >> 1) : value >> 1 }
    }
}
