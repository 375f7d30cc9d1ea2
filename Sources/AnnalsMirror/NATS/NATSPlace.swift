// A place in a stream, and the times of the server that it is made of.

/// The place after a message of a stream.
package struct NATSPlace: Equatable, Sendable {
    /// When the stream was created, in nanoseconds since 1970: its identity.
    package var created: UInt64
    /// The sequence number of the last message before the place; 0 before the first.
    package var sequence: UInt64
    /// When that message was stored, in nanoseconds; 0 if unknown. A server that lost the end of a stream gives the
    /// number to another message, with another time.
    package var stored: UInt64

    package init(created: UInt64, sequence: UInt64, stored: UInt64 = 0) {
        self.created = created
        self.sequence = sequence
        self.stored = stored
    }

    /// Nil if the text is not a place of this engine.
    package init?(_ place: CourierPlace) {
        let words = place.text.split(separator: ".", omittingEmptySubsequences: false)
        guard words.count == 4, words[0] == "n", let created = UInt64(words[1]), let sequence = UInt64(words[2]),
            let stored = UInt64(words[3])
        else { return nil }
        self.init(created: created, sequence: sequence, stored: stored)
    }

    package var courierPlace: CourierPlace { CourierPlace("n.\(created).\(sequence).\(stored)") }
}

/// Times as the server writes them.
package enum NATSTime {
    /// Nanoseconds since 1970 of a text like `2026-01-31T12:00:00.123456789Z`; nil for other texts and earlier times.
    package static func nanoseconds(_ text: String) -> UInt64? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes[4] == dash, bytes[7] == dash, bytes[10] | 0x20 == UInt8(ascii: "t"),
            bytes[13] == colon, bytes[16] == colon,
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
            let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]), let second = number(bytes[17..<19]),
            year >= 1970, year < 2500, (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second <= 60
        else { return nil }
        var rest = bytes[19...]
        var fraction = 0
        if rest.first == UInt8(ascii: ".") {
            let digits = rest.dropFirst().prefix { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
            guard let value = number(digits), digits.count <= 9 else { return nil }
            fraction = (digits.count..<9).reduce(value) { result, _ in result * 10 }
            rest = rest[digits.endIndex...]
        }
        guard let offset = offsetSeconds(rest) else { return nil }
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
        guard seconds >= 0 else { return nil }
        return UInt64(seconds) * 1_000_000_000 + UInt64(fraction)
    }

    private static let dash = UInt8(ascii: "-")
    private static let colon = UInt8(ascii: ":")

    private static func offsetSeconds(_ text: ArraySlice<UInt8>) -> Int? {
        let bytes = Array(text)
        if bytes.count == 1 { return bytes[0] | 0x20 == UInt8(ascii: "z") ? 0 : nil }
        guard bytes.count == 6, bytes[0] == dash || bytes[0] == UInt8(ascii: "+"), bytes[3] == colon,
            let hours = number(bytes[1..<3]), let minutes = number(bytes[4..<6]), hours < 24, minutes < 60
        else { return nil }
        let seconds = hours * 3600 + minutes * 60
        return bytes[0] == dash ? -seconds : seconds
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard !digits.isEmpty, digits.count <= 9 else { return nil }
        var value = 0
        for digit in digits {
            guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int(digit - UInt8(ascii: "0"))
        }
        return value
    }

    /// Days since 1970 in the Gregorian calendar. The year begins in March here, so that the leap day is its last.
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = month <= 2 ? year - 1 : year
        let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
        return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
    }
}
