// The positions of one posting in memory.

/// The positions of a posting, ascending. Keep one and use it for many postings: it keeps its memory.
///
/// Sound because the struct owns its memory, cannot be copied, and never has more than `capacity` values.
package struct PostingPositions: ~Copyable {
    private var memory: UnsafeMutablePointer<UInt32>
    private var capacity = 64
    package private(set) var count = 0

    package init() { memory = .allocate(capacity: capacity) }

    deinit { memory.deallocate() }

    /// Valid until the positions change.
    @inline(__always)
    package var values: UnsafeBufferPointer<UInt32> { UnsafeBufferPointer(start: memory, count: count) }

    @inline(__always)
    mutating func removeAll() { count = 0 }

    /// Room for more values, which the owner writes before it adds them to the count.
    @inline(__always)
    mutating func room(_ additional: Int) -> UnsafeMutablePointer<UInt32> {
        if additional > capacity &- count { grow(additional) }
        return memory + count
    }

    @inline(__always)
    mutating func add(_ written: Int) {
        assert(written <= capacity - count, "A value was written beyond the memory.")
        count &+= written
    }

    private mutating func grow(_ additional: Int) {
        capacity = max(2 * capacity, count + additional)
        let larger = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity)
        larger.update(from: memory, count: count)
        memory.deallocate()
        memory = larger
    }
}
