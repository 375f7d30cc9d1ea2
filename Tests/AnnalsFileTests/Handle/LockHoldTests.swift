// What is done while others wait for the writer lock: nothing that waits for the disk, but for what is little.

import Annals
import SimulatedDisk
import Testing

@Suite struct LockHoldTests {
    /// The calls of process 1, of the kinds that wait for the disk, while it holds the store's writer lock.
    private func waits(_ machine: EngineMachine, _ body: () throws -> Void) throws -> [CallKind] {
        let found = Guarded<[CallKind]>([])
        let files = machine.machine.files(7)
        let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        let range = WriterLock.range(processID: 7, timeMicroseconds: 1)
        machine.machine.disk.setOnCall { (call) throws(StoreError) in
            guard call.process == 1, call.kind == .synchronize || call.kind == .synchronizeDirectory else { return }
            if try files.tryLock(file, range) == .acquired {
                try files.unlock(file, range)
            } else {
                found.withLock { $0.append(call.kind) }
            }
        }
        try body()
        machine.machine.disk.setOnCall(nil)
        files.close(file)
        return found.withLock { $0 }
    }

    @Test func closingWaitsForTheDiskWithoutTheLock() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        _ = try engine.insertNotes(1...300)
        #expect(try waits(machine) { try engine.close() } == [])
        try expectIntact(machine.machine.disk, EngineMachine.path, isSealed: true)
    }

    /// Whoever goes on writing closes later, and seals then.
    @Test func closingBesideAWriterMakesDurableAndDoesNotSeal() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        _ = try engine.insertNotes(1...10)
        let other = try machine.open(2)
        let number = Guarded(10)
        machine.machine.disk.setDuringSynchronize { (_) in
            let next = number.withLock { number in
                number += 1
                return number
            }
            _ = try? other.commit(durability: .relaxed) { transaction in
                try transaction.insert(entity: EngineNote.entity, EngineNote.row("note \(next)", Int64(next)))
            }
        }
        #expect(try waits(machine) { try engine.close() } == [])
        machine.machine.disk.setDuringSynchronize(nil)
        try expectIntact(machine.machine.disk, EngineMachine.path, isSealed: false)
        try other.close()
        try expectIntact(machine.machine.disk, EngineMachine.path, isSealed: true)
    }

    /// One sync is of the last piece of the new file.
    @Test func compactionSynchronisesItsLastPieceAlone() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...300)
        #expect(try waits(machine) { _ = try store.compact(.lowered) } == [.synchronize])
        try expectIntact(machine.machine.disk, EngineMachine.path, isSealed: true)
    }

    @Test func aBackupNeverWaitsForTheDiskWithTheLock() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...300)
        #expect(try waits(machine) { _ = try store.backUp(to: "/data/copy", newIdentity: false, .lowered) } == [])
        try expectIntact(machine.machine.disk, "/data/copy")
    }
}
