// The one checksum of the file: wyhash final 4.3, as FileFormat.md defines it.

/// Finds accidents, not attacks: a program that can write the file can write a checksum.
package enum Checksum {
    private static let secret0: UInt64 = 0x2d35_8dcc_aa6c_78a5
    private static let secret1: UInt64 = 0x8bb8_4b93_962e_acc9
    private static let secret2: UInt64 = 0x4b33_a62e_d433_d4a3
    private static let secret3: UInt64 = 0x4d5a_2da5_1de1_aa47

    /// The checksum of `bytes`. Linear; allocates nothing and needs no alignment.
    package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        let seed = seed ^ mix(seed ^ secret0, secret1)
        // Only an empty buffer may have no base address.
        guard let base = bytes.baseAddress, bytes.count > 0 else { return finish(0, 0, seed, 0) }
        let count = bytes.count
        return count <= 16 ? hashShort(base, count, seed) : hashLong(base, count, seed)
    }

    @inline(__always)
    private static func hashShort(_ base: UnsafeRawPointer, _ count: Int, _ seed: UInt64) -> UInt64 {
        assert(count > 0 && count <= 16, "A load lies outside of the bytes.")
        if count >= 4 {
            let step = (count &>> 3) &<< 2
            let a = load4(base, 0) &<< 32 | load4(base, step)
            let b = load4(base, count &- 4) &<< 32 | load4(base, count &- 4 &- step)
            return finish(a, b, seed, count)
        }
        let a = load1(base, 0) &<< 16 | load1(base, count &>> 1) &<< 8 | load1(base, count &- 1)
        return finish(a, 0, seed, count)
    }

    /// Requires over 16 bytes. Every load lies in them: the last 16 may overlap bytes already used.
    @inline(__always)
    private static func hashLong(_ base: UnsafeRawPointer, _ count: Int, _ seed: UInt64) -> UInt64 {
        assert(count > 16, "A load lies outside of the bytes.")
        var seed = seed
        var left = count
        var at = base
        if left >= 48 {
            var lane1 = seed
            var lane2 = seed
            repeat {
                seed = mix(load8(at, 0) ^ secret1, load8(at, 8) ^ seed)
                lane1 = mix(load8(at, 16) ^ secret2, load8(at, 24) ^ lane1)
                lane2 = mix(load8(at, 32) ^ secret3, load8(at, 40) ^ lane2)
                at += 48
                left &-= 48
            } while left >= 48
            seed ^= lane1 ^ lane2
        }
        while left > 16 {
            seed = mix(load8(at, 0) ^ secret1, load8(at, 8) ^ seed)
            at += 16
            left &-= 16
        }
        return finish(load8(at, left &- 16), load8(at, left &- 8), seed, count)
    }

    @inline(__always)
    private static func finish(_ a: UInt64, _ b: UInt64, _ seed: UInt64, _ count: Int) -> UInt64 {
        let product = (a ^ secret1).multipliedFullWidth(by: b ^ seed)
        return mix(product.low ^ secret0 ^ UInt64(truncatingIfNeeded: count), product.high ^ secret1)
    }

    @inline(__always)
    private static func mix(_ a: UInt64, _ b: UInt64) -> UInt64 {
        let product = a.multipliedFullWidth(by: b)
        return product.low ^ product.high
    }

    @inline(__always)
    private static func load8(_ base: UnsafeRawPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    @inline(__always)
    private static func load4(_ base: UnsafeRawPointer, _ offset: Int) -> UInt64 {
        UInt64(UInt32(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
    }

    @inline(__always)
    private static func load1(_ base: UnsafeRawPointer, _ offset: Int) -> UInt64 {
        UInt64(base.load(fromByteOffset: offset, as: UInt8.self))
    }
}
