// JSON for other programs: one object a line, ASCII only, so that nothing needs escaping again.

/// A JSON object while it is built. Fields stay in the order in which they are added.
struct JSONLine {
    private var fields: [String] = []

    var text: String { "{" + fields.joined(separator: ",") + "}" }

    mutating func add(_ name: String, _ text: String) { addRaw(name, Self.quoted(text)) }
    mutating func add(_ name: String, _ number: UInt64?) { addRaw(name, number.map { String($0) } ?? "null") }
    mutating func add(_ name: String, _ isTrue: Bool) { addRaw(name, isTrue ? "true" : "false") }
    mutating func add(_ name: String, _ object: JSONLine?) { addRaw(name, object?.text ?? "null") }
    mutating func add(_ name: String, _ objects: [JSONLine]) {
        addRaw(name, "[" + objects.map(\.text).joined(separator: ",") + "]")
    }

    /// Adds a value that is JSON already.
    mutating func addRaw(_ name: String, _ value: String) { fields.append(Self.quoted(name) + ":" + value) }

    /// Writes control characters and everything outside ASCII as `\uXXXX`, which any JSON reader understands.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for unit in text.utf16 {
            switch unit {
            case 0x22: quoted += "\\\""
            case 0x5C: quoted += "\\\\"
            case 0x20...0x7E: quoted.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
            default:
                let digits = String(unit, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return quoted + "\""
    }
}

/// A checksum or tag as 16 hexadecimal digits, because many JSON readers round large numbers.
func hexadecimal(_ number: UInt64) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}
