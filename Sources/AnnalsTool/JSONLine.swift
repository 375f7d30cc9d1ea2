// JSON for other programs: one object a line, ASCII only, so that nothing needs escaping again.

/// A value of a JSON object.
protocol JSONPart {
    /// The value as JSON.
    var json: String { get }
}

/// A JSON object while it is built. Members stay in the order in which they are added.
struct JSONLine: JSONPart, ExpressibleByDictionaryLiteral {
    private var members: [String] = []

    init() {}

    init(dictionaryLiteral members: (String, any JSONPart)...) {
        for (name, value) in members { add(name, value) }
    }

    static func + (left: JSONLine, right: JSONLine) -> JSONLine {
        var line = left
        line.members += right.members
        return line
    }

    var json: String { text }
    var text: String { "{" + members.joined(separator: ",") + "}" }

    mutating func add(_ name: String, _ value: any JSONPart) { addRaw(name, value.json) }

    /// Adds those of the members that are not null.
    mutating func addPresent(_ members: KeyValuePairs<String, any JSONPart>) {
        for (name, value) in members where value.json != "null" { add(name, value) }
    }

    /// Adds a value that is JSON already.
    mutating func addRaw(_ name: String, _ value: String) { members.append(name.json + ":" + value) }
}

extension String: JSONPart {
    /// Writes control characters and everything outside ASCII as `\uXXXX`, which any JSON reader understands.
    var json: String {
        var quoted = "\""
        for unit in utf16 {
            switch unit {
            case 0x22: quoted += "\\\""
            case 0x5C: quoted += "\\\\"
            case 0x20...0x7E: quoted.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
            default: quoted += "\\u" + String(unit, radix: 16).zeroPadded(to: 4)
            }
        }
        return quoted + "\""
    }
}

/// A text in UTF-8; null for nil.
struct UTF8Text: JSONPart {
    let json: String
    init(_ text: String?) { json = text.map(JSONText.string) ?? "null" }
}

/// A value that is JSON already.
struct RawJSON: JSONPart {
    let json: String
    init(_ json: String) { self.json = json }
}

extension Bool: JSONPart { var json: String { description } }
extension Int: JSONPart { var json: String { description } }
extension UInt16: JSONPart { var json: String { description } }
extension UInt32: JSONPart { var json: String { description } }
extension UInt64: JSONPart { var json: String { description } }

extension Optional: JSONPart where Wrapped: JSONPart { var json: String { map(\.json) ?? "null" } }

extension Array: JSONPart where Element: JSONPart {
    var json: String { "[" + map(\.json).joined(separator: ",") + "]" }
}

/// A checksum or tag as 16 hexadecimal digits, because many JSON readers round large numbers.
func hexadecimal(_ number: UInt64) -> String { String(number, radix: 16).zeroPadded(to: 16) }
