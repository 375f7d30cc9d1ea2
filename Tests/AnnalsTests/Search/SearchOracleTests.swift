// Random work on a store with searchable texts: each search finds what reading all objects finds, in the same order and
// with the same scores.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SearchOracleTests {
    @Test(arguments: 1...4) func searchesFindWhatReadingAllObjectsFinds(number: UInt64) async throws {
        guard let run = LongRun("search", seed: number, operations: 100) else { return }
        try await LongTests.run(besideOthers: run.operations > 1000) {
            // A store of more operations has more objects to read at each step.
            _ = run.forEachStore(300) { seed, count in
                var work = try SearchWork(seed)
                try work.run(count)
            }
        }
    }
}

/// One store and its random changes.
private struct SearchWork {
    private var random: SeededRandom
    private let folder: StoreFolder
    private var store: Store
    private let other: Store
    private var options = Store.Options(durability: .relaxed)

    init(_ seed: UInt64) throws {
        random = SeededRandom(seed)
        folder = try StoreFolder()
        if random.happens(0.5) { options.reading = .copied }
        store = try Store(at: folder.path, entities: [SearchNote.self], options: options)
        other = try Store(inMemory: [SearchNote.self])
    }

    mutating func run(_ operations: Int) throws {
        for operation in 0..<operations {
            let name = try change()
            try compare("operation \(operation), \(name)")
        }
        let faults = try store.searchIndexFaults()
        if let fault = faults.first { throw OracleDifference(fault.description) }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Changes

    private mutating func change() throws -> String {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<30:
            try insert()
            return "insert"
        case 30..<45:
            try update()
            return "update"
        case 45..<52:
            try deleteSome()
            return "delete"
        case 52..<56:
            let (rank, text) = (Int.random(in: 0..<4, using: &random), SearchWords.text(&random))
            _ = try store.update(SearchNote.self, where: #Predicate { $0.rank == rank }) { $0.text = text }
            return "batch update"
        case 56..<58:
            let rank = Int.random(in: 0..<40, using: &random)
            _ = try store.delete(SearchNote.self, where: #Predicate { $0.rank == rank })
            return "batch delete"
        case 58..<78:
            var limits = SearchLimits()
            (limits.termsPerSegment, limits.segmentsPerMerge) = (random.one(of: [1, 20, 200, 4_000_000]), 2)
            limits.mergedObjects = random.one(of: [3, 50, 500_000])
            let updates = store.searchUpdates
            for entity in try updates.entities() {
                _ = random.happens(0.4) ? try updates.join(entity, limits) : try updates.moveOn(entity, limits)
            }
            return "step"
        case 78..<82:
            _ = try store.compact()
            return "compaction"
        case 82..<84:
            try store.deleteHistory(before: Date.distantFuture)
            return "cleaning"
        case 84..<86:
            try store.updateSearchIndexes()
            return "whole index"
        case 86..<88:
            if random.happens(0.5) { try store.rebuildSearchIndex(of: "SearchNote") { _ in false } }
            return "rebuilding"
        case 88..<91:
            try store.close()
            store = try Store(at: folder.path, entities: [SearchNote.self], options: options)
            return "opening"
        case 91..<94:
            try insert()
            if let token = try update() { _ = try store.revert(token, conflicts: .storeWins) }
            return "revert"
        case 94..<97:
            try applyFromOther()
            return "apply"
        default:
            try untyped()
            return "untyped"
        }
    }

    private mutating func note() -> SearchNote {
        var note = SearchNote()
        note.title = SearchWords.text(&random, most: 3)
        note.text = random.happens(0.8) ? SearchWords.text(&random) : nil
        note.rank = Int.random(in: 0..<40, using: &random)
        return note
    }

    private mutating func insert() throws {
        let notes = (0..<random.one(of: [1, 1, 5, 40])).map { _ in note() }
        try store.write { transaction in for note in notes { _ = try transaction.insert(note) } }
    }

    private mutating func some() throws -> [Reference<SearchNote>] {
        let all = try store.snapshot().references(to: SearchNote.self)
        guard !all.isEmpty else { return [] }
        return (0..<random.one(of: [1, 2, 10])).map { _ in random.one(of: all) }
    }

    @discardableResult private mutating func update() throws -> HistoryToken? {
        let changes = try some().map { ($0, note()) }
        return try store.write { transaction in
            for (reference, note) in changes { try transaction.update(reference, to: note) }
        }.token
    }

    private mutating func deleteSome() throws {
        let chosen = Set(try some())
        try store.write { transaction in for reference in chosen { try transaction.delete(reference) } }
    }

    private mutating func applyFromOther() throws {
        let note = note()
        try other.write { try $0.insert(note) }
        let place = try store.lastApplied(from: other.identifier).map { HistoryRequest.Place.token($0) } ?? .oldest
        for transaction in try other.export(after: place) { _ = try store.apply(transaction) }
    }

    private mutating func untyped() throws {
        let note = note()
        try store.write { transaction in
            _ = try transaction.insert("SearchNote", ["title": .string(note.title), "rank": .int(1)])
        }
    }

    // MARK: Comparisons

    private mutating func compare(_ place: String) throws {
        let snapshot = try store.snapshot()
        let oracle = try SearchOracle<SearchNote>(snapshot)
        let query = SearchWords.query(&random)
        let expected = oracle.search(query)
        let found = try snapshot.search(SearchNote.self, for: query)
        try require(found.map(\.reference), found.map(\.score), expected, query, place)
        try compareParts(snapshot, oracle, query, expected, place)
    }

    private mutating func compareParts(
        _ snapshot: Snapshot, _ oracle: SearchOracle<SearchNote>, _ query: SearchQuery,
        _ all: [(Reference<SearchNote>, Double)], _ place: String
    ) throws {
        let (limit, offset) = (Int.random(in: 0...5, using: &random), Int.random(in: 0...3, using: &random))
        let wanted = Set(oracle.notes.filter { $0.value.rank > 10 }.map(\.reference))
        // A predicate leaves matches out, and changes no score.
        let expected = Array(all.filter { wanted.contains($0.0) }.dropFirst(offset).prefix(limit))
        let part = try snapshot.search(
            SearchNote.self, for: query, where: #Predicate { $0.rank > 10 }, limit: limit, offset: offset)
        try require(part.map(\.reference), part.map(\.score), expected, query, place + ", a part")
        let counted = try snapshot.searchCount(SearchNote.self, for: query)
        guard counted == all.count else {
            throw OracleDifference("\(place), \(query): count \(counted), not \(all.count)")
        }
        let sorted = try snapshot.search(
            SearchNote.self, for: query, sortedBy: .descending(\.rank), .ascending(\.title))
        let ranks = sorted.map(\.value.rank)
        guard sorted.count == counted, ranks == ranks.sorted(by: >) else {
            throw OracleDifference("\(place), \(query): sorted \(ranks)")
        }
    }

    private func require(
        _ references: [Reference<SearchNote>], _ scores: [Double], _ expected: [(Reference<SearchNote>, Double)],
        _ query: SearchQuery, _ place: String
    ) throws {
        if references == expected.map(\.0), scores == expected.map(\.1) { return }
        throw OracleDifference(
            "\(place), \(query):\n  found \(Array(zip(references, scores)))\n  instead of \(expected)")
    }
}
