// Entities with searchable texts, and what a search of them must find.

package import Annals

/// An entity of which the oracle of searches knows the searchable texts.
package protocol SearchSample: Entity {
    /// The searchable properties with their weights.
    static var searched: [(name: String, weight: Double)] { get }
    /// Their texts.
    var searchedTexts: [String?] { get }
}

package struct SearchNote: SearchSample, Equatable {
    package var title = ""
    package var text: String?
    package var rank = 0

    package init() {}
    package init(title: String, text: String? = nil, rank: Int = 0) {
        (self.title, self.text, self.rank) = (title, text, rank)
    }

    package static let schema = Schema<SearchNote> {
        Attribute(\.title, .searchable(weight: 3))
        Attribute(\.text, .searchable)
    }
    package static var searched: [(name: String, weight: Double)] { [("title", 3), ("text", 1)] }
    package var searchedTexts: [String?] { [title, text] }
}

/// Finds the matches among all objects of a state by reading each of them.
package struct SearchOracle<E: SearchSample> {
    package let notes: [(reference: Reference<E>, value: E)]

    package init(_ snapshot: Snapshot) throws {
        var notes: [(reference: Reference<E>, value: E)] = []
        try snapshot.forEach(E.self) { reference, value in
            notes.append((reference, value))
            return true
        }
        self.notes = notes
    }

    package init(_ notes: [(reference: Reference<E>, value: E)]) { self.notes = notes }

    /// The references of the matches in their order, with their scores.
    package func search(_ query: SearchQuery) -> [(Reference<E>, Double)] {
        let searched = E.searched
        let plan = SearchPlan(query, attributes: searched.map(\.name))
        var statistics = SearchStatistics(
            objects: UInt64(notes.count), totalLengths: searched.map { _ in 0 }, containing: plan.leaves.map { _ in 0 })
        var matches: [(reference: Reference<E>, terms: DocumentTerms)] = []
        for (reference, value) in notes {
            let terms = Self.terms(value, plan)
            for attribute in searched.indices { statistics.totalLengths[attribute] += UInt64(terms.lengths[attribute]) }
            for leaf in plan.leaves.indices where searched.indices.contains(where: { terms.frequency(leaf, $0) > 0 }) {
                statistics.containing[leaf] += 1
            }
            if terms.matches { matches.append((reference, terms)) }
        }
        let ranking = Ranking(plan, statistics, weights: searched.map(\.weight))
        return matches.map { match in
            (
                match.reference,
                ranking.score(
                    frequency: { match.terms.frequency($0, $1) }, length: { match.terms.lengths[$0] })
            )
        }.sorted { $0.1 != $1.1 ? $0.1 > $1.1 : $0.0 > $1.0 }
    }

    private static func terms(_ note: E, _ plan: SearchPlan) -> DocumentTerms {
        var terms = DocumentTerms(plan, attributes: E.searched.count)
        for (attribute, text) in note.searchedTexts.enumerated() {
            guard var text else { continue }
            text.withUTF8 { terms.read(UnsafeRawBufferPointer($0), attribute: attribute) }
        }
        return terms
    }

    /// Nil if a search of the state finds the same objects in the same order with the same scores, to the last bit;
    /// otherwise the difference.
    package func difference(from snapshot: Snapshot, _ query: SearchQuery) throws -> String? {
        let expected = search(query)
        let found = try snapshot.search(E.self, for: query)
        if found.map(\.reference) == expected.map(\.0), found.map(\.score.bitPattern) == expected.map(\.1.bitPattern) {
            return nil
        }
        return "\(E.self), \(query):\n  found \(found.map { ($0.reference, $0.score) })\n  instead of \(expected)"
    }
}

/// Random texts and queries over few words, so that most queries find something.
package struct SearchWords {
    package static let words = [
        "swift", "linux", "swim", "Straße", "strasse", "naïve", "naive", "東京都", "京都", "東京", "a", "ab", "abc", "foo-bar",
        "foo", "bar", "don't", "x86", "🎉", "łódź", "Lodz", "ภาษาไทย",
    ]

    package static func text(_ random: inout SeededRandom, most: Int = 12) -> String {
        (0..<Int.random(in: 0...most, using: &random)).map { _ in random.one(of: words) }.joined(separator: " ")
    }

    package static func query(_ random: inout SeededRandom, depth: Int = 2) -> SearchQuery {
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
