// Compaction: what stays is the same, what was cleaned is gone, and who is in the middle of something goes on.

import Annals
import SimulatedDisk
import Testing

@Suite struct CompactionTests {
    private func numbers(_ engine: Engine, after number: UInt64 = 0) throws -> [UInt64] {
        var numbers: [UInt64] = []
        try engine.tracked(engine.view()).forEachTransaction(after: max(number, engine.tracking.horizon)) {
            (transaction) in
            numbers.append(transaction.number)
            return true
        }
        return numbers
    }

    private func tags(_ engine: Engine) throws -> [UInt64: UInt64] {
        var tags: [UInt64: UInt64] = [:]
        try engine.tracked(engine.view()).forEachTransaction(after: engine.tracking.horizon) { (transaction) in
            tags[transaction.number] = transaction.tag
            return true
        }
        return tags
    }

    @Test func everyHandleSwitchesToTheNewFileAndSnapshotsStay() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...300)
        let other = StoreHandle(try machine.open(2))
        let reader = StoreHandle(try machine.open(3, access: .readOnly))
        let (oldEngine, oldView) = try reader.newest()
        let before = try tags(store.current)
        _ = try store.commit { try $0.delete(ids[7]) }

        let result = try store.compact(.lowered)
        #expect(result.horizon == 0 && result.bytesAfter > 0)
        #expect(store.current.log.header.generation == 1)
        // A writer that was not looking, and a reader.
        _ = try other.commit { transaction in
            try transaction.insert(entity: EngineNote.entity, EngineNote.row("note 9999", 1))
        }
        #expect(other.current.log.header.generation == 1)
        let (engine, view) = try reader.newest()
        #expect(engine.log.header.generation == 1 && engine !== oldEngine)
        #expect(try view.count(entity: EngineNote.entity) == 300)
        #expect(try view.title(ids[7]) == nil)
        // What was taken before is as it was, and readable.
        #expect(try oldView.titles().count == 300)
        #expect(try oldView.title(ids[7]) == "note 8")
        for (number, tag) in before { #expect(try tags(engine)[number] == tag) }
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
        for handle in [store, other, reader] { try handle.close() }
        #expect(throws: StoreError.self) { try oldView.titles() }
        try expectIntact(machine)
    }

    @Test func compactionRemovesCleanedHistoryAndKeepsRows() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...500)
        for id in ids.prefix(200) { _ = try store.commit { try $0.update(id, [(EngineNote.rank, .int(77))]) } }
        for id in ids.suffix(50) { _ = try store.commit { try $0.delete(id) } }
        let last = try store.newest().view.number
        let titles = try store.newest().view.titles()
        #expect(try store.current.deleteHistory(before: last - 9))
        #expect(try !store.current.deleteHistory(before: last - 9))
        #expect(try numbers(store.current) == Array((last - 9)...last))
        let result = try store.compact(.lowered)
        #expect(result.horizon == last - 10 && result.bytesAfter < result.bytesBefore)
        #expect(try store.newest().view.titles() == titles)
        #expect(try store.newest().view.byRank().count == 450)
        #expect(try numbers(store.current) == Array((last - 9)...last))
        #expect(try store.current.view(asOf: last - 10).count(entity: EngineNote.entity) == 460)
        // Numbers of objects that were deleted, and of which nothing is left, are not given again.
        _ = try store.current.deleteHistory(before: last + 1)
        _ = try store.compact(.lowered)
        let (new, _) = try store.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("new", 1)) }
        #expect(new.number == 501)
        try store.close()
        try expectIntact(machine)
    }

    @Test func hiddenTransactionsKeepTheirEffects() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...20)
        _ = try store.commit(author: "other") { try $0.delete(ids[0]) }
        _ = try store.commit(author: "tests") { try $0.delete(ids[1]) }
        let last = try store.newest().view.number
        #expect(try store.current.deleteHistory(before: last + 1, authors: ["other", "nobody"]))
        for _ in 0..<2 {
            let (engine, view) = try store.newest()
            let history = engine.tracked(view)
            #expect(try history.lastCleaned(history.coverage, after: 0) == last - 1)
            #expect(try history.lastCleaned(history.coverage, after: last - 1) == nil)
            #expect(try view.title(ids[0]) == nil)
            _ = try store.compact(.lowered)
        }
        try store.close()
        try expectIntact(machine)
    }

    /// Rows and indexes that come while the store is compacted: of entities with indexes, without, and of those that
    /// come with them.
    @Test func changesDuringACompactionAreInTheIndexes() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...2000)
        let other = StoreHandle(try machine.open(2))
        var options = CompactionOptions.lowered
        options.finalBytes = 256
        let met = Met()
        options.progress = { _ in
            met.count += 1
            let number = UInt16(met.count + 1)
            guard number < 30 else { return true }
            var definition = EngineNote.definition
            (definition.number, definition.name) = (number, IdentifierName("Entity \(number)"))
            if number % 3 == 0 {
                for index in definition.attributes.indices { definition.attributes[index].flags = [.optional] }
            }
            do {
                _ = try other.commit { pending in
                    try pending.changeSchema([definition])
                    for row in 1...3 {
                        _ = try pending.insert(entity: number, EngineNote.row("\(number) \(row)", Int64(10 - row)))
                    }
                    try pending.update(ids[met.count], [(EngineNote.rank, .int(Int64(number) * -1))])
                }
                _ = try other.commit { pending in
                    _ = try pending.insert(entity: number, EngineNote.row("\(number) more", 5))
                    _ = try pending.insert(entity: EngineNote.entity, EngineNote.row("note of \(number)", 7000))
                }
            } catch { met.failure = "\(error)" }
            return true
        }
        _ = try store.compact(options)
        #expect(met.count > 5 && met.failure == nil, "\(met.failure ?? "")")
        for generations in [store, other] {
            let view = try generations.newest().view
            #expect(generations.current.log.header.generation == 1)
            let ranks = try view.byRank().map { try view.rank($0) ?? .max }
            #expect(ranks == ranks.sorted())
            #expect(try UInt64(ranks.count) == view.count(entity: EngineNote.entity))
            for number in 2...UInt16(min(met.count + 1, 29)) where number % 3 != 0 {
                var titles: [String] = []
                try view.range(IndexID(entity: number, attributes: [2], isUnique: false)) {
                    (_, row) throws(StoreError) in
                    if case .string(let text) = try row.value(at: EngineNote.title) { titles.append(text) }
                    return true
                }
                #expect(titles == ["\(number) more", "\(number) 3", "\(number) 2", "\(number) 1"])
            }
            try generations.close()
        }
        try expectIntact(machine)
    }

    @Test func aSecondCompactorIsRefusedAndALeftoverRemoved() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...50)
        let other = StoreHandle(try machine.open(2))
        var options = CompactionOptions.lowered
        let met = Met()
        options.progress = { _ in
            do { _ = try other.compact(.lowered) } catch let error as StoreError { met.code = error.code } catch {}
            return false
        }
        #expect(throws: StoreError.self) { try store.compact(options) }
        #expect(met.code == .busy)
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
        #expect(store.current.log.header.generation == 0)
        _ = try store.current.insertNotes(51...60)
        // Killed in the middle.
        machine.machine.disk.addFault(Fault(.death(afterBytes: 100), on: .write, occurrence: 3, process: 2))
        #expect(throws: StoreError.self) { try other.compact(.lowered) }
        machine.machine.disk.removeAllFaults()
        machine.machine.disk.kill(2)
        #expect(machine.machine.disk.names(in: "/data").count == 2)
        let next = try machine.open(3)
        _ = try next.insertNotes(61...61)
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
        try next.close()
        try store.close()
        try expectIntact(machine)
    }

    /// At its first commit it looks for what a compactor has left. What it does then may take long, and is no
    /// compaction.
    @Test func aWriterIsNotTakenForACompactor() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        _ = try store.current.insertNotes(1...20)
        let writer = StoreHandle(try machine.open(2))
        let met = Met()
        _ = try writer.write { transaction in
            do { _ = try store.compact(.lowered) } catch let error as StoreError { met.message = error.message }
            return try transaction.insert(entity: EngineNote.entity, EngineNote.row("note 21", 21))
        }
        // It has made the new file by then, and waits for the writer as a commit does.
        #expect(met.message?.contains("has held the writer lock for 5.") == true, "\(met.message ?? "no error")")
        #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
        _ = try store.compact(.lowered)
        #expect(try writer.newest().view.titles().count == 21)
        for handle in [store, writer] { try handle.close() }
        try expectIntact(machine)
    }

    /// Sound: the closure that changes it runs on the thread that looks at it.
    private final class Met: @unchecked Sendable {
        var code: StoreError.Code?
        var count = 0
        var failure: String?
        var message: String?
    }

    @Test func closingAfterACompactionByAnotherHandleIsNoError() throws {
        let machine = EngineMachine()
        let other = StoreHandle(try machine.create())
        _ = try other.commit(durability: .relaxed) {
            try $0.insert(entity: EngineNote.entity, EngineNote.row("note 1", 1))
        }
        // It finds what is not durable, commits after it, and learns nothing of the compaction before it is closed.
        let store = StoreHandle(try machine.open(2))
        _ = try store.commit(durability: .relaxed) {
            try $0.insert(entity: EngineNote.entity, EngineNote.row("note 2", 2))
        }
        _ = try other.compact(.lowered)
        try store.close()
        try store.close()
        try other.close()
        machine.machine.disk.cutPower()
        let again = try machine.open(3)
        #expect(try again.view().titles() == ["note 1", "note 2"])
        try machine.closeAndCheck(again)
    }

    @Test func aCopyFromEarlierInTheStoresPlaceIsNoSuccessor() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let id = try store.current.insertNotes(1...1)[0]
        // A copy from before the last transaction, compacted elsewhere: of a higher generation, and without it.
        let copy = EngineMachine()
        try store.current.makeDurable(through: store.newest().view.end)
        copy.machine.disk.install(
            try #require(machine.machine.disk.contents(of: EngineMachine.path)), at: EngineMachine.path)
        let elsewhere = StoreHandle(try copy.open(7))
        _ = try elsewhere.compact(.lowered)
        try elsewhere.close()
        _ = try store.commit { try $0.update(id, [(EngineNote.rank, .int(5))]) }
        let bytes = try #require(copy.machine.disk.contents(of: EngineMachine.path))
        machine.machine.disk.install(bytes, at: "/data/new")
        let files = machine.machine.files(9)
        let directory = try files.openDirectory("/data")
        try files.rename("new", to: "s.annals", in: directory)
        var code: StoreError.Code?
        do { _ = try store.commit { try $0.delete(id) } } catch let error as StoreError { code = error.code }
        #expect(code == .storeReplaced)
        #expect(try store.current.view().rank(id) == 5)
    }

    /// Whoever closes the store does not wait for an index, however large.
    @Test func aCompactionIsCancelledWhileItBuildsIndexes() throws {
        var machine = EngineMachine()
        // One node at a time.
        machine.options.indexSliceBytes = 4096
        let store = StoreHandle(try machine.create())
        let ids = try store.current.insertNotes(1...600)
        for id in ids.prefix(50) { _ = try store.commit { try $0.delete(id) } }
        let (newest, titles) = (try store.newest().view, try store.newest().view.titles())
        let calls = Calls()
        func cancel(after count: Int) throws {
            calls.done = []
            var options = CompactionOptions.lowered
            options.progress = { progress in
                calls.done.append(progress.doneBytes)
                return calls.done.count < count
            }
            let error = #expect(throws: StoreError.self) { try store.compact(options) }
            #expect(error?.code == .cancelled && calls.done.count == count)
            #expect(machine.machine.disk.names(in: "/data") == ["s.annals"])
            #expect(store.current.log.header.generation == 0)
            let view = try store.newest().view
            #expect(view.number == newest.number && view.tag == newest.tag)
            #expect(try view.titles() == titles)
            try expectIntact(machine)
        }
        // While indexes are built the place up to which was copied stays: those calls are the last of a whole run.
        var whole = CompactionOptions.lowered
        whole.progress = { progress in
            calls.done.append(progress.doneBytes)
            return true
        }
        let other = StoreHandle(try machine.open(2))
        _ = try other.backUp(to: "/data/copy.annals", newIdentity: true, whole)
        let last = try #require(calls.done.last)
        let building = calls.done.count { $0 == last } - 1
        #expect(building >= 10)
        let files = machine.machine.files(2)
        try files.unlink("copy.annals", in: try files.openDirectory("/data"))
        let before = calls.done.count - building
        for count in [before + 1, before + 2, before + building / 2, before + building] { try cancel(after: count) }
        _ = try store.compact(.lowered)
        #expect(try store.newest().view.titles() == titles)
        for handle in [store, other] { try handle.close() }
        try expectIntact(machine)
    }

    /// Sound: the closure that changes it runs on the thread that looks at it.
    private final class Calls: @unchecked Sendable { var done: [UInt64] = [] }
}
