// The real file system on a real directory: names, files without names, bytes, locks.

import Annals
import Glibc
import TestSupport
import Testing

@Suite struct RealFileSystemTests {
    let temporary: TemporaryDirectory
    let files = RealFileSystem()
    let directory: Descriptor

    init() throws {
        temporary = try TemporaryDirectory()
        directory = try files.openDirectory(temporary.path)
    }

    func write(_ text: String, to file: Descriptor, at offset: UInt64 = 0) throws -> Int {
        try Array(text.utf8).withUnsafeBytes { try files.write(file, at: offset, from: $0) }
    }

    func read(_ file: Descriptor, at offset: UInt64 = 0, count: Int = 100) throws -> String {
        var buffer = [UInt8](repeating: 0, count: count)
        let read = try buffer.withUnsafeMutableBytes { try files.read(file, at: offset, into: $0) }
        return String(decoding: buffer.prefix(read), as: UTF8.self)
    }

    // MARK: Names

    @Test func resolvesExistingAndMissingNames() throws {
        try temporary.write("x", to: "there")
        for name in ["there", "missing"] {
            let resolved = try files.resolve(temporary.path(name))
            #expect(resolved == (temporary.path, name))
        }
        #expect(try files.resolve(temporary.path + "/./there").name == "there")
        #expect(code { _ = try files.resolve(temporary.path + "/no/such/directory") } == .notFound)
    }

    @Test func aSymbolicLinkIsResolvedToItsTarget() throws {
        mkdir(temporary.path("real"), 0o700)
        try temporary.write("x", to: "real/store")
        symlink("real/store", temporary.path("link"))
        symlink("real", temporary.path("directory"))
        #expect(try files.resolve(temporary.path("link")) == (temporary.path("real"), "store"))
        #expect(try files.resolve(temporary.path("directory/new")) == (temporary.path("real"), "new"))
    }

    @Test func aDanglingLinkIsNeitherOpenedNorReplaced() throws {
        symlink("nothing", temporary.path("link"))
        symlink("circle", temporary.path("circle"))
        let resolved = try files.resolve(temporary.path("link"))
        #expect(resolved.name == "link")
        #expect(code { _ = try files.open("link", in: directory, access: .readWrite) } == .notARegularFile)
        #expect(code { _ = try files.createExclusively("link", in: directory, mode: 0o600) } == .alreadyExists)
        #expect(code { _ = try files.resolve(temporary.path("circle")) } == .invalidArgument)
        #expect(temporary.names == ["circle", "link"])
    }

    @Test(arguments: ["", ".", "..", "a/", "a/.", "a/..", "/", "a\0b", String(repeating: "n", count: 256)])
    func invalidNamesAreRefused(name: String) {
        #expect(code { _ = try files.resolve(temporary.path + "/" + name) } == .invalidArgument)
        #expect(code { _ = try files.open(name, in: directory, access: .readOnly) } == .invalidArgument)
        #expect(code { _ = try files.createExclusively(name, in: directory, mode: 0o600) } == .invalidArgument)
        #expect(code { _ = try files.identity(of: name, in: directory) } == .invalidArgument)
        #expect(code { try files.rename("a", to: name, in: directory) } == .invalidArgument)
        #expect(code { try files.unlink(name, in: directory) } == .invalidArgument)
        #expect(temporary.names.isEmpty)
    }

    @Test func takesANameOf255Bytes() throws {
        let name = String(repeating: "ä", count: 127) + "n"
        #expect(try files.resolve(temporary.path(name)).name == name)
        let file = try files.createUnnamed(in: directory, mode: 0o600)
        try files.publish(file, as: name, in: directory)
        files.close(file)
        #expect(temporary.names == [name])
    }

    @Test(.timeLimit(.minutes(20)), arguments: [FileAccess.readOnly, .readWrite])
    func opensRegularFilesOnly(access: FileAccess) throws {
        mkdir(temporary.path("directory"), 0o700)
        mkfifo(temporary.path("pipe"), 0o600)
        symlink("file", temporary.path("link"))
        try temporary.write("x", to: "file")
        for name in ["directory", "pipe", "link"] {
            #expect(code { _ = try files.open(name, in: directory, access: access) } == .notARegularFile, "\(name)")
        }
        let devices = try files.openDirectory("/dev")
        #expect(code { _ = try files.open("null", in: devices, access: access) } == .notARegularFile)
        #expect(code { _ = try files.open("missing", in: directory, access: access) } == .notFound)
        #expect(code { _ = try files.openDirectory(temporary.path("file")) } == .notFound)
        let file = try files.open("file", in: directory, access: access)
        #expect(file.number > 2)
        #expect(fcntl(file.number, F_GETFD) & FD_CLOEXEC != 0)
        for descriptor in [file, devices] { files.close(descriptor) }
    }

    @Test func descriptorsStayAboveTheStandardStreams() throws {
        #expect(try runTool(["descriptors", temporary.path], name: "crash-helper").status == 0)
    }

    @Test func renameReplacesAndUnlinkRemoves() throws {
        try temporary.write("new", to: "a")
        try temporary.write("old", to: "b")
        let before = try files.identity(of: "a", in: directory)
        try files.rename("a", to: "b", in: directory)
        #expect(temporary.read("b") == "new")
        #expect(try files.identity(of: "b", in: directory) == before)
        try files.synchronizeDirectory(directory)
        try files.unlink("b", in: directory)
        #expect(code { try files.unlink("b", in: directory) } == .notFound)
        #expect(code { _ = try files.identity(of: "b", in: directory) } == .notFound)
    }

    // MARK: Files without a name

    @Test(arguments: [true, false]) func unnamedFileIsPublishedOnceComplete(usesUnnamedFiles: Bool) throws {
        let files = RealFileSystem(usesUnnamedFiles: usesUnnamedFiles)
        let file = try files.createUnnamed(in: directory, mode: 0o640)
        #expect(temporary.names.count == (usesUnnamedFiles ? 0 : 1))
        _ = try Array("content".utf8).withUnsafeBytes { try files.write(file, at: 0, from: $0) }
        try files.publish(file, as: "store", in: directory)
        files.close(file)
        #expect(temporary.names == ["store"])
        #expect(temporary.read("store") == "content")
        #expect(try files.identity(of: "store", in: directory).links == 1)
    }

    @Test(arguments: [true, false]) func unnamedFileVanishesWhenClosed(usesUnnamedFiles: Bool) throws {
        let files = RealFileSystem(usesUnnamedFiles: usesUnnamedFiles)
        let other = try files.openDirectory(temporary.path)
        let file = try files.createUnnamed(in: other, mode: 0o600)
        files.close(other)
        files.close(file)
        #expect(temporary.names.isEmpty)
    }

    @Test(arguments: [true, false]) func publishReplacesNothing(usesUnnamedFiles: Bool) throws {
        let files = RealFileSystem(usesUnnamedFiles: usesUnnamedFiles)
        try temporary.write("first", to: "store")
        symlink("victim", temporary.path("link"))
        let file = try files.createUnnamed(in: directory, mode: 0o600)
        #expect(code { try files.publish(file, as: "store", in: directory) } == .alreadyExists)
        #expect(code { try files.publish(file, as: "link", in: directory) } == .alreadyExists)
        try files.publish(file, as: "second", in: directory)
        files.close(file)
        #expect(temporary.names == ["link", "second", "store"])
        #expect(temporary.read("store") == "first")
    }

    // MARK: Bytes

    @Test func bytesAreReadAndWrittenAtTheirOffsets() throws {
        let file = try files.createExclusively("a", in: directory, mode: 0o600)
        #expect(try write("hello", to: file, at: 3) == 5)
        #expect(try read(file) == "\0\0\0hello")
        #expect(try read(file, at: 6) == "lo")
        #expect(try read(file, at: 8).isEmpty && read(file, at: 1 << 40).isEmpty)
        #expect(try files.size(file) == 8)
        try files.setSize(file, to: 4)
        #expect(try read(file) == "\0\0\0h")
        try files.allocate(file, offset: 2, count: 10)
        #expect(try files.size(file) == 12)
        #expect(try read(file, at: 3) == "h" + String(repeating: "\0", count: 8))
        try files.synchronize(file)
        #expect(code { _ = try read(file, at: .max) } == .tooLarge)
        #expect(code { _ = try write("x", to: file, at: 1 << 63) } == .tooLarge)
        #expect(code { try files.setSize(file, to: .max) } == .tooLarge)
        files.close(file)
    }

    @Test func contentIsFoundAfterReservedSpace() throws {
        let file = try files.createExclusively("a", in: directory, mode: 0o600)
        #expect(try files.content(file, from: 0) == nil)
        _ = try write("abc", to: file, at: 0)
        try files.allocate(file, offset: 0, count: 1 << 20)
        #expect(try files.content(file, from: 2) == 2)
        // A file system may not tell.
        #expect(try [nil, 1 << 16].contains(files.content(file, from: 1 << 16)))
        _ = try write("d", to: file, at: 500_000)
        let found = try #require(try files.content(file, from: 1 << 16))
        #expect((1 << 16...500_000).contains(found))
        #expect(try files.content(file, from: 1 << 20) == nil)
        #expect(try files.content(file, from: 1 << 40) == nil)
        files.close(file)
    }

    @Test func errorNamesFileOffsetAndCall() throws {
        try temporary.write("x", to: "a")
        let file = try files.open("a", in: directory, access: .readOnly)
        let error = #expect(throws: StoreError.self) { _ = try write("y", to: file, at: 7) }
        #expect(error?.path == temporary.path("a") && error?.offset == 7)
        #expect(error?.call == "pwrite" && error?.systemError == EBADF)
        files.close(file)
    }

    @Test func aSizeLimitCausesAShortWriteAndThenNoSpace() throws {
        let run = try runTool(["file-limit", temporary.path], name: "crash-helper")
        #expect(run.status == 0, "\(run.errors)")
    }

    @Test func aMappingShowsLaterWrites() throws {
        let file = try files.createExclusively("a", in: directory, mode: 0o600)
        let mapping = try #require(files.map(file, reservedBytes: 1 << 30))
        #expect(try write("grown", to: file) == 5)
        #expect(String(decoding: mapping.bytes.prefix(5), as: UTF8.self) == "grown")
        files.unmap(mapping)
        #expect(files.map(file, reservedBytes: 0) == nil)
        #expect(files.map(Descriptor(-1), reservedBytes: 4096) == nil)
        files.close(file)
    }

    @Test func statusAgreesWithTheOlderCall() throws {
        let file = try files.createExclusively("a", in: directory, mode: 0o640)
        _ = try write("12345", to: file)
        let status = try files.status(file)
        var older = stat()
        #expect(fstat(file.number, &older) == 0)
        #expect(status.identity.device == UInt64(older.st_dev) && status.identity.inode == UInt64(older.st_ino))
        #expect(status.mode == older.st_mode & 0o7777 && status.group == older.st_gid)
        #expect(status.isRegularFile && status.size == 5 && status.mode & 0o600 == 0o600)
        #expect(status.owner == getuid() && status.identity.links == 1)
        #expect(try files.identity(of: "a", in: directory) == status.identity)
        link(temporary.path("a"), temporary.path("b"))
        #expect(try files.identity(of: "b", in: directory).links == 2)
        #expect(try files.status(directory).isRegularFile == false)
        files.close(file)
    }
}

@Suite struct FileLockTests {
    static let middle: UInt64 = 1 << 62

    @Test func lockNamesTheRangeOfItsHolder() throws {
        let temporary = try TemporaryDirectory()
        let files = RealFileSystem()
        let directory = try files.openDirectory(temporary.path)
        let first = try files.createExclusively("a", in: directory, mode: 0o600)
        let second = try files.open("a", in: directory, access: .readWrite)
        let held = LockRange(start: Self.middle - 12_345, end: Self.middle + 678)
        let asked = LockRange(start: Self.middle - 1, end: Self.middle + 1)
        #expect(try files.tryLock(first, held) == .acquired)
        #expect(try files.tryLock(second, asked) == .held(by: held))

        // Other code of the process opens and closes the file: a classic lock would be gone now.
        close(open(temporary.path("a"), O_RDWR))
        #expect(try files.tryLock(second, asked) == .held(by: held))

        try files.unlock(first, held)
        #expect(try files.tryLock(second, asked) == .acquired)
        #expect(try files.tryLock(first, held) == .held(by: asked))
        files.close(second)
        #expect(try files.tryLock(first, held) == .acquired)
        files.close(first)
    }

    @Test func invalidRangesAreRefused() throws {
        let temporary = try TemporaryDirectory()
        let files = RealFileSystem()
        let directory = try files.openDirectory(temporary.path)
        let file = try files.createExclusively("a", in: directory, mode: 0o600)
        for range in [LockRange(start: 5, end: 5), LockRange(start: 6, end: 5), LockRange(start: 0, end: .max)] {
            #expect(throws: StoreError.self) { try files.tryLock(file, range) }
        }
        files.close(file)
    }

    /// A lock to the end of everything, as other programs may take one.
    @Test func endlessLockOfAnotherProgramIsNamed() throws {
        let temporary = try TemporaryDirectory()
        let files = RealFileSystem()
        let directory = try files.openDirectory(temporary.path)
        let first = try files.createExclusively("a", in: directory, mode: 0o600)
        let second = try files.open("a", in: directory, access: .readWrite)
        let setOpenFileLock: Int32 = 37
        var request = flock(l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: 100, l_len: 0, l_pid: 0)
        #expect(fcntl(first.number, setOpenFileLock, &request) == 0)
        let attempt = try files.tryLock(second, LockRange(start: 200, end: 300))
        #expect(attempt == .held(by: LockRange(start: 100, end: UInt64(Int64.max))))
        files.close(first)
        // Of a classic lock, which is the whole process's, the kernel knows the process.
        let third = try files.open("a", in: directory, access: .readWrite)
        #expect(fcntl(third.number, F_SETLK, &request) == 0)
        let named = try files.tryLock(second, LockRange(start: 200, end: 300))
        #expect(named == .held(by: LockRange(start: 100, end: UInt64(Int64.max)), processID: UInt32(getpid())))
        for file in [second, third] { files.close(file) }
    }

    @Test func anErrorOfAnUnnamedFileHasNoPath() throws {
        let temporary = try TemporaryDirectory()
        let files = RealFileSystem()
        let directory = try files.openDirectory(temporary.path)
        let file = try files.createUnnamed(in: directory, mode: 0o600)
        let error = #expect(throws: StoreError.self) { try files.setSize(file, to: 1 << 62) }
        #expect(error?.path == nil, "\(error?.path ?? "")")
        files.close(file)
        files.close(directory)
    }
}
