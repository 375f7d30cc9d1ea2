// Texts without the difference of cases, and without diacritics: the same in every locale.
//
// Invariants:
// FT1  Texts that are equal in Swift have the same folded form, which is in the normal form NFC.
// FT2  Folding a folded text changes nothing.

package enum CaseFolding {
    /// Unicode's full case folding of a text. Without diacritics, the combining marks of Latin, Greek and Cyrillic are
    /// left out.
    package static func folded(_ text: String, withoutDiacritics: Bool) -> String {
        var folded = Decomposition(capacity: text.utf8.count)
        for scalar in NormalForm.decomposed(text).unicodeScalars
        where !withoutDiacritics || !isDiacritic(scalar.value) {
            append(scalar.value, to: &folded)
        }
        return String(decoding: UTF8Bytes.of(folded.composed()), as: UTF8.self)
    }

    private static func append(_ scalar: UInt32, to folded: inout Decomposition) {
        if scalar < 0x80 { return folded.append(scalar >= 0x41 && scalar <= 0x5A ? scalar | 0x20 : scalar) }
        let entries = PackedTable(CaseTables.foldingEntries, entryCharacters: 6)
        guard let entry = entries.entry(UInt64(scalar), keyCharacters: 3, count: CaseTables.foldings) else {
            return folded.append(scalar)
        }
        let first = Int(entries.number(entry, 3, 2))
        let letters = PackedTable(CaseTables.foldingLetters, entryCharacters: 3)
        for place in first..<first &+ Int(entries.number(entry, 5, 1)) { folded.append(letters.number(place, 0, 3)) }
    }

    /// Whether a scalar is in one of Unicode's blocks of combining diacritical marks. Marks of Hebrew, Arabic, Indic
    /// and other scripts lie outside these blocks, because they distinguish words.
    private static func isDiacritic(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0x300...0x36F, 0x1AB0...0x1AFF, 0x1DC0...0x1DFF, 0x20D0...0x20FF, 0xFE20...0xFE2F: true
        default: false
        }
    }
}
