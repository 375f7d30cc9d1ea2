// Tables of few things, against the hash tables that they stand for.

import Annals
import TestSupport
import Testing

@Suite struct SmallTableTests {
    @Test(arguments: [1, 2, 3]) func namesAreFoundAsInADictionary(seed: UInt64) {
        var random = SeededRandom(seed)
        var table = NameNumbers()
        var model: [IdentifierName: UInt32] = [:]
        var copies: [(NameNumbers, [IdentifierName: UInt32])] = []
        for step in 0..<2000 {
            let name = IdentifierName("n\(random.next() % 80)")
            if random.next() % 3 == 0 {
                table.remove(name)
                model[name] = nil
            } else {
                #expect(table.insert(name, UInt32(step)) == (model[name] == nil))
                if model[name] == nil { model[name] = UInt32(step) }
            }
            if step % 200 == 0 { copies.append((table, model)) }
        }
        copies.append((table, model))
        for (table, model) in copies {
            for index in 0..<80 {
                let name = IdentifierName("n\(index)")
                #expect(table[name] == model[name])
            }
        }
    }

    @Test func typesAreFoundByTheirNumbers() {
        var types = AttributeTypes()
        for number: UInt16 in [5, 1, 9, 9, 3, 65_535, 2] { types.insert(number, number == 9 ? .int : .string) }
        types.insert(9, .bool)
        #expect(types[9] == .int && types[1] == .string && types[65_535] == .string)
        #expect(types[0] == nil && types[4] == nil && types[10] == nil)
    }

    @Test func duplicatesAreFound() {
        #expect([UInt16]().hasNeighbours == false && [UInt16](1...9).hasNeighbours == false)
        #expect([1, 2, 2, 3].hasNeighbours)
        #expect([1, 4, 9].hasSorted(4) && ![1, 4, 9].hasSorted(5) && ![1, 4, 9].hasSorted(10))
        #expect(!["a", "b", "ab"].hasDuplicates)
        // Composed differently, and so two names.
        #expect(!["e\u{301}", "\u{e9}"].hasDuplicates)
        #expect(["b", "a", "b"].hasDuplicates)
    }
}
