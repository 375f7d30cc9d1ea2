// Times of transactions in microseconds since 1970, as text in UTC and in local time; and dates of objects as text.

internal import Annals
package import FoundationEssentials

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

package enum Timestamp {
    private static let perSecond: Int64 = 1_000_000

    /// A text such as `2026-01-02T03:04:05.000006Z`. Years outside 0 to 9999 have a sign and all their digits.
    package static func text(_ microseconds: Int64) -> String {
        let seconds = seconds(microseconds)
        // The product may overflow, and the difference is still right.
        let rest = microseconds &- seconds &* perSecond
        return text(seconds: seconds, fraction: String(rest).zeroPadded(to: 6))
    }

    /// The nearest microsecond; the nearest possible time for a date that is too far away.
    static func text(_ date: Date) -> String { text(microseconds(date)) }

    /// The same for seconds since 1970 and the digits after the point.
    static func text(seconds: Int64, fraction: String) -> String {
        text(fields(of: seconds, gmtime_r) ?? tm(), "T") + "." + fraction + "Z"
    }

    private static func text(_ fields: tm, _ separator: String) -> String {
        let numbers = numbers(fields)
        let digits = numbers.enumerated().map { String(abs($1)).zeroPadded(to: $0 == 0 ? 4 : 2) }
        return (numbers[0] < 0 ? "-" : numbers[0] > 9999 ? "+" : "") + digits[...2].joined(separator: "-") + separator
            + digits[3...].joined(separator: ":")
    }

    /// The year, the month from 1 and so on, down to the second.
    private static func numbers(_ fields: tm) -> [Int32] {
        [fields.tm_year + 1900, fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec]
    }

    /// Parses the texts of `text` for the years 0 to 9999, with at most six digits after the point.
    package static func microseconds(_ text: String) -> Int64? { parts(text).flatMap(microseconds) }

    private static func microseconds(_ seconds: Int64, _ fraction: String) -> Int64? {
        guard fraction.utf8.count <= 6, let rest = Int64("0" + fraction) else { return nil }
        return seconds * perSecond + (fraction.utf8.count..<6).reduce(rest) { value, _ in value * 10 }
    }

    /// Seconds since 1970, and the digits after the point if there are any.
    static func parts(_ text: String) -> (seconds: Int64, fraction: String)? {
        let bytes = Array(text.utf8)
        let form = "0000-00-00T00:00:00".utf8
        guard bytes.count > form.count, bytes.last == UInt8(ascii: "Z"),
            zip(bytes, form).allSatisfy({ $1.isDigit ? $0.isDigit : $0 == $1 })
        else { return nil }
        let fraction = bytes[form.count...].dropLast()
        guard fraction.isEmpty || fraction.count > 1 && fraction.first == UInt8(ascii: "."),
            fraction.dropFirst().allSatisfy(\.isDigit)
        else { return nil }
        let numbers = bytes[..<form.count].split { !$0.isDigit }.map { Int32(String(decoding: $0, as: UTF8.self)) ?? 0 }
        var fields = tm()
        (fields.tm_year, fields.tm_mon, fields.tm_mday) = (numbers[0] - 1900, numbers[1] - 1, numbers[2])
        (fields.tm_hour, fields.tm_min, fields.tm_sec) = (numbers[3], numbers[4], numbers[5])
        let seconds = Int64(timegm(&fields))
        // A day that the month does not have becomes another day, and so on.
        guard self.numbers(fields) == numbers else { return nil }
        return (seconds, String(decoding: fraction.dropFirst(), as: UTF8.self))
    }

    /// A text such as `2026-01-02 03:04:05`, in the time zone of the machine or of the variable TZ.
    package static func local(_ microseconds: Int64) -> String {
        guard let fields = fields(of: seconds(microseconds), localtime_r), (-1900...8099).contains(fields.tm_year)
        else { return text(microseconds) }
        return text(fields, " ")
    }

    static func local(_ date: Date) -> String { local(microseconds(date)) }

    /// The seconds since 1970 at which a clock in UTC shows what a local clock shows at that time.
    static func localSeconds(_ microseconds: Int64) -> Int64 {
        let seconds = seconds(microseconds)
        guard var fields = fields(of: seconds, localtime_r) else { return seconds }
        return Int64(timegm(&fields))
    }

    static func month(_ seconds: Int64) -> Int64 {
        let fields = fields(of: seconds, gmtime_r) ?? tm()
        return (Int64(fields.tm_year) + 1900) * 12 + Int64(fields.tm_mon)
    }

    /// The seconds since 1970 at which clocks in UTC show what local clocks show at `seconds`, the other way round.
    private static func fromLocal(_ seconds: Int64) -> Int64 {
        guard var fields = fields(of: seconds, gmtime_r) else { return seconds }
        fields.tm_isdst = -1
        return Int64(mktime(&fields))
    }

    /// The beginning of the local day that is so many days before the one of `now`, in microseconds since 1970.
    static func midnight(_ days: Int64, before now: Int64) -> Int64 {
        fromLocal((floorDivided(localSeconds(now), 86_400) - days) * 86_400) * perSecond
    }

    static var now: Int64 { RealEnvironment().wallClockMicroseconds() }

    private static func fields(
        of seconds: Int64, _ convert: (UnsafePointer<time_t>, UnsafeMutablePointer<tm>) -> UnsafeMutablePointer<tm>?
    ) -> tm? {
        var (time, fields) = (time_t(seconds), tm())
        return convert(&time, &fields) == nil ? nil : fields
    }

    private static func seconds(_ microseconds: Int64) -> Int64 { floorDivided(microseconds, perSecond) }

    private static func microseconds(_ date: Date) -> Int64 {
        Microseconds.from(date) ?? (date.timeIntervalSince1970 < 0 ? .min : .max)
    }

    /// Parses a moment as a user writes it: a date, or a date and a time, with or without seconds and a zone. Without a
    /// zone it is local. A date alone is the beginning of that day. Nil for anything else.
    package static func moment(_ text: String) -> Int64? { momentParts(text, isLocal: true).flatMap(microseconds) }

    /// - Parameter isLocal: Whether a moment without a zone is local. Otherwise it is UTC.
    static func momentParts(_ text: String, isLocal: Bool) -> (seconds: Int64, fraction: String)? {
        guard
            let match = text.wholeMatch(
                of: /(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?/),
            let local = parts("\(match.1)T\(match.2 ?? "00:00")\(match.3 ?? ":00")Z")
        else { return nil }
        guard let zone = match.4 else { return isLocal ? (fromLocal(local.seconds), local.fraction) : local }
        guard zone != "Z" else { return local }
        let digits = zone.filter(\.isNumber)
        guard let hours = Int64(digits.prefix(2)), let minutes = Int64(digits.suffix(2)), hours < 24, minutes < 60
        else { return nil }
        let offset = hours * 3600 + minutes * 60
        return (zone.hasPrefix("-") ? local.seconds + offset : local.seconds - offset, local.fraction)
    }

    static func floorDivided(_ number: Int64, _ divisor: Int64) -> Int64 {
        number / divisor - (number % divisor < 0 ? 1 : 0)
    }
}

extension String {
    func zeroPadded(to width: Int) -> String { String(repeating: "0", count: Swift.max(0, width - utf8.count)) + self }
}

package enum DateText {
    private static let digits = (least: 6, most: 25)
    /// The moment from which a `Date` counts, in seconds since 1970 and as text.
    private static let reference: (seconds: Int64, text: String) = (978_307_200, "2001-01-01T00:00:00Z")

    /// A text such as `2026-01-02T03:04:05.000006Z`. Other dates are the seconds since 2001, such as
    /// `2001-01-01T00:00:00Z+1e+20s`: those before the year 0, after 9999, or less than a nanosecond from that moment,
    /// and minus zero. Dates that are no moment are `NaN`, `Infinity` and `-Infinity`.
    package static func text(_ date: Date) -> String {
        let seconds = date.timeIntervalSinceReferenceDate
        if !seconds.isFinite { return String(JSONText.double(seconds).dropFirst().dropLast()) }
        return calendarText(seconds) ?? reference.text + (seconds.sign == .minus ? "" : "+") + "\(seconds)s"
    }

    /// Has the digits of the shortest number that is read as these seconds; nil if these are too many.
    private static func calendarText(_ seconds: Double) -> String? {
        guard abs(seconds) < 1e12, seconds != 0 || seconds.sign == .plus,
            let number = DecimalValue(number: seconds.description), number.exponent >= -digits.most
        else { return nil }
        let count = max(digits.least, -Int(number.exponent))
        let units = Int128(number.mantissa) * power(count + Int(number.exponent)) * (seconds < 0 ? -1 : 1)
        let rest = ((units % power(count)) + power(count)) % power(count)
        let text = Timestamp.text(
            seconds: Int64((units - rest) / power(count)) + reference.seconds,
            fraction: String(rest).zeroPadded(to: count))
        return text.hasPrefix("-") || text.hasPrefix("+") ? nil : text
    }

    private static func power(_ exponent: Int) -> Int128 { (0..<exponent).reduce(1) { power, _ in power * 10 } }

    /// The nearest date to the moment of a text that `text` writes, with up to 25 digits after the point.
    package static func date(_ text: String) -> Date? {
        if let seconds = JSONText.notFinite[text] { return Date(timeIntervalSinceReferenceDate: seconds) }
        if text.hasPrefix(reference.text), text.hasSuffix("s") {
            guard let seconds = text.dropFirst(reference.text.utf8.count).dropLast().wholeMatch(of: /[+-][0-9.e+-]+/)
            else { return nil }
            return Double(seconds.output).flatMap { $0.isFinite ? Date(timeIntervalSinceReferenceDate: $0) : nil }
        }
        return Timestamp.parts(text).flatMap { date(seconds: $0.seconds, fraction: $0.fraction) }
    }

    /// As `Timestamp.moment`, but UTC without a zone, as dates are printed, and with up to 25 digits.
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
