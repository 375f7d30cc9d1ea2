// The words found in a text, and the part of it that shows them.

import Annals
import TestSupport
import Testing

struct SnippetTests {
    private func leaves(_ query: SearchQuery) -> [SearchLeaf] { SearchPlan(query, attributes: ["text"]).leaves }

    private func snippet(_ text: String, _ query: SearchQuery, _ maximum: Int = 160) -> SearchSnippet {
        SearchSnippet(text, leaves(query), maximumCharacters: maximum)
    }

    private func marked(_ text: String, _ query: SearchQuery, _ maximum: Int = 160) -> String {
        snippet(text, query, maximum).marked()
    }

    private func areSame(_ left: String, _ right: String) -> Bool {
        left.unicodeScalars.elementsEqual(right.unicodeScalars)
    }

    // MARK: Highlights

    @Test(arguments: [
        ("The Quick brown fox", "quick", "The [Quick] brown fox"), ("The quickest fox", "qui", "The [quickest] fox"),
        ("The quickest fox", "qui ", "The quickest fox"), ("a fox, a fox", "fox", "a [fox], a [fox]"),
        ("Größe und Grosse", "grosse", "[Größe] und [Grosse]"), ("x cafe\u{301} y", "cafe", "x [cafe\u{301}] y"),
        ("x caf\u{e9} y", "café", "x [caf\u{e9}] y"), ("Hà Nội", "ha noi", "[Hà] [Nội]"),
        ("one\r\ntwo\r\n", "two", "one\r\n[two]\r\n"), ("two\r\none", "two", "[two]\r\none"),
        ("no match", "other", "no match"), ("", "other", ""), ("foo-bar foo", "foo-bar", "[foo]-[bar] foo"),
        ("a 👩‍👩‍👧 b", "👧", "a [👩‍👩‍👧] b"), ("a 👍🏽 b", "👍", "a [👍🏽] b"), ("x🎉y", "🎉", "x[🎉]y"), ("🇩🇪🇫🇷", "🇫🇷", "🇩🇪[🇫🇷]"),
        ("red wine, white wine", "wine -white", "red [wine], white [wine]"),
    ])
    func wordsAreHighlightedInTheOriginalText(_ text: String, _ typed: String, _ expected: String) {
        let found = marked(text, SearchQuery(typed))
        #expect(areSame(found, expected), "\(found)")
    }

    @Test(arguments: [
        ("全文検索の索引", "検索", "全文[検索]の索引"), ("全文検索の索引", "文検索", "全[文検索]の索引"), ("全文検索", "検", "全文[検]索"),
        ("全文検索", "索", "全文検[索]"), ("Swift入門", "swift入", "[Swift入]門"), ("か\u{3099}き", "が", "[か\u{3099}]き"),
        ("ไม่ดี", "ดี", "ไม่[ดี]"), ("검색 엔진", "색", "검[색] 엔진"), ("ｶﾞｷﾞ", "ガ", "[ｶﾞ]ｷﾞ"), ("東京、京都", "京都", "東京、[京都]"),
    ])
    func onlyTheCharactersSearchedForAreHighlighted(_ text: String, _ typed: String, _ expected: String) {
        let found = marked(text, SearchQuery(typed))
        #expect(areSame(found, expected), "\(found)")
    }

    @Test func onlyWholePhrasesAreHighlighted() {
        #expect(marked("new york, york new, New York", .phrase("new york")) == "[new] [york], york new, [New] [York]")
        #expect(marked("a a a b a a", .phrase("a a")) == "[a] [a] [a] b [a] [a]")
        #expect(marked("to be or not to be", .phrase("not to")) == "to be or [not] [to] be")
        #expect(marked("bad badly good", .all([.word("good"), .not(.prefix("bad"))])) == "bad badly [good]")
    }

    @Test func onlyWordsNearEachOtherAreHighlighted() {
        let query = SearchQuery.near(["red", "wine"], within: 2)
        #expect(marked("red or white wine, wine or red", query) == "red or white wine, [wine] or [red]")
        #expect(marked("red wine wine wine red", query) == "[red] [wine] [wine] [wine] [red]")
        #expect(marked("wine x x x x red", query) == "wine x x x x red")
        #expect(marked("red x red", .near(["red", "red"], within: 1)) == "[red] x [red]")
    }

    @Test func otherAttributesAreNotHighlighted() {
        var leaves = leaves(.word("fox"))
        leaves[0].attributes = 0b10
        #expect(SearchSnippet("a fox", leaves, attribute: 0).highlights.isEmpty)
        #expect(SearchSnippet("a fox", leaves, attribute: 1).marked() == "a [fox]")
    }

    @Test func highlightsOfAWholeTextAreInThatText() {
        let text = "Ärger über Äpfel"
        let found = SearchSnippet.highlights(in: text, leaves("arger apf"))
        #expect(found.map { text[$0] } == ["Ärger", "Äpfel"])
    }

    @Test func marksCanBeChosen() {
        #expect(snippet("a fox", "fox").marked("<b>", "</b>") == "a <b>fox</b>")
    }

    // MARK: The part of the text

    private let long = """
        The index is never out of step with the rows. A crash leaves it right or behind, never wrong. \
        Search as you type finds the last word by its beginning. Deleted words leave the file with the next compaction.
        """

    @Test(arguments: [
        ("crash", 40, "…rows. A [crash] leaves it right or…"), ("index", 20, "The [index] is never…"),
        ("compaction", 30, "…file with the next [compaction]."), ("none", 22, "The index is never out…"),
        ("none", 21, "The index is never…"), ("never wrong", 30, "…[never] [wrong]. Search as…"),
        ("leave", 24, "…crash [leaves] it right or…"), ("index", 5, "…[index]…"), ("index", 3, "…[ind]…"),
        ("none", 2, "Th…"),
        ("index", 0, "…[i]…"), ("index", -1, "…[i]…"),
    ])
    func snippetsShowTheBestPartCutBetweenWords(_ typed: String, _ maximum: Int, _ expected: String) {
        #expect(marked(long, SearchQuery(typed), maximum) == expected)
    }

    @Test func differentWordsCountMoreThanManyMatches() {
        let gap = String(repeating: "x ", count: 50)
        let text = "red red red \(gap)red wine \(gap)red wine wine \(gap)wine red wine"
        #expect(marked(text, "red wine ", 16) == "…[red] [wine] [wine] x…")
        #expect(marked("a b \(gap)a b", "a b ", 3) == "[a] [b]…")
    }

    @Test func shortTextsAreNotCut() {
        let text = "  one\n two  "
        #expect(snippet(text, "two").text == text)
        #expect(snippet(text, "none").text == text)
        #expect(snippet(text, "one", text.count).text == text)
        #expect(snippet(text, "one", text.count - 1).text == "  one\n two…")
    }

    @Test func textsWithoutSpacesAreCutBetweenCharacters() {
        let text = String(repeating: "全文", count: 40) + "検索" + String(repeating: "索引", count: 40)
        #expect(marked(text, "検索", 8) == "…全文[検索]索引索引…")
        #expect(marked(String(repeating: "ไม่", count: 100) + "ดี", "ดี", 5) == "…ไม่ไม่[ดี]")
    }

    // MARK: Any text

    @Test func snippetsOfRandomTextsAreWholeCharactersOfTheText() {
        var random = SeededRandom(7)
        let parts = [
            "a", "b", "e\u{301}", "\u{e9}", " ", " ", "\r\n", "👩‍👧", "🇩🇪", "🇫", "全", "文", "が", "か\u{3099}",
            "ไม่", "क्षि", "한",
            "\u{1112}\u{1161}",
            "\u{301}", "\u{200d}", "👍🏽", ".", "ﬁ", "㈱",
        ]
        for number in 0..<3_000 {
            let text = (0..<random.next(below: 60)).map { _ in parts[random.next(below: parts.count)] }.joined()
            let typed = (0..<1 + random.next(below: 4)).map { _ in parts[random.next(below: parts.count)] }.joined()
            let query = random.next(below: 4) > 0 ? SearchQuery(typed) : .near([typed, "a", "全"], within: 2)
            let maximum = 1 + random.next(below: 30)
            let snippet = snippet(text, query, maximum)
            let note: Comment = "\(number): \(text.debugDescription), \(query), \(maximum)"
            #expect(isSound(snippet.highlights, in: snippet.text), "SN1: \(note)")
            #expect(isSound(SearchSnippet.highlights(in: text, leaves(query)), in: text), "SN1: \(note)")
            #expect(isPart(snippet.text, of: text, maximum), "SN2: \(note)")
        }
    }

    private func isSound(_ ranges: [Range<String.Index>], in text: String) -> Bool {
        let bounds = Set(text.indices).union([text.endIndex])
        return ranges.allSatisfy { bounds.contains($0.lowerBound) && bounds.contains($0.upperBound) && !$0.isEmpty }
            && zip(ranges, ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound }
    }

    private func isPart(_ snippet: String, of text: String, _ maximum: Int) -> Bool {
        if areSame(snippet, text) { return text.count <= maximum }
        var part = Array(snippet.unicodeScalars)
        let opens = part.first == "…"
        let closes = part.last == "…"
        if opens { part.removeFirst() }
        if closes { part.removeLast() }
        let whole = Array(text.unicodeScalars)
        let starts = opens ? Array(whole.indices.dropFirst()) : [0]
        return part.count < whole.count && String(String.UnicodeScalarView(part)).count <= maximum
            && starts.contains { start in
                let end = start + part.count
                return end <= whole.count && (closes ? end < whole.count : end == whole.count)
                    && Array(whole[start..<end]) == part
            }
    }

    /// Looking for each match from the start of a text, or of a character that is as long as the text, takes much more
    /// than the limit.
    @Test(
        .timeLimit(.minutes(3)),
        arguments: [
            ("a b ", "a"), ("fox ", "\"fox fox\""), ("🇩🇪", "🇩"), ("👩\u{200d}", "👩"), ("全", "全"), ("foxfox", "foxf"),
            ("fox\u{301}\u{301} ", "fox"), ("x ", "none"),
        ])
    func longTextsTakeATimeInProportion(_ part: String, _ typed: String) {
        let text = String(repeating: part, count: 60_000)
        let snippet = snippet(text, SearchQuery(typed))
        #expect(snippet.highlights.isEmpty == (typed == "none"))
        #expect(snippet.text.count <= 162)
    }
}
