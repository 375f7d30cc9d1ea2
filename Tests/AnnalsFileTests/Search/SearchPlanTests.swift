// The plans of typed and of built queries, and their evaluation.

import Annals
import TestSupport
import Testing

@Suite struct SearchPlanTests {
    private static let typed: [(String, String)] = [
        ("", "nothing"), ("  ", "nothing"), ("!?", "nothing"), ("\"\"", "nothing"), ("-", "nothing"),
        ("-\"", "nothing"),
        ("swift", "swift*"), ("Swift ", "swift"), ("swift.", "swift"), ("swift lin", "(swift & lin*)"),
        ("swift swift ", "swift"), ("! swift ?", "swift"), ("a b c ", "(a & b & c)"),
        ("\"swift on linux\"", "[swift on linux]"), ("\"swift on li", "[swift on li*]"), ("\"swift\"", "swift"),
        ("\"swift on ", "[swift on]"), ("“swift on” lin", "([swift on] & lin*)"),
        ("-taylor", "!taylor"), ("swift -taylor", "(swift & !taylor)"), ("swift -", "swift"), ("swift --", "swift"),
        ("-\"taylor swift", "![taylor swift]"), ("-a -b", "(!a & !b)"), ("a -a ", "(a & !a)"),
        ("--verbose", "verbose*"), ("-(a", "a*"), ("swift - taylor", "(swift & taylor*)"),
        ("foo-bar", "[foo bar*]"), ("foo-bar ", "[foo bar]"), ("foo-", "foo"), ("C:/files", "[c files*]"),
        ("a AND b OR NOT c", "(a & and & b & or & not & c*)"), ("NEAR(a b)", "([near a] & b)"), ("swif*", "swif"),
        ("^a title:b", "(a & [title b*])"), ("(((", "nothing"), ("a;DROP TABLE b", "([a drop] & table & b*)"),
        ("東", "東*"), ("東 ", "東*"), ("東京", "東京*"), ("東京 ", "東京"), ("東京都", "[東京 京都*]"),
        ("swift入門 ", "[swift 入門]"), ("swift入", "[swift 入*]"), ("\"東京 大阪\"", "[東京 京 大阪]"), ("東a ", "[東 a]"),
        ("-東京", "!東京"), ("-東", "!東*"),
    ]

    @Test(arguments: typed) func typedTextHasThePlan(typed: String, wanted: String) {
        #expect(SearchPlan(SearchQuery(typed), attributes: ["text"]).text == wanted, "\(typed)")
    }

    private static let built: [(SearchQuery, String)] = [
        (.word("a"), "a"), (.word("a b"), "[a b]"), (.word("!"), "nothing"), (.prefix("a"), "a*"),
        (.prefix("a b"), "[a b*]"), (.prefix("a "), "a"), (.phrase("a b"), "[a b]"), (.phrase("a"), "a"),
        (.word("-a \"b"), "[a b]"), (.near(["a", "b c"], within: 3), "near(a b c, 3)"), (.near(["a"], within: 3), "a"),
        (.near(["東京 大阪", "都"], within: 3), "near(東京 大阪 都*, 3)"), (.near(["a", "b"], within: -3), "near(a b, 0)"),
        (.near([], within: 3), "nothing"), (.all([]), "nothing"), (.any([]), "nothing"), (.not(.all([])), "nothing"),
        (.all([.word("!"), .word("a")]), "a"), (.any([.word("!"), .not(.word("?"))]), "nothing"),
        (.any([.word("a"), .not(.word("b"))]), "(a | !b)"), (.not(.not(.word("a"))), "!!a"),
        (.all(["a b", .any(["c", .phrase("d e")])]), "(a & b* & (c* | [d e]))"),
        (.any(["a b ", "c -d"]), "((a & b) | (c & !d))"), (.any([.word("a"), .phrase("a")]), "a"),
    ]

    @Test(arguments: built) func aBuiltQueryHasThePlan(query: SearchQuery, wanted: String) {
        #expect(SearchPlan(query, attributes: ["text"]).text == wanted, "\(query)")
    }

    @Test func onlyLeavesOutsideOfNotAreScored() {
        func scored(_ query: SearchQuery) -> [Bool] {
            SearchPlan(query, attributes: ["text"]).leaves.map(\.isScored)
        }
        #expect(scored("a -b") == [true, false])
        #expect(scored("a -a b ") == [true, true])
        #expect(scored("-a a ") == [true])
        #expect(scored(.not(.not(.word("a")))) == [false])
        #expect(scored(.all([.not(.any(["a", .near(["b", "c"], within: 1)])), .word("d")])) == [false, false, true])
    }

    @Test func namesOfAttributesBecomeAMask() {
        func masks(_ query: SearchQuery) -> [UInt64?] {
            SearchPlan(query, attributes: ["title", "text", "notes"]).leaves.map(\.attributes)
        }
        #expect(masks("a ") == [nil])
        #expect(masks(.word("a").inAttributes(["title", "notes"])) == [0b101])
        #expect(masks(.word("a").inAttributes(["unknown"])) == [0])
        #expect(
            masks(SearchQuery.word("a").inAttributes(["title", "text"]).inAttributes(["text", "notes"])) == [0b10])
        #expect(masks(.all([.word("a").inAttributes(["text"]), .word("a"), "a "])) == [0b10, nil])
        let names = (0..<SearchPlan.maximumAttributes).map { "attribute\($0)" }
        let last = SearchPlan(.word("a").inAttributes(["attribute63"]), attributes: names).leaves[0]
        #expect(last.allows(63) && !last.allows(62))
    }

    // MARK: Limits

    @Test func moreWordsThanALimitAreIgnored() {
        let typed = (0..<100).map { "word\($0)" }.joined(separator: " ")
        let plan = SearchPlan(SearchQuery(typed), attributes: ["text"])
        #expect(plan.text == "(" + (0..<64).map { "word\($0)" }.joined(separator: " & ") + ")")
        let any = SearchPlan(.any((0..<100).map { .word("word\($0)") }), attributes: ["text"])
        #expect(any.text == "(" + (0..<64).map { "word\($0)" }.joined(separator: " | ") + ")")
        let repeated = SearchPlan(SearchQuery(String(repeating: "a -a ", count: 500) + "b"), attributes: ["text"])
        #expect(repeated.text == "(a & !a)")
    }

    @Test func moreWordsOfAPhraseThanALimitAreIgnored() {
        let words = (0..<100).map { "word\($0)" }
        let wanted = "[" + words.prefix(64).joined(separator: " ") + "]"
        #expect(SearchPlan(.prefix(words.joined(separator: "-")), attributes: ["text"]).text == wanted)
        #expect(SearchPlan(.near(words, within: 2), attributes: ["text"]).leaves[0].patterns.count == 64)
        let exact = words.prefix(64).joined(separator: " ")
        #expect(SearchPlan(.prefix(exact), attributes: ["text"]).leaves[0].patterns.last?.isPrefix == true)
    }

    /// QP1 to QP4, and a bounded time.
    private func expectSound(_ plan: SearchPlan, _ name: @autoclosure () -> String) {
        #expect(plan.leaves.count <= SearchPlan.maximumLeaves, "QP1: \(name())")
        #expect(Set(plan.leaves).count == plan.leaves.count, "QP1: \(name())")
        for leaf in plan.leaves {
            #expect((1...SearchPlan.maximumPatterns).contains(leaf.patterns.count), "QP1: \(name())")
            #expect(leaf.patterns.count > 1 || leaf.distance == nil, "QP2: \(name())")
            #expect(leaf.patterns.allSatisfy { !$0.bytes.isEmpty && $0.bytes.count <= 64 }, "QP1: \(name())")
        }
        let numbers = plan.root.numbers
        #expect(Set(numbers) == Set(plan.leaves.indices), "QP3: \(name())")
        #expect(!plan.root.hasNothingInside && plan.root.depth <= 3, "QP3, QP4: \(name())")
        #expect(numbers.count <= 2 * SearchPlan.maximumLeaves, "QP1: \(name())")
    }

    /// A plan that is made in less than 50 milliseconds. A busy machine may pause, and hardly ten times.
    private func quickPlan(_ typed: String, _ name: @autoclosure () -> String) -> SearchPlan {
        var (plan, time) = (SearchPlan(SearchQuery.all([]), attributes: []), Duration.zero)
        for _ in 0..<10 {
            time = ContinuousClock().measure { plan = SearchPlan(SearchQuery(typed), attributes: ["title", "text"]) }
            if time < .milliseconds(50) { return plan }
        }
        Issue.record("\(name()) takes \(time)")
        return plan
    }

    private static let pieces = [
        "a", "b", "swift", "Ä", "ß", "e\u{301}", "東", "京都", "ไทย", "한국", "🙂", "👩‍👩‍👧", "\u{200D}", "\0", "\u{FEFF}",
        " ", "  ", "\n", "\u{3000}", "-", "−", "\"", "“", "„", "(", ")", "*", ":", "^", "/", "\\", "'", "’", ".", "AND",
        "OR", "NOT", "NEAR", "\u{10FFFF}", "\u{301}", "0", "٣", "_", "%", ";",
    ]

    /// A text without a minus excludes nothing, so it also finds itself.
    @Test func noTypedTextIsAnErrorOrTakesLong() {
        var random = SeededRandom(39)
        var finds = 0
        for number in 0..<100_000 {
            let count = number % 1000 == 0 ? 5000 : random.next(below: 12)
            let typed = (0..<count).map { _ in random.one(of: Self.pieces) }.joined()
            let plan = quickPlan(typed, typed.prefix(100).debugDescription)
            if number % 10 == 0 { expectSound(plan, typed.prefix(100).debugDescription) }
            if plan.root == .nothing || typed.contains("-") || typed.contains("−") { continue }
            var terms = DocumentTerms(plan, attributes: 1)
            terms.read(typed, 0)
            #expect(terms.matches, "\(typed.prefix(100).debugDescription)")
            finds += 1
        }
        #expect(finds > 20_000)
    }

    @Test(arguments: [
        "a", "a ", "-a ", "\"", "-", "é", "e\u{301}", "\u{301}", "東", "ไ", " ", "a東", "🙂\u{200D}", "a\"b\" ",
    ]) func tenMillionBytesTakeABoundedTime(piece: String) {
        let typed = String(repeating: piece, count: 10_000_000 / piece.utf8.count)
        expectSound(quickPlan(typed, piece), piece)
    }

    // MARK: Evaluation

    /// Every tree of words, `not`, and lists of two: its table of truth from bit patterns, and from the plan.
    @Test func smallTreesMatchByTheRulesOfLogic() {
        // Bit i of a table is the truth for the occurrences i: word a occurs if bit 0 of i is set, b with bit 1.
        let words: [(SearchQuery, UInt8)] = [
            (.word("a"), 0b1010_1010), (.word("b"), 0b1100_1100), (.word("c"), 0b1111_0000),
        ]
        var trees = words
        for _ in 0..<2 {
            let inner = trees
            trees += inner.map { (.not($0.0), ~$0.1) }
            for left in inner {
                for right in words.map({ ($0.0, $0.1) }) + words.map({ (.not($0.0), ~$0.1) }) {
                    trees.append((.all([left.0, right.0]), left.1 & right.1))
                    trees.append((.any([left.0, right.0]), left.1 | right.1))
                }
            }
        }
        #expect(trees.count > 500)
        for (query, table) in trees {
            let plan = SearchPlan(query, attributes: ["text"])
            let names = plan.leaves.map { $0.patterns[0].bytes[0] - UInt8(ascii: "a") }
            for occurrences in UInt8(0)..<8 {
                let matches = plan.matches { occurrences >> names[$0] & 1 == 1 }
                #expect(matches == (table >> occurrences & 1 == 1), "\(query) for \(occurrences)")
                var terms = DocumentTerms(plan, attributes: 1)
                let text = (UInt8(0)..<3).map { occurrences >> $0 & 1 == 1 ? ["a", "b", "c"][Int($0)] : "x" }
                terms.read(text.joined(separator: " "), 0)
                #expect(terms.matches == matches, "\(query) in \(text)")
            }
            #expect(plan.matches { _ in false } == (table & 1 == 1), "\(query)")
        }
    }
}

// MARK: Help

extension SearchPlan {
    /// `a*` is a prefix, `[a b]` a phrase, `!a` the negation; `&` and `|` join parts.
    var text: String { root.text(leaves) }
}

extension SearchLeaf {
    fileprivate var text: String {
        let words = patterns.map { String(decoding: $0.bytes, as: UTF8.self) + ($0.isPrefix ? "*" : "") }
        let text = words.joined(separator: " ")
        if let distance { return "near(\(text), \(distance))" }
        return words.count == 1 ? text : "[\(text)]"
    }
}

extension SearchNode {
    fileprivate func text(_ leaves: [SearchLeaf]) -> String {
        switch self {
        case .leaf(let leaf): leaves[leaf].text
        case .all(let nodes): "(" + nodes.map { $0.text(leaves) }.joined(separator: " & ") + ")"
        case .any(let nodes): "(" + nodes.map { $0.text(leaves) }.joined(separator: " | ") + ")"
        case .not(let node): "!" + node.text(leaves)
        case .nothing: "nothing"
        }
    }

    private var parts: [SearchNode] {
        switch self {
        case .all(let nodes), .any(let nodes): nodes
        case .not(let node): [node]
        case .leaf, .nothing: []
        }
    }

    fileprivate var numbers: [Int] { if case .leaf(let leaf) = self { [leaf] } else { parts.flatMap(\.numbers) } }
    fileprivate var hasNothingInside: Bool { parts.contains { $0 == .nothing || $0.hasNothingInside } }
    fileprivate var depth: Int { 1 + (parts.map(\.depth).max() ?? 0) }
}

extension DocumentTerms {
    mutating func read(_ text: String, _ attribute: Int) {
        var text = text
        text.withUTF8 { read(UnsafeRawBufferPointer($0), attribute: attribute) }
    }
}
