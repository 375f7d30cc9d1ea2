// Copies bytes and inspects them in the same pass.

enum BytesCopied {
    /// Copies `count` bytes and returns all of them or-ed together, each in some byte of the word.
    ///
    /// No loop up to 256 bytes: a mispredicted loop end costs more than copying some bytes twice.
    @inline(__always)
    static func copy(_ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, _ count: Int) -> UInt64 {
        if count >= 32 {
            let bits =
                if count <= 64 {
                    copyEnds(1, SIMD4<UInt64>(), |, source, target, count)
                } else if count <= 128 {
                    copyEnds(2, SIMD4<UInt64>(), |, source, target, count)
                } else if count <= 256 {
                    copyEnds(4, SIMD4<UInt64>(), |, source, target, count)
                } else {
                    copyAll(SIMD4<UInt64>(), |, source, target, count)
                }
            return bits[0] | bits[1] | bits[2] | bits[3]
        }
        if count >= 16 {
            let bits = copyEnds(1, SIMD2<UInt64>(), |, source, target, count)
            return bits[0] | bits[1]
        }
        if count >= 8 { return copyEnds(1, UInt64(), |, source, target, count) }
        return count > 0 ? UInt64(copyAll(UInt8(), |, source, target, count)) : 0
    }

    /// Copies a number of words from the beginning and as many up to the end. The two parts overlap in the middle.
    @inline(__always)
    static func copyEnds<Word: BitwiseCopyable>(
        _ words: Int, _ none: Word, _ or: (Word, Word) -> Word, _ source: UnsafeRawPointer,
        _ target: UnsafeMutableRawPointer, _ count: Int
    ) -> Word {
        var bits = none
        for word in 0..<words {
            bits = or(bits, copyWord(source, target, word &* MemoryLayout<Word>.size))
            bits = or(bits, copyWord(source, target, count &- (word &+ 1) &* MemoryLayout<Word>.size))
        }
        return bits
    }

    /// Copies at least one word. The last word overlaps the one before it.
    @inline(__always)
    static func copyAll<Word: BitwiseCopyable>(
        _ none: Word, _ or: (Word, Word) -> Word, _ source: UnsafeRawPointer, _ target: UnsafeMutableRawPointer,
        _ count: Int
    ) -> Word {
        var bits = none
        let last = count &- MemoryLayout<Word>.size
        var offset = 0
        while offset < last {
            bits = or(bits, copyWord(source, target, offset))
            offset &+= MemoryLayout<Word>.size
        }
        return or(bits, copyWord(source, target, last))
    }

    @inline(__always)
    static func copyWord<Word: BitwiseCopyable>(
        _ source: UnsafeRawPointer, _ target: UnsafeMutableRawPointer, _ offset: Int
    ) -> Word {
        assert(offset >= 0, "A word is copied from before the bytes.")
        let word = source.loadUnaligned(fromByteOffset: offset, as: Word.self)
        target.storeBytes(of: word, toByteOffset: offset, as: Word.self)
        return word
    }
}
