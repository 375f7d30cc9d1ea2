// Deleted objects that are inserted again: by undo, revert, apply or a merge policy; by an older version of the
// program; and after compaction has forgotten them. Nothing that another version knows is lost.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct InsertedAgainTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    enum First {
        struct Item: Entity, Equatable {
            var name = ""
            var n = 0

            static let schema = Schema<Item> { Attribute(\.name, .unique) }
        }
    }

    /// It adds a required reference, a reference of each kind, and values of all sizes.
    enum Second {
        struct Item: Entity, Equatable {
            var name = ""
            var n = 0
            var stars = 1
            var text = ""
            var tag: Reference<Tag>?
            var tags: Set<Reference<Tag>> = []
            var list: [Reference<Tag>] = []

            static let schema = Schema<Item> {
                Attribute(\.name, .unique)
                Relationship(\.tag, inverse: \.items)
                Relationship(\.list, whenTargetIsDeleted: .deny)
            }
        }

        struct Tag: Entity, Equatable {
            var name = ""
            var items = ToMany<Item>()
            static func == (left: Self, right: Self) -> Bool { left.name == right.name }
        }

        static let entities: [any Entity.Type] = [Item.self, Tag.self]
    }

    /// A deletion of the file's only item with everything set, which the older version makes in some way and takes
    /// back.
    enum Way: String, CaseIterable, CustomTestStringConvertible {
        case undo, undoOfGroup, redo, policy, policyAfterMerge, revert

        var testDescription: String { rawValue }
    }

    private struct Made {
        let new: Store
        let old: Store
        let item: Reference<Second.Item>
        let value: Second.Item
        let tags: [Reference<Second.Tag>]
    }

    private func make() throws -> Made {
        let new = try Store(at: folder.path, entities: Second.entities)
        let text = String(repeating: "long ", count: 40_000)
        let ((item, tags), _) = try new.writeOptimistically(author: "new") { transaction in
            let tags = try ["a", "b", "c"].map { try transaction.insert(Second.Tag(name: $0)) }
            let value = Second.Item(
                name: "one", n: 1, stars: 5, text: text, tag: tags[0], tags: Set(tags), list: [tags[2], tags[0]])
            return (try transaction.insert(value), tags)
        }
        let old = try Store(at: folder.path, entities: [First.Item.self])
        return Made(new: new, old: old, item: item, value: try #require(try new.snapshot()[item]), tags: tags)
    }

    /// Deletes the item and inserts it again, all by the older version. `meanwhile` runs when it is deleted.
    private func deleteAndInsertAgain(
        _ way: Way, _ made: Made, meanwhile: () throws -> Void
    ) throws {
        let context = made.old.makeContext(author: "old")
        context.undoLevels = 10
        let object = try #require(try context.fetch(First.Item.self).first)
        switch way {
        case .undo:
            context.delete(object)
            try context.save()
            try meanwhile()
            try context.undo()
        case .undoOfGroup:
            context.beginUndoGrouping()
            object.n = 70
            try context.save()
            context.delete(object)
            try context.save()
            try meanwhile()
            context.endUndoGrouping()
            try context.undo()
        case .redo:
            // What is inserted, undone and redone is the same object.
            object.n = 70
            try context.save()
            context.delete(object)
            try context.save()
            try context.undo()
            try context.save()
            try context.redo()
            try context.save()
            try meanwhile()
            try context.undo()
            try context.undo()
        case .policy, .policyAfterMerge:
            context.mergePolicy = .objectWins
            object.n = 1
            object.name = "one!"
            try made.old.writeOptimistically { try $0.delete(Reference<First.Item>(made.item.id)) }
            if way == .policyAfterMerge { try context.merge() }
            try meanwhile()
            object.name = "one"
            object.n = 2
            try context.save()
            object.n = 1
        case .revert:
            let (_, token) = try made.old.writeOptimistically { try $0.delete(Reference<First.Item>(made.item.id)) }
            try meanwhile()
            #expect(try made.old.revert(try #require(token)).conflicts.isEmpty)
        }
        try context.save()
        #expect(object.objectStatus.isGone == false)
    }

    /// A transaction inserts a deleted object under its ID. Compaction may have forgotten all but the number.
    @Test(arguments: [false, true]) func aDeletedObjectIsInsertedByItsID(afterCompaction: Bool) throws {
        let store = try folder.open([Sample.clip])
        let ids = try store.write { transaction in
            try ["a", "b"].map { try transaction.insert("Clip", ["title": .string($0), "url": .string($0)]) }
        }.result
        try store.write { try $0.delete(ids[0]) }
        if afterCompaction {
            #expect(try runTool(["clean", folder.path, "--before", "4"]).status == 0)
            try store.compact()
        }
        let clip = try store.snapshot().entity("Clip")
        try store.write { try $0.insert(clip, ["A", "a2", 7], again: ids[0]) }
        #expect(try store.snapshot().row(ids[0])?.values == ["A", "a2", 7])
        let never = try #require(ObjectID(entityNumber: clip.number, number: 3))
        let foreign = try #require(ObjectID(entityNumber: clip.number + 1, number: 1))
        for object in [ids[0], ids[1], never, foreign] {
            expect(.invalidArgument) { try store.write { try $0.insert(clip, ["A", "a3", 7], again: object) } }
        }
        expect(.invalidArgument) {
            try store.write { transaction in
                try transaction.delete(ids[1])
                try transaction.insert(clip, ["A", "a3", 7], again: ids[1])
            }
        }
        #expect(try store.snapshot().count(of: "Clip") == 2)
        try store.close()
        try folder.expectIntact()
    }

    @Test(arguments: Way.allCases) func anOlderVersionResetsNothing(way: Way) throws {
        let made = try make()
        try deleteAndInsertAgain(way, made) {}
        #expect(try made.new.snapshot()[made.item] == made.value)
        #expect(try made.new.snapshot().references(\Second.Tag.items, of: made.tags[0]) == [made.item])
        try close(made)
    }

    /// Compaction forgets the deleted object: then the context knows what the object had.
    @Test(arguments: Way.allCases.filter { $0 != .revert }) func anOlderVersionResetsNothingAfterCompaction(way: Way)
        throws
    {
        let made = try make()
        try deleteAndInsertAgain(way, made) { try forget(made.new) }
        #expect(try made.new.snapshot()[made.item] == made.value)
        try close(made)
    }

    /// References to what was deleted in between are gone, as they are for the version that knows them.
    @Test(arguments: [false, true], Way.allCases.filter { $0 != .revert })
    func referencesToDeletedObjectsAreLeftOut(isForgotten: Bool, way: Way) throws {
        let made = try make()
        try deleteAndInsertAgain(way, made) {
            try made.new.writeOptimistically { transaction in
                try transaction.delete(made.tags[0])
                try transaction.delete(made.tags[1])
            }
            if isForgotten { try forget(made.new) }
        }
        var wanted = made.value
        (wanted.tag, wanted.tags, wanted.list) = (nil, [made.tags[2]], [made.tags[2]])
        #expect(try made.new.snapshot()[made.item] == wanted)
        try close(made)
    }

    /// Two objects that refer to each other by an attribute that is not known come back together.
    @Test func referencesBetweenObjectsInsertedAgainStay() throws {
        enum Other {
            struct Node: Entity {
                var name = ""
                static let schema = Schema<Node>("Node")
            }
        }
        struct Node: Entity {
            var name = ""
            var next: Reference<Node>?
            static let schema = Schema<Node>("Node")
        }
        let new = try Store(at: folder.path, entities: [Node.self])
        let ((a, b), _) = try new.writeOptimistically { transaction in
            let (a, b) = (try transaction.reserve(Node.self), try transaction.reserve(Node.self))
            try transaction.insert(Node(name: "a", next: b), as: a)
            try transaction.insert(Node(name: "b", next: a), as: b)
            return (a, b)
        }
        let old = try Store(at: folder.path, entities: [Other.Node.self])
        let context = old.makeContext()
        context.undoLevels = 1
        for node in try context.fetch(Other.Node.self) { context.delete(node) }
        try context.save()
        try context.undo()
        try context.save()
        #expect(try new.snapshot()[a]?.next == b && new.snapshot()[b]?.next == a)
        try old.close()
        try new.close()
        try folder.expectIntact()
    }

    /// Cleans all history but an unimportant transaction, and compacts.
    private func forget(_ store: Store) throws {
        try store.setMetadata(0, for: "last")
        try store.deleteHistory(before: store.currentToken)
        _ = try store.compact()
    }

    private func close(_ made: Made) throws {
        try made.old.close()
        try made.new.close()
        try folder.expectIntact()
    }

    // MARK: After compaction, in one version

    struct Note: Entity, Equatable {
        var n = 0
        var other: Reference<Note>?
    }

    @Test(arguments: [(true, false), (false, true), (true, true)])
    func undoAndRedoWorkAfterCompaction(isCleaned: Bool, isCompacted: Bool) throws {
        let store = try Store(at: folder.path, entities: [Note.self])
        let context = store.makeContext()
        context.undoLevels = 10
        let (a, b) = (context.insert(Note(n: 1)), context.insert(Note(n: 2)))
        b.other = a.objectReference
        try context.save()
        context.delete(a)
        try context.save()
        try store.writeOptimistically { try $0.insert(Note(n: 3)) }
        if isCleaned { try store.deleteHistory(before: store.currentToken) }
        if isCompacted { _ = try store.compact() }
        try context.undo()
        #expect(b.other == a.objectReference)
        try context.save()
        let notes = try store.snapshot().fetch(Note.self)
        #expect(notes.map(\.n) == [1, 2, 3] && notes[1].other == a.objectReference)
        try context.redo()
        try context.save()
        #expect(try store.snapshot().fetch(Note.self).map(\.n) == [2, 3])
        try store.setMetadata(0, for: "last")
        if isCleaned { try store.deleteHistory(before: store.currentToken) }
        if isCompacted { _ = try store.compact() }
        try context.undo()
        try context.undo()
        try context.save()
        // All that this context has inserted is gone, the other object is not.
        #expect(try store.snapshot().fetch(Note.self).map(\.n) == [3])
        try store.close()
        try folder.expectIntact()
    }

    /// Another writer that inserts the forgotten object first wins, and the loser finds out.
    @Test func theSecondContextThatInsertsAForgottenObjectHasAConflict() throws {
        let store = try Store(at: folder.path, entities: [Note.self])
        let contexts = [store.makeContext(), store.makeContext()]
        let (note, _) = try store.writeOptimistically { try $0.insert(Note(n: 1)) }
        var objects: [Object<Note>] = []
        for context in contexts {
            try context.merge()
            context.mergePolicy = .objectWins
            objects.append(try context.object(note))
        }
        objects[0].n = 10
        objects[1].n = 20
        try store.writeOptimistically { try $0.delete(note) }
        try forget(store)
        try contexts[0].save()
        #expect(try store.snapshot()[note]?.n == 10)
        contexts[1].mergePolicy = .error
        expect(.mergeConflict) { try contexts[1].save() }
        contexts[1].mergePolicy = .objectWins
        try contexts[1].save()
        #expect(try store.snapshot()[note]?.n == 20)
        try store.close()
        try folder.expectIntact()
    }

    struct Dated: Entity {
        var n = 0
        var changed: Date?
        static let schema = Schema<Dated> { Attribute(\.changed, .derived(.lastChange)) }
    }

    /// An object that is inserted again was last changed then, also by a version that knows less.
    @Test(arguments: [false, true]) func theTimeOfTheLastChangeIsThatOfTheInsertion(isOlder: Bool) throws {
        struct More: Entity {
            var n = 0
            var changed: Date?
            var more = 1
            static let schema = Schema<More>("Dated") { Attribute(\.changed, .derived(.lastChange)) }
        }
        let store = try Store(at: folder.path, entities: [Dated.self])
        if isOlder { try Store(at: folder.path, entities: [More.self]).close() }
        let context = store.makeContext()
        context.undoLevels = 1
        let object = context.insert(Dated(n: 1))
        try context.save()
        let before = try #require(try store.snapshot()[object.objectReference]?.changed)
        context.delete(object)
        try context.save()
        try context.undo()
        try context.save()
        #expect(try #require(try store.snapshot()[object.objectReference]?.changed) > before)
        try store.close()
        try folder.expectIntact()
    }

    /// An ID that was reserved and never used is no deleted object.
    @Test func aReservedIDIsNoDeletedObject() throws {
        let store = try Store(at: folder.path, entities: [Note.self])
        let (note, _) = try store.writeOptimistically { try $0.insert(Note(n: 1)) }
        let context = store.makeContext()
        let object = context.insert(Note(n: 2))
        _ = try context.obtainPermanentReferences(for: [object])
        context.undoLevels = 1
        #expect(object.objectReference != note)
        try context.save()
        #expect(try store.snapshot()[object.objectReference]?.n == 2)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Exchange

    static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("name", .string, isUnique: true), AttributeDescription("rank", .int),
            AttributeDescription("other", .object, target: "Item"),
        ])

    /// The source takes a deletion back that the receiver has forgotten. What only the receiver knows stays, as long as
    /// its file has it.
    @Test(arguments: [false, true], [false, true])
    func anAppliedDeletionCanBeUndone(isCleaned: Bool, isCompacted: Bool) throws {
        let folders = try ExchangeFolders(2, [Self.item])
        let (source, mirror) = (folders.stores[0], folders.stores[1])
        let (object, other) = try source.writeOptimistically { transaction in
            let other = try transaction.insert("Item", ["name": "other"])
            return (try transaction.insert("Item", ["name": "x", "rank": 3, "other": .object(other)]), other)
        }.result
        _ = try relay(from: source, to: mirror)
        // Only the receiver knows these.
        try mirror.changeSchema([
            .addAttribute(AttributeDescription("note", .string, defaultValue: "none"), to: "Item"),
            .addAttribute(AttributeDescription("friend", .object, target: "Item"), to: "Item"),
        ])
        let rows = try mirror.snapshot().rows(of: "Item")
        let here = try #require(rows.first { $0["name"] == "x" })
        let friend = try #require(rows.first { $0["name"] == "other" })
        try mirror.writeOptimistically { try $0.update(here.id, ["note": "mine", "friend": .object(friend.id)]) }
        let (_, token) = try source.writeOptimistically { try $0.delete(object) }
        #expect(try relay(from: source, to: mirror).allSatisfy(\.conflicts.isEmpty))
        try mirror.writeOptimistically { try $0.insert("Item", ["rank": 9]) }
        if isCleaned { try mirror.deleteHistory(before: mirror.currentToken) }
        if isCompacted { _ = try mirror.compact() }
        #expect(try source.revert(try #require(token)).conflicts.isEmpty)
        try source.writeOptimistically { try $0.update(object, ["rank": 4]) }
        try source.writeOptimistically { try $0.update(other, ["other": .object(object)]) }
        #expect(try relay(from: source, to: mirror).allSatisfy(\.conflicts.isEmpty))
        let now = try #require(try mirror.snapshot().row(here.id))
        #expect(now["name"] == "x" && now["rank"] == 4 && now["other"] == .object(friend.id))
        #expect(try mirror.snapshot().row(friend.id)?["other"] == .object(here.id))
        let isForgotten = isCleaned && isCompacted
        #expect(now["note"] == (isForgotten ? "none" : "mine"))
        #expect(now["friend"] == (isForgotten ? .null : .object(friend.id)))
        try folders.expectIntact()
    }

    /// What the receiver's own attribute refers to was deleted, and a unique value of its own was taken.
    @Test func valuesThatOnlyTheReceiverKnowsMayBeTaken() throws {
        let folders = try ExchangeFolders(2, [Self.item])
        let (source, mirror) = (folders.stores[0], folders.stores[1])
        let (object, _) = try source.writeOptimistically { try $0.insert("Item", ["name": "x"]) }
        _ = try relay(from: source, to: mirror)
        try mirror.changeSchema([
            .addAttribute(AttributeDescription("number", .int, isUnique: true), to: "Item"),
            .addAttribute(
                AttributeDescription("friend", .object, target: "Item", whenTargetIsDeleted: .nullify), to: "Item"),
        ])
        let here = try #require(try mirror.snapshot().rows(of: "Item").first?.id)
        let friend = try mirror.writeOptimistically { transaction in
            let friend = try transaction.insert("Item", ["name": "friend"])
            try transaction.update(here, ["number": 7, "friend": .object(friend)])
            return friend
        }.result
        let (_, token) = try source.writeOptimistically { try $0.delete(object) }
        _ = try relay(from: source, to: mirror)
        let taker = try mirror.writeOptimistically { transaction in
            try transaction.delete(friend)
            return try transaction.insert("Item", ["name": "taker", "number": 7])
        }.result
        try source.revert(try #require(token))
        let error = expect(.applyConflict) { try relay(from: source, to: mirror) }
        #expect(error?.applyConflicts.map(\.reason) == [.keyTaken(by: taker)])
        try mirror.writeOptimistically { try $0.update(taker, ["number": 8]) }
        #expect(try relay(from: source, to: mirror).allSatisfy(\.conflicts.isEmpty))
        let now = try #require(try mirror.snapshot().row(here))
        #expect(now["name"] == "x" && now["number"] == 7 && now["friend"] == .null)
        try folders.expectIntact()
    }
}
