// Times of transactions in ISO 8601, in UTC and to the microsecond, converted from and to microseconds since 1970; and
// in local time, for people.

internal import FoundationEssentials

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

package enum Timestamp {
    private static let perSecond: Int64 = 1_000_000
    private static let perDay: Int64 = 86_400

    /// A text such as `2026-01-02T03:04:05.000006Z`. Years outside 0 to 9999 have a sign and as many digits as they
    /// need.
    package static func text(_ microseconds: Int64) -> String {
        let seconds = floorDivided(microseconds, perSecond)
        let rest = microseconds % perSecond
        return text(seconds: seconds, fraction: padded(rest < 0 ? rest + perSecond : rest, 6))
    }

    /// The same for seconds since 1970 and the digits after the point.
    static func text(seconds: Int64, fraction: String) -> String {
        let day = floorDivided(seconds, perDay)
        let rest = seconds - day * perDay
        let (year, month, dayOfMonth) = civil(day)
        let sign = year < 0 ? "-" : year > 9999 ? "+" : ""
        return sign + padded(abs(year), 4) + "-" + padded(month, 2) + "-" + padded(dayOfMonth, 2) + "T"
            + padded(rest / 3600, 2) + ":" + padded(rest / 60 % 60, 2) + ":" + padded(rest % 60, 2) + "."
            + fraction + "Z"
    }

    /// Parses the texts of `text` for the years 0 to 9999, with a fraction of up to six digits or none. Nil for
    /// anything else.
    package static func microseconds(_ text: String) -> Int64? { parts(text).flatMap(microseconds) }

    private static func microseconds(_ seconds: Int64, _ fraction: String) -> Int64? {
        guard fraction.utf8.count <= 6, let rest = Int64("0" + fraction) else { return nil }
        return seconds * perSecond + (fraction.utf8.count..<6).reduce(rest) { value, _ in value * 10 }
    }

    /// Seconds since 1970, and the digits after the point if there are any.
    static func parts(_ text: String) -> (seconds: Int64, fraction: String)? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z"), bytes[4] == UInt8(ascii: "-"),
            bytes[7] == UInt8(ascii: "-"), bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"),
            bytes[16] == UInt8(ascii: ":"),
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
            let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]), let second = number(bytes[17..<19]),
            let fraction = fraction(bytes[19..<(bytes.count - 1)]),
            (1...12).contains(month), hour < 24, minute < 60, second < 60
        else { return nil }
        let days = days(year, month, day)
        // A day that the month does not have becomes another day.
        guard civil(days) == (year, month, day) else { return nil }
        return (days * perDay + hour * 3600 + minute * 60 + second, fraction)
    }

    // MARK: Local time

    /// A text such as `2026-01-02 03:04:05`, in the time zone of the machine or of the variable TZ.
    package static func local(_ microseconds: Int64) -> String {
        var (seconds, fields) = (time_t(floorDivided(microseconds, perSecond)), tm())
        guard localtime_r(&seconds, &fields) != nil, (-1900...8099).contains(fields.tm_year) else {
            return text(microseconds)
        }
        let parts = [fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec].map {
            padded(Int64($0), 2)
        }
        return "\(padded(Int64(fields.tm_year) + 1900, 4))-\(parts[0])-\(parts[1]) \(parts[2]):\(parts[3]):\(parts[4])"
    }

    /// The seconds since 1970 at which clocks in UTC show what local clocks show at `seconds`, the other way round.
    private static func fromLocal(_ seconds: Int64) -> Int64 {
        var (time, fields) = (time_t(seconds), tm())
        guard gmtime_r(&time, &fields) != nil else { return seconds }
        fields.tm_isdst = -1
        return Int64(mktime(&fields))
    }

    /// The beginning of a local day, in microseconds since 1970.
    ///
    /// - Parameter days: How many days before the one of `now`.
    static func midnight(_ days: Int32, before now: Int64) -> Int64 {
        var (seconds, fields) = (time_t(floorDivided(now, perSecond)), tm())
        guard localtime_r(&seconds, &fields) != nil else { return now }
        (fields.tm_hour, fields.tm_min, fields.tm_sec, fields.tm_isdst) = (0, 0, 0, -1)
        fields.tm_mday -= days
        return Int64(mktime(&fields)) * perSecond
    }

    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * perSecond + Int64(time.tv_nsec) / 1000
    }

    // MARK: As a user writes it

    /// The store rounds times to the nearest microsecond, so this one survives unchanged.
    static func date(_ microseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(microseconds) / 1e6) }

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

    private static func fraction(_ bytes: ArraySlice<UInt8>) -> String? {
        guard let point = bytes.first else { return "" }
        let digits = bytes.dropFirst()
        guard point == UInt8(ascii: "."), !digits.isEmpty, areDigits(digits) else { return nil }
        return String(decoding: digits, as: UTF8.self)
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int64? {
        areDigits(bytes) ? Int64(String(decoding: bytes, as: UTF8.self)) : nil
    }

    private static func areDigits(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static func padded(_ number: Int64, _ width: Int) -> String { String(number).zeroPadded(to: width) }

    static func floorDivided(_ number: Int64, _ divisor: Int64) -> Int64 {
        let quotient = number / divisor
        return number % divisor < 0 ? quotient - 1 : quotient
    }

    // The proleptic Gregorian calendar, in eras of 400 years that begin on the first of March of a year 0.
    private static let daysOfEra: Int64 = 146_097
    private static let daysBefore1970: Int64 = 719_468

    private static func civil(_ days: Int64) -> (Int64, Int64, Int64) {
        let shifted = days + daysBefore1970
        let era = floorDivided(shifted, daysOfEra)
        let day = shifted - era * daysOfEra
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365
        let dayOfYear = day - (365 * year + year / 4 - year / 100)
        let month = (5 * dayOfYear + 2) / 153
        let calendarMonth = month < 10 ? month + 3 : month - 9
        return (year + era * 400 + (calendarMonth <= 2 ? 1 : 0), calendarMonth, dayOfYear - (153 * month + 2) / 5 + 1)
    }

    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = floorDivided(shifted, 400)
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * daysOfEra + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - daysBefore1970
    }
}

extension String {
    func zeroPadded(to width: Int) -> String { String(repeating: "0", count: Swift.max(0, width - utf8.count)) + self }
}
