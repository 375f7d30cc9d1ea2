// A small store stays small when it is compacted, and no state has two checkpoints.

import Annals
import SimulatedDisk
import Testing

@Suite struct SmallStoreTests {
    private static var ordinaryOptions: EngineOptions {
        var options = EngineOptions()
        options.log.synchronizesInBackground = false
        return options
    }

    /// With many indexes: a checkpoint of them takes a page each, and is read no faster than so few rows.
    @Test func aSmallStoreStaysSmall() throws {
        let attributes = (1...11).map { number in
            AttributeDefinition(
                number: UInt16(number), type: .int, flags: [.indexed, .optional],
                name: "a\(number)")
        }
        let machine = EngineMachine(options: Self.ordinaryOptions)
        let store = StoreHandle(
            try machine.create(1, EntityDefinition(number: 1, name: "Wide", attributes: attributes)))
        for number in 1...20 {
            _ = try store.commit { transaction in
                try transaction.insert(entity: 1, (0..<11).map { StoredValue.int(Int64(number * $0)) })
            }
        }
        let before = try store.newest().view.end
        let copy = try store.backUp(to: "/data/copy", newIdentity: false)
        let result = try store.compact()
        #expect(before < 10_000 && copy.bytes < 10_000 && result.bytesAfter < 10_000, "\(before) \(copy) \(result)")
        for path in [EngineMachine.path, "/data/copy"] { try expectIntact(machine.machine.disk, path) }
        let id = IndexID(entity: 1, attributes: [11], isUnique: false)
        var found = 0
        try store.newest().view.range(id) { (_, _) in
            found += 1
            return true
        }
        #expect(found == 20)
        try store.close()
        try expectIntact(machine.machine.disk, EngineMachine.path)
    }

    /// An index that came when there were rows stands in a checkpoint only, however small the store is.
    @Test func anIndexOfRowsBeforeItIsKept() throws {
        let machine = EngineMachine(options: Self.ordinaryOptions)
        let store = StoreHandle(try machine.create(1, EngineNote.withoutIndexes))
        _ = try store.current.insertNotes(1...20)
        _ = try store.commit { try $0.changeSchema([EngineNote.definition]) }
        _ = try store.compact()
        try store.close()
        try expectIntact(machine.machine.disk, EngineMachine.path)
        let engine = try machine.open()
        #expect(try engine.view().byRank().count == 20)
        try machine.closeAndCheck(engine)
    }

    @Test func noStateHasTwoCheckpoints() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...300)
        _ = try store.compact(.lowered)
        let end = try store.newest().view.end
        try store.current.writeCheckpoint()
        #expect(try store.newest().view.end == end)
        try store.close()
        #expect(try check(machine.machine.disk).counts.bytes(of: .checkpoint) < 4096)
        try expectIntact(machine.machine.disk, EngineMachine.path)
    }
}
