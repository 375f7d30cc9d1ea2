// Object IDs, decimals and values by themselves.

import Annals
import Testing

@Suite struct ValueTests {
    @Test func objectIDsHaveTwoNumbersThatAreNotZero() throws {
        let first = try #require(ObjectID(entityNumber: 1, number: 1))
        #expect(first.rawValue == 0x0001_0000_0000_0001)
        #expect(ObjectID(entityNumber: 0, number: 1) == nil)
        #expect(ObjectID(entityNumber: 1, number: 0) == nil)
        #expect(ObjectID(entityNumber: 1, number: 1 << 48) == nil)
        #expect(ObjectID(entityNumber: 1, number: .max) == nil)
        #expect(ObjectID(rawValue: 0) == nil)
        #expect(ObjectID(rawValue: 5) == nil)
        #expect(ObjectID(rawValue: 1 << 48) == nil)
        let last = try #require(ObjectID(entityNumber: .max, number: FormatLimits.maximumObjectNumber))
        #expect(last.rawValue == .max)
        #expect(last.entityNumber == .max)
        #expect(last.number == FormatLimits.maximumObjectNumber)
    }

    @Test func decimalsHaveOneForm() throws {
        #expect(DecimalValue(mantissa: 1200, exponent: -2) == DecimalValue(mantissa: 12, exponent: 0))
        #expect(DecimalValue(isNegative: true, mantissa: 0, exponent: 9) == .zero)
        #expect(DecimalValue(mantissa: 100, exponent: -130)?.exponent == -128)
        #expect(DecimalValue(mantissa: 1, exponent: -129) == nil)
        #expect(DecimalValue(mantissa: 1, exponent: -32769) == nil)
        #expect(DecimalValue(mantissa: 10, exponent: 32767) == nil)
        #expect(DecimalValue(mantissa: 10, exponent: .max) == nil)
        #expect(DecimalValue(mantissa: 1, exponent: .min) == nil)
        #expect(DecimalValue(mantissa: UInt128.max, exponent: 128) == nil)
        let largest = try #require(DecimalValue(mantissa: UInt128.max, exponent: 127))
        #expect(largest.mantissa == .max && largest.exponent == 127)
    }

    @Test func valuesAreEqualIfTheirBytesAreEqual() {
        #expect(StoredValue.double(.nan) == .double(.nan))
        #expect(StoredValue.double(0) != .double(-0.0))
        #expect(StoredValue.string("\u{e9}") != .string("e\u{301}"))
        #expect(StoredValue.string("a") != .json("a"))
        #expect(StoredValue.double(1) != .date(1))
        #expect(StoredValue.date(.nan) == .date(.nan) && StoredValue.date(0) != .date(-0.0))
        #expect(StoredValue.absent == .absent)
    }

    @Test func referencesNamePlacesWhereFramesCanBe() {
        #expect(LargeValueReference(offset: 4096, valueBytes: 1, checksum: 0) != nil)
        #expect(LargeValueReference(offset: 4095, valueBytes: 1, checksum: 0) == nil)
        #expect(LargeValueReference(offset: 4100, valueBytes: 1, checksum: 0) == nil)
        #expect(LargeValueReference(offset: 4096, valueBytes: 0, checksum: 0) == nil)
        #expect(LargeValueReference(offset: 4096, valueBytes: 1 << 40, checksum: 0) != nil)
        #expect(LargeValueReference(offset: 4096, valueBytes: 1 << 40 | 1, checksum: 0) == nil)
        #expect(LargeValueReference(offset: 1 << 62 | 8, valueBytes: 1, checksum: 0) == nil)
    }

    @Test(arguments: AttributeType.allCases)
    func contentIsReadBack(type: AttributeType) throws {
        for value in Samples.values(of: type) {
            var writer = ByteWriter()
            value.appendContent(to: &writer)
            #expect(StoredValue(writer.bytes, type) == value)
            #expect(type.isVariable || writer.count == type.slotBytes)
            let attribute = AttributeDefinition(
                number: 1, type: type, name: "a", defaultValue: Array(writer.bytes))
            #expect(attribute.valueBeforeItExisted == value)
            if !type.isVariable {
                #expect(StoredValue(UnsafeRawBufferPointer(rebasing: writer.bytes.dropLast()), type) == nil)
            }
        }
        #expect(AttributeDefinition(number: 1, type: type, name: "a").valueBeforeItExisted == .absent)
    }

    @Test func malformedContentHasNoValue() {
        let cases: [(AttributeType, [UInt8])] = [
            (.bool, [2]), (.int, []), (.string, [0xff]), (.json, [0xc3]), (.object, [UInt8](repeating: 0, count: 8)),
            (.decimal, [0, 0, 0, 0, 10] + [UInt8](repeating: 0, count: 15)), (.objects, [1]),
        ]
        for (type, bytes) in cases { #expect(bytes.withUnsafeBytes { StoredValue($0, type) } == nil, "\(type)") }
    }
}
