// A chunk of a list of postings while it is collected, and its encoding.

/// At most 128 postings and 1024 positions of one list.
///
/// Sound because the struct owns its memory and cannot be copied. The counts stay within the memory: `isFull` and
/// `hasAllPositions` are asked before each addition, and asserts repeat it.
struct PostingChunk: ~Copyable {
    private let gaps = UnsafeMutablePointer<UInt32>.allocate(capacity: PostingFormat.postingsPerChunk)
    private let frequencies = UnsafeMutablePointer<UInt32>.allocate(capacity: PostingFormat.postingsPerChunk)
    private let positions = UnsafeMutablePointer<UInt32>.allocate(capacity: PostingFormat.positionsPerChunk)
    private let encoded = UnsafeMutableRawPointer.allocate(byteCount: PostingFormat.maximumChunkBytes, alignment: 8)
    private(set) var count = 0
    private var positionCount = 0
    private(set) var first: UInt32 = 0
    private(set) var last: UInt32 = 0
    /// Whether the positions are encoded. Changed only while the chunk is empty.
    var keepsPositions = true
    /// Whether the first posting continues the one before it.
    private var isContinued = false
    /// The last position plus 1.
    private var nextPosition: UInt32 = 0

    deinit {
        gaps.deallocate()
        frequencies.deallocate()
        positions.deallocate()
        encoded.deallocate()
    }

    var isEmpty: Bool { count == 0 }
    /// The number of postings that begin in the chunk.
    var begunCount: Int { isContinued ? count - 1 : count }
    /// Whether no other posting fits.
    var isFull: Bool { count == PostingFormat.postingsPerChunk || hasAllPositions }
    /// Whether no other position fits.
    @inline(__always)
    var hasAllPositions: Bool { positionCount == PostingFormat.positionsPerChunk }

    mutating func clear() { (count, positionCount, isContinued) = (0, 0, false) }

    /// Begins a posting. Its positions follow.
    mutating func begin(_ ordinal: UInt32) {
        assert(!isFull && (isEmpty || ordinal > last), "SG3: ordinals ascend in a list.")
        if isEmpty { first = ordinal } else { gaps[count &- 1] = ordinal &- last &- 1 }
        last = ordinal
        frequencies[count] = UInt32.max
        count &+= 1
        nextPosition = 0
    }

    /// Begins with the rest of the posting that ended the chunk before, which was cleared.
    mutating func beginRest() {
        assert(isEmpty, "The rest of a posting begins a chunk.")
        isContinued = true
        first = last
        frequencies[0] = UInt32.max
        count = 1
    }

    @inline(__always)
    mutating func append(position: UInt32) {
        assert(!hasAllPositions && position >= nextPosition, "SG3: positions ascend in a posting.")
        positions[positionCount] = position &- nextPosition
        positionCount &+= 1
        // A frequency less 1.
        frequencies[count &- 1] &+= 1
        nextPosition = position &+ 1
    }

    /// Everything after the first ordinal. Valid until the next change.
    mutating func encode(continues: Bool) -> UnsafeRawBufferPointer {
        assert(count > 0, "A chunk has a posting.")
        if count == 1, positionCount == 1, !isContinued, !continues { return encodeLone() }
        let widths = (gap: Self.width(gaps, count - 1), frequency: Self.width(frequencies, count))
        let parameter = keepsPositions ? riceParameter : 0
        var fields = UInt16(widths.gap | widths.frequency << 5 | parameter << 9)
        if isContinued { fields |= 1 << 14 }
        if continues { fields |= 1 << 15 }
        encoded.storeBytes(of: UInt8(count), as: UInt8.self)
        encoded.storeBytes(of: fields.littleEndian, toByteOffset: 1, as: UInt16.self)
        var size = 3
        if count >= PostingFormat.postingsToSkip { size += Self.store(varint: last &- first, encoded + size) }
        var bits = PostingBitWriter(encoded + size)
        for index in 0..<count - 1 { bits.append(gaps[index], width: widths.gap) }
        for index in 0..<count { bits.append(frequencies[index], width: widths.frequency) }
        bits.align()
        if keepsPositions {
            for index in 0..<positionCount { bits.appendRice(positions[index], parameter: parameter) }
            bits.align()
        }
        size += bits.count
        assert(size + 16 < PostingFormat.maximumChunkBytes, "SG4: a chunk is too large.")
        return UnsafeRawBufferPointer(start: encoded, count: size)
    }

    private func encodeLone() -> UnsafeRawBufferPointer {
        encoded.storeBytes(of: 0, as: UInt8.self)
        if !keepsPositions { return UnsafeRawBufferPointer(start: encoded, count: 1) }
        return UnsafeRawBufferPointer(start: encoded, count: 1 + Self.store(varint: positions[0], encoded + 1))
    }

    private static func store(varint value: UInt32, _ place: UnsafeMutableRawPointer) -> Int {
        var rest = value
        var count = 0
        while rest >= 0x80 {
            place.storeBytes(of: UInt8(truncatingIfNeeded: rest) | 0x80, toByteOffset: count, as: UInt8.self)
            rest &>>= 7
            count += 1
        }
        place.storeBytes(of: UInt8(rest), toByteOffset: count, as: UInt8.self)
        return count + 1
    }

    /// The bits of the largest value.
    private static func width(_ values: UnsafeMutablePointer<UInt32>, _ count: Int) -> Int {
        var all: UInt32 = 0
        for index in 0..<count { all |= values[index] }
        return 32 - all.leadingZeroBitCount
    }

    /// The parameter that gives the fewest bits: from the mean downwards, as a few large values raise the mean.
    private var riceParameter: Int {
        var sum: UInt64 = 0
        for index in 0..<positionCount { sum += UInt64(positions[index]) }
        let mean = sum / UInt64(positionCount) + 1
        var best = min(31, UInt64.bitWidth - 1 - mean.leadingZeroBitCount)
        var bits = riceBits(best)
        while best > 0 {
            let fewer = riceBits(best - 1)
            if fewer >= bits { break }
            (best, bits) = (best - 1, fewer)
        }
        return best
    }

    private func riceBits(_ parameter: Int) -> Int {
        var zeros = 0
        for index in 0..<positionCount { zeros &+= Int(positions[index] &>> UInt32(parameter)) }
        return zeros + positionCount * (parameter + 1)
    }
}
