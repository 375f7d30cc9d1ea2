// The tool's pure parts: reading and writing JSON, types, conversions, timestamps, CSV.

import Annals
import Foundation
import Testing
import annals

@Suite struct JSONReaderTests {
    static let values: [(String, JSONValue)] = [
        ("null", .null), (" true ", .bool(true)), ("false", .bool(false)), ("0", .int(0)),
        ("-9223372036854775808", .int(.min)),
        ("9223372036854775808", .number("9223372036854775808")), ("-0", .double(-0.0)), ("1.0", .double(1)),
        ("1e2", .double(100)),
        ("1e400", .number("1e400")), ("1e-500", .number("1e-500")), ("-0.001e-400", .number("-0.001e-400")),
        ("0e-500", .double(0)), ("-0.00e500", .double(-0.0)), ("5e-324", .double(.leastNonzeroMagnitude)),
        ("\"\"", .string("")), ("\"a\\u0041\\n\\/\\\"\"", .string("aA\n/\"")),
        ("\"\\ud83d\\ude00\"", .string("😀")), ("\"ä\"", .string("ä")), ("[1, {\"a\":2}]", .structure("[1, {\"a\":2}]")),
        ("{}", .structure("{}")),
    ]

    @Test(arguments: values) func valuesAreRead(text: String, value: JSONValue) throws {
        #expect(try JSONReader.value(text) == value)
        let written = JSONText.text(value)
        #expect(try JSONReader.value(written) == value, "\(written)")
    }

    @Test(arguments: [
        "", " ", "nul", "tru", "01", "+1", "1.", ".5", "1e", "-", "--1", "1 2", "NaN", "\"", "\"a", "\"\\x\"",
        "\"\\u12\"", "\"\\ud800\"",
        "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\u{1}\"", "[", "[1", "[1,", "[1,]", "[,1]", "{", "{\"a\"", "{\"a\":",
        "{\"a\":1,}", "{a:1}",
        "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"\\u0062\":2}}", "]", "[1}", "'a'",
        String(repeating: "[", count: 201) + String(repeating: "]", count: 201),
        String(repeating: "[", count: 1_000_000),
    ])
    func invalidJSONIsRefused(text: String) { #expect(throws: JSONError.self) { try JSONReader.value(text) } }

    @Test func deepButNotTooDeepIsRead() throws {
        let text = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
        #expect(try JSONReader.value(text) == .structure(text))
    }

    @Test func objectsKeepTheirOrder() throws {
        let members = try JSONReader.object(Array(" {\"b\" : 1, \"a\":null,\"\\u00e9\":2,\"e\u{301}\":3} ".utf8))
        #expect(members.map(\.name).map { Array($0.utf8) } == ["b", "a", "\u{e9}", "e\u{301}"].map { Array($0.utf8) })
        for text in ["[]", "1", "{} {}", "{\"a\":1"] {
            #expect(throws: JSONError.self) { try JSONReader.object(Array(text.utf8)) }
        }
        #expect(throws: JSONError.self) { try JSONReader.object([0x7B, 0x22, 0xFF, 0x22, 0x3A, 0x31, 0x7D]) }
        #expect(try JSONReader.elements("[1,\"a\"]") == [.int(1), .string("a")])
        let error = #expect(throws: JSONError.self) { try JSONReader.object(Array("{\"a\":1,\"a\":2}".utf8)) }
        #expect(error?.column == 8)
    }

    @Test func controlCharactersAreEscaped() throws {
        let text = "\u{1b}[2J\u{7f}\u{202e}\u{85}\u{2028}\t\"\\ä😀"
        let written = JSONText.string(text)
        #expect(written == "\"\\u001b[2J\\u007f\\u202e\\u0085\\u2028\\t\\\"\\\\ä😀\"")
        #expect(try JSONReader.value(written) == .string(text))
        var bytes: [UInt8] = []
        JSONText.appendRaw("[\"\u{202e}\",\n1]", to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == "[\"\\u202e\", 1]")
    }

    @Test func doublesAreTheShortestText() {
        let texts = [0.1, -0.0, Double.leastNonzeroMagnitude, 1e300, 100, .nan, .infinity, -.infinity].map(
            JSONText.double)
        #expect(texts == ["0.1", "-0.0", "5e-324", "1e+300", "100.0", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""])
    }
}

@Suite struct TypeInferenceTests {
    static let exact = Int64(1) << 53
    static let types: [([JSONValue], AttributeType?)] = [
        ([], nil), ([.null], nil), ([.bool(true), .null], .bool), ([.int(1)], .int), ([.double(0.5)], .double),
        ([.int(1), .double(0.5)], .double), ([.int(exact + 1)], .int), ([.int(exact + 1), .double(0.5)], .json),
        ([.int(exact), .double(0.5)], .double), ([.string("")], .string), ([.string(""), .int(1)], .json),
        ([.bool(true), .int(1)], .json), ([.structure("[]")], .json), ([.number("1e400")], .json),
        ([.double(1), .number("1e-500")], .json),
        ([.int(1), .number("1e400")], .json),
    ]

    @Test(arguments: types) func theNarrowestTypeIsTaken(values: [JSONValue], type: AttributeType?) {
        #expect(TypeGuess(values).type == type && TypeGuess(values.reversed()).type == type)
    }

    @Test(arguments: [
        (AttributeType.int, [JSONValue.double(0.5)], true, AttributeType.double), (.int, [.double(0.5)], false, .json),
        (.int, [.int(1)], false, .int), (.double, [.int(1)], true, .double), (.double, [.int(exact + 1)], true, .json),
        (.bool, [.int(1)], true, .json), (.string, [.structure("{}")], true, .json), (.json, [.int(1)], true, .json),
        (.date, [.string("x")], true, .date), (.string, [.null], true, .string),
    ]) func existingAttributesAreWidened(
        existing: AttributeType, values: [JSONValue], areDoubles: Bool, type: AttributeType
    ) throws {
        #expect(try TypeGuess(values).widened(existing) { () throws(ToolFailure) in areDoubles } == type)
    }
}

private func zeros(_ count: Int) -> String { String(repeating: "0", count: count) }

@Suite struct ValueConversionTests {
    @Test(arguments: [
        (AttributeType.int, "5", "5"), (.double, "5", "5.0"), (.double, "0.1", "0.1"), (.double, "\"NaN\"", "\"NaN\""),
        (.bool, "true", "true"),
        (.string, "\"a\"", "\"a\""), (.json, "[1]", "[1]"), (.json, "\"a\"", "\"a\""), (.json, "1e400", "1e400"),
        (.date, "\"2026-01-02T03:04:05.000006Z\"", "\"2026-01-02T03:04:05.000006Z\""), (.data, "\"AQI=\"", "\"AQI=\""),
        (.uuid, "\"01234567-89AB-CDEF-0123-456789ABCDEF\"", "\"01234567-89AB-CDEF-0123-456789ABCDEF\""),
        (.decimal, "0.1", "0.1"), (.decimal, "-1.50e3", "-1500"), (.decimal, "-0", "0"),
        (.decimal, "\"NaN\"", "\"NaN\""),
        (.decimal, "1234567890123456.789", "1234567890123456.789"), (.decimal, "1e-40", "0." + zeros(39) + "1"),
        (.decimal, "0.12345678901234567890", "0.1234567890123456789"), (.decimal, "1" + zeros(127), "1" + zeros(127)),
        (.double, "0.12345678901234567890", "0.12345678901234568"),
        (.json, "0.12345678901234567890", "0.12345678901234567890"), (.json, "1.23456789e-320", "1.23456789e-320"),
        (.decimal, "\"123456789012345678901234567890\"", "123456789012345678901234567890"),
        (.object, "\"1:2\"", "\"1:2\""),
        (.objects, "[\"1:2\"]", "[\"1:2\"]"), (.orderedObjects, "[]", "[]"), (.string, "null", "null"),
    ]) func valuesAreReadAndWrittenBack(type: AttributeType, text: String, written: String) throws {
        let value = try #require(ValueConversion.value(try JSONReader.value(text), as: type))
        var bytes: [UInt8] = []
        ValueConversion.append(value, to: &bytes)
        #expect(String(decoding: bytes, as: UTF8.self) == written)
    }

    @Test(arguments: [
        (AttributeType.int, "0.5"), (.int, "\"5\""), (.bool, "1"), (.string, "1"), (.double, "9007199254740993"),
        (.double, "1e-500"), (.double, "1e400"), (.decimal, "1e-500"), (.decimal, "1e400"), (.decimal, "\"12abc\""),
        (.decimal, "\"\""), (.decimal, "\" 1\""), (.decimal, "\"1,5\""), (.decimal, "\"1e\""),
        (.decimal, "1234567890123456789012345678901234567890123"), (.decimal, "1e99999999999999999999"),
        (.date, "\"2026\""),
        (.uuid, "\"x\""), (.data, "\"*\""), (.object, "\"1\""), (.object, "5"), (.objects, "[1]"), (.objects, "{}"),
        (.decimal, "true"),
    ]) func valuesThatDoNotFitAreNil(type: AttributeType, text: String) throws {
        #expect(ValueConversion.value(try JSONReader.value(text), as: type) == nil)
    }

    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00.000000Z"), (-1, "1969-12-31T23:59:59.999999Z"),
        (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
    ]) func timestampsAreReadBack(microseconds: Int64, text: String) {
        #expect(Timestamp.text(microseconds) == text && Timestamp.microseconds(text) == microseconds)
    }

    @Test(arguments: [
        (0, "2001-01-01T00:00:00.000000Z"), (721_692_800.1229999, "2023-11-14T22:13:20.1229999Z"),
        (721_692_800.25, "2023-11-14T22:13:20.250000Z"), (-1e-10, "2000-12-31T23:59:59.9999999999Z"),
        (-63_113_904_000, "0001-01-01T00:00:00.000000Z"), (252_423_993_599.5, "9999-12-31T23:59:59.500000Z"),
        (252_423_993_600, "2001-01-01T00:00:00Z+252423993600.0s"), (1e20, "2001-01-01T00:00:00Z+1e+20s"),
        (-1e300, "2001-01-01T00:00:00Z-1e+300s"), (-0.0, "2001-01-01T00:00:00Z-0.0s"),
        (.leastNonzeroMagnitude, "2001-01-01T00:00:00Z+5e-324s"), (.infinity, "Infinity"), (-.infinity, "-Infinity"),
        (.nan, "NaN"),
    ]) func datesAreReadBackExactly(seconds: Double, text: String) {
        let date = Date(timeIntervalSinceReferenceDate: seconds)
        #expect(DateText.text(date) == text)
        let read = DateText.date(text)?.timeIntervalSinceReferenceDate
        #expect(seconds.isNaN ? read?.isNaN == true : read?.bitPattern == seconds.bitPattern)
    }

    @Test func everyDateIsReadBackExactly() {
        var random = SystemRandomNumberGenerator()
        for count in 0..<20_000 {
            let seconds =
                switch count % 4 {
                case 0: Double(bitPattern: random.next())
                case 1: Double.random(in: -1e11...1e12, using: &random)
                case 2: Double.random(in: -1e10...1e10, using: &random)
                default: Double(Int.random(in: 0...2_000_000_000_000, using: &random)) / 1000 - 978_307_200
                }
            let text = DateText.text(Date(timeIntervalSinceReferenceDate: seconds))
            let read = DateText.date(text)?.timeIntervalSinceReferenceDate
            #expect(seconds.isNaN || read?.bitPattern == seconds.bitPattern, "\(seconds): \(text)")
        }
    }

    @Test func malformedTextsAreNoDates() {
        for text in [
            "", "5", "2026-01-02", "2026-02-29T00:00:00Z", "2001-01-01T00:00:00Z+s", "2001-01-01T00:00:00Z5s", "nan",
            "2001-01-01T00:00:00Z+nans", "2001-01-01T00:00:00Z+1e400s", "2001-01-01T00:00:00Z+1",
            "2001-01-01T00:00:00.12345678901234567890123456Z", "2026-01-02T03:04:05Z+1s", "inf",
        ] { #expect(DateText.date(text) == nil, "\(text)") }
        #expect(DateText.moment("2001-01-01T02:00:00.25+02:00") == Date(timeIntervalSinceReferenceDate: 0.25))
        #expect(DateText.moment("2001-01-02") == Date(timeIntervalSinceReferenceDate: 86_400))
    }

    @Test func malformedTextsAreNoTimestamps() {
        for text in [
            "", "2026-01-02", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.1234567Z", "2026-01-01T00:00:60Z", "+026-01-01T00:00:00Z",
        ] { #expect(Timestamp.microseconds(text) == nil, "\(text)") }
        #expect(
            Timestamp.microseconds("2026-01-01T00:00:00.5Z") == Timestamp.microseconds("2026-01-01T00:00:00.500000Z"))
        for extreme in [Int64.min, .max] { #expect(Timestamp.text(extreme).hasSuffix("Z")) }
    }

    @Test func fieldsAreQuotedIfNeeded() {
        #expect(
            CSV.line(["a", nil, "", "b,c", "d\"e", "f\ng", " h", "\r\n"])
                == "a,,\"\",\"b,c\",\"d\"\"e\",\"f\ng\",\" h\",\"\r\n\"\n")
    }
}
