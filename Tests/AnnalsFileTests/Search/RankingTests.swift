// Scores against numbers computed by hand, and the best matches against sorting.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct RankingTests {
    /// Scores of objects by their texts: each object is a list of attributes.
    private func scores(_ query: SearchQuery, weights: [Double], _ objects: [[String]]) -> [Double] {
        let plan = SearchPlan(query, attributes: weights.indices.map { "attribute\($0)" })
        let all = objects.map { texts in
            var terms = DocumentTerms(plan, attributes: weights.count)
            for (attribute, text) in texts.enumerated() { terms.read(text, attribute) }
            return terms
        }
        let statistics = SearchStatistics(
            objects: UInt64(all.count),
            totalLengths: weights.indices.map { attribute in all.reduce(0) { $0 + UInt64($1.lengths[attribute]) } },
            containing: plan.leaves.indices.map { leaf in
                UInt64(all.count { terms in weights.indices.contains { terms.frequency(leaf, $0) > 0 } })
            })
        let ranking = Ranking(plan, statistics, weights: weights)
        return all.map { terms in ranking.score(frequency: terms.frequency, length: { terms.lengths[$0] }) }
    }

    private func isNear(_ found: [Double], _ wanted: [Double]) -> Bool {
        found.count == wanted.count && zip(found, wanted).allSatisfy { abs($0 - $1) < 1e-14 }
    }

    /// Three texts of 3, 2 and 4 words: the average is 3. Each word is in two of the three, so
    /// idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)) = ln 1.6 = 0.470003629245735….
    ///
    /// - First text: the factor of its length is 0.25 + 0.75 * 3/3 = 1, so f = 1 for each word, and
    ///   f * 2.2 / (1.2 + f) = 1. The score is 2 * 0.470003629245735… = 0.940007258491471….
    /// - Second text: 0.25 + 0.75 * 2/3 = 0.75, f = 2 / 0.75 = 8/3, 8/3 * 2.2 / (1.2 + 8/3) = 44/29. The score is
    ///   0.470003629245735… * 44/29 = 0.713108954717668….
    /// - Third text: 0.25 + 0.75 * 4/3 = 1.25, f = 0.8, 0.8 * 2.2 / (1.2 + 0.8) = 0.88. The score is
    ///   0.470003629245735… * 0.88 = 0.413603193736247….
    @Test func scoresAreThoseComputedByHand() {
        let texts = [["Swift on Linux"], ["Swift, swift!"], ["Rust on Linux servers"]]
        let found = scores("swift linux ", weights: [1], texts)
        #expect(isNear(found, [0.940007258491471, 0.713108954717668, 0.413603193736247]), "\(found)")
    }

    /// Two objects, titles of 1 and 1 words, texts of 3 and 1: the averages are 1 and 2. "a" is in both, so
    /// idf = ln(1 + 0.5 / 2.5) = ln 1.2 = 0.182321556793954….
    ///
    /// - First: the title has f = 3 * 1 / 1, the text 2 / (0.25 + 0.75 * 3/2) = 2 / 1.375 = 16/11; together 49/11.
    ///   49/11 * 2.2 / (1.2 + 49/11) = 9.8 / (62.2/11) = 107.8 / 62.2. The score is ln 1.2 * 107.8 / 62.2.
    /// - Second: only the text, 1 / (0.25 + 0.75 * 1/2) = 1.6; 1.6 * 2.2 / 2.8 = 8.8/7. The score is ln 1.2 * 8.8 / 7.
    @Test func attributesWithWeightsAreAddedBeforeTheyAreSaturated() {
        let found = scores(.word("a"), weights: [3, 1], [["a", "a b a"], ["c", "a"]])
        #expect(isNear(found, [0.182321556793954 * 107.8 / 62.2, 0.182321556793954 * 8.8 / 7]), "\(found)")
    }

    @Test func excludedWordsDoNotCount() {
        let texts = [["a b"], ["a c"], ["d"]]
        #expect(scores("a -d ", weights: [1], texts) == scores("a ", weights: [1], texts))
        #expect(scores("-d ", weights: [1], texts) == [0, 0, 0])
    }

    @Test func aWordInEachObjectStillCounts() {
        let found = scores("a ", weights: [1], [["a"], ["a"], ["a b"]])
        #expect(found.allSatisfy { $0 > 0 })
    }

    /// RK1.
    @Test func scoresAreFiniteForExtremeStatistics() {
        let plan = SearchPlan(.word("a"), attributes: ["text"])
        for objects: UInt64 in [0, 1, 1 << 48] {
            for containing in Set([0, objects]) {
                for total: UInt64 in [0, 1, .max] {
                    let statistics = SearchStatistics(objects: objects, totalLengths: [total], containing: [containing])
                    for frequency: UInt32 in [0, 1, .max] {
                        let ranking = Ranking(plan, statistics, weights: [1])
                        let score = ranking.score(frequency: { _, _ in frequency }, length: { _ in frequency })
                        #expect(score.isFinite && score >= 0, "RK1: \(statistics), \(frequency)")
                        #expect((score > 0) == (frequency > 0), "RK1: \(statistics), \(frequency)")
                    }
                }
            }
        }
    }

    // MARK: The logarithm

    @Test func theLogarithmDiffersFromTheSystemsByOneUnitAtMost() {
        var numbers = [1.0, 2.0, 0.5, 2.0.squareRoot(), 1.6, Double.leastNormalMagnitude]
        numbers += [Double.greatestFiniteMagnitude, 1.0.nextUp, 1.0.nextDown, 2.0.squareRoot().nextUp, 2.0.nextDown]
        var random = SeededRandom(3)
        for _ in 0..<200_000 {
            numbers.append(Double(bitPattern: (random.next() >> 12) | UInt64(random.next(below: 2046) + 1) << 52))
            numbers.append(Double.random(in: 0.5..<4, using: &random))
            numbers.append(1 + Double.random(in: 0..<1e9, using: &random))
        }
        var worst = 0.0
        for number in numbers {
            let (found, wanted) = (Ranking.naturalLogarithm(number), log(number))
            if found != wanted { worst = max(worst, abs(found - wanted) / wanted.ulp) }
        }
        #expect(worst <= 1)
        #expect(Ranking.naturalLogarithm(1) == 0)
    }

    // MARK: The best matches

    @Test(arguments: [0, 1, 2, 7, 20, 1000]) func theBestMatchesAreTheFirstAfterSorting(limit: Int) {
        var random = SeededRandom(UInt64(limit))
        for round in 0..<60 {
            let count = random.next(below: 200)
            let numbers = (0..<UInt64(count)).shuffled(using: &random)
            // Few different scores, so that many are equal.
            let matches = numbers.map { (score: Double(random.next(below: round + 1)) / 3, number: $0) }
            var best = BestMatches(limit: limit)
            for match in matches { best.add(score: match.score, number: match.number) }
            let wanted = matches.sorted { ($1.score, $1.number) < ($0.score, $0.number) }.prefix(limit)
            #expect(best.sorted() == wanted.map { RankedMatch(score: $0.score, number: $0.number) }, "RK2")
        }
    }
}
