// Verified bytes around a place, for many reads without a look at the marks of blocks.

/// Bytes of the file that were verified one after the other.
struct VerifiedStretch {
    /// The address of the first one.
    private let first: UnsafeRawPointer
    private let start: UInt64
    private let count: UInt64

    /// - Parameter base: The address of the file's first byte.
    init(base: UnsafeRawPointer, start: UInt64, end: UInt64) {
        assert(start <= end, "V1: a stretch ends before it begins.")
        (first, self.start, count) = (base + Int(truncatingIfNeeded: start), start, end &- start)
    }

    @inline(__always)
    func holds(_ offset: UInt64, _ count: Int) -> Bool {
        // Below the start, the difference is larger than any count.
        let place = offset &- start
        return place < self.count && UInt64(truncatingIfNeeded: count) <= self.count &- place
    }

    @inline(__always)
    func bytes(at offset: UInt64, count: Int) -> UnsafeRawBufferPointer {
        assert(holds(offset, count), "V1: bytes are lent that were not verified.")
        return UnsafeRawBufferPointer(start: first + Int(truncatingIfNeeded: offset &- start), count: count)
    }
}
