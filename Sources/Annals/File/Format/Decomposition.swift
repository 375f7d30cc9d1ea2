// Canonical decomposition, order and composition: Unicode, section 3.11, and Hangul by arithmetic, section 3.12.

/// A scalar's kind in the tables; Tests/Scripts/unicode.py explains the numbers.
struct ScalarKind {
    private let number: UInt8

    @inline(__always)
    init(_ scalar: UInt32) {
        guard scalar >= 0xC0, scalar < UnicodeTables.end else {
            number = 0
            return
        }
        let block = PackedTable(UnicodeTables.blockNumbers, entryCharacters: 2).number(Int(scalar &>> 7), 0, 2)
        let kinds = PackedTable(UnicodeTables.blocks, entryCharacters: 1)
        number = UInt8(truncatingIfNeeded: kinds.number(Int(block &<< 7 | scalar & 127), 0, 1))
    }

    /// Whether a text of such scalars only is its own normal form.
    var isStable: Bool { number < 2 }
    /// Whether every text can be divided before the scalar: nothing happens to it, and it joins nothing before it.
    var isBoundary: Bool { number == 0 }
    var decomposes: Bool { number == 1 || number == 2 || number >= 4 }

    /// The canonical combining class.
    var combiningClass: UInt8 {
        if number < 4 { return 0 }
        let classes = PackedTable(UnicodeTables.combiningClasses, entryCharacters: 2)
        return UInt8(truncatingIfNeeded: classes.number(Int(number) &- 4, 0, 2))
    }
}

/// Hangul syllables, which are arithmetic.
private enum Hangul {
    static let (first, last): (UInt32, UInt32) = (0xAC00, 0xD7A3)
    static let (leading, vowel, trailing): (UInt32, UInt32, UInt32) = (0x1100, 0x1161, 0x11A7)
    static let (leadings, vowels, trailings): (UInt32, UInt32, UInt32) = (19, 21, 28)
}

/// A text decomposed, and in canonical order.
struct Decomposition {
    /// A scalar in the lowest 21 bits, then its place, and in the highest 8 bits its combining class: letters of a run
    /// without a starter sort as Unicode orders them.
    private var letters: [UInt64] = []
    /// The first letter of the last run that has a class and is not in order yet.
    private var run = 0
    private var isInOrder = true

    init(capacity: Int) { letters.reserveCapacity(capacity) }

    mutating func append(_ scalar: UInt32) {
        if scalar >= Hangul.first, scalar <= Hangul.last { return appendSyllable(scalar &- Hangul.first) }
        let kind = ScalarKind(scalar)
        guard kind.decomposes else { return append(scalar, kind.combiningClass) }
        let entries = PackedTable(UnicodeTables.decompositionEntries, entryCharacters: 6)
        guard let entry = entries.entry(UInt64(scalar), keyCharacters: 3, count: UnicodeTables.decompositions) else {
            return append(scalar, kind.combiningClass)
        }
        let first = Int(entries.number(entry, 3, 2))
        let found = PackedTable(UnicodeTables.decompositionLetters, entryCharacters: 3)
        for place in first..<first &+ Int(entries.number(entry, 5, 1)) {
            let letter = found.number(place, 0, 3)
            append(letter, ScalarKind(letter).combiningClass)
        }
    }

    private mutating func appendSyllable(_ number: UInt32) {
        assert(number <= Hangul.last &- Hangul.first, "A scalar is no syllable.")
        let perLeading = Hangul.vowels &* Hangul.trailings
        append(Hangul.leading &+ number / perLeading, 0)
        append(Hangul.vowel &+ number % perLeading / Hangul.trailings, 0)
        if number % Hangul.trailings > 0 { append(Hangul.trailing &+ number % Hangul.trailings, 0) }
    }

    private mutating func append(_ scalar: UInt32, _ combiningClass: UInt8) {
        if combiningClass == 0 {
            order()
            run = letters.count &+ 1
        } else if run < letters.count, letters[letters.count &- 1] &>> 56 > UInt64(combiningClass) {
            isInOrder = false
        }
        letters.append(UInt64(combiningClass) &<< 56 | UInt64(letters.count) &<< 21 | UInt64(scalar))
    }

    private mutating func order() {
        if !isInOrder { letters[run...].sort() }
        isInOrder = true
    }

    /// The scalars in their order.
    consuming func scalars() -> [UInt32] {
        order()
        return letters.map { UInt32(truncatingIfNeeded: $0 & 0x1F_FFFF) }
    }

    // MARK: Composition

    /// The scalars, after composition.
    consuming func composed() -> [UInt32] {
        order()
        var result: [UInt32] = []
        result.reserveCapacity(letters.count)
        var starter: Int?
        // The class of the last scalar; 0 if that is the starter.
        var lastClass: UInt8 = 0
        for letter in letters {
            let (scalar, combiningClass) = (UInt32(truncatingIfNeeded: letter & 0x1F_FFFF), UInt8(letter &>> 56))
            if let starter, starter == result.count &- 1 || lastClass != 0 && lastClass < combiningClass,
                let both = Self.compose(result[starter], scalar)
            {
                result[starter] = both
                continue
            }
            if combiningClass == 0 { starter = result.count }
            lastClass = combiningClass
            result.append(scalar)
        }
        return result
    }

    private static func compose(_ first: UInt32, _ second: UInt32) -> UInt32? {
        if second >= Hangul.vowel, second < Hangul.trailing &+ Hangul.trailings { return composeHangul(first, second) }
        guard first < UnicodeTables.end, second < UnicodeTables.end else { return nil }
        let pairs = PackedTable(CompositionTables.compositionPairs, entryCharacters: 9)
        let key = UInt64(second) &<< 18 | UInt64(first)
        return pairs.entry(key, keyCharacters: 6, count: CompositionTables.compositions).map { pairs.number($0, 6, 3) }
    }

    private static func composeHangul(_ first: UInt32, _ second: UInt32) -> UInt32? {
        let (leading, vowel) = (first &- Hangul.leading, second &- Hangul.vowel)
        if leading < Hangul.leadings, vowel < Hangul.vowels {
            return Hangul.first &+ (leading &* Hangul.vowels &+ vowel) &* Hangul.trailings
        }
        let (syllable, trailing) = (first &- Hangul.first, second &- Hangul.trailing)
        guard syllable <= Hangul.last &- Hangul.first, syllable % Hangul.trailings == 0, trailing > 0,
            trailing < Hangul.trailings
        else { return nil }
        return first &+ trailing
    }
}
