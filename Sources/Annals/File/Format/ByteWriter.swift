// A growing buffer for bytes on their way into the file.

#if canImport(Glibc)
    import Glibc
#else
    import Musl
#endif

/// Owns one block of memory, aligned for any integer. The block doubles when it is full.
///
/// 1. An append wrote every byte below `count`, or the owner does so before it reads them (`skip`). Bytes above `count`
///    are never lent.
/// 2. `count` never exceeds `capacity`, the size of the block.
///
/// Sound because the struct cannot be copied: its only owner frees the block. `reserve` makes room before every write.
/// Running out of memory ends the process, as for an array.
package struct ByteWriter: ~Copyable {
    private(set) var base: UnsafeMutableRawPointer
    private(set) var capacity: Int
    package private(set) var count = 0

    package init(capacity: Int = 4096) {
        self.capacity = max(capacity, 64)
        base = .init(mutating: ByteWriter.resized(nil, to: self.capacity))
    }

    /// A writer without memory until the first append.
    package init(withoutMemory: Void) {
        capacity = 0
        base = ByteWriter.nothing
    }

    deinit { if capacity > 0 { free(base) } }

    /// The base of a writer without memory: aligned, never read or written.
    private static var nothing: UnsafeMutableRawPointer {
        guard let address = UnsafeMutableRawPointer(bitPattern: 16) else { preconditionFailure("16 is not 0.") }
        return address
    }

    /// The bytes written so far. Valid until the next append or the writer's end.
    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// Bytes already written, to be changed in place. Valid until the next append, or the writer's end.
    package mutating func mutableBytes(_ range: Range<Int>) -> UnsafeMutableRawBufferPointer {
        requireWritten(range.lowerBound, range.count)
        return UnsafeMutableRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }

    /// Forgets everything from `count` on, and keeps the memory.
    package mutating func truncate(to count: Int = 0) {
        precondition(count >= 0 && count <= self.count, "A writer can only be cut to bytes that it has.")
        self.count = count
    }

    @inline(__always)
    package mutating func reserve(_ additional: Int) {
        if additional > capacity &- count { grow(additional) }
    }

    @inline(never)
    mutating func grow(_ additional: Int) {
        precondition(additional >= 0 && additional < Int.max / 4, "A buffer of that size does not exist.")
        let block = capacity == 0 ? nil : base
        capacity = max(capacity * 2, count + additional, 64)
        base = .init(mutating: ByteWriter.resized(block, to: capacity))
        assert(capacity - count >= additional, "A block has not grown enough.")
    }

    private static func resized(_ base: UnsafeMutableRawPointer?, to capacity: Int) -> UnsafeRawPointer {
        guard let block = realloc(base, capacity) else { preconditionFailure("Out of memory.") }
        return UnsafeRawPointer(block)
    }

    // MARK: Appending

    package mutating func append(_ value: UInt8) { appendInteger(value) }
    package mutating func append(_ value: UInt16) { appendInteger(value) }
    package mutating func append(_ value: UInt32) { appendInteger(value) }
    package mutating func append(_ value: UInt64) { appendInteger(value) }
    package mutating func append(_ value: Int16) { appendInteger(value) }
    package mutating func append(_ value: Int64) { appendInteger(value) }

    @inline(__always)
    package mutating func append(_ source: UnsafeRawBufferPointer) {
        guard let address = source.baseAddress, source.count > 0 else { return }
        reserve(source.count)
        memcpy(base + count, address, source.count)
        count &+= source.count
    }

    /// Appends bytes and returns whether all are below 128. Cheaper than a separate pass.
    @inline(__always)
    package mutating func appendNotingASCII(_ source: UnsafeRawBufferPointer) -> Bool {
        guard let start = source.baseAddress else { return true }
        reserve(source.count)
        let bits = BytesCopied.copy(start, to: base + count, source.count)
        count &+= source.count
        return bits & 0x8080_8080_8080_8080 == 0
    }

    package mutating func append(_ source: [UInt8]) { source.withUnsafeBytes { append($0) } }

    /// The text's UTF-8.
    package mutating func append(text: String) {
        // A native string lends its bytes; `withUTF8` would first copy the string, which costs 10 ns.
        if text.utf8.withContiguousStorageIfAvailable({ append(UnsafeRawBufferPointer($0)) }) != nil { return }
        for byte in text.utf8 { append(byte) }
    }

    package mutating func appendZeros(_ zeros: Int) {
        precondition(zeros >= 0, "A count of bytes is not negative.")
        reserve(zeros)
        memset(base + count, 0, zeros)
        count &+= zeros
    }

    /// Leaves bytes that the owner writes before it reads them.
    @inline(__always)
    mutating func skip(_ unwritten: Int) {
        precondition(unwritten >= 0, "A count of bytes is not negative.")
        reserve(unwritten)
        count &+= unwritten
    }

    /// Zeros for few bytes. Writes whole words; the last may end above `count`.
    @inline(__always)
    mutating func appendFewZeros(_ zeros: Int) {
        precondition(zeros >= 0, "A count of bytes is not negative.")
        reserve(zeros &+ 8)
        var offset = 0
        // At least one word: for padding, a test for zero bytes would often be mispredicted.
        repeat {
            (base + (count &+ offset)).storeBytes(of: 0, as: UInt64.self)
            offset &+= 8
        } while offset < zeros
        count &+= zeros
    }

    /// Zeros up to the next multiple of 8, counted from the writer's first byte.
    package mutating func appendPadding() { appendFewZeros((8 &- count & 7) & 7) }

    @inline(__always)
    private mutating func appendInteger<Integer: FixedWidthInteger>(_ value: Integer) {
        reserve(MemoryLayout<Integer>.size)
        (base + count).storeBytes(of: value.littleEndian, as: Integer.self)
        count &+= MemoryLayout<Integer>.size
    }

    // MARK: Overwriting

    package mutating func patch(_ value: UInt8, at offset: Int) { patchInteger(value, at: offset) }
    package mutating func patch(_ value: UInt16, at offset: Int) { patchInteger(value, at: offset) }
    package mutating func patch(_ value: UInt32, at offset: Int) { patchInteger(value, at: offset) }
    package mutating func patch(_ value: UInt64, at offset: Int) { patchInteger(value, at: offset) }
    package mutating func patch(_ value: Int16, at offset: Int) { patchInteger(value, at: offset) }
    package mutating func patch(_ value: Int64, at offset: Int) { patchInteger(value, at: offset) }

    @inline(__always)
    private mutating func patchInteger<Integer: FixedWidthInteger>(_ value: Integer, at offset: Int) {
        requireWritten(offset, MemoryLayout<Integer>.size)
        base.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
    }

    @inline(__always)
    private func requireWritten(_ offset: Int, _ size: Int) {
        // As unsigned numbers, negative ones are too large.
        precondition(
            size <= count && UInt(bitPattern: offset) <= UInt(bitPattern: count &- size),
            "Only bytes already written can change.")
    }
}
