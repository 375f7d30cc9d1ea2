// Damage of search indexes, and of stores that have one: it is reported, and can be repaired.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SearchDamageTests {
    let folder: StoreFolder

    init() throws {
        folder = try StoreFolder()
        let store = try open()
        try store.changeSchema([
            .addEntity(EntityDescription("Page", attributes: [AttributeDescription("text", .string)]))
        ])
        try store.insert(contentsOf: (0..<300).map { SearchNote(title: "swift \($0)", text: "on linux", rank: $0) })
        try store.updateSearchIndexes()
        try store.delete(SearchNote.self, where: #Predicate { $0.rank < 50 })
        try store.updateSearchIndexes()
        try store.close()
    }

    private func open(_ path: String? = nil) throws -> Store {
        try Store(
            at: path ?? folder.path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
    }

    private func expectRight(_ store: Store) throws {
        let snapshot = try store.snapshot()
        let oracle = try SearchOracle<SearchNote>(snapshot)
        for query: SearchQuery in ["swift", "linux", "77", .not("swift")] {
            let difference = try oracle.difference(from: snapshot, query)
            #expect(difference == nil, "\(difference ?? "")")
        }
        #expect(try store.searchIndexFaults() == [])
    }

    /// Changes the record of the only index.
    private func changeRecord(_ change: ([UInt8]) -> [UInt8]) throws {
        let engine = try Engine.open(folder.path, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { draft in
            let view = draft.base
            let entity = try #require(view.catalog.number(ofEntity: "_annals.search"))
            var found: (object: Annals.ObjectID, bytes: [UInt8])?
            try view.scan(entity: entity) { (object, row) throws(StoreError) in
                if case .data(let bytes) = try view.value(row, at: 1) { found = (object, bytes) }
                return true
            }
            let record = try #require(found)
            try draft.update(record.object, [(1, .data(change(record.bytes)))])
        }
        try engine.close()
    }

    /// How a record may be damaged, and whether it still shows the attributes.
    enum Damage: CaseIterable {
        case end, middle, attributes, empty

        func change(_ bytes: [UInt8]) -> [UInt8] {
            switch self {
            case .end: return Array(bytes.dropLast(3))
            case .middle: return bytes.enumerated().map { $0 > 60 && $0 < 100 ? $1 ^ 0x5A : $1 }
            // The first attribute has a negative weight.
            case .attributes: return bytes.enumerated().map { $0 == 39 ? $1 | 0x80 : $1 }
            case .empty: return []
            }
        }

        var showsAttributes: Bool { self == .end || self == .middle }
    }

    @Test(arguments: Damage.allCases) func aDamagedRecordIsReportedAndBuiltAgain(_ damage: Damage) throws {
        let whole = try Self.blocks(folder.path)
        try changeRecord(damage.change)
        let store = try open()
        for body in [
            { _ = try store.snapshot().search(SearchNote.self, for: "swift") },
            { try store.updateSearchIndexes() }, { _ = try store.compact() }, { _ = try store.searchIndexes },
        ] as [() throws -> Void] {
            #expect(expect(.damaged, body)?.message.contains("--rebuild") == true)
        }
        #expect(try store.searchIndexFaults().map(\.entity) == ["SearchNote"])
        // Writing goes on, and so do the other indexes.
        try store.insert(contentsOf: [SearchNote(title: "swift")])
        try store.addSearchIndex(of: "Page", ["text": 1])
        try store.write { try $0.insert("Page", ["text": .string("swift")]) }
        var seen: [SearchIndexStatus] = []
        expect(.damaged) {
            try store.updateSearchIndexes { indexes in
                seen = indexes
                return true
            }
        }
        #expect(seen.map(\.entity) == ["Page"] && seen.map(\.unindexedObjects) == [0])
        try store.rebuildSearchIndex(of: "SearchNote")
        #expect(try store.searchIndexes.map(\.unindexedObjects) == [0, 0])
        try expectRight(store)
        try store.removeSearchIndex(of: "Page")
        try store.close()
        #expect(try Self.blocks(folder.path) <= whole)
        try folder.expectIntact()
    }

    /// A damaged index makes the next search fail: so this shows when there is none.
    @Test func aListSearchesAgainOnlyAfterAChangeThatDecides() async throws {
        let store = try open()
        let context = store.makeContext(author: "app")
        let low: Predicate<Object<SearchNote>> = #Predicate { $0.rank < 1000 }
        let list = try context.results(SearchNote.self, for: "swift", limit: 20)
        let lists = [
            list, try context.results(SearchNote.self, for: "swift", where: low),
            try context.results(SearchNote.self, for: "swift", sortedBy: .ascending(\.rank), limit: 20),
        ]
        var updates = store.results(SearchNote.self, for: "swift", limit: 20).makeAsyncIterator()
        let first = try #require(try await updates.next())
        try changeRecord(Damage.middle.change)
        try context.merge()
        expect(.damaged) { _ = try context.search(SearchNote.self, for: "swift") }
        #expect(lists.allSatisfy { $0.updateError == nil && $0.count >= 20 })
        list[3].rank = 7
        #expect(lists.map { $0.updateError?.code } == [nil, .damaged, .damaged])
        list[3].title = "swift"
        #expect(list.updateError?.code == .damaged && list.count == 20)

        try await store.write { try $0.update(first.references[2]) { $0.rank = 77 } }
        let second = try #require(try await updates.next())
        #expect(second.diff == ResultsDiff(updated: [2]) && second.values[2].rank == 77)
        try await store.write { try $0.update(first.references[2]) { $0.text = "other" } }
        var failure: StoreError.Code?
        do { _ = try await updates.next() } catch { failure = (error as? StoreError)?.code }
        #expect(failure == .damaged)
        withExtendedLifetime(context) {}
        try store.close()
    }

    @Test(arguments: Damage.allCases) func aDamagedRecordIsRemoved(_ damage: Damage) throws {
        try changeRecord(damage.change)
        let untyped = try Store(at: folder.path)
        if damage.showsAttributes {
            try untyped.rebuildSearchIndex(of: "SearchNote") { _ in false }
            #expect(try untyped.searchIndexes[0].weights == ["title": 3, "text": 1])
        } else {
            let error = expect(.damaged) { try untyped.rebuildSearchIndex(of: "SearchNote") }
            #expect(error?.message.contains("--remove SearchNote") == true)
        }
        try untyped.removeSearchIndex(of: "SearchNote")
        #expect(try untyped.searchIndexFaults().isEmpty)
        try untyped.close()
        #expect(try Self.blocks(folder.path) == 0)
        let store = try open()
        try store.updateSearchIndexes()
        try expectRight(store)
        try store.close()
        try folder.expectIntact()
    }

    /// The record can be read, and says that a segment has two thousand million blocks.
    @Test func anImpossibleNumberOfBlocksIsNoObstacle() throws {
        for isRemoved in [false, true] {
            try changeRecord { $0.enumerated().map { $0 == 103 ? 0x7F : $1 } }
            let store = try open()
            let error = expect(.damaged) { try store.snapshot().search(SearchNote.self, for: "swift") }
            #expect(error?.message.contains("--rebuild") == true)
            #expect(try !store.searchIndexFaults().isEmpty)
            if isRemoved {
                try store.removeSearchIndex(of: "SearchNote")
            } else {
                try store.rebuildSearchIndex(of: "SearchNote")
            }
            try expectRight(store)
            try store.close()
        }
        #expect(try Self.blocks(folder.path) == 0)
        try folder.expectIntact()
    }

    @Test func theToolRepairsADamagedRecord() throws {
        try changeRecord(Damage.end.change)
        #expect(try runTool(["search-index", folder.path]).errors.contains("--rebuild"))
        let found = try runTool(["find", folder.path, "SearchNote", "--text", "swift"])
        #expect(found.status == 65 && found.errors.contains("--rebuild"), "\(found)")
        #expect(try runTool(["search-index", folder.path, "--rebuild", "SearchNote"]).status == 0)
        #expect(try runTool(["find", folder.path, "SearchNote", "--text", "swift", "--count"]).output == "250\n")
        try folder.expectIntact()
    }

    // MARK: Salvage

    /// Whatever is lost of the rows and of the index, searches of the new store find what reading its objects finds.
    @Test func aSalvagedStoreIsSearched() throws {
        let bytes = try Data(contentsOf: URL(filePath: folder.path))
        let used = (bytes.lastIndex { $0 != 0 } ?? 0) + 1
        var salvaged = 0
        for trial in 0..<24 {
            let others = try TemporaryDirectory()
            let (source, target) = (others.path("source"), others.path("target"))
            var damaged = bytes
            // The first trial damages nothing.
            if trial > 0 {
                let start = 4096 + (used - 4096) / 24 * trial
                for index in start..<min(start + 700, used) { damaged[index] ^= 0x55 }
            }
            try damaged.write(to: URL(filePath: source))
            try Store.salvage(from: source, to: target)
            let untyped = try Store(at: target)
            #expect(try untyped.searchIndexFaults() == [])
            try untyped.close()
            guard try runTool(["info", target]).status == 0 else { continue }
            let store = try open(target)
            salvaged += 1
            try expectRight(store)
            try store.insert(contentsOf: [SearchNote(title: "swift after", text: "linux 77")])
            try expectRight(store)
            try store.updateSearchIndexes()
            try expectRight(store)
            #expect(try store.searchIndexes.map(\.unindexedObjects) == [0])
            _ = try store.compact()
            try expectRight(store)
            try store.removeSearchIndex(of: "SearchNote")
            try store.close()
            #expect(try Self.blocks(target) == 0)
            try expectIntact(target)
        }
        #expect(salvaged > 12)
        try folder.expectIntact()
    }

    private static func blocks(_ path: String) throws -> UInt64 {
        let engine = try Engine.open(path, files: RealFileSystem(), environment: RealEnvironment())
        defer { try? engine.close() }
        let view = try engine.view()
        guard let entity = view.catalog.number(ofEntity: "_annals.searchBlocks") else { return 0 }
        return try view.count(entity: entity)
    }
}
