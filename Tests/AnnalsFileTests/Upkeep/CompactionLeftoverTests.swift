// Files that killed compactions and backups leave, in every later state of the store: none is in the way of the next
// one.

import Annals
import SimulatedDisk
import Testing

@Suite struct CompactionLeftoverTests {
    private static let temporary = "s.annals.compacting"
    private static let copy = "/data/copy"

    private enum Afterwards: CaseIterable {
        case nothing, earlierBackup, laterBackup, backupOfABackup, otherStore
    }

    private func store() throws -> EngineMachine {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...200)
        try store.close()
        return machine
    }

    private func backUp(_ path: String = EngineMachine.path, to copy: String, _ machine: EngineMachine) throws {
        let engine = try Engine.open(
            path, access: .readOnly, options: machine.options, files: machine.machine.files(2),
            environment: machine.machine.environment)
        let store = StoreHandle(engine)
        _ = try store.backUp(to: copy, newIdentity: false, .lowered)
        try store.close()
    }

    /// Ends the process of a compaction. Returns whether it had ended before.
    private func killCompaction(_ kind: CallKind, _ occurrence: Int, _ machine: EngineMachine) throws -> Bool {
        let disk = machine.machine.disk
        let dying = StoreHandle(try machine.open(9))
        disk.addFault(Fault(.death(afterBytes: 100), on: kind, occurrence: occurrence, process: 9))
        let isDone = (try? dying.compact(.lowered)) != nil
        disk.removeAllFaults()
        disk.kill(9)
        return isDone
    }

    /// Whether the leftover has the hint of a complete file.
    private func isComplete(_ machine: EngineMachine) -> Bool {
        guard let bytes = machine.machine.disk.contents(of: "/data/" + Self.temporary) else { return false }
        return HintField.slots.contains { bytes[$0] != 0 }
    }

    private func rename(_ name: String, to other: String, _ machine: EngineMachine) throws {
        let files = machine.machine.files(3)
        try files.rename(name, to: other, in: files.openDirectory("/data"))
    }

    /// Does to the store what its users may do.
    private func change(_ afterwards: Afterwards, _ machine: EngineMachine) throws {
        switch afterwards {
        case .nothing: return
        case .earlierBackup: break
        case .laterBackup: try backUp(to: Self.copy, machine)
        case .backupOfABackup:
            try backUp(to: "/data/first", machine)
            try backUp("/data/first", to: Self.copy, machine)
            let files = machine.machine.files(3)
            try files.unlink("first", in: files.openDirectory("/data"))
        case .otherStore:
            let files = machine.machine.files(3)
            try files.unlink("s.annals", in: files.openDirectory("/data"))
            try machine.create(4).close()
            return
        }
        try rename("copy", to: "s.annals", machine)
    }

    @Test(arguments: Afterwards.allCases) private func aKilledCompactionDoesNotBlockALaterOne(
        _ afterwards: Afterwards
    ) throws {
        var leftovers = 0
        for kind in [CallKind.publish, .write, .allocate, .setSize, .synchronize, .rename] {
            var isDone = false
            for occurrence in 1...60 where !isDone {
                let machine = try store()
                let disk = machine.machine.disk
                if afterwards == .earlierBackup { try backUp(to: Self.copy, machine) }
                // The copy lacks these.
                let engine = try machine.open(5)
                _ = try engine.insertNotes(201...220)
                try engine.close()
                isDone = try killCompaction(kind, occurrence, machine)
                let isLeft = disk.names(in: "/data").contains(Self.temporary)
                if isLeft { leftovers += 1 }
                try change(afterwards, machine)
                let next = StoreHandle(try machine.open(6))
                let place: Comment = "\(kind) \(occurrence)"
                if afterwards == .otherStore, isLeft, isComplete(machine) {
                    // The whole of a store that was removed: a user may still need it.
                    #expect(code { _ = try next.compact(.lowered) } == .alreadyExists, place)
                    #expect(disk.names(in: "/data") == ["s.annals", Self.temporary], place)
                } else {
                    #expect(code { _ = try next.compact(.lowered) } == nil, place)
                    #expect(disk.names(in: "/data") == ["s.annals"], place)
                }
                try next.close()
                try expectIntact(disk)
            }
            #expect(isDone, "\(kind) happens more often than was tried")
        }
        #expect(leftovers > 10)
    }

    /// The first writer of the restored store removes the leftover.
    @Test func aWriterRemovesTheLeftoverBesideARestoredBackup() throws {
        let machine = try store()
        try backUp(to: Self.copy, machine)
        #expect(try !killCompaction(.rename, 1, machine))
        #expect(machine.machine.disk.names(in: "/data").contains(Self.temporary))
        try rename("copy", to: "s.annals", machine)
        let engine = try machine.open(5)
        _ = try engine.insertNotes(201...201)
        try engine.close()
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
        try expectIntact(machine.machine.disk)
    }

    /// A writer has written to a compacted store that a user has moved away. Its generation is the backup's next one,
    /// or a later one.
    @Test func aStoreThatWasMovedAsideStays() throws {
        for isClosed in [false, true] {
            let machine = try store()
            let disk = machine.machine.disk
            try backUp(to: Self.copy, machine)
            let compacting = StoreHandle(try machine.open(2))
            for _ in 1...(isClosed ? 2 : 3) { _ = try compacting.compact(.lowered) }
            try compacting.close()
            let engine = try machine.open(7)
            _ = try engine.commit(durability: .relaxed) {
                try $0.insert(entity: EngineNote.entity, EngineNote.row("written", 1))
            }
            if isClosed { try engine.close() } else { disk.kill(7) }
            try rename("s.annals", to: Self.temporary, machine)
            try rename("copy", to: "s.annals", machine)
            let aside = try #require(disk.contents(of: "/data/" + Self.temporary))
            let store = StoreHandle(try machine.open(3))
            let error = #expect(throws: StoreError.self) { try store.compact(.lowered) }
            #expect(error?.code == .alreadyExists)
            _ = try store.current.insertNotes(201...201)
            try store.close()
            #expect(disk.contents(of: "/data/" + Self.temporary) == aside)
            try expectIntact(disk)
        }
    }

    /// While it compacts another store gets the name: its file would be in that one's way.
    @Test func aCompactionOfAReplacedStoreRemovesItsFile() throws {
        let machine = try store()
        let disk = machine.machine.disk
        let store = StoreHandle(try machine.open(1))
        let isReplaced = Guarded(false)
        disk.setOnCall { (call) throws(StoreError) in
            guard call.process == 1, call.kind == .setSize, !isReplaced.withLock({ $0 }),
                disk.names(in: "/data").contains(Self.temporary)
            else { return }
            isReplaced.withLock { $0 = true }
            do { try change(.otherStore, machine) } catch { Issue.record(error) }
        }
        #expect(code { _ = try store.compact(.lowered) } == .storeReplaced)
        disk.setOnCall(nil)
        #expect(isReplaced.withLock { $0 })
        #expect(disk.names(in: "/data") == ["s.annals"])
        try expectIntact(disk)
    }

    /// The copy gets the mode of a store that is read-only for all users.
    @Test func aKilledBackupOfAStoreWithoutWritePermissionDoesNotBlockALaterOne() throws {
        for kind in [CallKind.write, .setSize, .synchronize, .setPermissions, .rename, .synchronizeDirectory] {
            var isDone = false
            for occurrence in 1...60 where !isDone {
                let machine = try store()
                let disk = machine.machine.disk
                let files = machine.machine.files(3)
                let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
                let status = try files.status(file)
                try files.setPermissions(file, mode: 0o440, owner: status.owner, group: status.group)
                disk.addFault(Fault(.death(afterBytes: 100), on: kind, occurrence: occurrence, process: 2))
                isDone = code { try backUp(to: Self.copy, machine) } == nil
                disk.removeAllFaults()
                disk.kill(2)
                let place: Comment = "\(kind) \(occurrence)"
                if !disk.names(in: "/data").contains("copy") {
                    #expect(code { try backUp(to: Self.copy, machine) } == nil, place)
                }
                #expect(disk.names(in: "/data") == ["copy", "s.annals"], place)
                let written = try files.open("copy", in: try files.openDirectory("/data"), access: .readOnly)
                #expect(try files.status(written).mode & 0o777 == 0o440, place)
                try expectIntact(disk, Self.copy)
            }
            #expect(isDone, "\(kind) happens more often than was tried")
        }
    }
}
