// The table of IDs against a dictionary.

import Annals
import TestSupport
import Testing

@Suite struct ObjectIDTableTests {
    /// Few different IDs, so that they are often replaced and removed; the highest are as far apart as IDs can be.
    @Test(arguments: [1, 2, 3, 4, 5, 6]) func theTableAgreesWithADictionary(_ seed: UInt64) throws {
        var random = SeededRandom(seed)
        let step = [1, 1, 512, 1 << 20, 1 << 40, 97][Int(seed) - 1]
        let nobody = try #require(ObjectID(entityNumber: 9, number: 1))
        var table = ObjectIDTable<Int>()
        var expected: [ObjectID: Int] = [:]
        for round in 0..<20_000 {
            // It grows, then shrinks to nothing, and again.
            let grows = round / 2_500 % 2 == 0
            let number = 1 + random.next() % 800 * UInt64(step) % ((1 << 47) - 1)
            let id = try #require(ObjectID(entityNumber: UInt16(1 + random.next() % 3), number: number))
            if (random.next() % 4 > 0) == grows {
                table[id] = round
                expected[id] = round
            } else {
                #expect(table.remove(id) == (expected.removeValue(forKey: id) != nil))
            }
            if round % 500 == 499 {
                #expect(table.count == expected.count && table.isEmpty == expected.isEmpty)
                #expect(table.sortedIDs == expected.keys.sorted())
                #expect(table.values.sorted() == expected.values.sorted())
                #expect(Dictionary(uniqueKeysWithValues: table.pairs.map { ($0.id, $0.value) }) == expected)
                #expect(expected.allSatisfy { table[$0.key] == $0.value })
                #expect(table[nobody] == nil)
            }
        }
        for id in expected.keys { table[id] = nil }
        #expect(table.isEmpty && table.sortedIDs.isEmpty)
    }

    @Test func theTableCanBeChangedDuringAnIteration() throws {
        var table: ObjectIDTable<Int> = [:]
        table.reserveCapacity(100)
        for number in 1...100 { table[try #require(ObjectID(entityNumber: 1, number: UInt64(number)))] = number }
        var seen = 0
        for (id, _) in table.pairs {
            table.remove(id)
            seen += 1
        }
        #expect(seen == 100 && table.isEmpty)
    }
}
