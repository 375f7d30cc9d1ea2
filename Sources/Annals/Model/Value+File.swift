// Converts between the model's values and the stored ones: exactly, or with an error that explains why not.
//
// 1. A value that is read and written again has the same bytes.
// 2. Nothing is silently cut, rounded or corrected.

package import FoundationEssentials

extension Date {
    /// The bits of the seconds since 2001-01-01T00:00:00Z: the stored form.
    var bitPattern: UInt64 { timeIntervalSinceReferenceDate.bitPattern }

    /// A text for errors. `description` traps if the date is not a number.
    var text: String { self == self ? description : "NaN" }

    /// From the stored form. Every bit pattern is a date.
    init(bitPattern: UInt64) { self.init(timeIntervalSinceReferenceDate: Double(bitPattern: bitPattern)) }
}

/// Times of transactions and other facts about the file in their stored form. Values of attributes are not rounded.
package enum Microseconds {
    /// The seconds from 1970, where stored times begin, to 2001, where `Date` begins.
    static let referenceSeconds: Int64 = 978_307_200
    private static let perSecond: Int64 = 1_000_000

    /// The nearest `Date`. A `Date` distinguishes all microseconds from 1930 to 2071.
    package static func date(_ microseconds: Int64) -> Date {
        let seconds = microseconds / perSecond - referenceSeconds
        return Date(timeIntervalSinceReferenceDate: Double(seconds) + Double(microseconds % perSecond) / 1e6)
    }

    /// The nearest microsecond. Nil if 64 bits cannot represent it (before the year -290,308 or after 294,247), and for
    /// NaN.
    package static func from(_ date: Date) -> Int64? {
        let interval = date.timeIntervalSinceReferenceDate
        let whole = interval.rounded(.down)
        guard let seconds = Int64(exactly: whole) else { return nil }
        let fraction = Int64(((interval - whole) * 1e6).rounded())
        let (since1970, overflow) = seconds.addingReportingOverflow(referenceSeconds)
        let (product, tooLarge) = since1970.multipliedReportingOverflow(by: perSecond)
        let (sum, carried) = product.addingReportingOverflow(fraction)
        return overflow || tooLarge || carried ? nil : sum
    }
}

extension DecimalValue {
    /// The same number. Nil if the stored form cannot represent it, which happens for no finite `Decimal`.
    init?(_ decimal: Decimal) {
        guard !decimal.isNaN else {
            self = .notANumber
            return
        }
        let digits = decimal.significand.magnitude.description
        guard let mantissa = UInt128(digits) else { return nil }
        self.init(isNegative: decimal.sign == .minus, mantissa: mantissa, exponent: decimal.exponent)
    }

    /// The same number. Nil if `Decimal`, whose exponents range from -128 to 127, cannot represent it.
    package var decimal: Decimal? {
        guard !isNotANumber else { return .nan }
        var mantissa = mantissa
        var exponent = Int(exponent)
        while exponent > 127 {
            let (product, overflow) = mantissa.multipliedReportingOverflow(by: 10)
            guard !overflow else { return nil }
            mantissa = product
            exponent -= 1
        }
        // Through text: the initializer from parts fails for some exponents that a `Decimal` can have. The comparison
        // proves the result.
        let text = "\(isNegative ? "-" : "")\(mantissa)e\(exponent)"
        guard exponent >= -128, let decimal = Decimal(string: text), DecimalValue(decimal) == self else { return nil }
        return decimal
    }
}

extension UUID {
    package init(_ uuid: UUIDBytes) {
        self.init(
            uuid: withUnsafeBytes(of: (uuid.high.bigEndian, uuid.low.bigEndian)) { $0.loadUnaligned(as: uuid_t.self) })
    }

    var stored: UUIDBytes {
        withUnsafeBytes(of: uuid) { bytes in
            UUIDBytes(
                high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
                low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }
}

extension Value {
    /// Returns the stored form. Throws `valueOutOfRange` if the value has none.
    package func storedValue() throws(StoreError) -> StoredValue {
        switch self {
        case .null: return .absent
        case .bool(let bool): return .bool(bool)
        case .int(let int): return .int(int)
        case .double(let double): return .double(double)
        case .string(let text): return .string(text)
        case .data(let data): return .data(Array(data))
        case .uuid(let uuid): return .uuid(uuid.stored)
        case .json(let text): return .json(text)
        case .object(let object): return .object(object)
        case .orderedObjects(let objects): return .orderedObjects(objects)
        case .objects(let objects): return .objectSet(objects)
        case .date(let date): return .date(date.timeIntervalSinceReferenceDate)
        case .decimal(let decimal):
            guard let value = DecimalValue(decimal) else {
                throw StoreError(.valueOutOfRange, "A decimal has more digits than a store can keep: round it first.")
            }
            return .decimal(value)
        }
    }

    /// Whether the value has a stored form.
    var hasStoredForm: Bool {
        if case .decimal(let decimal) = self { DecimalValue(decimal) != nil } else { true }
    }

    /// From a stored value, which must not be a reference to a large value. Throws `valueOutOfRange` if `Decimal`
    /// cannot represent a decimal.
    package init(_ value: StoredValue) throws(StoreError) {
        switch value {
        case .absent: self = .null
        case .bool(let bool): self = .bool(bool)
        case .int(let int): self = .int(int)
        case .double(let double): self = .double(double)
        case .string(let text): self = .string(text)
        case .data(let bytes): self = .data(Data(bytes))
        case .date(let seconds): self = .date(Date(timeIntervalSinceReferenceDate: seconds))
        case .uuid(let uuid): self = .uuid(UUID(uuid))
        case .json(let text): self = .json(text)
        case .object(let object): self = .object(object)
        case .orderedObjects(let objects): self = .orderedObjects(objects)
        case .objects(let objects): self = .objects(objects)
        case .decimal(let value):
            guard let decimal = value.decimal else {
                throw StoreError(
                    .valueOutOfRange,
                    "A decimal in the store has an exponent that “Decimal” cannot represent. Another program wrote it: "
                        + "change the value with that program."
                )
            }
            self = .decimal(decimal)
        case .large: preconditionFailure("A large value must be read before it is converted.")
        }
    }
}
