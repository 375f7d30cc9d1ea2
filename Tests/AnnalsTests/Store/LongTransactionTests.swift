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
        try store.writeOptimistically { transaction in
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
        try store.writeOptimistically { transaction in
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

    // MARK: Many keys at once

    private static let keyed = EntityDescription(
        "Part",
        attributes: [
            AttributeDescription("code", .int, isUnique: true), AttributeDescription("name", .string, isIndexed: true),
            AttributeDescription("group", .int),
        ],
        keys: [IndexDescription(["group", "name"])])

    private static let count = 1600

    /// Names that begin alike, some equal, some absent.
    private static func values(_ number: Int, _ round: Int) -> [String: Value] {
        let name = "a name that begins alike \((number * 7919 + round) % 500)"
        return [
            "code": .int(Int64((number + round) % count)), "name": (number + round) % 11 == 0 ? .null : .string(name),
            "group": .int(Int64((number * 31 + round) % 5)),
        ]
    }

    /// Each index has the objects in the order that a scan says.
    private func expectSorted(_ snapshot: Snapshot, _ round: Int) throws {
        let all = try snapshot.rows(of: "Part").map { (row) in
            (
                id: row.id, code: row["code"]?.int ?? -1, group: row["group"]?.int ?? -1,
                name: (row["name"]?.string).map { [1] + Array($0.utf8) } ?? [UInt8]()
            )
        }
        let byName = all.sorted {
            $0.name == $1.name ? $0.id < $1.id : $0.name.lexicographicallyPrecedes($1.name)
        }
        let byGroup = byName.enumerated().sorted {
            ($0.element.group, $0.offset) < ($1.element.group, $1.offset)
        }
        let expected = [
            (["name"], byName.map(\.id)), (["group", "name"], byGroup.map(\.element.id)),
            (["code"], all.sorted { $0.code < $1.code }.map(\.id)),
        ]
        for (attributes, objects) in expected {
            let found = try snapshot.rows(of: "Part", by: attributes).map(\.id)
            #expect(found == objects, "by \(attributes), round \(round)")
        }
    }

    /// So many that they are taken in order: by the writer, and by a handle that reads what was written.
    @Test func manyKeysOfOneTransactionChange() throws {
        let store = try folder.open([Self.keyed])
        let other = try folder.open([Self.keyed])
        var objects: [ObjectID] = []
        for round in 0..<3 {
            try store.writeOptimistically { transaction in
                if round == 0 {
                    for number in 0..<Self.count {
                        objects.append(try transaction.insert("Part", Self.values(number, 0)))
                    }
                } else {
                    // Each takes the code that its neighbour has, and gives its own away.
                    for (number, object) in objects.enumerated() {
                        try transaction.update(object, Self.values(number, round))
                    }
                    if round == 2 { for object in objects.prefix(300) { try transaction.delete(object) } }
                }
            }
            for handle in [store, other] { try expectSorted(try handle.snapshot(), round) }
        }
        expect(.uniqueViolation) {
            try store.writeOptimistically { transaction in
                for number in 0..<Self.count {
                    try transaction.insert("Part", ["code": .int(Int64(number == 1200 ? 10_001 : 10_000 + number))])
                }
            }
        }
        try expectSorted(try store.snapshot(), 3)
        try other.close()
        try store.close()
        try folder.expectIntact()
    }
}
