// What goes wrong on the simulated disk goes wrong as it was told: faults, deaths, failing synchronizes.

internal import Annals
internal import Glibc
internal import SimulatedDisk
internal import Testing

@Suite struct SimulatedDiskFaults {
    @Test func aFailedCloseStillCloses() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.create("a")
        disk.addFault(Fault(.failure(EIO), on: .close))
        disk.close(file)
        #expect(disk.openDescriptorCount() == 1)
    }

    @Test func rulesHitTheCallsTheyName() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.create("a")
        disk.addFault(Fault(.failure(ENOSPC), on: .write, occurrence: 2))
        disk.addFault(Fault(.failure(EIO), on: .read, occurrence: 2, isPermanent: true))
        let codes = (0..<3).map { _ in code { try bench.write(file, 0, [1, 2, 3]) } }
        #expect(codes == [nil, .noSpace, nil])
        let reads = (0..<3).map { _ in code { _ = try bench.read(file, 0, 1) } }
        #expect(reads == [nil, .inputOutput, .inputOutput])
        disk.removeAllFaults()
        disk.addFault(Fault(.failure(EIO), on: nil, process: 9))
        #expect(try bench.read(file, 0, 1) == [1])
        #expect(code { _ = try DiskBench(disk.process(9)) } == .inputOutput)
        #expect(disk.callCount(of: .write) == 3 && disk.callCount(of: .read) == 4)
    }

    @Test func shortWritesAndReadsReturnTheirCounts() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.create("a")
        disk.addShortWrite(occurrence: 1, bytes: 5, thenError: EDQUOT)
        disk.addFault(Fault(.short(3), on: .read))
        #expect(try bench.write(file, 0, diskPattern(20)) == 5)
        #expect(code { try bench.write(file, 5, diskPattern(15)) } == .noSpace)
        #expect(disk.contents(of: "/data/a") == diskPattern(5))
        #expect(try bench.read(file, 0, 5) == Array(diskPattern(3)))
    }

    @Test(arguments: [0, 8, 4096, 9000])
    func deathInAWriteLeavesAPrefix(count: Int) throws {
        let disk = SimulatedDisk()
        let process = disk.process(5)
        let bench = try DiskBench(process)
        let file = try bench.create("a")
        _ = try process.tryLock(file, LockRange(start: 0, end: 1))
        disk.addFault(Fault(.death(afterBytes: count), on: .write, process: 5))
        let bytes = diskPattern(9000)
        #expect { try bench.write(file, 0, bytes) } throws: { $0 as? StoreError == .simulatedProcessDeath }
        #expect { try process.synchronize(file) } throws: { $0 as? StoreError == .simulatedProcessDeath }
        #expect(process.map(file, reservedBytes: 4096) == nil)
        #expect(disk.contents(of: "/data/a") == Array(bytes[..<count]))
        #expect(disk.openDescriptorCount(of: 5) == 0)
        let next = try DiskBench(disk.process(5))
        #expect(try next.read(try next.open("a"), 0, 10000) == Array(bytes[..<count]))
    }

    @Test func hookSeesEveryCallAndMayThrow() throws {
        let disk = SimulatedDisk()
        let seen = Guarded<[CallKind]>([])
        disk.setOnCall { call throws(StoreError) in
            seen.withLock { $0.append(call.kind) }
            if call.kind == .setSize { throw StoreError(.busy, "Not now.") }
        }
        let bench = try DiskBench(disk)
        let file = try bench.create("a")
        #expect(code { try disk.setSize(file, to: 1) } == .busy)
        disk.close(file)
        #expect(seen.withLock { $0 } == [.openDirectory, .createExclusively, .setSize, .close])
    }

    @Test func aRebootKeepsCachedBytesAndAPowerCutLosesThem() throws {
        for isCut in [false, true] {
            let disk = SimulatedDisk()
            let bench = try DiskBench(disk)
            let file = try bench.createDurably("a", [1])
            try bench.write(file, 0, [2])
            _ = try bench.create("b")
            if isCut { disk.cutPower() } else { disk.reboot() }
            #expect(disk.contents(of: "/data/a") == (isCut ? [1] : [2]))
            #expect(disk.names(in: "/data") == (isCut ? ["a"] : ["a", "b"]))
            #expect(code { _ = try disk.size(file) } == .systemCall)
            #expect(try DiskBench(disk).open("a", .readOnly) != file)
        }
    }
}

@Suite struct SimulatedDiskSynchronize {
    @Test func onlySynchronizedChangesAreDurable() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.create("a")
        try bench.write(file, 0, diskPattern(700))
        try disk.synchronize(file)
        try bench.write(file, 100, [0])
        #expect(disk.durableContents(of: "/data/a") == diskPattern(700))
        #expect(disk.names(in: "/data", durable: true) == [])
        try disk.synchronizeDirectory(bench.directory)
        #expect(disk.names(in: "/data", durable: true) == ["a"])
        try disk.setSize(file, to: 50)
        try disk.setSize(file, to: 60)
        try disk.synchronize(file)
        #expect(disk.durableContents(of: "/data/a") == Array(diskPattern(50)) + [UInt8](repeating: 0, count: 10))
    }

    @Test func writesDuringASynchronizeAreNotCovered() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.createDurably("a", [1])
        try bench.write(file, 1, [2])
        disk.setDuringSynchronize { _ in
            _ = try? bench.write(file, 2, [3])
            _ = try? bench.create("b")
        }
        try disk.synchronize(file)
        disk.setDuringSynchronize(nil)
        #expect(disk.durableContents(of: "/data/a") == [1, 2])
        #expect(disk.contents(of: "/data/a") == [1, 2, 3])
        try disk.synchronize(file)
        #expect(disk.durableContents(of: "/data/a") == [1, 2, 3])
    }

    struct Mode: Sendable, CustomTestStringConvertible {
        var outcome: SynchronizeOutcome
        var isReported: Bool
        /// Of the cache after the call, of what is durable after it, and of what is durable after an honest one.
        var cached: [UInt8]
        var durable: [UInt8]
        var durableLater: [UInt8]
        var testDescription: String { "\(outcome)" }
    }

    @Test(arguments: [
        Mode(outcome: .honest, isReported: false, cached: [1, 2], durable: [1, 2], durableLater: [1, 2]),
        Mode(outcome: .cleanAndLost, isReported: true, cached: [1, 2], durable: [1], durableLater: [1]),
        Mode(outcome: .cacheReverted, isReported: true, cached: [1], durable: [1], durableLater: [1]),
        Mode(outcome: .lie, isReported: false, cached: [1, 2], durable: [1], durableLater: [1, 2]),
        Mode(outcome: .error(EIO), isReported: true, cached: [1, 2], durable: [1], durableLater: [1, 2]),
    ])
    func everyOutcomeOfASynchronizeHasItsEffect(_ mode: Mode) throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.createDurably("a", [1])
        let mapping = try #require(disk.map(file, reservedBytes: 4096))
        defer { disk.unmap(mapping) }
        try bench.write(file, 1, [2])
        disk.addFault(Fault(.synchronize(mode.outcome), on: .synchronize))
        #expect((code { try disk.synchronize(file) } == .inputOutput) == mode.isReported)
        #expect(disk.contents(of: "/data/a") == mode.cached)
        #expect(mapping.bytes[1] == (mode.cached.count > 1 ? 2 : 0))
        #expect(disk.durableContents(of: "/data/a") == mode.durable)
        #expect(code { try disk.synchronize(file) } == nil)
        #expect(disk.durableContents(of: "/data/a") == mode.durableLater)
    }

    @Test func eachOpenDescriptorGetsAnErrorOnce() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let writer = try bench.createDurably("a", [1])
        let bystander = try bench.open("a", .readOnly)
        try bench.write(writer, 1, [2])
        disk.failWriteBack(of: "/data/a")
        // Nobody was told yet: who opens now is told too.
        let early = try bench.open("a")
        #expect(code { try disk.synchronize(writer) } == .inputOutput)
        let late = try bench.open("a")
        let codes = [writer, bystander, early, late, bystander, early].map { file in
            code { try disk.synchronize(file) }
        }
        #expect(codes == [nil, .inputOutput, .inputOutput, nil, nil, nil])
        // Others' honest synchronizes did not bring the bytes back; writing them again does.
        #expect(disk.durableContents(of: "/data/a") == [1])
        try bench.write(late, 1, [2])
        try disk.synchronize(late)
        #expect(disk.durableContents(of: "/data/a") == [1, 2])
    }

    @Test func writingAfterLostBytesLeavesAHole() throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        let file = try bench.createDurably("a", diskPattern(512))
        try bench.write(file, 512, diskPattern(512, 5))
        disk.addFault(Fault(.synchronize(.cleanAndLost), on: .synchronize))
        #expect(throws: StoreError.self) { try disk.synchronize(file) }
        try bench.write(file, 1024, diskPattern(512, 9))
        try disk.synchronize(file)
        let hole = [UInt8](repeating: 0, count: 512)
        #expect(disk.durableContents(of: "/data/a") == diskPattern(512) + hole + diskPattern(512, 9))
        #expect(disk.contents(of: "/data/a") == diskPattern(512) + diskPattern(512, 5) + diskPattern(512, 9))
    }

    @Test(arguments: [SynchronizeOutcome.cleanAndLost, .cacheReverted, .lie, .error(EIO)])
    func everyOutcomeOfADirectorySynchronizeHasItsEffect(_ outcome: SynchronizeOutcome) throws {
        let disk = SimulatedDisk()
        let bench = try DiskBench(disk)
        _ = try bench.create("a")
        disk.addFault(Fault(.synchronize(outcome), on: .synchronizeDirectory))
        let thrown = code { try disk.synchronizeDirectory(bench.directory) }
        #expect((thrown == nil) == (outcome == .lie))
        #expect(disk.names(in: "/data") == (outcome == .cacheReverted ? [] : ["a"]))
        try disk.synchronizeDirectory(bench.directory)
        let returns = outcome == .lie || outcome == .error(EIO)
        #expect(disk.names(in: "/data", durable: true) == (returns ? ["a"] : []))
    }
}
