// A transaction begins with the memory of the one that ended before it: nothing of that one may be left in it.

import Annals
import SimulatedDisk
import Testing

@Suite struct EngineReuseTests {
    private struct Refused: Error {}

    @Test func eachTransactionHasItsOwnAuthorAndContext() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let names: [(author: String?, context: String?)] = [
            ("a", "x"), ("a", "x"), (nil, nil), ("a", nil), ("b", "x"), (nil, "x"), ("a", "x"),
        ]
        for (index, name) in names.enumerated() {
            _ = try engine.commit(author: name.author, context: name.context) { transaction in
                // One of them is given another name by its own body, as a caller may.
                if index == 4 { transaction.author = "c" }
                return try transaction.insert(
                    entity: EngineNote.entity, EngineNote.row("note \(index)", Int64(index)))
            }
        }
        var found: [String] = []
        try engine.tracked(try engine.view()).forEachTransaction(after: 0) { (transaction) throws(StoreError) in
            found.append("\(transaction.author ?? "-") \(transaction.context ?? "-")")
            return true
        }
        #expect(found.suffix(names.count) == ["a x", "a x", "- -", "a -", "c x", "- x", "a x"])
        try machine.closeAndCheck(engine)
    }

    @Test func anAbandonedTransactionLeavesNothing() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...3)
        #expect(throws: Refused.self) {
            _ = try engine.commit { transaction in
                _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("abandoned", 0))
                try transaction.update(ids[0], [(EngineNote.title, .string("abandoned too"))])
                try transaction.delete(ids[1])
                throw Refused()
            }
        }
        let (new, _) = try engine.commit { transaction in
            #expect(ids.allSatisfy { !transaction.isChangedHere($0) })
            return try transaction.insert(entity: EngineNote.entity, EngineNote.row("new", 4))
        }
        #expect(new.number == 4, "the number of the abandoned object is given again")
        #expect(try engine.view().titles() == ["note 1", "note 2", "note 3", "new"])
        try machine.closeAndCheck(engine)
    }

    @Test func aTransactionThatIsKeptIsNotUsedAgain() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        var kept: [Draft] = []
        for number in 1...3 {
            _ = try engine.commit { transaction in
                #expect(kept.allSatisfy { $0 !== transaction })
                kept.append(transaction)
                return try transaction.insert(
                    entity: EngineNote.entity, EngineNote.row("note \(number)", Int64(number)))
            }
        }
        #expect(try engine.view().titles() == ["note 1", "note 2", "note 3"])
        try machine.closeAndCheck(engine)
    }

    @Test func aTransactionMayCommitInsideAnother() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        for round in 0..<3 {
            _ = try engine.commit { outer in
                _ = try outer.insert(entity: EngineNote.entity, EngineNote.row("outer \(round)", nil))
                // Where the outer one runs again, the inner one is there already.
                guard try engine.view().titles().filter({ $0 == "inner \(round)" }).isEmpty else { return }
                _ = try engine.commit { inner in
                    #expect(inner !== outer)
                    _ = try inner.insert(entity: EngineNote.entity, EngineNote.row("inner \(round)", nil))
                }
            }
        }
        let expected = (0..<3).flatMap { ["inner \($0)", "outer \($0)"] }
        #expect(try engine.view().titles().sorted() == expected.sorted())
        #expect(try engine.view().count(entity: EngineNote.entity) == 6)
        try machine.closeAndCheck(engine)
    }

    @Test func objectsAreCountedForEachEntity() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let other = EntityDefinition(
            number: 7, name: "Other", attributes: [AttributeDefinition(number: 1, type: .int, name: "value")])
        _ = try engine.commit { try $0.changeSchema([other]) }
        var views: [View] = []
        for round in 0..<10 {
            _ = try engine.commit { transaction in
                for number in 0..<3 where (round + number) % 3 != 0 {
                    _ = try transaction.insert(
                        entity: EngineNote.entity, EngineNote.row("note \(round) \(number)", nil))
                    _ = try transaction.insert(entity: other.number, [.int(Int64(number))])
                    _ = try transaction.insert(entity: other.number, [.int(Int64(number))])
                }
            }
            views.append(try engine.view())
        }
        for (round, view) in views.enumerated() {
            #expect(try view.count(entity: EngineNote.entity) == UInt64(round + 1) * 2)
            #expect(try view.count(entity: other.number) == UInt64(round + 1) * 4)
        }
        try machine.closeAndCheck(engine)
        let again = try machine.open()
        #expect(try again.view().count(entity: EngineNote.entity) == 20)
        #expect(try again.view().count(entity: other.number) == 40)
        try machine.closeAndCheck(again)
    }
}
