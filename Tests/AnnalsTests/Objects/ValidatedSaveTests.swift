// Between `validate()` and `save()` others compact, migrate and write: the save is checked against what the store has
// by then, and is whole or nothing.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ValidatedSaveTests {
    struct Shelf: Entity {
        var name = ""
        static let schema = Schema<Shelf> { Attribute(\.name, .unique) }
    }

    struct Item: Entity, Equatable {
        var code = ""
        var label = ""
        var shelf: Reference<Shelf>?
        var place: Reference<Shelf>?
        static let schema = Schema<Item> {
            Attribute(\.code, .unique)
            Relationship(\.place, whenTargetIsDeleted: .deny)
        }
    }

    static let entities: [any Entity.Type] = [Shelf.self, Item.self]

    /// What a newer version of the program declares.
    enum Newer {
        struct Shelf: Entity {
            var name = ""
            static let schema = Schema<Shelf> { Attribute(\.name, .unique) }
        }

        struct Item: Entity {
            var code = ""
            var title = ""
            var weight = 2
            var shelf: Reference<Shelf>?
            var place: Reference<Shelf>?
            static let schema = Schema<Item> {
                Attribute(\.code, .unique)
                Attribute(\.title, .unique, .renamed(from: "label"))
                Relationship(\.shelf, whenTargetIsDeleted: .deny)
                Relationship(\.place, whenTargetIsDeleted: .deny)
            }
        }

        static let entities: [any Entity.Type] = [Shelf.self, Item.self]
        static let rules = Migration(
            "rules",
            [
                .change(.renameAttribute("label", of: "Item", to: "title")), .redeclare("title", of: "Item"),
                .redeclare("shelf", of: "Item"),
            ])
        static let codes = Migration("codes") { migration in
            try migration.update(Item.self) { _, item in item.code += "!" }
        }
    }

    let folder: StoreFolder
    let store: Store
    let shelf: Reference<Shelf>
    let item: Reference<Item>

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: Self.entities)
        (shelf, item) = try store.writeOptimistically { transaction in
            let shelf = try transaction.insert(Shelf(name: "a"))
            try transaction.insert(Shelf(name: "b"))
            return (shelf, try transaction.insert(Item(code: "1", label: "one")))
        }.0
    }

    private func end(_ others: Store...) throws {
        for other in others { try other.close() }
        try store.close()
        try folder.expectIntact()
    }

    private func expectError(_ body: () throws -> Void) -> StoreError? {
        do {
            try body()
            return nil
        } catch {
            return error as? StoreError
        }
    }

    /// A context of which a new and a changed object are unsaved and valid.
    private func edited(_ policy: MergePolicy = .error) throws -> Context {
        let context = store.makeContext(author: "app")
        context.mergePolicy = policy
        try context.object(item).label = "mine"
        context.insert(Item(code: "2", label: "two", shelf: shelf))
        try context.validate()
        return context
    }

    /// Both calls throw the same, and nothing is written.
    private func expectRefused(
        _ context: Context, _ codes: StoreError.Code..., sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let number = try store.currentToken.number
        let valid = expectError { try context.validate() }
        let saved = expectError { try context.save() }
        #expect(valid?.failures.map(\.code) == codes, "\(valid?.message ?? "")", sourceLocation: sourceLocation)
        #expect(saved == valid, "\(saved?.message ?? "")", sourceLocation: sourceLocation)
        #expect(try store.currentToken.number == number, sourceLocation: sourceLocation)
        #expect(context.insertedObjects(Item.self).count == 1, sourceLocation: sourceLocation)
        #expect(context.changedObjects(Item.self).count == 1, sourceLocation: sourceLocation)
    }

    private func expectSaved(_ context: Context, sourceLocation: SourceLocation = #_sourceLocation) throws {
        try context.validate()
        try context.save()
        #expect(!context.hasChanges, sourceLocation: sourceLocation)
        let labels = try store.snapshot().fetch(Item.self, sortedBy: .ascending(\.label)).map(\.label)
        #expect(labels == ["mine", "two"], sourceLocation: sourceLocation)
    }

    // MARK: Another handle

    @Test(arguments: [false, true]) func aCompactionDoesNotPreventTheSave(throughAnotherHandle: Bool) throws {
        let other = try Store(at: folder.path, entities: Self.entities)
        let context = try edited()
        try (throughAnotherHandle ? other : store).compact()
        try expectSaved(context)
        let twin = context.insert(Shelf(name: "b"))
        #expect(expectError { try context.validate() }?.code == .uniqueViolation)
        try (throughAnotherHandle ? other : store).compact()
        #expect(expectError { try context.save() }?.code == .uniqueViolation)
        context.discard(twin)
        context.close()
        try end(other)
    }

    @Test func aKeyOfAnotherHandleIsRefusedUntilItIsFreed() throws {
        let other = try Store(at: folder.path, entities: Self.entities)
        let context = try edited()
        let (theirs, _) = try other.writeOptimistically { try $0.insert(Item(code: "2")) }
        try expectRefused(context, .uniqueViolation)
        // It gets another key, and then both want the same once more.
        try other.writeOptimistically { try $0.update(theirs) { $0.code = "3" } }
        try context.validate()
        try other.writeOptimistically { try $0.update(theirs) { $0.code = "2" } }
        try expectRefused(context, .uniqueViolation)
        try other.writeOptimistically { try $0.delete(theirs) }
        try expectSaved(context)
        context.close()
        try end(other)
    }

    @Test func aKeyThatAnotherHandleFreesByACascadeCanBeUsed() throws {
        struct Owner: Entity { var name = "" }
        struct Part: Entity {
            var code = ""
            var owner: Reference<Owner>?
            static let schema = Schema<Part> {
                Attribute(\.code, .unique)
                Relationship(\.owner, whenTargetIsDeleted: .cascade)
            }
        }
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Owner.self, Part.self])
        let other = try Store(at: folder.path, entities: [Owner.self, Part.self])
        let (owner, _) = try store.writeOptimistically { transaction in
            let owner = try transaction.insert(Owner(name: "o"))
            try transaction.insert(Part(code: "1", owner: owner))
            return owner
        }
        let context = store.makeContext()
        context.insert(Part(code: "1"))
        #expect(expectError { try context.validate() }?.code == .uniqueViolation)
        try other.writeOptimistically { try $0.delete(owner) }
        try context.validate()
        try context.save()
        // What others have put below an owner since is deleted with it, and its key is free.
        let (next, _) = try store.writeOptimistically { try $0.insert(Owner(name: "n")) }
        for upserts in [false, true] {
            context.upserts = upserts
            let (number, parent) = upserts ? ("3", owner) : ("2", next)
            let living = upserts ? try other.writeOptimistically { try $0.insert(Owner(name: "m")) }.0 : parent
            try context.merge()
            context.delete(try context.object(living))
            context.insert(Part(code: number))
            try context.validate()
            try other.writeOptimistically { try $0.insert(Part(code: number, owner: living)) }
            try context.validate()
            try context.save()
            let parts = try store.snapshot().fetch(Part.self, where: #Predicate { $0.code == number })
            #expect(parts.count == 1 && parts[0].owner == nil && !context.hasChanges, "upserts: \(upserts)")
        }
        context.close()
        try other.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test(arguments: MergePolicy.allCases)
    func thePolicyDecidesIfAnotherHandleDeletesATarget(_ policy: MergePolicy) throws {
        let other = try Store(at: folder.path, entities: Self.entities)
        let context = try edited(policy)
        try other.writeOptimistically { try $0.delete(shelf) }
        if policy == .error {
            try expectRefused(context, .mergeConflict)
            context.mergePolicy = .objectWins
        }
        try expectSaved(context)
        #expect(try store.snapshot().count(Item.self, where: #Predicate { $0.shelf != nil }) == 0)
        context.close()
        try end(other)
    }

    @Test func aDeletionIsDeniedIfAnotherHandleRefersToTheObject() throws {
        let other = try Store(at: folder.path, entities: Self.entities)
        let context = try edited()
        context.delete(try context.object(try #require(try store.snapshot().references(to: Shelf.self).last)))
        try context.validate()
        let place = try #require(try other.snapshot().references(to: Shelf.self).last)
        let (theirs, _) = try other.writeOptimistically { try $0.insert(Item(code: "9", place: place)) }
        try expectRefused(context, .deleteDenied)
        try other.writeOptimistically { try $0.delete(theirs) }
        try expectSaved(context)
        context.close()
        try end(other)
    }

    // MARK: Another process

    @Test func changesOfAnotherProcessAreCheckedByTheSave() throws {
        func run(_ arguments: String...) throws {
            let result = try runTool(arguments)
            #expect(result.status == 0, "\(result.errors)")
        }
        let context = try edited()
        try run("insert", folder.path, "Item", "code=\"2\"", "label=\"\"")
        try expectRefused(context, .uniqueViolation)
        let theirs = try #require(try store.snapshot().references(to: Item.self).last)
        try run("set", folder.path, "Item", "\(theirs.id)", "code=\"7\"")
        try context.validate()
        try run("delete", folder.path, "Shelf", "\(shelf.id)")
        try expectRefused(context, .mergeConflict)
        try run("delete", folder.path, "Item", "\(theirs.id)")
        try run("compact", folder.path)
        try expectRefused(context, .mergeConflict)
        context.mergePolicy = .storeWins
        try expectSaved(context)
        context.close()
        try end()
    }

    // MARK: Another version of the program

    @Test func aMigrationByANewerVersionDoesNotPreventTheSave() throws {
        let context = try edited()
        let newer = try Store(at: folder.path, entities: Newer.entities, migrations: [Newer.rules, Newer.codes])
        // The label has another name, is unique, and all codes have changed: none of that is in the way.
        try expectSaved(context)
        let codes = try newer.snapshot().fetch(Newer.Item.self, sortedBy: .ascending(\.code))
        #expect(codes.map(\.code) == ["1!", "2"] && codes.map(\.title) == ["mine", "two"])
        #expect(codes.map(\.weight) == [2, 2])
        context.close()
        try end(newer)
    }

    @Test func rulesOfANewerVersionCount() throws {
        let context = store.makeContext()
        context.insert(Item(code: "2", label: "one"))
        context.delete(try context.object(shelf))
        try context.object(item).code = "x"
        try context.validate()
        let newer = try Store(at: folder.path, entities: Newer.entities, migrations: [Newer.rules])
        try newer.writeOptimistically {
            try $0.insert(Newer.Item(code: "3", title: "three", shelf: Reference(shelf.id)))
        }
        // Unique is now what was not, and what was taken away is denied.
        try expectRefused(context, .deleteDenied, .uniqueViolation)
        try context.object(item).label = "uno"
        try expectRefused(context, .deleteDenied)
        try newer.delete(Newer.Item.self, where: #Predicate { $0.code == "3" })
        try context.validate()
        try context.save()
        let items = try newer.snapshot().fetch(Newer.Item.self, sortedBy: .ascending(\.code))
        #expect(items.map(\.title) == ["one", "uno"])
        context.close()
        try end(newer)
    }

    @Test func changesOfAnOlderVersionAreCheckedByTheNewRules() throws {
        let newer = try Store(at: folder.path, entities: Newer.entities, migrations: [Newer.rules])
        let context = newer.makeContext()
        context.insert(Newer.Item(code: "2", title: "two", weight: 5))
        try context.object(Reference<Newer.Item>(item.id)).weight = 7
        try context.validate()
        let (theirs, _) = try store.writeOptimistically { transaction in
            try transaction.update(item) { $0.label = "theirs" }
            return try transaction.insert(Item(code: "9", label: "two"))
        }
        // The older version does not know that labels are unique, and still keeps it.
        let valid = expectError { try context.validate() }
        #expect(valid?.code == .uniqueViolation && valid?.attributes == ["title"])
        #expect(expectError { try context.save() } == valid)
        #expect(
            expectError { _ = try store.writeOptimistically { try $0.insert(Item(label: "two")) } }?.code
                == .uniqueViolation)
        try store.writeOptimistically { try $0.delete(theirs) }
        try context.validate()
        try context.save()
        let items = try newer.snapshot().fetch(Newer.Item.self, sortedBy: .ascending(\.code))
        #expect(items.map(\.title) == ["theirs", "two"] && items.map(\.weight) == [7, 5])
        context.close()
        try end(newer)
    }

    // MARK: A consumer in the same transaction

    /// Validating does not look at a consumer: it is no part of what is unsaved.
    @Test func aConsumerThatCannotBeAdvancedFailsTheSave() throws {
        let first = try store.currentToken
        let start = try #require(try store.writeOptimistically { try $0.insert(Shelf(name: "first")) }.token)
        try store.registerConsumer("reader", at: start)
        let (_, token) = try store.writeOptimistically { try $0.insert(Shelf(name: "read")) }
        let read = try #require(token)
        let context = try edited()
        func expect(_ code: StoreError.Code, _ name: String, _ from: HistoryToken, _ to: HistoryToken) throws {
            let (number, cursors) = (try store.currentToken.number, try store.consumers.map(\.cursor))
            try context.validate()
            let error = expectError { try context.save(advancing: name, from: from, to: to) }
            #expect(error?.code == code && error?.failures.count == 1, "\(error?.message ?? "nothing")")
            #expect(try store.currentToken.number == number && store.consumers.map(\.cursor) == cursors)
            #expect(context.insertedObjects(Item.self).count == 1 && context.changedObjects(Item.self).count == 1)
        }
        try expect(.consumerUnknown, "nobody", start, read)
        try expect(.consumerConflict, "reader", read, read)
        try expect(.invalidArgument, "reader", start, first)
        let foreign = HistoryToken(storeIdentifier: UUID(), number: read.number, tag: read.tag)
        try expect(.tokenForeign, "reader", start, foreign)
        try expect(.tokenUnknown, "reader", start, HistoryToken(storeIdentifier: store.identifier, number: 99, tag: 1))
        // What objects contain is said whatever the consumer is.
        let twin = context.insert(Shelf(name: "b"))
        for (name, from) in [("nobody", start), ("reader", read), ("reader", start)] {
            let error = expectError { try context.save(advancing: name, from: from, to: read) }
            #expect(error?.code == .uniqueViolation, "\(name): \(error?.message ?? "nothing")")
            #expect(context.insertedObjects(Item.self).count == 1 && twin.objectStatus.isInserted)
        }
        context.discard(twin)
        // With nothing unsaved the cursor alone is refused.
        let empty = store.makeContext()
        let alone = expectError { try empty.save(advancing: "nobody", from: start, to: read) }
        #expect(alone?.code == .consumerUnknown)
        empty.close()
        try context.save(advancing: "reader", from: start, to: read)
        #expect(try store.consumer("reader")?.cursor == read && !context.hasChanges)
        // Cleaning has passed the consumer.
        try store.registerConsumer("late", at: start)
        try store.deleteHistory(before: try store.currentToken.number + 1)
        context.insert(Item(code: "3"))
        try context.object(item).label = "again"
        try expect(.consumerLost, "late", start, read)
        context.close()
        try end()
    }
}
