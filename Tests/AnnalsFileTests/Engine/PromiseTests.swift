// The promises about the file, measured: what an insert costs, which bytes never change, how much opening reads.

import Annals
import SimulatedDisk
import Synchronization
import TestSupport
import Testing

@Suite struct PromiseTests {
    // MARK: Promise 2

    /// The rows of the benchmark: three texts, a date, a number, a flag; no ordered index.
    private static let definition = EntityDefinition(
        number: 1, name: "Row",
        attributes: [
            AttributeDefinition(number: 1, type: .string, name: "title"),
            AttributeDefinition(number: 2, type: .string, name: "url"),
            AttributeDefinition(number: 3, type: .string, name: "note"),
            AttributeDefinition(number: 4, type: .double, name: "created"),
            AttributeDefinition(number: 5, type: .int, name: "rank"),
            AttributeDefinition(number: 6, type: .bool, name: "flag"),
        ])

    private static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    private static func row(_ random: inout SeededRandom) -> [StoredValue] {
        [
            .string(text(Int.random(in: 16...32, using: &random))),
            .string(text(Int.random(in: 52...68, using: &random))),
            .string(text(Int.random(in: 88...152, using: &random))),
            .double(Double.random(in: 0...1, using: &random)), .int(Int64.random(in: 0...1_000_000, using: &random)),
            .bool(true),
        ]
    }

    @Test func anInsertCostsItsRowAndAtMost48Bytes() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("s.annals")
        let engine = try Engine.create(path, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([Self.definition]) }
        let start = engine.log.current.end
        var random = SeededRandom(1)
        let transactions = 100
        for _ in 0..<transactions {
            _ = try engine.commit(durability: .relaxed) { transaction in
                for _ in 0..<1000 { _ = try transaction.insert(entity: 1, Self.row(&random)) }
            }
        }
        try engine.writeCheckpoint()
        let grown = Double(engine.log.current.end - start)
        var packed = 0
        var rows = 0
        try engine.view().scan(entity: 1) { (_, row) in
            packed += row.rowBytes
            rows += 1
            return true
        }
        let overhead = (grown - Double(packed)) / Double(rows)
        print("a row of \(packed / rows) bytes costs \(overhead) bytes more, checkpoints included")
        #expect(rows == transactions * 1000)
        #expect(overhead <= 48)
        try engine.close()
        try requireIntact(path)
    }

    // MARK: Promise 3

    @Test(arguments: [11, 12]) func noByteBelowTheEndChangesButTheHints(_ seed: UInt64) throws {
        let run = OracleRun(seed: seed, options: seed == 11 ? .lowered : EngineOptions())
        run.checksBytes = true
        try run.run(operations: 2500)
        #expect(run.counts.transactions > 100)
    }

    // MARK: Opening

    @Test(arguments: [FileReading.mapped, .copied]) func openingAfterAKillReadsTheTailOnly(_ reading: FileReading)
        throws
    {
        let machine = EngineMachine()
        var options = EngineOptions()
        options.reading = reading
        options.log.synchronizesInBackground = false
        options.log.limits.mappingReserveBytes = 64 << 20
        let first = try Engine.create(
            EngineMachine.path, options: options, files: machine.machine.files(1),
            environment: machine.machine.environment)
        _ = try first.commit { try $0.changeSchema([Self.definition]) }
        var random = SeededRandom(2)
        for part in 0..<2 {
            for _ in 0..<(part == 0 ? 60 : 6) {
                _ = try first.commit(durability: .relaxed) { transaction in
                    for _ in 0..<1000 { _ = try transaction.insert(entity: 1, Self.row(&random)) }
                }
            }
            if part == 0 {
                try first.writeCheckpoint()
                try first.makeDurable(through: first.view().end)
            }
        }
        let (end, tail) = try (first.view().end, first.view().end - first.statistics().checkpointEnd)
        machine.machine.disk.kill(1)
        let counting = CountingFileSystem(machine.machine.files(2))
        let fileBytes = UInt64(machine.machine.disk.contents(of: EngineMachine.path)?.count ?? 0)
        let engine = try Engine.open(
            EngineMachine.path, options: options, files: counting, environment: machine.machine.environment)
        let read = UInt64(counting.bytesRead)
        print("opening a store of \(end) bytes after a kill reads \(read), tail \(tail), reserved \(fileBytes - end)")
        #expect(end > 15 << 20 && tail > 1 << 20 && tail < 3 << 20)
        // What is reserved above the end is looked through up to three times; reading by copies verifies the newest
        // nodes.
        #expect(read < tail + 3 * (fileBytes - end) + (reading == .copied ? 1500 << 10 : 300 << 10))
        #expect(try engine.view().count(entity: 1) == 66_000)
        // One row costs the block that it stands in.
        var found = false
        if let id = ObjectID(entityNumber: 1, number: 17) { found = try engine.view().withRow(id) { (_) in } }
        #expect(found && UInt64(counting.bytesRead) - read < 4 << 20)
        try engine.close()
        #expect(try Checker.check(EngineMachine.path, files: machine.machine.files()).isIntact)
    }
}

/// Another file system that counts what is read through it.
final class CountingFileSystem: FileSystem {
    private let base: any FileSystem
    private let bytes = Atomic<Int>(0)

    init(_ base: any FileSystem) { self.base = base }

    var bytesRead: Int { bytes.load(ordering: .relaxed) }

    func read(
        _ file: Descriptor, at offset: UInt64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StoreError) -> Int {
        let count = try base.read(file, at: offset, into: buffer)
        bytes.add(count, ordering: .relaxed)
        return count
    }

    func resolve(_ path: String) throws(StoreError) -> (directory: String, name: String) { try base.resolve(path) }
    func openDirectory(_ path: String) throws(StoreError) -> Descriptor { try base.openDirectory(path) }
    func duplicate(_ directory: Descriptor) throws(StoreError) -> Descriptor { try base.duplicate(directory) }
    func open(_ name: String, in directory: Descriptor, access: FileAccess) throws(StoreError) -> Descriptor {
        try base.open(name, in: directory, access: access)
    }
    func createUnnamed(in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        try base.createUnnamed(in: directory, mode: mode)
    }
    func publish(_ file: Descriptor, as name: String, in directory: Descriptor) throws(StoreError) {
        try base.publish(file, as: name, in: directory)
    }
    func createExclusively(_ name: String, in directory: Descriptor, mode: UInt32) throws(StoreError) -> Descriptor {
        try base.createExclusively(name, in: directory, mode: mode)
    }
    func rename(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try base.rename(name, to: newName, in: directory)
    }

    func renameExclusively(_ name: String, to newName: String, in directory: Descriptor) throws(StoreError) {
        try base.renameExclusively(name, to: newName, in: directory)
    }
    func unlink(_ name: String, in directory: Descriptor) throws(StoreError) { try base.unlink(name, in: directory) }
    func close(_ file: Descriptor) { base.close(file) }
    func write(_ file: Descriptor, at offset: UInt64, from bytes: UnsafeRawBufferPointer) throws(StoreError) -> Int {
        try base.write(file, at: offset, from: bytes)
    }
    func allocate(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try base.allocate(file, offset: offset, count: count)
    }
    func setSize(_ file: Descriptor, to size: UInt64) throws(StoreError) { try base.setSize(file, to: size) }
    func size(_ file: Descriptor) throws(StoreError) -> UInt64 { try base.size(file) }
    func content(_ file: Descriptor, from offset: UInt64) throws(StoreError) -> UInt64? {
        try base.content(file, from: offset)
    }
    func synchronize(_ file: Descriptor) throws(StoreError) { try base.synchronize(file) }
    func startWriting(_ file: Descriptor, offset: UInt64, count: UInt64) {
        base.startWriting(file, offset: offset, count: count)
    }
    func finishWriting(_ file: Descriptor, offset: UInt64, count: UInt64) throws(StoreError) {
        try base.finishWriting(file, offset: offset, count: count)
    }
    func synchronizeDirectory(_ directory: Descriptor) throws(StoreError) { try base.synchronizeDirectory(directory) }
    func status(_ file: Descriptor) throws(StoreError) -> FileStatus { try base.status(file) }
    func fileSystemType(_ file: Descriptor) throws(StoreError) -> UInt32 { try base.fileSystemType(file) }
    func setPermissions(_ file: Descriptor, mode: UInt32, owner: UInt32, group: UInt32) throws(StoreError) {
        try base.setPermissions(file, mode: mode, owner: owner, group: group)
    }
    func identity(of name: String, in directory: Descriptor) throws(StoreError) -> FileIdentity {
        try base.identity(of: name, in: directory)
    }
    func tryLock(_ file: Descriptor, _ range: LockRange) throws(StoreError) -> LockAttempt {
        try base.tryLock(file, range)
    }
    func unlock(_ file: Descriptor, _ range: LockRange) throws(StoreError) { try base.unlock(file, range) }
    func map(_ file: Descriptor, reservedBytes: Int) -> Mapping? { base.map(file, reservedBytes: reservedBytes) }
    func unmap(_ mapping: Mapping) { base.unmap(mapping) }
}
