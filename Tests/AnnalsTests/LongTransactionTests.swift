// Transactions that wait in a file for their commit, and rows of all lengths that are read through an index.

import Annals
import TestSupport
import Testing

@Suite struct LongTransactionTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// Only some of the frames have changes of an entity with an index.
    @Test func entitiesWithAndWithoutIndexesShareATransaction() throws {
        let line = EntityDescription("Line", attributes: [AttributeDescription("text", .string)])
        let store = try folder.open([Sample.clip, line])
        let text = String(repeating: "x", count: 1000)
        let clips = 300
        try store.commit { transaction in
            for number in 0..<12_000 {
                try transaction.insert("Line", ["text": .string("\(number) \(text)")])
                // In the first frame, in none from there on, and in the last one.
                guard number < clips / 2 || number >= 12_000 - clips / 2 else { continue }
                let clip = number < clips / 2 ? number : number - 12_000 + clips
                try transaction.insert("Clip", ["title": .string(text), "url": .string("\(clip)"), "rank": 7])
            }
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(of: "Line") == 12_000)
        #expect(try snapshot.count(of: "Clip", by: ["rank"], from: .including([7]), to: .including([7])) == 300)
        for clip in [0, clips / 2, clips - 1] {
            #expect(try snapshot.objects(of: store.entity("Clip"), where: "url", equals: .string("\(clip)")).count == 1)
        }
        try store.close()
        try folder.expectIntact()
    }

    @Test func rowsOfAllLengthsAreReadThroughAnIndex() throws {
        let store = try folder.open([Sample.clip])
        let lengths = Array(stride(from: 0, to: 600, by: 7)) + [1000, 1024, 1100, 5000, 70_000]
        try store.commit { transaction in
            for length in lengths {
                let title = String(repeating: "t", count: length)
                try transaction.insert("Clip", ["title": .string(title), "rank": .int(Int64(length))])
            }
        }
        let rows = try store.snapshot().rows(of: "Clip", by: ["rank"])
        #expect(try rows.map { try $0.value("title").string?.count } == lengths)
        try store.close()
        try folder.expectIntact()
    }
}
