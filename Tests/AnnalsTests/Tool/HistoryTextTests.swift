// History as people read it: lines, columns, colours, notes about gaps, places as people say them, labels.

import Annals
import FoundationEssentials
import TestSupport
import Testing
import annals

@Suite struct HistoryTextTests {
    private let folder: StoreFolder

    /// Seven transactions of three authors, one of them with many changes.
    init() throws {
        folder = try StoreFolder()
        let tag = EntityDescription("Tag", attributes: [AttributeDescription("name", .string, isUnique: true)])
        let note = EntityDescription(
            "Note",
            attributes: [
                AttributeDescription("text", .string), AttributeDescription("rank", .int),
                AttributeDescription("tag", .object, target: "Tag", whenTargetIsDeleted: .nullify),
            ])
        let store = try folder.open([tag, note])
        let swift = try store.write(author: "app") { try $0.insert("Tag", ["name": "swift"]) }.result
        let notes = try store.write(author: "import", contextName: "nightly") { transaction in
            try (1...1200).map { try transaction.insert("Note", ["text": .string("n\($0)"), "rank": 1]) }
        }.result
        try store.write(author: "app") { transaction in
            try transaction.update(notes[0], ["rank": 2, "tag": .object(swift)])
            try transaction.insert("Tag", ["name": "linux"])
        }
        try store.write { transaction in
            for note in notes[100..<105] { try transaction.update(note, ["rank": 5]) }
            for note in notes[200..<203] { try transaction.update(note, ["rank": 6]) }
        }
        try store.write(author: "app") { try $0.delete(notes[1]) }
        try store.write(author: "a\u{1b}[2J\u{202e}") { try $0.update(notes[0], ["text": "x\ny\u{7}"]) }
        try store.close()
    }

    private func history(_ arguments: String..., environment: [String: String] = [:]) throws -> [String] {
        let run = try runTool(
            ["history", folder.path, "--format", "text"] + arguments,
            environment: ["TZ": "UTC", "COLUMNS": ""].merging(environment) { $1 })
        #expect(run.status == 0, "\(arguments) \(run.errors)")
        return run.output.replacing(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/, with: "TIME").split(separator: "\n").map(
            String.init)
    }

    @Test func eachTransactionIsALine() throws {
        let lines = [
            #"7  TIME  a\u{1b}[2J\u{202e}  update 1 Note"#,
            #"6  TIME  app                 delete 1 Note"#,
            #"5  TIME  -                   update 8 Note"#,
            #"4  TIME  app                 insert 1 Tag; update 1 Note"#,
            #"3  TIME  import (nightly)    insert 1,200 Note"#,
            #"2  TIME  app                 insert 1 Tag"#,
            #"1  TIME  -                   changes the schema"#,
        ]
        let shown = try history()
        #expect(shown == lines, "\(shown.joined(separator: "\n"))")
        #expect(try history("--reverse") == shown.reversed())
        #expect(try history("--limit", "2", "--before", "6").map { $0.prefix(1) } == ["5", "4"])
        #expect(try history("--entity", "Tag").map { $0.suffix(12) } == ["insert 1 Tag", "insert 1 Tag"])
        try folder.expectIntact()
    }

    @Test func changesAreShownBeforeAndAfter() throws {
        #expect(
            try history("--after", "3", "--values", "--reverse") == [
                "4  TIME  app  insert 1 Tag; update 1 Note",
                "      update Note 2:1         rank  1     2",
                "                              tag   null  swift (1:1)",
                "      insert Tag linux (1:2)  name        \"linux\"",
                "5  TIME  -  update 8 Note",
                "      update 8 Note 2:101 to 2:203  rank",
                "6  TIME  app  delete 1 Note",
                "      delete Note 2:2  text  \"n2\"",
                "                       rank  1",
                #"7  TIME  a\u{1b}[2J\u{202e}  update 1 Note"#,
                #"      update Note 2:1  text  "n1"  "x\ny\u0007""#,
            ])
        // A run has more than three changes. With --all there are none.
        #expect(try history("--after", "4", "--before", "6", "--all").count == 9)
        #expect(
            try history("--before", "4", "--after", "2", "--values").last
                == "      insert 1,200 Note 2:1 to 2:1200")
        #expect(try history("--before", "4", "--after", "2", "--all").count == 1201)
    }

    @Test func coloursAreForTerminalsAndOnDemand() throws {
        let plain = try runTool(["history", folder.path, "--format", "text"]).output
        #expect(!plain.contains("\u{1b}"))
        let colored = try runTool(["history", folder.path, "--format", "text", "--color", "always"]).output
        #expect(colored.contains("\u{1b}[31mdelete\u{1b}[m 1 Note"))
        #expect(colored.replacing(/\u{1b}\[\d*m/, with: "") == plain)
        for (variables, hasColors) in [
            (["NO_COLOR": ""], true), (["NO_COLOR": "1"], false), (["TERM": "dumb"], false),
        ] {
            let environment = ["PAGER": "cat", "TERM": "xterm"].merging(variables) { $1 }
            let shown = try runOnTerminal(["history", folder.path], columns: 80, environment: environment)
            #expect(shown.status == 0 && shown.output.contains("\u{1b}[31m") == hasColors, "\(variables)")
            // No text of the store commands a terminal.
            #expect(!shown.output.contains("\u{1b}[2J") && !shown.output.contains("\u{202e}"))
        }
        #expect(try runTool(["history", folder.path, "--color", "red"]).status == 64)
    }

    /// The pager gets everything, and ends the tool without an error.
    @Test func longOutputGoesToThePager() throws {
        func shown(_ pager: String, _ arguments: String...) throws -> (status: Int32?, output: String) {
            try runOnTerminal(
                ["history", folder.path] + arguments, columns: 80,
                environment: ["PAGER": pager, "NO_COLOR": "1", "TZ": "UTC"])
        }
        let all = try shown("sed s/^/PAGER/")
        #expect(all.status == 0 && all.output.split(separator: "\n").allSatisfy { $0.hasPrefix("PAGER") })
        #expect(all.output.split(separator: "\n").count == 7)
        let first = try shown("head -n 1", "--all")
        #expect(first.status == 0 && first.output.split(separator: "\n").count == 1)
        let count = try shown("false", "--count")
        #expect(count.status == 0)
        let missing = try shown("no-such-pager")
        #expect(missing.status == 1 && missing.output.contains("The pager could not run"))
        // A difference stays one.
        let difference = try runOnTerminal(
            ["diff", folder.path, "--from", "0"], columns: 80, environment: ["PAGER": "head -n 1"])
        #expect(difference.status == 1)
        // Errors do not go there.
        let wrong = try shown("sed s/^/PAGER/", "--kind", "move")
        #expect(wrong.status == 64 && wrong.output.hasPrefix("annals: "))
    }

    /// No line is wider than the terminal, and numbers are whole.
    @Test(arguments: [30, 60, 80, 200]) func tablesFitTheTerminal(columns: Int) throws {
        let store = try folder.open()
        try store.write(author: "app") { transaction in
            try transaction.insert("Note", ["text": "東京都庁舎は新宿区にあります、とても高い建物です。", "rank": 123_456])
            try transaction.insert("Note", ["text": "👩‍👩‍👧‍👦 e\u{301}e\u{301}e\u{301} \u{1b}[2J", "rank": -1])
        }
        try store.close()
        let environment = ["PAGER": "cat", "NO_COLOR": "1", "COLUMNS": ""]
        for arguments in [
            ["find", folder.path, "Note", "--where", "rank > 1000 or rank < 0"], ["history", folder.path],
            ["find", folder.path, "Note", "--sort", "-rank"], ["history", folder.path, "--values", "--limit", "4"],
        ] {
            let shown = try runOnTerminal(arguments, columns: columns, environment: environment)
            #expect(shown.status == 0)
            let lines = shown.output.split(separator: "\n").map(String.init)
            if arguments[0] == "find" { #expect(lines.contains { $0.contains("123456") }) }
            // A narrower terminal than the smallest columns need breaks the lines.
            if columns >= 60 { for line in lines { #expect(Terminal.width(of: line) <= columns, "\(line)") } }
        }
        try folder.expectIntact()
    }

    // MARK: Gaps

    @Test func missingHistoryIsANote() throws {
        let store = try folder.open()
        try store.deleteHistory(before: 4)
        try store.close()
        #expect(try history().map { $0.prefix(1) } == ["7", "6", "5", "4", "T"])
        #expect(try history().last == "Transactions up to 3 were cleaned.")
        #expect(try history("--reverse").first == "Transactions up to 3 were cleaned.")
        #expect(
            try history("--after", "2", "--before", "5").map { $0.prefix(13) }
                == ["4  TIME  app  ", "Transactions "].map { $0.prefix(13) })
        #expect(try history("--after", "3").count == 4)
        #expect(try history("--summary", "author").last == "Transactions up to 3 were cleaned.")
        // Programs get an error.
        #expect(try runTool(["history", folder.path, "--after", "2"]).status == 1)
        #expect(try runTool(["history", folder.path]).output.split(separator: "\n").count == 4)
        let changed = try folder.open()
        try changed.changeSchema([.changeEntity("Note", history: .off)])
        try changed.changeSchema([.changeEntity("Note", history: .full)])
        try changed.close()
        let ofNote = try history("--entity", "Note")
        #expect(
            ofNote == ["History is incomplete up to transaction 8: no history of an entity was kept."], "\(ofNote)")
        try folder.expectIntact()
    }

    // MARK: Summaries

    @Test func aSummaryCountsEachGroup() throws {
        let authors = try history("--summary", "author").map { $0.replacing(/\ +TIME\ +TIME/, with: "") }
        let expected = [
            "author              transactions  changes  inserts  updates  deletes  first                last",
            "import                         1    1,200    1,200        0        0",
            "-                              2        8        0        8        0",
            "app                            3        4        2        1        1",
            #"a\u{1b}[2J\u{202e}             1        1        0        1        0"#,
        ]
        #expect(authors == expected, "\(authors.joined(separator: "\n"))")
        let rows = try runTool(["history", folder.path, "--summary", "entity"]).output.split(separator: "\n")
        #expect(
            rows.map { $0.prefix(60) } == [
                "{\"entity\":\"Note\",\"transactions\":5,\"changes\":1211,\"inserts\":1200".prefix(60),
                "{\"entity\":\"Tag\",\"transactions\":2,\"changes\":2,\"inserts\":2,\"updates".prefix(60),
            ])
        // A transaction counts once for an entity, however often another one comes between.
        #expect(try history("--summary", "hour").count >= 2)
        #expect(try runTool(["history", folder.path, "--summary", "day"]).status == 64)
        #expect(try runTool(["history", folder.path, "--summary", "hour", "--follow"]).status == 64)
    }

    // MARK: Following

    @Test func followingBeginsWithTheLastTransactions() throws {
        let store = try folder.open()
        for number in 8...16 { try store.write { try $0.insert("Tag", ["name": .string("t\(number)")]) } }
        let tool = try RunningTool(["history", folder.path, "--format", "text", "--follow"])
        for number in 7...16 { #expect(tool.line()?.drop { $0 == " " }.hasPrefix("\(number)  ") == true) }
        try store.write(author: "later") { try $0.insert("Tag", ["name": "new"]) }
        let last = tool.line()
        #expect(last?.hasSuffix("  later               insert 1 Tag") == true, "\(last ?? "")")
        try store.close()
    }
}
