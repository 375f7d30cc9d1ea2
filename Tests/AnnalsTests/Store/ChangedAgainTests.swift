// Objects that one transaction changes again, however long it is.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ChangedAgainTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private static let filler = String(repeating: "x", count: 200)

    @Test func anObjectChangesOftenInALongTransaction() throws {
        let store = try folder.open([Sample.clip])
        let old = try store.writeOptimistically { try $0.insert("Clip", ["title": "old", "url": "o", "rank": 1]) }
            .result
        let doomed = try store.writeOptimistically { try $0.insert("Clip", ["title": "doomed", "url": "d"]) }.result
        let (ids, token) = try store.writeOptimistically { transaction in
            try transaction.update(old, ["title": "first"])
            try transaction.update(doomed, ["rank": 5])
            var ids: [ObjectID] = []
            for number in 0..<10_000 {
                ids.append(
                    try transaction.insert(
                        "Clip", ["title": .string(Self.filler), "url": .string("\(number)"), "rank": 0]))
            }
            // Far more than 512 KiB later: each counts up, some go.
            for round in 1...5 {
                for (number, id) in ids.enumerated() where number % 10 < round {
                    #expect(try transaction.row(id)?.value("rank") == .int(Int64(round - 1 - number % 10)))
                    #expect(try transaction.update(id, ["rank": .int(Int64(round - number % 10))]))
                }
            }
            #expect(try !transaction.update(ids[0], ["rank": 5]))
            try transaction.update(old, ["rank": 2])
            for id in ids.suffix(100) { try transaction.delete(id) }
            try transaction.delete(doomed)
            expect(.objectNotFound) { try transaction.update(ids[9_999], ["rank": 1]) }
            expect(.objectNotFound) { try transaction.delete(doomed) }
            #expect(try transaction.row(doomed) == nil)
            return ids
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(of: "Clip") == 9_901 && snapshot.row(doomed) == nil)
        for number in [0, 1, 4, 5, 9, 9_899] {
            let rank = number % 10 < 5 ? 5 - number % 10 : 0
            #expect(try snapshot.row(ids[number])?.value("rank") == .int(Int64(rank)), "\(number)")
        }
        #expect(try snapshot.count(of: "Clip", by: ["rank"], from: .including([5]), to: .including([5])) == 990)
        // Each object is in it once, with all that was changed of it.
        let transaction = try #require(try store.history(after: token!.number - 1).first)
        #expect(transaction.changes.count == 9_902)
        let change = try #require(transaction.changes.first { $0.object == old })
        #expect(change.kind == .update && Set(change.attributes) == ["title", "rank"])
        #expect(transaction.changes.first { $0.object == doomed }?.kind == .delete)
        try store.close()
        try folder.expectIntact()
    }

    /// Rows and changes that no longer count do not add up.
    @Test func manyUpdatesOfAnObjectInOneTransactionTakeLittleSpace() throws {
        let store = try folder.open([Sample.clip])
        let id = try store.writeOptimistically { try $0.insert("Clip", ["title": "counter", "rank": 0]) }.result
        try store.writeOptimistically { transaction in
            for number in 1...30_000 {
                try transaction.update(id, ["rank": .int(Int64(number)), "title": .string(Self.filler)])
            }
        }
        #expect(try store.snapshot().row(id)?.value("rank") == 30_000)
        #expect(try store.statistics.endBytes < 100_000)
        try store.close()
        try folder.expectIntact()
    }

    @Test func anUpsertOfManyRowsMayHaveTwoOfOneKey() throws {
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self])
        let books = (0..<20_000).map { number in
            Book(title: String(Self.filler.prefix(90)) + "\(number)", isbn: "\(number % 19_000)", pages: number % 100)
        }
        try store.upsert(contentsOf: books, author: "import")
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(of: "Book") == 19_000)
        let book = try #require(try snapshot.first(Book.self, where: #Predicate { $0.isbn == "5" }))
        #expect(book.title.hasSuffix("19005"))
        try store.close()
        try folder.expectIntact()
    }

    /// Cascades and nullified references meet objects that the transaction itself has written long before.
    @Test func deleteRulesChangeObjectsThatALongTransactionHasWritten() throws {
        let store = try Store(at: folder.path, entities: [Shelf.self, Book.self, Tag.self])
        try store.write { transaction in
            let shelves = try (0..<20).map { try transaction.insert(Shelf(name: "\($0)")) }
            let tags = try (0..<10).map { try transaction.insert(Tag(name: "\($0)")) }
            let books = try (0..<10_000).map { number in
                try transaction.insert(
                    Book(
                        title: String(Self.filler.prefix(90)), isbn: "\(number)", shelf: shelves[number % 20],
                        tags: [tags[number % 10], tags[(number + 1) % 10]]))
            }
            for book in books.prefix(2000) { try transaction.update(book) { $0.pages += 1 } }
            try transaction.delete(shelves[3])
            try transaction.delete(tags[4])
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(of: "Book") == 9_500 && snapshot.count(of: "Tag") == 9)
        let books = try snapshot.fetch(Book.self)
        #expect(books.count { $0.tags.count == 1 } == 2_000 - 500 && books.count { $0.pages == 1 } == 1_900)
        try store.close()
        try folder.expectIntact()
    }
}
