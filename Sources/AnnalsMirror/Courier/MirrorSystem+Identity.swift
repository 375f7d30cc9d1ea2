// The calls into the C library that tell one file from another.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension MirrorSystem {
    private typealias Statx =
        @convention(c) (
            Int32, UnsafePointer<CChar>, Int32, UInt32, UnsafeMutableRawPointer
        ) -> Int32
    private static let statx = function("statx", as: Statx.self)
    private static let inodeAndBirth: UInt32 = 0x900  // STATX_INO | STATX_BTIME
    private static let birth: UInt32 = 0x800

    /// A file's inode, and its creation time in nanoseconds since 1970; nil if the file system keeps none.
    static func birth(of name: String, in folder: Int32) throws(Failure) -> (inode: UInt64, nanoseconds: Int64?) {
        guard let statx else {
            guard let status = try status(of: name, in: folder) else { throw Failure("fstatat", ENOENT) }
            return (status.inode, nil)
        }
        // `struct statx` has 256 bytes, fixed by the kernel.
        var answer = InlineArray<32, UInt64>(repeating: 0)
        _ = try calling("statx") {
            withUnsafeMutablePointer(to: &answer) { statx(folder, name, AT_SYMLINK_NOFOLLOW, inodeAndBirth, $0) }
        }
        return withUnsafeBytes(of: &answer) { bytes in
            let seconds = bytes.loadUnaligned(fromByteOffset: 80, as: Int64.self)
            let fraction = bytes.loadUnaligned(fromByteOffset: 88, as: UInt32.self)
            let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
            let hasBirth = bytes.loadUnaligned(fromByteOffset: 0, as: UInt32.self) & birth != 0
            return (
                bytes.loadUnaligned(fromByteOffset: 32, as: UInt64.self),
                hasBirth && !overflow && seconds != 0 ? whole &+ Int64(fraction) : nil
            )
        }
    }

    /// Whether an open file description has locked the first byte of a file. Takes no lock, so it disturbs no process.
    static func isFirstByteLocked(_ file: Int32) throws(Failure) -> Bool {
        var request = flock()
        request.l_type = Int16(truncatingIfNeeded: F_WRLCK)
        request.l_whence = Int16(truncatingIfNeeded: SEEK_SET)
        request.l_len = 1
        _ = try calling("fcntl") { fcntl(file, queryOpenFileLock, &request) }
        return Int32(request.l_type) != Int32(F_UNLCK)
    }

    private static let queryOpenFileLock: Int32 = 36  // F_OFD_GETLK
}
