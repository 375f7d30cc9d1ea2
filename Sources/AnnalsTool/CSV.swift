// Comma-separated values as RFC 4180 describes them, lines ending in a line feed.

package enum CSV {
    /// One line, with its end. A field that is nil is empty; a text that is empty is two quotes, so that the two can be
    /// told apart.
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
