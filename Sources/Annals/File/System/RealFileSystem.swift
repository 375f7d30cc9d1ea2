// Implements the seam on Linux: each method checks its arguments, makes one system call and explains failures.

internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The file system of the machine.
package struct RealFileSystem: FileSystem {
    /// Files that `createUnnamed` had to name.
    let temporaryNames = TemporaryNames()
    let usesUnnamedFiles: Bool

    /// - Parameter usesUnnamedFiles: false makes `createUnnamed` work as it does on a file system without unnamed
    ///   files.
    package init(usesUnnamedFiles: Bool = true) { self.usesUnnamedFiles = usesUnnamedFiles }

    /// The longest name of a file in Linux.
    package static let maximumFileNameBytes = 255
    /// Descriptors 0 to 2 are the standard streams: a store there would receive the output of other code.
    static let lowestDescriptor: Int32 = 3
}

// MARK: Names

extension RealFileSystem {
    package func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String) {
        let given = try Self.split(path)
        let real: String
        do throws(SystemError) {
            real = try SystemCalls.resolvedPath(path)
        } catch let error where error.number == ENOENT {
            // Nothing there yet, or a symbolic link that leads nowhere, which `open` and `publish` will refuse.
            do throws(SystemError) {
                return (try SystemCalls.resolvedPath(given.directory), given.name)
            } catch { throw Self.unreachable(given.directory, error, path) }
        } catch { throw Self.unreachable(given.directory, error, path) }
        return try Self.split(real)
    }

    /// The error for a path that could not be resolved. If the cause is a directory on the way, it names that one.
    private static func unreachable(_ directory: String, _ error: SystemError, _ path: String) -> StoreError {
        guard error.number == ENOENT || error.number == ENOTDIR, let sentence = obstacle(directory) else {
            return StoreError(error, path: path)
        }
        return StoreError(.notFound, sentence, call: error.call, systemError: error.number, path: path)
    }

    /// A sentence about the first directory of a path that is missing or no directory; nil if all exist.
    private static func obstacle(_ directory: String) -> String? {
        let bytes = Array(directory.utf8)
        let ends = bytes.indices.filter { $0 > 0 && bytes[$0] == UInt8(ascii: "/") } + [bytes.count]
        for end in ends {
            let part = String(decoding: bytes[..<end], as: UTF8.self)
            do throws(SystemError) {
                _ = try SystemCalls.resolvedPath(part + "/.")
            } catch  where error.number == ENOENT {
                let isLink = (try? SystemCalls.linkTarget(part)) != nil
                return isLink
                    ? "“\(part)” is a symbolic link that leads nowhere: correct the link, or check the path."
                    : "The directory “\(part)” does not exist: create it, or check the path."
            } catch  where error.number == ENOTDIR {
                return "“\(part)” is not a directory: check the path."
            } catch { return nil }
        }
        return nil
    }

    /// Cuts a path before its last component; the directory of a bare name is ".".
    private static func split(_ path: String) throws(StoreError) -> (directory: String, name: String) {
        let bytes = Array(path.utf8)
        guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return (".", try validated(path, in: path)) }
        let name = try validated(String(decoding: bytes[(slash + 1)...], as: UTF8.self), in: path)
        return (slash == 0 ? "/" : String(decoding: bytes[..<slash], as: UTF8.self), name)
    }

    /// A name that can be one component of a path, and reaches the system as it is.
    @discardableResult
    static func validated(_ name: String, in path: String) throws(StoreError) -> String {
        func refusal(_ reason: String) -> StoreError { StoreError(.invalidArgument, reason, path: path) }
        if path.utf8.contains(0) { throw refusal("The path contains a zero byte: name a file without one.") }
        if name.isEmpty { throw refusal("The path ends without a file name: name a file.") }
        if name == "." || name == ".." { throw refusal("The path ends in a directory: name a file in it.") }
        if name.utf8.contains(UInt8(ascii: "/")) {
            throw refusal("The name contains a slash: name a file without one.")
        }
        if name.utf8.count > maximumFileNameBytes {
            throw refusal("The file name is longer than \(maximumFileNameBytes) bytes: shorten it.")
        }
        return name
    }

    package func openDirectory(_ path: String) throws(StoreError) -> Descriptor {
        if path.utf8.contains(0) {
            throw StoreError(
                .invalidArgument, "The path contains a zero byte: name a directory without one.", path: path)
        }
        do throws(SystemError) {
            let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOCTTY
            return Descriptor(try lifted(try SystemCalls.openName(SystemCalls.Flag.currentDirectory, path, flags)))
        } catch { throw StoreError(error, path: path) }
    }

    package func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor {
        try about(directory) { () throws(SystemError) in
            Descriptor(try SystemCalls.duplicate(directory.number, minimum: Self.lowestDescriptor))
        }
    }

    package func open(
        _ name: String, in directory: Descriptor, access: FileAccess
    ) throws(StoreError) -> Descriptor {
        try Self.validated(name, in: name)
        let flags = (access == .readOnly ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
        let file = try about(directory, name) { () throws(SystemError) in
            try lifted(try SystemCalls.openName(directory.number, name, flags))
        }
        do throws(StoreError) {
            if try status(Descriptor(file)).isRegularFile { return Descriptor(file) }
        } catch {
            SystemCalls.closeFile(file)
            throw error
        }
        let path = Self.path(of: Descriptor(file))
        SystemCalls.closeFile(file)
        throw StoreError(
            .notARegularFile, "This is a directory, a device, a pipe or a socket: a store must be a regular file.",
            call: "openat", path: path)
    }

    package func createExclusively(
        _ name: String, in directory: Descriptor, mode: UInt32
    ) throws(StoreError) -> Descriptor {
        try Self.validated(name, in: name)
        let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC
        return try about(directory, name) { () throws(SystemError) in
            Descriptor(try lifted(try SystemCalls.openName(directory.number, name, flags, mode: mode)))
        }
    }

    package func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try Self.validated(name, in: name)
        try Self.validated(newName, in: newName)
        try about(directory, name) { () throws(SystemError) in
            try SystemCalls.renameFile(directory.number, name, newName)
        }
    }

    package func renameExclusively(
        _ name: String, to newName: String, in directory: Descriptor
    ) throws(StoreError) {
        try Self.validated(name, in: name)
        try Self.validated(newName, in: newName)
        try about(directory, newName) { () throws(SystemError) in
            try move(directory.number, name, to: newName, in: directory.number)
        }
    }

    package func unlink(_ name: String, in directory: Descriptor) throws(StoreError) {
        try Self.validated(name, in: name)
        try about(directory, name) { () throws(SystemError) in try SystemCalls.removeName(directory.number, name) }
    }

    package func close(_ file: Descriptor) {
        // First the name, while the number cannot be another file's yet.
        if let temporary = temporaryNames.removeName(file.number) {
            try? SystemCalls.removeName(temporary.directory, temporary.name)
            SystemCalls.closeFile(temporary.directory)
        }
        SystemCalls.closeFile(file.number)
    }

    /// The same open file under a number above the standard streams.
    func lifted(_ descriptor: Int32) throws(SystemError) -> Int32 {
        if descriptor >= Self.lowestDescriptor { return descriptor }
        defer { SystemCalls.closeFile(descriptor) }
        return try SystemCalls.duplicate(descriptor, minimum: Self.lowestDescriptor)
    }
}

// MARK: Bytes

extension RealFileSystem {
    package func read(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> Int {
        let position = try Self.signed(offset, file)
        do throws(SystemError) {
            return try SystemCalls.readBytes(file.number, buffer, position)
        } catch { throw StoreError(error, path: Self.path(of: file), offset: offset) }
    }

    package func write(
        _ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer
    ) throws(StoreError) -> Int {
        let position = try Self.signed(offset, file)
        do throws(SystemError) {
            let count = try SystemCalls.writeBytes(file.number, bytes, position)
            // A loop above that finishes short writes would never end on a device that accepts no bytes.
            if count == 0 && !bytes.isEmpty { throw SystemError("pwrite", EIO) }
            return count
        } catch { throw StoreError(error, path: Self.path(of: file), offset: offset) }
    }

    package func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        let start = try Self.signed(offset, file)
        let length = try Self.signed(count, file)
        try about(file) { () throws(SystemError) in try SystemCalls.fallocate(file.number, start, length) }
    }

    package func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError) {
        let size = try Self.signed(size, file)
        try about(file) { () throws(SystemError) in try SystemCalls.setSize(file.number, size) }
    }

    /// Asked by seeking, because a stat makes the next write stamp and journal the inode. The position is not used.
    package func size(_ file: Descriptor) throws(StoreError) -> UInt64 {
        try about(file) { () throws(SystemError) in UInt64(clamping: try SystemCalls.seekToEnd(file.number)) }
    }

    package func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64? {
        let start = try Self.signed(offset, file)
        do throws(SystemError) {
            return UInt64(clamping: try SystemCalls.seekToContent(file.number, start))
        } catch {
            switch error.number {
            case ENXIO: return nil
            // A file system that cannot report holes.
            case EINVAL, EOPNOTSUPP: return offset
            default: throw StoreError(error, path: Self.path(of: file), offset: offset)
            }
        }
    }

    package func synchronize(_ file: Descriptor) throws(StoreError) {
        try about(file) { () throws(SystemError) in try SystemCalls.syncData(file.number) }
    }

    package func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64) {
        guard let start = Int64(exactly: offset), let count = Int64(exactly: count) else { return }
        SystemCalls.startWriting(file.number, start, count)
    }

    package func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        guard let start = Int64(exactly: offset), let count = Int64(exactly: count) else { return }
        try about(file) { () throws(SystemError) in try SystemCalls.finishWriting(file.number, start, count) }
    }

    package func synchronizeDirectory(_ directory: Descriptor) throws(StoreError) {
        try about(directory) { () throws(SystemError) in try SystemCalls.syncAll(directory.number) }
    }

    package func map(_ file: Descriptor, reservedBytes: Int) -> Mapping? {
        guard reservedBytes > 0 else { return nil }
        return (try? SystemCalls.mapForReading(file.number, reservedBytes)).map(Mapping.init(bytes:))
    }

    package func unmap(_ mapping: Mapping) { SystemCalls.unmap(mapping.bytes) }

    /// The system counts in signed numbers.
    private static func signed(_ number: UInt64, _ file: Descriptor) throws(StoreError) -> Int {
        guard let number = Int(exactly: number) else {
            throw StoreError(
                .tooLarge,
                "The offset is beyond the largest file of this system.", path: path(of: file), offset: number)
        }
        return number
    }
}

// MARK: Status and locks

extension RealFileSystem {
    package func status(_ file: Descriptor) throws(StoreError) -> FileStatus {
        try about(file) { () throws(SystemError) in
            do throws(SystemError) {
                let flags = SystemCalls.Flag.emptyPath
                return try SystemCalls.statx(file.number, "", flags: flags, mask: SystemCalls.Flag.statusWithoutTimes)
            } catch let error where Self.isMissing(error) { return try SystemCalls.statusOfFile(file.number) }
        }
    }

    package func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32 {
        try about(file) { () throws(SystemError) in try SystemCalls.fileSystemType(file.number) }
    }

    package func setPermissions(
        _ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32
    ) throws(StoreError) {
        try about(file) { () throws(SystemError) in
            // The owner first: changing it takes bits away.
            try SystemCalls.setOwner(file.number, owner, group)
            try SystemCalls.setMode(file.number, mode)
        }
    }

    package func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity {
        try Self.validated(name, in: name)
        let flags = SystemCalls.Flag.doNotFollowSymbolicLink
        return try about(directory, name) { () throws(SystemError) in
            do throws(SystemError) {
                let mask = SystemCalls.Flag.statusIdentity
                return try SystemCalls.statx(directory.number, name, flags: flags, mask: mask).identity
            } catch let error where Self.isMissing(error) {
                return try SystemCalls.statusOfName(directory.number, name, flags: flags).identity
            }
        }
    }

    /// An old kernel, or a sandbox without `statx` that returns EPERM.
    private static func isMissing(_ error: SystemError) -> Bool { error.number == ENOSYS || error.number == EPERM }

    /// The number of further attempts if the blocking lock is gone before the system could name its holder.
    private static let lockAttempts = 8

    /// When every holder is gone before it can be named, the requested range itself is returned as the holder's.
    package func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt {
        let (start, count) = try Self.signed(range, file)
        return try about(file) { () throws(SystemError) in
            for _ in 0..<Self.lockAttempts {
                do throws(SystemError) {
                    try SystemCalls.setLock(file.number, .write, start, count)
                    return .acquired
                } catch {
                    guard error.number == EAGAIN || error.number == EACCES else { throw error }
                }
                if let holder = try SystemCalls.conflictingLock(file.number, start, count) {
                    let from = UInt64(clamping: holder.start)
                    // A count of 0 reaches to the largest offset of a file.
                    let length = holder.count == 0 ? UInt64(Int64.max) - from : UInt64(clamping: holder.count)
                    let process = holder.processID > 0 ? UInt32(holder.processID) : nil
                    return .held(by: LockRange(start: from, end: from + length), processID: process)
                }
            }
            return .held(by: range)
        }
    }

    /// A lock on a part of the range; nil without one. It takes none.
    package func lock(of file: Descriptor, over range: LockRange) throws(StoreError) -> LockRange? {
        let (start, count) = try Self.signed(range, file)
        let found = try about(file) { () throws(SystemError) in
            try SystemCalls.conflictingLock(file.number, start, count)
        }
        return found.map { lock in
            let start = UInt64(clamping: lock.start)
            return LockRange(
                start: start, end: lock.count == 0 ? UInt64(Int64.max) : start + UInt64(clamping: lock.count))
        }
    }

    package func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError) {
        let (start, count) = try Self.signed(range, file)
        try about(file) { () throws(SystemError) in try SystemCalls.setLock(file.number, .none, start, count) }
    }

    private static func signed(_ range: LockRange, _ file: Descriptor) throws(StoreError) -> (start: Int, count: Int) {
        guard range.start < range.end else {
            throw StoreError(.invalidArgument, "A locked range must have at least one byte.", path: path(of: file))
        }
        // For the system, a count of 0 reaches to the largest offset of a file.
        let end = try signed(range.end, file)
        return (try signed(range.start, file), end == .max ? 0 : end - Int(range.start))
    }
}
