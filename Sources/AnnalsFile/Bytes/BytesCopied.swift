// Copying bytes that are looked at on their way.

@usableFromInline
enum BytesCopied {
    /// Copies `count` bytes, and gives back all of them or-ed together, each in some place of the word.
    ///
    /// In long words, because how often a loop runs differs from text to text, and each surprise costs more than a few bytes more.
    @inlinable @inline(__always)
    static func copy(_ source: UnsafeRawPointer, to target: UnsafeMutableRawPointer, _ count: Int) -> UInt64 {
        if count >= 32 {
            let bits = copyWords(SIMD4<UInt64>(), |, source, target, count)
            return bits[0] | bits[1] | bits[2] | bits[3]
        }
        if count >= 16 {
            let bits = copyWords(SIMD2<UInt64>(), |, source, target, count)
            return bits[0] | bits[1]
        }
        if count >= 8 { return copyWords(UInt64(), |, source, target, count) }
        return count > 0 ? UInt64(copyWords(UInt8(), |, source, target, count)) : 0
    }

    /// Copies at least one word. The last one overlaps the one before it.
    @inlinable @inline(__always)
    static func copyWords<Word: BitwiseCopyable>(
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

    @inlinable @inline(__always)
    static func copyWord<Word: BitwiseCopyable>(
        _ source: UnsafeRawPointer, _ target: UnsafeMutableRawPointer, _ offset: Int
    ) -> Word {
        let word = source.loadUnaligned(fromByteOffset: offset, as: Word.self)
        target.storeBytes(of: word, toByteOffset: offset, as: Word.self)
        return word
    }
}
