// Checkpoints that are written part by part, each after a commit.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct CheckpointPartsTests {
    private static let slice = 16 << 10

    /// Many more nodes than a part takes: objects far apart, and keys in no order, in whole leaves. `FlatCostTests` has
    /// parts with deltas of ordered indexes.
    private func machine() -> EngineMachine {
        var machine = EngineMachine()
        machine.options.deltas.ordered.mostEdits = 0
        machine.options.dirtyNodeBytes = 160 << 10
        machine.options.undividedCheckpointBytes = 64 << 10
        machine.options.indexSliceBytes = Self.slice
        machine.options.checkpointPartBytes = Self.slice
        machine.options.checkpointTailBytes = 1 << 30
        return machine
    }

    private func store(_ machine: EngineMachine) throws -> (engine: Engine, ids: [ObjectID]) {
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...6_000)
        try engine.writeCheckpoint()
        return (engine, ids)
    }

    private func update(_ engine: Engine, _ id: ObjectID, _ rank: Int64) throws {
        _ = try engine.commit(durability: .relaxed) { try $0.update(id, [(EngineNote.rank, .int(rank))]) }
    }

    private func sum(_ view: View) throws -> Int64 {
        var sum: Int64 = 0
        var place: Int64 = 1
        try view.scan(entity: EngineNote.entity) { (_, row) throws(StoreError) in
            sum = sum &* 31 &+ (row.int(at: EngineNote.rank) ?? -1) &* place
            place += 1
            return true
        }
        return sum
    }

    /// No commit writes much more than a part, the checkpoint is complete in the end, and everything reads as if there
    /// had been none: here, in a snapshot from the middle, in another process, and after a death.
    @Test func aLargeCheckpointIsWrittenInPartsAfterCommits() throws {
        let machine = machine()
        let (engine, ids) = try store(machine)
        let other = try machine.open(2)
        var random = SeededRandom(7)
        var checkpoints = 0
        var partsInARow = 0
        var mostParts = 0
        var end = try engine.view().end
        var checkpointEnd = try engine.statistics().checkpointEnd
        var earlier: (view: View, sum: Int64)?
        for turn in 0..<250 {
            try update(engine, ids[Int(random.next() % 6_000)], Int64(turn) + 10_000)
            let now = try engine.view().end
            let statistics = try engine.statistics()
            #expect(now - end < UInt64(Self.slice * 5), "\(turn) has written \(now - end) bytes")
            partsInARow = now - end > UInt64(Self.slice) ? partsInARow + 1 : 0
            mostParts = max(mostParts, partsInARow)
            if statistics.checkpointEnd != checkpointEnd { checkpoints += 1 }
            (end, checkpointEnd) = (now, statistics.checkpointEnd)
            if partsInARow == 3, earlier == nil {
                let view = try engine.view()
                earlier = (view, try sum(view))
            }
            if turn % 50 == 49 { #expect(try sum(other.view()) == sum(engine.view())) }
        }
        #expect(checkpoints > 1 && mostParts > 5)
        let (view, known) = try #require(earlier)
        #expect(try sum(view) == known)
        // Dies in the middle of the parts.
        while partsInARow < 3 {
            let before = try engine.view().end
            try update(engine, ids[Int(random.next() % 6_000)], 1)
            partsInARow = try engine.view().end - before > UInt64(Self.slice) ? partsInARow + 1 : 0
        }
        let last = try sum(engine.view())
        let ranks = try engine.view().byRank()
        machine.machine.disk.kill(1)
        #expect(try sum(other.view()) == last)
        let again = try machine.open(3)
        #expect(try sum(again.view()) == last)
        #expect(try again.view().byRank() == ranks)
        try other.close()
        try machine.closeAndCheck(again)
    }

    /// Nodes that are no leaves below others are written at the end only: if there are more of them than a part
    /// takes, the end comes all the same.
    @Test func manyEntitiesAreWrittenAtTheEnd() throws {
        var machine = machine()
        machine.options.dirtyNodeBytes = 96 << 10
        machine.options.undividedCheckpointBytes = 40 << 10
        let engine = try machine.create()
        let entities = (2...13).map { number in
            EntityDefinition(
                number: UInt16(number), name: "E\(number)",
                attributes: [AttributeDefinition(number: 1, type: .int, flags: [.optional], name: "rank")])
        }
        _ = try engine.commit { try $0.changeSchema(entities) }
        let ids = try engine.insertNotes(1...6_000)
        let (few, _) = try engine.commit { transaction in
            try entities.map { try transaction.insert(entity: $0.number, [.int(1)]) }
        }
        try engine.writeCheckpoint()
        var random = SeededRandom(9)
        var checkpoints = 0
        var last = try engine.statistics().checkpointEnd
        for turn in 0..<200 {
            _ = try engine.commit(durability: .relaxed) { transaction in
                try transaction.update(few[turn % few.count], [(0, .int(Int64(turn)))])
                try transaction.update(
                    ids[Int(random.next() % 6_000)], [(EngineNote.rank, .int(Int64(turn) + 10_000))])
            }
            let end = try engine.statistics().checkpointEnd
            if end != last { checkpoints += 1 }
            last = end
        }
        #expect(checkpoints > 3)
        try machine.closeAndCheck(engine)
    }

    /// Handles that write by turns have the same nodes to write: one of them does.
    @Test func oneOfManyHandlesWritesTheCheckpoint() throws {
        func nodeBytes(_ handles: Int) throws -> (bytes: UInt64, checkpoints: Int) {
            let machine = machine()
            let (engine, ids) = try store(machine)
            let others = try (1..<handles).map { try machine.open(UInt32($0 + 1)) }
            let all = [engine] + others
            let before = try engine.statistics().frameBytes[.nodes] ?? 0
            var random = SeededRandom(10)
            var last = try engine.statistics().checkpointEnd
            var checkpoints = 0
            for turn in 0..<240 {
                try update(all[turn % handles], ids[Int(random.next() % 6_000)], Int64(turn) + 10_000)
                _ = try engine.view()
                let end = try engine.statistics().checkpointEnd
                if end != last { checkpoints += 1 }
                last = end
            }
            let bytes = (try engine.statistics().frameBytes[.nodes] ?? 0) - before
            for other in others { try other.close() }
            try machine.closeAndCheck(engine)
            return (bytes, checkpoints)
        }
        let (one, three) = (try nodeBytes(1), try nodeBytes(3))
        #expect(one.checkpoints > 1 && three.checkpoints > 1)
        #expect(three.bytes < one.bytes * 2, "\(three) and \(one)")
    }

    /// A part that the disk has no space for takes nothing away from the commit before it; the next one is written when
    /// there is space.
    @Test func aPartThatCannotBeWrittenIsWrittenLater() throws {
        let machine = machine()
        let (engine, ids) = try store(machine)
        var random = SeededRandom(8)
        var failures = 0
        for turn in 0..<120 {
            let writes = machine.machine.disk.callCount(of: .write)
            // The second write of a commit is a part's.
            machine.machine.disk.addFault(Fault(.failure(28), on: .write, occurrence: 2))
            try update(engine, ids[Int(random.next() % 6_000)], Int64(turn))
            if machine.machine.disk.callCount(of: .write) > writes + 1 { failures += 1 }
            machine.machine.disk.removeAllFaults()
        }
        #expect(failures > 10)
        let before = try engine.statistics().checkpointEnd
        for turn in 0..<100 { try update(engine, ids[Int(random.next() % 6_000)], Int64(turn)) }
        #expect(try engine.statistics().checkpointEnd > before)
        let known = try sum(engine.view())
        try machine.closeAndCheck(engine)
        let again = try machine.open()
        #expect(try sum(again.view()) == known)
        try machine.closeAndCheck(again)
    }
}
