// Indexes cost few bytes an update, however the updates spread over their leaves: bounds of what checkpoints write and
// keep in memory.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct FlatCostTests {
    private static let objects = 12_000
    /// Twice a tail that makes a checkpoint due, with a commit, the first part and a last node in it.
    private static let mostTail = UInt64(2 * 62 << 10)

    private func machine() -> EngineMachine {
        var machine = EngineMachine()
        machine.options.deltas = DeltaPolicy()
        machine.options.log.limits.mappingReserveBytes = 64 << 20
        machine.options.dirtyNodeBytes = 256 << 10
        machine.options.checkpointTailBytes = 48 << 10
        machine.options.undividedCheckpointBytes = 8 << 10
        machine.options.checkpointPartBytes = 8 << 10
        machine.options.indexSliceBytes = 1 << 20
        return machine
    }

    /// Each checkpoint has few changes of each of 24 leaves. Copies of all of these would be about 800 bytes an update.
    @Test func randomUpdatesWriteFewBytesOfNodes() throws {
        let machine = machine()
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        let ids = try engine.insertNotes(1...Self.objects)
        try engine.writeCheckpoint()
        var random = SeededRandom(5)
        var before = try engine.statistics()
        let first = before
        var checkpoints = 0
        let updates = 4000
        var mostDirty = 0
        var mostTail: UInt64 = 0
        for turn in 0..<updates / 4 {
            _ = try engine.commit(durability: .relaxed) { transaction in
                for part in 0..<4 {
                    let id = ids[Int(random.next() % UInt64(Self.objects))]
                    try transaction.update(id, [(EngineNote.rank, .int(Int64(turn * 4 + part)))])
                }
            }
            let now = try engine.statistics()
            let written = (now.frameBytes[.nodes] ?? 0) - (before.frameBytes[.nodes] ?? 0)
            // A part, a last node of deltas, and the nodes above leaves.
            #expect(written <= 4 * 8 << 10, "turn \(turn) has written \(written) bytes")
            if now.checkpointEnd != before.checkpointEnd { checkpoints += 1 }
            mostDirty = max(mostDirty, now.dirtyNodeBytes)
            mostTail = max(mostTail, try engine.view().end - now.checkpointEnd)
            before = now
        }
        let bytes = (before.frameBytes[.nodes] ?? 0) - (first.frameBytes[.nodes] ?? 0)
        #expect(checkpoints > 5)
        #expect(bytes / UInt64(updates) <= 150, "\(bytes) bytes for \(updates) updates, \(checkpoints) checkpoints")
        #expect(mostDirty <= 64 << 10, "\(mostDirty) bytes of memory")
        #expect(mostTail <= Self.mostTail, "\(mostTail) bytes to fold")
        let chains = try CheckpointedStore(machine.machine.disk).deltaChains()
        #expect(chains.contains { $0.count > 1 })
        #expect(chains.allSatisfy { $0.count <= 8 && $0.reduce(0, +) <= 128 }, "\(chains)")
        try machine.closeAndCheck(engine)
    }

    /// An update takes an entry from one of 100 leaves of the ordered index and adds one to another. Copies of all of
    /// these would be about 5,000 bytes an update.
    @Test func randomUpdatesOfAnIndexWriteFewBytesOfNodes() throws {
        let machine = machine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...Self.objects)
        try engine.writeCheckpoint()
        var random = SeededRandom(7)
        let first = try engine.statistics()
        var mostDirty = 0
        let updates = 4000
        for turn in 0..<updates / 4 {
            _ = try engine.commit(durability: .relaxed) { transaction in
                for _ in 0..<4 {
                    let id = ids[Int(random.next() % UInt64(Self.objects))]
                    try transaction.update(id, [(EngineNote.rank, .int(Int64(random.next() % 12_000)))])
                }
            }
            mostDirty = max(mostDirty, try engine.statistics().dirtyNodeBytes)
            if turn % 250 == 0 { #expect(try engine.view().byRank().count == Self.objects) }
        }
        let last = try engine.statistics()
        let bytes = ((last.frameBytes[.nodes] ?? 0) - (first.frameBytes[.nodes] ?? 0)) / UInt64(updates)
        #expect(bytes <= 700, "\(bytes) bytes an update")
        #expect(mostDirty <= 384 << 10, "\(mostDirty) bytes of memory")
        try machine.closeAndCheck(engine)
    }

    /// The tail that makes a checkpoint due grows with the objects, up to its limit.
    @Test func aStoreOfManyObjectsMayHaveALongerTail() throws {
        for (each, most, expected) in [(0, 1 << 20, 48), (20, 1 << 20, 240_000 >> 10), (20, 100 << 10, 100)] {
            var machine = machine()
            machine.options.tailBytesForEachObject = UInt64(each)
            machine.options.mostCheckpointTailBytes = UInt64(most)
            let engine = try machine.create(1, EngineNote.withoutIndexes)
            let ids = try engine.insertNotes(1...Self.objects)
            try engine.writeCheckpoint()
            let end = try engine.statistics().checkpointEnd
            var (tail, rank): (UInt64, Int64) = (0, 0)
            while try engine.statistics().checkpointEnd == end {
                tail = try engine.view().end - end
                rank += 1
                _ = try engine.commit(durability: .relaxed) { try $0.update(ids[0], [(EngineNote.rank, .int(-rank))]) }
                try #require(tail < 1 << 20)
            }
            #expect(tail > UInt64(expected - 4) << 10 && tail <= UInt64(expected + 1) << 10, "\(tail) bytes")
            try machine.closeAndCheck(engine)
        }
    }

    /// However many nodes are written again in parts, the end comes.
    @Test func partsEnd() throws {
        var machine = machine()
        machine.options.undividedCheckpointBytes = 0
        machine.options.checkpointPartBytes = 64
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        let ids = try engine.insertNotes(1...Self.objects)
        try engine.writeCheckpoint()
        var random = SeededRandom(6)
        var (checkpoints, mostTail) = (0, UInt64(0))
        var last = try engine.statistics().checkpointEnd
        for turn in 0..<1500 {
            _ = try engine.commit(durability: .relaxed) {
                try $0.update(
                    ids[Int(random.next() % UInt64(Self.objects))], [(EngineNote.rank, .int(Int64(turn)))])
            }
            let end = try engine.statistics().checkpointEnd
            if end != last { checkpoints += 1 }
            last = end
            mostTail = max(mostTail, try engine.view().end - end)
        }
        #expect(checkpoints > 2 && mostTail <= Self.mostTail, "\(checkpoints), \(mostTail)")
        try machine.closeAndCheck(engine)
    }
}
