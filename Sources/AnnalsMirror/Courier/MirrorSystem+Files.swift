// All calls into the C library about the files and folders of a mirror. They decide nothing.

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension MirrorSystem {
    /// Facts that identify the content of a file without reading it.
    package struct FileStatus: Equatable, Sendable {
        var device: UInt64
        var inode: UInt64
        var bytes: Int
        var isFolder: Bool
        var modifiedSeconds: Int
        var modifiedNanoseconds: Int

        init(_ status: stat) {
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
            bytes = Int(status.st_size)
            isFolder = status.st_mode & S_IFMT == S_IFDIR
            modifiedSeconds = Int(status.st_mtim.tv_sec)
            modifiedNanoseconds = Int(status.st_mtim.tv_nsec)
        }
    }

    /// A function that Swift's module of the C library lacks; nil in a program that is linked statically.
    static func function<Function>(_ name: String, as type: Function.Type) -> Function? {
        // Sound: each caller names the C type of the function's manual page.
        dlsym(nil, name).map { unsafeBitCast($0, to: Function.self) }
    }
}

// MARK: Names

extension MirrorSystem {
    static func openFolder(path: String) throws(Failure) -> Int32 {
        try calling("open") { open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    }

    static func openFolder(_ name: String, in folder: Int32) throws(Failure) -> Int32 {
        try calling("openat") { openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) }
    }

    /// Does not wait for a pipe that has the name, nor follow a link.
    static func openFile(_ name: String, in folder: Int32) throws(Failure) -> Int32 {
        try calling("openat") { openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) }
    }

    /// Creates a file that everyone may read whom the process's mask allows: other peers may run as other users.
    static func createFile(_ name: String, in folder: Int32) throws(Failure) -> Int32 {
        let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        return try calling("openat") { openat(folder, name, flags, mode_t(0o666)) }
    }

    static func makeFolder(_ name: String, in folder: Int32) throws(Failure) {
        _ = try calling("mkdirat") { mkdirat(folder, name, mode_t(0o777)) }
    }

    static func removeFile(_ name: String, in folder: Int32) throws(Failure) {
        _ = try calling("unlinkat") { unlinkat(folder, name, 0) }
    }

    private typealias Renameat2 =
        @convention(c) (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32) -> Int32
    private static let renameat2 = function("renameat2", as: Renameat2.self)

    /// `renameat2` with RENAME_NOREPLACE: fails with EEXIST if the new name is taken.
    static func renameWithoutReplacing(
        _ name: String, to newName: String, in folder: Int32
    ) throws(Failure) {
        guard let renameat2 else { throw Failure("renameat2", ENOSYS) }
        _ = try calling("renameat2") { renameat2(folder, name, folder, newName, 1) }
    }

    static func addName(_ newName: String, to name: String, in folder: Int32) throws(Failure) {
        _ = try calling("linkat") { linkat(folder, name, folder, newName, 0) }
    }

    static func moveFile(_ name: String, to newName: String, in folder: Int32) throws(Failure) {
        _ = try calling("renameat") { renameat(folder, name, folder, newName) }
    }

    /// The names in a folder in no order, without "." and "..", and without names that are not UTF-8.
    static func names(in folder: Int32) throws(Failure) -> [String] {
        // Opened again, because reading moves the position of the open folder and closing the stream closes it.
        let copy = try calling("openat") { openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        guard let stream = fdopendir(copy) else {
            let number = errno
            closeDescriptor(copy)
            throw Failure("fdopendir", number)
        }
        defer { closedir(stream) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                if errno != 0 { throw Failure("readdir", errno) }
                return names
            }
            // In its place: a record ends with its name, so a copy of the whole field could read beyond the memory.
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(validating: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let name, name != ".", name != ".." { names.append(name) }
        }
    }
}

// MARK: Content

extension MirrorSystem {
    /// Reads at an offset until the buffer is full or the file ends.
    ///
    /// - Returns: The bytes; fewer than `count` if the file ends before.
    static func readBytes(_ file: Int32, at offset: Int, count: Int) throws(Failure) -> [UInt8] {
        var failure: Failure?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            do throws(Failure) {
                while filled < count {
                    let target = UnsafeMutableBufferPointer(rebasing: buffer[filled...])
                    let position = off_t(offset + filled)
                    let more = try calling("pread") { pread(file, target.baseAddress, target.count, position) }
                    if more == 0 { return }
                    filled += more
                }
            } catch { failure = error }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Writes all bytes at an offset.
    static func write(_ bytes: ArraySlice<UInt8>, to file: Int32, at offset: Int) throws(Failure) {
        var done = 0
        while done < bytes.count {
            let count = try calling("pwrite") {
                bytes.dropFirst(done).withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, off_t(offset + done)) }
            }
            // A loop over short writes would never end on a device that accepts no bytes.
            if count == 0 { throw Failure("pwrite", EIO) }
            done += count
        }
    }

    static func synchronize(_ file: Int32) throws(Failure) { _ = try calling("fsync") { fsync(file) } }

    static func status(_ file: Int32) throws(Failure) -> FileStatus {
        var status = stat()
        _ = try calling("fstat") { fstat(file, &status) }
        return FileStatus(status)
    }

    /// The status of a name; nil if it does not exist.
    static func status(of name: String, in folder: Int32) throws(Failure) -> FileStatus? {
        var status = stat()
        do throws(Failure) {
            _ = try calling("fstatat") { fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) }
        } catch  where error.number == ENOENT { return nil }
        return FileStatus(status)
    }

    private static let fstatfs = function(
        "fstatfs", as: (@convention(c) (Int32, UnsafeMutableRawPointer) -> Int32).self)

    /// The number of the file system's kind; 0 if the call is not available.
    static func fileSystemKind(_ file: Int32) throws(Failure) -> UInt32 {
        guard let fstatfs else { return 0 }
        // `struct statfs` has 120 bytes; its first field is the kind.
        var answer = InlineArray<32, UInt64>(repeating: 0)
        _ = try calling("fstatfs") { withUnsafeMutablePointer(to: &answer) { fstatfs(file, $0) } }
        return UInt32(truncatingIfNeeded: answer[0])
    }
}

// MARK: Waiting

extension MirrorSystem {
    static func startWatching() throws(Failure) -> Int32 {
        try calling("inotify_init1") { inotify_init1(O_CLOEXEC | O_NONBLOCK) }
    }

    /// Watches an open folder for files that appear, are completed or removed.
    static func watch(folder: Int32, with watcher: Int32) throws(Failure) {
        // IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_ONLYDIR
        let mask: UInt32 = 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x0100_0000
        _ = try calling("inotify_add_watch") { inotify_add_watch(watcher, "/proc/self/fd/\(folder)", mask) }
    }

    /// Takes all events from a watcher.
    ///
    /// - Returns: Whether one is about a file whose name does not begin with a dot, or about a whole folder.
    static func takeEvents(of watcher: Int32) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4096)
        var matters = false
        while true {
            let count = read(watcher, &buffer, buffer.count)
            if count <= 0 { return matters }
            // watch, mask, cookie and the length of the name, four bytes each, and the name.
            var start = 0
            while count - start >= 16 {
                let length = buffer.withUnsafeBytes {
                    Int($0.loadUnaligned(fromByteOffset: start + 12, as: UInt32.self))
                }
                if length == 0 || buffer[start + 16] != UInt8(ascii: ".") { matters = true }
                start += 16 + min(length, count - start - 16)
            }
        }
    }

    /// Seconds since 1970 by the system's clock, for the age of files.
    static func wallSeconds() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int(time.tv_sec)
    }

    /// Seconds since the machine started, for waits.
    static func steadySeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
