// The commands that write and read stores, from outside.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct LoadToolTests {
    let folder: StoreFolder
    var store: String { folder.path }

    init() throws { folder = try StoreFolder() }

    func load(_ lines: String, _ options: String...) throws -> ToolRun {
        try runTool(["load", store, "-", "--entity", "Item"] + options, input: lines)
    }

    func loadFile(_ lines: String, _ options: String...) throws -> ToolRun {
        let other = try TemporaryDirectory()
        try other.write(lines, to: "lines")
        return try runTool(["load", store, other.path("lines"), "--entity", "Item"] + options)
    }

    func dump(_ options: String...) throws -> String { try runTool(["dump", store] + options).output }

    @Test func recordsAreDumpedAsTheyWereLoaded() throws {
        let lines =
            "{\"name\":\"a\",\"n\":1,\"x\":0.5,\"ok\":true,\"tags\":[1, "
            + "2]}\n{\"name\":\"b\",\"n\":null}\n\n{\"later\":\"é\\n\"}"
        let run = try loadFile(lines)
        #expect(
            run.status == 0
                && run.output.hasPrefix("3 inserted, 0 updated, 0 deleted, 0 unchanged in 1 transactions; token A1."))
        let bare = """
            {"name":"a","n":1,"x":0.5,"ok":true,"tags":[1, 2],"later":null}
            {"name":"b","n":null,"x":null,"ok":null,"tags":null,"later":null}
            {"name":null,"n":null,"x":null,"ok":null,"tags":null,"later":"é\\n"}

            """
        #expect(try dump("--bare") == bare)
        #expect(try dump().hasPrefix("{\"_entity\":\"Item\",\"_id\":\"1:1\",\"name\":\"a\""))
        #expect(
            try dump("--entity", "Item", "--format", "csv").hasPrefix(
                "_entity,_id,name,n,x,ok,tags,later\nItem,1:1,a,1,0.5,true,\"[1, 2]\",\n"))
        #expect(try runTool(["dump", store, "--entity", "No"]).status == 1)
        try folder.expectIntact()
    }

    @Test func decimalsKeepTheirDigitsAndAByteOrderMarkIsSkipped() throws {
        let price = AttributeDescription("price", .decimal)
        try folder.open([EntityDescription("Item", attributes: [price])]).close()
        let numbers = [
            "0.1", "12345678901234567890.123", "-0.000000000000000000000000000000000001", "0.30000000000000004",
            "99999999999999999999999999999999999999", "1.7976931348623157",
        ]
        let lines = (numbers + ["0.1000"]).map { "{\"price\":\($0)}\n" }.joined()
        #expect(try loadFile("\u{FEFF}" + lines).status == 0)
        let reader = try folder.open()
        let found = try reader.snapshot().rows(of: "Item").map { try #require($0["price"]?.decimal) }
        #expect(found == (numbers + ["0.1"]).compactMap { Decimal(string: $0) })
        try reader.close()
        #expect(try loadFile("\u{FEFF}").output.hasPrefix("0 inserted"))
        try folder.expectIntact()
    }

    /// A tracker that lists authors must be able to list the tool.
    @Test func theToolHasAnAuthor() throws {
        #expect(try load("{\"n\":1}\n").status == 0)
        #expect(try runTool(["set", store, "Item", "1", "n=2"]).status == 0)
        #expect(try runTool(["insert", store, "Item", "n=3", "--author", ""]).status == 0)
        #expect(try runTool(["delete", store, "Item", "2", "--author", "me"]).status == 0)
        let opened = try folder.open()
        let last = try #require(try opened.history(after: 0).last).number
        #expect(try opened.history(after: last - 3).map(\.author) == ["annals", nil, "me"])
        #expect(try opened.history(after: 0).first?.author == "annals")
        try opened.close()
        #expect(try runTool(["revert", store, "\(last)"]).status == 0)
        let again = try folder.open()
        #expect(try again.history(after: last).map(\.author) == ["annals"])
        try again.close()
        try folder.expectIntact()
    }

    @Test func keysUpdateOnlyDifferences() throws {
        let first = "{\"k\":\"a\",\"n\":1}\n{\"k\":\"b\",\"n\":2}\n{\"k\":\"c\",\"n\":3}\n"
        #expect(try load(first, "--key", "k").status == 0)
        let second = "{\"k\":\"a\",\"n\":1}\n{\"k\":\"b\",\"n\":5}\n{\"k\":\"d\"}\n{\"k\":\"d\",\"n\":7}\n"
        let run = try load(second, "--key", "k", "--prune", "--author", "me", "--context", "test", "--format", "json")
        #expect(
            run.status == 0
                && run.output.hasPrefix(
                    "{\"inserted\":1,\"updated\":2,\"deleted\":1,\"unchanged\":1,\"transactions\":2,")
        )
        #expect(try dump("--bare") == "{\"k\":\"a\",\"n\":1}\n{\"k\":\"b\",\"n\":5}\n{\"k\":\"d\",\"n\":7}\n")
        #expect(try dump("--bare", "--as-of", "1") == first)
        let history = try runTool(["history", store, "--after", "1", "--values"]).output.split(separator: "\n")
        #expect(history.count == 2 && history[0].contains("\"author\":\"me\",\"context\":\"test\""))
        #expect(
            history[0].contains(
                "{\"kind\":\"update\",\"entity\":\"Item\",\"id\":\"1:2\",\"attributes\":[\"n\"],\"before\":{\"n\":2},"
                    + "\"after\":{\"n\":5}}"
            ))
        #expect(
            history[1].contains(
                "{\"kind\":\"delete\",\"entity\":\"Item\",\"id\":\"1:3\",\"attributes\":[],\"before\":{\"k\":\"c\","
                    + "\"n\":3},\"after\":null"
            ))
        #expect(try load("{\"n\":1}", "--key", "k").errors.contains("Line 1"))
        try folder.expectIntact()
    }

    /// Objects that are older than the attribute have no value of it, and a line that has none either does not differ.
    @Test(arguments: [false, true]) func anAddedAttributeChangesOnlyObjectsThatHaveIt(fromFile: Bool) throws {
        #expect(try load("{\"k\":1,\"n\":1}\n{\"k\":2}\n{\"k\":3}\n", "--key", "k").status == 0)
        let lines = "{\"k\":1,\"n\":1}\n{\"k\":2,\"w\":null,\"v\":null}\n{\"k\":3,\"w\":5}\n"
        for expected in ["\"updated\":1,\"deleted\":0,\"unchanged\":2", "\"updated\":0,\"deleted\":0,\"unchanged\":3"] {
            let run =
                try fromFile
                ? loadFile(lines, "--key", "k", "--format", "json") : load(lines, "--key", "k", "--format", "json")
            #expect(run.output.contains(expected), "\(run.output)")
        }
        #expect(try runTool(["set", store, "Item", "1", "w=null"]).status == 0)
        // Widening: 2 and 3 have no “n”, before and after it.
        let run = try load(
            "{\"k\":1,\"n\":1.5}\n{\"k\":2}\n{\"k\":3,\"w\":5}\n", "--key", "k", "--widen", "--format", "json")
        #expect(run.output.contains("\"updated\":1,\"deleted\":0,\"unchanged\":2"), "\(run.output)")
        try folder.expectIntact()
    }

    @Test func aBadLineEndsTheLoadWithItsNumber() throws {
        let run = try load("{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n{\"a\":4,}\n{\"a\":5}\n", "--batch", "2")
        #expect(run.status == 1 && run.errors.contains("Line 4 ") && run.output == "")
        #expect(try dump("--bare") == "{\"a\":1}\n{\"a\":2}\n")
        try folder.expectIntact()
    }

    @Test(arguments: ["[1]", "{\"a\":1} x", "{\"a\":1,\"a\":2}", "{\"_id\":1}", "x", "{\"a\":\"\\ud800\"}"])
    func aBadFirstLineCreatesNoStore(line: String) throws {
        for run in [try load(line), try loadFile(line)] {
            #expect(run.status == 1 && run.errors.contains("Line 1 "), "\(run.errors)")
        }
        #expect(folder.temporary.names == [])
        #expect(try runTool(["load", store, folder.temporary.path("none"), "--entity", "Item"]).status == 1)
        #expect(folder.temporary.names == [])
    }

    @Test func valuesThatDoNotFitWidenTheType() throws {
        let batches = ["--batch", "1"]
        let lines = "{\"a\":1,\"b\":true,\"c\":null}\n{\"a\":0.5,\"b\":2,\"c\":\"x\"}\n{\"a\":\"s\",\"b\":{}}\n"
        #expect(try runTool(["load", store, "-", "--entity", "Item"] + batches, input: lines).status == 0)
        #expect(
            try dump("--bare")
                == "{\"a\":1,\"b\":true,\"c\":null}\n{\"a\":0.5,\"b\":2,\"c\":\"x\"}\n{\"a\":\"s\",\"b\":{},"
                + "\"c\":null}\n"
        )
        #expect(try load("{\"c\":5,\"d\":null}", "--widen").status == 0)
        let info = try runTool(["info", store, "--format", "json"]).output
        #expect(
            info.contains("{\"name\":\"c\",\"type\":\"json\"") && info.contains("{\"name\":\"d\",\"type\":\"json\""))
        try folder.expectIntact()
    }

    @Test func namesMayHaveEqualsSigns() throws {
        #expect(try load("{\"a\":1,\"a=b\":\"x\"}").status == 0)
        #expect(try runTool(["set", store, "Item", "1", "a=b=\"y=1\"", "a=2"]).status == 0)
        #expect(try dump("--bare") == "{\"a\":2,\"a=b\":\"y=1\"}\n")
        #expect(try runTool(["set", store, "Item", "1", "a=b=c"]).status == 0)
        #expect(try dump("--bare") == "{\"a\":2,\"a=b\":\"c\"}\n")
        let failure = try runTool(["set", store, "Item", "1", "a=c=d"])
        #expect(failure.status == 1 && failure.errors.contains("“a” of “Item” has the type int"), "\(failure.errors)")
        #expect(try runTool(["set", store, "Item", "1", "=1"]).status == 64)
        try folder.expectIntact()
    }

    @Test func editsPrintJSON() throws {
        #expect(try load("{\"name\":\"a\",\"n\":1}").status == 0)
        func answer(_ arguments: String...) throws -> (status: Int32?, output: Substring) {
            let run = try runTool([arguments[0], store, "Item"] + arguments.dropFirst() + ["--format", "json"])
            return (run.status, run.output.prefix { $0 != "A" })
        }
        #expect(try answer("insert", "n=2") == (0, "{\"_id\":\"1:2\",\"token\":\""))
        #expect(try answer("set", "2", "n=3") == (0, "{\"token\":\""))
        #expect(try answer("set", "2", "n=3") == (0, "{\"token\":null}\n"))
        #expect(try answer("delete", "2") == (0, "{\"token\":\""))
        try folder.expectIntact()
    }

    @Test func objectsAreEditedOneByOne() throws {
        #expect(try load("{\"name\":\"a\",\"n\":1}").status == 0)
        let inserted = try runTool(["insert", store, "Item", "name=\"b=c\"", "n=2", "--author", "me"])
        #expect(inserted.status == 0 && inserted.output.hasPrefix("1:2\n"))
        #expect(try runTool(["set", store, "Item", "2", "n=null", "name=\"d\""]).status == 0)
        #expect(try runTool(["set", store, "Item", "1:1", "n=1"]).status == 0)
        #expect(try dump("--bare") == "{\"name\":\"a\",\"n\":1}\n{\"name\":\"d\",\"n\":null}\n")
        #expect(try runTool(["delete", store, "Item", "1:1"]).status == 0)
        #expect(try dump("--bare") == "{\"name\":\"d\",\"n\":null}\n")
        let text = try runTool(["history", store, "--format", "text", "--values", "--after", "1"]).output
        #expect(text.contains("  me  insert 1 Item\n"))
        #expect(
            text.contains("  update Item 1:2  name  \"b=c\"  \"d\"\n" + "                       n     2      null\n"))
        for (arguments, status) in [
            (["insert", store, "Item", "n=\"x\""], 1), (["insert", store, "Item", "n"], 64),
            (["insert", store, "Item", "n=x"], 1),
            (["insert", store, "Item", "n=1", "n=2"], 64), (["insert", store, "No"], 1),
            (["insert", store, "Item", "z=1"], 1),
            (["set", store, "Item", "1:1", "n=1"], 1), (["set", store, "Item", "7:1", "n=1"], 64),
            (["set", store, "Item", "x", "n=1"], 64),
            (["delete", store, "Item", "1:9"], 1), (["set", store, "Item", "1"], 64),
            (["history", store, "--after", "99"], 1),
            (["history", store, "--after", "A1.x"], 64), (["dump", store, "--as-of", "99"], 1),
            (["load", store, "-"], 64),
            (["load", store, "-", "--entity", "Item", "--prune"], 64),
            (["load", store, "-", "--entity", "I", "--batch", "0"], 64),
            (["info", store + "x"], 1), (["dump", store + "x"], 1), (["insert", store + "x", "Item"], 1),
        ] {
            let run = try runTool(arguments)
            #expect(run.status == Int32(status) && run.errors.hasPrefix("annals: "), "\(arguments) \(run.errors)")
        }
        try folder.expectIntact()
    }

    @Test func tokensCanBeUsedAsPlaces() throws {
        #expect(try load("{\"n\":1}\n{\"n\":2}", "--batch", "1").status == 0)
        let history = try runTool(["history", store, "--limit", "2"]).output.split(separator: "\n")
        #expect(history.count == 2)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(history[0].utf8)) as? [String: Any])
        let token = try #require(object["token"] as? String)
        #expect(try runTool(["history", store, "--after", token]).output.contains("\"number\":2,"))
        #expect(try dump("--as-of", token, "--bare") == "{\"n\":1}\n")
        #expect(isTimestamp(object["timestamp"] as? String ?? "") && object["process"] as? String == "annals")
    }

    private func isTimestamp(_ text: String) -> Bool {
        text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z/) != nil
    }

    @Test func aFullOutputIsAFailure() throws {
        #expect(try load("{\"n\":1}").status == 0)
        for arguments in [["dump", store], ["history", store], ["info", store]] {
            let run = try runTool(arguments, standardOutput: "/dev/full")
            #expect(run.status == 1 && run.errors.contains("no space is left"))
        }
    }

    @Test func theDemonstrationChecksItself() throws {
        let run = try runTool(["demo"])
        #expect(run.status == 0 && run.errors == "", "\(run.output)\(run.errors)")
        #expect(run.output.contains("Everything is as it should be."))
    }

    /// `ANNALS_WRITE_GOLDEN=1` writes what the tool says today: read the difference before committing it.
    @Test func helpMatchesTheGoldenFile() throws {
        var text = try runTool(["help"]).output
        for name in [
            "load", "insert", "set", "delete", "get", "find", "count", "dump", "schema", "history", "diff", "watch",
            "versions", "revert", "restore", "export", "apply", "mirror run", "mirror status", "mirror leave",
            "mirror forget", "mirror adopt", "consumers", "retention", "clean", "compact", "backup", "search-index",
            "info", "report", "verify", "salvage", "frames", "demo", "completion", "help",
        ] {
            let words = name.split(separator: " ").map(String.init)
            text += "\n$ annals help \(name)\n" + (try runTool(["help"] + words).output)
        }
        let golden = PackageFolder.url("Tests/AnnalsTests/Golden/help.txt")
        if ProcessInfo.processInfo.environment["ANNALS_WRITE_GOLDEN"] == "1" { try Data(text.utf8).write(to: golden) }
        #expect(try String(contentsOf: golden, encoding: .utf8) == text)
    }

    /// A name that occurs twice is found among a few names and among many.
    @Test(arguments: [2, 16, 17, 18, 40]) func aNameThatOccursTwiceIsAnError(count: Int) throws {
        let names = (1..<count).map { "\"n\($0)\":\($0)" }
        #expect(try load("{" + names.joined(separator: ",") + "}\n").status == 0)
        for name in ["n1", "n\(count - 1)"] {
            let run = try load("{" + names.joined(separator: ",") + ",\"\(name)\":0}\n")
            #expect(run.status == 1 && run.errors.contains("the name “\(name)” occurs twice"), "\(run)")
        }
    }

    /// Names are told apart by their bytes, as the store does.
    @Test func namesInOtherFormsOfUnicodeAreDifferentNames() throws {
        let (one, other) = ("\u{e9}", "e\u{301}")
        _ = try load("{\"k\":1,\"\(one)\":10,\"\(other)\":20}\n", "--key", "k")
        _ = try load("{\"k\":2,\"\(one)\":\"x\",\"\(other)\":\"y\"}\n", "--key", "k", "--widen")
        #expect(try runTool(["insert", store, "Item", "k=3", "\(one)=1", "\(other)=2"]).status == 0)
        #expect(try runTool(["set", store, "Item", "2", "\(one)=3", "\(other)=4"]).status == 0)
        let lines = try dump("--bare").split(separator: "\n")
        let expected = [("1", "10", "20"), ("2", "3", "4"), ("3", "1", "2")].map { key, first, second in
            "{\"k\":\(key),\"\(one)\":\(first),\"\(other)\":\(second)}"
        }
        #expect(lines.count == 3 && zip(lines, expected).allSatisfy { $0.utf8.elementsEqual($1.utf8) }, "\(lines)")
        try folder.expectIntact()
    }

    @Test func aKeyThatIsWidenedFindsItsObjects() throws {
        _ = try load("{\"k\":1,\"n\":\"a\"}\n{\"k\":2.5,\"n\":\"b\"}\n", "--key", "k")
        let wider = "{\"k\":1,\"n\":\"a\"}\n{\"k\":2.5,\"n\":\"b\"}\n{\"k\":\"x\",\"n\":\"c\"}\n"
        let run = try load(wider, "--key", "k", "--prune", "--widen")
        #expect(run.output.hasPrefix("1 inserted, 0 updated, 0 deleted, 2 unchanged"), "\(run.output)")
        #expect(try dump("--bare") == wider)
        try folder.expectIntact()
    }

    /// A transaction of more than half a MiB takes no second change of an object.
    @Test func aKeyMayAppearTwiceInALargeBatch() throws {
        let text = String(repeating: "x", count: 3000)
        let keys = Array(0..<300) + [0, 1, 1]
        let lines = keys.enumerated().map { "{\"k\":\($1),\"v\":\"\($0) \(text)\"}\n" }.joined()
        let run = try loadFile(lines, "--key", "k")
        #expect(run.output.hasPrefix("300 inserted, 3 updated, 0 deleted, 0 unchanged"), "\(run)")
        #expect(try dump("--bare").contains("\"k\":1,\"v\":\"302 "))
        #expect(try dump("--bare").contains("\"k\":0,\"v\":\"300 "))
        try folder.expectIntact()
    }

    @Test(arguments: ["", String(repeating: "n", count: 256)]) func aBadNameIsReportedWithItsLine(name: String) throws {
        let lines = "{\"k\":1}\n{\"k\":2}\n{\"k\":3,\"\(name)\":1}\n"
        let run = try loadFile(lines, "--batch", "1")
        #expect(run.status == 1 && run.errors.contains("Line 3 "), "\(run)")
        #expect(try dump("--bare") == "{\"k\":1}\n{\"k\":2}\n")
        try folder.expectIntact()
    }

    /// What an attribute was before it was widened is no value of it any more.
    @Test func revertingAWidenedAttributeIsReported() throws {
        for line in ["{\"k\":1,\"v\":1,\"w\":1}", "{\"k\":1,\"v\":2,\"w\":2}"] { _ = try load(line, "--key", "k") }
        let change = try runTool(["history", store, "--limit", "1", "--reverse", "--format", "jsonl"]).output
        #expect(try runTool(["delete", store, "Item", "1"]).status == 0)
        _ = try load("{\"k\":2,\"v\":\"x\"}", "--key", "k", "--widen")
        let number = try #require(
            change.split(separator: ",").first.flatMap { Int($0.filter(\.isNumber)) })
        let deleted = try runTool(["revert", store, "\(number + 1)"])
        #expect(deleted.status == 1 && deleted.output.contains("the attribute of v has another type"), "\(deleted)")
        #expect(try dump("--bare") == "{\"k\":2,\"v\":\"x\",\"w\":null}\n")
        let skipped = try runTool(["revert", store, "\(number + 1)", "--skip"])
        #expect(skipped.status == 1 && skipped.output.contains("A1."), "\(skipped)")
        #expect(try dump("--bare").hasPrefix("{\"k\":1,\"v\":null,\"w\":2}\n"))
        let updated = try runTool(["revert", store, "\(number)"])
        #expect(updated.status == 1 && updated.output.contains("the attribute of v has another type"), "\(updated)")
        // History by the name has what came before, too.
        let found = try runTool(["history", store, "--attribute", "Item.v", "--format", "jsonl"]).output
        #expect(found.contains("{\"number\":\(number),"), "\(found)")
        try folder.expectIntact()
    }

    @Test func noStoreIsLeftIfNoLineIsLoaded() throws {
        for text in ["", "\n\n"] {
            for run in [try load(text), try loadFile(text), try load(text, "--key", "k", "--prune")] {
                #expect(run.status == 0 && run.output.hasPrefix("0 inserted, 0 updated, 0 deleted, 0 unchanged in 0 "))
                #expect(folder.temporary.names == [])
            }
        }
        // The first line has no key; the second batch is not there when the first has failed.
        for run in [try load("{\"n\":1}\n", "--key", "k"), try loadFile("{\"n\":1}\n{\"k\":1}", "--key", "k")] {
            #expect(run.status == 1 && run.errors.contains("Line 1 of "), "\(run)")
            #expect(folder.temporary.names == [])
        }
        let unnamed = try runTool(["load", store, "-", "--entity", ""], input: "{\"n\":1}\n")
        #expect(unnamed.status != 0 && folder.temporary.names == [])
        // What came in before stays, and so does a store that was there.
        #expect(try load("{\"k\":1}\n{\"n\":1}\n", "--key", "k", "--batch", "1").status == 1)
        #expect(try dump("--bare") == "{\"k\":1}\n")
        #expect(try load("{\"n\":1}\n", "--key", "k").status == 1)
        #expect(try dump("--bare") == "{\"k\":1}\n")
        try folder.expectIntact()
    }

    @Test func anEmptyFilePrunesNothingWithoutTheOption() throws {
        let lines = "{\"k\":1}\n{\"k\":2}\n"
        #expect(try load(lines, "--key", "k").status == 0)
        let token = try runTool(["info", store]).output
        for run in [
            try load("", "--key", "k", "--prune"), try load("\n \n", "--key", "k", "--prune"),
            try loadFile("", "--key", "k", "--prune"), try loadFile("\n", "--key", "k", "--prune", "--batch", "1"),
        ] {
            #expect(run.status == 1 && run.output == "")
            #expect(run.errors.contains("would delete all 2 of “Item”") && run.errors.contains("“--allow-empty”"))
        }
        #expect(try runTool(["info", store]).output == token)
        #expect(try load("", "--allow-empty").status == 64)
        #expect(
            try load("", "--key", "k", "--prune", "--allow-empty").output.hasPrefix("0 inserted, 0 updated, 2 deleted"))
        #expect(try dump() == "")
        // If there is nothing to delete there is nothing to refuse.
        #expect(try load("", "--key", "k", "--prune").status == 0)
        try folder.expectIntact()
    }

    @Test func aNumberThatIsNoDoubleKeepsItsText() throws {
        #expect(try load("{\"x\":1e-500}\n{\"x\":1e400}\n{\"x\":0.5}\n{\"x\":0e-500}\n").status == 0)
        #expect(try dump("--bare") == "{\"x\":1e-500}\n{\"x\":1e400}\n{\"x\":0.5}\n{\"x\":0.0}\n")
        // What is a double already is not made one of another value.
        #expect(try runTool(["load", store, "-", "--entity", "Other"], input: "{\"x\":0.5}").status == 0)
        #expect(try runTool(["insert", store, "Other", "x=1e-500"]).errors.contains("double"))
        try folder.expectIntact()
    }

    @Test func aBatchThatCannotBeCommittedIsNamed() throws {
        #expect(try load("{\"k\":3}\n", "--key", "k").status == 0)
        let run = try load("{\"k\":1}\n\n{\"k\":2}\n{\"k\":3}\n{\"k\":4}\n{\"k\":5}\n", "--batch", "2")
        #expect(run.status == 1 && run.errors.contains("Nothing of lines 4 to 5 of standard input was written: "))
        #expect(run.errors.contains("In the batches before them, 2 objects were inserted and 0 updated."))
        #expect(try dump("--bare") == "{\"k\":3}\n{\"k\":1}\n{\"k\":2}\n")
        try folder.expectIntact()
    }

    /// A batch finds what it has inserted itself as the index finds what was there before.
    @Test(arguments: ["1", "1000"]) func keysAreTheSameWhateverABatchHas(batch: String) throws {
        let lines = """
            {"k":0.0,"n":1}
            {"k":-0.0,"n":2}
            {"k":0,"n":3}
            {"k":0.5,"n":4}

            """
        let run = try loadFile(lines, "--key", "k", "--batch", batch)
        #expect(run.status == 0 && run.output.hasPrefix("2 inserted, 2 updated"), "\(run)")
        #expect(try dump("--bare") == "{\"k\":0.0,\"n\":3}\n{\"k\":0.5,\"n\":4}\n")
        try folder.expectIntact()
    }
}
