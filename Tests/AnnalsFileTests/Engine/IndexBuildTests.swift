// Indexes over objects that are there already: built beside others, in little memory, exactly those of the rows.

import Annals
import SimulatedDisk
import Synchronization
import TestSupport
import Testing

@Suite struct IndexBuildTests {
    let machine: EngineMachine

    init() {
        var machine = EngineMachine()
        // Indexes that are changed again and again are written again and again.
        machine.options.log.limits.mappingReserveBytes = 256 << 20
        self.machine = machine
    }

    // MARK: What is built

    /// Long titles make keys that are cut; many of one rank are told apart by their objects.
    private func row(_ number: Int, _ random: inout SeededRandom) -> [StoredValue] {
        let length = [0, 3, 20, 70, 200, 300][Int(random.next() % 6)]
        let title = "\(random.next() % 1_000_000) \(number) " + String(repeating: "x", count: length)
        let rank: Int64? = random.next() % 5 == 0 ? nil : Int64(random.next() % 50) - 25
        return EngineNote.row(random.next() % 2 == 0 ? title : String(title.reversed()), rank)
    }

    private func insert(_ count: Int, _ engine: Engine, seed: UInt64 = 1) throws {
        var random = SeededRandom(seed)
        for start in stride(from: 0, to: count, by: 100) {
            _ = try engine.commit(durability: .relaxed) { transaction in
                for number in start..<min(start + 100, count) {
                    _ = try transaction.insert(entity: EngineNote.entity, row(number, &random))
                }
            }
        }
    }

    /// Both indexes have each object once, in the order of the keys that its row has.
    private func expectIndexes(of view: View) throws {
        for (id, types) in [
            (EngineNote.titleIndex, [AttributeType.string]), (EngineNote.rankIndex, [AttributeType.int]),
        ] {
            #expect(try view.hasBuilt(view.indexNumber(id)))
            var entries: [IndexEntry] = []
            try view.scan(entity: EngineNote.entity) { (object, row) throws(StoreError) in
                var key = ByteWriter(capacity: 256)
                let position = id == EngineNote.titleIndex ? EngineNote.title : EngineNote.rank
                try IndexKey.append(values: [try row.value(at: position)], types: types, to: &key)
                entries.append(IndexEntry(Array(key.bytes), object))
                return true
            }
            var found: [ObjectID] = []
            try view.range(id) { (object, _) in
                found.append(object)
                return true
            }
            #expect(found.count == entries.count)
            let cut = entries.filter { $0.key.count == IndexKey.maximumBytes }.map(\.object)
            // Those that are cut come in the order of their whole keys.
            #expect(found.filter { !cut.contains($0) } == entries.sorted().map(\.object).filter { !cut.contains($0) })
        }
    }

    @Test(arguments: [0, 1, 2, 41, 42, 43, 500, 3000])
    func theIndexesMatchTheRows(_ count: Int) throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(count, engine)
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        try expectIndexes(of: engine.view())
        #expect(try engine.statistics().dirtyNodeBytes == 0 || count == 0)
        try insert(20, engine, seed: 99)
        try expectIndexes(of: engine.view())
        try machine.closeAndCheck(engine)
        let again = try machine.open(2)
        try expectIndexes(of: again.view())
        try machine.closeAndCheck(again)
    }

    @Test func anotherHandleReadsTheIndexFromTheCheckpoint() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(1000, engine)
        let other = try machine.open(2)
        let before = try other.view()
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        let dirty = try other.statistics().dirtyNodeBytes
        #expect(dirty == 0)
        try expectIndexes(of: other.view())
        #expect(before.indexes(entity: EngineNote.entity).isEmpty)
        try other.close()
        try machine.closeAndCheck(engine)
    }

    @Test func copiedReadingBuildsTheSameIndexes() throws {
        var machine = machine
        machine.options.reading = .copied
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(1500, engine)
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        try expectIndexes(of: engine.view())
        try machine.closeAndCheck(engine)
    }

    @Test func aSchemaChangeUnderTheLockBuildsTheSameIndexes() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(700, engine)
        _ = try engine.write { try $0.changeSchema([EngineNote.definition]) }
        try expectIndexes(of: engine.view())
        #expect(try engine.statistics().dirtyNodeBytes == 0)
        try machine.closeAndCheck(engine)
    }

    @Test func changesOfTheSameTransactionAreInTheIndex() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        let ids = try engine.insertNotes(1...600)
        _ = try engine.commit { transaction in
            try transaction.changeSchema([EngineNote.definition])
            for id in ids.prefix(50) { try transaction.delete(id) }
            for id in ids.suffix(50) { try transaction.update(id, [(EngineNote.rank, .int(-Int64(id.number)))]) }
            // A key that another object has until this transaction.
            try transaction.update(ids[100], [(EngineNote.title, .string("note 1"))])
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("new", 3))
        }
        #expect(try engine.view().count(entity: EngineNote.entity) == 551)
        try expectIndexes(of: engine.view())
        try machine.closeAndCheck(engine)
    }

    // MARK: Beside others

    /// Runs `body` whenever process 1 makes a call of some kind, but not for calls that `body` itself makes.
    private func beside(
        _ kinds: Set<CallKind>, of other: EngineMachine? = nil,
        _ body: @escaping @Sendable (Int) throws(StoreError) -> Void
    ) {
        let state = Turns()
        (other ?? machine).machine.disk.setOnCall { (call) throws(StoreError) in
            guard call.process == 1, kinds.contains(call.kind) else { return }
            guard let count = state.begin() else { return }
            defer { state.end() }
            try body(count)
        }
    }

    private final class Count: Sendable {
        private let number = Atomic<Int>(0)
        var value: Int {
            get { number.load(ordering: .relaxed) }
            set { number.store(newValue, ordering: .relaxed) }
        }
    }

    private final class Turns: Sendable {
        private let state = Guarded((isInside: false, count: 0))

        /// Nil inside of another turn.
        func begin() -> Int? {
            state.withLock { state in
                if state.isInside { return nil }
                state.isInside = true
                state.count += 1
                return state.count
            }
        }

        func end() { state.withLock { $0.isInside = false } }
    }

    /// What another writer does at its `turn`: inserts, updates of indexed and of other attributes, deletions, keys
    /// that change hands.
    private static func disturb(_ engine: Engine, _ turn: Int) throws(StoreError) {
        do {
            var random = SeededRandom(UInt64(turn))
            let view = try engine.view()
            var ids: [ObjectID] = []
            try view.scan(entity: EngineNote.entity) { (object, _) in
                ids.append(object)
                return true
            }
            ids.shuffle(using: &random)
            _ = try engine.commit(durability: .relaxed) { transaction in
                for number in 0..<4 {
                    _ = try transaction.insert(
                        entity: EngineNote.entity, EngineNote.row("turn \(turn) \(number)", Int64(turn % 7)))
                }
                for id in ids.prefix(3) { try transaction.delete(id) }
                for id in ids.dropFirst(3).prefix(5) {
                    try transaction.update(
                        id, [(EngineNote.rank, random.next() % 3 == 0 ? .absent : .int(Int64(turn)))])
                }
                try transaction.update(ids[9], [(EngineNote.body, .data([UInt8(turn & 255)]))])
                let (left, right) = (try view.title(ids[10]) ?? "", try view.title(ids[11]) ?? "")
                try transaction.update(ids[10], [(EngineNote.title, .string(right))])
                try transaction.update(ids[11], [(EngineNote.title, .string(left))])
            }
        } catch let error as StoreError { throw error } catch { preconditionFailure("Only the engine throws here.") }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func commitsOfAnotherHandleBetweenSlicesAreInTheIndex(_ seed: UInt64) throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(1200, engine, seed: seed)
        let other = try machine.open(2)
        let turns = Count()
        // Each attempt to take the lock is made when somebody else has just had it.
        beside([.tryLock]) { (count) throws(StoreError) in
            turns.value = count
            try Self.disturb(other, count * 100 + Int(seed))
        }
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        machine.machine.disk.setOnCall(nil)
        #expect(turns.value > 10 && turns.value < 1000, "the index is written in slices, and not for ever")
        try expectIndexes(of: engine.view())
        #expect(try engine.statistics().dirtyNodeBytes == 0)
        try expectIndexes(of: other.view())
        try other.close()
        try machine.closeAndCheck(engine)
    }

    /// Other transactions of the same handle, while rows are read and keys sorted.
    @Test func commitsOfTheSameHandleDuringSortingAreInTheIndex() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(1200, engine)
        let turns = Count()
        beside([.createUnnamed]) { (count) throws(StoreError) in
            turns.value = count
            for turn in 0..<20 { try Self.disturb(engine, count * 100 + turn) }
        }
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        machine.machine.disk.setOnCall(nil)
        #expect(turns.value >= 2)
        try expectIndexes(of: engine.view())
        try machine.closeAndCheck(engine)
    }

    /// A handle that writes more each time than could be read meanwhile has to wait in the end. With deltas there is
    /// less to write, and so the build takes the lock less often.
    @Test(arguments: [(mostEdits: 0, turns: 11), (6, 6)])
    func aFasterWriterDoesNotKeepTheBuildFromEnding(mostEdits: Int, least: Int) throws {
        var machine = machine
        machine.options.deltas.ordered.mostEdits = UInt16(mostEdits)
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(300, engine)
        let other = try machine.open(2)
        let turns = Count()
        beside([.tryLock]) { (count) throws(StoreError) in
            turns.value = count
            for turn in 0..<min(count, 12) { try Self.disturb(other, count * 100 + turn) }
        }
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        machine.machine.disk.setOnCall(nil)
        #expect(turns.value >= least && turns.value < 1000)
        try expectIndexes(of: engine.view())
        try other.close()
        try machine.closeAndCheck(engine)
    }

    @Test func aConcurrentSchemaChangeRestartsTheTransaction() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        try insert(600, engine)
        let other = try machine.open(2)
        beside([.tryLock]) { (count) throws(StoreError) in
            guard count == 3 else { return }
            var renamed = EngineNote.withoutIndexes
            renamed.name = IdentifierName("Renamed")
            do {
                _ = try other.commit { try $0.changeSchema([renamed]) }
            } catch { throw StoreError(.invalidArgument, "\(error)") }
        }
        var runs = 0
        _ = try engine.commit { transaction in
            runs += 1
            try transaction.changeSchema([EngineNote.definition])
        }
        machine.machine.disk.setOnCall(nil)
        #expect(runs == 2)
        try expectIndexes(of: engine.view())
        try other.close()
        try machine.closeAndCheck(engine)
    }

    // MARK: Duplicates

    private func refusal(_ engine: Engine) -> StoreError? {
        do {
            _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        } catch { return error as? StoreError }
        return nil
    }

    private func expectUsable(_ engine: Engine, _ count: UInt64) throws {
        machine.machine.disk.setOnCall(nil)
        #expect(try engine.view().catalog.newestVersion == 1)
        #expect(try engine.view().count(entity: EngineNote.entity) == count)
        _ = try engine.insertNotes(5000...5000)
        try machine.closeAndCheck(engine)
    }

    @Test func duplicatesAreListed() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        _ = try engine.insertNotes(1...400)
        let before = try engine.view().end
        _ = try engine.insertNotes(200...220)
        let nodesBefore = try engine.statistics().frameBytes[.nodes]
        let error = try #require(refusal(engine))
        #expect(error.code == .uniqueViolation)
        let pairs = (200..<210).map { "\($0) and \($0 + 201)" }.joined(separator: ", ")
        #expect(error.message.contains("Objects \(pairs) of “Note”"), "\(error.message)")
        #expect(try engine.view().end > before)
        #expect(try engine.statistics().frameBytes[.nodes] == nodesBefore, "found before a node is written")
        try expectUsable(engine, 421)
    }

    @Test func duplicatesCommittedDuringTheBuildAreListed() throws {
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        _ = try engine.insertNotes(1...1000)
        let other = try machine.open(2)
        beside([.tryLock]) { (count) throws(StoreError) in
            guard count == 5 else { return }
            do { _ = try other.insertNotes(7...9) } catch { throw StoreError(.invalidArgument, "\(error)") }
        }
        let error = try #require(refusal(engine))
        #expect(error.code == .uniqueViolation)
        #expect(error.message.contains("Objects 7 and 1001, 8 and 1002, 9 and 1003 of “Note”"), "\(error.message)")
        try other.close()
        try expectUsable(engine, 1003)
    }

    /// In the last moment before the transaction is appended: found with the lock.
    @Test func duplicatesCommittedJustBeforeTheAppendAreListed() throws {
        var locks = 0
        for attempt in 0..<2 {
            let machine = EngineMachine()
            let engine = try machine.create(1, EngineNote.withoutIndexes)
            _ = try engine.insertNotes(1...400)
            let other = try machine.open(2)
            let (last, count) = (locks, Count())
            beside([.tryLock], of: machine) { (turn) throws(StoreError) in
                count.value = turn
                guard attempt == 1, turn == last else { return }
                do { _ = try other.insertNotes(7...8) } catch { throw StoreError(.invalidArgument, "\(error)") }
            }
            let error = refusal(engine)
            machine.machine.disk.setOnCall(nil)
            locks = count.value
            #expect((error == nil) == (attempt == 0))
            if let error {
                #expect(error.message.contains("Objects 7 and 401, 8 and 402 of “Note”"), "\(error.message)")
                #expect(try engine.view().catalog.newestVersion == 1)
            }
            try other.close()
            try machine.closeAndCheck(engine)
        }
        #expect(locks >= 3)
    }

    @Test func absentKeysAreNoDuplicates() throws {
        var unique = EngineNote.withoutIndexes
        unique.attributes[EngineNote.rank].flags = [.optional, .unique]
        let engine = try machine.create(1, EngineNote.withoutIndexes)
        _ = try engine.commit { transaction in
            for number in 0..<300 {
                let rank = number % 2 == 0 ? nil : Int64(number)
                _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("n", rank))
            }
        }
        _ = try engine.commit { try $0.changeSchema([unique]) }
        #expect(throws: StoreError.self) {
            _ = try engine.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("n", 299)) }
        }
        _ = try engine.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("n", nil)) }
        try machine.closeAndCheck(engine)
    }
}
