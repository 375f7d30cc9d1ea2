// Conversion between JSON and an attribute's values: exact or not at all.

package import Annals
internal import FoundationEssentials

package enum ValueConversion {
    /// The value of that type that a JSON value represents exactly; nil without one. JSON null is `null` in every type.
    ///
    /// Dates are ISO 8601 strings in UTC, UUIDs strings, data base 64, decimals numbers or strings, and objects strings
    /// such as `1:42`.
    package static func value(_ json: JSONValue, as type: AttributeType) -> Value? {
        if json == .null { return .null }
        if case .field(let text) = json { return value(field: text, as: type) }
        switch (type, json) {
        case (.bool, .bool(let bool)): return .bool(bool)
        case (.int, .int(let int)): return .int(int)
        case (.double, .double(let double, _)): return .double(double)
        case (.double, .int(let int)): return Double(exactly: int).map { .double($0) }
        case (.double, .string(let text)): return JSONText.notFinite[text].map { .double($0) }
        case (.string, .string(let text)): return .string(text)
        case (.json, _): return .json(JSONText.unwrapped(json) ?? JSONText.text(json))
        case (.date, .string(let text)): return DateText.date(text).map { .date($0) }
        case (.uuid, .string(let text)): return UUID(uuidString: text).map { .uuid($0) }
        case (.data, .string(let text)): return Data(base64Encoded: text).map { .data($0) }
        case (.decimal, .int(let int)): return .decimal(Decimal(int))
        case (.decimal, .double(let double, let text)): return decimal(text ?? double.description)
        case (.decimal, .number(let text)): return decimal(text)
        case (.decimal, .string("NaN")): return .decimal(.nan)
        case (.decimal, .string(let text)):
            // JSON may have blanks around a number.
            guard let first = text.utf8.first, first > 0x20, text.utf8.last?.isDigit == true else { return nil }
            return (try? JSONReader.value(text)).flatMap { value($0, as: .decimal) }
        case (.object, .string(let text)): return ObjectID(text).map { .object($0) }
        case (.orderedObjects, _): return objects(json).map { .orderedObjects($0) }
        case (.objects, _): return objects(json).map { .objects($0) }
        default: return nil
        }
    }

    /// The value of that type that a text without JSON's quotes represents.
    private static func value(field text: String, as type: AttributeType) -> Value? {
        if type == .string { return .string(text) }
        if let json = try? JSONReader.value(text), json != .null, let value = value(json, as: type) { return value }
        if type == .json { return .json(JSONText.string(text)) }
        return value(.string(text), as: type) ?? (type == .date ? DateText.moment(text).map { .date($0) } : nil)
    }

    private static func decimal(_ text: String) -> Value? { DecimalValue(number: text)?.decimal.map { .decimal($0) } }

    private static func objects(_ json: JSONValue) -> [ObjectID]? {
        guard let elements = json.elements else { return nil }
        let objects = elements.compactMap { $0.text.flatMap { ObjectID($0) } }
        return objects.count == elements.count ? objects : nil
    }

    /// Appends the JSON of a value. `null` becomes JSON null.
    package static func append(_ value: Value, to bytes: inout [UInt8]) {
        switch value {
        case .null: bytes += "null".utf8
        case .bool(let bool): bytes += (bool ? "true" : "false").utf8
        case .int(let int): bytes += String(int).utf8
        case .double(let double): bytes += JSONText.double(double).utf8
        case .string(let text): JSONText.appendString(text, to: &bytes)
        case .data(let data): JSONText.appendString(data.base64EncodedString(), to: &bytes)
        case .date(let date): JSONText.appendString(DateText.text(date), to: &bytes)
        case .uuid(let uuid): JSONText.appendString(uuid.uuidString, to: &bytes)
        case .decimal(let decimal): bytes += (decimal.isNaN ? "\"NaN\"" : decimal.description).utf8
        case .json(let text): JSONText.append(json: text, to: &bytes)
        case .object(let object): JSONText.appendString(object.description, to: &bytes)
        case .orderedObjects(let objects), .objects(let objects):
            bytes += ("[" + objects.map { "\"\($0)\"" }.joined(separator: ",") + "]").utf8
        }
    }

    static func text(_ value: Value) -> String {
        var bytes: [UInt8] = []
        append(value, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The value as one field of a table: strings, dates and so on without quotes.
    package static func field(_ value: Value) -> String {
        switch value {
        case .null: return ""
        case .string(let text): return text
        case .json: return text(value)
        default:
            // Texts of other types have no escapes.
            let text = text(value)
            return text.hasPrefix("\"") ? String(text.dropFirst().dropLast()) : text
        }
    }
}

extension DecimalValue {
    /// The number that the text of a JSON number denotes; nil if a decimal cannot represent it.
    init?(number text: String) {
        let parts = text.utf8.split(maxSplits: 1) { $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E") }
        let halves = parts[0].split(separator: UInt8(ascii: "."))
        var digits = halves.joined().filter(\.isDigit)
        let zeros = digits.reversed().prefix { $0 == UInt8(ascii: "0") }.count
        digits.removeLast(zeros)
        guard !digits.isEmpty else {
            self = .zero
            return
        }
        let written = parts.count == 2 ? Int(String(decoding: parts[1], as: UTF8.self)) : 0
        let places = (halves.count == 2 ? halves[1].count : 0) - zeros
        guard let mantissa = UInt128(String(decoding: digits, as: UTF8.self)),
            case (let exponent, false)? = written?.subtractingReportingOverflow(places)
        else { return nil }
        self.init(isNegative: text.hasPrefix("-"), mantissa: mantissa, exponent: exponent)
    }
}
