// An object of a context whose place another one has taken, by its unique value: whatever is called with it, there is
// one object for an ID, and the lists show what fetching finds.

import Annals
import TestSupport
import Testing

private struct Badge: Entity {
    var name = ""
    var color = 0

    static let schema = Schema<Badge> { Attribute(\.name, .unique) }
}

@Suite struct ReplacedObjectTests {
    /// A context that upserts, with an object and a list of all objects.
    @MainActor private final class Fixture {
        let store: Store
        let context: Context
        let list: Results<Badge>
        let former: Object<Badge>

        init(_ policy: MergePolicy = .error) throws {
            store = try Store(inMemory: [Badge.self])
            context = store.makeContext(author: "context")
            context.mergePolicy = policy
            context.upserts = true
            context.undoLevels = 10
            former = context.insert(Badge(name: "a"))
            try context.save()
            list = try context.results(Badge.self)
        }

        /// There is one object for each ID, it is `object`, and the lists agree.
        func check(_ object: Object<Badge>) throws {
            let found = try context.fetch(Badge.self)
            #expect(
                found.map(\.objectReference) == list.references
                    && found.count == Set(found.map(\.objectReference)).count)
            #expect(try context.object(former.objectReference) === object && found.contains { $0 === object })
            #expect(former.objectStatus.isGone && list.updateError == nil)
        }

        func end() throws {
            try context.save()
            let shown = try context.fetch(Badge.self).map(\.objectStatus.snapshot.text)
            #expect(try shown == store.snapshot().fetch(Badge.self).map(\.text))
            context.close()
            try store.close()
        }
    }

    /// Also if it turns out at this call that another object has its place.
    @MainActor @Test(arguments: [false, true], [false, true])
    func aReplacedObjectCannotBeRefreshed(keepsEdits: Bool, isWritten: Bool) async throws {
        let it = try Fixture()
        let gate = Gate(it.store)
        let object = it.context.insert(Badge(name: "a", color: 1))
        let save = Task { try await it.context.saveInBackground() }
        while it.context.hasChanges { await Task.yield() }
        gate.open()
        if isWritten {
            // It is in the store, and the context does not know it yet.
            let next = Gate(it.store)
            next.open()
        } else {
            _ = try await save.value
        }
        for _ in 0..<2 {
            expect(.objectGone) { try it.context.refresh(it.former, keepingEdits: keepsEdits) }
            try it.check(object)
        }
        _ = try await save.value
        try it.check(object)
        try it.end()
    }

    /// An edit of it is taken back with the group that made it, and is no deletion by others.
    @MainActor @Test func editsOfAReplacedObjectCanBeUndone() throws {
        let it = try Fixture()
        it.former.color = 1
        try it.context.save()
        let object = it.context.insert(Badge(name: "a", color: 2))
        try it.context.save()
        try it.check(object)
        try it.context.undo()
        #expect(object.color == 1)
        try it.context.undo()
        #expect(object.color == 0)
        try it.check(object)
        try it.context.redo()
        try it.context.redo()
        #expect(object.color == 2)
        try it.end()
    }

    /// It was deleted here, inserted again by another writer, and then taken over.
    @MainActor @Test(arguments: [false, true]) func theDeletionOfAReplacedObjectCanBeUndone(skips: Bool) throws {
        let it = try Fixture()
        it.context.delete(it.former)
        let deletion = try it.context.save()
        try it.store.revert(deletion, author: "other")
        let object = it.context.insert(Badge(name: "a", color: 2))
        try it.context.save()
        try it.check(object)
        try it.context.undo()
        try it.check(object)
        #expect(object.color == 0)
        try it.context.undo(skippingConflicts: skips)
        try it.check(object)
        try it.context.redo()
        try it.end()
    }

    /// The policy drops its edits, and in the same save another object takes its place.
    @MainActor @Test func aSaveThatReplacesAnObjectDropsItsEdits() throws {
        for first in [false, true] {
            let it = try Fixture(.rollback)
            let object: Object<Badge>
            if first {
                object = it.context.insert(Badge(name: "a", color: 2))
                it.former.color = 1
            } else {
                it.former.color = 1
                object = it.context.insert(Badge(name: "a", color: 2))
            }
            let reference = it.former.objectReference
            try writeAtOnce(it.store) { try $0.update(reference) { $0.color = 3 } }
            try it.context.save()
            try it.check(object)
            #expect(object.color == 2)
            try it.end()
        }
    }

    /// The same with many objects: the order in which a landing save meets the two of an ID is that of a hash table.
    @MainActor @Test func oneSaveDropsAndReplacesManyObjects() throws {
        let it = try Fixture(.rollback)
        let formers = (0..<100).map { it.context.insert(Badge(name: "\($0)")) }
        try it.context.save()
        for former in formers { former.color = 1 }
        let objects = (0..<100).map { it.context.insert(Badge(name: "\($0)", color: 2)) }
        let references = formers.map(\.objectReference)
        try writeAtOnce(it.store) { transaction in
            for reference in references { try transaction.update(reference) { $0.color = 3 } }
        }
        try it.context.save()
        #expect(formers.allSatisfy { $0.objectStatus.isGone })
        #expect(objects.allSatisfy { !$0.objectStatus.isGone && $0.color == 2 })
        #expect(objects.map(\.objectReference) == references)
        #expect(try it.context.fetch(Badge.self).map(\.objectReference) == it.list.references)
        try it.end()
    }
}

extension Badge {
    fileprivate var text: String { "\(name) \(color)" }
}
