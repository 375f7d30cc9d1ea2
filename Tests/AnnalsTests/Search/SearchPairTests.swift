// Searching beside other features: whatever they do to a store, a search finds what reading all objects finds.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct SearchPairTests: StoreSuite {
    let folder: StoreFolder
    let store: Store
    private static let options = Store.Options(durability: .relaxed)

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
    }

    /// Some are indexed, and some have changed since.
    private func fill() throws {
        try store.insert(contentsOf: (0..<60).map { SearchNote(title: "swift \($0)", text: "on linux", rank: $0) })
        try store.updateSearchIndexes()
        try store.update(SearchNote.self, where: #Predicate { $0.rank < 5 }) { $0.text = "on a server" }
        try store.insert(contentsOf: (60..<70).map { SearchNote(title: "swim \($0)", rank: $0) })
    }

    private static let queries: [SearchQuery] = [
        "swift", "on linux", "server", "sw", .not("linux"), .all(["swift", .not("server")]), .phrase("on a server"),
    ]

    /// Every query finds the right objects, before and after the index was brought up to date, and it has no fault.
    private func expectRight<E: SearchSample>(
        _ store: Store, _ type: E.Type, _ queries: [SearchQuery], writes: Bool = true
    ) throws {
        for isIndexed in [false, true] {
            if isIndexed, writes { try store.updateSearchIndexes() }
            let snapshot = try store.snapshot()
            let oracle = try SearchOracle<E>(snapshot)
            for query in queries {
                let difference = try oracle.difference(from: snapshot, query)
                #expect(difference == nil, "\(difference ?? "")")
            }
            #expect(try store.searchIndexFaults() == [])
        }
    }

    private func expectRight(_ store: Store) throws { try expectRight(store, SearchNote.self, Self.queries) }

    // MARK: Contexts

    @Test func undoneAndRedoneSavesAreFound() throws {
        try fill()
        let context = store.makeContext()
        context.undoLevels = 10
        let object = try #require(try context.fetch(SearchNote.self).first)
        object.text = "undone server"
        let new = context.insert(SearchNote(title: "swift anew"))
        try context.save()
        try store.updateSearchIndexes()
        #expect(try context.search(SearchNote.self, for: "undone").map(\.object) == [object])
        try context.undo()
        #expect(try context.search(SearchNote.self, for: "undone").isEmpty)
        try context.save()
        try expectRight(store)
        try context.redo()
        #expect(try context.search(SearchNote.self, for: "anew").count == 1)
        #expect(try context.search(SearchNote.self, for: "undone").map(\.object) == [object])
        try context.save()
        try expectRight(store)
        _ = new
        context.close()
        try end()
    }

    @MainActor @Test func backgroundSavesAndMergesAreFound() async throws {
        try fill()
        let (first, second) = (store.makeContext(author: "first"), store.makeContext(author: "second"))
        let objects = try first.fetch(SearchNote.self)
        for object in objects.prefix(20) { object.title = "saved \(object.rank)" }
        let edited = try #require(try second.fetch(SearchNote.self).last)
        edited.text = "unsaved"
        let saving = Task { _ = try await first.saveInBackground() }
        // While it is saved, the context shows its edits, and the index is brought up to date.
        #expect(try first.search(SearchNote.self, for: "saved").count == 20)
        try store.updateSearchIndexes()
        try await saving.value
        #expect(try first.search(SearchNote.self, for: "saved").count == 20)
        try second.merge()
        #expect(try second.search(SearchNote.self, for: "saved").count == 20)
        #expect(try second.search(SearchNote.self, for: "unsaved").map(\.object) == [edited])
        try expectRight(store)
        first.close()
        second.close()
        try end()
    }

    // MARK: Deletion

    @Test func cascadesAreFound() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [SearchBook.self, SearchShelf.self], options: Self.options)
        let shelves = try store.write { transaction in
            try (0..<3).map { number in
                let shelf = try transaction.insert(SearchShelf(name: "shelf \(number)"))
                for copy in 0..<5 { try transaction.insert(SearchBook(title: "book \(number) \(copy)", shelf: shelf)) }
                return shelf
            }
        }.result
        try store.updateSearchIndexes()
        try store.write { try $0.delete(shelves[0]) }
        #expect(try store.snapshot().searchCount(SearchBook.self, for: "book") == 10)
        try expectRight(store, SearchBook.self, ["book", "0", "book 1", .not("1")])
        try store.delete(SearchShelf.self)
        #expect(try store.snapshot().searchCount(SearchBook.self, for: "book") == 0)
        try expectRight(store, SearchBook.self, ["book", .not("1")])
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Names and values

    @Test func oddAndLongNamesAreSearched() throws {
        let long = String(repeating: "ü", count: 60)
        for (entity, attribute) in [("Ünïcode e\u{301}", "日本語 👩‍👩‍👧‍👦"), (long, long), ("a b", "\"quote\"")] {
            try store.changeSchema([
                .addEntity(EntityDescription(entity, attributes: [AttributeDescription(attribute, .string)]))
            ])
            try store.addSearchIndex(of: entity, [attribute: 2])
            try store.write { try $0.insert(entity, [attribute: .string("swift")]) }
            try store.updateSearchIndexes()
            let status = try #require(try store.searchIndexes.last)
            #expect(status.entity == entity && status.weights == [attribute: 2] && status.indexedObjects == 1)
            try store.rebuildSearchIndex(of: entity)
            try store.removeSearchIndex(of: entity)
        }
        expect(.notFound) { try store.removeSearchIndex(of: long) }
        try end()
    }

    @Test func largeTextsAndLongTransactionsAreFound() throws {
        let large = String(repeating: "filler words ", count: 12_000)
        try store.insert(contentsOf: (0..<5).map { SearchNote(title: "large \($0)", text: large + "rare\($0)") })
        try expectRight(store, SearchNote.self, ["rare3", "filler words rare1", "large"])
        try store.update(SearchNote.self, where: #Predicate { $0.title == "large 3" }) { $0.text = large + "changed" }
        #expect(try store.snapshot().searchCount(SearchNote.self, for: "rare3") == 0)
        try expectRight(store, SearchNote.self, ["rare3", "changed", "large"])
        try store.delete(SearchNote.self)
        try expectRight(store, SearchNote.self, ["rare3", "changed"])
        try end()
    }

    @Test func derivedTextsAreFound() throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [SearchContact.self], options: Self.options)
        let references = try store.write { transaction in
            try ["Ada", "Zoë", "Łucja"].map { try transaction.insert(SearchContact(name: $0, city: "London")) }
        }.result
        try store.updateSearchIndexes()
        try store.write { try $0.update(references[0]) { $0.city = "Paris" } }
        #expect(try store.snapshot().search(SearchContact.self, for: "ada par").map(\.reference) == [references[0]])
        try expectRight(store, SearchContact.self, ["ada", "london", "paris", "lucja"])
        try store.close()
        try folder.expectIntact()
    }

    // MARK: The schema

    @Test func aRenamedAttributeAndEntityKeepTheIndex() throws {
        try fill()
        try store.updateSearchIndexes()
        try store.close()
        let migration = Migration(
            "rename",
            [
                .change(.renameAttribute("text", of: "SearchNote", to: "body")),
                .change(.renameEntity("SearchNote", to: "Article")),
            ])
        let renamed = try Store(
            at: folder.path, entities: [SearchArticle.self], migrations: [migration], options: Self.options)
        let status = try #require(try renamed.searchIndexes.first)
        #expect(status.entity == "Article" && status.weights == ["title": 3, "body": 1])
        #expect(status.unindexedObjects == 0)
        try expectRight(renamed, SearchArticle.self, Self.queries)
        try renamed.close()
        try folder.expectIntact()
    }

    @Test func anAttributeOfAnotherTypeIsIndexedAgain() throws {
        try fill()
        try store.close()
        let migration = Migration("wider", [.widen("rank", of: "SearchNote", to: .string)])
        let wider = try Store(
            at: folder.path, entities: [SearchRanked.self], migrations: [migration], options: Self.options)
        try expectRight(wider, SearchRanked.self, ["7", "swift", "on linux", .all(["swift", "9"])])
        try wider.write { transaction in
            var note = SearchRanked()
            (note.title, note.rank) = ("swift", "seven")
            _ = try transaction.insert(note)
        }
        try expectRight(wider, SearchRanked.self, ["seven", "7", "swift"])
        try wider.close()
        try folder.expectIntact()
    }

    /// The other attribute has the same name, and none of the values.
    @Test func aReplacedAttributeHasNoOldWords() throws {
        try fill()
        try store.updateSearchIndexes()
        try store.changeSchema([
            .replaceAttribute("text", of: "SearchNote", by: AttributeDescription("text", .string))
        ])
        try store.close()
        let again = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
        #expect(try again.snapshot().searchCount(SearchNote.self, for: "linux") == 0)
        try again.update(SearchNote.self, where: #Predicate { $0.rank == 7 }) { $0.text = "on linux" }
        try expectRight(again)
        try again.close()
        try folder.expectIntact()
    }

    @Test func aRemovedEntityTakesItsIndexAlong() throws {
        try fill()
        try store.updateSearchIndexes()
        try store.close()
        let other = try Store(at: folder.path, options: Self.options)
        try other.changeSchema([.removeEntity("SearchNote")])
        #expect(try other.searchIndexes.isEmpty)
        #expect(try other.searchIndexFaults().isEmpty)
        try other.updateSearchIndexes()
        #expect(try other.consumer("_annals.search") == nil)
        try other.close()
        // An entity of the same name has nothing of it.
        let again = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
        #expect(try again.snapshot().searchCount(SearchNote.self, for: "swift") == 0)
        try again.insert(contentsOf: [SearchNote(title: "swift")])
        try expectRight(again)
        try again.close()
        try folder.expectIntact()
    }

    @Test func textsBecomeSearchableAndAreNoLonger() throws {
        let folder = try StoreFolder()
        let plain = try Store(at: folder.path, entities: [SearchPlain.self], options: Self.options)
        try plain.insert(contentsOf: (0..<50).map { SearchPlain(title: "swift \($0)", text: "linux", rank: $0) })
        let searched = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
        try expectRight(searched)
        // The program without searchable texts goes on writing.
        try plain.update(SearchPlain.self, where: #Predicate { $0.rank < 9 }) { $0.text = "server" }
        try expectRight(searched)
        try searched.removeSearchIndex(of: "SearchNote")
        try plain.update(SearchPlain.self, where: #Predicate { $0.rank < 3 }) { $0.text = "on a server" }
        #expect(try searched.snapshot().searchCount(SearchNote.self, for: .phrase("on a server")) == 3)
        try searched.close()
        try plain.close()
        let again = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
        try expectRight(again)
        try again.close()
        try folder.expectIntact()
    }

    /// A store that a program of the first version wrote.
    @Test func aStoreOfTheFirstVersionIsSearched() throws {
        let folder = try StoreFolder()
        try FileManager.default.copyItem(
            atPath: PackageFolder.url("Tests/AnnalsTests/Golden/typed.annals").path, toPath: folder.path)
        let store = try Store(at: folder.path, entities: [SearchKept.self], options: Self.options)
        #expect(try store.snapshot().searchCount(SearchKept.self, for: "kept") > 0)
        try expectRight(store, SearchKept.self, ["kept", "text 4", "kept 2", .not("text")])
        try store.write { transaction in
            for reference in try transaction.references(to: SearchKept.self).prefix(2) {
                try transaction.update(reference) { $0.text = "another" }
            }
        }
        try expectRight(store, SearchKept.self, ["kept", "another"])
        try store.close()
        try folder.expectIntact()
    }

    // MARK: History

    /// Retention takes away the history that the next step needs, whatever the consumer holds.
    @Test func retentionPassesThePlaceOfTheIndex() throws {
        try fill()
        try store.updateSearchIndexes()
        try store.setRetention(.none)
        for rank in 0..<20 {
            try store.update(SearchNote.self, where: #Predicate { $0.rank == rank }) { $0.text = "on a server" }
            try store.clean()
            let snapshot = try store.snapshot()
            let oracle = try SearchOracle<SearchNote>(snapshot)
            for query in Self.queries { #expect(try oracle.difference(from: snapshot, query) == nil) }
        }
        try expectRight(store)
        _ = try store.compact()
        try expectRight(store)
        try end()
    }

    @Test func aSnapshotSearchesItsStateAfterCleaningAndCompaction() throws {
        try fill()
        let kept = try store.snapshot()
        let expected = try SearchOracle<SearchNote>(kept)
        try store.delete(SearchNote.self, where: #Predicate { $0.rank > 30 })
        try store.updateSearchIndexes()
        try store.deleteHistory(before: Date.distantFuture)
        _ = try store.compact()
        for query in Self.queries { #expect(try expected.difference(from: kept, query) == nil) }
        try expectRight(store)
        try end()
    }

    // MARK: Copies

    @Test func aBackupAndARestoredStoreAreSearched() throws {
        try fill()
        let copy = folder.temporary.path("copy.annals")
        try store.backup(to: copy)
        let backup = try Store(at: copy, entities: [SearchNote.self], options: Self.options)
        try expectRight(backup)
        try backup.close()
        // The store goes on, and is indexed further than the backup that takes its place.
        try store.delete(SearchNote.self, where: #Predicate { $0.rank < 40 })
        try store.updateSearchIndexes()
        try store.close()
        #expect(rename(copy, folder.path) == 0)
        let restored = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
        #expect(try restored.snapshot().count(SearchNote.self) == 70)
        try restored.insert(contentsOf: [SearchNote(title: "swift restored")])
        try expectRight(restored)
        try restored.close()
        try folder.expectIntact()
    }

    @Test func anExportLeavesOutTheIndex() throws {
        try fill()
        try store.updateSearchIndexes()
        let other = try Store(inMemory: [SearchNote.self])
        for transaction in try store.export(after: .oldest) {
            _ = try other.apply(ExportedTransaction(jsonLine: transaction.jsonLine))
        }
        #expect(try other.searchIndexes[0].indexedObjects == 0)
        try expectRight(other)
        #expect(try other.snapshot().count(SearchNote.self) == 70)
        try other.close()
        try end()
    }

    @Test func aReaderFollowsTheIndexOfAnotherHandle() throws {
        try fill()
        for reading in [Store.Reading.mapped, .copied] {
            let reader = try Store(
                at: folder.path, entities: [SearchNote.self],
                options: Store.Options(access: .readOnly, reading: reading))
            try expectRight(reader, SearchNote.self, Self.queries, writes: false)
            try store.update(SearchNote.self, where: #Predicate { $0.rank == 12 }) { $0.text = "server" }
            try store.updateSearchIndexes()
            _ = try store.compact()
            try expectRight(reader, SearchNote.self, Self.queries, writes: false)
            expect(.readOnly) { try reader.removeSearchIndex(of: "SearchNote") }
            expect(.readOnly) { try reader.rebuildSearchIndex(of: "SearchNote") }
            try reader.close()
        }
        try end()
    }

    // MARK: Closing

    @Test func closingWhileIndexingLeavesARightIndex() throws {
        for round in 0..<6 {
            let writer = try Store(at: folder.path, entities: [SearchNote.self], options: Self.options)
            try writer.insert(contentsOf: (0..<1500).map { SearchNote(title: "swift \($0)", text: "round \(round)") })
            // The thread has just begun to index, or has not yet.
            if round % 2 == 1 { usleep(UInt32(round) * 3000) }
            try writer.close()
            #expect(try store.searchIndexFaults() == [])
            #expect(try store.snapshot().searchCount(SearchNote.self, for: "swift") == 1500 * (round + 1))
        }
        try expectRight(store, SearchNote.self, ["round 3", "swift 1499"])
        try end()
    }
}

private struct SearchArticle: SearchSample {
    var title = ""
    var body: String?
    var rank = 0

    static let schema = Schema<SearchArticle>("Article") {
        Attribute(\.title, .searchable(weight: 3))
        Attribute(\.body, .searchable)
    }
    static var searched: [(name: String, weight: Double)] { [("title", 3), ("body", 1)] }
    var searchedTexts: [String?] { [title, body] }
}

private struct SearchRanked: SearchSample {
    var title = ""
    var text: String?
    var rank = ""

    static let schema = Schema<SearchRanked>("SearchNote") {
        Attribute(\.title, .searchable(weight: 3))
        Attribute(\.text, .searchable)
        Attribute(\.rank, .searchable(weight: 2))
    }
    static var searched: [(name: String, weight: Double)] { [("title", 3), ("text", 1), ("rank", 2)] }
    var searchedTexts: [String?] { [title, text, rank] }
}

private struct SearchPlain: Entity {
    var title = ""
    var text: String?
    var rank = 0
    static let schema = Schema<SearchPlain>("SearchNote") {}
}

private struct SearchShelf: Entity {
    var name = ""
    var books = ToMany<SearchBook>()

    init() {}
    init(name: String) { self.name = name }
}

private struct SearchBook: SearchSample {
    var title = ""
    var shelf: Reference<SearchShelf>?

    static let schema = Schema<SearchBook> {
        Attribute(\.title, .searchable)
        Relationship(\.shelf, inverse: \.books, whenTargetIsDeleted: .cascade)
    }
    static var searched: [(name: String, weight: Double)] { [("title", 1)] }
    var searchedTexts: [String?] { [title] }
}

private struct SearchContact: SearchSample {
    var name = ""
    var city = ""
    var searchText: String?

    init() {}
    init(name: String, city: String) { (self.name, self.city) = (name, city) }

    static let schema = Schema<SearchContact> {
        Attribute(\.searchText, .searchable, .derived { $0.name + "\n" + $0.city })
    }
    static var searched: [(name: String, weight: Double)] { [("searchText", 1)] }
    var searchedTexts: [String?] { [searchText] }
}

private struct SearchKept: SearchSample {
    var name = ""
    var text: String?

    static let schema = Schema<SearchKept>("Kept") {
        Attribute(\.name, .searchable(weight: 2))
        Attribute(\.text, .searchable)
    }
    static var searched: [(name: String, weight: Double)] { [("name", 2), ("text", 1)] }
    var searchedTexts: [String?] { [name, text] }
}
