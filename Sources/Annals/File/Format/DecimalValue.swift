// A decimal number in the one form that the file knows.

/// mantissa x 10^exponent, with a sign, or not a number.
///
/// 1. The mantissa is not a multiple of 10, except that zero is 0 x 10^0 without a sign.
/// 2. Not-a-number has mantissa 0, exponent 0 and no sign; it equals itself.
///
/// 3. The exponent is at least -128. Above 127, mantissa x 10^(exponent - 127) is below 2^128: `Decimal` can hold the
///    number.
///
/// So two decimals are equal as values exactly when they are equal as bytes.
package struct DecimalValue: Hashable, Sendable {
    package let isNotANumber: Bool
    package let isNegative: Bool
    package let exponent: Int16
    /// The mantissa in halves: a `UInt128` would make every `Value` half as large again.
    package let low: UInt64
    package let high: UInt64

    package var mantissa: UInt128 { UInt128(high) << 64 | UInt128(low) }

    package static let zero = DecimalValue()
    package static let notANumber = DecimalValue(isNotANumber: true)

    /// The number in its one form; nil if that form has an impossible exponent.
    package init?(isNegative: Bool = false, mantissa: UInt128, exponent: Int) {
        guard mantissa != 0 else {
            self = .zero
            return
        }
        var mantissa = mantissa
        var zeros = 0
        while mantissa % 10 == 0 {
            mantissa /= 10
            zeros += 1
        }
        let (sum, overflow) = exponent.addingReportingOverflow(zeros)
        guard !overflow, let exponent = Int16(exactly: sum), Self.isPossible(mantissa, exponent) else { return nil }
        self.init(isNegative: isNegative, exponent: exponent, mantissa: mantissa)
    }

    private static func isPossible(_ mantissa: UInt128, _ exponent: Int16) -> Bool {
        guard exponent > 127 else { return exponent >= -128 }
        var most = UInt128.max
        for _ in 127..<exponent {
            most /= 10
            if most < mantissa { return false }
        }
        return true
    }

    private init(isNotANumber: Bool = false, isNegative: Bool = false, exponent: Int16 = 0, mantissa: UInt128 = 0) {
        (self.isNotANumber, self.isNegative, self.exponent) = (isNotANumber, isNegative, exponent)
        low = UInt64(truncatingIfNeeded: mantissa)
        high = UInt64(truncatingIfNeeded: mantissa >> 64)
    }
}

/// Offsets of the parts of a decimal in its slot.
package enum DecimalField {
    package static let decimalClass = 0
    package static let zero = 1
    package static let exponent = 2
    package static let mantissa = 4
    package static let bytes = 20
}

extension DecimalValue {
    private static let positiveClass: UInt8 = 0
    private static let negativeClass: UInt8 = 1
    private static let notANumberClass: UInt8 = 2

    static let highestClass = notANumberClass

    package var decimalClass: UInt8 {
        isNotANumber ? Self.notANumberClass : isNegative ? Self.negativeClass : Self.positiveClass
    }

    /// The 20 bytes of a slot; nil if they are not in that form.
    package init?(slot: UnsafeRawBufferPointer) {
        guard slot.count == DecimalField.bytes, slot[DecimalField.zero] == 0 else { return nil }
        let exponent = Int16(littleEndian: slot.loadUnaligned(fromByteOffset: DecimalField.exponent, as: Int16.self))
        let low = UInt64(littleEndian: slot.loadUnaligned(fromByteOffset: DecimalField.mantissa, as: UInt64.self))
        let high = UInt64(littleEndian: slot.loadUnaligned(fromByteOffset: DecimalField.mantissa + 8, as: UInt64.self))
        let mantissa = UInt128(high) << 64 | UInt128(low)
        let kind = slot[DecimalField.decimalClass]
        if mantissa == 0 {
            guard exponent == 0, kind == Self.positiveClass || kind == Self.notANumberClass else { return nil }
            self = kind == Self.positiveClass ? .zero : .notANumber
            return
        }
        guard kind <= Self.negativeClass, mantissa % 10 != 0, Self.isPossible(mantissa, exponent) else { return nil }
        self.init(isNegative: kind == Self.negativeClass, exponent: exponent, mantissa: mantissa)
    }
}
