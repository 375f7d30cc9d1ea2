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

    @Test func anExistingObjectKeepsPropertiesThatAreNotNamed() throws {
        let store = try makeStore()
        let (shelf, _) = try store.writeOptimistically { try $0.insert(Shelf(name: "s")) }
        let before = Book(
            title: "A", isbn: "1", pages: 7, code: 3, price: .nan, isRead: true, bought: Date(timeIntervalSince1970: 1),
            shelf: shelf)
        let (book, token) = try store.writeOptimistically { try $0.insert(before) }
        let imported = Book(title: "B", isbn: "1", pages: 9)
        let (same, _) = try store.writeOptimistically { try $0.upsert(imported, updating: [\.title, \.isbn]) }
        #expect(same == book)
        let after = try #require(try store.snapshot()[book])
        // Derived properties follow what was set.
        #expect(after.title == "B" && after.sortTitle == "b")
        #expect(after.pages == 7 && after.code == 3 && after.isRead && after.shelf == shelf && after.bought != nil)
        #expect(after.price?.isNaN == true)
        let changes = try store.changes(HistoryRequest(after: .token(try #require(token))))
        #expect(changes.count == 1 && changes[0].changes(\Book.title) && !changes[0].changes(\Book.pages))
        // Nothing differs, or nothing is named: nothing is written.
        #expect(try store.writeOptimistically { try $0.upsert(imported, updating: [\.title]) }.1 == nil)
        #expect(try store.writeOptimistically { try $0.upsert(Book(title: "C", isbn: "1"), updating: []) }.1 == nil)
        // Plain upsert sets all.
        try store.writeOptimistically { try $0.upsert(imported) }
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
        try store.writeOptimistically { transaction in
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

    @Test func invalidUpsertsAreRefused() throws {
        let store = try makeStore()
        try store.writeOptimistically { try $0.insert(Book(title: "A", isbn: "1")) }
        expect(.validationFailed) {
            try store.writeOptimistically { try $0.upsert(Book(title: "A", isbn: "1", pages: -1), updating: [\.pages]) }
        }
        // Only what is set counts.
        try store.writeOptimistically { try $0.upsert(Book(title: "", isbn: "1", pages: 2), updating: [\.pages]) }
        expect(.invalidArgument) {
            try store.writeOptimistically { try $0.upsert(Shelf(name: "x"), updating: [\.books]) }
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

    @Test func anOlderProgramKeepsUnknownAttributes() throws {
        let newer = try Store(at: folder.path, entities: [Newer.Item.self])
        let (item, _) = try newer.writeOptimistically {
            try $0.insert(Newer.Item(key: 1, name: "a", note: "kept", list: ["x"]))
        }
        try newer.close()
        let older = try Store(at: folder.path, entities: [Older.Item.self])
        try older.writeOptimistically { try $0.upsert(Older.Item(key: 1, name: "b"), updating: [\.name]) }
        try older.upsert(contentsOf: [Older.Item(key: 1, name: "c")])
        try older.close()
        let again = try Store(at: folder.path, entities: [Newer.Item.self])
        let value = try #require(try again.snapshot()[item])
        #expect(value.name == "c" && value.note == "kept" && value.list == ["x"])
        try again.close()
        try folder.expectIntact()
    }

    // MARK: Keys that become free in the transaction

    struct Owner: Entity { var name = "" }

    struct Part: Entity, Equatable {
        var number = 0
        var code = ""
        var owner: Reference<Owner>?
        static let schema = Schema<Part> {
            Attribute(\.number, .unique)
            Attribute(\.code, .unique)
            Relationship(\.owner, whenTargetIsDeleted: .cascade)
        }
    }

    private func makeParts() throws -> (store: Store, owner: Reference<Owner>, parts: [Reference<Part>]) {
        let store = try Store(at: folder.path, entities: [Owner.self, Part.self])
        let (owner, parts) = try store.writeOptimistically { transaction in
            let owner = try transaction.insert(Owner(name: "o"))
            let parts = ["a", "b", "c"].enumerated().map { Part(number: $0.offset + 1, code: $0.element, owner: owner) }
            return (owner, try parts.map { try transaction.insert($0) })
        }.0
        return (store, owner, parts)
    }

    private func codes(_ store: Store) throws -> [String] {
        try store.snapshot().fetch(Part.self, sortedBy: .ascending(\.number)).map { "\($0.number)\($0.code)" }
    }

    @Test(arguments: [false, true]) func aBatchTakesKeysThatItFreesLater(isCollection: Bool) throws {
        let (store, _, references) = try makeParts()
        func upsert(_ parts: [Part], _ paths: [any PartialKeyPath<Part> & Sendable]?) throws -> [Reference<Part>] {
            if let paths {
                return try isCollection
                    ? store.upsert(contentsOf: parts, updating: paths).references
                    : store.upsert(contentsOf: AnySequence(parts), updating: paths).references
            }
            return try isCollection
                ? store.upsert(contentsOf: parts).references
                : store.upsert(contentsOf: AnySequence(parts)).references
        }
        func parts(_ texts: String...) -> [Part] {
            texts.map { Part(number: Int(String($0.first!))!, code: String($0.dropFirst())) }
        }
        // Each takes the code of the next one, the last that of the first.
        for paths in [nil, [\Part.code]] as [[any PartialKeyPath<Part> & Sendable]?] {
            let before = try codes(store)
            let found = try upsert(parts("1b", "2c", "3a"), paths)
            #expect(try found == references && codes(store) == ["1b", "2c", "3a"])
            _ = try upsert(parts("3c", "2b", "1a"), paths)
            #expect(try codes(store) == before)
            // Those whose keys are not freed are named, by their place in the sequence.
            func elements(_ texts: String...) -> [Int] {
                let values = texts.map { Part(number: Int(String($0.first!))!, code: String($0.dropFirst())) }
                let error = expect(.uniqueViolation) { try upsert(values, paths) }
                #expect(error?.attributes == ["code"], "\(error?.message ?? "")")
                return error?.elements ?? []
            }
            #expect(elements("2x", "1c") == [1])
            #expect(elements("1c", "2x") == [0])
            #expect(elements("2x", "1q", "3q") == [1, 2])
            #expect(elements("1b", "2c", "3c") == [1, 2])
            #expect(try codes(store) == before)
        }
        try store.close()
        try folder.expectIntact()
    }

    /// Delete rules are carried out when the body has ended: until then an upsert finds what they will delete.
    @Test(arguments: [false, true]) func aCascadeFreesKeys(deletesFirst: Bool) throws {
        let (store, owner, references) = try makeParts()
        let (other, _) = try store.writeOptimistically { try $0.insert(Owner(name: "other")) }
        let found = try store.writeOptimistically { transaction in
            if deletesFirst { try transaction.delete(owner) }
            let inserted = try transaction.insert(Part(number: 1, code: "a"))
            // One that belongs to nobody else from now on stays, and so does one that moves.
            let free = try transaction.upsert(Part(number: 2, code: "b"))
            let moved = try transaction.upsert(Part(number: 3, code: "c", owner: other), updating: [\.owner])
            if !deletesFirst { try transaction.delete(owner) }
            return [inserted, free, moved]
        }.0
        #expect(!references.contains(found[0]) && Array(found[1...]) == Array(references[1...]))
        let snapshot = try store.snapshot()
        #expect(try snapshot[references[0]] == nil && codes(store) == ["1a", "2b", "3c"])
        #expect(try snapshot[found[2]]?.owner == other)
        // What still belongs to the deleted owner after the upsert is deleted with it.
        let (kept, _) = try store.writeOptimistically { transaction in
            if deletesFirst { try transaction.delete(other) }
            let kept = try transaction.upsert(Part(number: 3, code: "z"), updating: [\.code])
            if !deletesFirst { try transaction.delete(other) }
            return kept
        }
        #expect(try kept == references[2] && store.snapshot()[kept] == nil)
        #expect(try store.insert(contentsOf: [Part(number: 3, code: "c"), Part(number: 4, code: "z")]).count == 2)
        let error = expect(.uniqueViolation) {
            try store.insert(contentsOf: [Part(number: 5, code: "e"), Part(number: 6, code: "c")])
        }
        #expect(error?.elements == [1])
        try store.close()
        try folder.expectIntact()
    }

    /// A key that the body frees by deleting, or by giving the object another.
    @Test func aBodyFreesKeys() throws {
        let (store, _, references) = try makeParts()
        let (found, _) = try store.writeOptimistically { transaction in
            try transaction.delete(references[0])
            let first = try transaction.upsert(Part(number: 1, code: "a"))
            try transaction.update(references[1]) { ($0.number, $0.code) = (20, "bb") }
            let second = try transaction.upsert(Part(number: 2, code: "b"), updating: [\.code])
            return [first, second]
        }
        #expect(Set(found).isDisjoint(with: references))
        #expect(try codes(store) == ["1a", "2b", "3c", "20bb"])
        try store.close()
        try folder.expectIntact()
    }
}
