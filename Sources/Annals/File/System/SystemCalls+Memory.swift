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

    /// Fills the memory with zeros and releases its pages.
    static func clearMemory(_ memory: UnsafeMutableRawBufferPointer) {
        guard let base = memory.baseAddress, memory.count > 0 else { return }
        madvise(base, memory.count, MADV_DONTNEED)
    }
}
