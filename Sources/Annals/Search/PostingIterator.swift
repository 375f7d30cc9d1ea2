// The iteration over a list of postings.
//
// Invariants:
// PO1  `index` is the place of the present posting in its chunk; `next` reads those below `end` itself. All gaps and
//      frequencies of the chunk are in their block, and 8 bytes follow them (SG2).
// PO2  `summed` postings of the chunk have `before` positions. `codes` is at the code after the first `decoded` ones.

/// A position in a list: `next` moves to the next posting, which `ordinal` and `frequency` describe.
///
/// Sound because a chunk is checked to be in its block before its bits are read.
package struct PostingIterator {
    private let reader: SegmentReader
    private let objectCount: Int
    private let attribute: Int
    private let termLength: Int
    private let hasPositions: Bool
    // The entry.
    private var blockIndex: Int
    private var start: UnsafeRawPointer
    private var isContinuedEntry: Bool
    /// The next chunk, and the end of the entry's chunks.
    private var offset: Int
    private var entryEnd: Int
    private var isFirstChunk = true

    /// The present posting. The ordinal is -1 before the first one.
    package private(set) var ordinal = -1
    /// The number of its positions.
    package private(set) var frequency = 0

    // The chunk.
    private var index = 0
    private var end = 0
    private var count = 0
    private var gapBit = 0
    private var gapWidth = 0
    private var frequencyBit = 0
    private var frequencyWidth = 0
    /// The last ordinal of a chunk that lists it; -1 for another.
    private var lastOrdinal = -1
    /// Whether the next chunk continues the last posting.
    private var continues = false

    // The positions of the chunk.
    private var codes: PostingCodes
    private var codesBit = 0
    private var summed = 0
    private var before = 0
    private var decoded = 0
    /// The position of a chunk that has only one.
    private var lonePosition: UInt32?

    init(_ list: PostingList) {
        reader = list.reader
        objectCount = list.reader.descriptor.objectCount
        (attribute, termLength) = (list.attribute, list.termLength)
        hasPositions = list.reader.descriptor.hasPositions(list.attribute)
        blockIndex = list.entry.block.index
        start = list.entry.block.start
        isContinuedEntry = list.entry.continues
        (offset, entryEnd) = (list.entry.chunks.lowerBound, list.entry.chunks.upperBound)
        codes = PostingCodes(start: start)
    }

    // MARK: Postings

    /// Moves to the next posting; false after the last one.
    @inline(__always)
    package mutating func next() throws(StoreError) -> Bool {
        let following = index &+ 1
        guard following < end else { return try nextOfChunks() }
        // PO1: the posting is in the chunk.
        let next = ordinal &+ 1 &+ start.bits(gapBit &+ index &* gapWidth, gapWidth)
        guard next < objectCount else { throw Self.ordinalTooLarge() }
        index = following
        ordinal = next
        frequency = 1 &+ start.bits(frequencyBit &+ following &* frequencyWidth, frequencyWidth)
        return true
    }

    /// Calls `body` with the ordinal and the frequency of each posting after the present one. Faster than `next`.
    @inline(__always)
    package mutating func forEachPosting(
        _ body: (_ ordinal: Int, _ frequency: Int) throws(StoreError) -> Void
    ) throws(StoreError) {
        while try next() {
            try body(ordinal, frequency)
            // The state of this loop is in registers.
            let (start, gapWidth, frequencyWidth, objectCount) = (start, gapWidth, frequencyWidth, objectCount)
            var present = ordinal
            var gapBit = gapBit &+ index &* gapWidth
            var frequencyBit = frequencyBit &+ (index &+ 1) &* frequencyWidth
            guard index &+ 1 < end else { continue }
            for _ in index &+ 1..<end {
                present &+= 1 &+ start.bits(gapBit, gapWidth)
                guard present < objectCount else { throw Self.ordinalTooLarge() }
                try body(present, 1 &+ start.bits(frequencyBit, frequencyWidth))
                gapBit &+= gapWidth
                frequencyBit &+= frequencyWidth
            }
            (index, ordinal) = (end &- 1, present)
        }
    }

    /// Moves to the first posting from an ordinal on, from the present one on; false if there is no such posting.
    package mutating func skip(to target: Int) throws(StoreError) -> Bool {
        while ordinal < target {
            if lastOrdinal >= 0, lastOrdinal < target {
                // The next chunk continues from the last ordinal of this one.
                (index, end, ordinal) = (count &- 1, count, lastOrdinal)
            }
            guard try next() else { return false }
        }
        return true
    }

    /// The frequency of a posting of the chunk, without a rest in the next chunks.
    @inline(__always)
    private func chunkFrequency(_ index: Int) -> Int {
        1 &+ start.bits(frequencyBit &+ index &* frequencyWidth, frequencyWidth)
    }

    @inline(never)
    private static func ordinalTooLarge() -> StoreError { PostingFormat.damaged("an ordinal is too large.") }

    /// The posting after those that `next` reads itself: the last one of a chunk, if it continues, or the first one of
    /// the next chunk.
    @inline(never)
    private mutating func nextOfChunks() throws(StoreError) -> Bool {
        if index &+ 1 < count {
            end = count
            guard try next() else { return false }
            frequency = try wholeFrequency()
            return true
        }
        while true {
            let isRest = continues
            guard try openChunk() else { return false }
            if !isRest {
                if count == 1, continues { frequency = try wholeFrequency() }
                return true
            }
            // The posting was returned with the chunk before.
            if count > 1 { return try next() }
        }
    }

    /// The frequency of the last posting of the chunk with its rest in the next chunks.
    private func wholeFrequency() throws(StoreError) -> Int {
        var rest = self
        var sum = chunkFrequency(index)
        repeat {
            guard try rest.openChunk() else { throw PostingFormat.damaged("a posting does not end.") }
            sum += rest.chunkFrequency(0)
        } while rest.count == 1 && rest.continues
        return sum
    }
}

// MARK: Chunks

extension PostingIterator {
    /// Moves to the first posting of the next chunk, even if it is the rest of another; false after the last chunk.
    private mutating func openChunk() throws(StoreError) -> Bool {
        if lastOrdinal >= 0, lastOrdinal != ordinal {
            throw PostingFormat.damaged("a chunk has another last ordinal than its head.")
        }
        if offset == entryEnd, try !openNextEntry() { return false }
        var bytes = PostingBytes(start: start, offset: offset, end: entryEnd)
        let size = try bytes.readVarint()
        guard size <= bytes.end &- bytes.offset else {
            throw PostingFormat.damaged("a chunk extends beyond its entry.")
        }
        offset = bytes.offset &+ size
        bytes = PostingBytes(start: start, offset: bytes.offset, end: offset)
        let previous = ordinal
        ordinal = try bytes.readVarint() &+ (isFirstChunk ? 0 : previous)
        isFirstChunk = false
        let wasContinued = continues
        let isRest = try openPostings(&bytes)
        guard isRest == wasContinued, isRest ? ordinal == previous : ordinal > previous, ordinal < objectCount else {
            throw PostingFormat.damaged("a chunk does not follow the one before it.")
        }
        frequency = chunkFrequency(0)
        return true
    }

    private mutating func openNextEntry() throws(StoreError) -> Bool {
        guard isContinuedEntry else {
            if continues { throw PostingFormat.damaged("a posting does not end.") }
            return false
        }
        let next = try reader.continuation(inBlock: blockIndex + 1, attribute: attribute, termLength: termLength)
        (blockIndex, start, isContinuedEntry) = (next.block.index, next.block.start, next.continues)
        (offset, entryEnd, isFirstChunk) = (next.chunks.lowerBound, next.chunks.upperBound, true)
        return true
    }

    /// Reads the head of a chunk after its first ordinal. Returns whether its first posting is the rest of another.
    private mutating func openPostings(_ bytes: inout PostingBytes) throws(StoreError) -> Bool {
        (index, summed, before, decoded, lastOrdinal, lonePosition) = (0, 0, 0, 0, -1, nil)
        count = Int(try bytes.readUInt8())
        guard count > 0 else {
            if hasPositions { lonePosition = UInt32(truncatingIfNeeded: try bytes.readVarint()) }
            try requireEnd(bytes.offset, bytes.end)
            (count, end, gapWidth, frequencyWidth, continues) = (1, 1, 0, 0, false)
            (gapBit, frequencyBit) = (bytes.end &* 8, bytes.end &* 8)
            return false
        }
        let fields = Int(try bytes.readUInt16())
        (gapWidth, frequencyWidth) = (fields & 31, fields >> 5 & 15)
        continues = fields & 1 << 15 != 0
        if count >= PostingFormat.postingsToSkip { lastOrdinal = ordinal + (try bytes.readVarint()) }
        let bitCount = (count &- 1) &* gapWidth &+ count &* frequencyWidth
        let codesStart = bytes.offset &+ (bitCount &+ 7) &>> 3
        guard count <= PostingFormat.postingsPerChunk, frequencyWidth <= 10, codesStart <= bytes.end else {
            throw PostingFormat.damaged("a chunk has impossible widths.")
        }
        if !hasPositions { try requireEnd(codesStart, bytes.end) }
        gapBit = bytes.offset &* 8
        frequencyBit = gapBit &+ (count &- 1) &* gapWidth
        codesBit = codesStart &* 8
        codes = PostingCodes(start: start, bit: codesBit, end: bytes.end &* 8, parameter: fields >> 9 & 31)
        end = continues && count > 1 ? count &- 1 : count
        return fields & 1 << 14 != 0
    }
}

// MARK: Positions

extension PostingIterator {
    private func requireEnd(_ offset: Int, _ end: Int) throws(StoreError) {
        guard offset == end else { throw PostingFormat.damaged("a chunk has more than its postings.") }
    }

    /// Replaces the content of `positions` by those of the present posting. Without positions, terms count as if they
    /// followed each other.
    package mutating func readPositions(_ positions: inout PostingPositions) throws(StoreError) {
        assert(ordinal >= 0, "Positions belong to a posting.")
        positions.removeAll()
        guard hasPositions else {
            let room = positions.room(frequency)
            for place in 0..<frequency { room[place] = UInt32(truncatingIfNeeded: place) }
            positions.add(frequency)
            return
        }
        if let lonePosition {
            positions.room(1).initialize(to: lonePosition)
            positions.add(1)
            return
        }
        let own = chunkFrequency(index)
        let next = try decode(&positions, from: 0, count: own)
        if frequency > own { try readRest(&positions, from: next) }
    }

    /// Reads the positions of the posting that are in other chunks.
    private func readRest(_ positions: inout PostingPositions, from first: Int) throws(StoreError) {
        var rest = self
        var next = first
        while positions.count < frequency {
            guard try rest.openChunk(), rest.lonePosition == nil else {
                throw PostingFormat.damaged("a posting does not end.")
            }
            next = try rest.decode(&positions, from: next, count: rest.chunkFrequency(0))
        }
    }

    /// Reads the positions of the present posting that are in its chunk. Returns the last one plus 1.
    @inline(__always)
    private mutating func decode(
        _ positions: inout PostingPositions, from first: Int, count: Int
    ) throws(StoreError) -> Int {
        sumFrequencies()
        // A copy, whose state is in registers.
        var codes = codes
        // PO2: the codes of the postings before this one are skipped.
        if decoded > before { (decoded, codes.bit) = (0, codesBit) }
        for _ in decoded..<before { try codes.skip() }
        let room = positions.room(count)
        var next = first
        for place in 0..<count {
            next &+= try codes.read()
            guard next < Int(UInt32.max) else { throw PostingFormat.damaged("a position is too large.") }
            room[place] = UInt32(truncatingIfNeeded: next)
            next &+= 1
        }
        positions.add(count)
        decoded = before &+ count
        self.codes = codes
        return next
    }

    /// PO2: sums the frequencies of the postings before this one.
    private mutating func sumFrequencies() {
        if frequencyWidth == 0 {
            before = index
        } else {
            for place in summed..<index { before &+= chunkFrequency(place) }
        }
        summed = index
    }
}
