// Comma-separated values as in RFC 4180, with lines that end in a line feed.

package enum CSV {
    /// One line, with its line feed. Nil becomes an empty field, and an empty text becomes two quotes, so they differ.
    package static func line(_ fields: [String?]) -> String {
        fields.map { $0.map(quotedWhereNeeded) ?? "" }.joined(separator: ",") + "\n"
    }

    private static func quotedWhereNeeded(_ field: String) -> String {
        let needsQuotes =
            field.isEmpty || field.utf8.first == 0x20 || field.utf8.last == 0x20
            || field.utf8.contains { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: ",") || $0 == 0x0A || $0 == 0x0D }
        guard needsQuotes else { return field }
        var quoted = "\""
        for scalar in field.unicodeScalars {
            if scalar == "\"" { quoted += "\"\"" } else { quoted.unicodeScalars.append(scalar) }
        }
        return quoted + "\""
    }
}
