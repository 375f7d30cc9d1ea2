// Large values that come while a store is compacted.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct LargeValueCompactionTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// The first of a store: nothing before it has told compaction that there are any.
    @Test func theFirstLargeValueMayComeDuringACompaction() throws {
        let blob = EntityDescription("Blob", attributes: [AttributeDescription("bytes", .data)])
        let store = try folder.open([blob])
        _ = try store.writeOptimistically { for _ in 1...10 { try $0.insert("Blob", ["bytes": .data(Data([1]))]) } }
        let other = try folder.open()
        let bytes = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let inserted = Guarded<ObjectID?>(nil)
        _ = try store.compact { (_) in
            inserted.withLock { inserted in
                if inserted == nil {
                    inserted = try? other.writeOptimistically { try $0.insert("Blob", ["bytes": .data(bytes)]) }.result
                }
            }
            return true
        }
        let object = try #require(inserted.withLock { $0 })
        for handle in [store, other] {
            #expect(try handle.snapshot().row(object)?["bytes"] == .data(bytes))
            try handle.close()
        }
        try folder.expectIntact()
    }

    /// Ways in which a row takes over a long value of an earlier row of its object.
    enum Return: String, CaseIterable, CustomTestStringConvertible {
        case deletionReverted, updateReverted, bothReverted, deletionApplied, deletionUndoneByAnOlderVersion

        var testDescription: String { rawValue }
    }

    private enum Old {
        struct Clip: Entity {
            var rank: Int?
            static let schema = Schema<Clip> { Attribute(\.rank, .indexed) }
        }
    }

    private static let long = Value.string(String(repeating: "long ", count: 40_000))

    /// Leaves a clip with that value.
    private func giveBack(_ way: Return, _ store: Store, _ clip: ObjectID) throws {
        func change(_ body: (Transaction) throws -> Void) throws -> HistoryToken {
            try #require(try store.writeOptimistically(body).token)
        }
        switch way {
        case .deletionReverted: try store.revert(change { try $0.delete(clip) })
        case .updateReverted: try store.revert(change { try $0.update(clip, ["title": "short"]) })
        case .bothReverted:
            let update = try change { try $0.update(clip, ["title": "short"]) }
            try store.revert(change { try $0.delete(clip) })
            try store.revert(update)
            try store.revert(change { try $0.delete(clip) })
        case .deletionApplied:
            // Another store deletes the clip and inserts it again.
            let path = folder.temporary.path("other.annals")
            let other = try Store(at: path, entities: [Sample.clip])
            defer { try? FileManager.default.removeItem(atPath: path) }
            for exported in try store.export() { try other.apply(exported) }
            let theirs = try #require(try other.snapshot().rows(of: "Clip").first).id
            let deletion = try #require(try other.writeOptimistically { try $0.delete(theirs) }.token)
            try other.revert(deletion)
            for exported in try other.export(to: store.identifier) { try store.apply(exported) }
            try other.close()
        case .deletionUndoneByAnOlderVersion:
            let old = try Store(at: folder.path, entities: [Old.Clip.self])
            let context = old.makeContext()
            context.undoLevels = 1
            context.delete(try #require(try context.fetch(Old.Clip.self).first))
            try context.save()
            try context.undo()
            try context.save()
            context.close()
            try old.close()
        }
    }

    /// The row from which it took the value may lie below the base, which has only the newest row of each object.
    @Test(arguments: Return.allCases, 1...6)
    func aRestoredLargeValueIsCopied(_ way: Return, cleaningTo number: Int) throws {
        let store = try folder.open([Sample.clip])
        let clip = try store.writeOptimistically { try $0.insert("Clip", ["title": Self.long, "rank": 1]) }.result
        try giveBack(way, store, clip)
        if try store.currentToken.number >= number {
            try store.deleteHistory(before: UInt64(number))
        }
        let copy = folder.temporary.path("copy.annals")
        try store.backup(to: copy)
        let copied = try Store(at: copy)
        try store.compact()
        for handle in [store, copied] {
            #expect(try handle.snapshot().row(clip)?["title"] == Self.long)
            try handle.close()
        }
        try expectIntact(copy)
        try FileManager.default.removeItem(atPath: copy)
        try folder.expectIntact()
    }
}
