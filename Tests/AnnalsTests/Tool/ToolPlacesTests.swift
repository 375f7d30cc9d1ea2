// Words of the command line: places in history, ages and sizes, labels of objects, texts without quotes.

import Annals
import FoundationEssentials
import TestSupport
import Testing
import annals

@Suite struct ToolPlacesTests {
    private let folder: StoreFolder
    private var path: String { folder.path }

    init() throws {
        folder = try StoreFolder()
        let package = EntityDescription(
            "Package",
            attributes: [
                AttributeDescription("version", .string), AttributeDescription("name", .string, isUnique: true),
                AttributeDescription("size", .int), AttributeDescription("changed", .date),
                AttributeDescription("needs", .object, target: "Package", whenTargetIsDeleted: .nullify),
            ])
        let tag = EntityDescription("Tag", attributes: [AttributeDescription("name", .string, isUnique: true)])
        let store = try folder.open([package, tag])
        for (name, version) in [("swift", "6.3"), ("k 1", "1.20"), ("it's", "true"), ("7", "007"), ("linux", "a/b@c")] {
            try store.write(author: "app") {
                try $0.insert("Package", ["name": .string(name), "version": .string(version), "size": 1])
            }
        }
        try store.write { try $0.insert("Tag", ["name": "linux"]) }
        try store.close()
    }

    // MARK: Places

    private static let now: Int64 = 1_767_323_045_000_006  // 2026-01-02T03:04:05.000006Z

    @Test(
        arguments: [
            ("7", .number(7)), ("0", .number(0)), ("-1", .back(1)), ("-0", .back(0)), ("now", .back(0)),
            ("2h", .moment(now - 7_200_000_000)), ("-1h", .moment(now - 3_600_000_000)),
            ("90s", .moment(now - 90_000_000)),
            ("5min", .moment(now - 300_000_000)), ("5m", .moment(now - 300_000_000)),
            ("30d", .moment(now - 2_592_000_000_000)), ("1w", .moment(now - 604_800_000_000)),
            ("2026-01-02T03:04:05Z", .moment(1_767_323_045_000_000)),
            ("2026-01-02 03:04:05.5+01:00", .moment(1_767_319_445_500_000)),
            ("", nil), ("-", nil), ("--1", nil), ("1.5h", nil), ("h", nil), ("+1", nil), ("2y", nil), ("tomorrow", nil),
            ("-2026-01-02", nil), ("18446744073709551616", nil), ("99999999999999999999d", nil),
            ("9223372036854775807s", nil),
        ] as [(String, HistoryPlace?)])
    func placesAreReadAsPeopleSayThem(text: String, place: HistoryPlace?) {
        #expect(HistoryPlace.short(text, now: Self.now) == place)
    }

    /// Days and times without a zone are local.
    @Test(arguments: [("UTC", 0), ("Asia/Kolkata", 5.5), ("<-03>3", -3)] as [(String, Double)])
    func daysAreLocal(zone: String, hours: Double) throws {
        func line(_ place: String) throws -> String {
            try runTool(["history", path, "--after", place, "--count"], environment: ["TZ": zone]).output
        }
        // All was committed just now.
        #expect(try line("now") == "0\n" && line("1min") == "7\n" && line("-1") == "1\n" && line("-7") == "7\n")
        let shifted = Date.now.addingTimeInterval(hours * 3600)
        let day = shifted.formatted(.iso8601.year().month().day())
        let minute = shifted.addingTimeInterval(-120).formatted(
            .iso8601.year().month().day().time(includingFractionalSeconds: false))
        #expect(try line(minute.replacing("Z", with: "")) == "7\n")
        let midnight = try runTool(["history", path, "--before", "today", "--count"], environment: ["TZ": zone]).output
        let dated = try runTool(["history", path, "--before", day, "--count"], environment: ["TZ": zone]).output
        #expect(midnight == dated)
        let shown = try runTool(["history", path, "--format", "text", "--limit", "1"], environment: ["TZ": zone]).output
        let time = try #require(shown.firstMatch(of: /\d{4}-\d\d-\d\d \d\d:\d\d/)).output
        let (earlier, later) = (shifted.addingTimeInterval(-60), shifted.addingTimeInterval(60))
        let format = Date.ISO8601FormatStyle.iso8601.year().month().day().time(includingFractionalSeconds: false)
        let range =
            (earlier.formatted(format).replacing("T", with: " ")...later.formatted(format).replacing("T", with: " "))
        #expect(range.contains(String(time)), "\(time) in \(range)")
    }

    /// Each command that takes a place takes all forms of it.
    @Test(arguments: [
        ["history", "STORE", "--after", "PLACE"], ["history", "STORE", "--before", "PLACE"],
        ["find", "STORE", "Package", "--as-of", "PLACE"], ["dump", "STORE", "--as-of", "PLACE"],
        ["export", "STORE", "--after", "PLACE"], ["clean", "STORE", "--before", "PLACE", "--dry-run"],
        ["restore", "STORE", "--to", "PLACE", "--dry-run"],
        ["consumers", "STORE", "PLACE", "--register", "x"], ["consumers", "STORE", "PLACE", "--advance", "x"],
    ])
    func everyCommandTakesEveryPlace(command: [String]) throws {
        _ = try runTool(["consumers", path, "--register", "x"])
        let token = try folder.open().currentToken
        for place in ["7", "-1", "now", "\(token)", "today", "yesterday", "1h", "2030-01-01"] {
            let arguments = command.map { $0 == "STORE" ? path : $0 == "PLACE" ? place : $0 }
            let run = try runTool(arguments)
            #expect(run.status == 0, "\(arguments) \(run.errors)")
        }
        for place in ["-99", "soon"] {
            let run = try runTool(command.map { $0 == "STORE" ? path : $0 == "PLACE" ? place : $0 })
            #expect(run.status == (place == "soon" ? 64 : 1) && run.output == "", "\(command)")
        }
    }

    // MARK: Units

    @Test func agesAndSizes() {
        for (text, seconds) in [
            ("30d", 2_592_000), ("1w", 604_800), ("0s", 0), ("5m", 300), ("5min", 300), ("2h", 7200), ("", nil),
            ("d", nil), ("1.5d", nil), ("-1d", nil), ("+1d", nil), ("9223372036854775807w", nil), ("1 d", nil),
        ] as [(String, Int64?)] { #expect(Unit.seconds(text) == seconds, "\(text)") }
        for (text, bytes) in [
            ("10MB", 10_000_000), ("1GiB", 1 << 30), ("64KiB", 65_536), ("2kB", 2000), ("5000", 5000), ("7B", 7),
            ("1TB", 1_000_000_000_000), ("", nil), ("MB", nil), ("1.5MB", nil), ("-1", nil), ("1mb", nil),
            ("99999999999TB", nil),
        ] as [(String, UInt64?)] { #expect(Unit.bytes(text) == bytes, "\(text)") }
    }

    @Test func widthsAreThoseOfTerminals() {
        for (text, width) in [
            ("", 0), ("abc", 3), ("é", 1), ("e\u{301}", 1), ("東京", 4), ("ｱ", 1), ("Ａ", 2), ("👍", 2), ("한글", 4),
        ] { #expect(Terminal.width(of: text) == width, "\(text)") }
        #expect(Terminal.cut("abcdef", to: 6) == "abcdef" && Terminal.cut("abcdef", to: 4) == "abc…")
        #expect(Terminal.cut("東京都庁", to: 6) == "東京…" && Terminal.cut("e\u{301}e\u{301}e\u{301}", to: 2) == "e\u{301}…")
    }

    // MARK: Labels

    @Test func objectsAreNamedByTheirLabels() throws {
        func get(_ label: String) throws -> (Int32?, String) {
            let run = try runTool(["get", path, "Package", label])
            return (run.status, String(run.output.prefix(33) + run.errors))
        }
        #expect(try get("swift") == (0, "{\"_entity\":\"Package\",\"_id\":\"1:1\","))
        #expect(try get("k 1") == (0, "{\"_entity\":\"Package\",\"_id\":\"1:2\","))
        // A number is a label if no object has that ID, and nothing if another one has.
        #expect(try get("7") == (0, "{\"_entity\":\"Package\",\"_id\":\"1:4\",") && get("4") == get("7"))
        #expect(try runTool(["insert", path, "Package", "name=3"]).status == 0)
        let both = try get("3")
        #expect(both.0 == 1 && both.1.contains("“3” is the ID of 1:3 and the label of 1:6: use 1:3 or 1:6."), "\(both)")
        #expect(try get("1:6").0 == 0)
        let missing = try get("swif")
        #expect(missing.0 == 1 && missing.1.contains("“Package” has no object whose name is “swif”"))
        #expect(try runTool(["set", path, "Package", "it's", "size=9", "needs=\"1:1\""]).status == 0)
        #expect(try runTool(["delete", path, "Package", "k 1"]).status == 0)
        let versions = try runTool(["versions", path, "Package", "it's", "--format", "text"]).output
        #expect(
            versions.contains("update Package it's (1:3)  size   1     9") && versions.contains("null  swift (1:1)"))
        #expect(try runTool(["history", path, "--id", "swift", "--count"]).output == "1\n")
        let several = try runTool(["history", path, "--id", "linux", "--count"])
        #expect(several.status == 1 && several.errors.contains("Several objects have the label “linux”: 1:5, 2:1."))
        #expect(try runTool(["history", path, "--id", "nobody", "--count"]).status == 64)
        let table = try runTool(["find", path, "Package", "--where", "size=9", "--format", "table"]).output
        #expect(table.contains("swift (1:1)"))
        try folder.expectIntact()
    }

    // MARK: Conditions

    @Test(arguments: [
        ("name=swift", "1"), ("name==swift", "1"), ("name = 'k 1'", "2"), ("name='it\\'s'", "3"),
        ("name=\"it's\"", "3"),
        ("version=1.20", "2"), ("version=1.2", ""), ("version=true", "3"), ("version=007", "4"), ("version=a/b@c", "5"),
        ("name in (swift, 'k 1', \"linux\")", "1 2 5"), ("name starts with sw or name=linux", "1 5"),
        ("needs.name=swift", ""), ("name=7", "4"), ("size==1 and not name=swift", "2 3 4 5"),
        ("changed<2026-01-02", ""),
        ("name='a\\\\b'", ""), ("name=''", ""), ("needs=1:1", ""), ("name='null'", ""), ("name='and'", ""),
    ])
    func textsNeedNoSecondQuoting(condition: String, expected: String) throws {
        let run = try runTool(["find", path, "Package", "--where", condition])
        let found = run.output.matches(of: /"_id":"1:(\d+)"/).map { String($0.output.1) }.sorted().joined(
            separator: " ")
        #expect(run.status == 0 && found == expected, "\(run.errors)")
    }

    @Test(arguments: [
        "name=", "name='open", "name=\"open", "name=null", "name=and", "name=a b", "name=(a)", "name=a,b", "size=x",
        "name===a", "name='a'b", "=a", "name in ()", "name in (a", "name=\"\\x\"",
    ])
    func mistakesInConditionsAreNamed(condition: String) throws {
        let run = try runTool(["find", path, "Package", "--where", condition])
        #expect(run.status == (condition == "size=x" ? 1 : 64) && run.output == "" && run.errors.hasPrefix("annals: "))
    }
}

// MARK: Mistakes

extension ToolPlacesTests {
    @Test(arguments: [
        (["histroy"], "Did you mean history?"), (["fnd"], "Did you mean find?"), (["dumpp"], "Did you mean dump?"),
        (["schemas"], "Did you mean schema?"), (["help", "verfy"], "Did you mean verify?"),
        (["history", "x", "--afer", "1"], "Did you mean --after?"), (["find", "x", "y", "--limt=2"], "--limit?"),
        (["history", "x", "--folow"], "Did you mean --follow?"),
    ])
    func mistypedNamesHaveASuggestion(arguments: [String], words: String) throws {
        let run = try runTool(arguments)
        #expect(run.status == 64 && run.output == "" && run.errors.contains(words), "\(run.errors)")
    }

    @Test(arguments: [["xyzzy"], [String(repeating: "h", count: 5000)], ["", "x"], ["find", "x", "y", "--zz"]])
    func otherNamesHaveNone(arguments: [String]) throws {
        let run = try runTool(arguments)
        #expect(run.status == 64 && !run.errors.contains("Did you mean"), "\(run.errors.prefix(200))")
    }

    // MARK: Values

    @Test func valuesNeedNoSecondQuoting() throws {
        for (assignment, shown) in [
            ("version=1.20", "\"version\":\"1.20\""), ("version=a b", "\"version\":\"a b\""),
            ("version=a=b", "\"version\":\"a=b\""), ("version=\"q\"", "\"version\":\"q\""),
            ("version=\"open", "\"version\":\"\\\"open\""), ("version=null", "\"version\":null"),
            ("version=\"null\"", "\"version\":\"null\""), ("version=", "\"version\":\"\""), ("size=7", "\"size\":7"),
            ("changed=2026-01-02", "\"changed\":\"2026-01-02T00:00:00.000000Z\""), ("needs=linux", "\"needs\":\"1:5\""),
            ("needs=1:2", "\"needs\":\"1:2\""), ("needs=\"linux\"", "\"needs\":\"1:5\""),
            ("needs=k 1", "\"needs\":\"1:2\""), ("needs=null", "\"needs\":null"),
        ] {
            let run = try runTool(["set", folder.path, "Package", "swift", assignment])
            #expect(run.status == 0, "\(assignment) \(run.errors)")
            #expect(try runTool(["get", folder.path, "Package", "swift"]).output.contains(shown), "\(assignment)")
        }
        for (assignment, status) in [
            ("size=x", 1), ("size=", 1), ("changed=soon", 1), ("needs=nobody", 1), ("nothing=1", 1), ("size", 64),
            ("=1", 64),
        ] as [(String, Int32)] {
            let run = try runTool(["set", folder.path, "Package", "swift", assignment])
            #expect(run.status == status && run.output == "" && run.errors.hasPrefix("annals: "), "\(assignment)")
        }
        #expect(try runTool(["get", folder.path, "Package", "--key", "name=swift"]).status == 0)
        try folder.expectIntact()
    }
}
