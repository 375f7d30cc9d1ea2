// What random operations have found to be wrong once, each as few lines.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct EntityFindingTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    // MARK: Two zeros

    @Test func aDoubleHasTwoZerosAndIsFoundOnce() throws {
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self])
        try store.changeSchema([.changeAttribute("price", of: "Book", isIndexed: true)])
        try store.insert(
            contentsOf: [0.0, -0.0, 1, .nan, -.nan, nil].enumerated().map { Book(title: "\($0)", price: $1) })
        let snapshot = try store.snapshot()
        let some: [Double?] = [0.0, -0.0, 1]
        let predicate = #Predicate<Object<Book>> { some.contains($0.price) }
        #expect(try snapshot.explain(Book.self, where: predicate).access == "index on price")
        #expect(try snapshot.fetch(Book.self, where: predicate).map(\.title).sorted() == ["0", "1", "2"])
        #expect(try snapshot.count(Book.self, where: predicate) == 3)
        // What is equal is one group, and one of what is distinct.
        #expect(try snapshot.groups(by: \Book.price).map(\.count) == [1, 2, 1, 2])
        #expect(try snapshot.values(of: \Book.price, distinct: true).count == 4)
        #expect(try snapshot.values(of: \Book.price, distinct: true, limit: -1).isEmpty)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Values that are missing

    /// An older version of the program, in which a number might be missing.
    struct Older: Entity {
        var name = ""
        var number: Int?
        static let schema = Schema<Older>("Numbered")
    }

    struct Numbered: Entity, Equatable {
        var name = ""
        var number = 0
        static let schema = Schema<Numbered> { Attribute(\.number, .indexed) }
    }

    @Test func aMissingValueCountsAsTheValueThatIsRead() throws {
        let older = try Store(at: folder.path, entities: [Older.self])
        try older.insert(
            contentsOf: [-5, nil, 3, 0, nil].enumerated().map { Older(name: "\($0)", number: $1) })
        try older.close()
        let store = try Store(at: folder.path, entities: [Numbered.self])
        let snapshot = try store.snapshot()
        #expect(try snapshot.fetch(Numbered.self).map(\.number) == [-5, 0, 3, 0, 0])
        let ascending = try snapshot.fetch(Numbered.self, sortedBy: .ascending(\.number))
        #expect(ascending.map(\.name) == ["0", "1", "3", "4", "2"])
        let descending = try snapshot.fetch(Numbered.self, sortedBy: .descending(\.number), limit: 3)
        #expect(descending.map(\.name) == ["2", "4", "3"])
        let negative = #Predicate<Object<Numbered>> { $0.name != "2" }
        #expect(try snapshot.maximum(of: \Numbered.number, where: negative) == 0)
        #expect(try snapshot.minimum(of: \Numbered.number) == -5)
        // It stays missing in an update that does not change it, for the older version.
        let same = try store.update(Numbered.self) { $0.number += 0 }
        #expect(same.count == 0)
        let (isDifferent, _) = try store.writeOptimistically { transaction in
            let missing = try transaction.references(to: Numbered.self)[1]
            return try transaction.update(missing) { $0.name = "1" } || transaction.update(missing) { $0.number = 0 }
        }
        #expect(!isDifferent)
        #expect(try snapshot.groups(by: \Numbered.number).map(\.key) == [-5, 0, 3])
        #expect(try snapshot.groups(by: \Numbered.number).map(\.count) == [1, 3, 1])
        #expect(try snapshot.values(of: \Numbered.number, distinct: true) == [-5, 0, 3])
        // A transaction with changes of its own says the same.
        try store.write { transaction in
            try transaction.insert(Numbered(name: "5", number: -1))
            let sorted = try transaction.fetch(Numbered.self, sortedBy: .ascending(\.number))
            #expect(sorted.map(\.name) == ["0", "5", "1", "3", "4", "2"])
        }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Relationships that an update does not name

    @Test func anUpdateAfterADeletionKeepsWhatItDoesNotChange() throws {
        let store = try Store(at: folder.path, entities: Town.entities)
        typealias Deleted = (owner: Reference<Town.Owner>, place: Reference<Town.Place>, thing: Reference<Town.Thing>)
        let (made, _) = try store.writeOptimistically { transaction -> Deleted in
            let owner = try transaction.insert(Town.Owner(name: "o"))
            let place = try transaction.insert(Town.Place(name: "p", owner: owner))
            return (owner, place, try transaction.insert(Town.Thing(title: "t", place: place, keeper: owner)))
        }
        // The place refers to the owner under the rule deny, whatever else becomes of it.
        expect(.deleteDenied) {
            try store.writeOptimistically { transaction in
                try transaction.delete(made.owner)
                #expect(try transaction.update(made.place) { $0.size = 7 })
            }
        }
        // The thing belongs to the place, and goes with it.
        try store.writeOptimistically { transaction in
            try transaction.delete(made.place)
            #expect(try transaction[made.thing]?.place == nil)
            try transaction.update(made.thing) { $0.rank = 3 }
        }
        #expect(try store.snapshot()[made.thing] == nil)
        // What is set to nothing belongs to nothing.
        try store.writeOptimistically { transaction in
            let place = try transaction.insert(Town.Place(name: "q"))
            let thing = try transaction.insert(Town.Thing(title: "u", place: place))
            try transaction.delete(place)
            try transaction.update(thing, to: Town.Thing(title: "free"))
        }
        #expect(try store.snapshot().fetch(Town.Thing.self).map(\.title) == ["free"])
        try store.close()
        try folder.expectIntact()
    }

    @Test func aReferenceThatLeadsToNothingIsNoDifference() throws {
        let store = try Store(at: folder.path, entities: Town.entities)
        let (made, _) = try store.writeOptimistically { transaction in
            let owner = try transaction.insert(Town.Owner(name: "o"))
            return (owner, try transaction.insert(Town.Thing(title: "t", keeper: owner)))
        }
        try store.writeOptimistically { try $0.delete(made.0) }
        #expect(try store.snapshot()[made.1]?.keeper == nil)
        let (isSame, nothing) = try store.writeOptimistically { try !$0.update(made.1) { $0.rank = 5 } }
        #expect(isSame && nothing == nil)
        let (isDifferent, _) = try store.writeOptimistically { try $0.update(made.1) { $0.rank = 6 } }
        #expect(isDifferent)
        let change = try #require(try store.changes(HistoryRequest(order: .newestFirst, limit: 1)).first)
        #expect(change.attributes == ["rank"])
        #expect(try store.update(Town.Thing.self) { $0.rank = 6 }.count == 0)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: History across a new name

    enum Before {
        struct Clip: Entity, Equatable {
            var name = ""
            var rank = 0
            static let schema = Schema<Clip> { Attribute(\.name, .preservedOnDeletion) }
        }
    }

    enum After {
        struct Clip: Entity, Equatable {
            var title = ""
            var rank = 0
            static let schema = Schema<Clip> { Attribute(\.title, .preservedOnDeletion, .renamed(from: "name")) }
        }
    }

    @Test func historyKnowsAPropertyByItsFormerName() throws {
        let old = try Store(at: folder.path, entities: [Before.Clip.self])
        let (clips, _) = try old.writeOptimistically { transaction in
            [try transaction.insert(Before.Clip(name: "a")), try transaction.insert(Before.Clip(name: "b"))]
        }
        try old.writeOptimistically { try $0.update(clips[0]) { $0.name = "c" } }
        try old.writeOptimistically { try $0.delete(clips[1]) }
        try old.close()
        let store = try Store(at: folder.path, entities: [After.Clip.self])
        try store.writeOptimistically { try $0.update(Reference<After.Clip>(clips[0].id)) { $0.title = "d" } }
        let changes = try store.changes(HistoryRequest(), includingValues: true)
        #expect(changes.map(\.kind) == [.insert, .insert, .update, .delete, .update])
        #expect(try changes.map { try $0.after(of: After.Clip.self)?.title } == ["a", "b", "c", nil, "d"])
        #expect(try changes.map { try $0.before(of: After.Clip.self)?.title } == [nil, nil, "a", "b", "c"])
        #expect(changes[2].changes(\After.Clip.title) && !changes[2].changes(\After.Clip.rank))
        #expect(changes[4].changes(\After.Clip.title))
        #expect(changes[3].tombstone(of: After.Clip.self)?[\.title] == "b")
        try store.close()
        try folder.expectIntact()
    }
}
