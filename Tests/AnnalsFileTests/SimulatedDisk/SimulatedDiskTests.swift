// The simulated disk is what other tests trust: here its own rules are tested, directly.

internal import Annals
internal import Glibc
internal import SimulatedDisk
import TestSupport
internal import Testing

/// What the tests of this file need around a disk: a directory, and short ways to write and read.
struct DiskBench {
    let files: any FileSystem
    let directory: Descriptor

    init(_ files: any FileSystem) throws {
        self.files = files
        directory = try files.openDirectory("/data")
    }

    func create(_ name: String) throws -> Descriptor {
        try files.createExclusively(name, in: directory, mode: 0o600)
    }

    func open(_ name: String, _ access: FileAccess = .readWrite) throws -> Descriptor {
        try files.open(name, in: directory, access: access)
    }

    /// A file that is durable, name and bytes.
    func createDurably(_ name: String, _ bytes: [UInt8]) throws -> Descriptor {
        let file = try create(name)
        try write(file, 0, bytes)
        try files.synchronize(file)
        try files.synchronizeDirectory(directory)
        return file
    }

    @discardableResult func write(_ file: Descriptor, _ offset: UInt64, _ bytes: [UInt8]) throws(StoreError) -> Int {
        let result = bytes.withUnsafeBytes { source in
            Result { () throws(StoreError) -> Int in try files.write(file, at: offset, from: source) }
        }
        return try result.get()
    }

    func read(_ file: Descriptor, _ offset: UInt64, _ count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let moved = try bytes.withUnsafeMutableBytes { try files.read(file, at: offset, into: $0) }
        return Array(bytes[..<moved])
    }
}

func diskPattern(_ count: Int, _ start: UInt8 = 1) -> [UInt8] {
    (0..<count).map { start &+ UInt8(truncatingIfNeeded: $0 &* 7) }
}

@Suite struct SimulatedDiskCalls {
    @Test func bytesAreReadBackAndGapsAreZero() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.create("a")
        #expect(try bench.write(file, 10, [1, 2, 3]) == 3)
        #expect(try bench.read(file, 0, 100) == [UInt8](repeating: 0, count: 10) + [1, 2, 3])
        #expect(try bench.read(file, 13, 10) == [])
        #expect(try disk.size(file) == 13)
        try disk.setSize(file, to: 11)
        try disk.allocate(file, offset: 5, count: 10)
        #expect(try bench.read(file, 9, 100) == [0, 1, 0, 0, 0, 0])
        try disk.allocate(file, offset: 0, count: 4)
        #expect(try disk.size(file) == 15)
    }

    @Test func unnamedFileVanishesUnlessPublished() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let lost = try disk.createUnnamed(in: bench.directory, mode: 0o600)
        #expect(disk.fileCount == 1)
        #expect(try disk.status(lost).identity.links == 0)
        disk.close(lost)
        #expect(disk.fileCount == 0)

        let kept = try disk.createUnnamed(in: bench.directory, mode: 0o640)
        try bench.write(kept, 0, [7])
        try disk.publish(kept, as: "kept", in: bench.directory)
        let status = try disk.status(kept)
        #expect(status.identity.links == 1 && status.mode == 0o640 && status.isRegularFile)
        disk.close(kept)
        #expect(disk.contents(of: "/data/kept") == [7])
        let other = try disk.createUnnamed(in: bench.directory, mode: 0o600)
        #expect(code { try disk.publish(other, as: "kept", in: bench.directory) } == .alreadyExists)
        #expect(code { _ = try bench.create("kept") } == .alreadyExists)
    }

    @Test func renameReplacesAndOpenFilesStay() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let old = try bench.create("store")
        try bench.write(old, 0, [1])
        let new = try bench.create("temporary")
        try bench.write(new, 0, [2])
        let identity = try disk.status(new).identity
        try disk.rename("temporary", to: "store", in: bench.directory)
        #expect(disk.names(in: "/data") == ["store"])
        #expect(try disk.identity(of: "store", in: bench.directory) == identity)
        #expect(try bench.read(old, 0, 1) == [1])
        #expect(try disk.status(old).identity.links == 0)
        #expect(code { _ = try disk.identity(of: "temporary", in: bench.directory) } == .notFound)
        try disk.unlink("store", in: bench.directory)
        #expect(try bench.read(new, 0, 1) == [2])
    }

    @Test func invalidCallsFail() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        disk.install([1], at: "/data/a")
        disk.installSpecial(linkTo: "a", at: "/data/link")
        disk.installSpecial(linkTo: nil, at: "/data/fifo")
        disk.installLink(from: "/data/a", to: "/data/b")
        let reader = try bench.open("a", .readOnly)
        let closed = try bench.open("a")
        disk.close(closed)
        #expect(try disk.status(reader).identity.links == 2)
        #expect(try disk.status(bench.open("fifo")).isRegularFile == false)
        #expect(try disk.resolve("/data/link").name == "a")
        #expect(try disk.resolve("/data/new").directory == "/data")
        let cases: [(StoreError.Code, () throws -> Void)] = [
            (.notFound, { _ = try bench.open("none") }),
            (.notFound, { _ = try disk.openDirectory("/none") }),
            (.notFound, { _ = try disk.resolve("/none/a") }),
            (.notFound, { try disk.unlink("none", in: bench.directory) }),
            (.notARegularFile, { _ = try bench.open("link") }),
            (.alreadyExists, { _ = try bench.create("link") }),
            (.systemCall, { try bench.write(reader, 0, [1]) }),
            (.systemCall, { _ = try disk.size(closed) }),
            (.systemCall, { _ = try disk.tryLock(reader, LockRange(start: 1, end: 2)) }),
            (.tooLarge, { try bench.write(try bench.open("a"), 1 << 40, [1]) }),
            (.tooLarge, { try disk.setSize(try bench.open("a"), to: UInt64.max) }),
        ]
        for (index, (expected, body)) in cases.enumerated() { #expect(code(body) == expected, "case \(index)") }
        disk.setMode(0o400, of: "/data/a")
        #expect(code { _ = try bench.open("a") } == .permissionDenied)
        disk.setReadOnly(true)
        #expect(code { _ = try bench.create("c") } == .readOnly)
    }

    @Test func mappingSeesLaterWrites() throws {
        var configuration = SimulatedDiskConfiguration()
        configuration.regionBytes = 1 << 20
        configuration.maximumMappingBytes = 2 << 20
        let disk = SimulatedDisk(configuration)
        let bench = try DiskBench(disk)
        let file = try bench.createDurably("a", diskPattern(5000))
        let mapping = try #require(disk.map(file, reservedBytes: 2 << 20))
        #expect(Array(mapping.bytes[..<5000]) == diskPattern(5000))
        try bench.write(file, 4000, diskPattern(3000, 9))
        #expect(Array(mapping.bytes[4000..<7000]) == diskPattern(3000, 9))
        try disk.setSize(file, to: 4500)
        #expect(mapping.bytes[4499] == diskPattern(3000, 9)[499] && mapping.bytes[4500] == 0)
        #expect(disk.map(file, reservedBytes: 3 << 20) == nil)
        #expect(code { try disk.setSize(file, to: 3 << 20) } == .tooLarge)
        disk.addFault(Fault(.failure(ENOMEM), on: .map))
        #expect(disk.map(file, reservedBytes: 1 << 20) == nil)
        disk.cutPower()
        #expect(disk.contents(of: "/data/a") == diskPattern(5000))
        #expect(disk.mappingCount == 1)
        disk.unmap(mapping)
        #expect(disk.mappingCount == 0)
    }

    @Test func locksBelongToDescriptors() throws {
        let disk = SimulatedDisk()
        let first = disk.process(10)
        let second = disk.process(20)
        let one = try DiskBench(first)
        let two = try DiskBench(second)
        let file = try one.create("a")
        let sameProcess = try one.open("a")
        let other = try two.open("a")
        let range = LockRange(start: 100, end: 200)
        #expect(try first.tryLock(file, range) == .acquired)
        #expect(try first.tryLock(file, range) == .acquired)
        #expect(try first.tryLock(sameProcess, LockRange(start: 199, end: 300)) == .held(by: range))
        #expect(try second.tryLock(other, LockRange(start: 0, end: 101)) == .held(by: range))
        #expect(try second.tryLock(other, LockRange(start: 200, end: 300)) == .acquired)
        try first.unlock(file, LockRange(start: 120, end: 150))
        #expect(disk.lockedRanges(of: "/data/a").count == 3)
        #expect(try second.tryLock(other, LockRange(start: 120, end: 150)) == .acquired)
        #expect(
            try second.tryLock(other, LockRange(start: 100, end: 200)) == .held(by: LockRange(start: 100, end: 120)))
        // Closing another descriptor of the same file keeps the lock; closing its own one frees it.
        first.close(sameProcess)
        #expect(try second.tryLock(other, LockRange(start: 100, end: 101)) != .acquired)
        first.close(file)
        #expect(try second.tryLock(other, LockRange(start: 100, end: 200)) == .acquired)
        disk.kill(20)
        #expect(disk.lockedRanges(of: "/data/a") == [])
    }
}

@Suite struct SimulatedDiskProcesses {
    @Test func anInodeNumberIsReusedOnceNoPowerCutRestoresIt() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let first = try bench.createDurably("a", [1])
        let number = try disk.status(first).identity.inode
        try disk.unlink("a", in: bench.directory)
        disk.close(first)
        // A power cut would bring the name back: the number is not free yet.
        #expect(disk.fileCount == 1)
        #expect(try disk.status(bench.create("b")).identity.inode != number)
        try disk.synchronizeDirectory(bench.directory)
        #expect(try disk.status(bench.create("c")).identity.inode == number)
    }

    @Test func processesTakeTurnsUnderALock() async throws {
        let disk = SimulatedDisk()
        disk.install([UInt8](repeating: 0, count: 2), at: "/data/counter")
        let range = LockRange(start: 1 << 62, end: 1 << 62 + 1)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for id in 1...4 {
                let process = disk.process(UInt32(id))
                group.addTask {
                    let bench = try DiskBench(process)
                    let file = try bench.open("counter")
                    for _ in 0..<100 {
                        while try process.tryLock(file, range) != .acquired { await Task.yield() }
                        let count = try bench.read(file, 0, 2)
                        let next = Int(count[0]) + Int(count[1]) * 256 + 1
                        try bench.write(file, 0, [UInt8(next % 256), UInt8(next / 256)])
                        try process.synchronize(file)
                        try process.unlock(file, range)
                    }
                    process.close(file)
                }
            }
            try await group.waitForAll()
        }
        #expect(disk.durableContents(of: "/data/counter") == [400 % 256, 400 / 256])
    }
}

@Suite struct SimulatedEnvironmentTests {
    @Test func clocksAndRandomNumbersAreSimulated() {
        let environment = SimulatedEnvironment(seed: 3, process: 42, name: "test", stepMicroseconds: 2, wallClock: 100)
        #expect(environment.wallClockMicroseconds() == 102)
        let before = environment.monotonicMicroseconds()
        let slept = Guarded<UInt64>(0)
        environment.setOnSleep { microseconds in slept.withLock { $0 += microseconds } }
        environment.sleep(microseconds: 50)
        #expect(environment.monotonicMicroseconds() == before + 52)
        environment.setWallClock(7)
        #expect(environment.wallClockMicroseconds() == 9)
        environment.setWallClock(Int64.max)
        #expect(environment.wallClockMicroseconds() == Int64.max)
        #expect(environment.processID() == 42 && environment.processName() == "test")
        #expect(slept.withLock { $0 } == 50)
        let other = SimulatedEnvironment(seed: 3)
        #expect((0..<5).map { _ in environment.random() } == (0..<5).map { _ in other.random() })
    }

    @Test func splitMixReturnsItsPublishedNumbers() {
        var generator = SeededRandom(1_234_567)
        #expect(generator.next() == 6_457_827_717_110_365_317)
        #expect(generator.next() == 3_203_168_211_198_807_973)
    }
}
