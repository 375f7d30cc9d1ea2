// A list of postings, and the iteration over it.

/// The objects in which a term occurs, in one attribute. Valid as long as its reader.
package struct PostingList {
    let reader: SegmentReader
    let entry: SegmentEntry
    let termLength: Int

    package var attribute: Int { entry.attribute }

    /// The number of objects. It is read from the entries alone: one for each block that the list continues in.
    package func count() throws(StoreError) -> Int {
        var count = try entry.objectCount()
        var part = entry
        while part.continues {
            part = try reader.nextPart(of: part, termLength)
            count += try part.objectCount()
        }
        guard count > 0, count <= reader.descriptor.objectCount else {
            throw SegmentFormat.damaged("a list has an impossible number of objects.")
        }
        return count
    }

    /// A position before the first posting.
    package func iterator() -> PostingIterator { PostingIterator(self) }
}

extension SegmentReader {
    /// The entry that continues the list of another, at the start of the next block.
    func nextPart(of part: SegmentEntry, _ termLength: Int) throws(StoreError) -> SegmentEntry {
        let next = try SegmentEntry(termBlock(part.block.index + 1), 0)
        guard next.attribute == part.attribute, try next.wholeTerm.count == termLength else {
            throw SegmentFormat.damaged("a list continues as another one.")
        }
        return next
    }
}

/// A position in a list: `next` moves to the next posting, which `ordinal` and `frequency` describe.
///
/// Invariants:
/// - SP1. `gapBit` and `frequencyBit` are at the values of the next posting of the chunk, of which `left` follow, and
///   after these one more if `hasTail`. All of their bits are in the chunk, and 8 bytes follow it (SG2).
/// - SP2. `before` positions of the chunk belong to postings before this one, and the code after `decoded` ones is at
///   `positionBit`.
///
/// Sound because a chunk is checked to be in its block before its bits are read, and each code of a position before it
/// is read.
package struct PostingIterator {
    private let reader: SegmentReader
    private let objectCount: Int
    private let termLength: Int
    private var entry: SegmentEntry
    private var start: UnsafeRawPointer
    /// The next chunk.
    private var offset: Int
    private var isFirstChunk = true

    /// The present posting. The ordinal is -1 before the first one.
    package private(set) var ordinal = -1
    /// The number of its positions.
    package private(set) var frequency = 0

    // The chunk.
    private var left = 0
    /// Whether a posting follows that the next chunk continues.
    private var hasTail = false
    /// Whether the next chunk continues the last posting of this one.
    private var continues = false
    private var gapBit = 0
    private var gapWidth = 0
    private var frequencyBit = 0
    private var frequencyWidth = 0
    /// The last ordinal, if the chunk lists it.
    private var lastOrdinal: Int?
    private var count = 0

    // The positions of the chunk.
    private var chunkFrequency = 0
    private var before = 0
    private var decoded = 0
    private var parameter = 0
    private var positionBit = 0
    private var positionsStart = 0
    private var positionsEnd = 0
    /// The position of a chunk that has only one.
    private var lonePosition: UInt32?

    init(_ list: PostingList) {
        reader = list.reader
        objectCount = list.reader.descriptor.objectCount
        termLength = list.termLength
        entry = list.entry
        start = list.entry.block.start
        offset = list.entry.chunks.lowerBound
    }

    // MARK: Postings

    /// Moves to the next posting; false after the last one.
    @inline(__always)
    package mutating func next() throws(StoreError) -> Bool {
        guard left > 0 else { return try nextOfChunks() }
        left &-= 1
        try readPosting()
        return true
    }

    /// Moves to the first posting from an ordinal on, from the present one on; false if there is no such posting.
    package mutating func skip(to target: Int) throws(StoreError) -> Bool {
        while ordinal < target {
            if let last = lastOrdinal, last < target, left > 0 || hasTail {
                // Nothing of this chunk is of interest. The next one continues from its last ordinal.
                (left, hasTail, ordinal) = (0, false, last)
                continue
            }
            guard try next() else { return false }
        }
        return true
    }

    /// SP1: reads the gap and the frequency of the next posting.
    @inline(__always)
    private mutating func readPosting() throws(StoreError) {
        before &+= chunkFrequency
        ordinal &+= 1 &+ bits(gapBit, gapWidth)
        chunkFrequency = 1 &+ bits(frequencyBit, frequencyWidth)
        frequency = chunkFrequency
        gapBit &+= gapWidth
        frequencyBit &+= frequencyWidth
        guard ordinal < objectCount else { throw SegmentFormat.damaged("an ordinal is too large.") }
    }

    @inline(__always)
    private func bits(_ bit: Int, _ width: Int) -> Int {
        let word = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: bit &>> 3, as: UInt64.self))
        return Int(truncatingIfNeeded: word &>> UInt64(bit & 7) & (1 &<< UInt64(width) &- 1))
    }

    /// The posting after those that `next` reads itself: the last one of a chunk, if it continues, or the first one of
    /// the next chunk.
    @inline(never)
    private mutating func nextOfChunks() throws(StoreError) -> Bool {
        if hasTail {
            hasTail = false
            try readPosting()
            frequency = try wholeFrequency()
            return true
        }
        var isRest = false
        repeat {
            isRest = continues
            guard try openChunk() else { return false }
        } while isRest && count == 1 && continues
        if isRest { return count == 1 ? try nextOfChunks() : try next() }
        if count == 1, continues { frequency = try wholeFrequency() }
        return true
    }

    /// The frequency of a posting with its rest in the next chunks.
    private func wholeFrequency() throws(StoreError) -> Int {
        var rest = self
        var sum = chunkFrequency
        repeat {
            guard try rest.openChunk() else { throw SegmentFormat.damaged("a posting does not end.") }
            sum += rest.chunkFrequency
        } while rest.count == 1 && rest.continues
        return sum
    }
}

// MARK: Chunks

extension PostingIterator {
    /// Moves to the first posting of the next chunk, even if it is the rest of another; false after the last chunk.
    private mutating func openChunk() throws(StoreError) -> Bool {
        if let lastOrdinal, lastOrdinal != ordinal {
            throw SegmentFormat.damaged("a chunk has another last ordinal than its head.")
        }
        if offset == entry.chunks.upperBound {
            guard entry.continues else {
                if continues { throw SegmentFormat.damaged("a posting does not end.") }
                return false
            }
            entry = try reader.nextPart(of: entry, termLength)
            (start, offset, isFirstChunk) = (entry.block.start, entry.chunks.lowerBound, true)
        }
        var bytes = PostingBytes(start: start, offset: offset, end: entry.chunks.upperBound)
        let size = try bytes.readVarint()
        guard size <= bytes.end &- bytes.offset else {
            throw SegmentFormat.damaged("a chunk extends beyond its entry.")
        }
        bytes = PostingBytes(start: start, offset: bytes.offset, end: bytes.offset &+ size)
        offset = bytes.end
        let previous = ordinal
        ordinal = try bytes.readVarint()
        if !isFirstChunk { ordinal += previous }
        isFirstChunk = false
        try openPostings(&bytes, after: previous)
        return true
    }

    /// Reads the head of a chunk after its first ordinal.
    private mutating func openPostings(_ bytes: inout PostingBytes, after previous: Int) throws(StoreError) {
        count = Int(try bytes.readUInt8())
        let isLone = count == 0
        (left, hasTail, before, decoded, lastOrdinal, lonePosition) = (0, false, 0, 0, nil, nil)
        let wasContinued = continues
        var isRest = false
        if isLone {
            count = 1
            (chunkFrequency, continues) = (1, false)
            lonePosition = UInt32(truncatingIfNeeded: try bytes.readVarint())
        } else {
            isRest = try openWidths(&bytes)
        }
        frequency = chunkFrequency
        guard isRest == wasContinued, isRest ? ordinal == previous : ordinal > previous, ordinal < objectCount else {
            throw SegmentFormat.damaged("a chunk does not follow the one before it.")
        }
    }

    /// Reads the widths, and the frequency of the first posting. Returns whether that is the rest of another.
    private mutating func openWidths(_ bytes: inout PostingBytes) throws(StoreError) -> Bool {
        let fields = Int(try bytes.readUInt16())
        (gapWidth, frequencyWidth, parameter) = (fields & 31, fields >> 5 & 15, fields >> 9 & 31)
        continues = fields & 1 << 15 != 0
        if count == SegmentFormat.postingsPerChunk { lastOrdinal = ordinal + (try bytes.readVarint()) }
        let bitCount = (count &- 1) &* gapWidth &+ count &* frequencyWidth
        guard count <= SegmentFormat.postingsPerChunk, frequencyWidth <= 10,
            (bitCount &+ 7) &>> 3 <= bytes.end &- bytes.offset
        else { throw SegmentFormat.damaged("a chunk has impossible widths.") }
        gapBit = bytes.offset &* 8
        frequencyBit = gapBit &+ (count &- 1) &* gapWidth
        positionsStart = (bytes.offset &+ (bitCount &+ 7) &>> 3) &* 8
        positionBit = positionsStart
        positionsEnd = bytes.end &* 8
        chunkFrequency = 1 &+ bits(frequencyBit, frequencyWidth)
        frequencyBit &+= frequencyWidth
        hasTail = continues && count > 1
        left = count &- 1 &- (hasTail ? 1 : 0)
        return fields & 1 << 14 != 0
    }
}

// MARK: Positions

extension PostingIterator {
    /// Replaces the content of `positions` by those of the present posting.
    package mutating func readPositions(_ positions: inout [UInt32]) throws(StoreError) {
        positions.removeAll(keepingCapacity: true)
        if let lonePosition {
            positions.append(lonePosition)
            return
        }
        var next: UInt64 = 0
        try decode(&positions, &next)
        if frequency > chunkFrequency { try readRest(&positions, &next) }
    }

    /// Reads the positions of the posting that are in other chunks.
    private func readRest(_ positions: inout [UInt32], _ next: inout UInt64) throws(StoreError) {
        var rest = self
        while positions.count < frequency {
            guard try rest.openChunk() else { throw SegmentFormat.damaged("a posting does not end.") }
            try rest.decode(&positions, &next)
        }
    }

    /// SP2: reads the positions of the present posting that are in its chunk.
    private mutating func decode(_ positions: inout [UInt32], _ next: inout UInt64) throws(StoreError) {
        if let lonePosition { throw SegmentFormat.damaged("a rest has one position, \(lonePosition).") }
        if decoded > before { (decoded, positionBit) = (0, positionsStart) }
        while decoded < before {
            _ = try readCode()
            decoded &+= 1
        }
        for _ in 0..<chunkFrequency {
            next &+= UInt64(try readCode())
            guard next < UInt64(UInt32.max) else { throw SegmentFormat.damaged("a position is too large.") }
            positions.append(UInt32(truncatingIfNeeded: next))
            next &+= 1
        }
        decoded &+= chunkFrequency
    }

    /// Reads a Rice code. `positionBit` never exceeds `positionsEnd`, so a word can be read from it (SG2).
    @inline(__always)
    private mutating func readCode() throws(StoreError) -> Int {
        let raw = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: positionBit &>> 3, as: UInt64.self))
        let word = raw &>> UInt64(positionBit & 7)
        let zeros = word.trailingZeroBitCount
        // The word has at least 57 bits from the present one on.
        guard zeros &+ parameter < 57 else { return try readLongCode() }
        positionBit &+= zeros &+ 1 &+ parameter
        guard positionBit <= positionsEnd else { throw positionsEndEarly() }
        let low = (word &>> UInt64(zeros)) &>> 1 & (1 &<< UInt64(parameter) &- 1)
        return zeros &<< parameter | Int(truncatingIfNeeded: low)
    }

    @inline(never)
    private mutating func readLongCode() throws(StoreError) -> Int {
        var zeros = 0
        while positionBit < positionsEnd, bits(positionBit, 1) == 0 {
            zeros += 1
            positionBit += 1
        }
        positionBit += 1
        guard positionBit + parameter <= positionsEnd, zeros < (1 << 32) >> parameter else { throw positionsEndEarly() }
        let low = bits(positionBit, parameter)
        positionBit += parameter
        return zeros << parameter | low
    }

    @inline(never)
    private mutating func positionsEndEarly() -> StoreError {
        positionBit = positionsEnd
        return SegmentFormat.damaged("a chunk has too few positions.")
    }
}
