// A background save beside everything else that a context does: the table of SaveInFlight.swift, by enumeration.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Pair: Entity {
    /// The context sets it.
    var a = 0
    /// The other writer sets it.
    var b = 0
}

private struct Member: Entity {
    var name = ""
    var age = 0
    static let schema = Schema<Member> { Attribute(\.name, .unique) }
}

@Suite struct SaveInFlightTests {
    /// After an edit has begun to be saved: every sequence of four operations.
    @MainActor @Test func everySequenceOfOperationsEndsWell() async throws {
        let all = Operation.allCases
        for number in 0..<all.count * all.count * all.count * all.count {
            let run = try Run()
            var (rest, sequence): (Int, [Operation]) = (number, [.edit, .begin])
            for _ in 0..<4 {
                sequence.append(all[rest % all.count])
                rest /= all.count
            }
            do {
                for operation in sequence { try await run.step(operation) }
                try await run.end()
            } catch {
                Issue.record("\(sequence.map(\.rawValue)): \(error)")
                return
            }
        }
    }

    private enum Operation: String, CaseIterable {
        case edit, other, merge, rollback, save, write, cancel, begin
    }

    /// What a context with one object shows, and what its store has.
    @MainActor private final class Run {
        private let store: Store
        private let context: Context
        private let thing: Object<Pair>
        private var gate: Gate
        private var tasks: [Task<HistoryToken, any Error>] = []
        private var (next, committed, shown, storeB, shownB) = (1, 0, 0, 0, 0)
        private var flight: Int?
        private var isWritten = false
        /// Whether the other writer was faster than the save: then it is worked out again when the actor is free.
        private var isOvertaken = false

        init() throws {
            store = try Store(inMemory: [Pair.self])
            context = store.makeContext(author: "context")
            thing = context.insert(Pair())
            try context.save()
            gate = Gate(store)
        }

        func step(_ operation: Operation) async throws {
            switch operation {
            case .edit:
                next += 1
                thing.a = next
                shown = next
            case .other:
                next += 1
                let (reference, value) = (thing.objectReference, next)
                try writeAtOnce(store) { try $0.update(reference) { $0.b = value } }
                storeB = next
                if !isWritten { isOvertaken = true }
            case .merge:
                try context.merge()
                shownB = storeB
                if isWritten { land() }
            case .rollback:
                context.rollback()
                shown = flight ?? committed
            case .save:
                try context.save()
                if flight != nil || shown != committed { shownB = storeB }
                (committed, flight, isWritten) = (shown, nil, false)
            case .write: try write()
            case .cancel: await cancel()
            case .begin: await begin()
            }
            try check("\(operation)")
        }

        private func land() { (committed, flight, isWritten) = (flight ?? committed, nil, false) }

        private func begin() async {
            if flight != nil { return }
            for task in tasks { _ = await task.result }
            var hasBegun = false
            tasks = [
                Task {
                    hasBegun = true
                    return try await context.saveInBackground()
                }
            ]
            // It goes on at once to where it waits for the store's thread.
            while !hasBegun { await Task.yield() }
            if shown != committed { (flight, isOvertaken) = (shown, false) }
        }

        /// The transaction is written, and the context does not know it yet.
        private func write() throws {
            guard flight != nil, !isWritten else { return }
            let before = try store.currentToken.number
            let former = gate
            former.open()
            gate = Gate(store)
            isWritten = try store.currentToken.number > before
            if isWritten == isOvertaken { throw OracleDifference("written: \(isWritten)") }
        }

        private func cancel() async {
            for task in tasks {
                task.cancel()
                _ = await task.result
            }
            tasks = []
            if isWritten {
                land()
                shownB = storeB
            }
            flight = nil
        }

        private func check(_ place: String) throws {
            guard thing.a == shown, thing.b == shownB else {
                throw OracleDifference("after \(place): a is \(thing.a), not \(shown); b is \(thing.b), not \(shownB)")
            }
            if context.hasChanges != (shown != flight ?? committed) {
                throw OracleDifference("after \(place): hasChanges is \(context.hasChanges)")
            }
        }

        func end() async throws {
            gate.open()
            for task in tasks {
                do { _ = try await task.value } catch is CancellationError {}
            }
            if let flight { committed = flight }
            flight = nil
            try context.merge()
            shownB = storeB
            try check("the end")
            try context.save()
            let values = try #require(try store.snapshot()[thing.objectReference])
            guard values.a == shown, values.b == storeB else {
                throw OracleDifference("the store has a \(values.a), not \(shown), and b \(values.b), not \(storeB)")
            }
            for transaction in try store.history(HistoryRequest(authors: ["context"])) {
                for change in transaction.changes where change.kind == .update {
                    if change.attributes != ["a"] {
                        throw OracleDifference("the context has written \(change.attributes)")
                    }
                }
            }
            context.close()
            try store.close()
        }
    }

    @MainActor @Test func twoSavesAtOnceInsertAnObjectOnce() async throws {
        let store = try Store(inMemory: [Member.self])
        let context = store.makeContext()
        let alice = context.insert(Member(name: "Alice"))
        let saves = (1...3).map { _ in Task { try await context.saveInBackground() } }
        for save in saves { _ = try await save.value }
        #expect(try store.snapshot().count(Member.self) == 1)
        #expect(try context.fetch(Member.self).map(\.objectReference) == [alice.objectReference])
        #expect(!alice.objectStatus.isInserted && !context.hasChanges)
        context.close()
        try store.close()
    }

    @MainActor @Test func aListShowsANewObjectOnceWhileTheContextFollows() async throws {
        let store = try Store(inMemory: [Member.self])
        let context = store.makeContext()
        let list = try context.results(Member.self)
        var (doubles, gone) = (0, 0)
        list.onChange = { _ in
            if Set(list.map(\.name)).count < list.count { doubles += 1 }
            gone += list.count { $0.objectStatus.isGone }
        }
        try context.follow()
        for number in 0..<200 {
            context.insert(Member(name: "\(number)"))
            try await context.saveInBackground()
        }
        #expect(doubles == 0 && gone == 0 && list.count == 200)
        context.close()
        try store.close()
    }

    /// An inserted object while its save is under way, or was written without the context knowing.
    @MainActor @Test(arguments: [false, true]) func aNewObjectCanBeChangedWhileItIsSaved(isWritten: Bool) async throws {
        let store = try Store(inMemory: [Member.self])
        for change in 0..<7 {
            let context = store.makeContext()
            let gate = Gate(store)
            let person = context.insert(Member(name: "\(change)", age: 1))
            let save = Task { try await context.saveInBackground() }
            while context.hasChanges { await Task.yield() }
            #expect(
                !context.hasChanges && !person.objectStatus.isInserted && context.insertedObjects(Member.self).isEmpty)
            let before = try store.currentToken.number
            if isWritten {
                gate.open()
                while try store.currentToken.number == before {}
                if change % 2 == 1 { try context.merge() }
            }
            switch change {
            case 0: person.age = 2
            case 1: context.delete(person)
            case 2: context.rollback()
            case 3: context.discard(person)
            case 4: try context.refresh(person, keepingEdits: false)
            case 5:
                context.delete(person)
                context.rollback()
            default:
                person.age = 3
                try context.save()
            }
            let found = try context.fetch(Member.self, where: #Predicate { $0.age > 0 })
            #expect(found.contains { $0 === person } == (change != 1))
            gate.open()
            _ = try await save.value
            try context.save()
            let there = try store.snapshot()[person.objectReference]
            #expect(there?.age == [2, nil, 1, 1, 1, 1, 3][change], "change \(change)")
            #expect(!context.hasChanges)
            context.close()
        }
        try store.close()
    }

    /// What failed is unsaved again, as it was, with what was done meanwhile.
    @MainActor @Test func changesThatWereNotWrittenAreUnsavedAgain() async throws {
        let store = try Store(inMemory: [Member.self])
        let context = store.makeContext()
        context.undoLevels = 5
        let (old, gone) = (context.insert(Member(name: "old", age: 1)), context.insert(Member(name: "gone")))
        try context.save()
        for end in 0..<2 {
            let gate = Gate(store)
            let new = context.insert(Member(name: "taken", age: 1))
            old.age = 2
            context.delete(gone)
            let save = Task { try await context.saveInBackground() }
            while context.hasChanges { await Task.yield() }
            #expect(gone.objectStatus.isGone && !context.hasChanges)
            new.age = 5
            let reference = old.objectReference
            try writeAtOnce(store) { try $0.update(reference) { $0.name = "renamed" } }
            try context.merge()
            #expect(old.name == "renamed" && old.age == 2)
            if end == 0 {
                save.cancel()
                await #expect(throws: CancellationError.self) { try await save.value }
                gate.open()
            } else {
                let other = try writeAtOnce(store) { try $0.insert(Member(name: "taken")) }
                gate.open()
                await #expect(throws: StoreError.self) { try await save.value }
                try writeAtOnce(store) { try $0.delete(other) }
            }
            #expect(new.objectStatus.isInserted && new.age == 5)
            #expect(old.objectStatus.changedValues == ["age": .int(2)] && old.name == "renamed")
            #expect(gone.objectStatus.isDeleted)
            context.rollback()
            #expect(old.age == 1 && !gone.objectStatus.isGone && new.objectStatus.isGone && !context.hasChanges)
            try writeAtOnce(store) { try $0.update(reference) { $0.name = "old" } }
            try context.merge()
        }
        context.close()
        try store.close()
    }
}
