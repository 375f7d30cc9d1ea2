// Reads the values back out of ordered keys: the product only compares them.

package import Annals

/// Takes a key apart, component by component; the caller knows the types. Absent components come back as nil.
///
/// What an encoder cannot have written is damage. What was equal when encoded comes back in one form: 0 for -0, one
/// NaN.
package struct OrderedKeyReader {
    fileprivate var reader: ByteReader

    package init(_ key: UnsafeRawBufferPointer, fileOffset: UInt64 = 0) {
        reader = ByteReader(key, fileOffset: fileOffset)
    }

    package var isAtEnd: Bool { reader.isAtEnd }

    package mutating func readBool() throws(StoreError) -> Bool? {
        guard try readPresence() else { return nil }
        switch try reader.readUInt8() {
        case 0: return false
        case 1: return true
        default: throw malformed()
        }
    }

    package mutating func readInt() throws(StoreError) -> Int64? {
        guard let bits = try readBits() else { return nil }
        return Int64(bitPattern: bits ^ OrderedKey.signBit)
    }

    package mutating func readDate() throws(StoreError) -> Double? { try readDouble() }

    package mutating func readDouble() throws(StoreError) -> Double? {
        guard let bits = try readBits() else { return nil }
        let isPositive = bits & OrderedKey.signBit != 0
        let double = Double(bitPattern: isPositive ? bits ^ OrderedKey.signBit : ~bits)
        guard OrderedKey.orderedBits(of: double) == bits else { throw malformed() }
        return double
    }

    package mutating func readData() throws(StoreError) -> [UInt8]? {
        guard try readPresence() else { return nil }
        var data: [UInt8] = []
        while true {
            let byte = try reader.readUInt8()
            if byte == 0 {
                let escape = try reader.readUInt8()
                if escape == 0 { return data }
                guard escape == 0xff else { throw malformed() }
            }
            data.append(byte)
        }
    }

    package mutating func readString() throws(StoreError) -> String? {
        guard let data = try readData() else { return nil }
        guard let string = data.withUnsafeBytes(\.text), string.utf8.elementsEqual(NormalForm.of(string).utf8) else {
            throw malformed()
        }
        return string
    }

    package mutating func readUUID() throws(StoreError) -> (high: UInt64, low: UInt64)? {
        guard let high = try readBits() else { return nil }
        return (high, try reader.readUInt64().byteSwapped)
    }

    package mutating func readObject() throws(StoreError) -> UInt64? { try readBits() }

    private mutating func readPresence() throws(StoreError) -> Bool {
        switch try reader.readUInt8() {
        case OrderedKey.absent: return false
        case OrderedKey.present: return true
        default: throw malformed()
        }
    }

    private mutating func readBits() throws(StoreError) -> UInt64? {
        guard try readPresence() else { return nil }
        return try reader.readUInt64().byteSwapped
    }

    private func malformed() -> StoreError { reader.damaged("An index key is not one that this program writes.") }
}

// MARK: Decimals

/// A decimal as a key holds it: the mantissa is not a multiple of 10, except that zero is 0 x 10^0.
package enum OrderedDecimal: Equatable, Sendable {
    case notANumber
    case number(mantissa: UInt128, exponent: Int16, isNegative: Bool)
}

extension OrderedKeyReader {
    package mutating func readDecimal() throws(StoreError) -> OrderedDecimal? {
        guard try readPresence() else { return nil }
        switch OrderedKey.DecimalClass(rawValue: try reader.readUInt8()) {
        case .notANumber: return .notANumber
        case .zero: return .number(mantissa: 0, exponent: 0, isNegative: false)
        case .positive: return try readNumber(isNegative: false)
        case .negative: return try readNumber(isNegative: true)
        case nil: throw malformed()
        }
    }

    private mutating func readNumber(isNegative: Bool) throws(StoreError) -> OrderedDecimal {
        let inversion: UInt8 = isNegative ? 0xff : 0
        let scale = (try reader.readUInt32() ^ UInt32(inversion) &* 0x0101_0101).byteSwapped
        var mantissa: UInt128 = 0
        var digits: Int64 = 0
        var next = try reader.readUInt8() ^ inversion
        while next != 0 {
            let pair = UInt128(next &- 1)
            guard pair < 100 else { throw malformed() }
            next = try reader.readUInt8() ^ inversion
            // A zero after the last digit is not one of the number's.
            let isSingle = next == 0 && pair % 10 == 0
            let (product, overflow) = mantissa.multipliedReportingOverflow(by: isSingle ? 10 : 100)
            let (sum, overflow2) = product.addingReportingOverflow(isSingle ? pair / 10 : pair)
            guard !overflow, !overflow2 else { throw malformed() }
            mantissa = sum
            digits += isSingle ? 1 : 2
            // The first digit is not zero; a number of 41 digits has overflowed before.
            if digits <= 2, pair < 10 { throw malformed() }
        }
        guard mantissa % 10 != 0, let exponent = Int16(exactly: Int64(scale) - OrderedKey.scaleBias - digits) else {
            throw malformed()
        }
        return .number(mantissa: mantissa, exponent: exponent, isNegative: isNegative)
    }
}
