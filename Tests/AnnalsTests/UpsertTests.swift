// Upserts that set some properties of an existing object, and leave the others alone.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct UpsertTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func makeStore() throws -> Store {
        try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self])
    }

    @Test func anExistingObjectKeepsWhatIsNotNamed() throws {
        let store = try makeStore()
        let (shelf, _) = try store.commit { try $0.insert(Shelf(name: "s")) }
        let before = Book(
            title: "A", isbn: "1", pages: 7, code: 3, price: .nan, isRead: true, bought: Date(timeIntervalSince1970: 1),
            shelf: shelf)
        let (book, token) = try store.commit { try $0.insert(before) }
        let imported = Book(title: "B", isbn: "1", pages: 9)
        let (same, _) = try store.commit { try $0.upsert(imported, updating: [\.title, \.isbn]) }
        #expect(same == book)
        let after = try #require(try store.snapshot()[book])
        // Derived properties follow what was set.
        #expect(after.title == "B" && after.sortTitle == "b")
        #expect(after.pages == 7 && after.code == 3 && after.isRead && after.shelf == shelf && after.bought != nil)
        #expect(after.price?.isNaN == true)
        let changes = try store.changes(HistoryRequest(after: .token(try #require(token))))
        #expect(changes.count == 1 && changes[0].changes(\Book.title) && !changes[0].changes(\Book.pages))
        // Nothing differs, or nothing is named: nothing is written.
        #expect(try store.commit { try $0.upsert(imported, updating: [\.title]) }.1 == nil)
        #expect(try store.commit { try $0.upsert(Book(title: "C", isbn: "1"), updating: []) }.1 == nil)
        // Plain upsert sets all.
        try store.commit { try $0.upsert(imported) }
        let reset = try #require(try store.snapshot()[book])
        #expect(reset.pages == 9 && reset.code == nil && !reset.isRead && reset.shelf == nil)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aNewObjectGetsAllProperties() throws {
        let store = try makeStore()
        let books = (0..<10).map { Book(title: "t\($0)", isbn: "\($0 % 5)", pages: $0, code: $0) }
        let result = try store.upsert(contentsOf: books, updating: [\.pages], author: "import")
        #expect(result.count == 10 && Set(result.references).count == 5)
        let found = try store.snapshot().fetch(Book.self, sortedBy: .ascending(\.isbn))
        #expect(found.map(\.title) == (0..<5).map { "t\($0)" })
        #expect(found.map(\.pages) == Array(5..<10) && found.map(\.code) == Array(0..<5))
        // What the transaction itself has written counts, however it was written.
        try store.commit { transaction in
            let first = try #require(
                try transaction.references(to: Book.self, where: #Predicate { $0.isbn == "0" }).first)
            try transaction.update(first.id, ["isbn": "x", "code": 77])
            #expect(try transaction.upsert(Book(title: "z", isbn: "x", pages: 1), updating: [\.pages]) == first)
            #expect(try transaction.upsert(Book(title: "new", isbn: "0"), updating: [\.pages]) != first)
            let untyped = try transaction.insert("Book", ["title": "u", "isbn": "u", "sortTitle": "u", "pages": 3])
            #expect(try transaction.upsert(Book(title: "v", isbn: "u"), updating: [\.title]).id == untyped)
        }
        let snapshot = try store.snapshot()
        let first = try #require(try snapshot.first(Book.self, where: #Predicate { $0.isbn == "x" }))
        #expect(first.code == 77 && first.pages == 1 && first.title == "t0")
        let untyped = try #require(try snapshot.first(Book.self, where: #Predicate { $0.isbn == "u" }))
        #expect(untyped.title == "v" && untyped.pages == 3)
        try store.close()
        try folder.expectIntact()
    }

    @Test func whatIsNotValidIsRefused() throws {
        let store = try makeStore()
        try store.commit { try $0.insert(Book(title: "A", isbn: "1")) }
        expect(.validationFailed) {
            try store.commit { try $0.upsert(Book(title: "A", isbn: "1", pages: -1), updating: [\.pages]) }
        }
        // Only what is set counts.
        try store.commit { try $0.upsert(Book(title: "", isbn: "1", pages: 2), updating: [\.pages]) }
        expect(.invalidArgument) {
            try store.commit { try $0.upsert(Shelf(name: "x"), updating: [\.books]) }
        }
        expect(.invalidArgument) { try store.upsert(contentsOf: [Tag(name: "x")], updating: [\.name]) }
        #expect(try store.snapshot().fetch(Book.self).map(\.pages) == [2])
        try store.close()
        try folder.expectIntact()
    }

    enum Newer {
        struct Item: Entity {
            var key = 0
            var name = ""
            var note = "n"
            var list: [String] = []

            static let schema = Schema<Item>("Item") { Attribute(\.key, .unique) }
        }
    }

    enum Older {
        struct Item: Entity {
            var key = 0
            var name = ""

            static let schema = Schema<Item>("Item") { Attribute(\.key, .unique) }
        }
    }

    @Test func anOlderProgramKeepsWhatItDoesNotKnow() throws {
        let newer = try Store(at: folder.path, entities: [Newer.Item.self])
        let (item, _) = try newer.commit { try $0.insert(Newer.Item(key: 1, name: "a", note: "kept", list: ["x"])) }
        try newer.close()
        let older = try Store(at: folder.path, entities: [Older.Item.self])
        try older.commit { try $0.upsert(Older.Item(key: 1, name: "b"), updating: [\.name]) }
        try older.upsert(contentsOf: [Older.Item(key: 1, name: "c")])
        try older.close()
        let again = try Store(at: folder.path, entities: [Newer.Item.self])
        let value = try #require(try again.snapshot()[item])
        #expect(value.name == "c" && value.note == "kept" && value.list == ["x"])
        try again.close()
        try folder.expectIntact()
    }
}
