// The checksum against the page's vectors and against a second, plain implementation.

import Annals
import TestSupport
import Testing

@Suite struct ChecksumTests {
    @Test(
        arguments: [
            ("", 0, 0x9322_8a4d_e0ee_c5a2),
            ("a", 1, 0xc5ba_c3db_1787_13c4),
            ("abc", 2, 0xa97f_2f7b_1d9b_3314),
            ("message digest", 3, 0x786d_1f1d_f380_1df4),
            ("abcdefghijklmnopqrstuvwxyz", 4, 0xdca5_a813_8ad3_7c87),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 5, 0xb9e7_34f1_17cf_af70),
            (String(repeating: "1234567890", count: 8), 6, 0x6cc5_eab4_9a92_d617),
        ] as [(String, UInt64, UInt64)])
    func publishedVectorsMatch(text: String, seed: UInt64, expected: UInt64) {
        #expect(hash(Array(text.utf8), seed) == expected)
    }

    @Test func everyShortLengthAgreesWithThePlainImplementation() {
        var random = SeededRandom(1)
        for count in 0...200 {
            let bytes = (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            let seed = random.next()
            #expect(hash(bytes, seed) == PlainChecksum.hash(bytes, seed), "\(count) bytes")
        }
    }

    @Test func unalignedBytesHashTheSame() {
        let bytes = (0..<100).map { UInt8($0) }
        for start in 0..<8 {
            let moved = [UInt8](repeating: 0, count: start) + bytes
            let value = moved.withUnsafeBytes {
                Checksum.hash(UnsafeRawBufferPointer(rebasing: $0[start...]), seed: 7)
            }
            #expect(value == hash(bytes, 7))
        }
    }

    @Test func everyBitChangesTheChecksum() {
        var bytes = (0..<120).map { UInt8($0) }
        let original = hash(bytes, 9)
        for bit in 0..<bytes.count * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8)
            #expect(hash(bytes, 9) != original)
            bytes[bit / 8] ^= 1 << (bit % 8)
        }
    }

    private func hash(_ bytes: [UInt8], _ seed: UInt64) -> UInt64 {
        bytes.withUnsafeBytes { Checksum.hash($0, seed: seed) }
    }
}

/// The page's pseudocode, line by line, with no thought of speed.
private enum PlainChecksum {
    static let s: [UInt64] = [
        0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3, 0x4d5a_2da5_1de1_aa47,
    ]

    static func mix(_ a: UInt64, _ b: UInt64) -> UInt64 {
        let product = UInt128(a) * UInt128(b)
        return UInt64(truncatingIfNeeded: product) ^ UInt64(truncatingIfNeeded: product >> 64)
    }

    static func hash(_ bytes: [UInt8], _ initialSeed: UInt64) -> UInt64 {
        func read(_ at: Int, _ count: Int) -> UInt64 {
            (0..<count).reduce(0) { $0 | UInt64(bytes[at + $1]) << UInt64(8 * $1) }
        }
        func r8(_ at: Int) -> UInt64 { read(at, 8) }
        func r4(_ at: Int) -> UInt64 { read(at, 4) }
        let n = bytes.count
        var seed = initialSeed ^ mix(initialSeed ^ s[0], s[1])
        var a: UInt64 = 0
        var b: UInt64 = 0
        if n <= 16 {
            if n >= 4 {
                a = r4(0) << 32 | r4((n >> 3) << 2)
                b = r4(n - 4) << 32 | r4(n - 4 - ((n >> 3) << 2))
            } else if n > 0 {
                a = UInt64(bytes[0]) << 16 | UInt64(bytes[n >> 1]) << 8 | UInt64(bytes[n - 1])
            }
        } else {
            var i = n
            var p = 0
            if i >= 48 {
                var s1 = seed
                var s2 = seed
                repeat {
                    seed = mix(r8(p) ^ s[1], r8(p + 8) ^ seed)
                    s1 = mix(r8(p + 16) ^ s[2], r8(p + 24) ^ s1)
                    s2 = mix(r8(p + 32) ^ s[3], r8(p + 40) ^ s2)
                    p += 48
                    i -= 48
                } while i >= 48
                seed ^= s1 ^ s2
            }
            while i > 16 {
                seed = mix(r8(p) ^ s[1], r8(p + 8) ^ seed)
                i -= 16
                p += 16
            }
            a = r8(p + i - 16)
            b = r8(p + i - 8)
        }
        let product = UInt128(a ^ s[1]) * UInt128(b ^ seed)
        a = UInt64(truncatingIfNeeded: product)
        b = UInt64(truncatingIfNeeded: product >> 64)
        return mix(a ^ s[0] ^ UInt64(n), b ^ s[1])
    }
}
