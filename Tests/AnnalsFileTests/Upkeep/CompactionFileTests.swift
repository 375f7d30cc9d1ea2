// Several processes that compact, write and read at once: only who compacts the store as it is now removes the
// temporary file, and who goes over to a new file finds the newest.

import Annals
import SimulatedDisk
import Testing

@Suite struct CompactionFileTests {
    private static let temporary = "s.annals.compacting"

    /// Another process begins to compact the store as it stands now, and gets no further.
    private func beginCompaction(_ process: UInt32, _ machine: EngineMachine) throws {
        let files = machine.machine.files(process)
        let directory = try files.openDirectory("/data")
        let lock = try files.open("s.annals", in: directory, access: .readWrite)
        #expect(try files.tryLock(lock, WriterLock.compaction(processID: process)) == .acquired)
        files.close(try files.createExclusively(Self.temporary, in: directory, mode: 0o600))
    }

    private func temporaryIsThere(_ machine: EngineMachine) -> Bool {
        machine.machine.disk.names(in: "/data").contains(Self.temporary)
    }

    @Test func aWriterOfAReplacedFileLeavesTheNextCompactionAlone() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        // For whom no time passes: only the first relaxed commit looks at the name by itself.
        let environment = SimulatedEnvironment(process: 2, stepMicroseconds: 0)
        let other = StoreHandle(
            try Engine.open(
                EngineMachine.path, options: machine.options, files: machine.machine.files(2), environment: environment)
        )
        let row = EngineNote.row("other", 1)
        _ = try other.write(durability: .relaxed) { try $0.insert(entity: EngineNote.entity, row) }
        _ = try store.compact(.lowered)
        try beginCompaction(3, machine)
        _ = try other.write(durability: .relaxed) {
            try $0.insert(entity: EngineNote.entity, EngineNote.row("other 2", 2))
        }
        #expect(other.current.log.header.generation == 1)
        #expect(temporaryIsThere(machine))
    }

    @Test func aCompactorThatComesLateLeavesTheNextCompactionAlone() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let late = StoreHandle(try machine.open(2))
        let hasCome = Once()
        // It has opened the file by its name and not locked it yet, when the file is replaced and the next compaction
        // begins.
        machine.machine.disk.setOnCall { [self] (call) throws(StoreError) in
            guard call.process == 2, call.kind == .tryLock, hasCome.isFirst() else { return }
            do {
                _ = try store.compact(.lowered)
                try beginCompaction(3, machine)
            } catch { Issue.record(error) }
        }
        let error = #expect(throws: StoreError.self) { try late.compact(.lowered) }
        #expect(error?.code == .busy)
        #expect(temporaryIsThere(machine))
        #expect(late.current.log.header.generation == 1)
    }

    @Test func aCompactorThatHasReplacedTheFileLeavesTheNextCompactionAlone() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let (hasRenamed, hasCome) = (Once(), Once())
        // The new file has the name, and its compactor has yet to end.
        machine.machine.disk.setOnCall { [self] (call) throws(StoreError) in
            if call.process == 1, call.kind == .rename { hasRenamed.note() }
            guard call.process == 1, call.kind == .synchronizeDirectory, hasRenamed.isNoted, hasCome.isFirst() else {
                return
            }
            do { try beginCompaction(3, machine) } catch { Issue.record(error) }
        }
        _ = try store.compact(.lowered)
        machine.machine.disk.setOnCall(nil)
        #expect(store.current.log.header.generation == 1)
        #expect(temporaryIsThere(machine))
    }

    @Test func aHandleSkipsAFileThatIsReplacedWhileItOpensIt() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let reader = StoreHandle(try machine.open(2, access: .readOnly))
        _ = try store.compact(.lowered)
        let hasCome = Once()
        // It has opened the new file, and not looked at it yet.
        machine.machine.disk.setOnCall { (call) throws(StoreError) in
            guard call.process == 2, call.kind == .status, hasCome.isFirst() else { return }
            do { _ = try store.compact(.lowered) } catch { Issue.record(error) }
        }
        let (engine, view) = try reader.newest()
        #expect(hasCome.isNoted)
        #expect(engine.log.header.generation == 2)
        #expect(try view.count(entity: EngineNote.entity) == 20)
    }

    @Test func aWriterThatLooksForALeftoverIsNotTakenForACompactor() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let files = machine.machine.files(3)
        let lock = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        #expect(try files.tryLock(lock, WriterLock.compaction(processID: 3)) == .acquired)
        machine.machine.environment.setOnSleep { (_) in files.close(lock) }
        _ = try store.compact(.lowered)
        #expect(store.current.log.header.generation == 1)
    }

    @Test func aLockThatNoCompactorTakesIsReportedAsAnotherPrograms() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let files = machine.machine.files(3)
        let own = WriterLock.compaction(processID: 3)
        for range in [own, LockRange(start: own.start, end: UInt64(Int64.max)), LockRange(start: 0, end: own.end)] {
            let lock = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
            #expect(try files.tryLock(lock, range) == .acquired)
            let error = #expect(throws: StoreError.self) { try store.compact(.lowered) }
            #expect(error?.code == .busy)
            let start = range == own ? "Process 3 is compacting" : "Another program has locked"
            #expect(error?.message.hasPrefix(start) == true, "\(error?.message ?? "")")
            files.close(lock)
        }
        _ = try store.compact(.lowered)
        try store.close()
        try expectIntact(machine.machine.disk, EngineMachine.path)
    }

    @Test func theEngineOfAReplacedFileCanStillBeRead() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...250)
        let reader = try machine.open(2, access: .readOnly)
        let last = try reader.view().number
        _ = try store.compact(.lowered)
        _ = try store.current.insertNotes(251...251)
        #expect(throws: StoreError.self) { try reader.view() }
        #expect(try reader.viewOfThisFile().number == last)
        #expect(try reader.view(asOf: last - 1).count(entity: EngineNote.entity) == 200)
        #expect(try reader.statistics().transactions == last)
        try reader.close()
    }

    @Test func aCleanedTransactionIsNotRevertedNorAnotherInItsPlace() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...500)
        let last = try store.newest().view.number
        for isCompacted in [false, true] {
            if isCompacted { _ = try store.compact(.lowered) }
            _ = try store.current.deleteHistory(before: last - 1)
            let (engine, view) = try store.newest()
            #expect(try engine.revertPlan(of: last - 2, in: view) == nil)
            #expect(try engine.revertPlan(of: last - 1, in: view) != nil)
        }
    }

    /// Sound: the simulated machine has one thread here.
    private final class Once: @unchecked Sendable {
        private(set) var isNoted = false
        func note() { isNoted = true }
        func isFirst() -> Bool {
            defer { isNoted = true }
            return !isNoted
        }
    }
}
