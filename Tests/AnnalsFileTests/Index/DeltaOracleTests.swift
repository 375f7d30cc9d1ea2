// Random changes of a store whose row index consists of leaves with deltas, against a dictionary.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct DeltaOracleTests {
    /// The state of the notes: their ranks, nil if they were deleted.
    private typealias State = [ObjectID: Int64?]

    private func expect(
        _ view: View, _ state: State, _ random: inout SeededRandom, _ sentence: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        var found: [(ObjectID, Int64?)] = []
        try view.scan(entity: EngineNote.entity) { (object, row) throws(StoreError) in
            found.append((object, row.int(at: EngineNote.rank)))
            return true
        }
        let expected = state.filter { $0.value != nil }.sorted { $0.key.rawValue < $1.key.rawValue }
        let isSame =
            found.map(\.0) == expected.map(\.key) && zip(found, expected).allSatisfy { $0.1 == $1.value }
        #expect(isSame, "\(sentence): the scan differs", sourceLocation: sourceLocation)
        let all = Array(state.keys)
        for _ in 0..<60 {
            let object = all[Int(random.next() % UInt64(all.count))]
            let rank = try view.rank(object)
            if rank != state[object] ?? nil {
                Issue.record("\(sentence): \(object) has \(String(describing: rank))", sourceLocation: sourceLocation)
            }
        }
    }

    @Test(arguments: [1, 2] as [UInt64], [FileReading.mapped, .copied])
    func everyReaderSeesWhatWasWritten(_ seed: UInt64, reading: FileReading) throws {
        var machine = EngineMachine()
        machine.options.reading = reading
        var engine = try machine.create(1, EngineNote.withoutIndexes)
        var other = try machine.open(2)
        var random = SeededRandom(seed)
        var state: State = [:]
        for id in try engine.insertNotes(1...2600) { state[id] = Int64(id.number) }
        try engine.writeCheckpoint()
        var earlier: [(view: View, state: State)] = []
        var ids = state.keys.sorted { $0.rawValue < $1.rawValue }
        for step in 0..<600 {
            let writer = random.next() % 4 == 0 ? other : engine
            // Half of the changes are in one leaf: its deltas grow until it is whole.
            let object = ids[Int(random.next() % (random.next() % 2 == 0 ? 512 : UInt64(ids.count)))]
            _ = try writer.commit(durability: .relaxed) { transaction in
                if state[object] == .some(nil) || random.next() % 40 == 0 {
                    let id = try transaction.insert(entity: EngineNote.entity, EngineNote.row("\(step)", Int64(step)))
                    state[id] = Int64(step)
                    ids.append(id)
                } else if random.next() % 10 == 0 {
                    try transaction.delete(object)
                    state[object] = .some(nil)
                } else {
                    try transaction.update(object, [(EngineNote.rank, .int(Int64(step)))])
                    state[object] = Int64(step)
                }
            }
            switch random.next() % 60 {
            case 0: try (random.next() % 2 == 0 ? engine : other).writeCheckpoint()
            case 1: earlier.append((try engine.view(), state))
            case 2: try expect(other.view(), state, &random, "the other handle at \(step)")
            case 3:
                earlier = []
                try engine.close()
                engine = try machine.open()
                try expect(engine.view(), state, &random, "opened at \(step)")
            case 4:
                earlier.removeAll { _ in random.next() % 2 == 0 }
                try other.close()
                other = try machine.open(2)
            case 5, 6: try expect(engine.view(), state, &random, "\(step)")
            default: break
            }
            if step % 150 == 149 {
                for (view, state) in earlier { try expect(view, state, &random, "a snapshot at \(step)") }
            }
        }
        for (view, state) in earlier { try expect(view, state, &random, "a snapshot in the end") }
        try engine.writeCheckpoint()
        try expect(other.view(), state, &random, "the other handle in the end")
        earlier = []
        try other.close()
        let store = try CheckpointedStore(machine.machine.disk)
        #expect(try store.deltaChains().contains { $0.count > 1 } && store.deltaChains().contains { $0.isEmpty })
        try machine.closeAndCheck(engine)
        let again = try machine.open()
        try expect(again.view(), state, &random, "opened in the end")
        try machine.closeAndCheck(again)
    }
}

extension CheckpointedStore {
    /// For each leaf of the first entity's row index of two levels, the numbers of entries of its deltas.
    func deltaChains() throws -> [[Int]] {
        let root = try #require(content.entities.first)
        try #require(root.depth == 2)
        return (0..<IndexNode.words).compactMap { index in
            var reference = NodeReference(word: word(Int(root.root) + index * 8))
            if reference.isNone { return nil }
            var counts: [Int] = []
            while reference.isDelta, counts.count <= FormatLimits.maximumDeltas {
                guard let head = DeltaHead(word(Int(reference.offset)), at: reference.offset) else { return nil }
                counts.append(head.count)
                reference = head.base
            }
            return counts
        }
    }
}
