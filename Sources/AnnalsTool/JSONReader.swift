// Reads JSON for the tool: strictly, with members in order, integers distinct from doubles, and nested values as text.
//
// It refuses cases that RFC 8259 leaves open: repeated keys, invalid UTF-8, unpaired surrogates, and more than
// `maximumDepth` levels. A number that is written as an integer and fits 64 bits is an integer. A number with a point
// or an exponent is the nearest double. A number that fits neither keeps its text; so does one that is not 0 but whose
// nearest double is 0.

internal import Annals

/// A JSON value. A nested value is kept as text.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    /// A double, with its text if that has more digits than the double.
    case double(Double, text: String? = nil)
    /// The text of a number that fits neither.
    case number(String)
    case string(String)
    /// The text of an object or array.
    case structure(String)
    /// A field of CSV: the attribute's type decides about its meaning.
    case field(String)

    /// Nil unless it is a string.
    var text: String? { if case .string(let text) = self { text } else { nil } }

    /// Nil unless it is an array.
    var elements: [JSONValue]? {
        if case .structure(let text) = self { try? JSONReader.elements(text) } else { nil }
    }
}

package struct JSONMember: Equatable, Sendable {
    package var name: String
    package var value: JSONValue
}

/// The names in an object. A few are compared one by one, which is faster than hashing them.
private struct SeenNames {
    private var few: [String] = []
    private var many: Set<IdentifierName> = []

    mutating func insert(_ name: String) -> Bool {
        guard many.isEmpty else { return many.insert(IdentifierName(name)).inserted }
        if few.contains(where: { $0.hasSameBytes(as: name) }) { return false }
        few.append(name)
        if few.count > 16 { many = Set(few.map(IdentifierName.init)) }
        return true
    }
}

/// The reason for which a text is not JSON, and the position of the byte, from 1.
package struct JSONError: Error, Equatable, Sendable {
    package var message: String
    package var column: Int
}

package struct JSONReader {
    package static let maximumDepth = 200
    private let bytes: [UInt8]
    private var place = 0
    private var depth = 0

    private init(_ bytes: [UInt8]) throws(JSONError) {
        self.bytes = bytes
        guard (try? UTF8Span(validating: bytes.span)) != nil else {
            throw JSONError(message: "it is not valid UTF-8", column: 1)
        }
    }

    package static func object(_ bytes: [UInt8]) throws(JSONError) -> [JSONMember] {
        try whole(bytes) { (reader) throws(JSONError) in
            guard reader.next == UInt8(ascii: "{") else { throw reader.error("it is not a JSON object") }
            return try reader.readStructure(isKept: true)
        }
    }

    package static func value(_ text: String) throws(JSONError) -> JSONValue {
        try whole(Array(text.utf8)) { (reader) throws(JSONError) in try reader.readValue() }
    }

    package static func elements(_ text: String) throws(JSONError) -> [JSONValue] {
        try whole(Array(text.utf8)) { (reader) throws(JSONError) in
            guard reader.next == UInt8(ascii: "[") else { throw reader.error("it is not a JSON array") }
            return try reader.readStructure(isKept: true).map(\.value)
        }
    }

    private static func whole<Result>(
        _ bytes: [UInt8], _ read: (inout JSONReader) throws(JSONError) -> Result
    ) throws(JSONError) -> Result {
        var reader = try JSONReader(bytes)
        reader.skipSpace()
        let result = try read(&reader)
        reader.skipSpace()
        guard reader.next == nil else { throw reader.error("more text follows the value") }
        return result
    }

    private var next: UInt8? { place < bytes.count ? bytes[place] : nil }
    private func error(_ message: String) -> JSONError { JSONError(message: message, column: place + 1) }

    private mutating func take(_ sign: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: sign) else { return false }
        place += 1
        return true
    }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D { place += 1 }
    }

    private mutating func readValue(isKept: Bool = true) throws(JSONError) -> JSONValue {
        switch next {
        case UInt8(ascii: "\"")?: return .string(try readString())
        case UInt8(ascii: "{")?, UInt8(ascii: "[")?:
            let start = place
            _ = try readStructure(isKept: false)
            return .structure(isKept ? String(decoding: bytes[start..<place], as: UTF8.self) : "")
        case UInt8(ascii: "t")?: return try readWord("true", .bool(true))
        case UInt8(ascii: "f")?: return try readWord("false", .bool(false))
        case UInt8(ascii: "n")?: return try readWord("null", .null)
        case UInt8(ascii: "-")?, (UInt8(ascii: "0")...UInt8(ascii: "9"))?: return try readNumber()
        case nil: throw error("it ends where a value was expected")
        default: throw error("no value begins like this")
        }
    }

    private mutating func readWord(_ word: String, _ value: JSONValue) throws(JSONError) -> JSONValue {
        guard bytes[place...].starts(with: word.utf8) else { throw error("no value begins like this") }
        place += word.utf8.count
        return value
    }

    /// Reads an object or array. Returns its members, or elements without names; nothing unless `isKept`.
    private mutating func readStructure(isKept: Bool) throws(JSONError) -> [JSONMember] {
        let isObject = next == UInt8(ascii: "{")
        let end: Unicode.Scalar = isObject ? "}" : "]"
        var (members, names) = ([JSONMember](), SeenNames())
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.maximumDepth else { throw error("it is nested deeper than \(Self.maximumDepth) levels") }
        place += 1
        skipSpace()
        if take(end) { return [] }
        while true {
            let name = isObject ? try readName(&names) : ""
            let value = try readValue(isKept: isKept)
            if isKept { members.append(JSONMember(name: name, value: value)) }
            skipSpace()
            if take(end) { return members }
            guard take(",") else {
                throw error(next == nil ? "it ends inside an object or array" : "a comma was expected")
            }
            skipSpace()
        }
    }

    /// Reads a name that is not one of `names`, and the colon after it.
    private mutating func readName(_ names: inout SeenNames) throws(JSONError) -> String {
        guard next == UInt8(ascii: "\"") else { throw error("a name in quotes was expected") }
        let start = place
        let name = try readString()
        guard names.insert(name) else {
            place = start
            throw error("the name “\(name)” occurs twice in an object")
        }
        skipSpace()
        guard take(":") else { throw error("a colon was expected") }
        skipSpace()
        return name
    }

    private mutating func readNumber() throws(JSONError) -> JSONValue {
        let start = place
        _ = take("-")
        if !take("0") { try skipDigits() }
        let whole = place
        if take(".") { try skipDigits() }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            try skipDigits()
        }
        let text = String(decoding: bytes[start..<place], as: UTF8.self)
        // Only a double can be -0.
        if place == whole, text != "-0" { return Int64(text).map { .int($0) } ?? .number(text) }
        guard let double = Double(text), double.isFinite, !double.isZero || Self.isZero(text) else {
            return .number(text)
        }
        // A double represents any 15 digits.
        if text.utf8.count <= 15 && (double.isNormal || double.isZero) { return .double(double) }
        let shortest = double.description
        let isSame =
            text == shortest || DecimalValue(number: text).map { $0 == DecimalValue(number: shortest) } ?? false
        return .double(double, text: isSame ? nil : text)
    }

    /// Whether all digits before the exponent are 0.
    private static func isZero(_ number: String) -> Bool {
        let digits = number.utf8.prefix { $0 != UInt8(ascii: "e") && $0 != UInt8(ascii: "E") }
        return !digits.contains { $0.isDigit && $0 != UInt8(ascii: "0") }
    }

    private mutating func skipDigits() throws(JSONError) {
        let start = place
        while let byte = next, byte.isDigit { place += 1 }
        guard place > start else { throw error("a digit was expected") }
    }

    private mutating func readString() throws(JSONError) -> String {
        place += 1
        let start = place
        while let byte = next, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\"), byte >= 0x20 { place += 1 }
        if take("\"") { return String(decoding: bytes[start..<(place - 1)], as: UTF8.self) }
        var text = Array(bytes[start..<place])
        while let byte = next {
            if take("\"") { return String(decoding: text, as: UTF8.self) }
            switch byte {
            case UInt8(ascii: "\\"): try readEscape(&text)
            case 0..<0x20:
                let digits = String(byte, radix: 16).zeroPadded(to: 4)
                throw error("a string has a control character: write it as \\u\(digits)")
            default:
                text.append(byte)
                place += 1
            }
        }
        throw error("it ends inside a string")
    }

    private mutating func readEscape(_ text: inout [UInt8]) throws(JSONError) {
        place += 1
        let letter = try next.orThrow(error("it ends inside a string"))
        if take("u") {
            text += String(Character(try readScalar())).utf8
        } else if let byte = Self.escapes[letter] {
            text.append(byte)
            place += 1
        } else {
            throw error("a string has an unknown escape")
        }
    }

    private static let escapes = [UInt8: UInt8](
        uniqueKeysWithValues: zip("\"\\/bfnrt".utf8, "\"\\/\u{8}\u{c}\n\r\t".utf8))

    private mutating func readScalar() throws(JSONError) -> Unicode.Scalar {
        let first = try readUnit()
        if let scalar = Unicode.Scalar(first) { return scalar }
        let isFollowed = first < 0xDC00 && take("\\") && take("u")
        let second = isFollowed ? try readUnit() : 0
        guard (0xDC00..<0xE000).contains(second) else { throw error("a string has half of a surrogate pair") }
        return try Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00)).orThrow(
            error("a string has half of a surrogate pair"))
    }

    private mutating func readUnit() throws(JSONError) -> UInt32 {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            let digit = try next.flatMap { Character(Unicode.Scalar($0)).hexDigitValue }.orThrow(
                error("four hexadecimal digits were expected"))
            unit = unit << 4 | UInt32(digit)
            place += 1
        }
        return unit
    }
}
