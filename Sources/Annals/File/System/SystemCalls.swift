// All calls into the C library about files (SystemCalls+Threads.swift has those about threads and clocks), and the one
// function that repeats an interrupted call.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The name and the error number of a failed system call.
package struct SystemError: Error, Equatable, Sendable {
    package var call: String
    package var number: Int32

    package init(_ call: String, _ number: Int32) {
        self.call = call
        self.number = number
    }

    /// The descriptor does not block, and had nothing to read.
    var wouldBlock: Bool { number == EAGAIN }
}

/// The calls themselves, with errors thrown. They decide nothing.
///
/// No function has the name of the C function that it calls: inside it, the C function would need the name of its
/// module, which differs between C libraries.
package enum SystemCalls {
    /// Repeats a call for as long as a signal interrupts it. The only such loop.
    @inline(__always)
    static func calling<Result: FixedWidthInteger>(
        _ name: String, _ body: () -> Result
    ) throws(SystemError) -> Result {
        while true {
            let value = body()
            if value != -1 { return value }
            let number = errno
            if number != EINTR { throw SystemError(name, number) }
        }
    }

    /// Turns a call that returns its error number into one that sets it.
    @inline(__always)
    static func settingError(_ number: Int32) -> Int32 {
        if number == 0 { return 0 }
        errno = number
        return -1
    }

    /// A function of the C library that Swift's module for it lacks; nil in a program linked fully statically.
    static func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        // Sound: each caller names the C type of the function's manual page.
        dlsym(nil, name).map { unsafeBitCast($0, to: Function.self) }
    }
}

// MARK: Names

extension SystemCalls {
    /// `openat`. The kernel's numbers for flags that the module lacks are in `Flag`.
    static func openName(_ directory: Int32, _ name: String, _ flags: Int32, mode: UInt32 = 0) throws(SystemError)
        -> Int32
    {
        remembering(try calling("openat") { openat(directory, name, flags, mode_t(mode)) })
    }

    private typealias MemfdCreate = @convention(c) (UnsafePointer<CChar>, UInt32) -> Int32
    private static let memfdCreate = function("memfd_create", as: MemfdCreate.self)

    /// A new file in memory, which has no name in any file system.
    static func createInMemory(_ name: String) throws(SystemError) -> Int32 {
        guard let memfdCreate else { throw SystemError("memfd_create", ENOSYS) }
        return remembering(try calling("memfd_create") { memfdCreate(name, Flag.memoryCloseOnExec) })
    }

    static func closeFile(_ descriptor: Int32) {
        // Afterwards another thread may own the number: FK2.
        forget(descriptor)
        // Not repeated after an interruption: Linux has already freed the number, and another thread may own it.
        _ = close(descriptor)
    }

    /// A copy of a descriptor, closed on exec, with a number of at least `minimum`.
    static func duplicate(_ descriptor: Int32, minimum: Int32) throws(SystemError) -> Int32 {
        remembering(try calling("fcntl") { fcntl(descriptor, F_DUPFD_CLOEXEC, minimum) })
    }

    /// Records a descriptor that was just opened.
    private static func remembering(_ descriptor: Int32) -> Int32 {
        remember(descriptor)
        return descriptor
    }

    static func resolvedPath(_ path: String) throws(SystemError) -> String {
        guard let resolved = realpath(path, nil) else { throw SystemError("realpath", errno) }
        defer { free(resolved) }
        guard let text = String(validatingCString: resolved) else { throw SystemError("realpath", EILSEQ) }
        return text
    }

    static func linkTarget(_ path: String) throws(SystemError) -> [UInt8] {
        let capacity = Int(PATH_MAX)
        var bytes = [CChar](repeating: 0, count: capacity)
        let count = try calling("readlink") { readlink(path, &bytes, capacity) }
        return bytes.prefix(count).map { UInt8(bitPattern: $0) }
    }

    static func addName(
        _ directory: Int32, _ name: String, _ newDirectory: Int32, _ newName: String, _ flags: Int32
    ) throws(SystemError) {
        _ = try calling("linkat") { linkat(directory, name, newDirectory, newName, flags) }
    }

    static func renameFile(_ directory: Int32, _ name: String, _ newName: String) throws(SystemError) {
        _ = try calling("renameat") { renameat(directory, name, directory, newName) }
    }

    private typealias Renameat2 =
        @convention(c) (
            Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32
        ) -> Int32
    private static let renameat2 = function("renameat2", as: Renameat2.self)

    static func renameatNoReplace(
        _ directory: Int32, _ name: String, _ newDirectory: Int32, _ newName: String
    ) throws(SystemError) {
        guard let renameat2 else { throw SystemError("renameat2", ENOSYS) }
        _ = try calling("renameat2") { renameat2(directory, name, newDirectory, newName, Flag.renameNoReplace) }
    }

    static func setOwner(_ file: Int32, _ owner: UInt32, _ group: UInt32) throws(SystemError) {
        _ = try calling("fchown") { fchown(file, owner, group) }
    }

    static func setMode(_ file: Int32, _ mode: UInt32) throws(SystemError) {
        _ = try calling("fchmod") { fchmod(file, mode) }
    }

    static func removeName(_ directory: Int32, _ name: String) throws(SystemError) {
        _ = try calling("unlinkat") { unlinkat(directory, name, 0) }
    }

    /// Numbers of Linux that Swift's module of the C library lacks; the same on x86-64 and arm64.
    enum Flag {
        static let temporaryFile = 0o20_000_000 | O_DIRECTORY  // O_TMPFILE
        static let lockOpenFile: Int32 = 37  // F_OFD_SETLK
        static let queryOpenFileLock: Int32 = 36  // F_OFD_GETLK
        static let currentDirectory: Int32 = -100  // AT_FDCWD
        static let followSymbolicLink: Int32 = 0x400  // AT_SYMLINK_FOLLOW
        static let doNotFollowSymbolicLink: Int32 = 0x100  // AT_SYMLINK_NOFOLLOW
        static let emptyPath: Int32 = 0x1000  // AT_EMPTY_PATH
        static let renameNoReplace: UInt32 = 1  // RENAME_NOREPLACE
        static let memoryCloseOnExec: UInt32 = 1  // MFD_CLOEXEC
        static let absoluteTime: Int32 = 1  // TIMER_ABSTIME
        static let seekData: Int32 = 3  // SEEK_DATA
        /// Spins for some time before it sleeps, because most locks are held for less time than waking a thread takes.
        static let adaptiveMutex: Int32 = 3  // PTHREAD_MUTEX_ADAPTIVE_NP
        static let statusIdentity: UInt32 = 0x104  // STATX_INO | STATX_NLINK
        static let statusWithoutTimes: UInt32 = 0x31f  // the above and STATX_TYPE, MODE, UID, GID, SIZE
    }
}

// MARK: Bytes

extension SystemCalls {
    /// The most bytes that Linux moves in one call.
    static let maximumTransferBytes = 0x7fff_f000

    static func readBytes(_ file: Int32, _ buffer: UnsafeMutableRawBufferPointer, _ offset: Int) throws(SystemError)
        -> Int
    {
        try calling("pread") {
            pread(file, buffer.baseAddress, min(buffer.count, maximumTransferBytes), off_t(offset))
        }
    }

    static func writeBytes(_ file: Int32, _ bytes: UnsafeRawBufferPointer, _ offset: Int) throws(SystemError) -> Int {
        try calling("pwrite") {
            pwrite(file, bytes.baseAddress, min(bytes.count, maximumTransferBytes), off_t(offset))
        }
    }

    /// Reads the available bytes of a pipe or an inotify descriptor.
    static func readSome(_ file: Int32, _ buffer: inout [UInt8]) throws(SystemError) -> Int {
        let capacity = buffer.count
        return try calling("read") { read(file, &buffer, capacity) }
    }

    /// Writes to a stream: a terminal, a pipe, standard output.
    package static func writeSome(_ file: Int32, _ bytes: ArraySlice<UInt8>) throws(SystemError) -> Int {
        try calling("write") { bytes.withUnsafeBytes { write(file, $0.baseAddress, $0.count) } }
    }

    private typealias Fallocate = @convention(c) (Int32, Int32, off_t, off_t) -> Int32
    private static let fallocate = function("fallocate", as: Fallocate.self)

    /// `fallocate` rather than `posix_fallocate`, which writes into every block where the file system cannot allocate.
    static func fallocate(_ file: Int32, _ offset: Int, _ count: Int) throws(SystemError) {
        _ = try calling("fallocate") {
            if let fallocate { return fallocate(file, 0, off_t(offset), off_t(count)) }
            return settingError(posix_fallocate(file, off_t(offset), off_t(count)))
        }
    }

    static func setSize(_ file: Int32, _ size: Int) throws(SystemError) {
        _ = try calling("ftruncate") { ftruncate(file, off_t(size)) }
    }

    static func seekToEnd(_ file: Int32) throws(SystemError) -> Int {
        try calling("lseek") { Int(lseek(file, 0, SEEK_END)) }
    }

    /// `ENXIO` if no content follows.
    static func seekToContent(_ file: Int32, _ offset: Int) throws(SystemError) -> Int {
        try calling("lseek") { Int(lseek(file, off_t(offset), Flag.seekData)) }
    }

    // An interrupted sync is repeated like every other call. Local file systems wait for their device without being
    // interrupted. One that can be (a network's) may use up, together with the interruption, its one report of a failed
    // write: do not put a store on such a file system.

    static func syncData(_ file: Int32) throws(SystemError) { _ = try calling("fdatasync") { fdatasync(file) } }

    static func syncAll(_ file: Int32) throws(SystemError) { _ = try calling("fsync") { fsync(file) } }

    /// `sync_file_range` without waiting: unlike the calls above, it does not consume the report of a failed write.
    static func startWriting(_ file: Int32, _ offset: Int64, _ count: Int64) {
        // SYNC_FILE_RANGE_WRITE
        _ = syncFileRange?(file, offset, count, 2)
    }

    /// `sync_file_range` that waits. It consumes the report of a failed write.
    static func finishWriting(_ file: Int32, _ offset: Int64, _ count: Int64) throws(SystemError) {
        guard let syncFileRange else { return }
        do throws(SystemError) {
            // SYNC_FILE_RANGE_WAIT_BEFORE, WRITE, WAIT_AFTER
            _ = try calling("sync_file_range") { syncFileRange(file, offset, count, 7) }
        } catch  where [EINVAL, ENOSYS, ESPIPE].contains(error.number) {
            // The file system does not support it.
        }
    }

    private static let syncFileRange = function(
        "sync_file_range", as: (@convention(c) (Int32, Int64, Int64, UInt32) -> Int32).self)

    static func mapForReading(_ file: Int32, _ count: Int) throws(SystemError) -> UnsafeRawBufferPointer {
        let start = mmap(nil, count, PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0)
        guard let start, start != MAP_FAILED else { throw SystemError("mmap", errno) }
        return UnsafeRawBufferPointer(start: start, count: count)
    }

    static func unmap(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        _ = munmap(UnsafeMutableRawPointer(mutating: start), bytes.count)
    }
}

// MARK: Status and locks

extension SystemCalls {
    private typealias Statx =
        @convention(c) (
            Int32, UnsafePointer<CChar>, Int32, UInt32, UnsafeMutableRawPointer
        ) -> Int32
    private static let statx = function("statx", as: Statx.self)
    /// `statx` of a name, or of the directory descriptor itself with an empty name and `Flag.emptyPath`.
    static func statx(
        _ directory: Int32, _ name: String, flags: Int32, mask: UInt32
    ) throws(SystemError) -> FileStatus {
        guard let statx else { throw SystemError("statx", ENOSYS) }
        // `struct statx` has 256 bytes, fixed by the kernel.
        var answer = InlineArray<32, UInt64>(repeating: 0)
        _ = try calling("statx") {
            withUnsafeMutablePointer(to: &answer) { statx(directory, name, flags, mask, $0) }
        }
        return withUnsafeBytes(of: &answer) { bytes in
            let major = UInt64(bytes.loadUnaligned(fromByteOffset: 136, as: UInt32.self))
            let minor = UInt64(bytes.loadUnaligned(fromByteOffset: 140, as: UInt32.self))
            // Combined like `struct stat` in the C library, so that both ways return the same number.
            let device =
                (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | (minor & 0xff)
            let mode = UInt32(bytes.loadUnaligned(fromByteOffset: 28, as: UInt16.self))
            return FileStatus(
                identity: FileIdentity(
                    device: device,
                    inode: bytes.loadUnaligned(fromByteOffset: 32, as: UInt64.self),
                    links: UInt64(bytes.loadUnaligned(fromByteOffset: 16, as: UInt32.self))),
                isRegularFile: mode & S_IFMT == S_IFREG,
                size: bytes.loadUnaligned(fromByteOffset: 40, as: UInt64.self),
                mode: mode & 0o7777,
                owner: bytes.loadUnaligned(fromByteOffset: 20, as: UInt32.self),
                group: bytes.loadUnaligned(fromByteOffset: 24, as: UInt32.self))
        }
    }

    /// The older call for a name.
    static func statusOfName(_ directory: Int32, _ name: String, flags: Int32) throws(SystemError) -> FileStatus {
        var status = stat()
        _ = try calling("fstatat") { fstatat(directory, name, &status, flags) }
        return FileStatus(status)
    }

    /// The older call for a descriptor.
    static func statusOfFile(_ file: Int32) throws(SystemError) -> FileStatus {
        var status = stat()
        _ = try calling("fstat") { fstat(file, &status) }
        return FileStatus(status)
    }

    private static let fstatfs = function(
        "fstatfs", as: (@convention(c) (Int32, UnsafeMutableRawPointer) -> Int32).self)

    /// `fstatfs`: the number of the file system's kind, its first field; 0 if the call is not available.
    static func fileSystemType(_ file: Int32) throws(SystemError) -> UInt32 {
        guard let fstatfs else { return 0 }
        // `struct statfs` has 120 bytes.
        var answer = InlineArray<32, UInt64>(repeating: 0)
        _ = try calling("fstatfs") { withUnsafeMutablePointer(to: &answer) { fstatfs(file, $0) } }
        return UInt32(truncatingIfNeeded: answer[0])
    }

    enum LockKind { case write, none }

    /// Locks or unlocks a range for this open file description, without waiting.
    static func setLock(_ file: Int32, _ kind: LockKind, _ start: Int, _ count: Int) throws(SystemError) {
        var request = lockRequest(kind == .write ? Int32(F_WRLCK) : Int32(F_UNLCK), start, count)
        _ = try calling("fcntl") { fcntl(file, Flag.lockOpenFile, &request) }
    }

    /// The first lock that conflicts with a write lock on the range; nil without a conflict. A count of 0 means all
    /// bytes from the start on. The process is below 1 for a lock of an open file description, or if it is not visible
    /// from here.
    static func conflictingLock(
        _ file: Int32, _ start: Int, _ count: Int
    ) throws(SystemError) -> (start: Int, count: Int, processID: Int32)? {
        var request = lockRequest(Int32(F_WRLCK), start, count)
        _ = try calling("fcntl") { fcntl(file, Flag.queryOpenFileLock, &request) }
        guard Int32(request.l_type) != Int32(F_UNLCK) else { return nil }
        return (Int(request.l_start), Int(request.l_len), request.l_pid)
    }

    private static func lockRequest(_ type: Int32, _ start: Int, _ count: Int) -> flock {
        var request = flock()
        request.l_type = Int16(truncatingIfNeeded: type)
        request.l_whence = Int16(truncatingIfNeeded: SEEK_SET)
        request.l_start = off_t(start)
        request.l_len = off_t(count)
        request.l_pid = 0  // must be zero for a lock of an open file description
        return request
    }
}

extension FileStatus {
    fileprivate init(_ status: stat) {
        self.init(
            identity: FileIdentity(
                device: UInt64(status.st_dev), inode: UInt64(status.st_ino), links: UInt64(status.st_nlink)),
            isRegularFile: status.st_mode & S_IFMT == S_IFREG,
            size: UInt64(clamping: status.st_size), mode: status.st_mode & 0o7777, owner: status.st_uid,
            group: status.st_gid)
    }
}

// MARK: Changes

extension SystemCalls {
    static func inotifyInit() throws(SystemError) -> Int32 {
        remembering(try calling("inotify_init1") { inotify_init1(O_CLOEXEC | O_NONBLOCK) })
    }

    static func inotifyAddWatch(_ inotify: Int32, _ path: String, _ mask: UInt32) throws(SystemError) -> Int32 {
        try calling("inotify_add_watch") { inotify_add_watch(inotify, path, mask) }
    }

    static func inotifyRemoveWatch(_ inotify: Int32, _ watch: Int32) {
        _ = inotify_rm_watch(inotify, watch)
    }

    /// Both ends of a pipe, neither of which blocks: first the reading end, then the writing end.
    static func makePipe() throws(SystemError) -> (Int32, Int32) {
        var ends: [Int32] = [-1, -1]
        _ = try calling("pipe") { pipe(&ends) }
        for end in ends {
            remember(end)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        return (ends[0], ends[1])
    }

    /// Waits until one of two descriptors has something to read; an interruption ends the wait with neither, because
    /// the caller knows the remaining time.
    static func awaitInput(_ first: Int32, _ second: Int32, milliseconds: Int32) throws(SystemError) -> (Bool, Bool) {
        var list = [
            pollfd(fd: first, events: Int16(POLLIN), revents: 0), pollfd(fd: second, events: Int16(POLLIN), revents: 0),
        ]
        if poll(&list, nfds_t(list.count), milliseconds) < 0 {
            let number = errno
            if number != EINTR { throw SystemError("poll", number) }
            return (false, false)
        }
        return (list[0].revents != 0, list[1].revents != 0)
    }
}
