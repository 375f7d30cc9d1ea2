// The numbers and the descriptor of a segment: an immutable index of the terms of some objects of one entity.
//
// A segment is a list of blocks of at most 32,000 bytes, and a descriptor. Its objects are numbered by *ordinals* from
// 0 in ascending order of their object numbers. A *list* belongs to one term in one attribute; a *posting* of a list is
// an object in which the term occurs, with the positions of the occurrences. All integers are little-endian. A *varint*
// has 7 bits a byte, the low ones first, and bit 7 is set in all bytes but the last; it is below 2^32. Bits are
// filled from the lowest one of each byte.
//
// The blocks, in this order:
//
// 1. Objects. A record for each ordinal: the object number minus the first one, in 0, 2 or 4 bytes, and the number of
//    terms of each attribute, in 1, 2 or 4 bytes. A block has as many whole records as fit. With 0 bytes the object
//    numbers have no gaps.
// 2. Terms. The entries, in ascending order of the term's bytes and then of the attribute; then the offsets of entries
//    0, 16, 32 … of the block, 2 bytes each; the end of the entries, 4 bytes; the number of entries, 2 bytes.
//    An entry:
//    - 1 byte: the length of the prefix that the term shares with the entry before it, in bits 4 to 7; the length
//      of the rest of the term in bits 0 to 3. 15 means that another byte follows, which is added to it. An entry
//      whose offset is listed shares nothing;
//    - the rest of the term;
//    - 1 byte: the attribute, in bits 0 to 5; bit 6: the list continues in the next block; bit 7: several chunks;
//    - if there are several chunks, two varints: the objects that begin in them, and the size of all;
//    - the chunks, each after its size, a varint.
// 3. Directory. The first term of each block of terms: 1 byte for its length, 1 byte for its attribute, the term. Then
//    the offset of each, 2 bytes; the number of the first block of terms, 4 bytes; the number of terms, 2 bytes.
//
// An attribute may have no positions; then its terms count as if they followed each other. A chunk has at most 128
// postings and 1024 positions:
//
// - a varint: the first ordinal; after another chunk of the same entry, its distance from the last one;
// - 1 byte: the number of postings. 0 is one posting with one position, which follows as a varint and ends the chunk;
// - 2 bytes: the width of a gap in bits 0 to 4, of a frequency in bits 5 to 8, the parameter of the positions in
//   bits 9 to 13; bit 14: the first posting continues the one before it; bit 15: the last one continues in the next
//   chunk;
// - if there are at least 32 postings, a varint: the distance from the first ordinal to the last one;
// - the gaps between the ordinals, each less 1, and then the frequencies, each less 1, in the bits of their widths;
// - from the next byte on, the positions: each less the one before it in its object (at first -1) and less 1, as a Rice
//   code: the value without its low bits in zeros, a one, and the low bits; the parameter is their number.
//
// Without positions, the parameter is 0, and nothing follows the frequencies.
//
// Invariants:
// SG1  A segment is canonical: its bytes depend only on its objects, not on how it was made. So a merged segment equals
//      one that was built from the same objects.
// SG2  No block has more than `maximumBlockBytes` bytes, and at least 8 bytes follow the last chunk of a block of
//      terms. So a reader may load a word from every byte of a chunk, and from its end.
// SG3  Lists are in ascending order, and each has a posting. Ordinals ascend in a list, positions in a posting.
// SG4  A chunk has less than `maximumChunkBytes` bytes, so an empty block has room for each entry with one chunk.

/// The limits of a segment's format.
package enum PostingFormat {
    static let version: UInt8 = 1
    package static let maximumBlockBytes = 32_000
    package static let maximumAttributes = 64
    package static let maximumTermBytes = 255
    package static let maximumObjects = 1 << 31
    static let maximumNumber: UInt64 = 1 << 48 - 1
    static let entriesPerRestart = 16
    static let postingsPerChunk = 128
    static let positionsPerChunk = 1024
    /// Fewer postings are read as fast as skipped.
    static let postingsToSkip = 32
    static let maximumChunkBytes = 5_200

    static func damaged(_ message: String) -> StoreError { StoreError(.damaged, "A search index: " + message) }
}

/// The size of a segment and the place of its blocks: a few bytes that the owner of the blocks keeps.
package struct SegmentDescriptor: Hashable, Sendable {
    /// The number of searchable attributes.
    package internal(set) var attributes: Int
    /// The attributes whose positions it has, as bits.
    package internal(set) var positional: UInt64
    package internal(set) var objectCount: Int
    /// The least and the greatest object number.
    package internal(set) var firstNumber: UInt64
    package internal(set) var lastNumber: UInt64
    /// The bytes of an object number in the records: 0, 2 or 4.
    var numberWidth: Int
    /// The bytes of each length in the records: 1, 2 or 4.
    var lengthWidth: Int
    /// The number of lists: pairs of a term and an attribute.
    package internal(set) var listCount: UInt64 = 0
    package internal(set) var termBlocks = 0
    package internal(set) var directoryBlocks = 0
    /// The size of all blocks.
    package internal(set) var byteCount: UInt64 = 0
    /// The number of terms of all objects, by attribute.
    package internal(set) var totalLengths: [UInt64]

    @inline(__always)
    package func hasPositions(_ attribute: Int) -> Bool { positional >> UInt64(attribute) & 1 == 1 }

    /// The bits of all attributes.
    static func allBits(_ attributes: Int) -> UInt64 { attributes == 64 ? .max : 1 << UInt64(attributes) - 1 }

    /// The bytes of an object's record.
    var recordBytes: Int { numberWidth + lengthWidth * attributes }
    var recordsPerBlock: Int { PostingFormat.maximumBlockBytes / recordBytes }
    package var objectBlocks: Int { (objectCount + recordsPerBlock - 1) / recordsPerBlock }
    package var blockCount: Int { objectBlocks + termBlocks + directoryBlocks }
}

// MARK: The coding

extension SegmentDescriptor {
    package func write(to writer: inout ByteWriter) {
        writer.append(PostingFormat.version)
        writer.append(UInt8(attributes))
        writer.append(UInt8(numberWidth))
        writer.append(UInt8(lengthWidth))
        writer.append(positional)
        writer.append(UInt32(objectCount))
        writer.append(UInt32(termBlocks))
        writer.append(UInt32(directoryBlocks))
        writer.append(firstNumber)
        writer.append(lastNumber)
        writer.append(listCount)
        writer.append(byteCount)
        for length in totalLengths { writer.append(length) }
    }

    /// Reads a descriptor, and checks that its fields are possible.
    package init(from reader: inout ByteReader) throws(StoreError) {
        guard try reader.readUInt8() == PostingFormat.version else { throw reader.newer("The form of a search index") }
        attributes = Int(try reader.readUInt8())
        numberWidth = Int(try reader.readUInt8())
        lengthWidth = Int(try reader.readUInt8())
        positional = try reader.readUInt64()
        objectCount = Int(try reader.readUInt32())
        termBlocks = Int(try reader.readUInt32())
        directoryBlocks = Int(try reader.readUInt32())
        firstNumber = try reader.readUInt64()
        lastNumber = try reader.readUInt64()
        listCount = try reader.readUInt64()
        byteCount = try reader.readUInt64()
        totalLengths = []
        guard isPossible else { throw reader.damaged("The descriptor of a search index is impossible.") }
        for _ in 0..<attributes { totalLengths.append(try reader.readUInt64()) }
    }

    private var isPossible: Bool {
        guard (1...PostingFormat.maximumAttributes).contains(attributes), [0, 2, 4].contains(numberWidth),
            [1, 2, 4].contains(lengthWidth), (1...PostingFormat.maximumObjects).contains(objectCount),
            positional & ~Self.allBits(attributes) == 0, firstNumber <= lastNumber,
            lastNumber <= PostingFormat.maximumNumber,
            lastNumber - firstNumber <= UInt64(UInt32.max)
        else { return false }
        let span = lastNumber - firstNumber
        return span >= UInt64(objectCount - 1) && numberWidth == Self.numberWidth(span: span, objectCount)
            && (termBlocks == 0) == (directoryBlocks == 0) && directoryBlocks <= termBlocks
            && byteCount >= UInt64(objectCount * recordBytes)
            && byteCount <= UInt64(blockCount * PostingFormat.maximumBlockBytes)
    }

    /// The bytes that object numbers take in the records.
    static func numberWidth(span: UInt64, _ objectCount: Int) -> Int {
        if span == UInt64(objectCount - 1) { return 0 }
        return span <= UInt64(UInt16.max) ? 2 : 4
    }

    /// The bytes that lengths take in the records.
    static func lengthWidth(maximum: UInt32) -> Int {
        if maximum <= UInt32(UInt8.max) { return 1 }
        return maximum <= UInt32(UInt16.max) ? 2 : 4
    }
}
