// A dump of a whole store, loaded into a new one: the schema, every type, IDs and references.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct LoadDumpTests {
    private let folder: StoreFolder
    private let temporary: TemporaryDirectory
    private var copy: String { temporary.path("copy.annals") }
    private var lines: String { temporary.path("dump.jsonl") }

    init() throws {
        folder = try StoreFolder()
        temporary = try TemporaryDirectory()
    }

    /// An attribute of each type, named by it; references to the own entity, to a later one, and to any.
    private static let entities: [EntityDescription] = [
        EntityDescription("Gone", attributes: [AttributeDescription("n", .int)]),
        EntityDescription(
            "Thing",
            attributes: AttributeType.allCases.map {
                AttributeDescription($0.rawValue, $0, target: $0.isReference ? "Later" : nil)
            } + [
                AttributeDescription("any", .object), AttributeDescription("anyList", .orderedObjects),
                AttributeDescription("self", .object, target: "Thing", whenTargetIsDeleted: .cascade),
                AttributeDescription("required", .object, isOptional: false, target: "Later"),
                AttributeDescription("_id", .string), AttributeDescription("_entity", .string),
                AttributeDescription("e\u{301}", .string, isUnique: true), AttributeDescription("\u{e9}", .string),
            ]),
        EntityDescription(
            "Later", attributes: [AttributeDescription("n", .int, isPreservedOnDeletion: true, defaultValue: 7)],
            keys: [IndexDescription(["n"], isUnique: false)]),
    ]

    private func values(_ random: inout SeededRandom, _ things: [ObjectID], _ later: [ObjectID]) -> [String: Value] {
        func one(_ objects: [ObjectID]) -> Value { objects.isEmpty ? .null : .object(random.one(of: objects)) }
        let any = things + later
        return [
            "bool": random.one(of: [true, false, .null]), "int": random.one(of: [.int(.min), .int(.max), 0]),
            "double": .double(random.one(of: [-0.0, .nan, .infinity, 0.1, .leastNonzeroMagnitude])),
            "string": random.one(of: [
                "", "a\u{1b}\n\"", "e\u{301}", .string(String(repeating: "long ", count: 20_000)),
            ]),
            "data": random.one(of: [.data(Data()), .data(Data([0, 255])), .null]),
            "date": .date(Date(timeIntervalSinceReferenceDate: random.one(of: [0, 0.1, -1e12, 1e300]))),
            "uuid": .uuid(UUID(uuidString: "00000000-0000-0000-0000-00000000000\(random.one(of: [1, 2]))")!),
            "decimal": .decimal(random.one(of: [Decimal(string: "0.1")!, Decimal(string: "-1e-100")!, .nan])),
            "json": random.one(of: [.json("{\"a\":[1]}"), .json("null"), .json("not JSON")]),
            "object": one(later), "objects": .objects(later.filter { _ in random.happens(0.3) }),
            "orderedObjects": .orderedObjects(later.shuffled(using: &random)), "any": one(any),
            "anyList": .orderedObjects(Array(any.shuffled(using: &random).prefix(3))), "self": one(things),
            "required": one(later), "_id": "i", "_entity": .null,
            "\u{e9}": "other",
        ]
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func theStoreIsMadeAgain(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let store = try folder.open(Self.entities)
        // The numbers of entities and objects have gaps.
        try store.changeSchema([.removeEntity("Gone")])
        let later = try store.write { transaction in
            try (0..<9).map { _ in try transaction.insert("Later", ["n": .int(Int64.random(in: 0..<5, using: &random))])
            }
        }.result
        var things: [ObjectID] = []
        for number in 0..<20 {
            let values = values(&random, things, later)
            things.append(
                try store.write { transaction in
                    try transaction.insert("Thing", values.merging(["e\u{301}": .string("\(number)")]) { $1 })
                }.result)
        }
        for object in things where random.happens(0.2) {
            try store.write { if try $0.row(object) != nil { try $0.delete(object) } }
        }
        // References forward, to objects with larger numbers.
        let left = try store.snapshot().rows(of: "Thing").map(\.id)
        if let first = left.first, let last = left.last {
            try store.write { try $0.update(first, ["self": .object(last)]) }
        }
        try store.close()
        let dump = try runTool(["dump", folder.path, "--schema"])
        try temporary.write(dump.output, to: "dump.jsonl")
        for input in [nil, dump.output] where input == nil || seed == 1 {
            let run = try runTool(["load", copy, input == nil ? lines : "-", "--author", "me"], input: input)
            if input != nil, run.status != 0 {
                // An object of any entity can be named before its entity, which only a file shows.
                #expect(run.errors.contains("load from a file"), "\(run)")
                continue
            }
            #expect(run.status == 0 && run.output.contains("in 1 transactions"), "seed \(seed): \(run)")
            let again = try runTool(["dump", copy, "--schema"]).output
            func comparable(_ dump: String) -> ArraySlice<Substring> {
                // Entities may have other numbers, and the schema another version.
                dump.replacing(/"([23]):(\d+)"/) { "\($0.output.1 == "2" ? "1" : "2"):\($0.output.2)" }
                    .split(separator: "\n").dropFirst()
            }
            let expected = comparable(dump.output)
            let found = again.replacing(/"([12]):(\d+)"/) { "\($0.output.1):\($0.output.2)" }.split(separator: "\n")
            #expect(Array(expected) == Array(found.dropFirst()), "seed \(seed)")
            let schemas = try [folder.path, copy].map { try runTool(["schema", $0, "--format", "json"]).output }
            #expect(schemas[0].replacing(/"version":\d+/, with: "") == schemas[1].replacing(/"version":\d+/, with: ""))
            #expect(try runTool(["verify", copy]).status == 0)
            #expect(try runTool(["history", copy, "--count", "--author", "me"]).output == "1\n")
            // The IDs are taken now, so nothing of a second load is written.
            let second = try runTool(["load", copy, lines])
            #expect(second.status == 1 && second.errors.contains("Nothing was written"), "\(second)")
            #expect(try runTool(["history", copy, "--count"]).output == "1\n")
            unlink(copy)
        }
        try folder.expectIntact()
    }

    /// Each mistake has the number of its line, and no store is made.
    @Test(
        arguments: [
            ("{\"n\":1}", 64, "“--entity”"), ("{\"_entity\":\"A\",\"n\":1}", 64, "“_id”"),
            ("{\"_entity\":\"A\",\"_id\":\"1\",\"n\":1}", 64, "Line 1"),
            ("{\"_entity\":\"A\",\"_id\":\"1:1\",\"n\":1}", 1, "“A”"), ("{\"_schema\":{}}", 1, "entities"),
            (
                "{\"_schema\":{\"entities\":[{\"name\":\"A\",\"attributes\":[{\"name\":\"n\",\"type\":\"int\"}]}]}}\n{",
                1, "Line 2"
            ),
            (schema + "{\"_entity\":\"A\",\"_id\":\"1:1\",\"m\":1}", 1, "no attribute “m”"),
            (schema + "{\"_entity\":\"A\",\"_id\":\"1:1\",\"n\":\"x\"}", 1, "has the type int"),
            (schema + "{\"_entity\":\"A\",\"_id\":\"1:2\"}\n{\"_entity\":\"A\",\"_id\":\"1:1\"}", 1, "ascending"),
            (schema + "{\"_entity\":\"A\",\"_id\":\"1:2\"}\n{\"_entity\":\"A\",\"_id\":\"1:2\"}", 1, "Line 3"),
            (schema + "{\"_entity\":\"B\",\"_id\":\"1:1\"}", 1, "“B”"),
            (schema + "{\"_entity\":\"A\",\"_id\":\"1:2\",\"r\":\"9:9\"}", 1, "9:9"),
        ] as [(String, Int32, String)])
    func mistakesNameTheLine(text: String, status: Int32, words: String) throws {
        try temporary.write(text + "\n", to: "dump.jsonl")
        let run = try runTool(["load", copy, lines])
        #expect(run.status == status && run.output == "" && run.errors.contains(words), "\(run)")
        #expect(temporary.names == ["dump.jsonl"])
    }

    private static let schema =
        "{\"_schema\":{\"entities\":[{\"name\":\"A\",\"attributes\":[{\"name\":\"n\",\"type\":\"int\"},"
        + "{\"name\":\"r\",\"type\":\"object\"}]}]}}\n"

    /// A gap of any size costs nothing.
    @Test func numbersMayHaveLargeGaps() throws {
        let text =
            Self.schema
            + [1, 5, 4000, 1_000_000_000_000].map { "{\"_entity\":\"A\",\"_id\":\"4:\($0)\"}" }
            .joined(separator: "\n")
        try temporary.write(text, to: "dump.jsonl")
        let run = try runTool(["load", copy, lines])
        #expect(run.status == 0, "\(run)")
        let ids = try Store(at: copy).snapshot().rows(of: "A").map(\.id.number)
        #expect(ids == [1, 5, 4000, 1_000_000_000_000])
        // The next object gets the next number.
        #expect(try runTool(["insert", copy, "A", "n=1"]).output.hasPrefix("1:1000000000001\n"))
        #expect(try runTool(["verify", copy]).status == 0)
        #expect(try runTool(["dump", copy, "--schema", "--bare"]).status == 64)
    }
}
