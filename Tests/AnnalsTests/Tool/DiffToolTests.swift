// `annals diff`: two stores by ID and by a key, two states of one store, and that all three agree.

import Annals
import FoundationEssentials
import TestSupport
import Testing
import annals

@Suite struct DiffToolTests {
    private static let tag = EntityDescription(
        "Tag", attributes: [AttributeDescription("name", .string, isUnique: true)])
    private static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("key", .string, isOptional: false, isUnique: true),
            AttributeDescription("size", .double), AttributeDescription("tag", .object, target: "Tag"),
            AttributeDescription("tags", .objects, target: "Tag"),
            AttributeDescription("order", .orderedObjects, target: "Tag"),
        ])

    private func diff(_ arguments: String...) throws -> (status: Int32?, lines: [String], errors: String) {
        let run = try runTool(["diff"] + arguments)
        return (run.status, run.output.split(separator: "\n").map(String.init), run.errors)
    }

    /// A copy that went on is compared with the original in three ways: by IDs, by the key, and by its own history.
    /// They agree with the changes that were made.
    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func threeWaysAgree(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let folder = try StoreFolder()
        let temporary = try TemporaryDirectory()
        let copy = temporary.path("copy.annals")
        let store = try folder.open([Self.tag, Self.item])
        let tags = try (1...3).map { number in
            try store.write { try $0.insert("Tag", ["name": .string("t\(number)")]) }.result
        }
        func values(_ random: inout SeededRandom) -> [String: Value] {
            let size = random.one(of: [0.0, -0.0, .nan, 1.5, .infinity])
            return [
                "size": .double(size), "tag": random.happens(0.3) ? .null : .object(random.one(of: tags)),
                "tags": .objects(tags.filter { _ in random.happens(0.5) }),
                "order": .orderedObjects(tags.shuffled(using: &random)),
            ]
        }
        try store.write { transaction in
            for number in 0..<40 {
                try transaction.insert("Item", values(&random).merging(["key": .string("k\(number)")]) { $1 })
            }
        }
        let place = try store.currentToken.number
        try store.backup(to: copy)
        var expected: Set<String> = []
        let before = try store.snapshot()
        for round in 0..<15 {
            try store.write { transaction in
                let rows = try before.rows(of: "Item")
                switch Int.random(in: 0..<3, using: &random) {
                case 0: try transaction.insert("Item", ["key": .string("new \(round)"), "size": .double(1)])
                case 1:
                    let row = random.one(of: rows)
                    if try store.snapshot().row(row.id) != nil { try transaction.update(row.id, values(&random)) }
                default:
                    let row = random.one(of: rows)
                    if try store.snapshot().row(row.id) != nil { try transaction.delete(row.id) }
                }
            }
        }
        let after = try store.snapshot()
        for row in try before.rows(of: "Item") {
            guard let now = try after.row(row.id) else {
                expected.insert("delete \(row.id)")
                continue
            }
            if row.values.map({ "\($0)" }) != now.values.map({ "\($0)" }) { expected.insert("update \(row.id)") }
        }
        for row in try after.rows(of: "Item") where try before.row(row.id) == nil {
            expected.insert("insert \(row.id)")
        }
        try store.close()
        func found(_ run: (status: Int32?, lines: [String], errors: String)) throws -> Set<String> {
            #expect(run.status == (expected.isEmpty ? 0 : 1), "seed \(seed): \(run.errors)")
            return Set(
                try run.lines.map { line in
                    let object = try JSONDecoder().decode([String: AnyField].self, from: Data(line.utf8))
                    return "\(object["kind"]?.text ?? "") \(object["id"]?.text ?? "")"
                })
        }
        #expect(try found(diff(copy, folder.path)) == expected, "seed \(seed)")
        #expect(try found(diff(copy, folder.path, "--key", "key", "--entity", "Item")) == expected, "seed \(seed)")
        #expect(try found(diff(folder.path, "--from", "\(place)")) == expected, "seed \(seed)")
        #expect(try diff(folder.path, folder.path) == (0, [], ""))
        try folder.expectIntact()
    }

    /// A string, or anything else.
    private struct AnyField: Decodable {
        var text: String?
        init(from decoder: any Decoder) throws { text = try? decoder.singleValueContainer().decode(String.self) }
    }

    @Test func textNamesObjectsByTheirLabels() throws {
        let folder = try StoreFolder()
        let store = try folder.open([Self.tag, Self.item])
        let (tag, items) = try store.write { transaction in
            (
                try transaction.insert("Tag", ["name": "swift"]),
                try ["a", "b", "c"].map { try transaction.insert("Item", ["key": .string($0), "size": .double(1)]) }
            )
        }.result
        try store.write { try $0.update(items[0], ["size": .double(2), "tag": .object(tag)]) }
        try store.write { try $0.update(items[1], ["size": .double(2)]) }
        try store.write { try $0.update(items[1], ["size": .double(1)]) }
        try store.write { try $0.delete(items[2]) }
        try store.write { try $0.insert("Item", ["key": "d\u{1b}[2J"]) }
        try store.close()
        let run = try diff(folder.path, "--from", "2", "--format", "text")
        #expect(
            run.lines == [
                "   Item a (2:1)           size  1.0   2.0", "                          tag   null  swift (1:1)",
                "-  Item c (2:3)",
                #"+  Item d\u{1b}[2J (2:4)"#,
            ], "\(run.lines)")
        // From newer to older is a mistake; a state is equal to itself.
        #expect(try diff(folder.path, "--from", "5", "--to", "5").status == 0)
        #expect(try diff(folder.path, "--from", "5", "--to", "2").status == 64)
        try folder.expectIntact()
    }

    /// Entities may have other numbers in another store.
    @Test func storesThatWereMadeApartAreComparedByAKey() throws {
        let (one, other) = (try StoreFolder(), try StoreFolder())
        let (first, second) = (try one.open([Self.tag, Self.item]), try other.open([Self.item, Self.tag]))
        for (store, keys) in [(first, ["x", "y"]), (second, ["y", "x"])] {
            try store.write { transaction in
                let tags = try keys.map { try transaction.insert("Tag", ["name": .string($0)]) }
                for (key, tag) in zip(keys, tags) {
                    try transaction.insert(
                        "Item",
                        [
                            "key": .string(key), "size": .double(1), "tag": .object(tag), "tags": .objects(tags),
                            "order": .orderedObjects([tag]),
                        ])
                }
            }
            try store.close()
        }
        let equal = try diff(one.path, other.path, "--key", "key", "--entity", "Item")
        #expect(equal.status == 0 && equal.lines == [], "\(equal)")
        #expect(try runTool(["set", other.path, "Item", "x", "tag=y"]).status == 0)
        let different = try diff(one.path, other.path, "--key", "key", "--entity", "Item", "--format", "text")
        #expect(
            different.status == 1 && different.lines.count == 1 && different.lines[0].contains("x (1:1)  y (2:1)"),
            "\(different)")
        try one.expectIntact()
        try other.expectIntact()
    }

    @Test func schemasAreCompared() throws {
        let (one, other) = (try StoreFolder(), try StoreFolder())
        try one.open([Self.tag]).close()
        let wider = EntityDescription(
            "Tag",
            attributes: [AttributeDescription("name", .string, isIndexed: true), AttributeDescription("rank", .int)])
        let store = try other.open([wider])
        try store.changeSchema([
            .addEntity(EntityDescription("New", attributes: [])), .changeEntity("New", history: .off),
        ])
        try store.close()
        let run = try diff(one.path, other.path, "--format", "text")
        #expect(
            run.status == 1
                && run.lines == [
                    "- Tag: name: string, unique", "+ Tag: name: string, indexed", "+ Tag: rank: int",
                    "+ New, history off",
                ], "\(run.lines)")
        #expect(try diff(other.path, "--from", "1", "--entity", "Tag").status == 0)
        #expect(try diff(one.path, other.path, "--entity", "New").lines.count == 1)
    }

    /// Values that Swift calls equal differ, if their bytes do.
    @Test func formsOfUnicodeDiffer() throws {
        let (one, other) = (try StoreFolder(), try StoreFolder())
        for (folder, name) in [(one, "caf\u{e9}"), (other, "cafe\u{301}")] {
            let store = try folder.open([Self.tag, Self.item])
            let object = try store.write { try $0.insert("Item", ["key": .string(name)]) }.result
            try store.write { try $0.update(object, ["key": .string("caf\u{e9}")]) }
            try store.write { try $0.update(object, ["key": .string(name)]) }
            try store.close()
        }
        #expect(try diff(one.path, other.path).lines.count == 1)
        #expect(try diff(other.path, "--from", "3").lines.count == 1)
        #expect(try diff(one.path, "--from", "2").status == 0)
    }

    /// Their objects are listed.
    @Test func entitiesOfOneStoreDiffer() throws {
        let (one, other) = (try StoreFolder(), try StoreFolder())
        try one.open([Self.tag]).close()
        let store = try other.open([Self.tag, Self.item])
        try store.write { try $0.insert("Item", ["key": "a"]) }
        try store.close()
        let more = try diff(one.path, other.path, "--entity", "Item", "--format", "text").lines
        #expect(more.count == 7 && more.last == "+  Item a (2:1)", "\(more)")
        #expect(try diff(other.path, one.path, "--entity", "Item", "--format", "text").lines.last == "-  Item a (2:1)")
        // Changes without history are not the same as no changes.
        let changed = try other.open()
        try changed.changeSchema([.changeEntity("Item", history: .off)])
        let place = try changed.currentToken.number
        try changed.write { try $0.insert("Item", ["key": "b"]) }
        try changed.close()
        let off = try diff(other.path, "--from", "\(place)")
        #expect(off.status == 2 && off.errors.contains("No history of “Item” is kept"), "\(off)")
        #expect(try diff(other.path, "--from", "\(place)", "--entity", "Tag").status == 0)
    }

    @Test func mistakesAreNamed() throws {
        let folder = try StoreFolder()
        try folder.open([Self.tag, Self.item]).close()
        let path = folder.path
        for (arguments, status) in [
            ([path], 64), ([], 64), ([path, path, path], 64), ([path, path, "--from", "1"], 64),
            ([path, "--to", "1"], 64),
            ([path, "--from", "1", "--key", "key"], 64), ([path, "--from", "99"], 2), ([path, path + "x"], 2),
            ([path + "x", path], 2), ([path, path, "--entity", "No"], 2), ([path, "--from", "x"], 64),
        ] as [([String], Int32)] {
            let run = try runTool(["diff"] + arguments)
            #expect(run.status == status && run.output == "" && run.errors.hasPrefix("annals: "), "\(arguments) \(run)")
        }
        let store = try folder.open()
        try store.write { try $0.insert("Item", ["key": "a"]) }
        try store.close()
        for key in ["size", "nothing"] {
            let run = try runTool(["diff", path, path, "--key", key, "--entity", "Item"])
            #expect(run.status == 64 && run.output == "", "\(run)")
        }
        let json = try runTool(["diff", path, path, "--entity", "No", "--format", "json"])
        #expect(json.errors.hasPrefix("{\"error\":{\"code\":\"failed\","))
    }
}
