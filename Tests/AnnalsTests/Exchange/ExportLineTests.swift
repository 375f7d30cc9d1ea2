// Lines that are not what a store has exported: each is an error that says so, and none ends the process.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ExportLineTests {
    static let store = "A1.00000000000000000000000000000001"

    /// A token of another store, for lines made by hand.
    static func token(_ number: UInt64, store: Int = 1) -> String {
        let uuid = UUID(uuidString: "00000000-0000-0000-0000-00000000000\(store)")!
        return HistoryToken(storeIdentifier: uuid, number: number, tag: number + 100).description
    }

    static func line(
        version: String = "1", number: UInt64 = 2, previous: String? = nil, extra: String = "",
        shapes: String = "[{\"entity\":\"Item\",\"attributes\":[\"name\"]}]", changes: String = "[]"
    ) -> String {
        let before = previous.map { "\"previous\":\"\($0)\"," } ?? ""
        return
            "{\"annals\":\(version),\"token\":\"\(token(number))\",\(before)\(extra)\"time\":1,\"shapes\":\(shapes),"
            + "\"changes\":\(changes)}"
    }

    static func insert(_ value: String) -> String {
        line(changes: "[{\"insert\":\"1:1\",\"shape\":0,\"values\":[\(value)]}]")
    }

    static let badLines: [(String, StoreError.Code)] = [
        ("", .exportMalformed), ("{", .exportMalformed), ("[]", .exportMalformed), ("null", .exportMalformed),
        ("{}", .exportMalformed), ("{\"annals\":1}", .exportMalformed), ("\u{0}", .exportMalformed),
        (line(version: "2"), .unsupportedVersion), (line(version: "\"1\""), .exportMalformed),
        (line(number: 0), .exportMalformed), (line(previous: token(2)), .exportMalformed),
        (line(previous: token(3)), .exportMalformed), (line(previous: token(0)), .exportMalformed),
        (line(previous: token(1, store: 2)), .exportMalformed), (line(previous: "A1.x"), .exportMalformed),
        (line(extra: "\"origin\":\"\(token(1))\","), .exportMalformed),
        (line(extra: "\"origin\":\"\(token(0, store: 2))\","), .exportMalformed),
        (
            line(extra: "\"origin\":\"\(token(4, store: 2))\",\"originPrevious\":\"\(token(4, store: 2))\","),
            .exportMalformed
        ),
        // What a state holds: one place of each store, none of its own or of where it was made, and nothing before it.
        (line(extra: "\"holds\":{},"), .exportMalformed),
        (line(extra: "\"holds\":[\"\(token(0, store: 2))\"],"), .exportMalformed),
        (line(extra: "\"holds\":[\"\(token(1))\"],"), .exportMalformed),
        (line(extra: "\"holds\":[\"\(token(1, store: 2))\",\"\(token(2, store: 2))\"],"), .exportMalformed),
        (line(previous: token(1), extra: "\"holds\":[],"), .exportMalformed),
        (
            line(extra: "\"origin\":\"\(token(4, store: 2))\",\"holds\":[\"\(token(1, store: 2))\"],"),
            .exportMalformed
        ),
        (line(extra: "\"schema\":{},"), .exportMalformed),
        (line(extra: "\"schema\":[{\"name\":\"x\"}],"), .exportMalformed),
        (line(shapes: "{}"), .exportMalformed), (line(shapes: "[1]"), .exportMalformed),
        (line(changes: "[{}]"), .exportMalformed), (line(changes: "[{\"shape\":0}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1\",\"shape\":1,\"values\":[1]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1\",\"shape\":-1,\"values\":[1]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1\",\"shape\":0}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1\",\"shape\":0,\"values\":[1,2]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1\",\"update\":\"1:1\",\"shape\":0,\"values\":[1]}]"), .exportMalformed),
        (line(changes: "[{\"update\":\"1:1\",\"shape\":0,\"values\":[1],\"before\":[]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"0:1\",\"shape\":0,\"values\":[1]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1@\",\"shape\":0,\"values\":[1]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1@x\",\"shape\":0,\"values\":[1]}]"), .exportMalformed),
        (line(changes: "[{\"insert\":\"1:1@x@y\",\"shape\":0,\"values\":[1]}]"), .exportMalformed),
        (insert("[]"), .exportMalformed), (insert("{}"), .exportMalformed), (insert("{\"other\":1}"), .exportMalformed),
        (insert("{\"uuid\":\"x\",\"data\":\"\"}"), .exportMalformed), (insert("{\"uuid\":\"x\"}"), .exportMalformed),
        (insert("{\"data\":\"*\"}"), .exportMalformed), (insert("{\"double\":\"x\"}"), .exportMalformed),
        (insert("{\"double\":\"inf\"}"), .exportMalformed), (insert("{\"double\":\"#7ff\"}"), .exportMalformed),
        (insert("{\"decimal\":\"1\"}"), .exportMalformed),
        (insert("{\"decimal\":\"1e99999999999999999999\"}"), .exportMalformed),
        (insert("{\"decimal\":\"1e40000\"}"), .exportMalformed), (insert("{\"date\":\"now\"}"), .exportMalformed),
        (insert("{\"date\":1e30}"), .exportMalformed), (insert("{\"object\":\"x\"}"), .exportMalformed),
        (insert("{\"objects\":[1]}"), .exportMalformed), (insert("99999999999999999999"), .exportMalformed),
        (insert("1.5"), .exportMalformed), (insert(String(repeating: "[", count: 100_000)), .exportMalformed),
    ]

    @Test func eachBadLineHasItsErrorCode() {
        for (line, code) in Self.badLines {
            let error = #expect(throws: StoreError.self, "\(line.prefix(300))") {
                _ = try ExportedTransaction(jsonLine: line)
            }
            #expect(error?.code == code, "\(line.prefix(300)): \(error?.description ?? "")")
            #expect(error?.message.hasSuffix(".") ?? false)
        }
        #expect(throws: Never.self) { _ = try ExportedTransaction(jsonLine: Self.insert("\"x\"")) }
    }

    static let schema =
        "\"schema\":[{\"name\":\"Item\",\"keys\":[],\"attributes\":[{\"name\":\"name\",\"type\":\"string\","
        + "\"isOptional\":true,"
        + "\"isIndexed\":false,\"isUnique\":false,\"isPreservedOnDeletion\":false,\"deleteRule\":\"noAction\"}]}],"

    /// Lines that can be read, and contradict themselves or the store.
    static let unusable: [(String, StoreError.Code)] = [
        (insert("\"x\""), .schemaMismatch),
        (line(extra: schema, changes: "[{\"insert\":\"1:1\",\"shape\":0,\"values\":[1]}]"), .schemaMismatch),
        (
            line(
                extra: schema, shapes: "[{\"entity\":\"Item\",\"attributes\":[\"other\"]}]",
                changes: "[{\"insert\":\"1:1\",\"shape\":0,\"values\":[1]}]"), .schemaMismatch
        ),
        (line(extra: schema.replacing("Item", with: "_annals.objects")), .exportMalformed),
        (
            line(extra: "\"schema\":[],\"renames\":[{\"entity\":\"Own\",\"name\":\"_annals.x\"}],"), .exportMalformed
        ),
        (line(extra: schema.replacing("\"Item\"", with: "\"\"")), .schemaRefused),
        (
            line(
                extra: schema,
                changes:
                    "[{\"insert\":\"1:1\",\"shape\":0,"
                    + "\"values\":[\"a\"]},{\"insert\":\"1:1@00000000-0000-0000-0000-000000000001\",\"shape\":0,"
                    + "\"values\":[\"b\"]}]"
            ), .exportMalformed
        ),
        (
            line(
                extra: schema,
                changes:
                    "[{\"update\":\"1:1\",\"shape\":0,\"values\":[\"a\"]}]"), .applyConflict
        ),
        (line(extra: "\"author\":\"\(String(repeating: "a", count: 2000))\"," + schema), .tooLarge),
        (line(previous: token(1)), .applyGap),
    ]

    @Test func anUnusableTransactionLeavesNothing() throws {
        let folder = try StoreFolder()
        let store = try folder.open([EntityDescription("Own", attributes: [AttributeDescription("n", .int)])])
        let token = try store.currentToken
        for (line, code) in Self.unusable {
            let exported = try ExportedTransaction(jsonLine: line)
            let error = #expect(throws: StoreError.self, "\(line)") { _ = try store.apply(exported) }
            #expect(error?.code == code, "\(line): \(error?.description ?? "")")
            #expect(error?.message.hasSuffix(".") ?? false)
            #expect(try store.currentToken == token, "\(line)")
        }
        // Objects with the highest numbers are like others.
        let high = Self.line(
            extra: Self.schema,
            changes:
                "[{\"insert\":\"65535:281474976710655\",\"shape\":0,"
                + "\"values\":[\"a\"]},{\"insert\":\"65535:281474976710654\",\"shape\":0,\"values\":[\"b\"]}]"
        )
        #expect(try store.apply(try ExportedTransaction(jsonLine: high)).outcome == .applied)
        #expect(try store.snapshot().count(of: "Item") == 2)
        try store.close()
        try folder.expectIntact()
    }

    /// Lines with bytes changed, cut out or doubled: an error or a transaction, and the store is whole.
    @Test func changedLinesNeverTrap() throws {
        let pair = try ExchangeFolders(2, [ExchangeSample.item, ExchangeSample.everything])
        let (a, b) = (pair.stores[0], pair.stores[1])
        try a.writeOptimistically { transaction in
            let x = try transaction.insert("Item", ["name": "x", "rank": 1])
            try transaction.insert("Item", ["name": "y", "parent": .object(x), "friends": .objects([x])])
            try transaction.insert(
                "Thing",
                [
                    "double": .double(.nan), "data": .data(Data([1, 2])), "uuid": .uuid(UUID()),
                    "decimal": .decimal(1.5),
                    "date": .date(Date(timeIntervalSince1970: 5)), "json": .json("[1]"),
                    "orderedObjects": .orderedObjects([x]),
                ])
        }
        try a.writeOptimistically { transaction in
            let row = try #require(try transaction.snapshot.rows(of: "Item").first)
            try transaction.update(row.id, ["rank": 2, "name": "z"])
        }
        var lines = try a.export().map { Array($0.jsonLine.utf8) }
        for line in lines { try b.apply(try ExportedTransaction(jsonLine: Data(line))) }
        // And a state that holds what another store has made.
        try b.deleteHistory(before: .max)
        lines += try b.export().map { Array($0.jsonLine.utf8) }
        var random = SeededRandom(11)
        var read = 0
        var applied = 0
        let folder = try StoreFolder()
        let store = try folder.open([ExchangeSample.item])
        for _ in 0..<4000 {
            var line = random.one(of: lines)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let place = Int.random(in: 0..<line.count, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: line[place] = UInt8.random(in: 0...255, using: &random)
                case 1: line[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                case 2: line.remove(at: place)
                case 3:
                    let other = random.one(of: lines)
                    let start = Int.random(in: 0..<other.count, using: &random)
                    line.insert(contentsOf: other[start..<min(start + 30, other.count)], at: place)
                default:
                    if (0x30...0x39).contains(line[place]) {
                        line[place] = UInt8.random(in: 0x30...0x39, using: &random)
                    }
                }
                if line.isEmpty { line = [0x20] }
            }
            do {
                let exported = try ExportedTransaction(jsonLine: Data(line))
                read += 1
                _ = try b.apply(exported, conflicts: random.one(of: ConflictPolicy.allCases))
                _ = try store.apply(exported, conflicts: random.one(of: ConflictPolicy.allCases))
                applied += 1
            } catch {
                #expect((error as? StoreError)?.message.hasSuffix(".") ?? false, "\(error)")
            }
        }
        #expect(read > 100 && applied > 10, "\(read) read, \(applied) applied")
        try store.close()
        try folder.expectIntact()
        try pair.expectIntact()
    }
}
