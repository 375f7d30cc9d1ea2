// The IDs that a transaction has changed, beside Swift's set.

import Annals
import TestSupport
import Testing

@Suite struct ChangedIDsTests {
    @Test func anEmptyTableContainsNothing() {
        var table = ChangedIDs()
        #expect(table.isEmpty && !table.contains(1) && table.memory == 0)
        table.removeAll()
        #expect(table.isEmpty && !table.contains(.max))
    }

    @Test(arguments: 1..<5 as Range<UInt64>)
    func anyOrderOfIDsEqualsASet(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var table = ChangedIDs()
        var expected = Set<UInt64>()
        for _ in 0..<200 {
            for _ in 0..<Int.random(in: 0..<400, using: &random) {
                // Few entities and few numbers, so that IDs come again.
                let id = UInt64.random(in: 1..<5, using: &random) << 48 | UInt64.random(in: 0..<2_000, using: &random)
                try #require(table.contains(id) == expected.contains(id), "seed \(seed)")
                table.insert(id)
                expected.insert(id)
            }
            try #require(table.count == expected.count, "seed \(seed)")
            try #require(expected.allSatisfy { table.contains($0) }, "seed \(seed)")
            if Bool.random(using: &random) {
                table.removeAll()
                expected = []
            }
        }
    }

    @Test func idsOfManyEntitiesWithTheSameNumberAreFound() throws {
        var table = ChangedIDs()
        for entity in 1...UInt64(UInt16.max) { table.insert(entity << 48 | 7) }
        #expect(table.count == Int(UInt16.max))
        for entity in 1...UInt64(UInt16.max) {
            try #require(table.contains(entity << 48 | 7))
            try #require(!table.contains(entity << 48 | 8))
        }
    }

    @Test func aSmallTransactionAfterALargeOneFreesTheMemory() {
        var table = ChangedIDs()
        for id in 1...10_000 as ClosedRange<UInt64> { table.insert(id) }
        let large = table.memory
        table.removeAll()
        #expect(table.memory == large && !table.contains(1))
        table.insert(1)
        table.removeAll()
        #expect(table.memory == 0)
    }
}
