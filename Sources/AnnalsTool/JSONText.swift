// Writes JSON: UTF-8, always the same text for the same value, without control characters for a terminal.
//
// A double is the shortest text that reads as the same bits, including -0.0. JSON has no text for NaN and the
// infinities: they become the strings "NaN", "Infinity" and "-Infinity", because null would mean a missing value.

internal import Annals

package enum JSONText {
    package static func appendString(_ text: String, to bytes: inout [UInt8]) {
        var text = text
        text.withUTF8 { appendString(UnsafeRawBufferPointer($0), to: &bytes) }
    }

    /// The bytes must be UTF-8.
    package static func appendString(_ utf8: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        // Nearly every text is printable ASCII without quotes, and can be copied.
        if utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) {
            bytes += utf8
        } else {
            for scalar in String(decoding: utf8, as: UTF8.self).unicodeScalars { append(scalar, to: &bytes) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func append(_ scalar: Unicode.Scalar, to bytes: inout [UInt8]) {
        switch scalar {
        case "\"": bytes += "\\\"".utf8
        case "\\": bytes += "\\\\".utf8
        case "\n": bytes += "\\n".utf8
        case "\r": bytes += "\\r".utf8
        case "\t": bytes += "\\t".utf8
        case _ where Output.isCommand(scalar): appendEscape(scalar, to: &bytes)
        default: bytes += UTF8.encode(scalar)!
        }
    }

    private static func appendEscape(_ scalar: Unicode.Scalar, to bytes: inout [UInt8]) {
        for unit in UTF16.encode(scalar)! { bytes += ("\\u" + String(unit, radix: 16).zeroPadded(to: 4)).utf8 }
    }

    package static func string(_ text: String) -> String {
        var bytes: [UInt8] = []
        appendString(text, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The doubles that JSON has no text for, by the strings that they become.
    static let notFinite: [String: Double] = ["NaN": .nan, "Infinity": .infinity, "-Infinity": -.infinity]

    package static func double(_ double: Double) -> String {
        if double.isFinite { return double.description }
        return double.isNaN ? "\"NaN\"" : double < 0 ? "\"-Infinity\"" : "\"Infinity\""
    }

    /// The text of a JSON attribute. A text that is not JSON becomes an object with the one member `notJSON`, so that
    /// it is not taken for a string. A text that looks like such an object is wrapped too.
    package static func append(json: String, to bytes: inout [UInt8]) {
        guard let value = try? JSONReader.value(json), unwrapped(value) == nil else {
            bytes += "{\(string(notJSON)):\(string(json))}".utf8
            return
        }
        appendRaw(json, to: &bytes)
    }

    private static let notJSON = "_notJSON"

    /// The text that a dump has wrapped; nil for any other value.
    package static func unwrapped(_ value: JSONValue) -> String? {
        guard case .structure(let text) = value, text.utf8.first == UInt8(ascii: "{"),
            let members = try? JSONReader.object(Array(text.utf8)), members.count == 1, members[0].name == notJSON
        else { return nil }
        return members[0].value.text
    }

    /// Appends a JSON text, without control characters for a terminal. Such characters occur only in its strings, where
    /// an escape means the same. Line ends between values become spaces, so the text stays on one line.
    package static func appendRaw(_ json: String, to bytes: inout [UInt8]) {
        if json.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7F }) {
            bytes += json.utf8
            return
        }
        for scalar in json.unicodeScalars {
            switch scalar {
            case "\n", "\r", "\t": bytes.append(0x20)
            case _ where Output.isCommand(scalar): appendEscape(scalar, to: &bytes)
            default: bytes += UTF8.encode(scalar)!
            }
        }
    }

    package static func text(_ value: JSONValue) -> String {
        switch value {
        case .null: "null"
        case .bool(let bool): bool ? "true" : "false"
        case .int(let int): String(int)
        case .double(let double, let text): text ?? self.double(double)
        case .number(let text), .structure(let text): text
        case .string(let text), .field(let text): string(text)
        }
    }
}

protocol JSONPart { var json: String { get } }

/// A JSON object while it is built. Members stay in the order in which they are added.
struct JSONLine: JSONPart, ExpressibleByDictionaryLiteral {
    private var members: [String] = []

    init(_ members: [(String, any JSONPart)]) { self.members = members.map { $0.json + ":" + $1.json } }
    init(dictionaryLiteral members: (String, any JSONPart)...) { self.init(members) }

    /// Only the members that are not null.
    init(present members: KeyValuePairs<String, any JSONPart>) {
        self.init(members.filter { $0.value.json != "null" }.map { ($0.key, $0.value) })
    }

    static func + (left: JSONLine, right: JSONLine) -> JSONLine {
        var line = left
        line.members += right.members
        return line
    }

    var json: String { "{" + members.joined(separator: ",") + "}" }
}

extension String: JSONPart { var json: String { JSONText.string(self) } }
extension Value: JSONPart { var json: String { ValueConversion.text(self) } }
extension Bool: JSONPart { var json: String { description } }
extension Int: JSONPart { var json: String { description } }
extension UInt16: JSONPart { var json: String { description } }
extension UInt32: JSONPart { var json: String { description } }
extension UInt64: JSONPart { var json: String { description } }
extension Optional: JSONPart where Wrapped: JSONPart { var json: String { map(\.json) ?? "null" } }

extension Array: JSONPart where Element: JSONPart {
    var json: String { "[" + map(\.json).joined(separator: ",") + "]" }
}
