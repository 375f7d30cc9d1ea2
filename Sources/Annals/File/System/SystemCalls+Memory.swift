// Reserved addresses without a file: the system backs pages with memory when they are touched.

#if canImport(Glibc)
    import Glibc
#else
    import Musl
#endif

extension SystemCalls {
    /// Zeros that take memory only after they are written.
    static func reserveMemory(_ count: Int) -> UnsafeMutableRawBufferPointer? {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        guard let base = mmap(nil, count, PROT_READ | PROT_WRITE, flags, -1, 0), base != MAP_FAILED else { return nil }
        return UnsafeMutableRawBufferPointer(start: base, count: count)
    }

    /// Whether the process has this number of free addresses in one piece. They are free again on return.
    static func hasAddresses(_ count: Int) -> Bool {
        guard let base = mmap(nil, count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
            base != MAP_FAILED
        else { return false }
        munmap(base, count)
        return true
    }

    static func releaseMemory(_ memory: UnsafeMutableRawBufferPointer) {
        guard let base = memory.baseAddress else { return }
        munmap(base, memory.count)
    }

    /// The size of the system's pages: a power of two.
    static let pageBytes = max(Int(sysconf(Int32(_SC_PAGESIZE))), 4096)

    private typealias Remap =
        @convention(c) (
            UnsafeMutableRawPointer, Int, Int, Int32, UnsafeMutableRawPointer
        ) -> UnsafeMutableRawPointer?
    private static let remap = function("mremap", as: Remap.self)
    /// `MREMAP_MAYMOVE`, `MREMAP_FIXED` and `MREMAP_DONTUNMAP`.
    private static let remapFlags: Int32 = 1 | 2 | 4

    /// Moves the pages of reserved memory to other reserved memory of the same size. Pages that were there are
    /// released, and the source has none afterwards. No other thread may use either of them in that time.
    ///
    /// - Returns: false if the system cannot do that. Then the contents of both are undefined, but they stay reserved.
    static func moveMemory(
        _ source: UnsafeMutableRawBufferPointer, to target: UnsafeMutableRawBufferPointer
    ) -> Bool {
        guard let remap, let start = source.baseAddress, let end = target.baseAddress, source.count == target.count,
            source.count > 0
        else { return false }
        // Linux since 5.7. The call may fail after it has unmapped the target.
        guard remap(start, source.count, source.count, remapFlags, end) == end else {
            _ = reserveAgain(target)
            return false
        }
        // Otherwise the source would stay apart from the memory around it, and a process has few thousand such parts.
        return reserveAgain(source)
    }

    /// Replaces a part of reserved memory with new memory of the same kind.
    private static func reserveAgain(_ memory: UnsafeMutableRawBufferPointer) -> Bool {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED
        return mmap(memory.baseAddress, memory.count, PROT_READ | PROT_WRITE, flags, -1, 0) == memory.baseAddress
    }

    /// Fills the memory with zeros and releases its pages.
    static func clearMemory(_ memory: UnsafeMutableRawBufferPointer) {
        guard let base = memory.baseAddress, memory.count > 0 else { return }
        madvise(base, memory.count, MADV_DONTNEED)
    }
}
