// Searching through the store's own functions: in each kind of state, by each way of writing, and with each setting.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SearchTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
    }

    @discardableResult
    private func insert(_ title: String, _ text: String? = nil, rank: Int = 0) throws -> Reference<SearchNote> {
        var note = SearchNote()
        (note.title, note.text, note.rank) = (title, text, rank)
        return try store.write { try $0.insert(note) }.result
    }

    /// Without types. Not in an asynchronous function, where `write` is another one.
    private func insertMany(_ count: Int, _ store: Store) throws {
        try store.write { transaction in
            for number in 1...count { try transaction.insert("SearchNote", ["title": .string("swift \(number)")]) }
        }
    }

    private func titles(_ query: SearchQuery) throws -> [String] {
        try store.snapshot().search(SearchNote.self, for: query).map(\.value.title)
    }

    // MARK: Results

    @Test func matchesComeWithTheirSnippets() throws {
        try insert("Linux", "It runs on Linux with Swift 6.")
        try insert("Other", "Nothing about it")
        let found = try store.snapshot().search(SearchNote.self, for: "swift lin", limit: 20)
        #expect(found.map(\.value.title) == ["Linux"])
        #expect(found[0].snippet(of: \.text)?.marked() == "It runs on [Linux] with [Swift] 6.")
        #expect(found[0].snippet(of: \.title)?.marked("<b>", "</b>") == "<b>Linux</b>")
        #expect(found[0].highlights(of: \.title).map { found[0].value.title[$0] } == ["Linux"])
        #expect(found[0].score > 0)
        try end()
    }

    @Test func aTextThatIsMissingHasNoSnippet() throws {
        try insert("Linux")
        let found = try store.snapshot().search(SearchNote.self, for: "linux")
        #expect(found.count == 1)
        #expect(found[0].snippet(of: \.text) == nil)
        #expect(found[0].highlights(of: \.text) == [])
        try end()
    }

    @Test func aQueryCanBeAboutOneProperty() throws {
        try insert("swift", "linux")
        try insert("linux", "swift")
        #expect(try titles(SearchQuery("swift").in(\SearchNote.title)) == ["swift"])
        #expect(try titles(SearchQuery("swift").in(\SearchNote.text)) == ["linux"])
        #expect(try titles(.all([SearchQuery("swift").in(\SearchNote.title), .word("linux")])) == ["swift"])
        try end()
    }

    @Test func equalMatchesComeNewestFirst() throws {
        for number in 0..<5 { try insert("swift", rank: number) }
        try store.updateSearchIndexes()
        for number in 5..<8 { try insert("swift", rank: number) }
        let found = try store.snapshot().search(SearchNote.self, for: "swift", limit: 6)
        #expect(found.map(\.value.rank) == [7, 6, 5, 4, 3, 2])
        try end()
    }

    @Test func anEntityWithoutSearchableTextsIsAnError() throws {
        let other = try Store(inMemory: [UnsearchedNote.self])
        expect(.modelInvalid) { try other.snapshot().search(UnsearchedNote.self, for: "swift") }
    }

    @Test func aWeightMustBePossible() {
        let error = expect(.modelInvalid) { try Store(inMemory: [Weightless.self]) }
        #expect(error?.message.contains("search weight 0.0") == true)
    }

    // MARK: States

    @Test func aTransactionFindsItsOwnChanges() throws {
        let (first, second) = (try insert("swift"), try insert("linux"))
        try store.updateSearchIndexes()
        try store.write { transaction in
            #expect(try transaction.search(SearchNote.self, for: "swift").map(\.reference) == [first])
            try transaction.update(second) { $0.title = "swift linux" }
            var note = SearchNote()
            (note.title, note.rank) = ("swift", 5)
            let third = try transaction.insert(note)
            try transaction.delete(first)
            let found = try transaction.search(SearchNote.self, for: "swift")
            #expect(found.map(\.reference) == [third, second])
            #expect(found[0].value.rank == 5)
            let sorted = try transaction.search(SearchNote.self, for: "swift", sortedBy: .ascending(\.rank), limit: 1)
            #expect(sorted.map(\.reference) == [second])
            let wanted = try transaction.search(SearchNote.self, for: "swift", where: #Predicate { $0.rank > 4 })
            #expect(wanted.map(\.reference) == [third])
            #expect(try transaction.snapshot.search(SearchNote.self, for: "swift").map(\.reference) == [first])
        }
        #expect(try store.snapshot().searchCount(SearchNote.self, for: "swift") == 2)
        try end()
    }

    @Test func aContextFindsUnsavedEdits() throws {
        let reference = try insert("linux", rank: 1)
        try insert("swift", rank: 2)
        try store.updateSearchIndexes()
        let context = store.makeContext()
        let object = try context.object(reference)
        object.title = "swift on linux"
        let other = context.insert(SearchNote(title: "swiftly", text: "unsaved", rank: 3))
        #expect(try context.search(SearchNote.self, for: "swift").count == 3)
        #expect(try context.search(SearchNote.self, for: "unsaved").map(\.object.rank) == [3])
        #expect(try context.search(SearchNote.self, for: "swift", where: #Predicate { $0.rank < 3 }).count == 2)
        let sorted = try context.search(SearchNote.self, for: "swift", sortedBy: .descending(\.rank), limit: 2)
        #expect(sorted.map(\.object.rank) == [3, 2])
        #expect(sorted[0].snippet(of: \.title)?.marked() == "[swiftly]")
        context.delete(other)
        #expect(try context.search(SearchNote.self, for: "swift").count == 2)
        context.rollback()
        #expect(try context.search(SearchNote.self, for: "swift").map(\.object.rank) == [2])
        context.close()
        try end()
    }

    @Test func aPastStateIsSearchedByItsRows() throws {
        let reference = try insert("swift")
        let token = try store.snapshot().token
        try store.write { try $0.update(reference) { $0.title = "linux" } }
        try store.updateSearchIndexes()
        let past = try store.snapshot(asOf: token)
        #expect(try past.search(SearchNote.self, for: "swift").map(\.value.title) == ["swift"])
        #expect(try past.search(SearchNote.self, for: "linux").isEmpty)
        #expect(try titles("swift").isEmpty)
        try end()
    }

    @Test func aSnapshotFromBeforeAStepStays() throws {
        let reference = try insert("swift")
        let before = try store.snapshot()
        try store.updateSearchIndexes()
        let between = try store.snapshot()
        try store.write { try $0.delete(reference) }
        try store.updateSearchIndexes()
        for snapshot in [before, between] { #expect(try snapshot.searchCount(SearchNote.self, for: "swift") == 1) }
        #expect(try titles("swift").isEmpty)
        try end()
    }

    // MARK: The index

    @Test func theStatusCountsWhatIsIndexed() throws {
        try insert("swift on linux", "a text")
        try insert("linux")
        var status = try #require(store.searchIndexes.first)
        #expect(status.entity == "SearchNote")
        #expect(status.weights == ["title": 3, "text": 1])
        try store.updateSearchIndexes()
        status = try #require(store.searchIndexes.first)
        #expect((status.indexedObjects, status.unindexedObjects, status.terms) == (2, 0, 6))
        #expect(status.segments >= 1 && status.bytes > 0)
        try store.write { try $0.delete(store.snapshot().references(to: SearchNote.self)[0]) }
        try insert("another")
        status = try #require(store.searchIndexes.first)
        #expect((status.indexedObjects, status.unindexedObjects) == (2, 1))
        try end()
    }

    @Test func aRemovedIndexReleasesHistory() throws {
        try insert("swift")
        try store.updateSearchIndexes()
        #expect(try store.consumer("_annals.search") != nil)
        try store.removeSearchIndex(of: "SearchNote")
        #expect(try store.searchIndexes.isEmpty)
        #expect(try store.consumer("_annals.search") == nil)
        #expect(try titles("swift") == ["swift"])
        expect(.notFound) { try store.removeSearchIndex(of: "SearchNote") }
        expect(.unknownEntity) { try store.rebuildSearchIndex(of: "None") }
        try end()
    }

    /// Not after an automatic compaction either, in a program that does not search.
    @Test(arguments: [false, true]) func afterCompactionADeletedWordIsNotInTheFile(isAutomatic: Bool) async throws {
        let secret = "zugzwangpräsident"
        for number in 0..<200 { try insert("note \(number)", number == 77 ? "the word \(secret)" : "the words") }
        try store.updateSearchIndexes()
        let found = try store.snapshot().search(SearchNote.self, for: SearchQuery(secret))
        #expect(found.count == 1)
        let secretNote = found[0].reference
        try await store.write { try $0.delete(secretNote) }
        try store.deleteHistory(before: Date.distantFuture)
        if isAutomatic { try await compactAutomatically() } else { _ = try store.compact() }
        try end()
        let bytes = try Data(contentsOf: URL(filePath: folder.path))
        #expect(bytes.contains(Data("the words".utf8)))
        #expect(!bytes.contains(Data("zugzwang".utf8)))
    }

    private func compactAutomatically() async throws {
        var options = Store.Options(durability: .relaxed)
        var compaction = Store.AutomaticCompaction()
        (compaction.openMicroseconds, compaction.minimumBytes) = (0, 1)
        options.automaticCompaction = compaction
        let other = try Store(at: folder.path, options: options)
        let objects = try other.snapshot().rows(of: "SearchNote").map(\.id)
        // A commit notices garbage when 16 MiB have been written since the last time.
        let filler = String(repeating: "filler ", count: 400)
        for round in 0..<40 {
            try await other.write { transaction in
                for object in objects { try transaction.update(object, ["text": .string("\(round)" + filler)]) }
            }
            try other.deleteHistory(before: Date.distantFuture)
        }
        try await eventually { try other.statistics.fileBytes < 8 << 20 }
        try await other.write { try $0.update(objects[0], ["text": "the words"]) }
        try other.close()
    }

    @Test func attributesOfSeveralProgramsAreSearched() throws {
        try insert("swift", "linux")
        try store.addSearchIndex(of: "SearchNote", ["text": 2])
        #expect(try store.searchIndexes[0].weights == ["title": 3, "text": 2])
        expect(.typeMismatch) { try store.addSearchIndex(of: "SearchNote", ["rank": 1]) }
        expect(.unknownAttribute) { try store.addSearchIndex(of: "SearchNote", ["none": 1]) }
        expect(.invalidArgument) { try store.addSearchIndex(of: "SearchNote", ["text": -1]) }
        let smaller = try Store(at: folder.path, entities: [TitleOnly.self])
        #expect(try smaller.snapshot().searchCount(TitleOnly.self, for: "linux") == 0)
        #expect(try smaller.snapshot().searchCount(TitleOnly.self, for: "swift") == 1)
        #expect(Set(try smaller.searchIndexes[0].weights.keys) == ["title", "text"])
        try smaller.close()
        try end()
    }

    @Test func anEntityWithoutHistoryIsSearchedByItsRows() throws {
        try insert("swift")
        try store.updateSearchIndexes()
        try store.changeSchema([.changeEntity("SearchNote", history: .off)])
        let second = try insert("swift two")
        try store.updateSearchIndexes()
        try store.write { try $0.update(second) { $0.title = "linux" } }
        #expect(try titles("swift") == ["swift"])
        #expect(try titles("linux") == ["linux"])
        try store.changeSchema([.changeEntity("SearchNote", history: .full)])
        try store.updateSearchIndexes()
        try insert("swift three")
        #expect(Set(try titles("swift")) == ["swift", "swift three"])
        #expect(try store.searchIndexes[0].unindexedObjects == 1)
        try end()
    }

    @Test func anEntityThatLosesItsSearchedTextsLosesItsIndex() throws {
        let other = try Store(at: folder.path)
        try other.changeSchema([
            .addEntity(EntityDescription("Page", attributes: [AttributeDescription("text", .string)]))
        ])
        try other.addSearchIndex(of: "Page", ["text": 1])
        try other.write { try $0.insert("Page", ["text": .string("swift")]) }
        try other.updateSearchIndexes()
        #expect(try other.searchIndexes.map(\.entity) == ["SearchNote", "Page"])
        try other.changeSchema([.removeAttribute("text", from: "Page"), .addAttribute(.init("rank", .int), to: "Page")])
        try other.write { try $0.insert("Page", ["rank": .int(1)]) }
        try other.updateSearchIndexes()
        #expect(try other.searchIndexes.map(\.entity) == ["SearchNote"])
        try other.close()
        try end()
    }

    @Test func aTransactionThatChangesTheSchemaIsSearched() throws {
        try insert("swift")
        let second = try insert("linux")
        try store.updateSearchIndexes()
        try store.write { transaction in
            try transaction.changeSchema([.addAttribute(AttributeDescription("more", .int), to: "SearchNote")])
            try transaction.update(second) { $0.title = "swift" }
            #expect(try transaction.search(SearchNote.self, for: "swift").count == 2)
            #expect(try transaction.search(SearchNote.self, for: "linux").isEmpty)
        }
        #expect(try store.snapshot().searchCount(SearchNote.self, for: "swift") == 2)
        try end()
    }

    /// Two handles, as two processes have them, move the indexes of two entities and their one cursor.
    @Test func twoIndexersDoNotFail() async throws {
        let description = EntityDescription("Page", attributes: [AttributeDescription("text", .string)])
        try store.changeSchema([.addEntity(description)])
        try store.addSearchIndex(of: "Page", ["text": 1])
        let other = try Store(at: folder.path, options: Store.Options(durability: .relaxed))
        let store = store
        try await withThrowingTaskGroup { group in
            for handle in [store, other] {
                group.addTask { try await LongTests.run(besideOthers: true) { try Self.writeAndIndex(handle) } }
            }
            try await group.waitForAll()
        }
        try store.updateSearchIndexes()
        #expect(try store.searchIndexes.map(\.unindexedObjects) == [0, 0])
        #expect(try store.searchIndexFaults() == [])
        try other.close()
        try end()
    }

    private static func writeAndIndex(_ store: Store) throws {
        for number in 0..<200 {
            try store.write { transaction in
                try transaction.insert(
                    number % 2 == 0 ? "Page" : "SearchNote",
                    number % 2 == 0
                        ? ["text": .string("swift \(number)")] : ["title": .string("linux \(number)")])
            }
            try store.updateSearchIndexes()
        }
    }

    @Test func openingAnIndexedStoreStartsNoThread() throws {
        try insertMany(20, store)
        try store.updateSearchIndexes()
        #expect(try !store.searchUpdates.areBehind())
        try insert("swift")
        #expect(try store.searchUpdates.areBehind())
        try end()
    }

    @Test func anIndexHasAnAttribute() throws {
        expect(.invalidArgument) { try store.addSearchIndex(of: "SearchNote", [:]) }
        #expect(try store.searchIndexes.map(\.weights) == [["title": 3, "text": 1]])
        try end()
    }

    /// Also beside unsaved changes.
    @Test func matchesAreCounted() throws {
        for number in 0..<4 { try insert("swift \(number)", rank: number) }
        let low: Predicate<Object<SearchNote>> = #Predicate { $0.rank < 2 }
        #expect(try store.snapshot().searchCount(SearchNote.self, for: "swift", where: low) == 2)
        let context = store.makeContext()
        #expect(try context.searchCount(SearchNote.self, for: "swift") == 4)
        context.insert(SearchNote(title: "swift"))
        #expect(try context.searchCount(SearchNote.self, for: "swift") == 5)
        #expect(try context.searchCount(SearchNote.self, for: "swift", where: low) == 3)
        context.rollback()
        try store.write { transaction in
            #expect(try transaction.searchCount(SearchNote.self, for: "swift") == 4)
            _ = try transaction.insert(SearchNote(title: "swift", rank: 9))
            #expect(try transaction.searchCount(SearchNote.self, for: "swift") == 5)
            #expect(try transaction.searchCount(SearchNote.self, for: "swift", where: low) == 2)
        }
        try end()
    }

    @Test func aSearchNeedsNoTypes() throws {
        for number in 0..<30 { try insert("swift \(number)", number % 2 == 0 ? "linux" : nil) }
        try store.updateSearchIndexes()
        let place = try store.snapshot().token
        try insert("linux")
        let other = try Store(at: folder.path)
        for query in ["swift", "linux", "lin -swift", "\"swift 7\"", "nothing"] {
            let typed = try store.snapshot().search(SearchNote.self, for: SearchQuery(query), limit: 7, offset: 2)
            let found = try other.snapshot().search("SearchNote", for: SearchQuery(query), limit: 7, offset: 2)
            #expect(found.map(\.object) == typed.map(\.reference.id))
            #expect(found.map(\.score) == typed.map(\.score))
            let count = try store.snapshot().searchCount(SearchNote.self, for: SearchQuery(query))
            #expect(try other.snapshot().searchCount("SearchNote", for: SearchQuery(query)) == count)
        }
        let titles = SearchQuery("linux").inAttributes(["title"])
        #expect(try other.snapshot().searchCount("SearchNote", for: titles) == 1)
        #expect(try other.snapshot(asOf: place).searchCount("SearchNote", for: titles) == 0)
        let before = try store.snapshot(asOf: place).search(SearchNote.self, for: "swift lin")
        let found = try other.snapshot(asOf: place).search("SearchNote", for: "swift lin")
        #expect(found.map(\.score) == before.map(\.score), "The weights are those of the present index.")
        expect(.unknownEntity) { try other.snapshot().search("None", for: "swift") }
        try other.close()
        try end()
    }

    @Test func aReaderSearchesWithoutWriting() throws {
        try insert("swift")
        let reader = try Store(
            at: folder.path, entities: [SearchNote.self], options: Store.Options(access: .readOnly, reading: .copied))
        #expect(try reader.snapshot().searchCount(SearchNote.self, for: "swift") == 1)
        expect(.readOnly) { try reader.addSearchIndex(of: "SearchNote", ["text": 1]) }
        try reader.close()
        try end()
    }

    @Test func writingIndexesInTheBackground() async throws {
        try insertMany(1500, store)
        try await eventually { try self.store.searchIndexes[0].unindexedObjects == 0 }
        #expect(try store.snapshot().searchCount(SearchNote.self, for: "swift") == 1500)
        #expect(try store.searchIndexFaults() == [])
        try end()
    }

    @Test func aSearchOfManyRowsAsksForAnIndex() async throws {
        let other = try Store(at: folder.path)
        try insertMany(3000, other)
        try other.close()
        #expect(try store.searchIndexes[0].unindexedObjects == 3000)
        #expect(try store.snapshot().searchCount(SearchNote.self, for: "swift") == 3000)
        try await eventually { try self.store.searchIndexes[0].unindexedObjects == 0 }
        try end()
    }
}

private struct UnsearchedNote: Entity {
    var text = ""
}

private struct Weightless: Entity {
    var text = ""
    static let schema = Schema<Weightless> { Attribute(\.text, .searchable(weight: 0)) }
}

private struct TitleOnly: Entity {
    var title = ""
    static let schema = Schema<TitleOnly>("SearchNote") { Attribute(\.title, .searchable(weight: 3)) }
}
