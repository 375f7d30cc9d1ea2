// A plain model of a segment, which the tests of segments compare with its blocks.

import Annals
import TestSupport
import Testing

/// The blocks of a segment in memory.
final class SegmentBlocks {
    var descriptor: SegmentDescriptor?
    /// Sound because the memory lives as long as this object, and only `replace` changes it.
    private(set) var blocks: [UnsafeMutableRawBufferPointer] = []

    init() {}

    /// Copies, byte for byte.
    convenience init(copyOf other: SegmentBlocks) {
        self.init()
        descriptor = other.descriptor
        for block in other.blocks { append(UnsafeRawBufferPointer(block)) }
    }

    deinit { for block in blocks { block.deallocate() } }

    func append(_ bytes: UnsafeRawBufferPointer) {
        blocks.append(Self.copy(bytes))
    }

    /// Memory of exactly the block's size, so that a read beyond it is found by the address sanitizer.
    private static func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        copy.copyMemory(from: bytes)
        return copy
    }

    func replace(_ index: Int, _ bytes: [UInt8]) {
        blocks[index].deallocate()
        blocks[index] = bytes.withUnsafeBytes { Self.copy($0) }
    }

    var bytes: [[UInt8]] { blocks.map { Array($0) } }

    func reader() throws -> SegmentReader {
        let descriptor = try #require(descriptor)
        return SegmentReader(descriptor) { index throws(StoreError) in
            guard self.blocks.indices.contains(index) else { throw StoreError(.damaged, "The block is missing.") }
            return UnsafeRawBufferPointer(self.blocks[index])
        }
    }
}

/// A term and its attribute. They sort as the lists of a segment.
struct ModelList: Hashable, Comparable {
    var term: [UInt8]
    var attribute: Int

    static func < (left: Self, right: Self) -> Bool {
        left.term == right.term ? left.attribute < right.attribute : left.term.lexicographicallyPrecedes(right.term)
    }
}

/// The terms of objects, by attribute and in the order of their positions.
struct SegmentModel: Equatable {
    struct Occurrence: Equatable {
        var term: [UInt8]
        var position: Int
    }

    var attributes = 1
    /// The attributes whose positions are kept, as bits.
    var positional = UInt64.max
    /// By object number, and by attribute.
    var objects: [UInt64: [[Occurrence]]] = [:]

    mutating func add(_ number: UInt64, _ terms: [[[UInt8]]]) {
        objects[number] = terms.map { terms in
            terms.enumerated().map { Occurrence(term: $0.element, position: $0.offset) }
        }
    }

    /// The objects of each list, with their positions.
    var lists: [ModelList: [UInt64: [UInt32]]] {
        var lists: [ModelList: [UInt64: [UInt32]]] = [:]
        for (number, attributes) in objects {
            for (attribute, occurrences) in attributes.enumerated() {
                for occurrence in occurrences {
                    let list = ModelList(term: occurrence.term, attribute: attribute)
                    lists[list, default: [:]][number, default: []].append(UInt32(occurrence.position))
                }
            }
        }
        return lists
    }

    var numbers: [UInt64] { objects.keys.sorted() }

    func built(_ builder: inout SegmentBuilder) throws -> SegmentBlocks {
        for number in numbers {
            builder.begin(number: number)
            for (attribute, occurrences) in (objects[number] ?? []).enumerated() {
                for occurrence in occurrences {
                    occurrence.term.withUnsafeBytes {
                        builder.add(term: $0, attribute: attribute, position: occurrence.position)
                    }
                }
            }
            builder.end()
        }
        let blocks = SegmentBlocks()
        blocks.descriptor = try builder.finish { blocks.append($0) }
        return blocks
    }

    func built() throws -> SegmentBlocks {
        var builder = SegmentBuilder(attributes: attributes, positional: positional)
        return try built(&builder)
    }

    /// Everything that a reader finds.
    init(reading reader: SegmentReader) throws {
        attributes = reader.descriptor.attributes
        let numbers = try (0..<reader.descriptor.objectCount).map { try reader.number(of: $0) }
        for number in numbers { objects[number] = Array(repeating: [], count: attributes) }
        var positions = PostingPositions()
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            term, attribute, list throws(StoreError) in
            let bytes = Array(term)
            var iterator = list.iterator()
            while try iterator.next() {
                try iterator.readPositions(&positions)
                for position in positions.values {
                    objects[numbers[iterator.ordinal]]?[attribute].append(
                        Occurrence(term: bytes, position: Int(position)))
                }
            }
            return true
        }
        for number in numbers {
            for attribute in 0..<attributes { objects[number]?[attribute].sort { $0.position < $1.position } }
        }
    }

    init(attributes: Int = 1, positional: UInt64 = .max) {
        (self.attributes, self.positional) = (attributes, positional)
    }
}

// MARK: Random models

extension SegmentModel {
    /// Random objects of a random shape, with numbers from `numbers`.
    init(_ random: inout SeededRandom, numbers: [UInt64], attributes: Int, hasGaps: Bool = true) {
        self.init(attributes: attributes)
        let words = Self.words(&random, count: random.one(of: [1, 2, 5, 30, 300, 3000]))
        let longest = random.one(of: [0, 1, 3, 10, 60, 300])
        for number in numbers {
            objects[number] = (0..<attributes).map { _ in
                var position = 0
                return (0..<random.next(below: longest + 1)).map { _ in
                    if hasGaps, random.happens(0.01) { position += random.next(below: 1 << random.next(below: 22)) }
                    defer { position += 1 }
                    // Squared, so that some words are frequent.
                    let place = Double.random(in: 0..<1, using: &random)
                    return Occurrence(term: words[Int(place * place * Double(words.count))], position: position)
                }
            }
        }
    }

    /// Distinct words with many shared prefixes, of up to 64 bytes of any value.
    static func words(_ random: inout SeededRandom, count: Int) -> [[UInt8]] {
        var words: Set<[UInt8]> = []
        var last: [UInt8] = []
        while words.count < count {
            var word = Array(last.prefix(random.next(below: last.count + 1)))
            let room = 64 - word.count
            let size = min(room, 1 + random.next(below: random.one(of: [3, 8, 64])))
            let highest = random.one(of: [3, 26, 256])
            for _ in 0..<size { word.append(UInt8(random.next(below: highest))) }
            if !word.isEmpty { words.insert(word) }
            last = word
        }
        return words.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Distinct ascending numbers with random distances.
    static func numbers(_ random: inout SeededRandom, count: Int) -> [UInt64] {
        let distance: UInt64 = random.one(of: [1, 2, 40, 1_000_000])
        var number = random.next(below: UInt64(1) << 40)
        return (0..<count).map { _ in
            number += 1 + random.next(below: distance)
            return number
        }
    }
}

@Suite struct SegmentModelTests {
    @Test func aModelListsTheObjectsAndPositionsOfEachTerm() {
        var model = SegmentModel(attributes: 2)
        model.add(7, [[[1], [2], [1]], []])
        model.add(9, [[], [[1]]])
        #expect(
            model.lists == [
                ModelList(term: [1], attribute: 0): [7: [0, 2]], ModelList(term: [2], attribute: 0): [7: [1]],
                ModelList(term: [1], attribute: 1): [9: [0]],
            ])
    }
}
