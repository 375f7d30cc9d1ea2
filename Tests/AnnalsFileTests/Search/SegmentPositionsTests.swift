// Attributes whose positions a segment does not have.

import Annals
import TestSupport
import Testing

@Suite struct SegmentPositionsTests {
    @Test(arguments: 0..<40) func theListsAreTheSameWithoutPositions(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let numbers = SegmentModel.numbers(&random, count: random.one(of: [1, 5, 50, 1500]))
        var model = SegmentModel(&random, numbers: numbers, attributes: 3)
        model.positional = random.one(of: [0, 1, 2, 6])
        let blocks = try model.built()
        let reader = try blocks.reader()
        try reader.verify()
        var expected = model.lists
        var positions = PostingPositions()
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            (term, attribute, list) throws(StoreError) in
            let name = ModelList(term: Array(term), attribute: attribute)
            let objects = expected.removeValue(forKey: name) ?? [:]
            let isKept = model.positional >> UInt64(attribute) & 1 == 1
            var (iterator, found) = (list.iterator(), 0)
            while try iterator.next() {
                let known = try objects[reader.number(of: iterator.ordinal)] ?? []
                try iterator.readPositions(&positions)
                let right = isKept ? known : (0..<UInt32(known.count)).map(\.self)
                #expect(iterator.frequency == known.count && Array(positions.values) == right, "seed \(seed), \(name)")
                found += 1
            }
            #expect(found == objects.count, "seed \(seed), \(name)")
            return true
        }
        #expect(expected.isEmpty, "seed \(seed)")
    }

    @Test func positionsAreMostOfALongList() throws {
        var model = SegmentModel()
        for number in 0..<2000 as Range<UInt64> { model.add(number, [(0..<50).map { [UInt8(1 + ($0 * 7) % 10)] }]) }
        let whole = try #require(model.built().descriptor)
        model.positional = 0
        let part = try #require(model.built().descriptor)
        #expect(part.byteCount * 4 < whole.byteCount)
        #expect(part.totalLengths == whole.totalLengths)
    }

    /// A posting of more than 1024 positions is in several chunks; its frequency is the sum.
    @Test func aLongPostingHasItsWholeFrequency() throws {
        var model = SegmentModel(positional: 0)
        model.add(1, [[[3]]])
        model.add(2, [Array(repeating: [3], count: 5000)])
        model.add(3, [[[3], [3]]])
        let blocks = try model.built()
        let reader = try blocks.reader()
        try reader.verify()
        var frequencies: [Int] = []
        try ([3] as [UInt8]).withUnsafeBytes { term in
            try reader.forEachList(of: term, isPrefix: false) { (_, _, list) throws(StoreError) in
                var iterator = list.iterator()
                while try iterator.next() { frequencies.append(iterator.frequency) }
                return true
            }
        }
        #expect(frequencies == [1, 5000, 2])
    }
}
