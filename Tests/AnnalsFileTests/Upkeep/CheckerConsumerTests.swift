// F33: the checker compares the tags of consumers with the transactions that the file holds, and what the library
// writes obeys the rule in every state that a store can come to.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct CheckerConsumerTests {
    private func reader(_ cursor: UInt64, _ tag: UInt64, _ name: String = "reader") -> [UInt8] {
        ConsumerRecord(
            name: name, kind: .reads, cursor: cursor, tag: tag, lastSeen: 1, registered: 2, processID: 3
        ).encoded()
    }

    /// Four transactions, and their tags by number.
    private func file() throws -> (ForgedFile, tags: [UInt64]) {
        var file = try ForgedFile.withNotes()
        var tags = [0, file.lastTag]
        for number in 1...3 {
            file.addCommit([.insert(number, try Note.encoded("note \(number)"))])
            tags.append(file.lastTag)
        }
        return (file, tags)
    }

    // MARK: Forged files

    @Test(arguments: [false, true]) func tagsOfOtherTransactionsAreFound(isMember: Bool) throws {
        let (file, tags) = try file()
        for (number, tag) in tags.enumerated() {
            for (wrong, rules) in [(0, []), (1, ["F33"]), (1 << 63, ["F33"])] as [(UInt64, Set<String>)] {
                var file = file
                let table = reader(UInt64(number), tag ^ wrong)
                if isMember {
                    file.addMember(.consumer, table: table)
                    file.addCommit()
                } else {
                    file.add(.consumer, table: table)
                }
                try expectRules(rules, file, isDamage: !rules.isEmpty)
            }
        }
    }

    /// The transaction does not count, and its members obey the rules all the same.
    @Test func aWrongTagInATransactionThatIsNotCompleteIsFound() throws {
        var (file, tags) = try file()
        file.addMember(.consumer, table: reader(2, tags[2]))
        try expectRules(["F9"], file, isDamage: false)
        file.addMember(.consumer, table: reader(2, tags[3]))
        try expectRules(["F9", "F33"], file)
    }

    @Test func eachFrameOfAConsumerIsCompared() throws {
        var (file, tags) = try file()
        file.add(.consumer, table: reader(2, tags[3]))
        file.add(.consumer, table: reader(3, tags[3]))
        file.add(.consumer, table: ConsumerRecord.removal(of: "reader").encoded())
        try expectRules(["F33"], file)
    }

    /// The base's tag stands in the header page, and those before it nowhere, but for that of the beginning.
    @Test func cursorsAtTheBaseAndBelowAreCompared() throws {
        let header = FileHeader(
            storeID: UUIDBytes(high: 1, low: 2), generation: 1, salt: 3, created: 4, baseNumber: 5, baseTag: 77,
            baseTime: 6)
        let cases: [(cursor: UInt64, tag: UInt64, Set<String>)] = [
            (5, 77, []), (5, 76, ["F33"]), (5, 0, ["F33"]), (4, 77, []), (4, 0, []), (1, .max, []), (0, 0, []),
            (0, 77, ["F33"]),
        ]
        for (cursor, tag, rules) in cases {
            var file = try ForgedFile(header.encoded())
            (file.lastNumber, file.lastTag) = (5, 77)
            file.add(.schema, table: try SchemaDefinition(version: 1, entities: [Note.definition]).encodeTables()[0])
            file.schemaVersion = 1
            file.add(.consumer, table: reader(cursor, tag))
            file.addCommit([.insert(1, try Note.encoded("one"))])
            file.add(.consumer, table: reader(cursor, tag, "other"))
            try expectRules(rules, file, isDamage: !rules.isEmpty)
        }
    }

    /// Cursors in any order, in a file of several MiB, and with little memory.
    @Test func cursorsFarBelowTheirFramesAreCompared() throws {
        var file = try ForgedFile.withNotes()
        var tags = [0, file.lastTag]
        var nodes = [UInt8](repeating: 0, count: NodesField.bytes)
        nodes.put(UInt32(15), at: NodesField.nodes)
        for round in 0..<80 {
            file.add(.nodes, table: nodes, body: [UInt8](repeating: 0, count: 15 * IndexNode.bytes))
            for _ in 0..<3 {
                file.addCommit([], .init(record: { $0.processID = UInt32(round) }))
                tags.append(file.lastTag)
            }
        }
        #expect(file.end > 4 << 20)
        for step in 0..<500 {
            let number = step * 89 % tags.count
            file.add(.consumer, table: reader(UInt64(number), tags[number]))
        }
        var options = CheckOptions()
        options.spillDirectory = "/data"
        options.sortingBytes = 14 * 400
        #expect(try check(file.finished(), options: options).findings == [])
        let wrong = file.add(.consumer, table: reader(100, tags[101]))
        for number in [3, 241] { file.add(.consumer, table: reader(UInt64(number), tags[number])) }
        let report = try check(file.finished(), options: options)
        #expect(report.findings.map(\.rule) == ["F33"] && report.findings.map(\.offset) == [wrong.offset])
    }

    @Test func tooManyConsumersAreFound() throws {
        var (file, tags) = try file()
        for number in 1...1000 { file.add(.consumer, table: reader(4, tags[4], "reader \(number)")) }
        #expect(try check(file.finished()).findings == [])
        var again = file
        again.add(.consumer, table: ConsumerRecord.removal(of: "reader 7").encoded())
        again.add(.consumer, table: reader(1, tags[1], "another"))
        #expect(try check(again.finished()).findings == [])
        file.add(.consumer, table: reader(1, tags[1], "another"))
        #expect(try check(file.finished()).findings.map(\.rule) == ["F33"])
    }

    // MARK: Legal states

    private func place(_ engine: Engine, _ number: UInt64? = nil) throws -> TransactionPlace {
        let view = try number.map { try engine.view(asOf: $0) } ?? engine.view()
        return TransactionPlace(number: view.number, tag: view.tag)
    }

    private func intact(_ machine: EngineMachine, _ path: String = EngineMachine.path) throws {
        try expectIntact(machine.machine.disk, path)
    }

    /// Consumers at the beginning, in the middle and at the end.
    private func filled(_ machine: EngineMachine) throws -> StoreHandle {
        let engine = try machine.create()
        _ = try engine.register("beginning", .reads, at: TransactionPlace(number: 0, tag: 0))
        _ = try engine.insertNotes(1...2000)
        _ = try engine.register("middle", [.reads, .writes], at: place(engine, 7))
        _ = try engine.register("writer", .writes, at: place(engine, 3))
        _ = try engine.register("end", .reads)
        return StoreHandle(engine)
    }

    private static let names = ["beginning", "end", "middle", "writer"]

    private func expectConsumers(_ engine: Engine, _ names: [String] = Self.names) {
        #expect(engine.tracking.consumers.map(\.name).sorted() == names)
    }

    @Test func consumersThatCleaningAndCompactionHavePassedAreLegal() throws {
        let machine = EngineMachine()
        let store = try filled(machine)
        try intact(machine)
        let last = try place(store.current)
        // Cleaned, and still in the file.
        _ = try store.current.deleteHistory(before: 12)
        try intact(machine)
        #expect(try place(store.current, 7) == store.current.tracking.consumer("middle")?.place)
        try store.current.writeCheckpoint()
        // Folded: the file has the tags no more.
        for _ in 0..<2 {
            _ = try store.compact(.lowered)
            #expect(store.current.log.header.baseNumber == 11)
            expectConsumers(store.current)
            try intact(machine)
        }
        // Everything is cleaned, and compacted: the base is the last transaction.
        _ = try store.current.deleteHistory(before: last.number + 1)
        _ = try store.compact(.lowered)
        #expect(store.current.log.header.baseNumber == last.number)
        expectConsumers(store.current)
        try intact(machine)
        // From there they are moved, reset, registered and removed.
        try store.current.resetConsumer("beginning", to: last)
        let writer = try #require(store.current.tracking.consumer("writer")).place
        try store.current.advance([ConsumerAdvance(name: "writer", from: writer, to: last)])
        _ = try store.current.register("new", .reads, isAtOldest: true)
        _ = try store.current.removeConsumer("middle")
        _ = try store.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("after", 1)) }
        try store.current.advance([ConsumerAdvance(name: "writer", from: last, to: place(store.current))])
        try intact(machine)
        try store.current.writeCheckpoint()
        try store.close()
        try intact(machine)
        expectConsumers(try machine.open(), ["beginning", "end", "new", "writer"])
    }

    @Test(arguments: [false, true]) func consumersOfCopiesAreLegal(newIdentity: Bool) throws {
        let machine = EngineMachine()
        let store = try filled(machine)
        let other = StoreHandle(try machine.open(2))
        var options = CompactionOptions.lowered
        // They move on while the copy is made: it says what it holds.
        options.progress = { _ in
            _ = try? other.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("\($0.base.number)", 1)) }
            guard let engine = try? other.newest().engine, let to = try? self.place(engine),
                let from = engine.tracking.consumer("end")?.place
            else { return true }
            try? engine.advance([ConsumerAdvance(name: "end", from: from, to: to)])
            return true
        }
        _ = try store.backUp(to: "/data/copy", newIdentity: newIdentity, options)
        try intact(machine, "/data/copy")
        _ = try store.compact(options)
        try intact(machine)
        expectConsumers(try store.newest().engine)
        // The older copy is put back: those who have seen more keep their tokens, and the file names none of these.
        try store.close()
        try other.close()
        let bytes = try #require(machine.machine.disk.contents(of: "/data/copy"))
        machine.machine.disk.install(bytes, at: EngineMachine.path)
        let engine = try machine.open()
        expectConsumers(engine, newIdentity ? [] : Self.names)
        _ = try engine.insertNotes(3000...3001)
        try machine.closeAndCheck(engine)
    }

    @Test func consumersOfASalvagedStoreAreGone() throws {
        let machine = EngineMachine()
        let store = try filled(machine)
        try store.close()
        var options = SalvageOptions()
        options.engine = machine.options
        _ = try Salvage.run(
            from: EngineMachine.path, to: "/data/whole", options: options, files: machine.machine.files(9),
            environment: machine.machine.environment)
        try intact(machine, "/data/whole")
    }

    /// What a loss of power takes away is never what a consumer is said to have seen.
    @Test func consumersAfterALossOfPowerAreLegal() throws {
        for rounds in 1...20 {
            let machine = EngineMachine()
            let engine = try machine.create()
            _ = try engine.register("reader", .reads, durability: .full)
            for round in 0..<rounds {
                _ = try engine.insertNotes(round * 3 + 1...round * 3 + 3)
                let from = try #require(engine.tracking.consumer("reader")).place
                try engine.advance([ConsumerAdvance(name: "reader", from: from, to: place(engine))])
            }
            machine.machine.disk.cutPower()
            try expectIntact(machine.machine.disk, EngineMachine.path, mayBeTorn: true)
            let again = try machine.open(2)
            _ = try again.insertNotes(1000...1001)
            try machine.closeAndCheck(again)
        }
    }
}
