// The values of the model: object IDs, values, tokens, errors; as tables.

import Annals
import Foundation
import Testing

@Suite struct ObjectIDTests {
    @Test func textIsReadBack() throws {
        let object = try #require(ObjectID(entityNumber: 1, number: 42) as ObjectID?)
        #expect(object.description == "1:42" && ObjectID("1:42") == object)
        #expect(object.entityNumber == 1 && object.number == 42 && object.rawValue == 1 << 48 | 42)
        let last = try #require(ObjectID(entityNumber: .max, number: 281_474_976_710_655))
        #expect(ObjectID(last.description) == last && object < last)
        let coded = try JSONEncoder().encode([object])
        #expect(String(decoding: coded, as: UTF8.self) == "[\"1:42\"]")
        #expect(try JSONDecoder().decode([ObjectID].self, from: coded) == [object])
    }

    @Test(arguments: [
        "", ":", "1:", ":1", "0:1", "1:0", "1:2:3", "+1:1", "1:+1", " 1:1", "1:1 ", "01:1", "1:01", "65536:1",
        "1:281474976710656",
        "1:-1", "a:b", "1;1", "٣:1",
    ])
    func malformedTextsAreNoObjectIDs(text: String) { #expect(ObjectID(text) == nil) }

    @Test func noPartIsZero() {
        #expect(ObjectID(rawValue: 0) == nil && ObjectID(rawValue: 1 << 48) == nil)
        #expect(ObjectID(rawValue: 5) == nil && ObjectID(entityNumber: 1, number: 1 << 48) == nil)
    }
}

@Suite struct ModelValueTests {
    static let object = ObjectID(entityNumber: 3, number: 9)!
    static let other = ObjectID(entityNumber: 2, number: 1)!
    static let values: [Value] = [
        .null, true, false, 0, .int(.min), .int(.max), 0.5, -0.0, .double(.infinity), .double(.nan), "", "ä\u{0}",
        .data(Data()),
        .data(Data([0, 255])), .date(Date(timeIntervalSince1970: 0)),
        .date(Date(timeIntervalSince1970: 1_700_000_000.123456)),
        .date(Date(timeIntervalSince1970: -1_000_000.000001)), .date(Date(timeIntervalSinceReferenceDate: -0.0)),
        .uuid(UUID()), .decimal(0),
        .decimal(Decimal(string: "-12.345")!),
        .decimal(.greatestFiniteMagnitude), .decimal(.leastFiniteMagnitude), .decimal(.leastNonzeroMagnitude),
        .decimal(Decimal(string: "-1000e127")!), .decimal(.nan),
        .json("{\"a\":[1]}"), .object(object), .orderedObjects([object, other]), .objects([]),
        .objects([other, object]),
    ]

    @Test(arguments: values) func valuesAreReadBackFromTheFile(value: Value) throws {
        let stored = try value.storedValue()
        let back = try Value(stored)
        #expect(try back == value && back.storedValue() == stored)
        #expect(
            value.type.map {
                stored.fits(AttributeType(code: UInt8(AttributeType.allCases.firstIndex(of: $0)! + 1))!)
            } ?? (stored == .absent))
    }

    @Test(arguments: values) func valuesCanBeEncodedAndDecoded(value: Value) throws {
        let coded = try JSONEncoder().encode([value])
        #expect(
            try JSONDecoder().decode([Value].self, from: coded) == [value], "\(String(decoding: coded, as: UTF8.self))")
    }

    @Test func equalityMatchesTheFile() {
        #expect(Value.double(0.0) != .double(-0.0) && Value.double(.nan) == .double(.nan))
        #expect(Value.string("\u{e9}") == .string("e\u{301}") && Value.json("\u{e9}") == .json("e\u{301}"))
        #expect(Value.string("\u{e9}").hashValue == Value.string("e\u{301}").hashValue)
        #expect(Value.objects([Self.object, Self.other]) == .objects([Self.other, Self.object]))
        #expect(Value.orderedObjects([Self.object, Self.other]) != .orderedObjects([Self.other, Self.object]))
        #expect(Value.json("1") != .string("1") && Value.int(1) != .double(1))
        #expect(Set(Self.values).count == Self.values.count)
    }

    /// `Date` traps when one of them is described, so they are no arguments.
    @Test func everyBitPatternIsADate() throws {
        let all = [Double.nan, Double(nan: 5, signaling: false), .infinity, -.infinity, 1e300, .leastNonzeroMagnitude]
        for seconds in all {
            let value = Value.date(Date(timeIntervalSinceReferenceDate: seconds))
            let coded = try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(value))
            #expect(try Value(value.storedValue()) == value && coded == value, "\(seconds)")
            #expect(try value.storedValue() == .date(seconds) && value.hashValue == coded.hashValue, "\(seconds)")
        }
    }

    /// Times of transactions from 1930 to 2071 are the same after they were a `Date`.
    @Test func microsecondsOfOurTimeAreReadBack() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            let microseconds = Int64.random(in: -1_262_304_000_000_000...3_187_296_000_000_000, using: &random)
            #expect(Microseconds.from(Microseconds.date(microseconds)) == microseconds, "\(microseconds)")
        }
    }

    @Test func theFileHoldsExactlyThePossibleDecimals() throws {
        for exponent in [Int(Int16.min), -129, 165, 166, Int(Int16.max)] {
            #expect(DecimalValue(mantissa: 7, exponent: exponent) == nil)
        }
        #expect(DecimalValue(mantissa: .max, exponent: 128) == nil)
        for (mantissa, exponents) in [(1 as UInt128, -128...165), (3, -128...165), (7, -128...164), (.max, -128...127)]
        {
            for exponent in exponents {
                let decimal = try #require(DecimalValue(mantissa: mantissa, exponent: exponent))
                #expect(
                    try Value(StoredValue.decimal(decimal)).storedValue() == .decimal(decimal),
                    "\(mantissa) \(exponent)")
            }
        }
    }
}

@Suite struct HistoryTokenTests {
    static let store = UUID(uuidString: "01234567-89AB-CDEF-0123-456789ABCDEF")!

    @Test func textIsReadBack() throws {
        for (number, tag) in [(0, 0), (1, 2), (UInt64.max, UInt64.max)] as [(UInt64, UInt64)] {
            let token = HistoryToken(storeIdentifier: Self.store, number: number, tag: tag)
            #expect(try HistoryToken(token.description) == token)
            let coded = try JSONEncoder().encode([token])
            #expect(try JSONDecoder().decode([HistoryToken].self, from: coded) == [token])
        }
        let token = HistoryToken(storeIdentifier: Self.store, number: 7, tag: 0xAB)
        #expect(token.description.hasPrefix("A1.0123456789abcdef0123456789abcdef.7.00000000000000ab."))
        #expect(token.description.utf8.count == 63)
    }

    /// Not one character can be another.
    @Test func everyChangedCharacterIsNoticed() throws {
        let text = Array(HistoryToken(storeIdentifier: Self.store, number: 1234, tag: 0x55).description.utf8)
        for place in text.indices {
            for replacement in Array("0a.A1 -".utf8) where replacement != text[place] {
                var changed = text
                changed[place] = replacement
                expect(.tokenMalformed) { try HistoryToken(String(decoding: changed, as: UTF8.self)) }
            }
            expect(.tokenMalformed) { try HistoryToken(String(decoding: text[..<place], as: UTF8.self)) }
        }
    }

    @Test(arguments: ["", "A1", "A1....", "A2.0.0.0.0", "7", "\u{0}", String(repeating: ".", count: 10_000)])
    func malformedTextsAreNoTokens(text: String) throws {
        expect(.tokenMalformed) { try HistoryToken(text) }
        let coded = try JSONEncoder().encode([text])
        #expect(throws: DecodingError.self) { try JSONDecoder().decode([HistoryToken].self, from: coded) }
    }

    @Test func tokensOfAStoreOrderByTheirNumbers() {
        let tokens = (0..<5).map { HistoryToken(storeIdentifier: Self.store, number: $0, tag: 100 - $0) }
        #expect(tokens.shuffled().sorted() == tokens)
    }
}

@Suite struct StoreErrorTests {
    @Test func theDescriptionContainsPathAndOffset() {
        #expect(StoreError(.busy, "Wait.", path: "/p", offset: 9).description == "Wait. [/p, offset 9]")
        #expect(StoreError(.busy, "Wait.").description == "Wait.")
        #expect(StoreError(.busy, "Wait.", path: "/p").description == "Wait. [/p]")
        #expect(StoreError(.busy, "Wait.", offset: 1).description == "Wait. [offset 1]")
    }
}
