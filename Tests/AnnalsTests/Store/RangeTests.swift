// Ranges of an index: continued after an object, by prefix, with an offset, and counted; compared with a sorted array.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct RangeTests {
    /// Names that begin alike, some of them longer than what an index keeps of a key.
    private static let names: [String] = {
        let long = String(repeating: "x", count: 260)
        return ["", "a", "a\u{0}", "a\u{0}b", "ab", "abc", "b", "é", "éa", long, long + "a", long + "b", long + "bc"]
    }()

    private func store(_ directory: TemporaryDirectory) throws -> Store {
        let item = EntityDescription(
            "Item",
            attributes: [
                AttributeDescription("name", .string, isIndexed: true), AttributeDescription("group", .int),
                AttributeDescription("key", .data, isIndexed: true),
            ],
            keys: [IndexDescription(["group", "name"])])
        let store = try Store(at: directory.path("items.annals"), entities: [item])
        try store.writeOptimistically { transaction in
            for round in 0..<20 {
                for (place, name) in Self.names.enumerated() {
                    try transaction.insert(
                        "Item",
                        [
                            "name": (round + place) % 9 == 0 ? .null : .string(name), "group": .int(Int64(place % 3)),
                            "key": .data(Data(name.utf8)),
                        ])
                }
            }
        }
        return store
    }

    private func name(_ row: Row) -> [UInt8] { (row["name"]?.string).map { [1] + Array($0.utf8) } ?? [] }

    /// By name, equal ones by ID.
    private func sorted(_ snapshot: Snapshot) throws -> [Row] {
        try snapshot.rows(of: "Item").sorted {
            name($0) == name($1) ? $0.id < $1.id : name($0).lexicographicallyPrecedes(name($1))
        }
    }

    @Test func aRangeIsReadInPagesAlsoAmongEqualKeys() throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        for snapshot in [try store.snapshot(), try store.snapshot(asOf: store.currentToken)] {
            let all = try sorted(snapshot)
            for isReversed in [false, true] {
                for limit in [1, 7, 100] {
                    var pages: [Row] = []
                    while true {
                        let page = try snapshot.rows(
                            of: "Item", by: ["name"], after: pages.last?.id, limit: limit, reversed: isReversed)
                        if page.isEmpty { break }
                        pages += page
                    }
                    #expect(pages == (isReversed ? all.reversed() : all))
                }
                let items = try snapshot.entity("Item")
                for offset in [0, 1, 50, 200, 259, 260, 1000] {
                    let rest = try snapshot.objects(
                        of: items, by: ["name"], after: all[100].id, offset: offset, reversed: isReversed)
                    let expected = isReversed ? all[..<100].reversed() : Array(all[101...])
                    #expect(rest == expected.dropFirst(offset).map(\.id))
                }
            }
        }
        try store.close()
    }

    @Test func rangesWithBoundsContinueAndAreCounted() throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        for snapshot in [try store.snapshot(), try store.snapshot(asOf: store.currentToken)] {
            let all = try sorted(snapshot)
            let items = try snapshot.entity("Item")
            let bounds = Self.names.map { [UInt8](Array($0.utf8)) }
            for (low, lower) in zip(Self.names, bounds) {
                for (high, upper) in zip(Self.names, bounds) {
                    let inside = all.filter {
                        let key = name($0)
                        return !key.lexicographicallyPrecedes([1] + lower)
                            && key.lexicographicallyPrecedes([1] + upper)
                    }
                    let (from, to) = (RangeBound.including([.string(low)]), RangeBound.excluding([.string(high)]))
                    #expect(try snapshot.count(of: "Item", by: ["name"], from: from, to: to) == inside.count)
                    for after in [all[30], all[130], all[255]] {
                        let place = try #require(all.firstIndex(of: after))
                        let next = Set(all[(place + 1)...].map(\.id))
                        let previous = Set(all[..<place].map(\.id))
                        #expect(
                            try snapshot.objects(
                                of: items, by: ["name"], from: from, to: to, after: after.id, offset: 3)
                                == inside.filter { next.contains($0.id) }.dropFirst(3).map(\.id))
                        #expect(
                            try snapshot.objects(
                                of: items, by: ["name"], from: from, to: to, after: after.id, reversed: true)
                                == inside.reversed().filter { previous.contains($0.id) }.map(\.id))
                    }
                }
            }
        }
        try store.close()
    }

    @Test func aPrefixSelectsTextsAndDataAlsoAtTheEndOfACompoundKey() throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        for snapshot in [try store.snapshot(), try store.snapshot(asOf: store.currentToken)] {
            let all = try sorted(snapshot)
            for prefix in Self.names {
                let bytes = Array(prefix.utf8)
                let expected = all.filter { name($0).starts(with: [1] + bytes) }
                #expect(try snapshot.rows(of: "Item", where: "name", hasPrefix: .string(prefix)) == expected)
                let bound = RangeBound.prefix([.string(prefix)])
                #expect(try snapshot.count(of: "Item", by: ["name"], from: bound, to: bound) == expected.count)
                #expect(
                    try snapshot.count(of: "Item", by: ["name"], from: bound)
                        == all.filter { !name($0).lexicographicallyPrecedes([1] + bytes) }.count)
                let data = try snapshot.rows(of: "Item", where: "key", hasPrefix: .data(Data(bytes)))
                #expect(Set(data) == Set(all.filter { $0["key"]!.data!.starts(with: bytes) }))
                let compound = RangeBound.prefix([1, .string(prefix)])
                #expect(
                    try snapshot.rows(of: "Item", by: ["group", "name"], from: compound, to: compound)
                        == expected.filter { $0["group"] == 1 })
            }
        }
        let snapshot = try store.snapshot()
        expect(.invalidArgument) {
            try snapshot.rows(of: "Item", by: ["group", "name"], from: .prefix([1]), to: .prefix([1]))
        }
        expect(.invalidArgument) { try snapshot.count(of: "Item", by: ["name"], from: .prefix([])) }
        expect(.typeMismatch) { try snapshot.rows(of: "Item", where: "name", hasPrefix: 1) }
        try store.close()
    }

    @Test func aMissingObjectCannotBeginAPage() throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        let first = try #require(try store.snapshot().rows(of: "Item", by: ["name"], limit: 1).first)
        try store.writeOptimistically { try $0.delete(first.id) }
        for snapshot in [try store.snapshot(), try store.snapshot(asOf: store.currentToken)] {
            expect(.objectNotFound) { try snapshot.rows(of: "Item", by: ["name"], after: first.id) }
            let foreign = try #require(ObjectID(entityNumber: first.id.entityNumber + 1, number: 1))
            expect(.invalidArgument) { try snapshot.rows(of: "Item", by: ["name"], after: foreign) }
            #expect(try snapshot.count(of: "Item", by: ["name"]) == 259)
        }
        try store.close()
    }

    @Test func anUnknownEntityIsNeverAnEmptyAnswer() throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        let before = try store.snapshot()
        try store.changeSchema([.addEntity(EntityDescription("Late", attributes: []))])
        let late = try store.entity("Late")
        for snapshot in [before, try store.snapshot(asOf: before.token)] {
            expect(.unknownEntity) { try snapshot.count(of: "Late") }
            expect(.unknownEntity) { try snapshot.rows(of: "Late") }
            expect(.unknownEntity) { try snapshot.forEachRow(of: late) { _ in true } }
            expect(.unknownEntity) { try snapshot.count(of: "Late", by: ["name"]) }
            expect(.unknownEntity) { try snapshot.objects(of: late, by: ["name"]) }
        }
        #expect(try store.snapshot().count(of: "Late") == 0)
        try store.close()
    }
}
