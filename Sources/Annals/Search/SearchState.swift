// The record of an entity's search index: which texts it has, up to which place in history, and its segments.
//
// The index is in two entities of the store's own: one record for each searched entity, and the blocks of all
// segments. One transaction covers both, so a crash leaves the index as it was, or one step further. Their history is
// off: what a later step has replaced is garbage, and compaction leaves it out.
//
// The record, little-endian: the version of this form (UInt16, 1) and of the tokenizer (UInt16); the place's number and
// tag (UInt64 each); the next number to build (UInt64); the number of attributes (UInt16), and for each its number
// (UInt16), its weight (Double), and whether its positions are kept (1 byte); the number of segments (UInt32), and for
// each the numbers of its first block and of its row of dead objects (UInt64 each), the number of dead objects
// (UInt32), the lengths of its dead texts (UInt64 for each attribute), the size of its descriptor (UInt16), and the
// descriptor.
//
// Invariants:
// XS1  Each object of the entity with a number below `nextToBuild` that exists after `place` is alive in exactly one
//      segment, with the terms of its texts in that state, unless a transaction after the place has changed it.
// XS2  The numbers of a segment's blocks are consecutive, in the order of the descriptor.
// XS3  The attributes ascend by number.

extension ReservedEntity {
    /// One record for each entity that is searched.
    static let searches = ReservedEntity(
        "search",
        attributes: [
            AttributeDescription("entity", .int, isOptional: false),
            AttributeDescription("state", .data, isOptional: false),
        ], history: .off)

    /// The blocks of segments, and the bitmaps of their dead objects.
    static let searchBlocks = ReservedEntity(
        "searchBlocks", attributes: [AttributeDescription("content", .data, isOptional: false)], history: .off)
}

/// The state of an entity's search index.
struct SearchState {
    static let version: UInt16 = 1

    /// A searched attribute, by its number in the entity.
    struct Attribute: Equatable {
        let number: UInt16
        var weight: Double
        /// Whether the index has the positions of its terms. Without them it is smaller, and phrases are looked for in
        /// the rows.
        var keepsPositions: Bool
    }

    /// A segment and its dead objects.
    struct Segment {
        /// The number of the row of its first block.
        let firstBlock: UInt64
        let descriptor: SegmentDescriptor
        /// The number of the row with the bitmap of dead objects; 0 without any.
        var deadRow: UInt64 = 0
        var deadObjects: UInt32 = 0
        /// The terms of dead objects, by attribute.
        var deadLengths: [UInt64]
        var aliveObjects: Int { descriptor.objectCount - Int(deadObjects) }

        init(firstBlock: UInt64, descriptor: SegmentDescriptor) {
            (self.firstBlock, self.descriptor) = (firstBlock, descriptor)
            deadLengths = [UInt64](repeating: 0, count: descriptor.attributes)
        }
    }

    /// The tokenizer that has made the terms.
    var tokenizer = UInt16(Tokenizer.version)
    /// The index has all changes up to here.
    var place: TransactionPlace
    /// The least number that was not built yet: above those of all objects if the index is complete.
    var nextToBuild: UInt64 = 1
    var attributes: [Attribute]
    var segments: [Segment] = []

    init(place: TransactionPlace, attributes: [Attribute]) { (self.place, self.attributes) = (place, attributes) }

    /// Whether its terms are those that this program looks for.
    var isReadable: Bool { tokenizer == Tokenizer.version }

    /// Nil if a newer program has given it another form.
    init?(_ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        var reader = ByteReader(bytes)
        try self.init(head: &reader)
        for _ in 0..<(try reader.readUInt32()) { segments.append(try Self.segment(&reader, attributes)) }
        try reader.finish()
    }

    /// The attributes of a record whose rest may be damaged. Empty if they cannot be read.
    static func attributes(_ bytes: UnsafeRawBufferPointer) -> [Attribute] {
        var reader = ByteReader(bytes)
        return (try? SearchState(head: &reader))?.attributes ?? []
    }

    /// Reads everything before the segments.
    private init?(head reader: inout ByteReader) throws(StoreError) {
        guard try reader.readUInt16() == Self.version else { return nil }
        tokenizer = try reader.readUInt16()
        place = TransactionPlace(number: try reader.readUInt64(), tag: try reader.readUInt64())
        nextToBuild = try reader.readUInt64()
        attributes = []
        for _ in 0..<(try reader.readUInt16()) {
            let number = try reader.readUInt16()
            let weight = Double(bitPattern: try reader.readUInt64())
            let positions = try reader.readUInt8()
            guard attributes.last.map({ $0.number < number }) ?? true, weight > 0, weight.isFinite, positions < 2 else {
                throw reader.damaged("XS3: the attributes of a search index are not in order.")
            }
            attributes.append(Attribute(number: number, weight: weight, keepsPositions: positions == 1))
        }
    }

    private static func segment(
        _ reader: inout ByteReader, _ attributes: [Attribute]
    ) throws(StoreError) -> Segment {
        let (first, deadRow) = (try reader.readUInt64(), try reader.readUInt64())
        let dead = try reader.readUInt32()
        var lengths: [UInt64] = []
        for _ in attributes { lengths.append(try reader.readUInt64()) }
        let bytes = Int(try reader.readUInt16())
        var part = try reader.readPart(bytes)
        let descriptor = try SegmentDescriptor(from: &part)
        guard part.isAtEnd, descriptor.attributes == attributes.count,
            descriptor.positional == attributes.positional, dead < descriptor.objectCount,
            (deadRow == 0) == (dead == 0), first > 0, first < FormatLimits.maximumObjectNumber
        else { throw reader.damaged("A segment of a search index has impossible counts.") }
        var segment = Segment(firstBlock: first, descriptor: descriptor)
        (segment.deadRow, segment.deadObjects, segment.deadLengths) = (deadRow, dead, lengths)
        return segment
    }

    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.append(Self.version)
        writer.append(tokenizer)
        writer.append(place.number)
        writer.append(place.tag)
        writer.append(nextToBuild)
        writer.append(UInt16(attributes.count))
        for attribute in attributes {
            writer.append(attribute.number)
            writer.append(attribute.weight.bitPattern)
            writer.append(UInt8(attribute.keepsPositions ? 1 : 0))
        }
        writer.append(UInt32(segments.count))
        for segment in segments {
            writer.append(segment.firstBlock)
            writer.append(segment.deadRow)
            writer.append(segment.deadObjects)
            for length in segment.deadLengths { writer.append(length) }
            var descriptor = ByteWriter(capacity: 64)
            segment.descriptor.write(to: &descriptor)
            writer.append(UInt16(descriptor.count))
            writer.append(descriptor.bytes)
        }
        return Array(writer.bytes)
    }
}

extension [SearchState.Attribute] {
    /// Those whose positions are kept, as bits.
    var positional: UInt64 {
        enumerated().reduce(0) { $1.element.keepsPositions ? $0 | 1 << UInt64($1.offset) : $0 }
    }
}
