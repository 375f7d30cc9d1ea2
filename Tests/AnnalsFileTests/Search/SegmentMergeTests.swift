// A merged segment is the one that would be built from the live objects.

import Annals
import TestSupport
import Testing

@Suite struct SegmentMergeTests {
    /// SG1: byte for byte.
    @Test(arguments: 0..<80) func aMergedSegmentEqualsOneBuiltFromItsObjects(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let attributes = random.one(of: [1, 1, 3])
        let count = random.one(of: [1, 5, 50, 400, 1500])
        let parts = Self.parts(&random, SegmentModel.numbers(&random, count: count))
        let positional = random.one(of: [.max, .max, 0, 5]) as UInt64
        var expected = SegmentModel(attributes: attributes, positional: positional)
        var inputs: [KeptReader] = []
        var dead: [[UInt64]] = []
        for numbers in parts {
            var model = SegmentModel(&random, numbers: numbers, attributes: attributes)
            model.positional = positional
            let chance = random.one(of: [0, 0, 0.1, 0.9])
            var words = [UInt64](repeating: 0, count: random.one(of: [0, (numbers.count + 63) / 64]))
            for (ordinal, number) in numbers.enumerated() {
                if random.happens(chance), !words.isEmpty {
                    words[ordinal / 64] |= 1 << UInt64(ordinal % 64)
                } else {
                    expected.objects[number] = model.objects[number]
                }
            }
            inputs.append(try model.built().kept())
            dead.append(words)
        }
        let merged = SegmentBlocks()
        merged.descriptor = try SegmentMerge.merge(inputs.map(\.reader), dead: dead) { merged.append($0) }
        guard !expected.objects.isEmpty else {
            #expect(merged.descriptor == nil && merged.blocks.isEmpty, "seed \(seed)")
            return
        }
        let built = try expected.built()
        #expect(merged.descriptor == built.descriptor, "seed \(seed)")
        #expect(merged.bytes == built.bytes, "seed \(seed)")
    }

    /// Divides numbers in a row, at random, or in a mixture of both.
    private static func parts(_ random: inout SeededRandom, _ numbers: [UInt64]) -> [[UInt64]] {
        let count = 1 + random.next(below: min(6, numbers.count))
        var parts = [[UInt64]](repeating: [], count: count)
        let chance = random.one(of: [0, 0.2, 1])
        for (index, number) in numbers.enumerated() {
            let part = random.happens(chance) ? random.next(below: count) : index * count / numbers.count
            parts[part].append(number)
        }
        return parts.filter { !$0.isEmpty }
    }

    @Test func longListsAndPostingsAreMerged() throws {
        var models = [SegmentModel(), SegmentModel()]
        for number in 0..<20_000 as Range<UInt64> { models[Int(number % 2)].add(number, [[[3], [4], [3]]]) }
        models[0].objects[30_000] = [(0..<50_000).map { .init(term: [3], position: $0 * 3) }]
        models[1].objects[30_001] = [(0..<50_000).map { .init(term: [3], position: $0 * $0 / 7 + $0) }]
        var both = models[0]
        both.objects.merge(models[1].objects) { first, _ in first }
        let inputs = try models.map { try $0.built().kept() }
        let merged = SegmentBlocks()
        merged.descriptor = try SegmentMerge.merge(inputs.map(\.reader), dead: [[], []]) { merged.append($0) }
        #expect((merged.descriptor?.termBlocks ?? 0) > 3)
        #expect(try merged.bytes == both.built().bytes)
        try SegmentTests.compare(both, merged, "long lists")
    }

    @Test func nothingIsWrittenIfAllObjectsAreDead() throws {
        var model = SegmentModel()
        model.add(1, [[[1]]])
        model.add(2, [[[1]]])
        let input = try model.built().kept()
        var written = 0
        let result = try SegmentMerge.merge([input.reader], dead: [[0b11]]) { _ in written += 1 }
        #expect(result == nil && written == 0)
    }

    @Test func anObjectThatIsAliveInTwoSegmentsIsDamage() throws {
        var model = SegmentModel()
        model.add(1, [[[1]]])
        model.add(2, [[[1]]])
        let input = try model.built().kept()
        let error = #expect(throws: StoreError.self) {
            _ = try SegmentMerge.merge([input.reader, input.reader], dead: [[0b01], []]) { _ in }
        }
        #expect(error?.code == .damaged)
        let merged = SegmentBlocks()
        _ = try SegmentMerge.merge([input.reader, input.reader], dead: [[0b01], [0b10]]) { merged.append($0) }
        #expect(merged.bytes == input.blocks.bytes)
    }

    @Test func segmentsThatAreTooFarApartAreNotMerged() throws {
        var models = [SegmentModel(), SegmentModel()]
        models[0].add(1, [[[1]]])
        models[1].add(2 + UInt64(UInt32.max), [[[1]]])
        let inputs = try models.map { try $0.built().kept() }
        let error = #expect(throws: StoreError.self) {
            _ = try SegmentMerge.merge(inputs.map(\.reader), dead: [[], []]) { _ in }
        }
        #expect(error?.code == .tooLarge)
    }

    @Test func anErrorOfTheWriterEndsTheMerge() throws {
        var model = SegmentModel()
        model.add(1, [[[1]]])
        let input = try model.built().kept()
        for failing in 0..<3 {
            var written = 0
            let error = #expect(throws: StoreError.self) {
                _ = try SegmentMerge.merge([input.reader], dead: [[]]) { _ throws(StoreError) in
                    if written == failing { throw StoreError(.noSpace, "Full.") }
                    written += 1
                }
            }
            #expect(error?.code == .noSpace && written == failing)
        }
    }
}
