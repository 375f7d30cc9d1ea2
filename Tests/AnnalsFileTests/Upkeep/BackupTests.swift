// Backups: what the store was at one moment, whatever goes on meanwhile, or nothing.

import Annals
import Glibc
import SimulatedDisk
import Testing

@Suite struct BackupTests {
    private static let copy = "/data/copy.annals"

    private func filled() throws -> (machine: EngineMachine, store: StoreHandle, ids: [ObjectID]) {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...400)
        for id in ids.prefix(100) { _ = try store.commit { try $0.update(id, [(EngineNote.rank, .int(5000))]) } }
        for id in ids.suffix(20) { _ = try store.commit(author: "other") { try $0.delete(id) } }
        return (machine, store, ids)
    }

    private func open(_ machine: EngineMachine, _ path: String) throws -> Engine {
        try Engine.open(
            path, options: machine.options, files: machine.machine.files(8), environment: machine.machine.environment)
    }

    private func transactions(_ engine: Engine, through number: UInt64) throws -> [String] {
        var lines: [String] = []
        try engine.tracked(engine.view(asOf: number)).forEachTransaction(after: engine.tracking.horizon) {
            (transaction) in
            lines.append("\(transaction.number) \(transaction.tag) \(transaction.time) \(transaction.author ?? "")")
            return true
        }
        return lines
    }

    @Test func aBackupMayBeOnANetworkFileSystem() throws {
        let (machine, store, _) = try filled()
        machine.machine.disk.fileSystemType = 0x6969
        _ = try store.backUp(to: Self.copy, newIdentity: false, .lowered)
        try expectIntact(machine, Self.copy)
        machine.machine.disk.fileSystemType = 0xEF53
        try store.close()
    }

    @Test(arguments: [false, true]) func aBackupHasTheStateOfItsBeginning(newIdentity: Bool) throws {
        let (machine, store, ids) = try filled()
        let last = try store.newest().view
        _ = try store.current.register("reader", .reads)
        try store.current.deleteHistory(before: 30)
        try store.current.setRetention(RetentionLimits(microseconds: .max, bytes: 77))
        let writer = StoreHandle(try machine.open(2))
        var options = CompactionOptions.lowered
        // Others go on, and compact, and the reader reads on.
        let step = Step()
        options.progress = { _ in
            step.count += 1
            let body: (Draft) throws -> Void = { pending in
                try pending.update(ids[step.count % 300], [(EngineNote.rank, .int(Int64(step.count)))])
            }
            _ = try? writer.commit(body)
            if step.count == 2 { _ = try? writer.compact(.lowered) }
            let end = try? writer.newest().view
            if let end, let record = try? writer.newest().engine.tracking.consumer("reader") {
                let place = TransactionPlace(number: end.number, tag: end.tag)
                try? writer.newest().engine.advance([ConsumerAdvance(name: "reader", from: record.place, to: place)])
            }
            return true
        }
        let result = try store.backUp(to: Self.copy, newIdentity: newIdentity, options)
        #expect(step.count > 3)
        #expect(result.number == last.number && result.tag == last.tag)
        let copy = try open(machine, Self.copy)
        let (found, expected) = (try copy.view(), try store.newest().engine.view(asOf: last.number))
        #expect(found.number == last.number)
        #expect(try found.titles() == expected.titles())
        for id in ids { #expect(try found.rank(id) == expected.rank(id)) }
        #expect(
            try transactions(copy, through: last.number) == transactions(store.newest().engine, through: last.number))
        #expect(copy.tracking.horizon == 29 && copy.tracking.retention.bytes == 77)
        #expect((copy.log.header.storeID == store.current.log.header.storeID) == !newIdentity)
        if newIdentity {
            #expect(copy.tracking.consumers.isEmpty)
        } else {
            // It has seen everything that the copy has.
            #expect(copy.tracking.consumer("reader")?.place == TransactionPlace(number: last.number, tag: last.tag))
        }
        _ = try copy.insertNotes(5000...5001)
        #expect(machine.machine.disk.names(in: "/data").sorted() == ["copy.annals", "s.annals"])
        try copy.close()
        try writer.close()
        try store.close()
        try expectIntact(machine, EngineMachine.path, Self.copy)
    }

    /// Sound: the closure that changes it runs on the thread that looks at it.
    private final class Step: @unchecked Sendable { var count = 0 }

    /// The permissions of a file on the machine's disk.
    private func status(_ machine: EngineMachine, _ name: String) throws -> FileStatus {
        let files = machine.machine.files(9)
        let file = try files.open(name, in: try files.openDirectory("/data"), access: .readOnly)
        defer { files.close(file) }
        return try files.status(file)
    }

    @Test func aBackupKeepsModeOwnerAndGroup() throws {
        let (machine, store, _) = try filled()
        let files = machine.machine.files(9)
        let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        try files.setPermissions(file, mode: 0o464, owner: 77, group: 88)
        _ = try store.backUp(to: Self.copy, newIdentity: false, .lowered)
        let copy = try status(machine, "copy.annals")
        #expect(copy.mode == 0o464 && copy.owner == 77 && copy.group == 88, "\(copy)")
        // Not everybody may give a file away: then its group gets no rights that were for another one.
        machine.machine.disk.addFault(Fault(.failure(EPERM), on: .setPermissions, isPermanent: true, process: 1))
        _ = try store.backUp(to: "/data/other.annals", newIdentity: false, .lowered)
        let other = try status(machine, "other.annals")
        #expect(other.mode == 0o604 && other.owner != 77, "\(other)")
        machine.machine.disk.removeAllFaults()
        try expectIntact(machine, Self.copy, "/data/other.annals")
    }

    @Test func aFailedBackupReplacesNothingAndLeavesNothing() throws {
        let (machine, store, _) = try filled()
        func expect(_ code: StoreError.Code, _ body: () throws -> Void) {
            let error = #expect(throws: StoreError.self) { try body() }
            #expect(error?.code == code, "\(error?.description ?? "")")
        }
        expect(.alreadyExists) { _ = try store.backUp(to: EngineMachine.path, newIdentity: false) }
        expect(.notFound) { _ = try store.backUp(to: "/nowhere/copy.annals", newIdentity: false) }
        var options = CompactionOptions.lowered
        options.progress = { _ in false }
        expect(.cancelled) { _ = try store.backUp(to: Self.copy, newIdentity: false, options) }
        // Two at once to one name.
        let other = StoreHandle(try machine.open(2))
        let met = Step()
        options.progress = { _ in
            do {
                _ = try other.backUp(to: Self.copy, newIdentity: false, .lowered)
            } catch let error as StoreError where error.code == .busy { met.count += 1 } catch {}
            return true
        }
        _ = try store.backUp(to: Self.copy, newIdentity: false, options)
        #expect(met.count > 0)
        #expect(machine.machine.disk.names(in: "/data").sorted() == ["copy.annals", "s.annals"])
        // A full disk.
        machine.machine.disk.addFault(Fault(.failure(ENOSPC), on: .write, occurrence: 3, process: 2))
        expect(.noSpace) { _ = try other.backUp(to: "/data/third.annals", newIdentity: false, .lowered) }
        #expect(machine.machine.disk.names(in: "/data").sorted() == ["copy.annals", "s.annals"])
        for store in [store, other] { try store.close() }
        try expectIntact(machine, EngineMachine.path, Self.copy)
    }

    @Test func aKilledBackupLeavesACompleteFileOrNone() throws {
        let (machine, store, _) = try filled()
        let number = try store.newest().view.number
        var process: UInt32 = 10
        var isDone = false
        for kind in [CallKind.write, .setSize, .synchronize, .rename, .synchronizeDirectory, .createExclusively] {
            for occurrence in 1...60 {
                process += 1
                let generations = StoreHandle(try machine.open(process))
                machine.machine.disk.addFault(
                    Fault(.death(afterBytes: 100), on: kind, occurrence: occurrence, process: process))
                isDone = (try? generations.backUp(to: Self.copy, newIdentity: false, .lowered)) != nil
                machine.machine.disk.removeAllFaults()
                machine.machine.disk.kill(process)
                let names = machine.machine.disk.names(in: "/data")
                if names.contains("copy.annals") {
                    let copy = try open(machine, Self.copy)
                    #expect(try copy.view().number == number)
                    try copy.close()
                    try expectIntact(machine, Self.copy)
                    let files = machine.machine.files(9)
                    try files.unlink("copy.annals", in: try files.openDirectory("/data"))
                }
                if isDone { break }
            }
            #expect(isDone, "\(kind) happens more often than was tried")
        }
        // What the dead have left is taken over by the next one.
        _ = try store.backUp(to: Self.copy, newIdentity: false, .lowered)
        #expect(machine.machine.disk.names(in: "/data").sorted() == ["copy.annals", "s.annals"])
        try store.close()
        try expectIntact(machine, EngineMachine.path, Self.copy)
    }

    /// A copy that was put back is the store as long as nobody knows more than it has.
    @Test func aBackupInTheStoresPlaceIsNotTakenForTheStore() throws {
        let (machine, store, ids) = try filled()
        _ = try store.backUp(to: Self.copy, newIdentity: false, .lowered)
        _ = try store.commit { try $0.update(ids[3], [(EngineNote.rank, .int(1))]) }
        let files = machine.machine.files(9)
        let directory = try files.openDirectory("/data")
        try files.rename("copy.annals", to: "s.annals", in: directory)
        let error = #expect(throws: StoreError.self) { try store.commit { try $0.delete(ids[4]) } }
        #expect(error?.code == .storeReplaced)
        try? store.close()
        try expectIntact(machine, EngineMachine.path)
    }
}
