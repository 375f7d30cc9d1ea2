// The engine as a whole: what is committed is found, in every view that contains it and in no other, also after opening
// again.

import Annals
import SimulatedDisk
import Testing

@Suite struct EngineTests {
    @Test func insertedObjectsAreFoundAfterReopening() throws {
        let machine = EngineMachine()
        var engine = try machine.create()
        let ids = try engine.insertNotes(1...1500)
        try engine.close()
        engine = try machine.open()
        let view = try engine.view()
        #expect(try view.count(entity: EngineNote.entity) == 1500)
        for (index, id) in ids.enumerated() { #expect(try view.title(id) == "note \(index + 1)") }
        try machine.closeAndCheck(engine)
    }

    @Test func viewsDoNotChange() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...10)
        let before = try engine.view()
        _ = try engine.commit { transaction in
            try transaction.update(ids[0], [(EngineNote.title, .string("changed"))])
            try transaction.delete(ids[1])
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("new", 99))
        }
        let after = try engine.view()
        #expect(try before.title(ids[0]) == "note 1")
        #expect(try after.title(ids[0]) == "changed")
        #expect(try before.title(ids[1]) == "note 2")
        #expect(try after.title(ids[1]) == nil)
        #expect(try before.titles().count == 10)
        #expect(try after.titles() == ["changed"] + (3...10).map { "note \($0)" } + ["new"])
        #expect(try engine.view(asOf: before.number).titles() == before.titles())
        try machine.closeAndCheck(engine)
    }

    @Test func anIndexIsReadInBothDirections() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...300)
        _ = try engine.commit { transaction in
            for id in ids where id.number % 3 == 0 { try transaction.delete(id) }
            for id in ids where id.number % 3 == 1 {
                try transaction.update(id, [(EngineNote.rank, .int(1000 - Int64(id.number)))])
            }
        }
        let expected = ids.filter { $0.number % 3 != 0 }.sorted {
            EngineNote.expectedRank($0) < EngineNote.expectedRank($1)
        }
        let view = try engine.view()
        #expect(try view.byRank() == expected)
        #expect(try view.byRank(reversed: true) == expected.reversed())
        try machine.closeAndCheck(engine)
        let again = try machine.open()
        #expect(try again.view().byRank() == expected)
        try machine.closeAndCheck(again)
    }

    @Test func aDuplicateValueIsRefusedAndNothingIsWritten() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...3)
        let before = engine.log.current.end
        #expect(throws: StoreError.self) {
            _ = try engine.commit { transaction in
                try transaction.update(ids[2], [(EngineNote.title, .string("note 1"))])
            }
        }
        #expect(engine.log.current.end == before)
        _ = try engine.commit { transaction in
            // The two exchange their titles.
            try transaction.update(ids[0], [(EngineNote.title, .string("note 2"))])
            try transaction.update(ids[1], [(EngineNote.title, .string("note 1"))])
        }
        #expect(try engine.view().title(ids[0]) == "note 2")
        try machine.closeAndCheck(engine)
    }

    @Test func anObjectChangedTwiceInATransactionIsOneChange() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...4)
        let (inserted, appended) = try engine.commit { transaction in
            let id = try transaction.insert(entity: EngineNote.entity, EngineNote.row("twice", 7))
            try transaction.update(id, [(EngineNote.rank, .int(8))])
            try transaction.update(ids[0], [(EngineNote.rank, .int(70))])
            try transaction.update(ids[0], [(EngineNote.title, .string("renamed"))])
            try transaction.update(ids[1], [(EngineNote.rank, .int(71))])
            try transaction.delete(ids[1])
            let gone = try transaction.insert(entity: EngineNote.entity, EngineNote.row("gone", 9))
            try transaction.delete(gone)
            return id
        }
        let view = try engine.view()
        #expect(try view.title(inserted) == "twice")
        #expect(try view.rank(inserted) == 8)
        #expect(try view.rank(ids[0]) == 70)
        #expect(try view.title(ids[0]) == "renamed")
        var changes: [ChangeKind] = []
        try engine.tracked(view).forEachTransaction(after: (appended?.number ?? 0) - 1) {
            (transaction) throws(StoreError) in
            try transaction.forEachChange { (change) in
                changes.append(change.kind)
                return true
            }
            return true
        }
        #expect(changes.sorted { $0.rawValue < $1.rawValue } == [.insert, .update, .delete])
        try machine.closeAndCheck(engine)
    }

    @Test func anotherProcessSeesCommittedChanges() throws {
        let machine = EngineMachine()
        let first = try machine.create()
        let second = try machine.open(2)
        let ids = try first.insertNotes(1...700)
        #expect(try second.view().titles().count == 700)
        _ = try second.commit { transaction in
            for id in ids.prefix(300) { try transaction.delete(id) }
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("of the second", 1))
        }
        #expect(try first.view().titles().count == 401)
        try second.close()
        try machine.closeAndCheck(first)
    }

    @Test func aTransactionFromAnOldStateRunsAgain() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let other = try machine.open(2)
        let ids = try engine.insertNotes(1...2)
        var runs = 0
        _ = try engine.commit { transaction in
            runs += 1
            var rank: Int64 = 0
            _ = try transaction.withRow(ids[0]) { (row) in rank = row.int(at: EngineNote.rank) ?? 0 }
            if runs == 1 {
                _ = try other.commit { try $0.update(ids[0], [(EngineNote.rank, .int(500))]) }
            }
            try transaction.update(ids[0], [(EngineNote.rank, .int(rank + 1))])
        }
        #expect(runs == 2)
        #expect(try engine.view().rank(ids[0]) == 501)
        try other.close()
        try machine.closeAndCheck(engine)
    }

    @Test func numbersUsedByAnotherProcessAreNotUsedAgain() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let other = try machine.open(2)
        var runs = 0
        _ = try engine.commit { transaction in
            runs += 1
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("first of \(runs)", nil))
            if runs == 1 {
                _ = try other.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("other", nil)) }
                // Takes the next numbers, so that this transaction's do not follow each other.
                _ = try engine.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("between", nil)) }
            }
            _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("second of \(runs)", nil))
        }
        #expect(runs == 2)
        #expect(try engine.view().titles() == ["other", "between", "first of 2", "second of 2"])
        try other.close()
        try machine.closeAndCheck(engine)
    }

    @Test func reservedNumbersAreNotUsedByAnotherTransaction() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let other = try machine.open(2)
        let note = EngineNote.entity
        var reserved: ObjectID?
        var runs = (0, 0)
        _ = try engine.commit { transaction in
            runs.0 += 1
            // Draws the number that the other one reserves.
            let id = try transaction.insert(entity: note, EngineNote.row("drawn", nil))
            if runs.0 == 1 {
                let first = try other.reserveObjects(of: note, count: 3)
                #expect(first == id)
                reserved = first
            }
        }
        let first = try #require(reserved)
        #expect(runs.0 == 2 && first.number == 1)
        // The same in one handle: numbers that are drawn already are not reserved.
        _ = try other.commit { transaction in
            runs.1 += 1
            let id = try transaction.insert(entity: note, EngineNote.row("between", nil))
            if runs.1 == 1 { #expect(try other.reserveObjects(of: note, count: 2).number == id.number + 1) }
        }
        #expect(runs.1 == 2)
        // Each is inserted once, by anybody who claims it, in any order.
        let last = try #require(ObjectID(entityNumber: note, number: first.number + 2))
        _ = try other.commit { transaction in
            try transaction.claim(last)
            try transaction.insert(reserved: last, EngineNote.row("claimed", 7))
        }
        for id in [last, try #require(ObjectID(entityNumber: note, number: 1000))] {
            #expect(throws: StoreError.self) { try other.commit { try $0.claim(id) } }
        }
        var claims = 0
        #expect(throws: StoreError.self) {
            try engine.commit { transaction in
                claims += 1
                try transaction.claim(first)
                try transaction.insert(reserved: first, EngineNote.row("twice", nil))
                if claims == 1 {
                    _ = try other.commit { transaction in
                        try transaction.claim(first)
                        try transaction.insert(reserved: first, EngineNote.row("once", nil))
                    }
                }
            }
        }
        #expect(try engine.view().titles() == ["once", "claimed", "drawn", "between"])
        try other.close()
        try engine.close()
        // What was reserved and not used is not given again after opening anew.
        let again = try machine.open()
        let id = try again.commit { try $0.insert(entity: note, EngineNote.row("new", nil)) }.result
        #expect(id.number == 9)
        try machine.closeAndCheck(again)
    }

    /// Rows from before an attribute existed read as the newest default says, and so must the index over it.
    @Test(arguments: [false, true]) func anIndexFollowsAChangedDefault(_ isByAnother: Bool) throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let other = try machine.open(2)
        let ids = try engine.insertNotes(1...3)
        var changed = EngineNote.definition
        for value: UInt8 in [7, 200, 1] {
            changed.attributes.removeAll { $0.number == 4 }
            changed.attributes.append(
                AttributeDefinition(
                    number: 4, type: .int, flags: [.indexed], name: "added",
                    defaultValue: [value, 0, 0, 0, 0, 0, 0, 0]))
            _ = try (isByAnother ? other : engine).commit { transaction in
                try transaction.changeSchema([changed])
                _ = try transaction.insert(
                    entity: EngineNote.entity, EngineNote.row("with \(value)", nil) + [.int(100)])
            }
            var order: [ObjectID] = []
            let index = IndexID(entity: EngineNote.entity, attributes: [4], isUnique: false)
            try engine.view().range(index) { (object, _) in
                order.append(object)
                return true
            }
            #expect(Array(value > 100 ? order.suffix(3) : order.prefix(3)) == ids, "\(value)")
            try engine.writeCheckpoint()
            try expectIntact(machine.machine.disk)
        }
        try other.close()
        try machine.closeAndCheck(engine)
    }

    /// The addresses asked for are refused, a sixteenth, and half of them: of the 64 MiB that are given it takes a
    /// quarter.
    @Test func aStoreThatOutgrowsItsAddressesIsOpenedAgain() throws {
        var machine = EngineMachine()
        machine.options.log.limits.mappingReserveBytes = 256 << 20
        for call in 1...3 { machine.machine.disk.addFault(Fault(.failure(12), on: .map, occurrence: call)) }
        var engine = try machine.create()
        machine.machine.disk.removeAllFaults()
        let body = [UInt8](repeating: 7, count: 1 << 20)
        func insert(_ number: Int) throws {
            _ = try engine.commit { transaction in
                try transaction.insert(
                    entity: EngineNote.entity, [.string("\(number)"), .int(Int64(number)), .data(body)])
            }
        }
        var inserted = 0
        let error = #expect(throws: StoreError.self) {
            while inserted < 20 {
                try insert(inserted)
                inserted += 1
            }
        }
        #expect(error?.code == .tooLarge)
        #expect(error?.message.hasSuffix("open it again.") == true, "\(error?.message ?? "")")
        #expect(inserted > 12)
        #expect(try engine.view().count(entity: EngineNote.entity) == UInt64(inserted))
        try engine.close()
        engine = try machine.open()
        try insert(inserted)
        #expect(try engine.view().count(entity: EngineNote.entity) == UInt64(inserted + 1))
        try machine.closeAndCheck(engine)
    }
}
