// Parts of a segment that contradict each other are found.

import Annals
import TestSupport
import Testing

@Suite struct SegmentVerificationTests {
    /// Three attributes, and numbers without gaps, so that the records have only lengths.
    private static func blocks() throws -> SegmentBlocks {
        var random = SeededRandom(1)
        var model = SegmentModel(&random, numbers: Array(10...29), attributes: 3)
        model.add(30, [[[1, 2, 3]], [], [[4, 5]]])
        return try model.built()
    }

    private static func isDamaged(_ blocks: SegmentBlocks) throws -> Bool {
        do {
            try blocks.reader().verify()
            return false
        } catch let error as StoreError {
            #expect(error.code == .damaged)
            return true
        }
    }

    @Test func everyChangedBitOfALengthOrTheDirectoryIsFound() throws {
        let good = try Self.blocks()
        #expect(try !Self.isDamaged(good))
        for index in [0, good.blocks.count - 1] {
            for place in good.blocks[index].indices {
                for bit in 0..<8 as Range<UInt8> {
                    let bad = SegmentBlocks(copyOf: good)
                    var bytes = bad.bytes[index]
                    bytes[place] ^= 1 << bit
                    bad.replace(index, bytes)
                    #expect(try Self.isDamaged(bad), "block \(index), byte \(place), bit \(bit)")
                }
            }
        }
    }

    /// A field of the descriptor after another, by its offset. Version, attributes, widths; then the rest.
    @Test(arguments: [1, 2, 3, 4, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72])
    func everyChangedFieldOfTheDescriptorIsFound(offset: Int) throws {
        let blocks = try Self.blocks()
        var writer = ByteWriter()
        blocks.descriptor?.write(to: &writer)
        #expect(writer.count == 80)
        writer.patch(writer.bytes[offset] ^ 1, at: offset)
        let error = #expect(throws: StoreError.self) {
            var reader = ByteReader(writer.bytes)
            blocks.descriptor = try SegmentDescriptor(from: &reader)
            try blocks.reader().verify()
        }
        #expect(error?.code == .damaged)
    }
}
