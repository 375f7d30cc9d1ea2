// The upkeep of search indexes while other handles index, clean and remove them.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SearchUpkeepTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
        try store.changeSchema([
            .addEntity(EntityDescription("Page", attributes: [AttributeDescription("text", .string)]))
        ])
        try store.addSearchIndex(of: "Page", ["text": 1])
    }

    /// Each handle moves the index of one entity, and both move the one cursor.
    @Test func twoHandlesIndexOneEntityEach() async throws {
        let other = try Store(at: folder.path, options: Store.Options(durability: .relaxed))
        let entities = try store.searchUpdates.entities()
        let store = store
        try await withThrowingTaskGroup { group in
            for (handle, entity) in zip([store, other], entities) {
                group.addTask { try await LongTests.run(besideOthers: true) { try Self.index(entity, handle) } }
            }
            try await group.waitForAll()
        }
        try store.updateSearchIndexes()
        #expect(try store.searchIndexes.map(\.unindexedObjects) == [0, 0])
        #expect(try store.searchIndexFaults() == [])
        try other.close()
        try end()
    }

    private static func index(_ entity: UInt16, _ store: Store) throws {
        for number in 0..<300 {
            try store.write { transaction in
                try transaction.insert("Page", ["text": .string("swift \(number)")])
                try transaction.insert("SearchNote", ["title": .string("linux \(number)")])
            }
            _ = try store.searchUpdates.moveOn(entity)
            _ = try store.searchUpdates.join(entity)
            guard number % 2 == 0 else { continue }
            // A step that only removes segments writes no block: two of them have nothing else in common.
            try store.delete(SearchNote.self)
            try store.write { transaction in
                for row in try transaction.snapshot.rows(of: "Page") { try transaction.delete(row.id) }
            }
            _ = try store.searchUpdates.moveOn(entity)
        }
    }

    /// One handle indexes while another one cleans history, and removes the index that needs it.
    @Test func indexingGoesOnWhileHistoryAndIndexesAreRemoved() async throws {
        let other = try Store(at: folder.path, options: Store.Options(durability: .relaxed))
        let store = store
        let entity = try #require(try store.searchUpdates.entities().first)
        try await withThrowingTaskGroup { group in
            group.addTask { try await LongTests.run(besideOthers: true) { try Self.index(entity, store) } }
            group.addTask { try await LongTests.run(besideOthers: true) { try Self.removeAndAdd(other) } }
            try await group.waitForAll()
        }
        try store.updateSearchIndexes()
        #expect(try store.searchIndexes.map(\.unindexedObjects) == [0, 0])
        #expect(try store.searchIndexFaults() == [])
        #expect(try store.consumer("_annals.search") != nil)
        try other.close()
        try end()
    }

    private static func removeAndAdd(_ store: Store) throws {
        for _ in 0..<100 {
            for entity in ["SearchNote", "Page"] { try store.removeSearchIndex(of: entity) }
            try store.deleteHistory(before: Date.distantFuture)
            try store.addSearchIndex(of: "SearchNote", ["title": 3, "text": 1])
            try store.addSearchIndex(of: "Page", ["text": 1])
            try store.updateSearchIndexes()
        }
    }
}
