// Entities with searchable texts, and what a search of them must find.

import Annals
import FoundationEssentials
import TestSupport
import Testing

struct SearchNote: Entity, Equatable {
    var title = ""
    var text: String?
    var rank = 0

    static let schema = Schema<SearchNote> {
        Attribute(\.title, .searchable(weight: 3))
        Attribute(\.text, .searchable)
    }
}

/// Finds the matches among all objects of a state by reading each of them.
struct SearchOracle {
    private let notes: [(reference: Reference<SearchNote>, value: SearchNote)]

    init(_ snapshot: Snapshot) throws {
        var notes: [(reference: Reference<SearchNote>, value: SearchNote)] = []
        try snapshot.forEach(SearchNote.self) { reference, value in
            notes.append((reference, value))
            return true
        }
        self.notes = notes
    }

    init(_ notes: [(reference: Reference<SearchNote>, value: SearchNote)]) { self.notes = notes }

    /// The references of the matches in their order, with their scores.
    func search(
        _ query: SearchQuery, where isWanted: (SearchNote) -> Bool = { _ in true }
    ) -> [(Reference<SearchNote>, Double)] {
        let plan = SearchPlan(query, attributes: ["title", "text"])
        var statistics = SearchStatistics(
            objects: UInt64(notes.count), totalLengths: [0, 0], containing: plan.leaves.map { _ in 0 })
        var matches: [(reference: Reference<SearchNote>, terms: DocumentTerms)] = []
        for (reference, value) in notes {
            let terms = Self.terms(value, plan)
            for attribute in 0...1 { statistics.totalLengths[attribute] += UInt64(terms.lengths[attribute]) }
            for leaf in plan.leaves.indices where terms.frequency(leaf, 0) + terms.frequency(leaf, 1) > 0 {
                statistics.containing[leaf] += 1
            }
            if terms.matches, isWanted(value) { matches.append((reference, terms)) }
        }
        let ranking = Ranking(plan, statistics, weights: [3, 1])
        return matches.map { match in
            (
                match.reference,
                ranking.score(
                    frequency: { match.terms.frequency($0, $1) }, length: { match.terms.lengths[$0] })
            )
        }.sorted { $0.1 != $1.1 ? $0.1 > $1.1 : $0.0 > $1.0 }
    }

    private static func terms(_ note: SearchNote, _ plan: SearchPlan) -> DocumentTerms {
        var terms = DocumentTerms(plan, attributes: 2)
        for (attribute, text) in [note.title, note.text].enumerated() {
            guard var text else { continue }
            text.withUTF8 { terms.read(UnsafeRawBufferPointer($0), attribute: attribute) }
        }
        return terms
    }
}

/// Random texts and queries over few words, so that most queries find something.
struct SearchWords {
    static let words = [
        "swift", "linux", "swim", "Straße", "strasse", "naïve", "naive", "東京都", "京都", "東京", "a", "ab", "abc", "foo-bar",
        "foo", "bar", "don't", "x86", "🎉", "łódź", "Lodz", "ภาษาไทย",
    ]

    static func text(_ random: inout SeededRandom, most: Int = 12) -> String {
        (0..<Int.random(in: 0...most, using: &random)).map { _ in random.one(of: words) }.joined(separator: " ")
    }

    static func query(_ random: inout SeededRandom, depth: Int = 2) -> SearchQuery {
        let word = random.one(of: words)
        switch Int.random(in: 0..<(depth > 0 ? 12 : 6), using: &random) {
        case 0...1: return SearchQuery(text(&random, most: 3) + (random.happens(0.3) ? " -" + word : ""))
        case 2: return .word(word)
        case 3: return .prefix(String(word.prefix(Int.random(in: 1...3, using: &random))))
        case 4: return .phrase(text(&random, most: 3))
        case 5:
            return .near([word, random.one(of: words)], within: Int.random(in: 0...4, using: &random))
        case 6...7: return .all((0...1).map { _ in query(&random, depth: depth - 1) })
        case 8...9: return .any((0...2).map { _ in query(&random, depth: depth - 1) })
        case 10: return .not(query(&random, depth: depth - 1))
        default: return .all([query(&random, depth: depth - 1), .not(.word(word))])
        }
    }
}
