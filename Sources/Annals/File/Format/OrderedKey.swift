// Encodes values so that comparing the bytes compares the values.

#if canImport(Glibc)
    import Glibc
#else
    import Musl
#endif

/// The order-preserving encoding of the values in an ordered index, ascending.
///
/// A key is a sequence of components. All components of a column have the same type, so the type is not written. No
/// component is a prefix of another of its type. So compound keys compare by component, and `memcmp` over the shorter
/// of two different keys always decides.
///
/// | value | bytes |
/// |---|---|
/// | absent | 00; all other values begin with 01 and so comes after it |
/// | bool | 01, 00 or 01 |
/// | int | 01, i64 big-endian with its sign bit inverted |
/// | double, date | 01, the bits big-endian: all inverted if negative, otherwise the sign bit inverted |
/// | string, json | 01, the bytes of the normal form NFC with 00 written as 00 FF, then 00 00 |
/// | data | 01, the bytes with 00 written as 00 FF, then 00 00 |
/// | uuid | 01, its 16 bytes |
/// | object | 01, u64 big-endian |
/// | decimal | 01, then class 00 negative, 01 zero, 02 positive, 03 not a number; see below |
///
/// Doubles and dates: -0 equals 0. All NaNs are equal and come after +infinity. Decoding returns 0 for -0 and one quiet
/// NaN for every NaN. Texts compare by the UTF-8 bytes of their normal form, as Swift compares strings: texts that are
/// equal in Swift have one key. The order is the same in every locale.
///
/// Decimals compare by their number, regardless of their exponents. A positive one is 0.ddd x 10^scale with a first
/// digit that is not 0: the scale as u32 big-endian plus 2^31, two digits a byte (their number plus 1), a last single
/// digit as if a 0 followed, then 00. A negative one has all those bytes inverted. Not-a-number comes last.
package enum OrderedKey {
    package static let absent: UInt8 = 0
    package static let present: UInt8 = 1
    package static let signBit: UInt64 = 1 << 63
    /// The size of the 00 00 that ends a text or data.
    package static let endBytes = 2

    package static func appendAbsent(to key: inout ByteWriter) { key.append(absent) }

    package static func append(bool: Bool, to key: inout ByteWriter) {
        key.append(present)
        key.append(bool ? 1 : 0 as UInt8)
    }

    package static func append(int: Int64, to key: inout ByteWriter) {
        append(bits: UInt64(bitPattern: int) ^ signBit, to: &key)
    }

    package static func append(double: Double, to key: inout ByteWriter) {
        append(bits: orderedBits(of: double), to: &key)
    }

    /// A number that orders as the doubles do.
    package static func orderedBits(of double: Double) -> UInt64 {
        if double.isNaN { return Double.nan.bitPattern | signBit }
        if double == 0 { return signBit }
        let bits = double.bitPattern
        return bits & signBit != 0 ? ~bits : bits | signBit
    }

    package static func append(string: String, to key: inout ByteWriter) {
        if string.utf8.withContiguousStorageIfAvailable({ append(text: UnsafeRawBufferPointer($0), to: &key) }) != nil {
            return
        }
        Array(string.utf8).withUnsafeBytes { append(text: $0, to: &key) }
    }

    /// A text as UTF-8.
    package static func append(text: UnsafeRawBufferPointer, to key: inout ByteWriter) {
        guard text.isASCIIWithoutZeros else { return appendNormal(text, to: &key) }
        key.append(present)
        key.append(text)
        key.append(0 as UInt16)
    }

    @inline(never)
    private static func appendNormal(_ text: UnsafeRawBufferPointer, to key: inout ByteWriter) {
        NormalForm.with(text) { append(data: $0, to: &key) }
    }

    package static func append(data: UnsafeRawBufferPointer, to key: inout ByteWriter) {
        key.append(present)
        var rest = data
        while let zero = firstZero(of: rest) {
            key.append(UnsafeRawBufferPointer(rebasing: rest[...zero]))
            key.append(0xff as UInt8)
            rest = UnsafeRawBufferPointer(rebasing: rest[(zero + 1)...])
        }
        key.append(rest)
        key.append(0 as UInt16)
    }

    private static func firstZero(of bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress, let found = memchr(base, 0, bytes.count) else { return nil }
        return UnsafeRawPointer(found) - base
    }

    /// A UUID as its upper and lower half.
    package static func append(uuid high: UInt64, _ low: UInt64, to key: inout ByteWriter) {
        append(bits: high, to: &key)
        key.append(low.byteSwapped)
    }

    package static func append(object: UInt64, to key: inout ByteWriter) {
        append(bits: object, to: &key)
    }

    private static func append(bits: UInt64, to key: inout ByteWriter) {
        key.append(present)
        key.append(bits.byteSwapped)
    }
}

// MARK: Decimals

extension OrderedKey {
    package enum DecimalClass: UInt8 {
        case negative = 0
        case zero = 1
        case positive = 2
        case notANumber = 3
    }

    /// Added to a scale, so that the bytes of the sum order as the scales do.
    package static let scaleBias: Int64 = 1 << 31

    package static func appendDecimalNotANumber(to key: inout ByteWriter) {
        key.append(present)
        key.append(DecimalClass.notANumber.rawValue)
    }

    /// The number mantissa x 10^exponent, negated if `isNegative`. All forms of a number have the same key.
    package static func append(
        decimal mantissa: UInt128, exponent: Int16, isNegative: Bool, to key: inout ByteWriter
    ) {
        key.append(present)
        guard mantissa != 0 else { return key.append(DecimalClass.zero.rawValue) }
        key.append((isNegative ? DecimalClass.negative : .positive).rawValue)
        let inversion: UInt8 = isNegative ? 0xff : 0
        var rest = mantissa
        var exponent = Int64(exponent)
        while rest % 10 == 0 {
            rest /= 10
            exponent += 1
        }
        var divisor: UInt128 = 1
        var digits: Int64 = 1
        while rest / divisor >= 10 {
            divisor *= 10
            digits += 1
        }
        append(scale: UInt32(scaleBias + exponent + digits), inversion, to: &key)
        append(digitsOf: rest, from: divisor, inversion, to: &key)
    }

    private static func append(scale: UInt32, _ inversion: UInt8, to key: inout ByteWriter) {
        key.append(scale.byteSwapped ^ UInt32(inversion) &* 0x0101_0101)
    }

    /// Appends two digits a byte from `divisor` on, then the end.
    private static func append(
        digitsOf mantissa: UInt128, from divisor: UInt128, _ inversion: UInt8, to key: inout ByteWriter
    ) {
        assert(1...9 ~= mantissa / divisor, "The first digit is 0, or one of several.")
        var rest = mantissa
        var divisor = divisor
        while divisor > 0 {
            var pair = UInt8(rest / divisor) * 10
            rest %= divisor
            divisor /= 10
            if divisor > 0 {
                pair += UInt8(rest / divisor)
                rest %= divisor
                divisor /= 10
            }
            key.append((pair + 1) ^ inversion)
        }
        key.append(inversion)
    }
}
