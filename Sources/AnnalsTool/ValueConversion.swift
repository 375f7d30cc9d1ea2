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
        case (.decimal, .string("NaN")): return .decimal(.nan)
        case (.decimal, .number(let text)), (.decimal, .string(let text)): return decimal(text)
        case (.object, .string(let text)): return ObjectID(text).map { .object($0) }
        case (.orderedObjects, .structure(let text)): return objects(text).map { .orderedObjects($0) }
        case (.objects, .structure(let text)): return objects(text).map { .objects($0) }
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

    private static func decimal(_ text: String) -> Value? { DecimalText(text)?.decimal.map { .decimal($0) } }

    private static func objects(_ text: String) -> [ObjectID]? {
        guard let elements = try? JSONReader.elements(text) else { return nil }
        let objects = elements.compactMap { if case .string(let text) = $0 { ObjectID(text) } else { nil } }
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
        case .data(let data): return data.base64EncodedString()
        case .date(let date): return DateText.text(date)
        case .uuid(let uuid): return uuid.uuidString
        case .object(let object): return object.description
        case .double(let double) where !double.isFinite: return String(JSONText.double(double).dropFirst().dropLast())
        default: return text(value)
        }
    }
}

/// The digits without zeros at either end, and their distance from the point. Zero has no digits.
struct DecimalText: Equatable {
    private(set) var isNegative = false
    private(set) var digits: [UInt8] = []
    private(set) var exponent = 0

    /// Nil for text that is not a JSON number, and if the exponent is too large to count.
    init?(_ text: String) {
        var rest = Array(text.utf8)[...]
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative { rest.removeFirst() }
        let whole = Self.parseDigits(&rest)
        guard !whole.isEmpty, whole.count == 1 || whole.first != UInt8(ascii: "0") else { return nil }
        var fraction: ArraySlice<UInt8> = []
        if rest.first == UInt8(ascii: ".") {
            rest.removeFirst()
            fraction = Self.parseDigits(&rest)
            if fraction.isEmpty { return nil }
        }
        var digits = Array(whole + fraction)
        let isZero = digits.allSatisfy { $0 == UInt8(ascii: "0") }
        guard let written = Self.parseExponent(&rest, isZero: isZero), rest.isEmpty else { return nil }
        if isZero { return }
        let (exponent, overflow) = written.subtractingReportingOverflow(fraction.count)
        guard !overflow else { return nil }
        self.exponent = exponent
        while digits.last == UInt8(ascii: "0") {
            digits.removeLast()
            let (next, overflow) = self.exponent.addingReportingOverflow(1)
            guard !overflow else { return nil }
            self.exponent = next
        }
        self.isNegative = isNegative
        self.digits = Array(digits.drop { $0 == UInt8(ascii: "0") })
    }

    private static func parseDigits(_ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        rest = rest.dropFirst(digits.count)
        return digits
    }

    private static func parseExponent(_ rest: inout ArraySlice<UInt8>, isZero: Bool) -> Int? {
        guard rest.first == UInt8(ascii: "e") || rest.first == UInt8(ascii: "E") else { return 0 }
        rest.removeFirst()
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") { rest.removeFirst() }
        let digits = parseDigits(&rest)
        if digits.isEmpty { return nil }
        if isZero { return 0 }
        return Int((isNegative ? "-" : "") + String(decoding: digits, as: UTF8.self))
    }

    /// The `Decimal` that equals this number; nil without one.
    var decimal: Decimal? {
        if digits.isEmpty { return Decimal(0) }
        // A `Decimal` has up to 38 digits and an exponent of up to 127. A larger exponent needs zeros as digits.
        let zeros = max(0, exponent - 127)
        guard digits.count + zeros <= 39 else { return nil }
        let all = digits + [UInt8](repeating: UInt8(ascii: "0"), count: zeros)
        let text = (isNegative ? "-" : "") + String(decoding: all, as: UTF8.self) + "e\(exponent - zeros)"
        guard let decimal = Decimal(string: text), DecimalText(decimal.description) == self else { return nil }
        return decimal
    }
}
