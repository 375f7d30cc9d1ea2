// A mirrored store with all that reads and writes a store through types: contexts, results, batches, trackers. Other
// pairs are in MirrorPairTests.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

private struct Shelf: Entity {
    var name = ""
    var books = ToMany<Book>()

    static let schema = Schema<Shelf> { Attribute(\.name, .unique) }
}

private struct Book: Entity {
    var title = ""
    var text = ""
    var rank = 0
    var shelf: Reference<Shelf>?

    static let schema = Schema<Book> {
        Attribute(\.title, .unique, .searchable)
        Attribute(\.text, .searchable)
        Attribute(\.rank, .indexed)
        Relationship(\.shelf, inverse: \.books)
    }
}

@Suite struct MirrorFeatureTests {
    private let folder: TemporaryDirectory
    private let exchange = SimulatedExchange(seed: 1)
    private let stores: [Store]
    private let peers: [MirrorPeer]

    init() throws {
        folder = try TemporaryDirectory()
        let (folder, exchange) = (folder, exchange)
        let stores = try ["first", "second"].map { try Store(at: folder.path($0), entities: [Shelf.self, Book.self]) }
        self.stores = stores
        peers = try stores.enumerated().map { index, store in
            try MirrorPeer.begin(
                store, exchange.courier(for: store.identifier.uuidString), firstNumber: 1, instance: UInt64(index),
                clock: { exchange.now })
        }
        try becomeQuiet()
    }

    private func becomeQuiet() throws {
        var rounds = 0
        while !peers.allSatisfy(\.isQuiet) || rounds < 3 {
            rounds += 1
            try #require(rounds < 100, "the peers do not become quiet: \(peers.map(\.obstacles))")
            for peer in peers { try peer.step() }
            exchange.advance(by: 1)
        }
    }

    private func books(_ store: Store) throws -> [String] {
        let snapshot = try store.snapshot()
        return try snapshot.fetch(Book.self, sortedBy: .ascending(\.title)).map { book in
            let shelf = try book.shelf.flatMap { try snapshot[$0]?.name } ?? "-"
            return "\(book.title) \(book.text.prefix(20)) \(book.rank) \(shelf)"
        }
    }

    /// Both stores have these books, and are whole.
    private func end(_ expected: [String]) throws {
        try becomeQuiet()
        for (store, name) in zip(stores, ["first", "second"]) {
            let books = try books(store)
            #expect(books == expected)
            try store.close()
            let path = folder.path(name)
            let report = try Checker.check(path, options: CheckOptions(), files: try Store.files(for: path))
            #expect(report.isIntact, "\(report.findings)")
        }
    }

    private func insert(_ titles: String..., in store: Store) throws {
        _ = try store.write(author: "app") { transaction in
            for title in titles { try transaction.insert(Book(title: title)) }
        }
    }

    private func change(_ title: String, in store: Store, _ body: @Sendable (inout Book) -> Void) throws {
        let changed = try store.update(Book.self, where: #Predicate { $0.title == title }, author: "remote") {
            body(&$0)
        }
        #expect(changed.count == 1)
    }

    @Test func batchesAndUpsertsReachTheGroup() throws {
        try stores[0].insert(contentsOf: (1...300).map { Book(title: "book \($0)", rank: $0) }, author: "import")
        try becomeQuiet()
        // Both at once, without knowing of each other.
        _ = try stores[0].update(Book.self, where: #Predicate { $0.rank > 3 }, author: "import") { $0.text = "long" }
        _ = try stores[1].upsert(contentsOf: [Book(title: "book 4", rank: 1000), Book(title: "new")], author: "import")
        _ = try stores[1].delete(Book.self, where: #Predicate { $0.rank > 4 && $0.rank != 1000 }, author: "import")
        try becomeQuiet()
        #expect(try books(stores[0]) == books(stores[1]))
        try end(["book 1  1 -", "book 2  2 -", "book 3  3 -", "book 4 long 1000 -", "new  0 -"].sorted())
    }

    @Test func snapshotsAndThePastStayAsTheyWere() throws {
        try insert("a", "b", in: stores[0])
        try becomeQuiet()
        let (held, token) = (try stores[1].snapshot(), try stores[1].currentToken)
        let reference = try #require(try held.references(to: Book.self, where: #Predicate { $0.title == "a" }).first)
        try change("a", in: stores[0]) { $0.rank = 7 }
        try stores[0].delete(Book.self, where: #Predicate { $0.title == "b" }, author: "remote")
        try becomeQuiet()
        for snapshot in [held, try stores[1].snapshot(asOf: token)] {
            #expect(try snapshot[reference]?.rank == 0)
            #expect(try snapshot.count(of: "Book") == 2)
        }
        let history = try stores[1].history(after: token).filter { !$0.changes.isEmpty }
        #expect(history.map(\.author) == ["remote", "remote"])
        #expect(history.flatMap { $0.changes.map(\.kind) } == [.update, .delete])
        try end(["a  7 -"])
    }

    @Test func contextsTakeMergedChangesAndKeepTheirEdits() throws {
        try insert("a", "b", "c", in: stores[0])
        try becomeQuiet()
        let context = stores[0].makeContext(author: "app", name: "editor")
        context.undoLevels = 10
        let notes = try context.fetch(Book.self, sortedBy: .ascending(\.title))
        let ranked = try context.results(Book.self, where: #Predicate { $0.rank > 0 }, sortedBy: .ascending(\.title))
        notes[0].text = "edited"
        try change("a", in: stores[1]) { $0.rank = 5 }
        try change("b", in: stores[1]) { $0.rank = 6 }
        try stores[1].delete(Book.self, where: #Predicate { $0.title == "c" }, author: "remote")
        try becomeQuiet()
        try context.merge()
        #expect(notes[0].text == "edited" && notes[0].rank == 5 && notes[1].rank == 6)
        #expect(notes[2].objectStatus.isGone)
        #expect(ranked.map(\.title) == ["a", "b"])
        try context.save()
        try becomeQuiet()
        #expect(try books(stores[1]) == ["a edited 5 -", "b  6 -"])
        // Only its own edit is undone.
        try change("a", in: stores[1]) { $0.rank = 8 }
        try becomeQuiet()
        try context.merge()
        try context.undo(skippingConflicts: true)
        try context.save()
        try end(["a  8 -", "b  6 -"])
    }

    @MainActor @Test func savesInTheBackgroundAndMergesAlternate() async throws {
        try insert("a", in: stores[0])
        try becomeQuiet()
        let context = stores[0].makeContext(author: "app")
        let book = try #require(try context.fetch(Book.self).first)
        for round in 1...20 {
            book.text = "text \(round)"
            try change("a", in: stores[1]) { $0.rank = round }
            let saving = Task { try await context.saveInBackground() }
            await Task.yield()
            for peer in peers { try peer.step() }
            exchange.advance(by: 0.1)
            _ = try await saving.value
            try context.merge()
        }
        try becomeQuiet()
        try context.merge()
        #expect(book.text == "text 20" && book.rank == 20)
        try end(["a text 20 20 -"])
    }

    @Test func largeValuesAndLongTransactionsMerge() throws {
        let text = String(repeating: "long ", count: 40_000)
        try stores[0].write(author: "app") { transaction in
            for number in 1...20_000 { try transaction.insert(Book(title: "\(number)", rank: number)) }
            for number in 1...3 { try transaction.insert(Book(title: "large \(number)", text: text, rank: -number)) }
        }
        try becomeQuiet()
        let large = try stores[1].snapshot().fetch(Book.self, where: #Predicate { $0.rank < 0 })
        #expect(large.count == 3 && large.allSatisfy { $0.text == text })
        #expect(try stores[1].snapshot().count(of: "Book") == 20_003)
        try stores[1].delete(Book.self, where: #Predicate { $0.rank > 1 }, author: "app")
        try end(["1  1 -"] + (1...3).map { "large \($0) \(text.prefix(20)) \(-$0) -" })
    }

    /// Each store indexes its own rows. Objects that arrive are found at once, and the index is never sent.
    @Test func eachStoreSearchesThroughItsOwnIndex() throws {
        for number in 0..<30 { try insert("book \(number)", in: stores[number % 2]) }
        try stores[0].updateSearchIndexes()
        try becomeQuiet()
        for store in stores { #expect(try store.snapshot().searchCount(Book.self, for: "book") == 30) }
        #expect(try stores[0].searchIndexes[0].unindexedObjects == 15)
        try stores[1].updateSearchIndexes()
        try change("book 3", in: stores[0]) { $0.text = "linux" }
        try stores[1].delete(Book.self, where: #Predicate { $0.title == "book 4" }, author: "app")
        try becomeQuiet()
        for round in 0..<2 {
            for store in stores {
                if round == 1 { try store.updateSearchIndexes() }
                #expect(try store.snapshot().search(Book.self, for: "linux").map(\.value.title) == ["book 3"])
                #expect(try store.snapshot().searchCount(Book.self, for: "book") == 29)
                #expect(try store.searchIndexFaults() == [])
            }
        }
        try end((0..<30).filter { $0 != 4 }.map { "book \($0) \($0 == 3 ? "linux" : "") 0 -" }.sorted())
    }

    /// Other handles and tasks write while the mirror merges.
    @Test func mergingGoesOnWhileOtherHandlesAndTasksWrite() async throws {
        let path = folder.path("first")
        let other = try Store(at: path, entities: [Shelf.self, Book.self])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<3 {
                let store = writer == 0 ? other : stores[0]
                group.addTask {
                    for number in 0..<20 {
                        try await store.write(author: "writer") {
                            try $0.insert(Book(title: "\(writer) \(number)", rank: number))
                        }
                    }
                }
            }
            for round in 0..<40 {
                try insert("remote \(round)", in: stores[1])
                for peer in peers { try peer.step() }
                exchange.advance(by: 0.1)
            }
            try await group.waitForAll()
        }
        try becomeQuiet()
        #expect(try books(other) == books(stores[1]))
        try other.close()
        let written = (0..<3).flatMap { writer in (0..<20).map { "\(writer) \($0)  \($0) -" } }
        try end((written + (0..<40).map { "remote \($0)  0 -" }).sorted())
    }

    @Test func trackersSeeMergedTransactionsOnlyIfTheyWantTo() async throws {
        for isWanted in [false, true] {
            let title = "remote \(isWanted)"
            let tracker = try HistoryTracker(
                store: stores[0], currentAuthor: "app", allAuthors: ["app", "remote"], includingMirroring: isWanted)
            let titles = AsyncStream<String>.makeStream()
            tracker.observe(Book.self, [.insert]) { changes in
                for change in changes { titles.continuation.yield(change.after?.title ?? "-") }
            }
            tracker.start()
            _ = try await stores[1].write(author: "remote") { try $0.insert(Book(title: title)) }
            try becomeQuiet()
            _ = try await stores[0].write(author: "remote") { try $0.insert(Book(title: "here \(isWanted)")) }
            var seen: [String] = []
            for await title in titles.stream {
                seen.append(title)
                if title == "here \(isWanted)" { break }
            }
            await tracker.stop()
            #expect(seen == (isWanted ? [title] : []) + ["here \(isWanted)"])
        }
        try end(["here false", "here true", "remote false", "remote true"].map { "\($0)  0 -" })
    }
}
