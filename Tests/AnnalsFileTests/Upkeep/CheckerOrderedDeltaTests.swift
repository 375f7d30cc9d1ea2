// Wrong deltas over leaves of an ordered index are found by the checker, and do no harm to readers.

import Annals
import FuzzTargets
import SimulatedDisk
import Testing

@Suite struct CheckerOrderedDeltaTests {
    /// The first leaf of the index of ranks has a delta of 2 edits over one of 20.
    private static let store = try? make()
    private static let index = 1

    private static func make() throws -> CheckpointedStore {
        var machine = EngineMachine()
        machine.options.checkpointTailBytes = 1 << 30
        machine.options.closingTailBytes = 1 << 30
        machine.options.deltas = DeltaPolicy()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...400)
        try engine.writeCheckpoint()
        func update(_ numbers: ClosedRange<Int>, body: [UInt8] = []) throws {
            _ = try engine.commit { transaction in
                for number in numbers {
                    try transaction.update(
                        ids[number - 1],
                        [(EngineNote.rank, .int(-Int64(number))), (EngineNote.body, .data(body))])
                }
            }
            try engine.writeCheckpoint()
        }
        try update(2...11)
        // A value holds the lower delta, at a multiple of 8 among others.
        let first = try CheckpointedStore(machine.machine.disk)
        let lower = try delta(first)
        let copy = first.bytes[lower..<lower + size(first, lower)]
        try update(30...30, body: (0..<8).flatMap { _ in copy + [0] })
        try engine.close()
        return try CheckpointedStore(machine.machine.disk)
    }

    private static func size(_ store: CheckpointedStore, _ place: Int) -> Int {
        field(store, place + OrderedDeltaField.bytes)
    }

    private static func field(_ store: CheckpointedStore, _ place: Int) -> Int {
        Int(store.bytes[place]) | Int(store.bytes[place + 1]) << 8
    }

    /// The place of the root's reference to the leaf with the least keys.
    private static func reference(_ store: CheckpointedStore) throws -> Int {
        let root = Int(try store.content.indexes[index].root)
        let entry = field(store, root + OrderedNodeField.bytes + OrderedSlotField.entry)
        return root + entry + OrderedEntryField.child
    }

    /// The delta at the place of this leaf, or the one below it.
    private static func delta(_ store: CheckpointedStore, below: Int = 0) throws -> Int {
        var word = store.word(try reference(store))
        for _ in 0..<below { word = store.word(Int(word & ~7)) }
        try #require(word & 7 == 2)
        return Int(word & ~7)
    }

    /// The place at which an edit begins.
    private static func edit(_ store: CheckpointedStore, _ delta: Int, _ number: Int) -> Int {
        delta + field(store, delta + OrderedDeltaField.slots + number * OrderedDeltaField.slotBytes)
    }

    private struct Fault: Sendable {
        let sentence: String
        let make: @Sendable (inout CheckpointedStore) throws -> Void
    }

    private static func fault(
        _ sentence: String, below: Int = 0, _ body: @escaping @Sendable (inout CheckpointedStore, Int) -> Void
    ) -> Fault {
        Fault(sentence: sentence) { store in body(&store, try delta(store, below: below)) }
    }

    private static let faults: [Fault] = [
        fault("no edits") { $0.bytes[$1 + OrderedDeltaField.count] = 0 },
        fault("one edit fewer") { $0.bytes[$1 + OrderedDeltaField.count] -= 1 },
        fault("more slots than bytes") { $0.bytes[$1 + OrderedDeltaField.count + 1] = 255 },
        fault("a greater size") { $0.bytes[$1 + OrderedDeltaField.bytes] += 8 },
        fault("a smaller size") { $0.bytes[$1 + OrderedDeltaField.bytes] -= 8 },
        fault("an odd size") { $0.bytes[$1 + OrderedDeltaField.bytes] += 1 },
        fault("a size of several nodes") { $0.bytes[$1 + OrderedDeltaField.bytes + 1] = 255 },
        fault("too many entries of the leaf") { $0.bytes[$1 + OrderedDeltaField.leafCount] += 1 },
        fault("too few bytes of the leaf") { $0.bytes[$1 + OrderedDeltaField.leafBytes] -= 1 },
        fault("no base") { $0.bytes.put(UInt64(0), at: $1) },
        fault("a base that it is itself") { $0.bytes.put(UInt64($1) | 2, at: $1) },
        fault("a base above it") { $0.bytes.put(UInt64($1) + 2048, at: $1) },
        fault("bit 0 of the base") { $0.bytes[$1] |= 1 },
        fault("bit 2 of the base") { $0.bytes[$1] |= 4 },
        fault("a base outside of the store") { $0.bytes.put(UInt64(1) << 55, at: $1) },
        fault("another place of an edit") { $0.bytes[$1 + OrderedDeltaField.slots] += 1 },
        fault("a place outside of the delta") { $0.bytes[$1 + OrderedDeltaField.slots + 1] = 255 },
        fault("exchanged edits", below: 1) { store, place in
            store.bytes.swapAt(place + OrderedDeltaField.slots, place + OrderedDeltaField.slots + 2)
        },
        fault("an edit of another kind") { $0.bytes[edit($0, $1, 0)] ^= 1 },
        fault("a key that leaves the delta") { $0.bytes[edit($0, $1, 1) + 1] = 255 },
        fault("a shorter key") { $0.bytes[edit($0, $1, 1)] -= 2 },
        fault("edits that are one, as long as the delta", below: 1) { store, place in
            let first = edit(store, place, 0)
            let bytes = place + size(store, place) - first - OrderedEditField.bytes
            store.bytes[first] = UInt8((bytes * 2) & 0xFF)
            store.bytes[first + 1] = UInt8((bytes * 2) >> 8)
            let slots = place + OrderedDeltaField.slots
            for number in 1..<20 {
                store.bytes[slots + number * 2] = store.bytes[slots]
                store.bytes[slots + number * 2 + 1] = store.bytes[slots + 1]
            }
        },
        fault("no object") { $0.bytes.put(UInt64(0), at: edit($0, $1, 1) + OrderedEditField.object) },
        fault("another object") { $0.bytes[edit($0, $1, 1) + OrderedEditField.object] ^= 1 },
        fault("another key", below: 1) { $0.bytes[edit($0, $1, 0) + OrderedEditField.bytes + 2] ^= 1 },
        fault("a byte after the edits") { $0.bytes[$1 + size($0, $1) - 1] = 1 },
        Fault(sentence: "bit 0 beside bit 1") { $0.bytes[try reference($0)] |= 1 },
        Fault(sentence: "the leaf without its deltas") { store in
            store.bytes.put(store.word(try delta(store, below: 1)), at: try reference(store))
        },
        Fault(sentence: "a chain without its upper delta") { store in
            store.bytes.put(store.word(try delta(store)), at: try reference(store))
        },
        Fault(sentence: "a delta of an inner node") { store in
            let root = try store.content.indexes[index].root
            store.bytes.put(root, at: try delta(store, below: 1))
        },
        Fault(sentence: "a delta that is not in a node") { store in
            // The same bytes, in a value.
            let place = try delta(store, below: 1)
            let copy = store.bytes[place..<place + size(store, place)]
            let places = store.frames.filter { $0.header.kind != .nodes }.flatMap {
                stride(from: Int($0.offset), to: Int($0.offset) + Int($0.header.frameBytes) - copy.count, by: 8)
            }
            let value = try #require(places.first { store.bytes[$0..<$0 + copy.count] == copy })
            store.bytes.put(UInt64(value) | 2, at: try delta(store))
        },
        Fault(sentence: "a chain of 17") { store in
            // In the room after the upper delta, each over the one before.
            let top = try delta(store)
            let delta = Array(store.bytes[top..<top + size(store, top)])
            var place = top
            for _ in 0..<15 {
                let next = place + delta.count
                store.bytes.replaceSubrange(next..<next + delta.count, with: delta)
                store.bytes.put(UInt64(place) | 2, at: next)
                place = next
            }
            store.bytes.put(UInt64(place) | 2, at: try reference(store))
        },
    ]

    @Test func aStoreWithDeltasIsIntact() throws {
        let store = try #require(Self.store)
        #expect(try check(store.bytes).findings == [])
        let (top, lower) = (try Self.delta(store), try Self.delta(store, below: 1))
        #expect(Self.field(store, top + OrderedDeltaField.count) == 2)
        #expect(Self.field(store, lower + OrderedDeltaField.count) == 20)
    }

    @Test func wrongDeltasAreFound() throws {
        for fault in Self.faults {
            var changed = try #require(Self.store)
            try fault.make(&changed)
            let rules = try changed.brokenRules()
            // A change below the last transaction changes its tag, too.
            if !rules.contains("F31") || !rules.isSubset(of: ["F29", "F31"]) {
                Issue.record("\(fault.sentence): \(rules)")
            }
        }
    }

    /// Reading a wrong delta ends, and throws nothing but that the store is damaged. So does changing its leaf, which
    /// leaves other indexes and the rows as they should be.
    @Test(arguments: [FileReading.mapped, .copied]) func wrongDeltasDoNoHarm(_ reading: FileReading) throws {
        for fault in Self.faults {
            var changed = try #require(Self.store)
            try fault.make(&changed)
            var machine = EngineMachine()
            machine.options.reading = reading
            machine.options.deltas = DeltaPolicy()
            machine.machine.disk.install(FuzzMutator.sealed(changed.bytes), at: EngineMachine.path)
            let engine = try machine.open()
            let isReversed = fault.sentence.count % 2 == 0
            damage(fault.sentence) {
                let found = try engine.view().byRank(reversed: isReversed)
                #expect(found.count <= 440, "\(fault.sentence)")
            }
            // Those whose entries are in the leaf come first: without them it has no room, and becomes whole.
            for numbers in [[30, 40, 41, 42, 43, 44, 45], [300, 5, 2]] {
                for number in numbers {
                    damage(fault.sentence) {
                        let id = try #require(ObjectID(entityNumber: EngineNote.entity, number: UInt64(number)))
                        _ = try engine.commit { try $0.update(id, [(EngineNote.rank, .int(-1000))]) }
                        #expect(try engine.view().rank(id) == -1000)
                    }
                }
                damage(fault.sentence) { try engine.writeCheckpoint() }
            }
            damage(fault.sentence) { _ = try engine.view().byRank(reversed: isReversed) }
            try engine.close()
        }
    }

    private func damage(_ sentence: String, _ body: () throws -> Void) {
        do { try body() } catch let error as StoreError {
            if error.code != .damaged { Issue.record("\(sentence): \(error)") }
        } catch {
            Issue.record("\(sentence): \(error)")
        }
    }
}
