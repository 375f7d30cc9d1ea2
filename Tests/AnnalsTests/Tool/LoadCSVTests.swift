// `annals load` of CSV: fields, types, mistakes, and dumps that are read back.

import Annals
import FoundationEssentials
import TestSupport
import Testing
import annals

@Suite struct LoadCSVTests {
    private let folder: StoreFolder
    private let temporary: TemporaryDirectory

    init() throws {
        folder = try StoreFolder()
        temporary = try TemporaryDirectory()
    }

    private func load(_ text: String, _ options: String...) throws -> ToolRun {
        try temporary.write(text, to: "x.csv")
        return try runTool(["load", folder.path, temporary.path("x.csv"), "--entity", "Item"] + options)
    }

    private func dump() throws -> String { try runTool(["dump", folder.path, "--bare"]).output }

    @Test(arguments: [
        ("a,b\n1,x\n", #"{"a":1,"b":"x"}"#), ("a,b\r\n1,x\r\n", #"{"a":1,"b":"x"}"#), ("a\n1", #"{"a":1}"#),
        ("a,b\n\"x,y\",\"say \"\"hi\"\"\"\n", #"{"a":"x,y","b":"say \"hi\""}"#),
        ("a,b\n\"two\nlines\",1\n", #"{"a":"two\nlines","b":1}"#), ("a,b\n,\"\"\n", #"{"b":"","a":null}"#),
        ("\u{FEFF}a,b\n\n1,2\n\n\n", #"{"a":1,"b":2}"#), ("a\n007\n", #"{"a":"007"}"#), ("a\ntrue\n", #"{"a":true}"#),
        ("a\n1.50\n", #"{"a":1.5}"#), ("a\n é \n", #"{"a":" é "}"#), ("a=b,\"c,d\"\n1,2\n", #"{"a=b":1,"c,d":2}"#),
        ("a\nnull\n", #"{"a":"null"}"#), ("a\n{\"x\":1}\n", #"{"a":"{\"x\":1}"}"#), ("a\nx\"y\n", #"{"a":"x\"y"}"#),
    ])
    func fieldsAreRead(text: String, expected: String) throws {
        let run = try load(text)
        #expect(run.status == 0 && run.output.hasPrefix("1 inserted"), "\(run)")
        #expect(try dump() == expected + "\n")
        try folder.expectIntact()
    }

    /// A column is a string unless all its fields have another type.
    @Test func aColumnHasOneType() throws {
        _ = try load("a,b,c,d\n1,1,true,1\n2,2.5,false,x\n,,,\n3,3,1,2\n")
        let schema = try runTool(["schema", folder.path]).output
        for line in ["  a: int\n", "  b: double\n", "  c: string\n", "  d: string\n"] { #expect(schema.contains(line)) }
        // The fields keep their texts.
        #expect(try dump().hasPrefix("{\"a\":1,\"b\":1.0,\"c\":\"true\",\"d\":\"1\"}\n"))
        let misfit = try load("a\nx\n")
        #expect(misfit.status == 1 && misfit.errors.contains("“a” of “Item” has the type int"), "\(misfit.errors)")
        #expect(try load("a\nx\n", "--widen").status == 0)
        let texts = try runTool(["find", folder.path, "Item", "--columns", "a", "--bare", "--format", "csv"]).output
        #expect(texts == "a\n1\n2\n\n3\nx\n", "\(texts)")
        try folder.expectIntact()
    }

    @Test func typesAreChosen() throws {
        let uuid = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
        let run = try load(
            "key,price,since,id,bytes,json,next\nk,1.10,2026-01-02,\(uuid),AAEC,"
                + "\"{\"\"a\"\": 1}\",\n",
            "--key", "key", "--type", "price=decimal", "--type", "since=date", "--type", "id=uuid", "--type",
            "bytes=data",
            "--type", "json=json", "--type", "next=Item")
        #expect(run.status == 0, "\(run.errors)")
        let line = try dump()
        #expect(
            line
                == "{\"key\":\"k\",\"price\":1.1,\"since\":\"2026-01-02T00:00:00.000000Z\","
                + "\"id\":\"\(uuid)\",\"bytes\":\"AAEC\",\"json\":{\"a\": 1},\"next\":null}\n"
        )
        // Of a column without a value, too. Nothing else gets another type, or none.
        #expect(try load("key,until\nk,\n", "--key", "key", "--type", "until=date").status == 0)
        #expect(try runTool(["schema", folder.path]).output.contains("  until: date\n"))
        for type in ["nothing=date", "price=int"] {
            let wrong = try load("key,price\nk,2\n", "--key", "key", "--type", type)
            #expect(wrong.status != 0 && wrong.output == "", "\(wrong)")
        }
        let late = try load("key,n\na,1\nb,x\n", "--key", "key", "--type", "n=int", "--batch", "1")
        #expect(late.status == 1 && late.errors.contains("“n” of “Item” has the type int"), "\(late.errors)")
        #expect(try load("key,next\nl,1:1\n", "--key", "key", "--type", "next=Item").status == 0)
        #expect(try dump().contains("\"key\":\"l\"") && dump().contains("\"next\":\"1:1\""))
        for (text, type) in [("x\nsoon\n", "x=date"), ("x\n1\n", "x=Nothing"), ("x\n1\n", "x"), ("x\n1\n", "=date")] {
            let wrong = try load(text, "--type", type)
            #expect(wrong.status != 0 && wrong.output == "" && wrong.errors.hasPrefix("annals: "), "\(type)")
        }
        try folder.expectIntact()
    }

    @Test(arguments: [
        ("a,b\n1\n", "it has 1 fields"), ("a,b\n1,2,3\n", "it has 3 fields"),
        ("a,a\n1,2\n", "the name “a” is there twice"),
        ("a\n\"x\n", "a quoted field has no end"), ("a\n\"x\"y\n", "a comma must follow"),
        ("a,\n1,2\n", "1 to 255 bytes"),
        ("_id\n1\n", "dumps use the name “_id”"),
    ])
    func mistakesNameTheLine(text: String, words: String) throws {
        let run = try load(text)
        #expect(run.status == 1 && run.output == "" && run.errors.contains(words), "\(run.errors)")
        #expect(run.errors.contains("annals: Line "), "\(run.errors)")
    }

    @Test func aColumnOfNothingHasLines() throws {
        #expect(try load("a\n\n1\n\n").output.hasPrefix("3 inserted"))
    }

    /// A file that can be read once shows no types: later lines may have any text.
    @Test func fieldsOfAStreamAreTexts() throws {
        let run = try runTool(
            ["load", folder.path, "-", "--csv", "--entity", "Item", "--batch", "1", "--type", "n=int"],
            input: "v,n\n1.10,1\nx,2\n")
        #expect(run.status == 0, "\(run.errors)")
        #expect(try dump() == "{\"v\":\"1.10\",\"n\":1}\n{\"v\":\"x\",\"n\":2}\n")
    }

    @Test func otherEncodingsAreMistakes() throws {
        for (bytes, words) in [
            ([0x61, 0x0A, 0xE9, 0x0A], "it is not in UTF-8"), (Array("a\r1\r2\r".utf8), "a carriage return must be"),
        ] as [([UInt8], String)] {
            try Data(bytes).write(to: URL(filePath: temporary.path("bytes.csv")))
            let run = try runTool(["load", folder.path, temporary.path("bytes.csv"), "--entity", "Item"])
            #expect(run.status == 1 && run.output == "" && run.errors.contains(words), "\(run)")
        }
    }

    @Test func aMistakeInJSONIsNoText() throws {
        #expect(try load("key,j\nk,1\n", "--key", "key", "--type", "j=json").status == 0)
        for value in ["{\"a\":1", "[1,", "\"x"] {
            #expect(try runTool(["set", folder.path, "Item", "k", "j=\(value)"]).status == 1, "\(value)")
        }
        #expect(try runTool(["set", folder.path, "Item", "k", "j={\"a\":1}"]).status == 0)
        #expect(try dump() == "{\"key\":\"k\",\"j\":{\"a\":1}}\n")
    }

    /// Any texts, also those that look like numbers, and lines of several batches.
    @Test(arguments: 1...4 as ClosedRange<UInt64>)
    func aDumpIsReadBack(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let parts = ["a", ",", "\"", "\n", "\r", " ", "é", "1", "true", "\u{1F600}", "\t", ""]
        let store = try folder.open([
            EntityDescription(
                "Item",
                attributes: [
                    AttributeDescription("text", .string), AttributeDescription("n", .int),
                    AttributeDescription("d", .double), AttributeDescription("when", .date),
                    AttributeDescription("price", .decimal), AttributeDescription("data", .data),
                    AttributeDescription("flag", .bool),
                ])
        ])
        try store.write { transaction in
            for number in 0..<200 {
                let text = (0..<Int.random(in: 0..<5, using: &random)).map { _ in random.one(of: parts) }.joined()
                try transaction.insert(
                    "Item",
                    [
                        "text": random.happens(0.2) ? .null : .string(text), "n": .int(Int64(number)),
                        "d": .double(random.one(of: [0, -0.0, 1e300, .nan, -.infinity])),
                        "when": .date(Date(timeIntervalSinceReferenceDate: Double(number) / 7)),
                        "price": .decimal(Decimal(number) / 100), "data": .data(Data([UInt8(number)])),
                        "flag": random.happens(0.5) ? .bool(true) : .null,
                    ])
            }
        }
        try store.close()
        let csv = try runTool(["dump", folder.path, "--format", "csv", "--bare"]).output
        try temporary.write(csv, to: "dump.csv")
        let schema = try runTool(["schema", folder.path, "--format", "json"]).output
        try temporary.write(schema, to: "schema.json")
        let copy = temporary.path("copy.annals")
        #expect(try runTool(["schema", copy, "--apply", temporary.path("schema.json")]).status == 0)
        let run = try runTool(["load", copy, temporary.path("dump.csv"), "--entity", "Item", "--batch", "7"])
        #expect(run.status == 0, "seed \(seed): \(run.errors)")
        let difference = try runTool(["diff", folder.path, copy])
        #expect(difference.status == 0 && difference.output == "", "seed \(seed): \(difference.output.prefix(300))")
        try folder.expectIntact()
    }
}
