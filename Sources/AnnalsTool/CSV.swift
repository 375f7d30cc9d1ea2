// Comma-separated values as in RFC 4180. They are written with lines that end in a line feed.

package enum CSV {
    /// Reads the next record, which may have several lines. An empty field without quotes is nil. Returns nil at the
    /// end.
    package static func record(_ reader: LineReader) throws(ToolFailure) -> [String?]? {
        guard var line = try reader.next() else { return nil }
        let first = reader.number
        var (fields, field, isQuoted, isInQuotes, place) = ([String?](), [UInt8](), false, false, 0)
        func wrong(_ reason: String) -> ToolFailure {
            ToolFailure(.failed, "Line \(reader.number) of \(reader.name) is wrong: \(reason).")
        }
        func end() throws(ToolFailure) {
            guard let text = String(validating: field, as: UTF8.self) else {
                throw wrong("it is not in UTF-8: convert the file (iconv -f LATIN1 -t UTF-8)")
            }
            fields.append(field.isEmpty && !isQuoted ? nil : text)
        }
        while true {
            guard place < line.count else {
                guard isInQuotes else { break }
                guard let next = try reader.next() else {
                    throw ToolFailure(.failed, "Line \(first) of \(reader.name) is wrong: a quoted field has no end.")
                }
                field.append(UInt8(ascii: "\n"))
                (line, place) = (next, 0)
                continue
            }
            let byte = line[place]
            place += 1
            switch byte {
            case UInt8(ascii: "\"") where isInQuotes:
                // A doubled one is a part of the text.
                isInQuotes = place < line.count && line[place] == byte
                if isInQuotes {
                    field.append(byte)
                    place += 1
                }
            case UInt8(ascii: "\"") where field.isEmpty && !isQuoted: (isQuoted, isInQuotes) = (true, true)
            case UInt8(ascii: ",") where !isInQuotes:
                try end()
                (field, isQuoted) = ([], false)
            case 0x0D where !isInQuotes:
                guard place == line.count else { throw wrong("a carriage return must be at the end of a line") }
            case _ where isQuoted && !isInQuotes: throw wrong("a comma must follow a quoted field")
            default: field.append(byte)
            }
        }
        try end()
        return fields
    }

    /// One line, with its line feed. Nil becomes an empty field, and an empty text becomes two quotes, so they differ.
    package static func line(_ fields: [String?]) -> String {
        fields.map { $0.map(quotedWhereNeeded) ?? "" }.joined(separator: ",") + "\n"
    }

    private static func quotedWhereNeeded(_ field: String) -> String {
        let needsQuotes =
            field.isEmpty || field.utf8.first == 0x20 || field.utf8.last == 0x20
            || field.utf8.contains { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: ",") || $0 == 0x0A || $0 == 0x0D }
        guard needsQuotes else { return field }
        // By scalars: a quote with a combining mark is one character.
        let parts = field.unicodeScalars.split(separator: "\"", omittingEmptySubsequences: false)
        return "\"" + parts.map { String($0) }.joined(separator: "\"\"") + "\""
    }
}
