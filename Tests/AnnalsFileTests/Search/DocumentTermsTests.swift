// Words and phrases in the texts of one object, against slow and simple evaluations.

import Annals
import TestSupport
import Testing

@Suite struct DocumentTermsTests {
    private func terms(_ query: SearchQuery, _ texts: [String?]) -> DocumentTerms {
        let plan = SearchPlan(query, attributes: ["title", "text", "notes"])
        var terms = DocumentTerms(plan, attributes: texts.count)
        for (attribute, text) in texts.enumerated() { if let text { terms.read(text, attribute) } }
        return terms
    }

    private static let leaves: [(SearchQuery, String, UInt32)] = [
        (.word("a"), "a b a", 2), (.word("a"), "ab ba", 0), (.word("A"), "a", 1), (.prefix("a"), "a ab ba abc", 3),
        (.phrase("a b"), "a b a b b a", 2), (.phrase("a a"), "a a a a", 3), (.phrase("a b a"), "a b a b a", 2),
        (.prefix("a b"), "a bc a b a c", 2), (.phrase("a b"), "a. B", 1), (.phrase("a b c"), "a b", 0),
        (.phrase("b c d"), "a b c b c d", 1), (.near(["a", "b"], within: 1), "b a b", 1),
        (.near(["a", "b"], within: 2), "a x b", 1), (.near(["a", "b"], within: 1), "a x b", 0),
        (.near(["b", "a"], within: 2), "a b a b", 2), (.near(["a", "b", "c"], within: 2), "b a c a c c b", 1),
        (.near(["a", "a"], within: 0), "a a", 2), (.near(["a", "b"], within: 0), "a b", 0),
        (.near(["a", "b"], within: .max), "a x x x x b a", 2), ("東京", "東京都の東京", 2), ("京 ", "東京都", 1),
        ("東京都 ", "東京都庁と東京 都", 1), ("swift入 ", "Swift入門 swift 門", 1),
    ]

    @Test(arguments: leaves) func aLeafIsCounted(query: SearchQuery, text: String, wanted: UInt32) {
        let terms = terms(query, [text])
        #expect(terms.frequency(0, 0) == wanted, "\(query) in \(text)")
        #expect(terms.matches == (wanted > 0), "\(query) in \(text)")
    }

    @Test func eachAttributeHasItsLengthAndItsFrequencies() {
        let terms = terms(.any([.word("a"), .phrase("a b")]), ["a b a", nil, "x a"])
        #expect(terms.lengths == [3, 0, 2])
        #expect((0..<3).map { terms.frequency(0, $0) } == [2, 0, 1])
        #expect((0..<3).map { terms.frequency(1, $0) } == [1, 0, 0])
    }

    @Test func aPhraseDoesNotBeginInOneTextAndEndInAnother() {
        #expect(!terms(.phrase("a b"), ["x a", "b"]).matches)
        #expect(!terms(.near(["a", "b"], within: 5), ["x a", "b"]).matches)
        #expect(terms(.all([.word("a"), .word("b")]), ["x a", "b"]).matches)
    }

    @Test func onlyAllowedAttributesCount() {
        for query in [SearchQuery.word("a"), .phrase("a b"), .near(["a", "b"], within: 1), .prefix("a")] {
            let found = terms(query.inAttributes(["text"]), ["a b", "a b", "a b"])
            #expect((0..<3).map { found.frequency(0, $0) } == [0, 1, 0], "\(query)")
            #expect(!terms(query.inAttributes(["text"]), ["a b", "c", "a b"]).matches, "\(query)")
            #expect(!terms(query.inAttributes(["unknown"]), ["a b", "a b", "a b"]).matches, "\(query)")
        }
    }

    @Test func aPhraseOfSixtyFourWordsIsFound() {
        let words = (0..<64).map { "word\($0)" }.joined(separator: " ")
        let found = terms(.phrase(words), ["word0 \(words) \(words) word1"])
        #expect(found.frequency(0, 0) == 2)
        let cut = words.dropLast()
        #expect(terms(.phrase(words), ["\(cut)"]).frequency(0, 0) == 0)
    }

    @Test func anObjectLeavesNothingForTheNext() {
        let query = SearchQuery.any([.phrase("a b"), .near(["a", "b"], within: 1), .word("a"), .prefix("b")])
        let plan = SearchPlan(query, attributes: ["title", "text"])
        var reused = DocumentTerms(plan, attributes: 2)
        var random = SeededRandom(5)
        for _ in 0..<300 {
            let texts = (0..<2).map { _ in randomText(&random, most: 6) }
            var fresh = DocumentTerms(plan, attributes: 2)
            reused.reset()
            for (attribute, text) in texts.enumerated() where text.utf8.count > 1 {
                fresh.read(text, attribute)
                reused.read(text, attribute)
            }
            #expect(reused.lengths == fresh.lengths && reused.matches == fresh.matches, "\(texts)")
            for leaf in plan.leaves.indices {
                let found = (0..<2).map { reused.frequency(leaf, $0) }
                #expect(found == (0..<2).map { fresh.frequency(leaf, $0) }, "\(texts)")
            }
        }
    }

    // MARK: Against a slow evaluation

    private let words = ["a", "b", "ab", "ba", "abb"]

    private func randomText(_ random: inout SeededRandom, most: Int) -> String {
        (0..<random.next(below: most + 1)).map { _ in random.one(of: words) }.joined(separator: " ")
    }

    private func randomLeaf(_ random: inout SeededRandom) -> (SearchQuery, (_ text: [Substring]) -> Int) {
        let wanted = (0..<random.next(below: 3) + 1).map { _ in random.one(of: words) }
        let text = wanted.joined(separator: " ")
        switch random.next(below: 3) {
        case 0: return (.phrase(text), { slowPhrase($0, wanted, isPrefix: false) })
        case 1: return (.prefix(text), { slowPhrase($0, wanted, isPrefix: true) })
        default:
            let distance = random.next(below: 4)
            return (.near(wanted, within: distance), { slowNear($0, wanted, distance) })
        }
    }

    /// All leaves of a query at once, so that leaves share patterns, beginnings of patterns, and phrases overlap.
    @Test func frequenciesAreThoseOfASlowEvaluation() {
        var random = SeededRandom(7)
        var matches = 0
        for _ in 0..<2000 {
            let leaves = (0..<random.next(below: 6) + 1).map { _ in randomLeaf(&random) }
            let text = randomText(&random, most: 12)
            let slow = leaves.map { $0.1(text.split(separator: " ")) }
            let fast = terms(.any(leaves.map { $0.0 }), [text])
            #expect(fast.matches == slow.contains { $0 > 0 })
            for (leaf, count) in zip(leaves, slow) {
                let plan = SearchPlan(leaf.0, attributes: ["title", "text", "notes"])
                let place = SearchPlan(.any(leaves.map { $0.0 }), attributes: ["title", "text", "notes"]).leaves
                    .firstIndex(of: plan.leaves[0])
                #expect(place.map { Int(fast.frequency($0, 0)) } == count, "\(leaf.0) in \(text)")
                matches += count
            }
        }
        #expect(matches > 2000)
    }

    /// DT1: the segments of an index count from positions.
    @Test func frequenciesFromPositionsAreThoseFromTheText() {
        var random = SeededRandom(8)
        for _ in 0..<2000 {
            let (query, slow) = randomLeaf(&random)
            let text = randomText(&random, most: 12).split(separator: " ")
            let leaf = SearchPlan(query, attributes: ["text"]).leaves[0]
            let positions = leaf.patterns.map { pattern in
                let word = String(decoding: pattern.bytes, as: UTF8.self)
                return text.indices.filter { pattern.isPrefix ? text[$0].hasPrefix(word) : text[$0] == word }
                    .map { UInt32($0) }
            }
            #expect(leaf.frequency(positions) == slow(text), "DT1: \(query) in \(text)")
        }
    }

    // MARK: Typing

    /// A text is found by each of its beginnings, as a person types it.
    @Test func typingATextNeverLosesIt() {
        let pieces = [
            "swift", "on", "Weiß", "café", "e\u{301}", "don't", "don’t", "foo-bar", "3.14", "a_b", "C++", "x", "東", "京",
            "都", "カ", "ガ", "ー", "ไทย", "ก", "กำ", "한", "국", "🙂", "👩‍👩‍👧", "(", ")", ".", "、", "。", "/", "é", "ﬁ",
            "Ａ", "ｱ", "i\u{307}", "\u{AD}", "\u{200B}", "\u{200D}", "\u{FEFF}", "١", "½", "№", "·", "׳", "ا", "ـ", "लि",
        ]
        var typings = 0
        var random = SeededRandom(11)
        for _ in 0..<3000 {
            let separators = [" ", "", "", "\u{3000}"]
            let text = (0..<random.next(below: 5) + 1).map { _ in random.one(of: pieces) + random.one(of: separators) }
                .joined()
            var end = text.startIndex
            while end < text.endIndex {
                end = text.index(after: end)
                let plan = SearchPlan(SearchQuery(String(text[..<end])), attributes: ["text"])
                if plan.root == .nothing { continue }
                var terms = DocumentTerms(plan, attributes: 1)
                terms.read(text, 0)
                typings += 1
                #expect(terms.matches, "\(text[..<end].debugDescription) in \(text.debugDescription): \(plan.text)")
            }
        }
        #expect(typings > 10_000)
    }

    /// Scalar by scalar, as Thai keyboards type.
    @Test(arguments: ["กำลัง", "swiftกำ", "ภาษาไทย", "ទឹក", "ບໍ່"]) func typingMarksNeverLosesAText(text: String) {
        for count in 1...text.unicodeScalars.count {
            let typed = String(text.unicodeScalars.prefix(count))
            var terms = DocumentTerms(SearchPlan(SearchQuery(typed), attributes: ["text"]), attributes: 1)
            terms.read("x " + text + " y", 0)
            #expect(terms.matches, "\(typed)")
        }
    }
}

/// The places at which each word of the phrase begins, or is, the word there.
private func slowPhrase(_ text: [Substring], _ wanted: [String], isPrefix: Bool) -> Int {
    text.indices.count { start in
        let found = text[start...].prefix(wanted.count)
        guard found.count == wanted.count, found.dropLast().elementsEqual(wanted.dropLast().map { $0[...] }) else {
            return false
        }
        let (last, end) = (wanted[wanted.count - 1], found[found.endIndex - 1])
        return isPrefix ? end.hasPrefix(last) : end == last
    }
}

private func slowNear(_ text: [Substring], _ wanted: [String], _ distance: Int) -> Int {
    text.indices.count { place in
        let nearby = text[max(0, place - distance)...min(text.count - 1, place + distance)]
        return text[place] == wanted[0] && wanted.dropFirst().allSatisfy { nearby.contains($0[...]) }
    }
}
