// Segments are read as they were built.

import Annals
import TestSupport
import Testing

@Suite struct SegmentTests {
    @Test func aSmallSegmentIsReadBack() throws {
        var model = SegmentModel(attributes: 2)
        model.add(7, [[[1], [2], [1]], []])
        model.add(9, [[], [[1]]])
        model.add(12, [[], []])
        try Self.compare(model, model.built(), "small")
    }

    @Test(arguments: 0..<60) func randomSegmentsAreReadBack(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let numbers = SegmentModel.numbers(&random, count: random.one(of: [1, 2, 20, 127, 128, 129, 1000]))
        let model = SegmentModel(&random, numbers: numbers, attributes: random.one(of: [1, 1, 2, 5]))
        try Self.compare(model, model.built(), "seed \(seed)")
    }

    /// Compares all that a reader returns.
    static func compare(_ model: SegmentModel, _ blocks: SegmentBlocks, _ note: Comment) throws {
        let reader = try blocks.reader()
        #expect(try SegmentModel(reading: reader) == model, note)
        #expect(throws: Never.self, note) { try reader.verify() }
        #expect(blocks.blocks.allSatisfy { $0.count <= PostingFormat.maximumBlockBytes }, note)
        let lists = model.lists
        try compareRecords(model, reader, note)
        #expect(reader.descriptor.listCount == UInt64(lists.count), note)
        #expect(reader.descriptor.byteCount == UInt64(blocks.blocks.reduce(0) { $0 + $1.count }), note)
        #expect(reader.descriptor.blockCount == blocks.blocks.count, note)
        var found: [ModelList] = []
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            term, attribute, list throws(StoreError) in
            found.append(ModelList(term: Array(term), attribute: attribute))
            #expect(try list.count() == lists[found[found.count - 1]]?.count, note)
            return true
        }
        #expect(found == lists.keys.sorted(), note)
    }

    private static func compareRecords(
        _ model: SegmentModel, _ reader: SegmentReader, _ note: Comment
    ) throws {
        let numbers = model.numbers
        #expect(reader.descriptor.objectCount == numbers.count, note)
        var totals = [UInt64](repeating: 0, count: model.attributes)
        for (ordinal, number) in numbers.enumerated() {
            #expect(try reader.number(of: ordinal) == number, note)
            #expect(try reader.ordinal(of: number) == ordinal, note)
            for absent in [number &- 1, number + 1] where model.objects[absent] == nil {
                #expect(try reader.ordinal(of: absent) == nil, note)
            }
            for attribute in 0..<model.attributes {
                let length = try reader.length(ordinal, attribute)
                #expect(Int(length) == model.objects[number]?[attribute].count, note)
                totals[attribute] += UInt64(length)
            }
        }
        #expect(reader.descriptor.totalLengths == totals, note)
    }
}
