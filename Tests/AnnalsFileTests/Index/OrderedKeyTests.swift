// For every pair of values, alone and inside compound keys, the bytes order as the values do.

import Annals
import FuzzTargets
import TestSupport
import Testing

@Suite struct OrderedKeyTests {
    /// Each table lists values in ascending order; those in one inner array are equal.
    private static let ints: [Int64] = [
        .min, -256, -255, -1, 0, 1, 127, 128, 255, 256, 65535, .max - 1, .max,
    ]
    private static let doubles: [[Double]] = [
        [-.infinity], [-.greatestFiniteMagnitude], [-1.5], [-1], [-.leastNormalMagnitude], [-.leastNonzeroMagnitude],
        [-0.0, 0], [.leastNonzeroMagnitude], [.leastNormalMagnitude], [0.1], [1], [1 + Double.ulpOfOne], [2], [1e300],
        [.greatestFiniteMagnitude], [.infinity], [.nan, -(.nan), .signalingNaN, Double(nan: 5, signaling: false)],
    ]
    private static let texts: [String] = [
        "", "\0", "\0\0", "\0\u{1}", "\0a", "\u{1}", "A", "a", "a\0", "a\0\0", "a\0b", "a\u{1}", "aa", "ab", "b",
        "z", "\u{e9}", "\u{ffff}", "\u{10000}",
    ]
    private static let data: [[UInt8]] = [
        [], [0], [0, 0], [0, 0, 0], [0, 0xff], [0, 0xff, 0], [1], [1, 0], [1, 1], [0xfe], [0xff], [0xff, 0],
        [0xff, 0xff],
    ]
    private static let uuids: [(UInt64, UInt64)] = [(0, 0), (0, 1), (0, .max), (1, 0), (1 << 63, 0), (.max, .max)]
    private static let objects: [UInt64] = [1 << 48 | 1, 1 << 48 | 2, 1 << 48 | 256, 2 << 48 | 1, 0xffff << 48 | 1]

    private struct Decimal {
        var mantissa: UInt128
        var exponent: Int16
        var isNegative = false
    }
    private static let positives: [[Decimal]] = [
        [Decimal(mantissa: 1, exponent: .min)], [Decimal(mantissa: 11, exponent: .min)],
        [Decimal(mantissa: 1, exponent: -2), Decimal(mantissa: 10, exponent: -3)],
        [Decimal(mantissa: 99, exponent: -2)],
        [Decimal(mantissa: 1, exponent: 0), Decimal(mantissa: 100, exponent: -2)],
        [Decimal(mantissa: 101, exponent: -2)],
        [Decimal(mantissa: 109, exponent: -2)], [Decimal(mantissa: 11, exponent: -1)],
        [Decimal(mantissa: 2, exponent: 0)],
        [Decimal(mantissa: 99, exponent: -1)], [Decimal(mantissa: 1, exponent: 1)],
        [Decimal(mantissa: 123, exponent: 0)],
        [Decimal(mantissa: 1234, exponent: -1)], [Decimal(mantissa: 124, exponent: 0)],
        [Decimal(mantissa: .max - 1, exponent: 0)], [Decimal(mantissa: .max, exponent: 0)],
        [Decimal(mantissa: 1, exponent: .max)], [Decimal(mantissa: .max, exponent: .max)],
    ]
    private static let decimals: [[Decimal]] =
        positives.reversed().map { $0.map { Decimal(mantissa: $0.mantissa, exponent: $0.exponent, isNegative: true) } }
        + [[Decimal(mantissa: 0, exponent: 0), Decimal(mantissa: 0, exponent: 7, isNegative: true)]] + positives

    @Test func allPairsOfEveryTypeOrderAsTheirValues() {
        for (name, table) in Self.tables() {
            for (i, left) in table.enumerated() {
                for (j, right) in table.enumerated() {
                    for a in left { for b in right { #expect(order(a, b) == order(i, j), "\(name) \(i) \(j)") } }
                }
            }
        }
    }

    @Test func compoundKeysOrderByTheFirstDifference() {
        let tables = Self.tables().map(\.1)
        let small = tables.last!
        for table in tables {
            for (i, left) in table.enumerated() {
                for (j, right) in table.enumerated() {
                    for (k, x) in small.enumerated() {
                        for (l, y) in small.enumerated() {
                            let expected = i == j ? order(k, l) : order(i, j)
                            if order(left[0] + x[0], right[0] + y[0]) != expected {
                                Issue.record("\(i) \(j) \(k) \(l)")
                            }
                        }
                    }
                }
            }
        }
    }

    @Test func valuesAreReadBack() throws {
        for value in Self.ints {
            try check(Self.key { OrderedKey.append(int: value, to: &$0) }, value) { try $0.readInt() }
        }
        for value in Self.texts {
            let key = Self.key { OrderedKey.append(string: value, to: &$0) }
            try check(key, Array(value.utf8)) { try $0.readString().map { Array($0.utf8) } }
        }
        for value in Self.doubles.map(\.last!) {
            let expected = value.isNaN ? Double.nan : value
            let key = Self.key { OrderedKey.append(double: value, to: &$0) }
            try check(key, expected.bitPattern) { try $0.readDouble()?.bitPattern }
        }
        for value in Self.data { try check(Self.key { append(value, to: &$0) }, value) { try $0.readData() } }
        for value in Self.objects {
            try check(Self.key { OrderedKey.append(object: value, to: &$0) }, value) { try $0.readObject() }
        }
        for value in Self.uuids {
            let key = Self.key { OrderedKey.append(uuid: value.0, value.1, to: &$0) }
            try check(key, [value.0, value.1]) { try $0.readUUID().map { [$0.high, $0.low] } }
        }
        for value in Self.decimals.map(\.[0]) {
            let expected = OrderedDecimal.number(
                mantissa: value.mantissa, exponent: value.exponent, isNegative: value.isNegative)
            try check(Self.key { append(value, to: &$0) }, expected) { try $0.readDecimal() }
        }
        try check(Self.key { OrderedKey.appendDecimalNotANumber(to: &$0) }, .notANumber) { try $0.readDecimal() }
        try check(Self.key { OrderedKey.append(bool: true, to: &$0) }, true) { try $0.readBool() }
        try check(Self.key { OrderedKey.appendAbsent(to: &$0) }, Int64?.none) { try $0.readInt() }
    }

    @Test func brokenKeysAreDamageNeverATrap() {
        var random = SeededRandom(3)
        for _ in 0..<20_000 {
            let key = (0..<Int(random.next() % 30)).map { _ in random.next() % 3 == 0 ? 1 : UInt8(random.next() % 256) }
            key.withUnsafeBytes { bytes in
                for read in Self.readers {
                    var reader = OrderedKeyReader(bytes)
                    do {
                        try read(&reader)
                    } catch {
                        #expect((error as? StoreError)?.code == .damaged)
                    }
                }
            }
        }
    }

    private static let readers: [@Sendable (inout OrderedKeyReader) throws -> Void] = [
        { _ = try $0.readBool() },
        { _ = try $0.readDouble() },
        { _ = try $0.readString() },
        { _ = try $0.readUUID() },
        { _ = try $0.readDecimal() },
    ]

    // MARK: Helpers

    /// The name of a type and the keys of its values, absent first. The last table is a short one.
    private static func tables() -> [(String, [[[UInt8]]])] {
        let absent = [key { OrderedKey.appendAbsent(to: &$0) }]
        return [
            ("int", [absent] + ints.map { value in [key { OrderedKey.append(int: value, to: &$0) }] }),
            (
                "double",
                [absent] + doubles.map { $0.map { value in key { OrderedKey.append(double: value, to: &$0) } } }
            ),
            ("string", [absent] + texts.map { value in [key { OrderedKey.append(string: value, to: &$0) }] }),
            ("data", [absent] + data.map { value in [key { append(value, to: &$0) }] }),
            ("uuid", [absent] + uuids.map { value in [key { OrderedKey.append(uuid: value.0, value.1, to: &$0) }] }),
            ("object", [absent] + objects.map { value in [key { OrderedKey.append(object: value, to: &$0) }] }),
            (
                "decimal",
                [absent] + decimals.map { $0.map { value in key { append(value, to: &$0) } } }
                    + [[key { OrderedKey.appendDecimalNotANumber(to: &$0) }]]
            ),
            ("bool", [absent] + [false, true].map { value in [key { OrderedKey.append(bool: value, to: &$0) }] }),
        ]
    }

    private static func key(_ append: (inout ByteWriter) -> Void) -> [UInt8] {
        var writer = ByteWriter()
        append(&writer)
        return Array(writer.bytes)
    }

    private static func append(_ data: [UInt8], to key: inout ByteWriter) {
        data.withUnsafeBytes { OrderedKey.append(data: $0, to: &key) }
    }

    private func append(_ data: [UInt8], to key: inout ByteWriter) { Self.append(data, to: &key) }

    private static func append(_ value: Decimal, to key: inout ByteWriter) {
        OrderedKey.append(decimal: value.mantissa, exponent: value.exponent, isNegative: value.isNegative, to: &key)
    }

    private func append(_ value: Decimal, to key: inout ByteWriter) { Self.append(value, to: &key) }

    private func check<T: Equatable>(
        _ key: [UInt8], _ expected: T?, _ read: (inout OrderedKeyReader) throws -> T?
    ) throws {
        try key.withUnsafeBytes { (bytes) throws in
            var reader = OrderedKeyReader(bytes)
            let value = try read(&reader)
            #expect(value == expected)
            #expect(reader.isAtEnd)
        }
    }

    private func order(_ a: Int, _ b: Int) -> Int { a < b ? -1 : a > b ? 1 : 0 }

    private func order(_ a: [UInt8], _ b: [UInt8]) -> Int {
        a.lexicographicallyPrecedes(b) ? -1 : b.lexicographicallyPrecedes(a) ? 1 : 0
    }
}
