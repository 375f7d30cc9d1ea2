// What `annals load` does to the schema of a store that a program has declared.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct LoadSchemaTests {
    let folder: StoreFolder
    static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("k", .string, isUnique: true), AttributeDescription("n", .int),
            AttributeDescription("x", .double),
        ])

    init() throws {
        folder = try StoreFolder()
        let store = try folder.open([Self.item])
        _ = try store.write { try $0.insert("Item", ["k": "old", "n": 7, "x": 1.5]) }
        try store.close()
    }

    private func load(_ lines: [String], fromFile: Bool, _ options: String...) throws -> ToolRun {
        let text = lines.joined(separator: "\n")
        let arguments = ["load", folder.path]
        guard fromFile else { return try runTool(arguments + ["-", "--entity", "Item"] + options, input: text) }
        let other = try TemporaryDirectory()
        try other.write(text, to: "lines")
        return try runTool(arguments + [other.path("lines"), "--entity", "Item"] + options)
    }

    private func schema() throws -> String { try runTool(["schema", folder.path]).output }

    private func dump() throws -> String { try runTool(["dump", folder.path, "--bare"]).output }

    /// The program that declares the entity opens the store.
    private func expectTheProgramOpens(sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(throws: Never.self, sourceLocation: sourceLocation) { try folder.open([Self.item]).close() }
    }

    static let oldRow = "{\"k\":\"old\",\"n\":7,\"x\":1.5}\n"

    /// The last line of each fails. The lines before it need another schema.
    static let failing = [
        ["{\"k\":\"a\",\"n\":\"wide\",\"new\":1}", "{\"k\":\"b\",}"],
        ["{\"k\":\"a\",\"n\":0.5}", "{\"k\":\"old\",\"n\":1}"],
        ["{\"k\":\"a\",\"n\":true}", "{\"k\":\"b\",\"n\":[1]}", "{\"k\":\"a\"}"],
        ["{\"k\":\"a\",\"new\":{}}", "{\"_id\":1}"],
    ]

    @Test(arguments: failing, [false, true]) func aFailedBatchLeavesTheSchemaUnchanged(
        lines: [String], fromFile: Bool
    ) throws {
        let before = try schema()
        let run = try load(lines, fromFile: fromFile, "--widen")
        #expect(run.status == 1 && run.output == "", "\(run)")
        #expect(try schema() == before)
        #expect(try dump() == Self.oldRow)
        try expectTheProgramOpens()
        try folder.expectIntact()
    }

    /// The first batch fits the declared types. Only lines of the second, which fails, need wider ones.
    @Test(arguments: failing, [false, true]) func onlyTheBatchesBeforeAFailureChangeTheSchema(
        lines: [String], fromFile: Bool
    ) throws {
        let fitting = (0..<4).map { "{\"k\":\"fitting \($0)\",\"n\":\($0)}" }
        let before = try schema()
        let run = try load(fitting + lines, fromFile: fromFile, "--widen", "--batch", "4")
        #expect(run.status == 1 && run.errors.contains("4 objects were inserted and 0 updated"), "\(run)")
        #expect(try schema() == before)
        #expect(try dump().split(separator: "\n").count == 5)
        try expectTheProgramOpens()
        try folder.expectIntact()
    }

    @Test(arguments: [false, true]) func anAttributeIsNotWidenedWithoutTheOption(fromFile: Bool) throws {
        let before = try schema()
        for (line, name, type, other) in [
            ("{\"k\":\"b\",\"n\":0.5}", "n", "int", "double"), ("{\"k\":\"b\",\"n\":\"1\"}", "n", "int", "string"),
            ("{\"k\":7}", "k", "string", "int"), ("{\"x\":true}", "x", "double", "bool"),
        ] {
            let run = try load(["{\"k\":\"a\",\"n\":1}", line], fromFile: fromFile)
            #expect(run.status == 1 && run.errors.contains("Line 2 of "), "\(run)")
            #expect(run.errors.contains("“\(name)” of “Item” has the type \(type)"), "\(run)")
            #expect(run.errors.contains("a value of the type \(other)"), "\(run)")
            #expect(run.errors.contains("“--widen”"), "\(run)")
            #expect(try schema() == before)
            #expect(try dump() == Self.oldRow)
        }
        try expectTheProgramOpens()
        // A program that declares the wider type opens it afterwards.
        let run = try load(["{\"k\":\"b\",\"n\":0.5,\"x\":1}"], fromFile: fromFile, "--widen")
        #expect(run.status == 0, "\(run)")
        #expect(try dump() == "{\"k\":\"old\",\"n\":7.0,\"x\":1.5}\n{\"k\":\"b\",\"n\":0.5,\"x\":1.0}\n")
        expect(.schemaMismatch) { try folder.open([Self.item]) }
        var wider = Self.item
        wider.attributes[1].type = .double
        try folder.open([wider]).close()
        try folder.expectIntact()
    }

    /// Lines that an object is found by, in the transaction that widens the key or makes it unique.
    @Test(arguments: [false, true]) func aKeyIsChangedTogetherWithItsObjects(fromFile: Bool) throws {
        let lines = (0..<3).map { "{\"n\":\($0),\"w\":\($0)}" }
        #expect(try load(lines, fromFile: fromFile, "--key", "n").output.hasPrefix("3 inserted"))
        let wider = ["{\"n\":0.5,\"w\":9}", "{\"n\":7,\"k\":\"old\",\"x\":1.5}", "{\"n\":1,\"w\":5,\"x\":1.5}"]
        let run = try load(wider, fromFile: fromFile, "--key", "n", "--widen", "--prune")
        #expect(run.output.hasPrefix("1 inserted, 1 updated, 2 deleted, 1 unchanged in 2 transactions"), "\(run)")
        #expect(try schema().contains("n: double, unique"))
        #expect(try dump().split(separator: "\n").count == 3)
        try folder.expectIntact()
    }

    /// A double's text for what is not finite is a value of its type.
    @Test(arguments: [false, true]) func aValueThatFitsWidensNothing(fromFile: Bool) throws {
        let before = try schema()
        #expect(try load(["{\"k\":\"a\",\"x\":\"NaN\"}"], fromFile: fromFile).status == 0)
        #expect(try schema() == before)
        #expect(try dump() == Self.oldRow + "{\"k\":\"a\",\"n\":null,\"x\":\"NaN\"}\n")
        try folder.expectIntact()
    }

    /// More than half a MiB in one transaction, which then takes no second change of an object.
    @Test func largeObjectsAreWidenedAndUpdatedTogether() throws {
        let text = String(repeating: "x", count: 3000)
        func lines(_ value: (Int) -> String) -> [String] {
            (0..<300).map { "{\"k\":\"\($0)\",\"n\":\(value($0)),\"x\":2,\"text\":\"\($0) \(text)\"}" }
        }
        #expect(try load(lines { "\($0)" }, fromFile: true, "--key", "k").status == 0)
        let later = lines { $0 < 200 ? "\($0).0" : "\"\($0)\"" } + ["{\"k\":\"0\",\"n\":1,\"x\":2,\"text\":null}"]
        let run = try load(later, fromFile: true, "--key", "k", "--widen")
        #expect(run.output.hasPrefix("0 inserted, "), "\(run)")
        #expect(try dump().contains("{\"k\":\"0\",\"n\":1,\"x\":2.0,\"text\":null}"), "\(run)")
        #expect(try dump().hasPrefix("{\"k\":\"old\",\"n\":7,"))
        try folder.expectIntact()
    }

    // MARK: What a line does not name

    @Test(arguments: [false, true]) func aLineChangesOnlyTheAttributesThatItNames(fromFile: Bool) throws {
        let run = try load(["{\"k\":\"old\",\"x\":2}"], fromFile: fromFile, "--key", "k")
        #expect(run.output.hasPrefix("0 inserted, 1 updated"), "\(run)")
        #expect(try dump() == "{\"k\":\"old\",\"n\":7,\"x\":2.0}\n")
        let history = try runTool(["history", folder.path, "--limit", "1", "--reverse", "--values"]).output
        #expect(history.contains("\"attributes\":[\"x\"]"), "\(history)")
        let same = try load(["{\"k\":\"old\"}"], fromFile: fromFile, "--key", "k", "--prune")
        #expect(same.output.hasPrefix("0 inserted, 0 updated, 0 deleted, 1 unchanged in 0 transactions"), "\(same)")
        let null = try load(["{\"k\":\"old\",\"x\":null}"], fromFile: fromFile, "--key", "k")
        #expect(null.output.hasPrefix("0 inserted, 1 updated"), "\(null)")
        #expect(try dump() == "{\"k\":\"old\",\"n\":7,\"x\":null}\n")
        // The same within a batch, and for an object that the batch widens.
        let lines = ["{\"k\":\"new\",\"n\":1}", "{\"k\":\"new\",\"x\":3}", "{\"k\":\"old\",\"x\":\"wide\"}"]
        #expect(try load(lines, fromFile: fromFile, "--key", "k", "--widen").status == 0)
        #expect(
            try dump()
                == "{\"k\":\"old\",\"n\":7,\"x\":\"wide\"}\n{\"k\":\"new\",\"n\":1,\"x\":3}\n")
        try folder.expectIntact()
    }

    static let defaults = EntityDescription(
        "Default",
        attributes: [
            AttributeDescription("k", .string, isUnique: true),
            AttributeDescription("title", .string, isOptional: false, defaultValue: "untitled"),
            AttributeDescription("n", .int, defaultValue: 5), AttributeDescription("plain", .int),
        ])

    @Test(arguments: [[], ["--key", "k"]], ["load", "insert"]) func aNewObjectGetsDefaults(
        options: [String], command: String
    ) throws {
        try folder.open([Self.item, Self.defaults]).close()
        func add(_ values: KeyValuePairs<String, String>, sourceLocation: SourceLocation = #_sourceLocation) throws {
            let line = "{" + values.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
            let run =
                command == "load"
                ? try runTool(["load", folder.path, "-", "--entity", "Default"] + options, input: line)
                : try runTool(["insert", folder.path, "Default"] + values.map { "\($0)=\($1)" })
            #expect(run.status == 0, "\(run)", sourceLocation: sourceLocation)
        }
        try add(["k": "\"a\""])
        try add(["k": "\"b\"", "n": "null"])
        try add(["k": "\"c\"", "title": "\"t\"", "plain": "1"])
        #expect(
            try runTool(["dump", folder.path, "--bare", "--entity", "Default"]).output == """
                {"k":"a","title":"untitled","n":5,"plain":null}
                {"k":"b","title":"untitled","n":null,"plain":null}
                {"k":"c","title":"t","n":5,"plain":1}

                """)
        try folder.expectIntact()
    }

    /// A program's declaration gives the schema its defaults. An attribute that a later version declares has one too.
    @Test func theDefaultOfADeclarationIsTheDefaultOfALine() throws {
        try Store(at: folder.path, entities: [Earlier.self]).close()
        try Store(at: folder.path, entities: [Declared.self]).close()
        #expect(try runTool(["insert", folder.path, "Declared"]).status == 0)
        let run = try runTool(["load", folder.path, "-", "--entity", "Declared"], input: "{}\n")
        #expect(run.status == 0, "\(run)")
        let dump = try runTool(["dump", folder.path, "--bare", "--entity", "Declared"]).output
        #expect(dump == "{\"count\":3,\"name\":\"none\"}\n{\"count\":3,\"name\":\"none\"}\n")
    }
}

private struct Earlier: Entity {
    var count = 3

    static let schema = Schema<Earlier>("Declared") { Attribute(\.count) }
}

private struct Declared: Entity {
    var count = 3
    var name = "none"

    static let schema = Schema<Declared>("Declared") {
        Attribute(\.count)
        Attribute(\.name)
    }
}
