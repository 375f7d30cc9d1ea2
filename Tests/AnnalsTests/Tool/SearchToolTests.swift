// `annals find --text` and `annals search-index`, from outside: with an index and without one they find the same.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SearchToolTests {
    private let folder: StoreFolder

    init() throws {
        folder = try StoreFolder()
        let note = EntityDescription(
            "Note",
            attributes: [
                AttributeDescription("title", .string), AttributeDescription("rank", .int),
                AttributeDescription("text", .string),
            ])
        let store = try folder.open([
            note, EntityDescription("Count", attributes: [AttributeDescription("n", .int)]),
        ])
        let notes: [(String, Int64, Value)] = [
            ("Swift on Linux", 3, "Foundation runs everywhere."), ("Birds", 1, "A swift sleeps in the air."),
            ("Groceries", 5, "Bread, and a linen bag for the swift courier."), ("Caf\u{e9}", 4, .null),
        ]
        try store.write { transaction in
            for (title, rank, text) in notes {
                try transaction.insert("Note", ["title": .string(title), "rank": .int(rank), "text": text])
            }
        }
        try store.close()
    }

    private func lines(_ arguments: [String]) throws -> [String] {
        let run = try runTool(arguments)
        #expect(run.status == 0 && run.errors == "", "\(arguments): \(run)")
        return run.output.split(separator: "\n").map(String.init)
    }

    private func found(_ text: String, _ arguments: String...) throws -> [String] {
        let all = ["find", folder.path, "Note", "--text", text, "--columns", "title", "--format", "csv", "--bare"]
        return try Array(lines(all + arguments).dropFirst())
    }

    private func index(_ arguments: String...) throws -> [String] {
        try lines(["search-index", folder.path] + arguments)
    }

    // MARK: Finding

    /// In texts of equal weight a search finds the same with the index, without it, and with a part of the objects in
    /// it.
    @Test func wordsFindTheSameObjectsWithAnIndexAndWithout() throws {
        func check() throws {
            #expect(try found("swift lin") == ["Groceries", "Swift on Linux"])
            #expect(try Set(found("swift")) == ["Birds", "Groceries", "Swift on Linux"])
            #expect(try found("\"the swift courier\"") == ["Groceries"])
            #expect(try found("swift -bread -linux") == ["Birds"])
            #expect(try found("CAFE") == ["Café"] && found("cafe\u{301}") == ["Café"])
            for nothing in ["", " ", "!", "-", "\"", "bread everywhere", "\u{1b}[31m\u{7}\u{202E}"] {
                #expect(try found(nothing) == [], "\(nothing)")
            }
            // With what `find` has besides.
            #expect(try found("swift", "--where", "rank >= 3", "--sort", "-rank") == ["Groceries", "Swift on Linux"])
            #expect(try found("swift", "--sort", "title", "--offset", "1", "--limit", "1") == ["Groceries"])
            #expect(try found("swift", "--limit", "0") == [])
            let all = try found("swift")
            #expect(try found("swift", "--offset", "1", "--limit", "1") == [all[1]])
            #expect(try found("swift", "--offset", "9") == [])
            let count = ["find", folder.path, "Note", "--text", "swift", "--count"]
            #expect(try lines(count) == ["3"] && lines(count + ["--limit", "2"]) == ["2"])
            #expect(try lines(count + ["--offset", "2", "--where", "rank > 2"]) == ["0"])
        }
        try check()
        _ = try index("--add", "Note", "text", "title")
        try check()
        try #require(try runTool(["set", folder.path, "Note", "2", "rank=2"]).status == 0)
        try check()
        try folder.expectIntact()
    }

    @Test func theIndexDecidesWhichTextsCount() throws {
        _ = try index("--add", "Note", "title:20", "text:0.5")
        #expect(try found("swift").first == "Swift on Linux")
        _ = try index("--remove", "Note")
        _ = try index("--add", "Note", "text")
        #expect(try found("linux") == [] && found("linen") == ["Groceries"])
        // Also in a state of the past, which has no index.
        #expect(try found("linux", "--as-of", "2") == [] && found("linen", "--as-of", "2") == ["Groceries"])
        // Others stay searched.
        _ = try index("--add", "Note", "title:3")
        #expect(try found("linux") == ["Swift on Linux"] && found("linen") == ["Groceries"])
        #expect(try index()[0].hasPrefix(#"{"entity":"Note","weights":{"text":1.0,"title":3.0},"#))
        try folder.expectIntact()
    }

    @Test func aTerminalShowsMatchesAsFindDoes() throws {
        _ = try runTool(["insert", folder.path, "Note", "title=\"Swift \u{1b}[31m\"", "text=\"\u{7}\""])
        let find = ["find", folder.path, "Note", "--text"]
        let plain = ["PAGER": "cat", "NO_COLOR": "1"]
        let run = try runOnTerminal(find + ["linux swift"], columns: 80, environment: plain)
        #expect(run.status == 0 && run.output.hasPrefix(" id  title"), "\(run)")
        #expect(run.output.split(separator: "\n").count == 2, "\(run)")
        let odd = try runOnTerminal(find + ["31m"], columns: 80, environment: plain)
        #expect(odd.output.contains("Swift \\u{1b}[31m") && odd.output.contains("\\u{7}"), "\(odd)")
        try folder.expectIntact()
    }

    // MARK: The index

    @Test func theStatusShowsWhatIsIndexed() throws {
        #expect(try index() == [])
        #expect(try index("--format", "text") == ["No entity has a search index. To add one: annals help search-index"])
        let added = try index("--add", "Note", "title:3", "text", "--format", "text")
        #expect(added.count == 2 && added[0].hasPrefix("entity  texts"), "\(added)")
        #expect(added[1].contains(#/^Note +text title:3 +4 +0 +24 +1 +[0-9]+$/#), "\(added)")
        try #require(try runTool(["insert", folder.path, "Note", "title=New"]).status == 0)
        try #require(try runTool(["set", folder.path, "Note", "1", "text=null"]).status == 0)
        #expect(try index()[0].contains(#""notIndexed":2,"#))
        #expect(try index("--update")[0].contains(#""indexed":5,"notIndexed":0,"words":22,"#))
        #expect(try index("--rebuild", "Note")[0].contains(#""notIndexed":0,"words":22,"segments":1,"#))
        #expect(try index("--remove", "Note") == [])
        // Cleaning does not wait for an index that is gone.
        #expect(try lines(["consumers", folder.path]) == [])
        #expect(try found("new") == ["New"])
        try folder.expectIntact()
    }

    @Test func wordsAreCountedByTheirObjects() throws {
        _ = try index("--add", "Note", "title", "text")
        try #require(try runTool(["set", folder.path, "Note", "1", "text=\"swift Swift\""]).status == 0)
        let words = ["--words", "Note", "--limit", "3"]
        // The changed object is not indexed.
        let before = try lines(["search-index", folder.path] + words)
        #expect(before == ["a", "swift", "the"].map { #"{"term":"\#($0)","objects":2}"# })
        _ = try index("--update")
        // An object counts once, with the word in two attributes of one segment, and all segments count.
        let after = try lines(["search-index", folder.path] + words + ["--format", "text"])
        #expect(after == ["word   objects", "swift        3", "a            2", "the          2"])
        #expect(try index("--words", "Note", "--limit", "99").count == 17)
        #expect(try index("--words", "Note", "--limit", "0") == [])
        #expect(try index("--words", "Note", "--limit", "\(UInt64.max)").count == 17)
        try folder.expectIntact()
    }

    @Test func termsAreThoseOfATextInOrder() throws {
        let terms = try lines(["search-index", "--format", "text", "--terms", "Die Straße, 東京都\u{1b}[7m x-ray é!"])
        #expect(terms == ["die", "strasse", "東京", "京都", "都", "7m", "x", "ray", "e"])
        #expect(try lines(["search-index", "--terms", "Ä b"]) == [#"{"term":"a"}"#, #"{"term":"b"}"#])
        #expect(try lines(["search-index", "--terms", ""]) == [])
    }

    @Test func oddNamesAreSearched() throws {
        let temporary = try StoreFolder()
        let names = ["a:b", "title:3", "-x", "\u{1b}[2J", "e\u{301}", ":", "NOT"]
        for name in ["E:\u{7}", "Ä"] {
            let store = try temporary.open([
                EntityDescription(name, attributes: names.map { AttributeDescription($0, .string) })
            ])
            let values = names.enumerated().map { ($1, Value.string("word\($0)")) }
            try store.write { try $0.insert(name, Dictionary(uniqueKeysWithValues: values)) }
            try store.close()
            let added = try runTool(["search-index", "--add", name, "--format", "text", "--", temporary.path] + names)
            #expect(added.status == 0 && added.output.utf8.allSatisfy { $0 >= 0x20 || $0 == 10 }, "\(added)")
            let weighted = try runTool(["search-index", temporary.path, "--add", name, "a:b:7", "title:3:2"])
            #expect(weighted.output.contains(#""a:b":7.0,"title:3":2.0,"e\#u{301}":1.0}"#), "\(weighted)")
            for number in names.indices {
                let found = try lines(["find", temporary.path, name, "--text", "WORD\(number)", "--count"])
                #expect(found == ["1"], "\(names[number])")
            }
        }
        #expect(try runTool(["verify", temporary.path]).status == 0)
        try temporary.expectIntact()
    }

    @Test func verifyingReadsTheIndex() throws {
        _ = try index("--add", "Note", "title", "text")
        try #require(try runTool(["delete", folder.path, "Note", "1"]).status == 0)
        let run = try runTool(["verify", folder.path])
        #expect(run.status == 0 && run.output.hasPrefix("\(folder.path): intact\n"), "\(run)")
        #expect(try lines(["verify", folder.path, "--format", "json"])[0].hasSuffix(#","searchIndexFaults":[]}"#))
        try folder.expectIntact()
    }

    /// Until the next update, the index has the words of an attribute that the entity has no longer.
    @Test func aRemovedAttributeIsNoFault() throws {
        _ = try index("--add", "Note", "title", "text")
        let store = try Store(at: folder.path)
        try store.changeSchema([
            .removeAttribute("title", from: "Note"), .renameAttribute("text", of: "Note", to: "body"),
        ])
        try store.close()
        for _ in 0..<2 {
            let run = try runTool(["verify", folder.path])
            #expect(run.status == 0 && run.output.hasPrefix("\(folder.path): intact\n"), "\(run)")
            let find = ["find", folder.path, "Note", "--count", "--text"]
            #expect(try lines(find + ["linux"]) == ["0"] && lines(find + ["linen"]) == ["1"])
            #expect(try index("--update")[0].hasPrefix(#"{"entity":"Note","weights":{"body":1.0},"indexed":4,"#))
        }
        try folder.expectIntact()
    }

    @Test func verifyingFindsAWrongIndexAndRebuildingRepairsIt() throws {
        _ = try index("--add", "Note", "title", "text")
        let engine = try Engine.open(folder.path, files: RealFileSystem(), environment: RealEnvironment())
        let number = try #require(try engine.view().catalog.number(ofEntity: "_annals.searchBlocks"))
        _ = try engine.write { try $0.delete(try #require(ObjectID(entityNumber: number, number: 1))) }
        try engine.close()
        let run = try runTool(["verify", folder.path])
        #expect(run.status == 65 && run.output.contains("intact, but a search index is wrong\n"), "\(run)")
        #expect(run.output.contains("  search index: The search index of “Note”: "), "\(run)")
        #expect(run.output.contains("`annals search-index STORE --rebuild Note`"), "\(run)")
        let json = try runTool(["verify", folder.path, "--format", "json"])
        #expect(json.status == 65 && json.output.contains(#""searchIndexFaults":[{"entity":"Note","object":null,"#))
        let find = try runTool(["find", folder.path, "Note", "--text", "swift"])
        #expect(find.status == 65 && find.errors.contains("--rebuild"), "\(find)")
        _ = try index("--rebuild", "Note")
        #expect(try runTool(["verify", folder.path]).status == 0 && found("linen") == ["Groceries"])
        try folder.expectIntact()
    }

    // MARK: Mistakes

    @Test func wrongInvocationsChangeNothing() throws {
        let path = folder.path
        let (find, index) = (["find", path], ["search-index", path])
        for (arguments, status, message) in [
            (find + ["Note", "--text", "a", "--explain"], 64, "be given together"),
            (find + ["Note", "--text"], 64, "needs a value"), (find + ["Count", "--text", "a"], 64, "no texts"),
            (find + ["Nte", "--text", "a"], 1, "“Nte”"), (find + ["Note", "--text", "a", "--sort", "x"], 1, "“x”"),
            (["search-index"], 64, "needs STORE"), (index + ["--terms", "a"], 64, "no STORE"),
            (index + ["title"], 64, "--add"), (index + ["--update", "Note"], 64, "“Note” needs --add"),
            (index + ["--add", "Note"], 64, "needs the NAME"), (index + ["--limit", "3"], 64, "--words"),
            (index + ["--add", "Note", "title", "--update"], 64, "be given together"),
            (index + ["--add", "Note", "title:many"], 64, "no number"),
            (index + ["--add", "Note", "rank"], 1, "no text"), (index + ["--add", "Note", "title:0"], 64, "above 0"),
            (index + ["--add", "Note", "title:nan"], 64, "above 0"),
            (index + ["--add", "Note", "title:1e9"], 64, "above 0"),
            (index + ["--add", "Note", "titel"], 1, "“titel”"),
            (index + ["--add", "Note", ":3"], 1, "“:3”"), (index + ["--add", "Nte", "title"], 1, "“Nte”"),
            (index + ["--add", "Note", "title", "title:2"], 64, "given twice"),
            (index + ["--rebuild", "Note"], 1, "no search index"),
            (index + ["--remove", "Note"], 1, "no search index"),
            (index + ["--words", "Note"], 1, "no search index"), (index + ["--words", "Nte"], 1, "“Nte”"),
            (["search-index", path + "x"], 1, "no such file"),
        ] as [([String], Int32, String)] {
            let run = try runTool(arguments)
            #expect(run.status == status && run.errors.contains(message), "\(arguments): \(run)")
            #expect(run.output == "", "\(arguments): \(run)")
        }
        #expect(try lines(["history", path, "--count"]) == ["2"])
        try folder.expectIntact()
    }

    @Test func anIndexHasAtMost64Texts() throws {
        let temporary = try StoreFolder()
        let names = (0...64).map { "t\($0)" }
        let store = try temporary.open([
            EntityDescription("Wide", attributes: names.map { AttributeDescription($0, .string) })
        ])
        try store.write { try $0.insert("Wide", ["t0": "first", "t63": "last", "t64": "beyond"]) }
        try store.close()
        let wide = ["find", temporary.path, "Wide", "--count", "--text"]
        #expect(try lines(wide + ["last"]) == ["1"])
        #expect(try lines(["search-index", temporary.path, "--add", "Wide"] + names.dropFirst()).count == 1)
        #expect(try lines(wide + ["beyond"]) == ["1"] && lines(wide + ["first"]) == ["0"])
        let run = try runTool(["search-index", temporary.path, "--add", "Wide", "t0"])
        #expect(run.status == 64 && run.errors.contains("at most 64"), "\(run)")
        try temporary.expectIntact()
    }

    /// The index's own transactions come after the last change.
    @Test func aPlaceBackIsCountedWithoutTheStepsOfAnIndex() throws {
        _ = try index("--add", "Note", "title")
        _ = try lines(["insert", folder.path, "Note", "title=Coots"])
        _ = try index("--update")
        func difference() throws -> [String] {
            let run = try runTool(["diff", folder.path, "--from", "-1", "--format", "jsonl"])
            #expect(run.status == 1 && run.errors == "", "\(run)")
            return run.output.split(separator: "\n").map(String.init)
        }
        let last = try difference()
        #expect(last.count == 1 && last[0].contains("Coots"), "\(last)")
        _ = try lines(["compact", folder.path])
        #expect(try difference() == last)
    }
}
