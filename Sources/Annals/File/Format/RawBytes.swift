// Little-endian integers at byte offsets. Callers have checked that the bytes exist; debug builds check again.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension UnsafeRawBufferPointer {
    @inline(__always)
    func integer<Integer: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Integer.Type) -> Integer {
        Integer(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }

    /// The bytes from `offset` on.
    @inline(__always)
    func slice(_ offset: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[offset..<(offset + count)])
    }

    func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
        // Only empty buffers may have no base address.
        guard count == other.count, let left = baseAddress, let right = other.baseAddress else {
            return isEmpty && other.isEmpty
        }
        return memcmp(left, right, count) == 0
    }

    /// Whether these bytes sort before `other`, byte by byte; a prefix sorts before the longer bytes.
    func isBefore(_ other: UnsafeRawBufferPointer) -> Bool {
        let shorter = Swift.min(count, other.count)
        guard shorter > 0, let left = baseAddress, let right = other.baseAddress else { return count < other.count }
        let difference = memcmp(left, right, shorter)
        return difference == 0 ? count < other.count : difference < 0
    }

    /// Whether these bytes contain `other`.
    func contains(_ other: UnsafeRawBufferPointer) -> Bool {
        guard other.count > 0, let part = other.baseAddress else { return true }
        guard let start = baseAddress else { return false }
        var offset = 0
        while count &- offset >= other.count {
            // The next occurrence of the first byte.
            let left = count &- offset &- other.count &+ 1
            guard let found = memchr(start + offset, Int32(other[0]), left) else { return false }
            if memcmp(found, part, other.count) == 0 { return true }
            offset = UnsafeRawPointer(found) - start + 1
        }
        return false
    }

    /// Whether the bytes contain this one.
    func contains(byte: UInt8) -> Bool {
        guard count > 0, let start = baseAddress else { return false }
        return memchr(start, Int32(byte), count) != nil
    }
}

extension UnsafeMutableRawBufferPointer {
    @inline(__always)
    func store<Integer: FixedWidthInteger & BitwiseCopyable>(_ value: Integer, at offset: Int) {
        storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
    }

    @inline(__always)
    func integer<Integer: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Integer.Type) -> Integer {
        UnsafeRawBufferPointer(self).integer(at: offset, as: type)
    }
}

extension String {
    /// Whether both have the same UTF-8. `==` also accepts other compositions of a letter.
    @inline(__always)
    package func hasSameBytes(as other: String) -> Bool { hasSameWords(as: other) || hasSameText(as: other) }

    /// Whether both are one string: the same small text, or the same memory. False may be wrong.
    @inline(__always)
    private func hasSameWords(as other: String) -> Bool {
        guard MemoryLayout<String>.size == MemoryLayout<(UInt64, UInt64)>.size else { return false }
        // Sound: the sizes are equal, and the bits are only compared.
        let (mine, others) = (
            unsafeBitCast(self, to: (UInt64, UInt64).self), unsafeBitCast(other, to: (UInt64, UInt64).self)
        )
        return mine == others
    }

    @inline(never)
    private func hasSameText(as other: String) -> Bool {
        let isSame = utf8.withContiguousStorageIfAvailable { mine in
            other.utf8.withContiguousStorageIfAvailable { others -> Bool in
                UnsafeRawBufferPointer(mine).hasSameBytes(as: UnsafeRawBufferPointer(others))
            }
        }
        if case .some(.some(let isSame)) = isSame { return isSame }
        return utf8.elementsEqual(other.utf8)
    }
}

extension UnsafeRawBufferPointer {
    /// The bytes as text; nil if they are not valid UTF-8. Linear in the bytes.
    ///
    /// `String(validating:as:)` is not specialized and takes four times as long.
    package var text: String? {
        guard count > 0, let first = baseAddress else { return "" }
        guard isASCII else { return checkedText }
        // ASCII is valid UTF-8, so no second test is needed.
        let bytes = UnsafeBufferPointer(start: first.assumingMemoryBound(to: UInt8.self), count: count)
        return String(copying: UTF8Span(unchecked: bytes.span, isKnownASCII: true))
    }

    @inline(never)
    private var checkedText: String? { withValidText { String(copying: $0) } }

    /// Whether the bytes are valid UTF-8. Linear in the bytes.
    package var isText: Bool { isASCII || withValidText { _ in true } != nil }

    /// Whether all bytes are below 128, so valid UTF-8. Most texts are, and this test is cheaper.
    @inline(__always)
    var isASCII: Bool {
        guard let start = baseAddress else { return true }
        if count < 16 { return isShortASCII }
        // The last vector overlaps the one before it.
        let last = count &- 16
        var bits = start.loadUnaligned(fromByteOffset: last, as: SIMD2<UInt64>.self)
        var offset = 0
        while offset < last {
            bits |= start.loadUnaligned(fromByteOffset: offset, as: SIMD2<UInt64>.self)
            offset &+= 16
        }
        return (bits.x | bits.y) & 0x8080_8080_8080_8080 == 0
    }

    /// Whether all bytes are from 1 to 127.
    @inline(__always)
    var isASCIIWithoutZeros: Bool {
        guard let start = baseAddress else { return true }
        if count >= 32 { return Self.isLongASCIIWithoutZeros(start, count) }
        if count >= 16 {
            let first = start.loadUnaligned(as: SIMD2<UInt64>.self)
            // The last vector overlaps the first one.
            let last = start.loadUnaligned(fromByteOffset: count &- 16, as: SIMD2<UInt64>.self)
            return Self.areASCIIWithoutZeros(first.x, first.y) && Self.areASCIIWithoutZeros(last.x, last.y)
        }
        if count >= 8 {
            return Self.areASCIIWithoutZeros(
                start.loadUnaligned(as: UInt64.self),
                start.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self))
        }
        if count >= 4 {
            let first = UInt64(start.loadUnaligned(as: UInt32.self))
            let last = UInt64(start.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self))
            let word = first &<< 32 | last
            return Self.areASCIIWithoutZeros(word, word)
        }
        if count == 0 { return true }
        // These three bytes cover all bytes of the text.
        let word = UInt32(self[0]) | UInt32(self[count &>> 1]) &<< 8 | UInt32(self[count &- 1]) &<< 16
        return ((word &- 0x01_0101) | word) & 0x80_8080 == 0
    }

    /// A byte of 0 borrows from the next one, which then may look wrong too; without a 0, no byte borrows.
    @inline(__always)
    private static func areASCIIWithoutZeros(_ first: UInt64, _ second: UInt64) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        return ((first &- ones) | first | (second &- ones) | second) & 0x8080_8080_8080_8080 == 0
    }

    @inline(__always)
    private static func isLongASCIIWithoutZeros(_ start: UnsafeRawPointer, _ count: Int) -> Bool {
        // The last 32 bytes overlap those before them.
        let last = count &- 32
        var seen = ByteExtremes(start, last)
        var offset = 0
        while offset < last &- 32 {
            seen.add(ByteExtremes(start, offset))
            seen.add(ByteExtremes(start, offset &+ 32))
            offset &+= 64
        }
        if offset < last { seen.add(ByteExtremes(start, offset)) }
        return seen.areASCIIWithoutZeros
    }

    @inline(never)
    private var isShortASCII: Bool {
        var bits: UInt8 = 0
        for byte in self { bits |= byte }
        return bits < 0x80
    }

    /// Nil if the bytes are invalid or empty. Sound because any byte is a `UInt8`, and the spans do not outlive the
    /// call.
    @inline(__always)
    private func withValidText<Result>(_ body: (borrowing UTF8Span) -> Result) -> Result? {
        guard let first = baseAddress else { return nil }
        let bytes = UnsafeBufferPointer(start: first.assumingMemoryBound(to: UInt8.self), count: count)
        guard let text = try? UTF8Span(validating: bytes.span) else { return nil }
        return body(text)
    }
}

extension Int {
    /// The next multiple of 8.
    @inline(__always)
    var paddedTo8: Int { (self &+ 7) & ~7 }
}

/// The minimum of several vectors of bytes, and the union of their bits.
private struct ByteExtremes {
    private var least: SIMD16<UInt8>
    private var bits: SIMD16<UInt8>

    /// Of the 32 bytes from an offset on.
    @inline(__always)
    init(_ start: UnsafeRawPointer, _ offset: Int) {
        let first = start.loadUnaligned(fromByteOffset: offset, as: SIMD16<UInt8>.self)
        let second = start.loadUnaligned(fromByteOffset: offset &+ 16, as: SIMD16<UInt8>.self)
        // `pointwiseMin` is no single instruction.
        least = first.replacing(with: second, where: second .< first)
        bits = first | second
    }

    @inline(__always)
    mutating func add(_ next: ByteExtremes) {
        least.replace(with: next.least, where: next.least .< least)
        bits |= next.bits
    }

    @inline(__always)
    var areASCIIWithoutZeros: Bool {
        // Sound: both are 16 bytes of any value.
        let high = unsafeBitCast(bits, to: SIMD2<UInt64>.self)
        let low = unsafeBitCast(least, to: SIMD2<UInt64>.self)
        let ones: UInt64 = 0x0101_0101_0101_0101
        return (high.x | high.y | (low.x &- ones) | (low.y &- ones)) & 0x8080_8080_8080_8080 == 0
    }
}
