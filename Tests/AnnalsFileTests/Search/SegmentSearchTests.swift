// Lists are found by their term or its prefix, and postings by their ordinal.

import Annals
import TestSupport
import Testing

@Suite struct SegmentSearchTests {
    @Test(arguments: 0..<30) func theListsOfATermOrAPrefixAreFound(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let numbers = SegmentModel.numbers(&random, count: random.one(of: [1, 30, 500]))
        let model = SegmentModel(&random, numbers: numbers, attributes: random.one(of: [1, 3]))
        let reader = try model.built().kept()
        let lists = model.lists.keys.sorted()
        for pattern in Self.patterns(&random, lists) {
            for isPrefix in [false, true] {
                let expected = lists.filter { isPrefix ? $0.term.starts(with: pattern) : $0.term == pattern }
                let found = try Self.found(reader.reader, pattern, isPrefix: isPrefix)
                #expect(found == expected, "seed \(seed), pattern \(pattern), prefix \(isPrefix)")
            }
        }
    }

    /// Terms and their neighbours, prefixes, and terms before the first and after the last one.
    private static func patterns(_ random: inout SeededRandom, _ lists: [ModelList]) -> [[UInt8]] {
        var patterns: [[UInt8]] = [[], [0], [255, 255, 255], Array(repeating: 1, count: 300)]
        if let first = lists.first?.term, let last = lists.last?.term {
            patterns += [first, last, last + [0], first.dropLast() as [UInt8]]
        }
        for _ in 0..<40 where !lists.isEmpty {
            let term = random.one(of: lists).term
            patterns.append(term)
            patterns.append(Array(term.prefix(random.next(below: term.count + 1))))
            patterns.append(term + [UInt8(random.next(below: 3))])
            var other = term
            other[random.next(below: term.count)] &+= 1
            patterns.append(other)
        }
        return patterns
    }

    private static func found(
        _ reader: SegmentReader, _ pattern: [UInt8], isPrefix: Bool, limit: Int = .max
    ) throws -> [ModelList] {
        var found: [ModelList] = []
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: pattern.count, alignment: 1)
        defer { bytes.deallocate() }
        bytes.copyBytes(from: pattern)
        try reader.forEachList(of: UnsafeRawBufferPointer(bytes), isPrefix: isPrefix) {
            term, attribute, list throws(StoreError) in
            #expect(list.attribute == attribute)
            found.append(ModelList(term: Array(term), attribute: attribute))
            return found.count < limit
        }
        return found
    }

    /// Terms that begin blocks, in a directory of several blocks.
    @Test func everyTermOfALargeDirectoryIsFound() throws {
        var model = SegmentModel()
        var terms: [[UInt8]] = []
        // Few lists fit a block, and each term is as long as it may be.
        for index in 0..<450 {
            let tail = [UInt8(index / 200), UInt8(index % 200)]
            terms.append([UInt8](repeating: 9, count: 253) + tail)
        }
        for number in 1...20 as ClosedRange<UInt64> {
            model.objects[number] = [
                (0..<450 * 160).map { .init(term: terms[$0 % 450], position: $0 * 50_021) }
            ]
        }
        let kept = try model.built().kept()
        #expect(kept.reader.descriptor.directoryBlocks > 1)
        for term in terms {
            let found = try Self.found(kept.reader, term, isPrefix: false)
            #expect(found == [ModelList(term: term, attribute: 0)])
        }
        #expect(try Self.found(kept.reader, [9], isPrefix: true).count == 450)
    }

    @Test func theSearchEndsWhenItsClosureReturnsFalse() throws {
        var model = SegmentModel()
        model.add(1, [[[1], [2], [3]]])
        let kept = try model.built().kept()
        #expect(try Self.found(kept.reader, [], isPrefix: true, limit: 2).map(\.term) == [[1], [2]])
    }

    /// Random skips, and the positions of some postings, once or twice.
    @Test(arguments: 0..<30) func postingsAreSkipped(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let numbers = SegmentModel.numbers(&random, count: random.one(of: [30, 500, 3000]))
        let model = SegmentModel(&random, numbers: numbers, attributes: 1)
        let kept = try model.built().kept()
        let lists = model.lists
        let ordinals = Dictionary(uniqueKeysWithValues: numbers.enumerated().map { ($0.element, $0.offset) })
        var positions = PostingPositions()
        try kept.reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            term, _, list throws(StoreError) in
            let postings = (lists[ModelList(term: Array(term), attribute: 0)] ?? [:])
                .map { (ordinal: ordinals[$0.key] ?? -1, positions: $0.value) }.sorted { $0.ordinal < $1.ordinal }
            var iterator = list.iterator()
            var place = -1
            while true {
                let step = random.next(below: random.one(of: [2, 20, 1000]))
                let target = max(iterator.ordinal, 0) + step
                let isFound = step == 0 ? try iterator.next() : try iterator.skip(to: target)
                if step == 0 {
                    place += 1
                } else {
                    while place < 0 || place < postings.count && postings[place].ordinal < target { place += 1 }
                }
                #expect(isFound == (place < postings.count), "seed \(seed)")
                guard isFound, place < postings.count else { break }
                #expect(iterator.ordinal == postings[place].ordinal, "seed \(seed)")
                #expect(iterator.frequency == postings[place].positions.count, "seed \(seed)")
                for _ in 0..<random.next(below: 3) {
                    try iterator.readPositions(&positions)
                    #expect(Array(positions.values) == postings[place].positions, "seed \(seed)")
                }
            }
            return true
        }
    }
}

/// A reader with its blocks.
struct KeptReader {
    let reader: SegmentReader
    let blocks: SegmentBlocks
}

extension SegmentBlocks {
    func kept() throws -> KeptReader { KeptReader(reader: try reader(), blocks: self) }
}
