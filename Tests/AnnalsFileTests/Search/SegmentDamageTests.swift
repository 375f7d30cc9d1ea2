// Damaged segments: reading throws `damaged`, or returns something, but never traps and never takes long.

import Annals
import TestSupport
import Testing

@Suite struct SegmentDamageTests {
    @Test(arguments: 0..<40) func damagedBlocksAreReadWithoutATrap(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let numbers = SegmentModel.numbers(&random, count: random.one(of: [2, 20, 60]))
        var model = SegmentModel(&random, numbers: numbers, attributes: random.one(of: [1, 3]))
        if random.happens(0.2) { Self.addLongPosting(&model, numbers[0]) }
        let good = try model.built()
        var damaged = 0
        for _ in 0..<60 {
            let bad = SegmentBlocks(copyOf: good)
            for _ in 0...random.next(below: 3) { Self.damage(&random, bad) }
            if try Self.isDamaged(bad, good, "seed \(seed)") { damaged += 1 }
        }
        #expect(damaged > 10, "seed \(seed)")
    }

    private static func addLongPosting(_ model: inout SegmentModel, _ number: UInt64) {
        for attribute in 0..<model.attributes {
            model.objects[number]?[attribute] = (0..<2500).map { .init(term: [1, 2], position: $0 * 5) }
        }
    }

    private static func damage(_ random: inout SeededRandom, _ blocks: SegmentBlocks) {
        let index = random.next(below: blocks.blocks.count)
        var bytes = blocks.bytes[index]
        guard !bytes.isEmpty else { return }
        // Many faults near the start or the end, where the fields of a block are.
        let reach = random.one(of: [bytes.count, min(bytes.count, 40)])
        let distance = random.next(below: reach)
        let place = random.happens(0.5) ? distance : bytes.count - 1 - distance
        switch random.next(below: 8) {
        case 0: bytes.removeLast(random.next(below: bytes.count) + 1)
        case 1: bytes.append(UInt8(random.next(below: 256)))
        case 2: bytes[place] = random.one(of: [0, 1, 127, 128, 255])
        case 3: for near in place..<min(place + 6, bytes.count) { bytes[near] = 255 }
        case 4: for near in place..<min(place + 4, bytes.count) { bytes[near] = UInt8(random.next(below: 256)) }
        case 5: bytes.remove(at: place)
        default: bytes[place] ^= 1 << UInt8(random.next(below: 8))
        }
        blocks.replace(index, bytes)
    }

    /// Reads everything in every way.
    private static func isDamaged(_ bad: SegmentBlocks, _ good: SegmentBlocks, _ note: Comment) throws -> Bool {
        let ways: [(SegmentReader) throws -> Void] = [
            readRecords, skipAll, { try $0.verify() }, { _ = try SegmentModel(reading: $0) },
            { try readAll($0, byteCount: bad.blocks.reduce(0) { $0 + $1.count }) },
            { _ = try SegmentMerge.merge([$0], dead: [[]]) { _ in } },
            { bad in
                let numbers = try good.reader()
                let dead = [UInt64](repeating: UInt64.max, count: numbers.descriptor.objectCount / 64 + 1)
                _ = try SegmentMerge.merge([numbers, bad], dead: [dead, [0b1010]]) { _ in }
            },
        ]
        var isDamaged = false
        for way in ways {
            do { try way(bad.reader()) } catch let error as StoreError {
                #expect(error.code == .damaged, note)
                isDamaged = true
            }
        }
        return isDamaged
    }

    /// Counts the postings of all lists: their number is limited by the size of the blocks.
    private static func readAll(_ reader: SegmentReader, byteCount: Int) throws {
        var postings = 0
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            _, _, list throws(StoreError) in
            _ = try list.count()
            var iterator = list.iterator()
            try iterator.forEachPosting { ordinal, frequency throws(StoreError) in
                #expect(ordinal < reader.descriptor.objectCount && frequency > 0)
                postings += 1
            }
            return true
        }
        // A chunk of 128 postings has at least 6 bytes.
        #expect(postings <= 22 * byteCount)
    }

    private static func skipAll(_ reader: SegmentReader) throws {
        var positions = PostingPositions()
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            _, _, list throws(StoreError) in
            var iterator = list.iterator()
            while try iterator.skip(to: iterator.ordinal + 40) { try iterator.readPositions(&positions) }
            return true
        }
        for pattern in [[0], [1, 2], [9, 9, 9], [255]] as [[UInt8]] {
            let error = pattern.withUnsafeBytes { bytes -> StoreError? in
                do throws(StoreError) {
                    try reader.forEachList(of: bytes, isPrefix: true) { _, _, list throws(StoreError) in
                        try list.count() > 0
                    }
                    return nil
                } catch { return error }
            }
            if let error { throw error }
        }
    }

    private static func readRecords(_ reader: SegmentReader) throws {
        for ordinal in 0..<reader.descriptor.objectCount {
            let number = try reader.number(of: ordinal)
            #expect(number >= reader.descriptor.firstNumber && number <= reader.descriptor.lastNumber)
            _ = try reader.ordinal(of: number)
            for attribute in 0..<reader.descriptor.attributes { _ = try reader.length(ordinal, attribute) }
        }
    }

    /// Descriptors that do not belong to the blocks.
    @Test(arguments: 0..<300) func damagedDescriptorsAreRefusedOrRead(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let model = SegmentModel(&random, numbers: SegmentModel.numbers(&random, count: 20), attributes: 2)
        let blocks = try model.built()
        var writer = ByteWriter()
        blocks.descriptor?.write(to: &writer)
        for _ in 0...random.next(below: 3) {
            let place = random.next(below: writer.count)
            writer.patch(UInt8(random.next(below: 256)), at: place)
        }
        do {
            var reader = ByteReader(writer.bytes)
            blocks.descriptor = try SegmentDescriptor(from: &reader)
            // Many objects that do not exist would take long.
            guard try blocks.reader().descriptor.objectCount < 10_000 else { return }
            _ = try Self.isDamaged(blocks, model.built(), "seed \(seed)")
        } catch let error as StoreError {
            #expect([.damaged, .unsupportedVersion].contains(error.code), "seed \(seed)")
        }
    }

    @Test func aDescriptorIsReadBack() throws {
        var random = SeededRandom(1)
        let model = SegmentModel(&random, numbers: SegmentModel.numbers(&random, count: 200), attributes: 3)
        let descriptor = try #require(model.built().descriptor)
        var writer = ByteWriter()
        descriptor.write(to: &writer)
        var reader = ByteReader(writer.bytes)
        #expect(try SegmentDescriptor(from: &reader) == descriptor)
        #expect(reader.isAtEnd)
        for length in 0..<writer.count {
            var short = ByteReader(UnsafeRawBufferPointer(rebasing: writer.bytes[..<length]))
            let error = #expect(throws: StoreError.self) { _ = try SegmentDescriptor(from: &short) }
            #expect(error?.code == .damaged)
        }
    }
}
