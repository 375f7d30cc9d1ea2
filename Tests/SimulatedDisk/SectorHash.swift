// The content hash of crash images: a sum over sectors, so that changing one sector costs one sector.

import TestSupport

/// Hashes for telling images apart, not for storing: they may change from version to version.
enum SectorHash {
    private static let firstSecret: UInt64 = 0x2d35_8dcc_aa6c_78a5
    private static let secondSecret: UInt64 = 0x8bb8_4b93_962e_acc9

    private static func fold(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let product = left.multipliedFullWidth(by: right)
        return product.high ^ product.low
    }

    /// What the sector adds to the hash of its file: depends on its place and all its 512 bytes.
    static func contribution(of sector: UnsafeRawPointer, at index: Int) -> UInt64 {
        var even = firstSecret ^ UInt64(truncatingIfNeeded: index)
        var odd = secondSecret
        for offset in stride(from: 0, to: sectorBytes, by: 32) {
            let first = sector.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            let second = sector.loadUnaligned(fromByteOffset: offset + 8, as: UInt64.self)
            let third = sector.loadUnaligned(fromByteOffset: offset + 16, as: UInt64.self)
            let fourth = sector.loadUnaligned(fromByteOffset: offset + 24, as: UInt64.self)
            even = fold(first ^ firstSecret, second ^ even)
            odd = fold(third ^ secondSecret, fourth ^ odd)
        }
        return SeededRandom.mix(even ^ fold(odd ^ firstSecret, UInt64(truncatingIfNeeded: index) ^ secondSecret))
    }

    /// A sector of which only `count` bytes are in the file; the rest counts as zeros.
    static func contribution(of sector: UnsafeRawPointer, cutTo count: Int, at index: Int) -> UInt64 {
        withUnsafeTemporaryAllocation(byteCount: sectorBytes, alignment: 8) { buffer in
            buffer.initializeMemory(as: UInt8.self, repeating: 0)
            buffer.copyMemory(from: UnsafeRawBufferPointer(start: sector, count: count))
            return contribution(of: UnsafeRawPointer(buffer.baseAddress!), at: index)
        }
    }

    /// The hash of a file from the sum over its sectors.
    static func file(sum: UInt64, size: Int, links: Int) -> UInt64 {
        SeededRandom.mix(sum ^ SeededRandom.mix(UInt64(size) &* 31 &+ UInt64(links)))
    }

    /// FNV-1a over the name; the standard library's hash differs from run to run.
    static func name(_ name: String, inDirectory directory: Int) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(directory)
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return SeededRandom.mix(hash)
    }

    /// What an entry of a directory adds to the hash of the image.
    static func entry(name: UInt64, file: UInt64) -> UInt64 { fold(name ^ firstSecret, file ^ secondSecret) }
}
