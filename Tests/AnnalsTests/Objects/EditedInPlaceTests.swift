// A collection or a text of an object is changed in place, while others write, saves are on their way, and edits are
// taken back: as if the property had been set.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@MainActor @Suite struct EditedInPlaceTests {
    struct Bag: Entity, Equatable {
        var tags = ["a"]
        var counts = ["a": 1]
        var ids: Set<Int> = [1]
        var text = "t"
        var number = 5
    }

    /// A change of one property in place, of an object and of a value. Each time it is made, the property differs.
    struct Edit: CustomTestStringConvertible, Sendable {
        let attribute: String
        let object: @MainActor @Sendable (Object<Bag>, Int) -> Void
        let value: @Sendable (inout Bag, Int) -> Void
        var testDescription: String { attribute }
    }

    nonisolated static let edits = [
        Edit(attribute: "tags", object: { $0.tags.append("\($1)") }, value: { $0.tags.append("\($1)") }),
        Edit(
            attribute: "counts", object: { $0.counts["z", default: 7] += $1 },
            value: { $0.counts["z", default: 7] += $1 }),
        Edit(attribute: "ids", object: { $0.ids.insert($1) }, value: { $0.ids.insert($1) }),
        Edit(attribute: "text", object: { $0.text.append("\($1)") }, value: { $0.text.append("\($1)") }),
    ]

    let folder: StoreFolder
    let store: Store
    let context: Context
    let bag: Object<Bag>

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Bag.self])
        context = store.makeContext(author: "app")
        context.undoLevels = 20
        bag = context.insert(Bag())
        try context.save()
        context.removeAllUndoActions()
    }

    private func end() throws {
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    private func value(_ edit: Edit, _ numbers: Int..., from value: Bag = Bag()) -> Bag {
        var value = value
        for number in numbers { edit.value(&value, number) }
        return value
    }

    private var shown: Bag { bag.objectStatus.snapshot }

    private func stored() throws -> Bag { try #require(try store.snapshot()[bag.objectReference]) }

    private func write(_ change: (inout Bag) -> Void) throws {
        try writeAtOnce(store) { try $0.update(bag.objectReference, change) }
    }

    // MARK: Merging

    @Test(arguments: edits) func editsAreMergedWithAChangeOfAnotherProperty(_ edit: Edit) throws {
        edit.object(bag, 2)
        try write { $0.number = 6 }
        try context.merge()
        var wanted = value(edit, 2)
        wanted.number = 6
        #expect(shown == wanted && Array(bag.objectStatus.changedValues.keys) == [edit.attribute])
        // Once more on what was merged, and merged once more.
        edit.object(bag, 3)
        try write { $0.number = 7 }
        try context.merge()
        let token = try context.save()
        wanted = value(edit, 2, 3)
        wanted.number = 7
        #expect(try shown == wanted && stored() == wanted)
        let changes = try store.history(HistoryRequest(authors: ["app"])).filter { $0.number == token.number }
        #expect(changes.flatMap(\.changes).map(\.attributes) == [[edit.attribute]])
        // What is undone is what was done here.
        try context.undo()
        #expect(shown == Bag(number: 7))
        try context.redo()
        #expect(shown == wanted && !context.hasChanges)
        try end()
    }

    @Test(arguments: edits, MergePolicy.allCases)
    func thePolicyDecidesIfAnotherWriterChangesTheSameProperty(_ edit: Edit, _ policy: MergePolicy) throws {
        context.mergePolicy = policy
        edit.object(bag, 2)
        try write { edit.value(&$0, 9) }
        try context.merge()
        #expect(shown == value(edit, 2))
        edit.object(bag, 3)
        let (mine, theirs) = (value(edit, 2, 3), value(edit, 9))
        #expect(shown == mine)
        if policy == .error {
            let error = expect(.mergeConflict) { try context.save() }
            #expect(error?.mergeConflicts.map(\.attribute) == [edit.attribute])
            #expect(try shown == mine && stored() == theirs)
            try context.refresh(bag, keepingEdits: true)
            #expect(shown == mine)
            edit.object(bag, 4)
            try context.save()
            #expect(try stored() == value(edit, 2, 3, 4))
        } else {
            try context.save()
            let wanted = policy == .storeWins || policy == .rollback ? theirs : mine
            #expect(try stored() == wanted && shown == wanted)
        }
        #expect(!context.hasChanges)
        try end()
    }

    @Test(arguments: edits) func theSameChangeByAnotherWriterIsNoConflict(_ edit: Edit) throws {
        edit.object(bag, 2)
        try write { edit.value(&$0, 2) }
        try context.merge()
        #expect(!context.hasChanges && shown == value(edit, 2))
        edit.object(bag, 3)
        try context.save()
        #expect(try stored() == value(edit, 2, 3))
        try end()
    }

    @Test(arguments: edits) func editsStayIfAnotherWriterDeletesTheObject(_ edit: Edit) throws {
        edit.object(bag, 2)
        try writeAtOnce(store) { try $0.delete(bag.objectReference) }
        try context.merge()
        // The edits stay until they are saved, and more can be made.
        edit.object(bag, 3)
        #expect(shown == value(edit, 2, 3) && !bag.objectStatus.isGone)
        expect(.mergeConflict) { try context.save() }
        context.mergePolicy = .objectWins
        try context.save()
        #expect(try stored() == value(edit, 2, 3))
        // Without edits it is gone, and a change in place is none.
        try writeAtOnce(store) { try $0.delete(bag.objectReference) }
        try context.merge()
        edit.object(bag, 4)
        #expect(shown == value(edit, 2, 3) && bag.objectStatus.isGone)
        expect(.objectGone) { try context.save() }
        try end()
    }

    // MARK: Taking back

    @Test(arguments: edits) func editsAreUndoneAndRolledBack(_ edit: Edit) throws {
        for number in 2...4 { context.undoGroup { edit.object(bag, number) } }
        for (number, wanted) in [value(edit, 2, 3), value(edit, 2), Bag()].enumerated() {
            try context.undo()
            #expect(shown == wanted, "\(number)")
        }
        #expect(!context.hasChanges)
        for wanted in [value(edit, 2), value(edit, 2, 3)] {
            try context.redo()
            #expect(shown == wanted)
        }
        // Others change another property and the same one.
        try write { $0.number = 6 }
        try context.merge()
        context.rollback()
        #expect(shown == Bag(number: 6) && !context.hasChanges)
        try context.undo()
        #expect(shown == value(edit, 2, 3, from: Bag(number: 6)))
        try context.save()
        try write { edit.value(&$0, 9) }
        try context.merge()
        expect(.undoConflict) { try context.undo() }
        edit.object(bag, 5)
        context.discard(bag)
        #expect(try shown == stored() && shown == value(edit, 2, 3, 9, from: Bag(number: 6)))
        try end()
    }

    // MARK: Saving in the background

    /// Edits go on while a save is on its way: it lands or fails, alone, or when others have written, too.
    @Test(arguments: edits, [false, true])
    func editsContinueDuringASave(_ edit: Edit, _ othersWrite: Bool) async throws {
        for end in ["lands", "rolled back", "undone", "cancelled", "cancelled and rolled back", "saved"] {
            let before = shown
            let gate = Gate(store)
            edit.object(bag, 2)
            let save = Task { try await context.saveInBackground() }
            while context.hasChanges { await Task.yield() }
            edit.object(bag, 3)
            edit.object(bag, 4)
            var wanted = value(edit, 2, 3, 4, from: before)
            #expect(shown == wanted && Array(bag.objectStatus.changedValues.keys) == [edit.attribute], "\(end)")
            if othersWrite {
                try write { $0.number += 1 }
                try context.merge()
                wanted.number += 1
                #expect(shown == wanted, "\(end)")
            }
            let first = value(edit, 2, from: othersWrite ? Self.with(before, before.number + 1) : before)
            switch end {
            case "rolled back":
                context.rollback()
                wanted = first
            case "undone":
                try context.undo()
                wanted = first
            case "saved": try context.save()
            default: break
            }
            #expect(shown == wanted, "\(end)")
            if end.hasPrefix("cancelled") {
                save.cancel()
                await #expect(throws: CancellationError.self) { try await save.value }
                gate.open()
                #expect(shown == wanted && context.hasChanges, "\(end)")
                if end == "cancelled and rolled back" {
                    context.rollback()
                    wanted = Self.with(before, wanted.number)
                    #expect(shown == wanted && !context.hasChanges, "\(end)")
                }
            } else {
                gate.open()
                _ = try await save.value
                let isWhole = end == "saved" || shown == first
                #expect(try shown == wanted && stored() == (isWhole ? wanted : first), "\(end)")
                #expect(context.hasChanges != isWhole, "\(end)")
            }
            edit.object(bag, 5)
            try context.save()
            edit.value(&wanted, 5)
            #expect(try shown == wanted && stored() == wanted && !context.hasChanges, "\(end)")
            // Again from the beginning, and nothing to undo.
            bag.objectUpdate { $0 = Bag() }
            try context.save()
            context.removeAllUndoActions()
        }
        try end()
    }

    private func slowly<V>(
        _ value: inout V, _ meanwhile: () async throws -> Void, _ change: (inout V) -> Void
    ) async rethrows {
        try await meanwhile()
        change(&value)
    }

    /// Another context that follows the store shows when there was something to be merged.
    @Test func followingWaitsForAChangeThatTakesLong() async throws {
        let (bag, other) = (bag, store.makeContext())
        let same = try other.object(bag.objectReference)
        try context.follow()
        try other.follow()
        try await slowly(&bag.tags) {
            try write { $0.number = 6 }
            while same.number != 6 { await Task.yield() }
            #expect(bag.number == 5)
        } _: {
            $0.append("b")
        }
        while bag.number != 6 { await Task.yield() }
        #expect(bag.tags == ["a", "b"])
        try await slowly(&bag.number) {
            try write { $0.text = "u" }
            while same.text != "u" { await Task.yield() }
            #expect(bag.text == "t")
        } _: {
            $0 += 1
        }
        while bag.text != "u" { await Task.yield() }
        #expect(bag.number == 7)
        try context.save()
        other.close()
        try end()
    }

    @Test func aSaveThatHasEndedWaitsForAChangeThatTakesLong() async throws {
        let (bag, gate) = (bag, Gate(store))
        bag.text = "u"
        let save = Task { try await context.saveInBackground() }
        while context.hasChanges { await Task.yield() }
        await slowly(&bag.tags) {
            gate.open()
            while (try? stored().text) != "u" { await Task.yield() }
        } _: {
            $0.append("b")
        }
        _ = try await save.value
        #expect(bag.tags == ["a", "b"] && bag.text == "u" && bag.objectStatus.changedValues.count == 1)
        try context.save()
        try end()
    }

    private static func with(_ value: Bag, _ number: Int) -> Bag {
        var value = value
        value.number = number
        return value
    }

    /// Saves begin and land between edits, and others write.
    @Test(arguments: edits) func noEditIsLostInManySaves(_ edit: Edit) async throws {
        var wanted = shown
        for number in 10..<40 {
            edit.object(bag, number)
            edit.value(&wanted, number)
            let save = Task { try await context.saveInBackground() }
            edit.object(bag, number + 100)
            edit.value(&wanted, number + 100)
            if number % 3 == 0 {
                try write { $0.number += 1 }
                wanted.number += 1
                try context.merge()
            }
            #expect(shown == wanted)
            _ = try await save.value
        }
        try context.save()
        #expect(try shown == wanted && stored() == wanted)
        try end()
    }
}
