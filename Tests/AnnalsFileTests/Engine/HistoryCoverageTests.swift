// What part of history can be requested: every small history against a naive model, which looks at each transaction.

import Annals
import Testing

@Suite struct HistoryCoverageTests {
    /// Transactions 1 to 6 are by the authors 1, 2, 0, 1, 2, 0.
    static let newest: UInt64 = 6
    static func author(_ number: UInt64) -> UInt32 { UInt32(number % 3) }

    /// Every horizon, with the transactions of two authors cleaned up to every place above it.
    static let coverages: [HistoryCoverage] = {
        var coverages: [HistoryCoverage] = []
        for horizon in 0...newest {
            for first in horizon + 1...newest + 1 {
                for second in horizon + 1...newest + 1 {
                    var hidden: [CleaningRecord.Hidden] = []
                    if first > horizon + 1 { hidden.append(.init(author: 0, before: first)) }
                    if second > horizon + 1 { hidden.append(.init(author: 2, before: second)) }
                    coverages.append(HistoryCoverage(horizon: horizon, hidden: hidden, gaps: []))
                }
            }
        }
        return coverages
    }()

    @Test func placesAreHeldFromTheHorizonToTheNewest() {
        for coverage in Self.coverages {
            for number in 0...Self.newest + 1 {
                let expected: StoreError.Code? =
                    number > Self.newest ? .tokenUnknown : number < coverage.horizon ? .tokenExpired : nil
                #expect(coverage.refusal(of: number, newest: Self.newest) == expected)
            }
        }
    }

    /// Of each range and each choice of authors: nothing that was cleaned is above the end, and without an end nothing
    /// was.
    @Test func noCleanedTransactionIsAboveTheCleanedEnd() {
        var ends = 0
        for coverage in Self.coverages {
            let before = Dictionary(uniqueKeysWithValues: coverage.hidden.map { ($0.author, $0.before) })
            func isCleaned(_ number: UInt64) -> Bool {
                number <= coverage.horizon || number < before[Self.author(number)] ?? 0
            }
            for number in 1...Self.newest {
                #expect(coverage.isCleaned(number, author: Self.author(number)) == isCleaned(number))
            }
            for authors in [nil, [], [0], [1], [2], [0, 2], [1, 2]] as [Set<UInt32>?] {
                var filter = TransactionFilter()
                filter.authors = authors
                for after in coverage.horizon...Self.newest {
                    for end in after...Self.newest + 1 {
                        let range: Range<UInt64> = after + 1..<max(after + 1, end)
                        let lost: [UInt64] = range.filter { (number: UInt64) -> Bool in
                            isCleaned(number) && filter.authors?.contains(Self.author(number)) ?? true
                        }
                        let found: UInt64? = coverage.cleanedEnd(after: after, before: end, filter)
                        if let last = lost.last { #expect(found ?? 0 > last) }
                        if let found { #expect(found > after + 1 && found <= end) }
                        if !lost.isEmpty { ends += 1 }
                    }
                }
            }
        }
        #expect(ends > 100)
    }

    /// Each choice of entities meets the first of its gaps in whose versions something was left out.
    @Test func aRequestMeetsTheGapsOfTheEntitiesThatItNames() throws {
        let gaps = [
            HistoryGap(entity: 2, first: 1, end: .open), HistoryGap(entity: 3, first: 2, end: .resumed(4)),
            HistoryGap(entity: 4, first: 1, end: .removed(3)), HistoryGap(entity: 5, first: 3, end: .resumed(5)),
        ]
        let coverage = HistoryCoverage(horizon: 0, hidden: [], gaps: gaps)
        /// Versions whose transactions lack changes of the entity: of one whose history is off, all.
        let lacking: [UInt16: Set<UInt16>] = [2: Set(1...6), 3: [2, 3], 4: [1, 2], 5: [3, 4]]
        for choice in UInt16(0)..<64 {
            let chosen: [UInt16] = (1...6).filter { (entity: UInt16) in choice >> (entity - 1) & 1 == 1 }
            let named: Set<UInt16>? = choice == 0 ? nil : Set(chosen)
            for low in UInt16(1)...6 {
                for high in low...6 {
                    // Who names nothing requests what has a history.
                    let requested: Set<UInt16> = named ?? [1, 3, 5, 6]
                    let expected = requested.sorted().first { (entity: UInt16) -> Bool in
                        lacking[entity]?.contains { (low...high).contains($0) } ?? false
                    }
                    let found = try coverage.gap(named: named) { () throws(StoreError) in low...high }
                    #expect(found?.entity == expected, "\(named ?? []) \(low)...\(high)")
                }
            }
            let ofNothing = try coverage.gap(named: named) { () throws(StoreError) in nil }
            let isOffNamed = named?.contains(2) ?? false
            #expect(ofNothing?.entity == (isOffNamed ? 2 : nil))
        }
        // Versions cost looking at the file: they are requested only if they matter.
        let unasked = try coverage.gap(named: [1, 6]) { () throws(StoreError) in
            Issue.record("The versions were asked for.")
            return nil
        }
        #expect(unasked == nil && coverage.gap(of: 3) == gaps[1] && coverage.gap(of: 1) == nil)
    }
}
