// Wrong deltas over leaves of the row index are found by the checker, by readers and by salvage.

import Annals
import FuzzTargets
import SimulatedDisk
import Testing

@Suite struct CheckerDeltaTests {
    /// The first leaf has a delta of one entry over one of 20, the second one of two.
    private static let store = try? make()
    private static let numbers = (2...21).map { UInt64($0 * 3) }

    private static func make() throws -> CheckpointedStore {
        var machine = EngineMachine()
        machine.options.checkpointTailBytes = 1 << 30
        machine.options.closingTailBytes = 1 << 30
        machine.options.deltas = DeltaPolicy()
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        let ids = try engine.insertNotes(1...1300)
        try engine.writeCheckpoint()
        func update(_ numbers: [UInt64], body: [UInt8] = []) throws {
            _ = try engine.commit { transaction in
                for number in numbers {
                    try transaction.update(
                        ids[Int(number) - 1],
                        [(EngineNote.rank, .int(-Int64(number))), (EngineNote.body, .data(body))])
                }
            }
            try engine.writeCheckpoint()
        }
        try update(numbers + [600, 700])
        // A value holds the second leaf's delta, at a multiple of 8 among others.
        let first = try CheckpointedStore(machine.machine.disk)
        let place = try delta(first, leaf: 1)
        let copy = first.bytes[place..<place + 24]
        try update([300], body: (0..<8).flatMap { _ in copy + [0] })
        try engine.close()
        return try CheckpointedStore(machine.machine.disk)
    }

    /// The delta at the place of a leaf, or one so far below it.
    private static func delta(_ store: CheckpointedStore, leaf: Int, below: Int = 0) throws -> Int {
        let root = Int(try #require(store.content.entities.first).root)
        var word = store.word(root + leaf * 8)
        for _ in 0..<below { word = store.word(Int(word & ~7)) & (1 << 56 - 1) }
        try #require(NodeReference(word: word).isDelta)
        return Int(word & ~7)
    }

    private func delta(_ store: CheckpointedStore, leaf: Int, below: Int = 0) throws -> Int {
        try Self.delta(store, leaf: leaf, below: below)
    }

    private func root(_ store: CheckpointedStore) throws -> Int {
        Int(try #require(store.content.entities.first).root)
    }

    @Test func aStoreWithDeltasIsIntact() throws {
        let store = try #require(Self.store)
        #expect(try check(store.bytes).findings == [])
        #expect(try store.brokenRules() == [])
        #expect(try store.deltaChains() == [[1, 20], [2], []])
    }

    private struct Edit {
        let sentence: String
        let make: (inout CheckpointedStore) throws -> Void
    }

    /// Breaks the form of a delta: every reader notices it.
    private func malformations() -> [Edit] {
        func edit(
            _ sentence: String, leaf: Int, below: Int = 0, _ body: @escaping (inout [UInt8], Int) -> Void
        ) -> Edit {
            Edit(sentence: sentence) { body(&$0.bytes, try delta($0, leaf: leaf, below: below)) }
        }
        return [
            edit("no entries", leaf: 1) { $0[$1 + 7] = 0 },
            edit("no base", leaf: 1) { $0.put(UInt64(2) << 56, at: $1) },
            edit("a base that it is itself", leaf: 1) { $0.put(UInt64(2) << 56 | UInt64($1) | 2, at: $1) },
            edit("a base above it", leaf: 1) { $0.put(UInt64(2) << 56 | UInt64($1) + 2048, at: $1) },
            edit("bit 0 of the base", leaf: 1) { $0[$1] |= 1 },
            edit("bit 2 of the base", leaf: 1) { $0[$1] |= 4 },
            edit("a base outside of the store", leaf: 1) { $0.put(UInt64(2) << 56 | 8, at: $1) },
            edit("descending entries", leaf: 1) { bytes, place in
                for byte in place + 8..<place + 16 { bytes.swapAt(byte, byte + 8) }
            },
            edit("an entry of no version", leaf: 1) { $0.put(UInt64(600 - 512) << 55, at: $1 + 8) },
            edit("a bit too many", leaf: 0, below: 1) { $0[$1 + 8 + 1] |= 1 },
            edit("a bit too few", leaf: 0, below: 1) { $0[$1 + 8] ^= 1 << 6 },
            edit("an entry of another object", leaf: 0, below: 1) { bytes, place in
                bytes[place + 72 + 7] ^= 2
            },
            Edit(sentence: "a delta in a root") { store in
                let word = UInt64(try delta(store, leaf: 1)) | 2
                try store.replaceContent { $0.entities[0].root = word }
            },
            Edit(sentence: "bit 0 beside bit 1") { store in
                let place = try root(store) + 8
                store.bytes[place] |= 1
            },
            Edit(sentence: "a chain of 17") { store in
                // In the room after the delta of one entry, each over the one before.
                let top = try delta(store, leaf: 0)
                let base = store.word(top)
                var place = top
                for _ in 0..<16 {
                    store.bytes.put(store.word(top + 8), at: place + 24)
                    store.bytes.put(UInt64(1) << 56 | UInt64(place) | 2, at: place + 16)
                    place += 16
                }
                #expect(base == store.word(top))
                store.bytes.put(UInt64(place) | 2, at: try root(store))
            },
        ]
    }

    @Test func malformedDeltasAreFound() throws {
        for edit in malformations() {
            var changed = try #require(Self.store)
            try edit.make(&changed)
            let rules = try changed.brokenRules()
            let expected = edit.sentence == "a delta in a root" ? "F29" : "F30"
            // A change below the last transaction changes its tag, too.
            if !rules.contains(expected) || !rules.isSubset(of: ["F29", "F30"]) {
                Issue.record("\(edit.sentence): \(rules)")
            }
        }
    }

    /// They read right, but lie where no delta may, or differ from the log.
    @Test func deltasThatDifferFromTheLogAreFound() throws {
        let edits: [Edit] = [
            Edit(sentence: "an older version") { store in
                let (top, lower) = (try delta(store, leaf: 0), try delta(store, leaf: 0, below: 1))
                let entry = DeltaEntry(bits: store.word(lower + 72))
                store.bytes.put(DeltaEntry(300, entry.word).bits, at: top + 8)
            },
            Edit(sentence: "the leaf without its delta") { store in
                let base = store.word(try delta(store, leaf: 1)) & (1 << 56 - 1)
                store.bytes.put(base, at: try root(store) + 8)
            },
            Edit(sentence: "a chain without its upper delta") { store in
                store.bytes.put(store.word(try delta(store, leaf: 0)) & (1 << 56 - 1), at: try root(store))
            },
            Edit(sentence: "a delta that is not in a node") { store in
                // The same bytes, in a value.
                let place = try delta(store, leaf: 1)
                let copy = store.bytes[place..<place + 24]
                let frame = try #require(store.frames.last { $0.header.kind == .transaction })
                let body = try #require(
                    stride(from: Int(frame.offset), to: Int(frame.offset) + Int(frame.header.frameBytes) - 24, by: 8)
                        .first { store.bytes[$0..<$0 + 24] == copy })
                store.bytes.put(UInt64(body) | 2, at: try root(store) + 8)
            },
        ]
        for edit in edits {
            var changed = try #require(Self.store)
            try edit.make(&changed)
            let rules = try changed.brokenRules()
            if rules != ["F30"] { Issue.record("\(edit.sentence): \(rules)") }
        }
    }

    /// Reading never shows another row: it throws, or what it shows is right.
    @Test(arguments: [FileReading.mapped, .copied]) func malformedDeltasAreNotRead(_ reading: FileReading) throws {
        for edit in malformations() {
            var changed = try #require(Self.store)
            try edit.make(&changed)
            var machine = EngineMachine()
            machine.options.reading = reading
            machine.machine.disk.install(FuzzMutator.sealed(changed.bytes), at: EngineMachine.path)
            var errors = 0
            if edit.sentence == "a delta in a root" {
                #expect(throws: StoreError.self) { try machine.open(access: .readOnly) }
                continue
            }
            let engine = try machine.open(access: .readOnly)
            let view = try engine.view()
            let changedNumbers = Set(Self.numbers + [600, 700, 300])
            for number in 1...1300 as ClosedRange<UInt64> {
                let id = try #require(ObjectID(entityNumber: EngineNote.entity, number: number))
                let expected = changedNumbers.contains(number) ? -Int64(number) : Int64(number)
                do {
                    let rank = try view.rank(id)
                    // A single search cannot notice that an entry is missing where it would be.
                    let isHidden = ["a bit too few", "descending entries"].contains(edit.sentence)
                    if rank != expected, !isHidden || rank != Int64(number) {
                        Issue.record("\(edit.sentence): object \(number) has \(String(describing: rank))")
                    }
                } catch let error as StoreError {
                    if error.code != .damaged { Issue.record("\(edit.sentence): \(error)") }
                    errors += 1
                }
            }
            #expect(throws: StoreError.self, "\(edit.sentence)") { try view.titles() }
            // Entries or bits that no reader needs are noticed only by a scan.
            let needsScan = ["a bit too few", "descending entries"].contains(edit.sentence)
            if !needsScan, errors == 0 { Issue.record("\(edit.sentence): no error") }
            try engine.close()
        }
    }

    /// Salvage takes a leaf with an unreadable delta for unreadable, never for what is below the delta.
    @Test func salvageReadsALeafWithAllOfItsDeltasOrNot() throws {
        let store = try #require(Self.store)
        /// Objects whose newest version is known to be lost, if the frames of all updates are.
        func outdated(_ bytes: [UInt8]) throws -> UInt64 {
            var bytes = FuzzMutator.sealed(bytes)
            for frame in store.frames.filter({ $0.header.kind == .transaction }).suffix(2) {
                bytes[Int(frame.offset) + Int(frame.header.frameBytes) - 8] ^= 1
            }
            let machine = EngineMachine()
            machine.machine.disk.install(bytes, at: EngineMachine.path)
            var options = SalvageOptions()
            options.engine = machine.options
            let report = try Salvage.run(
                from: EngineMachine.path, to: "/data/new", options: options, files: machine.machine.files(9),
                environment: machine.machine.environment)
            #expect(report.objects == 1300 && report.lostObjects == 0)
            return report.entities[0].outdatedObjects
        }
        #expect(try outdated(store.bytes) == 23)
        for below in 0..<2 {
            var bytes = store.bytes
            bytes[try delta(store, leaf: 0, below: below) + 7] = 0
            #expect(try outdated(bytes) == 2, "only the second leaf is read")
        }
        var bytes = store.bytes
        bytes[try delta(store, leaf: 1) + 7] = 0
        #expect(try outdated(bytes) == 21)
    }
}
