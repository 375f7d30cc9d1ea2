// What random operations have found in the engine, each as a test of its own.

import Annals
import SimulatedDisk
import Testing

@Suite struct EngineFindingTests {
    private let machine = EngineMachine()

    private func note(_ attributes: [AttributeDefinition]) -> EntityDefinition {
        EntityDefinition(number: 1, name: "Note", attributes: attributes)
    }

    private func create(_ attributes: [AttributeDefinition]) throws -> Engine {
        let engine = try Engine.create(
            EngineMachine.path, options: machine.options, files: machine.machine.files(),
            environment: machine.machine.environment)
        _ = try engine.commit { try $0.changeSchema([note(attributes)]) }
        return engine
    }

    private func value(_ view: View, _ id: ObjectID, _ position: Int) throws -> StoredValue? {
        var value: StoredValue?
        _ = try view.withRow(id) { (row) throws(StoreError) in value = try row.value(at: position) }
        return value
    }

    @Test func anAbsentValueOfARequiredAttributeBecomesTheDefault() throws {
        var rank = AttributeDefinition(number: 2, type: .int, flags: [.optional, .indexed], name: "rank")
        let title = AttributeDefinition(number: 1, type: .string, name: "title")
        let engine = try create([title, rank])
        let id = try engine.commit { try $0.insert(entity: 1, [.string("a"), .absent]) }.result
        rank.flags = [.indexed]
        _ = try engine.commit { try $0.changeSchema([note([title, rank])]) }
        #expect(throws: StoreError.self) {
            _ = try engine.commit { try $0.update(id, [(0, .string("b"))]) }
        }
        rank.defaultValue = [7, 0, 0, 0, 0, 0, 0, 0]
        _ = try engine.commit { try $0.changeSchema([note([title, rank])]) }
        let appended = try engine.commit { try $0.update(id, [(0, .string("b"))]) }.transaction
        let view = try engine.view()
        #expect(try value(view, id, 1) == .int(7))
        var positions: [Int] = []
        try engine.tracked(view).forEachTransaction(after: (appended?.number ?? 0) - 1) {
            (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) in
                positions = change.attributePositions
                return true
            }
            return true
        }
        #expect(positions == [0, 1])
        var found: [ObjectID] = []
        var key = ByteWriter(capacity: 16)
        try IndexKey.append(values: [.int(7)], types: [.int], to: &key)
        let rankIndex = IndexID(entity: 1, attributes: [2], isUnique: false)
        try view.range(rankIndex, KeyRange(Array(key.bytes))) { (object, _) in
            found.append(object)
            return true
        }
        #expect(found == [id])
        try machine.closeAndCheck(engine)
    }

    @Test func anotherDefaultMovesOldRowsInTheIndex() throws {
        let title = AttributeDefinition(number: 1, type: .string, name: "title")
        var rank = AttributeDefinition(
            number: 2, type: .int, flags: [.optional, .indexed], name: "rank", defaultValue: [5, 0, 0, 0, 0, 0, 0, 0])
        let engine = try create([title])
        let old = try engine.commit { try $0.insert(entity: 1, [.string("old")]) }.result
        _ = try engine.commit { try $0.changeSchema([note([title, rank])]) }
        let new = try engine.commit { try $0.insert(entity: 1, [.string("new"), .int(7)]) }.result
        let other = try machine.open(2)
        let index = IndexID(entity: 1, attributes: [2], isUnique: false)
        #expect(try order(engine.view(), index) == [old, new])
        rank.defaultValue = [9, 0, 0, 0, 0, 0, 0, 0]
        _ = try engine.commit { try $0.changeSchema([note([title, rank])]) }
        #expect(try order(engine.view(), index) == [new, old])
        #expect(try order(other.view(), index) == [new, old])
        try other.close()
        try machine.closeAndCheck(engine)
        let again = try machine.open(3)
        #expect(try order(again.view(), index) == [new, old])
        try machine.closeAndCheck(again)
    }

    private func order(_ view: View, _ index: IndexID) throws -> [ObjectID] {
        var ids: [ObjectID] = []
        try view.range(index) { (object, _) in
            ids.append(object)
            return true
        }
        return ids
    }

    @Test func aLongKeyIsFoundInAStateOfThePast() throws {
        let engine = try machine.create()
        let title = String(repeating: "long ", count: 70)
        let id = try engine.commit { try $0.insert(entity: 1, EngineNote.row(title, 1)) }.result
        let number = try engine.view().number
        _ = try engine.insertNotes(1...3)
        var key = ByteWriter(capacity: 256)
        try IndexKey.append(values: [.string(title)], types: [.string], to: &key)
        #expect(try engine.view().first(EngineNote.titleIndex, key: Array(key.bytes)) == id)
        #expect(try engine.view(asOf: number).first(EngineNote.titleIndex, key: Array(key.bytes)) == id)
        try machine.closeAndCheck(engine)
    }

    @Test func anObjectInsertedAndDeletedInOneTransactionDoesNotExist() throws {
        let engine = try machine.create()
        _ = try engine.commit { transaction in
            let id = try transaction.insert(entity: 1, EngineNote.row("a", 1))
            try transaction.delete(id)
            for attempt in 0..<2 {
                do throws(StoreError) {
                    if attempt == 0 {
                        try transaction.delete(id)
                    } else {
                        try transaction.update(id, [(EngineNote.rank, .int(2))])
                    }
                    Issue.record("an object that is not there was changed")
                } catch { #expect(error.code == .objectNotFound) }
            }
        }
        try machine.closeAndCheck(engine)
    }

    @Test func failedTransactionsLeaveNoGapsInObjectNumbers() throws {
        let engine = try machine.create()
        var ids = try engine.insertNotes(1...3)
        struct Stop: Error {}
        _ = try? engine.commit { transaction in
            for number in 0..<50 { _ = try transaction.insert(entity: 1, EngineNote.row("abandoned \(number)", 1)) }
            throw Stop()
        }
        _ = try? engine.commit { try $0.insert(entity: 1, EngineNote.row("note 1", 1)) }
        _ = try engine.commit { transaction in
            // The title is missing.
            _ = try? transaction.insert(entity: 1, [.absent, .int(1), .absent])
            ids.append(try transaction.insert(entity: 1, EngineNote.row("a", 1)))
        }
        ids += try engine.insertNotes(4...300)
        #expect(ids.map(\.number) == Array(1...UInt64(ids.count)))
        try machine.closeAndCheck(engine)
    }

    @Test func aSchemaChangeRunsAgainIfAnotherIsCommittedFirst() throws {
        let engine = try machine.create()
        let other = try machine.open(2)
        _ = try engine.insertNotes(1...3)
        var runs = 0
        _ = try engine.commit { transaction in
            runs += 1
            var definition = transaction.catalog.newestLayout(entity: 1)?.layout.entity ?? EngineNote.definition
            definition.attributes[EngineNote.body].flags.insert(.indexed)
            for number in UInt16(10)..<20 {
                definition.attributes.append(
                    AttributeDefinition(number: number, type: .uuid, flags: [.optional], name: "more \(number)"))
            }
            try transaction.changeSchema([definition])
            guard runs == 1 else { return }
            // Rows of the other's second version are shorter than those of this one's.
            var renamed = EngineNote.definition
            renamed.name = IdentifierName("Renamed")
            _ = try other.commit {
                try $0.changeSchema([renamed])
                _ = try $0.insert(entity: 1, EngineNote.row("of the other", 1))
            }
        }
        #expect(runs == 2)
        #expect(try engine.view().catalog.number(ofEntity: "Renamed") == 1)
        #expect(try engine.view().titles().count == 4)
        try other.close()
        try machine.closeAndCheck(engine)
    }
}
