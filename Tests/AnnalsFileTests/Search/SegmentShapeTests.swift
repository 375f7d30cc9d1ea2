// Segments of unusual shapes: very long lists and postings, long terms, no terms.

import Annals
import TestSupport
import Testing

@Suite struct SegmentShapeTests {
    @Test func oneObjectWithOneTermIsReadBack() throws {
        var model = SegmentModel()
        model.add(0, [[[255]]])
        try SegmentTests.compare(model, model.built(), "one object")
    }

    /// The whole form, so that a change of the format is noticed.
    @Test func theBytesOfASmallSegmentAreKnown() throws {
        var model = SegmentModel(attributes: 2)
        model.add(5, [[[97], [98], [97]], []])
        model.add(9, [[[97, 98]], [[97]]])
        let blocks = try model.built()
        let a: [UInt8] = [0x01, 97, 0x00, 6, 0, 1, 0x20, 0x00, 0x01, 0b101]
        let rest: [UInt8] = [0x10, 0x01, 3, 1, 0, 0, 0x11, 98, 0x00, 3, 1, 0, 0, 0x01, 98, 0x00, 3, 0, 0, 1]
        #expect(blocks.bytes.count == 3)
        #expect(blocks.bytes[0] == [0, 0, 3, 0, 4, 0, 1, 1])
        #expect(blocks.bytes[1] == a + rest + [0, 0, 30, 0, 0, 0, 4, 0])
        #expect(blocks.bytes[2] == [1, 0, 97, 0, 0, 0, 0, 0, 0, 1, 0])
    }

    @Test func objectsWithoutTermsAreReadBack() throws {
        var model = SegmentModel(attributes: 3)
        for number in [3, 8, 100] as [UInt64] { model.add(number, [[], [], []]) }
        let blocks = try model.built()
        try SegmentTests.compare(model, blocks, "no terms")
        #expect(blocks.descriptor?.termBlocks == 0)
        #expect(blocks.blocks.count == 1)
    }

    @Test func aListContinuesOverManyBlocks() throws {
        var random = SeededRandom(1)
        var model = SegmentModel()
        var number: UInt64 = 0
        for _ in 0..<40_000 {
            number += 1 + random.next(below: UInt64(9))
            let place = random.next(below: 500)
            model.objects[number] = [[.init(term: [7], position: place), .init(term: [9], position: place + 1)]]
        }
        let blocks = try model.built()
        #expect((blocks.descriptor?.termBlocks ?? 0) > 3)
        try SegmentTests.compare(model, blocks, "a long list")
    }

    /// The posting of a long text continues over chunks, entries and blocks.
    @Test(arguments: [1024, 1025, 2048, 2049, 60_000]) func aPostingContinuesOverManyChunks(count: Int) throws {
        var random = SeededRandom(UInt64(count))
        var model = SegmentModel()
        for number in 1...9 as ClosedRange<UInt64> { model.add(number, [[[1], [7], [1]]]) }
        for number in [5, 6, 8] as [UInt64] {
            var position = 0
            model.objects[number] = [
                (0..<count).map { _ in
                    position += 1 + random.next(below: 300)
                    return .init(term: [7], position: position)
                }
            ]
        }
        let blocks = try model.built()
        try SegmentTests.compare(model, blocks, "\(count) occurrences")
        try Self.compareFrequencies(model, blocks, "\(count) occurrences")
    }

    /// Frequencies without the positions, then the positions of some postings.
    static func compareFrequencies(_ model: SegmentModel, _ blocks: SegmentBlocks, _ note: Comment) throws {
        let reader = try blocks.reader()
        let lists = model.lists
        let numbers = model.numbers
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            term, attribute, list throws(StoreError) in
            var expected = lists[ModelList(term: Array(term), attribute: attribute)] ?? [:]
            var iterator = list.iterator()
            try iterator.forEachPosting { ordinal, frequency throws(StoreError) in
                #expect(expected.removeValue(forKey: numbers[ordinal])?.count == frequency, note)
            }
            #expect(expected.isEmpty, note)
            return true
        }
    }

    @Test func longTermsWithLongSharedPrefixesAreReadBack() throws {
        var random = SeededRandom(2)
        var model = SegmentModel()
        let prefixes = [0, 14, 15, 16, 60].map { [UInt8](repeating: 255, count: $0) }
        var terms: Set<[UInt8]> = []
        while terms.count < 10_000 {
            let prefix = random.one(of: prefixes)
            terms.insert(prefix + (0..<random.one(of: [1, 2, 4])).map { _ in UInt8(random.next(below: 256)) })
        }
        for (number, term) in terms.enumerated() { model.add(UInt64(number / 4 * 3), [[term]]) }
        for length in [63, 64, 254, 255] {
            model.add(UInt64(20_000 + length), [[[UInt8](repeating: 1, count: length)]])
        }
        try SegmentTests.compare(model, model.built(), "long terms")
    }

    @Test func allAttributesAreReadBack() throws {
        var random = SeededRandom(3)
        let model = SegmentModel(&random, numbers: [1, 2, 3, 50], attributes: 64)
        try SegmentTests.compare(model, model.built(), "64 attributes")
    }

    /// The widths of numbers and lengths in the records.
    @Test(arguments: [0, 255, 256, 65_535, 65_536], [1, 65_535, 65_536, 4_294_967_295] as [UInt64])
    func recordsHaveTheWidthOfTheLargestValue(length: Int, distance: UInt64) throws {
        var model = SegmentModel()
        model.add(1, [Array(repeating: [1], count: length)])
        model.add(1 + distance, [[]])
        let blocks = try model.built()
        try SegmentTests.compare(model, blocks, "length \(length), distance \(distance)")
        let width = (distance == 1 ? 0 : distance < 65_536 ? 2 : 4) + (length < 256 ? 1 : length < 65_536 ? 2 : 4)
        #expect(blocks.blocks[0].count == 2 * width)
    }

    @Test func aBuilderRefusesNumbersThatDoNotFit() {
        let limit: UInt64 = 1 << 48
        let reach = UInt64(UInt32.max)
        var builder = SegmentBuilder(attributes: 1)
        let atFirst = [0, limit - 1, limit].map { builder.canAdd($0) }
        #expect(atFirst == [true, true, false])
        builder.begin(number: 10)
        builder.end()
        let afterwards = [9, 10, 11, 10 + reach, 11 + reach].map { builder.canAdd($0) }
        #expect(afterwards == [false, false, true, true, false])
        builder.removeAll()
        let atLast = builder.canAdd(9)
        #expect(atLast)
    }

    @Test func aBuilderIsUsedForSeveralSegments() throws {
        var random = SeededRandom(4)
        var builder = SegmentBuilder(attributes: 1)
        for _ in 0..<4 {
            let model = SegmentModel(&random, numbers: SegmentModel.numbers(&random, count: 50), attributes: 1)
            let (again, first) = (try model.built(&builder), try model.built())
            #expect(again.bytes == first.bytes)
            #expect(again.descriptor == first.descriptor)
            let left = (builder.objectCount, builder.termCount)
            #expect(left == (0, 0))
        }
    }

    @Test func anErrorOfTheWriterEndsTheBuild() {
        var builder = SegmentBuilder(attributes: 1)
        builder.begin(number: 1)
        builder.end()
        #expect(throws: StoreError(.noSpace, "Full.")) {
            _ = try builder.finish { _ throws(StoreError) in throw StoreError(.noSpace, "Full.") }
        }
    }

    /// SG2: a word can be loaded from every byte of the entries.
    @Test func everyBlockOfTermsEndsWith8OtherBytes() throws {
        var model = SegmentModel()
        for number in 0..<3000 as Range<UInt64> {
            model.add(number, [[[UInt8(number % 256), UInt8(number / 256)], [UInt8(number % 50)], [7]]])
        }
        let blocks = try model.built()
        let descriptor = try #require(blocks.descriptor)
        #expect(descriptor.termBlocks > 0)
        for block in blocks.bytes[descriptor.objectBlocks..<descriptor.objectBlocks + descriptor.termBlocks] {
            let end = Int(block[block.count - 6]) | Int(block[block.count - 5]) << 8
            #expect(end > 0 && end + 8 <= block.count)
        }
    }
}
