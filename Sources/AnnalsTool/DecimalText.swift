// The value of a JSON number, independent of any type. It determines whether a type can hold the number.

internal import FoundationEssentials

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
