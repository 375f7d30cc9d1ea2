// What a new file must prove before it takes a store's name, and what is no leftover of a compaction.

import Annals
import SimulatedDisk
import Testing

@Suite struct WrittenStoreTests {
    private static let temporary = "/data/s.annals.compacting"

    @Test func eachDifferenceFromTheWrittenStoreIsRefused() throws {
        let machine = EngineMachine()
        let files = machine.machine.files(1)
        let engine = try Engine.create(
            EngineMachine.path, options: machine.options, files: files, environment: machine.machine.environment)
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        _ = try engine.insertNotes(1...20)
        let state = try engine.view()
        let place = try files.openPlace(EngineMachine.path)
        let written = WrittenStore(engine, state)
        try written.prove("s.annals", in: place, of: engine)
        let entity = try #require(written.totals.keys.first)
        let differences: [(StoreError.Code, (inout WrittenStore) -> Void)] = [
            (.busy, { $0.identity.inode += 1 }),
            (.damaged, { $0.headerChecksum ^= 1 }),
            (.damaged, { $0.end += 8 }),
            (.damaged, { $0.number += 1 }),
            (.damaged, { $0.tag ^= 1 }),
            (.damaged, { $0.totals[entity]?.live += 1 }),
            (.damaged, { $0.totals[entity]?.nextNumber += 1 }),
            (.damaged, { $0.totals[entity + 1000] = written.totals[entity] }),
        ]
        for (index, (expected, change)) in differences.enumerated() {
            var other = written
            change(&other)
            #expect(code { try other.prove("s.annals", in: place, of: engine) } == expected, "difference \(index)")
        }
        machine.machine.disk.installLink(from: EngineMachine.path, to: "/data/second")
        #expect(code { try written.prove("s.annals", in: place, of: engine) } == .busy)
        files.close(place.directory)
        try files.unlink("second", in: try files.openDirectory("/data"))
        try engine.close()
        try expectIntact(machine.machine.disk, EngineMachine.path)
    }

    private enum Change: CaseIterable { case otherFile, header, end }

    /// When the new file is complete and closed, its name is given to another file, or its bytes change.
    @Test(arguments: Change.allCases) private func aFileThatWasChangedIsNotPutInPlace(_ change: Change) throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let disk = machine.machine.disk
        let isChanged = Guarded(false)
        disk.setOnCall { (call) throws(StoreError) in
            guard call.process == 1, call.kind == .open, !isChanged.withLock({ $0 }),
                let bytes = disk.contents(of: Self.temporary), let last = bytes.lastIndex(where: { $0 != 0 })
            else { return }
            isChanged.withLock { $0 = true }
            switch change {
            case .otherFile:
                disk.install(bytes, at: "/data/other")
                let files = machine.machine.files(9)
                try files.rename("other", to: "s.annals.compacting", in: files.openDirectory("/data"))
            case .header: disk.corrupt(Self.temporary, at: 20, to: bytes[20] ^ 1)
            case .end: disk.corrupt(Self.temporary, at: last, to: bytes[last] ^ 1)
            }
        }
        let result = code { _ = try store.compact(.lowered) }
        disk.setOnCall(nil)
        #expect(isChanged.withLock { $0 })
        #expect(result == (change == .otherFile ? .busy : .damaged))
        #expect(store.current.log.header.generation == 0)
        try store.close()
        try expectIntact(machine.machine.disk, EngineMachine.path)
    }

    /// A file that compaction did not leave is nobody's to remove.
    @Test func aForeignFileOfTheTemporaryNameStays() throws {
        let other = EngineMachine()
        let otherStore = StoreHandle(try other.create())
        try otherStore.close()
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        try store.current.makeDurable(through: store.newest().view.end)
        let disk = machine.machine.disk
        let foreign: [[UInt8]] = [
            Array("Notes of a person".utf8), try #require(other.machine.disk.contents(of: EngineMachine.path)),
            // A copy of this store.
            try #require(disk.contents(of: EngineMachine.path)),
        ]
        for (number, bytes) in zip(100..., foreign) {
            disk.install(bytes, at: Self.temporary)
            #expect(code { _ = try store.compact(.lowered) } == .alreadyExists)
            // A writer that opens the store looks for leftovers, too.
            let writer = StoreHandle(try machine.open(2))
            _ = try writer.current.insertNotes(number...number)
            try writer.close()
            #expect(disk.contents(of: Self.temporary) == bytes)
        }
        // What compaction does leave.
        let files = machine.machine.files(9)
        try files.unlink("s.annals.compacting", in: files.openDirectory("/data"))
        disk.addFault(Fault(.death(afterBytes: 100), on: .rename, occurrence: 1, process: 3))
        let dying = StoreHandle(try machine.open(3))
        #expect(code { _ = try dying.compact(.lowered) } != nil)
        #expect(disk.names(in: "/data") == ["s.annals", "s.annals.compacting"])
        disk.removeAllFaults()
        _ = try store.compact(.lowered)
        #expect(disk.names(in: "/data") == ["s.annals"])
        try store.close()
        try expectIntact(machine.machine.disk, EngineMachine.path)
    }

    @Test func noStoreGetsTheNameOfAnUnfinishedFile() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let (files, environment) = (machine.machine.files(1), machine.machine.environment)
        for kind in TemporaryName.allCases {
            let path = "/data/" + kind.of("x.annals")
            #expect(code { _ = try Engine.create(path, files: files, environment: environment) } == .invalidArgument)
            let backup = code { _ = try store.backUp(to: path, newIdentity: true, .lowered) }
            #expect(backup == .invalidArgument)
        }
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
        try store.close()
    }

    @Test func temporaryNamesFitAndDiffer() {
        for kind in TemporaryName.allCases {
            for count in [1, 230, 243, 244, 245, 254, 255] {
                let names = ["a", "b"].map { kind.of(String(repeating: $0, count: count)) }
                #expect(names[0] != names[1])
                #expect(names.allSatisfy { $0.utf8.count <= 255 && $0.hasSuffix(kind.rawValue) })
            }
        }
        #expect(TemporaryName.compaction.of(String(repeating: "ä", count: 122)).utf8.count == 255)
    }
}
