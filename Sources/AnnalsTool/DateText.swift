// Dates of objects as text: ISO 8601 in UTC, with as many digits as it takes to read back exactly the same date.

package import FoundationEssentials

package enum DateText {
    /// The fewest digits after the point, and the most.
    private static let digits = (least: 6, most: 25)
    /// The moment from which a `Date` counts, in seconds since 1970 and as text.
    private static let reference: (seconds: Int64, text: String) = (978_307_200, "2001-01-01T00:00:00Z")

    // MARK: Writing

    /// A text such as `2026-01-02T03:04:05.000006Z`. Other dates are the seconds since 2001, such as
    /// `2001-01-01T00:00:00Z+1e+20s`: those before the year 0, after 9999, or less than a nanosecond from that moment,
    /// and minus zero. Dates that are no moment are `NaN`, `Infinity` and `-Infinity`.
    package static func text(_ date: Date) -> String {
        let seconds = date.timeIntervalSinceReferenceDate
        if !seconds.isFinite { return String(JSONText.double(seconds).dropFirst().dropLast()) }
        return calendarText(seconds) ?? reference.text + (seconds.sign == .minus ? "" : "+") + "\(seconds)s"
    }

    /// Nil if the calendar's text would need too many digits. The digits are those of the shortest number that is read
    /// as these seconds.
    private static func calendarText(_ seconds: Double) -> String? {
        guard abs(seconds) < 1e12, seconds != 0 || seconds.sign == .plus else { return nil }
        let parts = "\(seconds.magnitude)".split(separator: "e")
        let point = parts[0].firstIndex(of: ".") ?? parts[0].endIndex
        let fraction = parts[0][point...].dropFirst()
        guard let exponent = parts.count == 2 ? Int(parts[1]) : 0, let number = Int128(parts[0][..<point] + fraction)
        else { return nil }
        let count = max(digits.least, fraction.count - exponent)
        guard count <= digits.most else { return nil }
        let unit = power(count)
        let units = number * power(count - fraction.count + exponent) * (seconds < 0 ? -1 : 1)
        let rest = ((units % unit) + unit) % unit
        let text = Timestamp.text(
            seconds: Int64((units - rest) / unit) + reference.seconds, fraction: String(rest).zeroPadded(to: count))
        return text.utf8.first.map { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "+") } == false ? text : nil
    }

    private static func power(_ exponent: Int) -> Int128 { (0..<exponent).reduce(1) { power, _ in power * 10 } }

    // MARK: Reading

    /// The date of a text that `text` writes, of any number of digits up to 25: the nearest one to that moment. Nil for
    /// anything else.
    package static func date(_ text: String) -> Date? {
        if let seconds = JSONText.notFinite[text] { return Date(timeIntervalSinceReferenceDate: seconds) }
        if text.hasPrefix(reference.text), text.hasSuffix("s") {
            guard let seconds = text.dropFirst(reference.text.utf8.count).dropLast().wholeMatch(of: /[+-][0-9.e+-]+/)
            else { return nil }
            return Double(seconds.output).flatMap { $0.isFinite ? Date(timeIntervalSinceReferenceDate: $0) : nil }
        }
        return Timestamp.parts(text).flatMap { date(seconds: $0.seconds, fraction: $0.fraction) }
    }

    /// The date of a moment as a user writes it: as `Timestamp.moment`, but UTC without a zone, as dates are printed,
    /// and with up to 25 digits.
    package static func moment(_ text: String) -> Date? {
        Timestamp.momentParts(text, isLocal: false).flatMap { date(seconds: $0.seconds, fraction: $0.fraction) }
            ?? date(text)
    }

    private static func date(seconds: Int64, fraction: String) -> Date? {
        guard fraction.utf8.count <= digits.most, let rest = Int128("0" + fraction) else { return nil }
        let units = Int128(seconds - reference.seconds) * power(fraction.utf8.count) + rest
        return Double("\(units)e-\(fraction.utf8.count)").map { Date(timeIntervalSinceReferenceDate: $0) }
    }
}
