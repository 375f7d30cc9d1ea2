// Fetching properties, sums and groups, and fetching in a transaction with its own changes.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct FetchTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func store() throws -> Store { try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self]) }

    // MARK: Properties

    @Test func chosenPropertiesAndAggregatesCanBeFetched() throws {
        let store = try store()
        let (shelves, _) = try store.writeOptimistically { transaction in
            let shelves = [try transaction.insert(Shelf(name: "a")), try transaction.insert(Shelf(name: "b"))]
            for number in 0..<10 {
                try transaction.insert(
                    Book(
                        title: "t\(number % 3)", pages: number, code: number % 4 == 0 ? nil : number,
                        price: number < 5 ? nil : Double(number) / 2, shelf: number == 9 ? nil : shelves[number % 2]))
            }
            return shelves
        }
        let snapshot = try store.snapshot()
        let tuples = try snapshot.select(Book.self, \.title, \.code, where: #Predicate { $0.pages > 6 })
        #expect(tuples.map(\.0) == ["t1", "t2", "t0"] && tuples.map(\.1) == [7, nil, 9])
        #expect(
            try snapshot.values(of: \Book.title, sortedBy: .ascending(\.title), distinct: true) == ["t0", "t1", "t2"])
        #expect(try snapshot.values(of: \Book.title, distinct: true, limit: 2).count == 2)
        #expect(try snapshot.select(Book.self, \.title, limit: 0).isEmpty)
        #expect(try snapshot.sum(of: \Book.pages) == 45)
        #expect(try snapshot.sum(of: \Book.code) == 1 + 2 + 3 + 5 + 6 + 7 + 9)
        #expect(try snapshot.sum(of: \Book.price) == 17.5)
        #expect(try snapshot.sum(of: \Book.pages, where: #Predicate { $0.pages > 100 }) == 0)
        #expect(try snapshot.average(of: \Book.pages) == 4.5)
        #expect(try snapshot.average(of: \Book.price, where: #Predicate { $0.pages < 5 }) == nil)
        #expect(try snapshot.minimum(of: \Book.pages) == 0 && snapshot.maximum(of: \Book.pages) == 9)
        #expect(try snapshot.minimum(of: \Book.code) == 1 && snapshot.maximum(of: \Book.code) == 9)
        #expect(try snapshot.maximum(of: \Book.title) == "t2" && snapshot.minimum(of: \Book.isbn) == nil)
        #expect(try snapshot.maximum(of: \Book.pages, where: #Predicate { $0.title == "t1" }) == 7)
        expect(.invalidArgument) { try snapshot.average(of: \Book.title) }
        expect(.invalidArgument) { try snapshot.fetch(Book.self, sortedBy: .ascending(\.tags)) }
        expect(.invalidArgument) { try snapshot.values(of: \Book.title.count) }

        let groups = try snapshot.groups(by: \Book.title, aggregating: \.pages, \.price)
        #expect(groups.map(\.key) == ["t0", "t1", "t2"] && groups.map(\.count) == [4, 3, 3])
        #expect(try groups.map { try $0.sum(\.pages) } == [18, 12, 15])
        #expect(groups.map { $0.average(\.pages) } == [4.5, 4, 5])
        #expect(
            groups.map { $0.minimum(\.price) } == [3, 3.5, 2.5] && groups.map { $0.maximum(\.pages) } == [9, 7, 8])
        #expect(groups[0].minimum(\.code) == nil)
        let byShelf = try snapshot.groups(by: \Book.shelf, having: { $0.count > 3 })
        #expect(byShelf.map(\.key) == [shelves[0], shelves[1]] && byShelf.map(\.count) == [5, 4])
        let large = try store.writeOptimistically { transaction in
            try transaction.insert("Book", ["title": "huge", "code": .int(Int64.max)])
            return try transaction.insert("Book", ["title": "huge", "code": .int(Int64.max)])
        }
        #expect(large.token != nil)
        expect(.valueOutOfRange) { try store.snapshot().sum(of: \Book.code) }
        let codes = try store.snapshot().values(of: \Book.code).compactMap { $0.map(Double.init) }
        #expect(try store.snapshot().average(of: \Book.code) == codes.reduce(0, +) / Double(codes.count))
        try store.close()
        try folder.expectIntact()
    }

    @Test func objectsAreStreamedOneByOne() async throws {
        let store = try store()
        try store.insert(contentsOf: (0..<500).map { Book(title: "t", pages: $0) })
        let snapshot = try store.snapshot()
        try store.delete(Book.self)
        var pages: [Int] = []
        for try await (_, book) in try snapshot.stream(Book.self, where: #Predicate { $0.pages % 2 == 0 }, limit: 200) {
            pages.append(book.pages)
        }
        #expect(pages == (0..<200).map { $0 * 2 })
        var seen = 0
        try snapshot.forEach(Book.self, sortedBy: .descending(\.pages)) { reference, book in
            let same = try snapshot[reference] == book
            #expect(same)
            seen += 1
            return seen < 10
        }
        #expect(seen == 10)
        struct Stop: Error {}
        #expect(throws: Stop.self) { try snapshot.forEach(Book.self) { _, _ in throw Stop() } }
        #expect(try snapshot.first(Book.self, sortedBy: .descending(\.pages))?.pages == 499)
        #expect(try store.snapshot().first(Book.self) == nil)
        #expect(try store.snapshot().count(Book.self) == 0)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Own changes

    /// What a transaction finds is what a snapshot finds after it, and before it what it had not yet changed.
    @Test(arguments: 0..<8)
    func aTransactionFindsItsOwnChanges(_ seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        let store = try store()
        var books: [Reference<Book>: Book] = [:]
        var shelves: [Reference<Shelf>] = []
        try store.writeOptimistically { transaction in
            for number in 0..<4 { shelves.append(try transaction.insert(Shelf(name: "s\(number)"))) }
        }
        for round in 0..<12 {
            try store.write { transaction in
                for _ in 0..<Int.random(in: 0..<15, using: &random) {
                    let keys = books.keys.sorted()
                    let key = keys.randomElement(using: &random)
                    switch Int.random(in: 0..<4, using: &random) {
                    case 0 where key != nil:
                        try transaction.delete(key!)
                        books[key!] = nil
                    case 1 where key != nil:
                        let (pages, shelf) = (
                            Int.random(in: 0..<9, using: &random), shelves.randomElement(using: &random)
                        )
                        try transaction.update(key!) { ($0.pages, $0.shelf) = (pages, shelf) }
                        (books[key!]!.pages, books[key!]!.shelf) = (pages, shelf)
                    default:
                        var book = Book(title: "t", pages: Int.random(in: 0..<9, using: &random))
                        book.shelf = shelves.randomElement(using: &random)
                        book.sortTitle = "t"
                        books[try transaction.insert(book)] = book
                    }
                }
                let bound = Int.random(in: 0..<9, using: &random)
                func expectFound(
                    _ predicate: Predicate<Object<Book>>, _ isWanted: (Book) -> Bool
                ) throws {
                    let wanted = books.filter { isWanted($0.value) }.keys.sorted()
                    let found = try transaction.references(to: Book.self, where: predicate).sorted()
                    #expect(found == wanted, "\(seed), \(round)")
                    #expect(try transaction.count(Book.self, where: predicate) == wanted.count)
                    let sorted = try transaction.fetch(
                        Book.self, where: predicate, sortedBy: .descending(\.pages), limit: 5, offset: 1)
                    let pages = wanted.map { books[$0]!.pages }.sorted(by: >)
                    #expect(sorted.map(\.pages) == Array(pages.dropFirst().prefix(5)))
                }
                try expectFound(#Predicate { $0.pages >= bound }) { $0.pages >= bound }
                try expectFound(#Predicate { $0.pages % 2 == 1 }) { $0.pages % 2 == 1 }
                let shelf = shelves[round % 4]
                let name = "s\(round % 4)"
                try expectFound(#Predicate { $0.shelf?.name == name }) { $0.shelf == shelf }
                try expectFound(#Predicate { $0.shelf == shelf }) { $0.shelf == shelf }
                let referring = books.filter { $0.value.shelf == shelf }.keys.sorted()
                #expect(try transaction.references(\Shelf.books, of: shelf) == referring)
                let full = try transaction.fetch(
                    Shelf.self, where: #Predicate { $0.books.contains { $0.pages > bound } },
                    sortedBy: .ascending(\.name))
                let wanted = shelves.indices.filter { index in
                    books.values.contains { $0.shelf == shelves[index] && $0.pages > bound }
                }
                #expect(full.map(\.name) == wanted.map { "s\($0)" })
            }
            let snapshot = try store.snapshot()
            #expect(try snapshot.references(to: Book.self) == books.keys.sorted())
            for (reference, book) in books { #expect(try snapshot[reference] == book) }
        }
        try store.close()
        try folder.expectIntact()
    }
}
