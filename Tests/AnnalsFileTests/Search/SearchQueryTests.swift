// Queries as values, and typed text as words and phrases.

import Annals
import Testing

@Suite struct SearchQueryTests {
    /// A part as `-word`, `[phrase]` or `last…`.
    private func parts(_ typed: String) -> [String] {
        var query = TypedQuery(typed)
        var parts: [String] = []
        while let part = query.next() {
            let text = part.isQuoted ? "[\(part.text)]" : String(part.text)
            parts.append((part.hasMinus ? "-" : "") + text + (part.isLast ? "…" : ""))
        }
        return parts
    }

    @Test(arguments: [
        ("", []), (" \t\n", []), ("a", ["a…"]), ("a ", ["a"]), (" a  b", ["a", "b…"]), ("a\u{3000}b", ["a", "b…"]),
        ("-a", ["-a…"]), ("a -b", ["a", "-b…"]), ("a-b", ["a-b…"]), ("- a", ["-", "a…"]), ("-", ["-…"]),
        ("a -", ["a", "-…"]), ("--a", ["--a…"]), ("−a –b －c", ["-a", "-b", "-c…"]), ("—a", ["—a…"]),
        ("\"a b\"", ["[a b]"]), ("\"a b", ["[a b]…"]), ("\"a b\" c", ["[a b]", "c…"]), ("\"", ["[]…"]),
        ("\"\"", ["[]"]), ("“a b” „c d“ »e« «f»", ["[a b]", "[c d]", "[e]", "[f]"]), ("-\"a b\"", ["-[a b]"]),
        ("-“a", ["-[a]…"]), ("\"a\"b", ["[a]", "b…"]), ("\"a\"-b", ["[a]", "-b…"]), ("\"a\"\"b\"", ["[a]", "[b]"]),
        ("27\" a", ["27\"", "a…"]), ("a\"b c\"", ["a\"b", "c\"…"]),
        ("a AND (b OR c*)", ["a", "AND", "(b", "OR", "c*)…"]),
    ]) func typedTextIsCutIntoPartsAtSpacesAndQuotes(typed: String, wanted: [String]) {
        // A minus that is part of a word looks the same here; the plan's tests tell them apart.
        #expect(parts(typed) == wanted)
    }

    @Test func aMinusExcludesOnlyAfterASpaceOrAtTheBeginning() {
        func minus(_ typed: String) -> [Bool] {
            var query = TypedQuery(typed)
            var found: [Bool] = []
            while let part = query.next() { found.append(part.hasMinus) }
            return found
        }
        #expect(minus("-a -\"b\" -c") == [true, true, true])
        #expect(minus("a-b \"c\"-d - -") == [false, false, false, false, false])
    }

    @Test func aDescriptionIsTheQueryInSwift() {
        let query = SearchQuery.all([
            "swift \"lin", .any([.word("a"), .prefix("b"), .phrase("c d")]), .not(.near(["e", "f"], within: 5)),
        ])
        let wanted =
            #".all(["swift \"lin", .any([.word("a"), .prefix("b"), .phrase("c d")]), "#
            + #".not(.near(["e", "f"], within: 5))])"#
        #expect(query.description == wanted)
        #expect(SearchQuery.word("a").inAttributes(["title", "text"]).description == #".word("a").in(title, text)"#)
    }

    @Test func listsWithinListsOfTheirKindAreOneList() {
        let (a, b, c) = (SearchQuery.word("a"), SearchQuery.word("b"), SearchQuery.word("c"))
        #expect(SearchQuery.all([.all([a, b]), c]) == .all([a, b, c]))
        #expect(SearchQuery.any([a, .any([b, c])]) == .any([a, b, c]))
        #expect(SearchQuery.all([.any([a, b]), c]) != .all([a, b, c]))
        #expect(SearchQuery.all([a]) == a && SearchQuery.any([a]) == a)
    }

    @Test func aQueryThatALoopExtendsDoesNotBecomeDeep() {
        var query = SearchQuery.any([])
        for number in 0..<1000 { query = .any([query, .word("word\(number)")]) }
        #expect(SearchPlan(query, attributes: ["text"]).leaves.count == SearchPlan.maximumLeaves)
    }

    /// SQ2.
    @Test func aQueryMayBeAHundredDeep() {
        var query: SearchQuery = .word("a")
        for _ in 1..<SearchQuery.maximumDepth { query = .not(query) }
        let plan = SearchPlan(query, attributes: ["text"])
        #expect(plan.matches { _ in false } && !plan.matches { _ in true })
        #expect(query.hashValue == query.hashValue && query.description.hasPrefix(".not(.not("))
    }

    @Test func equalTextsGiveEqualQueries() {
        let (composed, decomposed): (SearchQuery, SearchQuery) = ("caf\u{E9}", "cafe\u{301}")
        #expect(composed == decomposed && Set([composed, decomposed]).count == 1)
        #expect(composed != "cafe" && composed != .word("caf\u{E9}"))
    }

    @Test(arguments: ["a", "é", "東", "𝄞"]) func longTextsAreCutBetweenScalars(scalar: String) {
        let most = SearchQuery.maximumTextBytes
        let query = SearchQuery("x" + String(repeating: scalar, count: most))
        let kept = "x" + String(repeating: scalar, count: (most - 1) / scalar.utf8.count)
        #expect(query == SearchQuery(kept))
        #expect(query.description.utf8.count == kept.utf8.count + 2)
    }
}
