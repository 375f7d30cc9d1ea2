// Bits and varints of postings: written into memory of a known size, and read without leaving their bytes.

/// Writes bits into memory, the lowest ones of each byte first.
///
/// Sound because the owner of the memory gives room for all bits, and 8 bytes more.
struct PostingBitWriter {
    private let start: UnsafeMutableRawPointer
    private var word: UInt64 = 0
    /// The bits of `word` that are in use: below 32 between two calls.
    private var used = 0
    /// The bytes that were written.
    private(set) var count = 0

    init(_ start: UnsafeMutableRawPointer) { self.start = start }

    /// Appends a value of at most `width` bits, which are at most 32.
    @inline(__always)
    mutating func append(_ value: UInt32, width: Int) {
        word |= UInt64(value) &<< UInt64(used)
        used &+= width
        guard used >= 32 else { return }
        start.storeBytes(of: UInt32(truncatingIfNeeded: word).littleEndian, toByteOffset: count, as: UInt32.self)
        count &+= 4
        word &>>= 32
        used &-= 32
    }

    /// Appends a Rice code: the value without its low bits in zeros, a one, and the low bits.
    @inline(__always)
    mutating func appendRice(_ value: UInt32, parameter: Int) {
        var zeros = Int(value &>> UInt32(parameter))
        while zeros > 31 {
            append(0, width: 31)
            zeros &-= 31
        }
        append(1 &<< UInt32(zeros), width: zeros &+ 1)
        append(value & (1 &<< UInt32(parameter) &- 1), width: parameter)
    }

    /// Fills the last byte with zeros.
    mutating func align() {
        while used > 0 {
            start.storeBytes(of: UInt8(truncatingIfNeeded: word), toByteOffset: count, as: UInt8.self)
            count &+= 1
            word &>>= 8
            used = max(0, used - 8)
        }
    }
}

/// A reading position in a block, with the end of the bytes that may be read.
///
/// Sound because the end is within the block, and every access first compares itself with the end.
struct PostingBytes {
    let start: UnsafeRawPointer
    var offset: Int
    let end: Int

    @inline(__always)
    mutating func readUInt8() throws(StoreError) -> UInt8 {
        guard offset < end else { throw shortage() }
        defer { offset &+= 1 }
        return start.load(fromByteOffset: offset, as: UInt8.self)
    }

    @inline(__always)
    mutating func readUInt16() throws(StoreError) -> UInt16 {
        guard end &- offset >= 2 else { throw shortage() }
        defer { offset &+= 2 }
        return UInt16(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }

    /// A varint, below 2^32.
    @inline(__always)
    mutating func readVarint() throws(StoreError) -> Int {
        guard offset < end else { throw shortage() }
        let byte = start.load(fromByteOffset: offset, as: UInt8.self)
        guard byte < 0x80 else { return try readLongVarint() }
        offset &+= 1
        return Int(byte)
    }

    @inline(never)
    private mutating func readLongVarint() throws(StoreError) -> Int {
        var value = 0
        var shift = 0
        while offset < end {
            let byte = Int(start.load(fromByteOffset: offset, as: UInt8.self))
            offset &+= 1
            value |= (byte & 0x7f) &<< shift
            if byte < 0x80 {
                guard value <= Int(UInt32.max) else { break }
                return value
            }
            shift &+= 7
            if shift > 28 { break }
        }
        throw PostingFormat.damaged("a number is too large or not complete.")
    }

    /// The next bytes.
    mutating func readBytes(_ count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        guard count <= end &- offset else { throw shortage() }
        defer { offset &+= count }
        return UnsafeRawBufferPointer(start: start + offset, count: count)
    }

    @inline(never)
    private func shortage() -> StoreError { PostingFormat.damaged("a field extends beyond its bytes.") }
}

/// A place in Rice codes of one parameter, in a block of which at least 8 bytes follow the codes (SG2).
///
/// Sound because `bit` never exceeds `end`, so a word can be read from it.
struct PostingCodes {
    var start: UnsafeRawPointer
    var bit = 0
    var end = 0
    var parameter = 0

    @inline(__always)
    mutating func read() throws(StoreError) -> Int {
        let raw = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: bit &>> 3, as: UInt64.self))
        let word = raw &>> UInt64(bit & 7)
        let zeros = word.trailingZeroBitCount
        // The word has at least 57 bits from the present one on.
        guard zeros &+ parameter < 57, zeros &+ parameter < end &- bit else { return try readLong() }
        bit &+= zeros &+ 1 &+ parameter
        let low = (word &>> UInt64(zeros)) &>> 1 & (1 &<< UInt64(parameter) &- 1)
        return zeros &<< parameter | Int(truncatingIfNeeded: low)
    }

    @inline(__always)
    mutating func skip() throws(StoreError) {
        let raw = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: bit &>> 3, as: UInt64.self))
        let size = (raw &>> UInt64(bit & 7)).trailingZeroBitCount &+ parameter
        guard size < 57, size < end &- bit else {
            _ = try readLong()
            return
        }
        bit &+= size &+ 1
    }

    /// Reads a code that is longer than a word, or ends at the end.
    @inline(never)
    private mutating func readLong() throws(StoreError) -> Int {
        var zeros = 0
        while bit < end, start.bits(bit, 1) == 0 {
            zeros += 1
            bit += 1
        }
        guard bit + 1 + parameter <= end, zeros < (1 << 32) >> parameter else {
            bit = end
            throw PostingFormat.damaged("a chunk has too few positions.")
        }
        let low = start.bits(bit + 1, parameter)
        bit += 1 + parameter
        return zeros << parameter | low
    }
}

extension UnsafeRawPointer {
    /// Up to 57 bits. The 8 bytes from the first one on can be read.
    @inline(__always)
    func bits(_ bit: Int, _ width: Int) -> Int {
        let word = UInt64(littleEndian: loadUnaligned(fromByteOffset: bit &>> 3, as: UInt64.self))
        return Int(truncatingIfNeeded: word &>> UInt64(bit & 7) & (1 &<< UInt64(width) &- 1))
    }
}

extension ByteWriter {
    mutating func append(varint value: Int) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest &>>= 7
        }
        append(UInt8(rest))
    }

    static func size(ofVarint value: Int) -> Int {
        max(1, (Int.bitWidth - value.leadingZeroBitCount + 6) / 7)
    }
}
