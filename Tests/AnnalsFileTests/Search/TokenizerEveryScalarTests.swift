// The tokenizer's invariants for every scalar of Unicode, for random texts and for random bytes.

import Annals
import TestSupport
import Testing

struct TokenizerEveryScalarTests {
    /// All scalars of the table, and some of the even stretches after it.
    private static let scalars = [0...TermFolding.end, 0xDFF00...0xE0200, 0xE0FF0...0xE1010, 0x10FFF0...0x10FFFF]
        .flatMap { $0.compactMap(Unicode.Scalar.init) }

    /// Texts before a mark that may change with it: Latin, Kana, Hangul, Devanagari, Bengali, Thai, a picture, a
    /// number, another mark, a folding that ends with a mark, and one that ends with a separator.
    private static let bases = ["", "e", "か", "ᄒ", "하", "क", "\u{9c7}", "ไ", "🎉", "5", "\u{93c}", "\u{958}", "㈱", "İ"]

    @Test func everyScalarHasTheTermsOfItsNormalForms() {
        let wrong = Self.scalars.filter { !Self.hasTermsOfNormalForms(String($0)) }
        #expect(wrong.isEmpty, "TZ1")
    }

    @Test func everyMarkAfterALetterHasTheTermsOfTheNormalForms() {
        // Plane 14 has only scalars that are left out, all in the same way.
        let marks = Self.scalars.filter { TermFolding($0.value).extends && $0.value < 0xE0080 }
        #expect(marks.count > 2_000)
        for base in Self.bases {
            let wrong = marks.filter { !Self.hasTermsOfNormalForms("\(base)\($0)\u{94d}\u{3099}") }
            #expect(wrong.isEmpty, "TZ1: after \(base)")
        }
    }

    @Test func theTermsOfEveryScalarAreTheirOwnTerms() {
        let wrong = Self.scalars.filter { scalar in
            let folding = TermFolding(scalar.value)
            if folding == .separator || folding == .dropped { return !ReadTerms(String(scalar)).terms.isEmpty }
            if folding.letters != nil || folding.extends {
                return !ReadTerms("x\(scalar)y \(scalar)\u{94d}").terms.allSatisfy(Self.isOwnTerm)
            }
            return !Self.areSame(ReadTerms(String(scalar)).terms, [String(scalar)])
        }
        #expect(wrong.isEmpty, "TZ2")
    }

    @Test func caseMakesNoDifference() {
        let wrong = Self.scalars.filter { scalar in
            let properties = scalar.properties
            // The iota below a Greek vowel is left out as a mark; upper case makes a letter of it.
            guard properties.changesWhenCaseMapped,
                !NormalForm.decomposed(String(scalar)).unicodeScalars.contains("\u{345}")
            else { return false }
            let expected = ReadTerms(String(scalar)).terms
            return ![properties.lowercaseMapping, properties.uppercaseMapping, properties.titlecaseMapping].allSatisfy {
                Self.areSame(ReadTerms($0).terms, expected)
            }
        }
        #expect(wrong.isEmpty)
    }

    @Test func equalRandomTextsHaveEqualTerms() {
        var random = TermRandom(seed: 1)
        for number in 0..<8_000 {
            let text = random.text()
            let expected = ReadTerms(text)
            #expect(Self.hasTermsOfNormalForms(text), "TZ1: \(number), \(text.debugDescription)")
            for (term, place) in zip(expected.terms, expected.places) where !place.isPair {
                #expect(Self.isOwnTerm(term), "TZ2: \(number), \(text.debugDescription)")
            }
        }
    }

    @Test func placesOfRandomTextsAndBytesAreInOrder() {
        var random = TermRandom(seed: 2)
        for number in 0..<16_000 {
            let bytes = number % 2 == 0 ? Array(random.text().utf8) : random.bytes()
            let read = ReadTerms(bytes: bytes)
            var last: TermPlace?
            for (term, place) in zip(read.terms, read.places) {
                #expect(place.position == (last?.position ?? -1) + 1, "TZ3: \(bytes)")
                #expect(place.start >= last?.start ?? 0 && place.end >= last?.end ?? 0, "TZ3: \(bytes)")
                #expect(place.start < place.head && place.head <= place.end, "TZ3: \(bytes)")
                #expect(place.end <= bytes.count && (place.isPair || place.head == place.end), "TZ3: \(bytes)")
                #expect(!term.isEmpty && term.utf8.count <= Tokenizer.maximumTermBytes, "TZ4: \(bytes)")
                #expect(!term.unicodeScalars.contains("\u{fffd}"), "TZ3: a term is not valid UTF-8: \(bytes)")
                last = place
            }
        }
    }

    @Test func malformedBytesSeparateWords() {
        for bytes: [UInt8] in [
            [0x80], [0xC0, 0x80], [0xC3], [0xE3, 0x81], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF0, 0x9F],
            [0xFF],
        ] {
            let text = Array("ab".utf8) + bytes + Array("cd".utf8)
            #expect(ReadTerms(bytes: text).terms == ["ab", "cd"], "TZ3: \(bytes)")
            #expect(ReadTerms(bytes: Array("全".utf8) + bytes).terms == ["全"], "TZ3: \(bytes)")
        }
    }

    @Test func longTermsAreCutBetweenScalars() {
        let long = String(repeating: "x", count: 63)
        #expect(ReadTerms(long + "yz 1").terms == [long + "y", "1"], "TZ4")
        #expect(ReadTerms(long + "жz 1").terms == [long, "1"], "TZ4")
        #expect(ReadTerms(long + "ж").terms == ReadTerms(long + "жz").terms, "TZ4")
        #expect(ReadTerms(String(repeating: "ж", count: 1_000)).terms == [String(repeating: "ж", count: 32)], "TZ4")
        let marks = String(repeating: "\u{e34}", count: 1_000)
        #expect(ReadTerms("ก\(marks)ข").terms.map(\.utf8.count) == [30 + 3, 3], "TZ4")
        #expect(ReadTerms("a" + String(repeating: "\u{301}", count: 100_000) + "b").terms == ["ab"])
    }

    @Test func placesPointIntoTheOriginalText() {
        let text = "Ünï e\u{301}a, ㈱か\u{3099}き🎉"
        let read = ReadTerms(text)
        let utf8 = Array(text.utf8)
        func part(_ start: Int, _ end: Int) -> String { String(decoding: utf8[start..<end], as: UTF8.self) }
        #expect(read.terms == ["uni", "ea", "株", "がき", "き", "🎉"])
        #expect(read.places.map { part($0.start, $0.end) } == ["Ünï", "e\u{301}a", "㈱", "か\u{3099}き", "き", "🎉"])
        #expect(read.places.map { part($0.start, $0.head) } == ["Ünï", "e\u{301}a", "㈱", "か\u{3099}", "き", "🎉"])
        #expect(read.places.map(\.isPair) == [false, false, true, true, true, false])
    }

    private static func hasTermsOfNormalForms(_ text: String) -> Bool {
        let (composed, decomposed) = (NormalForm.of(text), NormalForm.decomposed(text))
        // Most scalars are their own normal forms.
        if text.utf8.elementsEqual(composed.utf8), text.utf8.elementsEqual(decomposed.utf8) { return true }
        let expected = ReadTerms(text).terms
        return areSame(ReadTerms(composed).terms, expected) && areSame(ReadTerms(decomposed).terms, expected)
    }

    private static func areSame(_ left: [String], _ right: [String]) -> Bool {
        left.elementsEqual(right) { $0.utf8.elementsEqual($1.utf8) }
    }

    /// Whether a term is divided into itself, or into its characters if it is a pair, and is in its normal form.
    private static func isOwnTerm(_ term: String) -> Bool {
        let again = ReadTerms(term)
        guard let first = again.terms.first, first.utf8.elementsEqual(term.utf8) else { return false }
        return NormalForm.of(term).utf8.elementsEqual(term.utf8)
            && again.terms.count == (again.places[0].isPair && again.places[0].head < again.places[0].end ? 2 : 1)
    }
}

/// Random texts that have many marks, and random bytes that are often valid UTF-8.
private struct TermRandom {
    private var generator: SeededRandom
    private static let scalars: [Unicode.Scalar] = Array(
        ("aBz09 -_.'ßøİıſ\u{e9}\u{1e69}かガﾊﾞ゛ー全文㈱한\u{1112}\u{1161}\u{11ab}ㅎไม่กำ🎉👩\u{200d}\u{fe0f}\u{1f3fd}"
            + "\u{301}\u{323}\u{308}\u{345}\u{344}\u{5b0}\u{64b}\u{654}\u{3099}\u{93c}\u{94d}\u{915}\u{958}"
            + "\u{9c7}\u{9be}\u{9d7}\u{f71}\u{f72}\u{f74}\u{1ac}\u{ad}½™\u{16d67}\u{16d63}\u{11099}\u{110ba}"
            + "\u{fb2c}\u{2126}\u{212b}\u{fdfa}").unicodeScalars)

    init(seed: UInt64) { generator = SeededRandom(seed) }

    mutating func text() -> String {
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...24, using: &generator) {
            if Int.random(in: 0..<4, using: &generator) > 0 {
                text.append(Self.scalars.randomElement(using: &generator)!)
            } else if let scalar = Unicode.Scalar(UInt32.random(in: 0..<0x34000, using: &generator)),
                ![0xF73, 0xF75, 0xF81].contains(scalar.value)
            {
                text.append(scalar)
            }
        }
        return String(text)
    }

    mutating func bytes() -> [UInt8] {
        var bytes = Array(text().utf8)
        for _ in 0..<Int.random(in: 1...4, using: &generator) where !bytes.isEmpty {
            let place = bytes.indices.randomElement(using: &generator)!
            if Bool.random(using: &generator) {
                bytes.remove(at: place)
            } else {
                bytes[place] = UInt8.random(in: 0...255, using: &generator)
            }
        }
        return bytes
    }
}
