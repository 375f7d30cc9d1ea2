// Values of a program's own types: what is declared is kept, found, changed and deleted.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct EntityTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func store(_ entities: [any Entity.Type] = [Shelf.self, Book.self, Tag.self]) throws -> Store {
        try Store(at: folder.path, entities: entities)
    }

    // MARK: Types

    @Test func everyTypeOfPropertyIsKept() throws {
        let store = try store([Everything.self, Shelf.self, Book.self, Tag.self])
        let (shelf, _) = try store.writeOptimistically { try $0.insert(Shelf(name: "a")) }
        var value = Everything()
        value.flag = true
        value.small = -128
        value.middle = 32_767
        value.long = Int64.min
        value.byte = 255
        value.word = 65_535
        value.wide = UInt64(Int64.max)
        value.ratio = -0.0
        value.half = 1.5
        value.text = "ä\u{0}z"
        value.date = Date(timeIntervalSinceReferenceDate: 12.25)
        value.uuid = UUID()
        value.data = Data([1, 2, 3])
        value.url = URL(string: "https://swift.org/a?b=c")
        value.decimal = Decimal(string: "12.345")!
        value.color = .blue
        value.level = .high
        value.nested = Everything.Nested(a: 3, b: ["x": 1, "a": 2])
        value.optionalFlag = false
        value.optionalSmall = 7
        value.optionalText = "there"
        value.optionalDate = Date(timeIntervalSinceReferenceDate: 1)
        value.optionalColor = .red
        value.optionalNested = Everything.Nested(a: 1, b: [:])
        value.shelf = shelf
        value.shelves = [shelf]
        value.some = [shelf]
        value.words = ["one", "two"]
        let (references, _) = try store.writeOptimistically { transaction in
            let first = try transaction.insert(value)
            #expect(try transaction[first] == value)
            return [first, try transaction.insert(Everything())]
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot[references[0]] == value)
        #expect(try snapshot[references[1]] == Everything())
        #expect(try snapshot.fetch(Everything.self) == [value, Everything()])
        // Emptied again.
        try store.writeOptimistically { try $0.update(references[0], to: Everything()) }
        #expect(try store.snapshot()[references[0]] == Everything())
        #expect(try snapshot[references[0]] == value)
        // JSON has sorted keys.
        let row = try #require(try snapshot.row(references[0].id))
        #expect(row["nested"] == .json(#"{"a":3,"b":{"a":2,"x":1}}"#))
        #expect(row["color"] == .string("blue") && row["level"] == .int(2))
        try store.close()
        try folder.expectIntact()
    }

    @Test func aValueThatCannotBeStoredIsAnError() throws {
        let store = try store([Everything.self, Shelf.self, Book.self, Tag.self])
        var value = Everything()
        value.wide = UInt64.max
        let error = expect(.valueOutOfRange) { try store.writeOptimistically { try $0.insert(value) } }
        #expect(error?.entity == "Everything" && error?.attributes == ["wide"])
        // What the store has and the type has not.
        let (object, _) = try store.writeOptimistically { try $0.insert("Everything", ["small": 300, "color": "red"]) }
        expect(.valueOutOfRange) { try store.snapshot()[Reference<Everything>(object)] }
        try store.writeOptimistically { try $0.update(object, ["small": 3, "color": "green"]) }
        let unknown = expect(.valueOutOfRange) { try store.snapshot()[Reference<Everything>(object)] }
        #expect(unknown?.attributes == ["color"])
        #expect(try store.snapshot().count(of: "Everything") == 1)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Changes

    @Test func objectsAreInsertedChangedAndDeleted() throws {
        let store = try store()
        let (book, _) = try store.writeOptimistically { transaction in
            let shelf = try transaction.insert(Shelf(name: "top"))
            let book = try transaction.insert(Book(title: "A", isbn: "1", pages: 10, shelf: shelf))
            #expect(try transaction.update(book) { $0.pages += 1 })
            #expect(try !transaction.update(book) { $0.pages = 11 })
            #expect(try transaction[book]?.pages == 11)
            return book
        }
        #expect(try store.snapshot()[book]?.pages == 11)
        let shelf = try #require(try store.snapshot()[book]?.shelf)
        #expect(try store.snapshot().references(\.books, of: shelf) == [book])
        // The store's own attributes that the type does not know stay.
        try store.changeSchema([.addAttribute(AttributeDescription("note", .string), to: "Book")])
        try store.writeOptimistically { try $0.update(book.id, ["note": "kept"]) }
        try store.writeOptimistically { try $0.update(book) { $0.title = "B" } }
        #expect(try store.snapshot().row(book.id)?["note"] == "kept")
        #expect(try store.snapshot()[book]?.title == "B")
        try store.writeOptimistically { try $0.delete(shelf) }
        #expect(try store.snapshot()[book] == nil && store.snapshot()[shelf] == nil)
        expect(.objectNotFound) { try store.writeOptimistically { try $0.update(book) { $0.pages = 1 } } }
        expect(.objectNotFound) { try store.writeOptimistically { try $0.delete(book) } }
        try store.close()
        try folder.expectIntact()
    }

    /// An object that this transaction has reserved and not yet inserted reads as null. The row keeps the reference.
    @Test func anUpdateKeepsReferencesToObjectsInsertedLater() throws {
        let store = try store()
        let (book, _) = try store.writeOptimistically { try $0.insert(Book(title: "A")) }
        let (later, _) = try store.writeOptimistically { transaction in
            let (shelf, tag) = (try transaction.reserve(Shelf.self), try transaction.reserve(Tag.self))
            let new = try transaction.insert(Book(title: "B", shelf: shelf, tags: [tag]))
            try transaction.update(book) { ($0.shelf, $0.tags) = (shelf, [tag]) }
            for book in [book, new] {
                #expect(try transaction[book]?.shelf == nil && transaction[book]?.tags == [])
                #expect(try transaction.update(book) { $0.pages = 7 })
                #expect(try !transaction.update(book) { $0.pages = 7 })
            }
            try transaction.insert(Shelf(name: "top"), as: shelf)
            try transaction.insert(Tag(name: "new"), as: tag)
            return (books: [book, new], shelf: shelf, tag: tag)
        }
        let snapshot = try store.snapshot()
        for book in later.books {
            let value = try #require(try snapshot[book])
            #expect(value.shelf == later.shelf && value.tags == [later.tag] && value.pages == 7)
        }
        #expect(try snapshot.references(\.books, of: later.shelf).sorted() == later.books.sorted())
        try store.close()
        try folder.expectIntact()
    }

    @Test func upsertFindsStoredObjectsAndThoseOfTheTransaction() throws {
        let store = try store()
        let (before, _) = try store.writeOptimistically { try $0.upsert(Book(title: "A", isbn: "1")) }
        let (found, _) = try store.writeOptimistically { transaction in
            try transaction.insert(Book(title: "B", isbn: "2"))
            let same = try transaction.upsert(Book(title: "A2", isbn: "1"))
            let own = try transaction.upsert(Book(title: "B2", isbn: "2"))
            let new = try transaction.upsert(Book(title: "C", isbn: "3"))
            // What had the key before and has another one now is not meant.
            try transaction.update(same) { $0.isbn = "4" }
            let another = try transaction.upsert(Book(title: "D", isbn: "1"))
            #expect(another != same)
            try transaction.delete(another)
            let last = try transaction.upsert(Book(title: "E", isbn: "1"))
            return [same, own, new, last]
        }
        #expect(found[0] == before)
        let titles = try store.snapshot().fetch(Book.self, sortedBy: .ascending(\.isbn)).map(\.title)
        #expect(titles == ["E", "B2", "C", "A2"])
        expect(.invalidArgument) { try store.writeOptimistically { try $0.upsert(Tag(name: "x")) } }
        // Unique together.
        let (pair, _) = try store.writeOptimistically { transaction in
            let shelf = try transaction.insert(Shelf(name: "s"))
            let first = try transaction.upsert(Book(title: "T", isbn: "9", code: 1, shelf: shelf))
            return [first, try transaction.upsert(Book(title: "U", isbn: "9", code: 2, shelf: shelf))]
        }
        #expect(pair[0] == pair[1])
        try store.close()
        try folder.expectIntact()
    }

    @Test func allFailuresOfATransactionAreReportedTogether() throws {
        let store = try store()
        let error = expect(.validationFailed) {
            try store.writeOptimistically { transaction in
                try transaction.insert(Book(title: "", isbn: "1", pages: -1))
                let book = try transaction.insert(Book(title: "fine", isbn: "2"))
                try transaction.update(book) { $0.pages = 100_000 }
            }
        }
        #expect(error?.validationFailures.map(\.attribute) == ["title", "pages", "pages"])
        #expect(error?.validationFailures.map(\.value) == ["", "-1", "100000"])
        #expect(try store.snapshot().count(Book.self) == 0)
        let (book, _) = try store.writeOptimistically { try $0.insert(Book(title: "Swift Book", isbn: "3")) }
        #expect(try store.snapshot()[book]?.sortTitle == "swift book")
        try store.writeOptimistically { try $0.update(book) { $0.title = "Other" } }
        #expect(try store.snapshot()[book]?.sortTitle == "other")
        try store.close()
        try folder.expectIntact()
    }

    // MARK: History

    @Test func historyUsesTheProgramsTypes() throws {
        let store = try store()
        let (book, token) = try store.writeOptimistically { try $0.insert(Book(title: "A", isbn: "1", pages: 3)) }
        try store.writeOptimistically { try $0.update(book) { $0.pages = 4 } }
        try store.writeOptimistically { try $0.delete(book) }
        let changes = try store.changes(HistoryRequest(after: .token(try #require(token))), includingValues: true)
        #expect(changes.count == 2)
        #expect(changes[0].changes(\Book.pages) && !changes[0].changes(\Book.title))
        #expect(!changes[0].changes(\Shelf.name))
        #expect(try changes[0].before(of: Book.self)?.pages == 3)
        #expect(try changes[0].after(of: Book.self)?.pages == 4)
        #expect(try changes[0].after(of: Shelf.self) == nil)
        #expect(changes[0].tombstone(of: Book.self) == nil)
        let tombstone = try #require(changes[1].tombstone(of: Book.self))
        #expect(tombstone.reference == book && tombstone[\.isbn] == "1" && tombstone[\.title] == nil)
        #expect(changes[1].reference(to: Book.self) == book && changes[1].reference(to: Tag.self) == nil)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Batches

    @Test func batchesChangeManyObjectsInOneTransaction() throws {
        let store = try store()
        let before = try store.snapshot().token
        let inserted = try store.insert(
            contentsOf: (0..<1000).map { Book(title: "t\($0)", isbn: "\($0)", pages: $0) }, author: "import")
        #expect(inserted.count == 1000 && Set(inserted.references).count == 1000)
        let changed = try store.update(Book.self, where: #Predicate { $0.pages >= 900 }, author: "import") {
            $0.pages += 1
        }
        #expect(changed.count == 100)
        let same = try store.update(Book.self, where: #Predicate { $0.pages == 5 }) { $0.pages = 5 }
        #expect(same.count == 0 && same.token == nil)
        let sequence = sequence(first: 990) { $0 < 1010 ? $0 + 1 : nil }.lazy.map { number in
            Book(title: "u\(number)", isbn: "\(number)")
        }
        #expect(try store.upsert(contentsOf: sequence).count == 21)
        #expect(try store.snapshot().count(Book.self) == 1011)
        let deleted = try store.delete(Book.self, where: #Predicate { $0.title.starts(with: "u") }, author: "x")
        #expect(deleted.count == 21)
        #expect(try store.snapshot().count(Book.self) == 990)
        let history = try store.history(HistoryRequest(after: .token(before)))
        #expect(history.map(\.changes.count) == [1000, 100, 21, 21])
        #expect(history.map(\.author) == ["import", "import", nil, "x"])
        expect(.validationFailed) { try store.update(Book.self) { $0.pages = -1 } }
        #expect(try store.snapshot().count(Book.self, where: #Predicate { $0.pages < 0 }) == 0)
        try store.close()
        try folder.expectIntact()
    }
}
