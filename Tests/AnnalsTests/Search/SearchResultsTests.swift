// Live lists of a search: always what a search finds, and each difference leads from one list to the next.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SearchResultsTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
    }

    private func note(_ random: inout SeededRandom) -> SearchNote {
        var note = SearchNote()
        note.title = SearchWords.text(&random, most: 3)
        note.text = random.happens(0.8) ? SearchWords.text(&random) : nil
        note.rank = Int.random(in: 0..<5, using: &random)
        return note
    }

    // MARK: In a context

    @Test(arguments: 0..<4) func aListIsWhatASearchFinds(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let other = try Store(at: folder.path, entities: [SearchNote.self])
        let context = store.makeContext(author: "app")
        context.undoLevels = 5
        context.mergePolicy = .storeWins
        let low: Predicate<Object<SearchNote>> = #Predicate { $0.rank < 3 }
        let lists = [
            SearchList(try context.results(SearchNote.self, for: "sw")) {
                try context.search(SearchNote.self, for: "sw")
            },
            SearchList(try context.results(SearchNote.self, for: "swift a", limit: 3)) {
                try context.search(SearchNote.self, for: "swift a", limit: 3)
            },
            SearchList(try context.results(SearchNote.self, for: .not(.word("swift")), where: low)) {
                try context.search(SearchNote.self, for: .not(.word("swift")), where: low)
            },
            SearchList(
                try context.results(
                    SearchNote.self, for: "foo", sortedBy: .descending(\.rank), .ascending(\.title), limit: 10)
            ) {
                try context.search(
                    SearchNote.self, for: "foo", sortedBy: .descending(\.rank), .ascending(\.title), limit: 10)
            },
        ]
        for step in 0..<40 {
            let done = try change(context, other, &random)
            for (number, list) in lists.enumerated() {
                try list.check("seed \(seed), \(step): \(done), list \(number)")
            }
        }
        withExtendedLifetime(context) {}
        try other.close()
        try end()
    }

    private func change(_ context: Context, _ other: Store, _ random: inout SeededRandom) throws -> String {
        let objects = try context.fetch(SearchNote.self)
        switch Int.random(in: 0..<15, using: &random) {
        case 0...3:
            for _ in 0..<random.one(of: [1, 1, 6]) { context.insert(note(&random)) }
            return "insert"
        case 4...5:
            if let object = objects.randomElement(using: &random) { object.text = SearchWords.text(&random) }
            return "edit"
        case 6:
            if let object = objects.randomElement(using: &random) { context.delete(object) }
            return "delete"
        case 7:
            try context.save()
            return "save"
        case 8:
            try context.undo(skippingConflicts: true)
            return "undo"
        case 9:
            let note = note(&random)
            try other.write { _ = try $0.insert(note) }
            try context.merge()
            return "merge"
        case 10:
            _ = try other.update(SearchNote.self, where: #Predicate { $0.rank == 2 }) { $0.title = "swift" }
            try context.merge()
            return "merge of a batch"
        case 11:
            if let object = objects.randomElement(using: &random) {
                object.rank = Int.random(in: 0..<5, using: &random)
            }
            return "edit of a rank"
        case 12:
            _ = try other.update(SearchNote.self, where: #Predicate { $0.rank == 3 }) { $0.rank = 1 }
            try context.merge()
            return "merge of ranks"
        case 13:
            if let object = objects.randomElement(using: &random) { try context.refresh(object, keepingEdits: false) }
            return "refresh"
        default:
            if random.happens(0.3) { context.rollback() }
            try store.updateSearchIndexes()
            return "index"
        }
    }

    // MARK: Of a store

    @Test(arguments: 0..<4) func aSequenceHasWhatASearchFinds(seed: UInt64) async throws {
        var random = SeededRandom(seed)
        var updates = store.results(SearchNote.self, for: "sw", limit: 20).makeAsyncIterator()
        var list = try #require(try await updates.next()).references
        #expect(list.isEmpty)
        for step in 0..<25 {
            // A match, so that there is an update.
            var match = note(&random)
            match.title = "swift \(step)"
            try insert((0..<random.one(of: [0, 1, 4])).map { _ in note(&random) } + [match])
            if random.happens(0.3) { try store.updateSearchIndexes() }
            if random.happens(0.5) {
                // Alone, so that the search is not repeated.
                _ = try await updates.next()
                list = try store.snapshot().search(SearchNote.self, for: "sw", limit: 20).map(\.reference)
                let (one, rank) = (random.one(of: list), step + 10)
                try await store.write { try $0.update(one) { $0.rank = rank } }
            }
            let update = try #require(try await updates.next())
            let found = try update.snapshot.search(SearchNote.self, for: "sw", limit: 20)
            #expect(update.references == found.map(\.reference), "seed \(seed), \(step)")
            #expect(update.values == found.map(\.value), "seed \(seed), \(step)")
            list = update.diff.applied(to: list) { update.references[$0] }
            #expect(list == update.references, "seed \(seed), \(step)")
        }
        try end()
    }

    private func insert(_ notes: [SearchNote]) throws {
        try store.write { transaction in for note in notes { _ = try transaction.insert(note) } }
    }

    /// The new best match is inserted; the others stay, although all scores have changed.
    @Test func aNewMatchMovesNoOther() throws {
        let context = store.makeContext(author: "app")
        for number in 0..<20 { context.insert(SearchNote(title: "swift" + String(repeating: " x", count: number + 1))) }
        try context.save()
        let list = try context.results(SearchNote.self, for: "swift")
        var diffs: [ResultsDiff] = []
        list.onChange = { diffs.append($0) }
        context.insert(SearchNote(title: "swift"))
        #expect(diffs == [ResultsDiff(inserted: [0])])
        list[20].title = "swift swift swift"
        #expect(diffs.count == 2 && diffs[1] == ResultsDiff(moved: [ResultsDiff.Move(from: 20, to: 0)]))
        withExtendedLifetime(context) {}
        try end()
    }

    @Test func aQueryHasTheSnippetsOfItsMatches() throws {
        var random = SeededRandom(1)
        try insert((0..<200).map { _ in note(&random) })
        let snapshot = try store.snapshot()
        let context = store.makeContext(author: "app")
        for _ in 0..<50 {
            let query = SearchWords.query(&random)
            for match in try context.search(SearchNote.self, for: query, limit: 5) {
                let value = try snapshot.values([match.object.objectReference])[0]
                for snippet in [
                    query.snippet(of: \.text, in: match.object, length: 20),
                    query.snippet(of: \.text, in: value, length: 20),
                ] { #expect(snippet == match.snippet(of: \.text, length: 20), "\(query)") }
                #expect(query.snippet(of: \.title, in: value) == match.snippet(of: \.title), "\(query)")
                #expect(query.highlights(of: \.title, in: match.object) == match.highlights(of: \.title), "\(query)")
                #expect(query.highlights(of: \.text, in: value) == match.highlights(of: \.text), "\(query)")
            }
        }
        let plain = PlainText(text: "no swift text")
        #expect(SearchQuery("swift").snippet(of: \.text, in: plain, length: 7)?.text == "no…")
        #expect(SearchQuery("swift").highlights(of: \.text, in: plain).isEmpty)
        withExtendedLifetime(context) {}
        try end()
    }

    @Test func aListNeedsASearchableText() throws {
        let other = try Store(inMemory: [PlainText.self])
        let context = other.makeContext(author: "app")
        expect(.modelInvalid) { _ = try context.results(PlainText.self, for: "swift") }
        try end()
    }
}

private struct PlainText: Entity {
    var text = ""
}

/// A live list, and a copy that only its differences keep current.
private final class SearchList {
    private let results: Results<SearchNote>
    private let search: () throws -> [ObjectMatch<SearchNote>]
    private var copy: [ObjectIdentifier]

    init(_ results: Results<SearchNote>, _ search: @escaping () throws -> [ObjectMatch<SearchNote>]) {
        (self.results, self.search) = (results, search)
        copy = results.map { ObjectIdentifier($0) }
        results.onChange = { [unowned self, unowned results] diff in
            copy = diff.applied(to: copy) { ObjectIdentifier(results[$0]) }
        }
    }

    func check(_ place: String) throws {
        let found = try search().map { ObjectIdentifier($0.object) }
        #expect(results.updateError == nil, "\(place)")
        #expect(results.map { ObjectIdentifier($0) } == found, "\(place)")
        #expect(copy == found, "\(place): the differences")
    }
}
