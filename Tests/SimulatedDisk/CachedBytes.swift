// The bytes of a file as processes see them: an array, or from the first mapping on a region that mappings share.

internal import Glibc

/// A reserved range of addresses. It begins as zeros, and memory is used only for the pages that are touched.
///
/// Invariant: bytes beyond the count of the `CachedBytes` that owns the region are zero.
final class Region: @unchecked Sendable {
    // Sound: the pointer never changes, the range is returned only when the last owner is gone, and the bytes are
    // changed only under the disk's lock. Mapped readers race with writers, exactly as they do with a real file.
    let base: UnsafeMutableRawPointer
    let byteCount: Int

    init?(byteCount: Int) {
        let address = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
        guard let address, address != MAP_FAILED else { return nil }
        base = address
        self.byteCount = byteCount
    }

    deinit { munmap(base, byteCount) }
}

struct CachedBytes: Sendable {
    /// Holds the bytes while there is no region; then empty.
    private var array: [UInt8]
    private(set) var region: Region?
    private(set) var count: Int

    init(_ bytes: [UInt8]) {
        array = bytes
        count = bytes.count
    }

    /// The most bytes it can hold now; a region cannot move under its mappings.
    var maximumCount: Int { region?.byteCount ?? Int.max }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        if let region { return body(UnsafeRawBufferPointer(start: region.base, count: count)) }
        return array.withUnsafeBytes(body)
    }

    func bytes() -> [UInt8] { region == nil ? array : withBytes { Array($0) } }

    /// Copies `range`, which may reach beyond the end: what is missing there is zero.
    func padded(_ range: Range<Int>) -> [UInt8] {
        Array(unsafeUninitializedCapacity: range.count) { buffer, initialized in
            let present = max(0, min(range.upperBound, count) - range.lowerBound)
            let target = UnsafeMutableRawBufferPointer(buffer)
            if present > 0 {
                withBytes {
                    target.copyMemory(from: .init(rebasing: $0[range.lowerBound..<range.lowerBound + present]))
                }
            }
            for index in present..<range.count { target[index] = 0 }
            initialized = range.count
        }
    }

    /// Writes at `offset`; a gap after the end becomes zeros. The caller has compared the end with `maximumCount`.
    mutating func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        let end = offset + bytes.count
        if end > count { resize(to: end) }
        if let region {
            UnsafeMutableRawBufferPointer(start: region.base + offset, count: bytes.count).copyMemory(from: bytes)
        } else {
            array.withUnsafeMutableBytes { target in
                UnsafeMutableRawBufferPointer(rebasing: target[offset..<end]).copyMemory(from: bytes)
            }
        }
    }

    mutating func resize(to newCount: Int) {
        if let region {
            if newCount < count { memset(region.base + newCount, 0, count - newCount) }
        } else if newCount < count {
            array.removeLast(count - newCount)
        } else {
            array.append(contentsOf: repeatElement(0, count: newCount - count))
        }
        count = newCount
    }

    mutating func replaceAll(with bytes: [UInt8]) {
        guard region != nil else {
            self = CachedBytes(bytes)
            return
        }
        resize(to: bytes.count)
        bytes.withUnsafeBytes { write($0, at: 0) }
    }

    /// Moves the bytes into a region of at least `byteCount` bytes; false if that is not possible.
    mutating func moveToRegion(of byteCount: Int) -> Bool {
        if let region { return region.byteCount >= byteCount }
        guard count <= byteCount, let region = Region(byteCount: byteCount) else { return false }
        array.withUnsafeBytes { bytes in
            UnsafeMutableRawBufferPointer(start: region.base, count: count).copyMemory(from: bytes)
        }
        array = []
        self.region = region
        return true
    }
}
