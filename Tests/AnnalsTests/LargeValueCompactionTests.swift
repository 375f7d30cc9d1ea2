// Large values that come while a store is compacted.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct LargeValueCompactionTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// The first of a store: nothing before it has told compaction that there are any.
    @Test func theFirstLargeValueComesMeanwhile() throws {
        let blob = EntityDescription("Blob", attributes: [AttributeDescription("bytes", .data)])
        let store = try folder.open([blob])
        _ = try store.commit { for _ in 1...10 { try $0.insert("Blob", ["bytes": .data(Data([1]))]) } }
        let other = try folder.open()
        let bytes = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let inserted = Guarded<ObjectID?>(nil)
        _ = try store.compact { (_) in
            inserted.withLock { inserted in
                if inserted == nil {
                    inserted = try? other.commit { try $0.insert("Blob", ["bytes": .data(bytes)]) }.result
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
}
