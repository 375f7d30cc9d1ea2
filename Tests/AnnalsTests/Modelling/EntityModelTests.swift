// What is wrong with a declaration is said when the store opens, all at once; what has changed is carried over or
// refused.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct EntityModelTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func open(_ entities: [any Entity.Type]) throws -> Store { try Store(at: folder.path, entities: entities) }

    // MARK: Mistakes

    enum Mistakes {
        struct NotKept: Equatable {
            var a = 1
        }
        struct Empty: Codable {}
        struct Wrapped: Entity {
            var twice = 1
            var computed: Int {
                get { 1 }
                set {}
            }

            static let schema = Schema<Wrapped> {
                Attribute(\.twice, .indexed)
                Attribute(\.twice, .unique)
                Attribute(\.computed, .indexed)
            }
        }
        struct More: Entity {
            @Wrapper var a = 1
            var other = NotKept()
            var list: [Reference<Shelf>] = []
            var pattern = ""
            var always = 1
            var empty = Empty()
            var twice = 1
            var place = Reference<Shelf>(ObjectID(entityNumber: 1, number: 1)!)

            static let schema = Schema<More>(unique: [[\.twice]]) {
                Attribute(\.list, .indexed)
                Attribute(\.pattern, .pattern("(["))
                Attribute(\.always, .required)
            }
        }
        @propertyWrapper struct Wrapper: Sendable {
            var wrappedValue: Int
        }
        struct Nothing: Entity {}
        struct SideWithout: Entity {
            var name = ""
            var books = ToMany<Book>()
        }
        struct Namesake: Entity {
            var objectReference = 1
            var schema = 1
            static let schema = Schema<Namesake>("Shelf")
        }
        struct Own: Entity {
            var name = ""
            static let schema = Schema<Own>("_annals.own")
        }
        final class NotAStruct: Entity {}
    }

    @Test func allMistakesAreReportedAtOnce() throws {
        func problems(_ entities: [any Entity.Type]) -> [Substring] {
            let error = expect(.modelInvalid) { try open(entities) }
            #expect(try! FileManager.default.contentsOfDirectory(atPath: folder.temporary.path).isEmpty)
            return error?.message.split(separator: "\n") ?? []
        }
        let first = problems([Mistakes.Wrapped.self, Shelf.self, Book.self, Tag.self])
        #expect(first.count == 2, "\(first)")
        #expect(first.contains { $0.hasPrefix("“twice” of “Wrapped” has 2 lines in the schema") })
        #expect(first.contains { $0.hasPrefix("A property of “Wrapped” of the type Int (AnnalsTests/EntityModel") })
        let more = problems([Mistakes.More.self, Shelf.self, Book.self, Tag.self, Mistakes.Nothing.self])
        for part in [
            "“a” of “More” has a property wrapper", "“other” of “More” has the type NotKept",
            "“list” of “More” is a list of objects", "“pattern” of “More” has the pattern “([”",
            "“always” of “More” is not optional",
            "“empty” of “More” has the type Empty, which has only one value",
            "“place” of “More” must be optional", "The key “twice” of “More” has fewer than two",
            "“Nothing” has no stored property",
        ] {
            #expect(more.contains { $0.hasPrefix(part) }, "\(part)")
        }
        #expect(more.count == 9, "\(more)")
        let side = problems([Mistakes.SideWithout.self, Book.self, Shelf.self, Tag.self])
        #expect(side.count == 1 && side[0].hasPrefix("“books” of “SideWithout” is not the other side of"))
        let names = problems([Mistakes.Namesake.self, Shelf.self])
        #expect(names.contains { $0.hasPrefix("Two entities are named “Shelf”") })
        #expect(names.contains { $0.hasPrefix("“objectReference” of “Shelf” has the name of a member of every") })
        #expect(names.contains { $0.hasPrefix("“schema” of “Shelf” has the name of a member of the entity's type") })
        #expect(names.contains { $0.hasPrefix("“books” of “Shelf” reads Book, which is not in") })
        let missing = problems([Book.self, Tag.self])
        #expect(missing.contains { $0.hasPrefix("“shelf” of “Book” refers to Shelf, which is not in `entities:`") })
        let own = problems([Mistakes.Own.self])
        #expect(own.count == 1 && own[0].hasPrefix("“_annals.own” begins with “_annals.”, which is reserved"))
        let aClass = problems([Mistakes.NotAStruct.self])
        #expect(aClass.count == 1 && aClass[0].contains("must be a struct"))
    }

    // MARK: Versions of a program

    enum First {
        struct Item: Entity, Equatable {
            var name = "none"
            var size: Int?
            var color = "red"
        }
    }

    enum Second {
        struct Item: Entity, Equatable {
            var title = ""
            var size: Int?
            var color: String?
            var weight = 7
            var made = Date()
            var tags: [String] = ["new"]

            static let schema = Schema<Item> {
                Attribute(\.title, .renamed(from: "name"), .indexed)
                Attribute(\.weight, .valueForOlderObjects(3))
            }
        }
    }

    enum Third {
        struct Item: Entity {
            var title = 1
        }
        struct Defaults: Entity {
            var title = ""
            var weight = 1

            static let schema = Schema<Defaults>("Item") { Attribute(\.weight, .valueForOlderObjects(4)) }
        }
        struct Unknown: Entity {
            var a = 0
        }
    }

    @Test func aNewVersionOfAProgramOpensTheStoreOfAnOlderOne() throws {
        let old = try open([First.Item.self])
        let (item, _) = try old.writeOptimistically { try $0.insert(First.Item(name: "a", size: nil, color: "blue")) }
        #expect(try old.snapshot().row(item.id)?["name"] == "a")
        let new = try open([Second.Item.self])
        let same = Reference<Second.Item>(item.id)
        let read = try #require(try new.snapshot()[same])
        #expect(read.title == "a" && read.color == "blue" && read.weight == 3 && read.tags == ["new"])
        // The sampled date is the same for everybody.
        #expect(try new.snapshot()[same]?.made == read.made)
        try new.writeOptimistically { try $0.update(same) { $0.color = nil } }
        // The old version goes on with what it knows; its entity was bound before.
        #expect(try new.snapshot().fetch(Second.Item.self, where: #Predicate { $0.title == "a" }).count == 1)
        expect(.schemaMismatch) { try open([Third.Item.self]) }
        expect(.schemaMismatch) { try open([Third.Defaults.self]) }
        let error = expect(.unknownEntity) { try new.snapshot().fetch(Third.Unknown.self) }
        #expect(error?.entity == "Unknown")
        #expect(try new.snapshot().entity("Item").attributes == ["title", "size", "color", "weight", "made", "tags"])
        try old.close()
        try new.close()
        // Read only, without the schema.
        var options = Store.Options()
        options.access = .readOnly
        expect(.schemaMismatch) {
            try Store(at: folder.path, entities: [Second.Item.self, Third.Unknown.self], options: options)
        }
        let reader = try Store(at: folder.path, entities: [Second.Item.self], options: options)
        #expect(try reader.snapshot()[same]?.color == nil)
        try reader.close()
        try folder.expectIntact()
    }

    @Test func aPropertyThatIsNotKeptHasItsInitialValue() throws {
        let store = try open([Everything.self, Shelf.self, Book.self, Tag.self])
        var value = Everything()
        value.cache = 5
        let (reference, _) = try store.writeOptimistically { try $0.insert(value) }
        #expect(try store.snapshot()[reference]?.cache == 0)
        #expect(try store.snapshot().entity("Everything").position(of: "cache") == nil)
        expect(.invalidArgument) { try store.snapshot().fetch(Everything.self, sortedBy: .ascending(\.cache)) }
        let found = try store.snapshot().count(Everything.self, where: #Predicate { $0.cache == 0 })
        #expect(found == 1)
        try store.close()
        try folder.expectIntact()
    }

    @Test func twoTypesReadTheSameEntity() throws {
        struct Title: Entity {
            var title = ""
            static let schema = Schema<Title>("Book")
        }
        let store = try open([Shelf.self, Book.self, Tag.self])
        let (book, _) = try store.writeOptimistically { try $0.insert(Book(title: "a", pages: 4)) }
        let title = Reference<Title>(book.id)
        for _ in 0..<2 {
            #expect(try store.snapshot()[title]?.title == "a" && store.snapshot()[book]?.pages == 4)
        }
        try store.writeOptimistically { try $0.update(title) { $0.title = "b" } }
        #expect(try store.snapshot()[book] == Book(title: "b", pages: 4, sortTitle: "a"))
        // A reference to an object of another entity finds nothing.
        #expect(try store.snapshot()[Reference<Shelf>(book.id)] == nil)
        expect(.objectNotFound) {
            try store.writeOptimistically { try $0.update(Reference<Shelf>(book.id)) { $0.name = "x" } }
        }
        try store.close()
        try folder.expectIntact()
    }
}
