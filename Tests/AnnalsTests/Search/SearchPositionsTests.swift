// Texts whose positions are not in the index: the same results from a smaller index.

import Annals
import FoundationEssentials
import TestSupport
import Testing

/// `SearchNote` without positions.
private struct BriefNote: SearchSample {
    var title = ""
    var text: String?
    var rank = 0

    static let schema = Schema<BriefNote>("SearchNote") {
        Attribute(\.title, .searchable(weight: 3, positions: false))
        Attribute(\.text, .searchable(positions: false))
    }
    static var searched: [(name: String, weight: Double)] { SearchNote.searched }
    var searchedTexts: [String?] { [title, text] }
}

@Suite struct SearchPositionsTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [BriefNote.self], options: Store.Options(durability: .relaxed))
    }

    private func fill(_ count: Int, _ random: inout SeededRandom) throws {
        var notes: [BriefNote] = []
        for rank in 0..<count {
            var note = BriefNote()
            note.title = SearchWords.text(&random, most: 3)
            note.text = random.happens(0.8) ? SearchWords.text(&random) : nil
            note.rank = rank
            notes.append(note)
        }
        try store.write { transaction in for note in notes { _ = try transaction.insert(note) } }
    }

    /// Phrases and words near each other, in objects of the index and in others.
    @Test(arguments: 0..<6) func everySearchFindsTheSame(seed: UInt64) throws {
        var random = SeededRandom(seed)
        try fill(200, &random)
        try store.updateSearchIndexes()
        _ = try store.update(BriefNote.self, where: #Predicate { $0.rank < 20 }) { $0.title = "a linux note" }
        _ = try store.delete(BriefNote.self, where: #Predicate { $0.rank > 190 })
        if random.happens(0.5) { try store.updateSearchIndexes() }
        try fill(20, &random)
        let snapshot = try store.snapshot()
        let oracle = try SearchOracle<BriefNote>(snapshot)
        for _ in 0..<40 {
            let query = SearchWords.query(&random)
            let expected = oracle.search(query)
            let found = try snapshot.search(BriefNote.self, for: query)
            #expect(found.map(\.reference) == expected.map(\.0), "seed \(seed), \(query)")
            #expect(found.map(\.score) == expected.map(\.1), "seed \(seed), \(query)")
        }
        #expect(try store.searchIndexFaults() == [])
        try end()
    }

    /// A program without them does not take them from one that has asked for them.
    @Test func positionsOfAnotherProgramStay() throws {
        var random = SeededRandom(1)
        try fill(500, &random)
        try store.updateSearchIndexes()
        let brief = try store.searchIndexes[0].bytes
        let whole = try Store(at: folder.path, entities: [SearchNote.self])
        try whole.updateSearchIndexes()
        let bytes = try whole.searchIndexes[0].bytes
        #expect(bytes > brief)
        let again = try Store(at: folder.path, entities: [BriefNote.self])
        try again.updateSearchIndexes()
        #expect(try again.searchIndexes[0].bytes == bytes)
        #expect(try again.searchIndexFaults() == [])
        try again.removeSearchIndex(of: "SearchNote")
        try again.close()
        let last = try Store(at: folder.path, entities: [BriefNote.self])
        try last.updateSearchIndexes()
        #expect(try last.searchIndexes[0].bytes == brief)
        try whole.close()
        try last.close()
        try end()
    }

    /// It cannot tell whether it needs them, so it leaves the index as the types have declared it.
    @Test func aProgramWithoutTypesAsksForNoPositions() throws {
        var random = SeededRandom(1)
        try fill(100, &random)
        try store.updateSearchIndexes()
        let before = try store.searchIndexes
        let other = try Store(at: folder.path)
        try other.addSearchIndex(of: "SearchNote", ["title": 3, "text": 1])
        #expect(try other.searchIndexes == before)
        try other.close()
        try end()
    }
}
