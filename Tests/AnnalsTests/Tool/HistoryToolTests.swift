// `annals history` with its filters, `versions` and `revert`, from outside, against what the library gives.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct HistoryToolTests {
    let folder: StoreFolder
    let all: [HistoryTransaction]
    let objects: [ObjectID]

    /// 1 schema, 2 two inserts by app, 3 an update by widget, 4 a deletion and an insert by nobody in “import”, 5 an
    /// update by app.
    init() throws {
        folder = try StoreFolder()
        let store = try folder.open([Sample.clip, RandomHistory.note])
        let ids = try store.writeOptimistically(author: "app", contextName: "view") { transaction in
            [
                try transaction.insert("Clip", ["title": "A", "url": "a", "rank": 1]),
                try transaction.insert("Note", ["text": "n"]),
            ]
        }.result
        try store.writeOptimistically(author: "widget") { try $0.update(ids[0], ["rank": 2]) }
        let third = try store.writeOptimistically(contextName: "import") { transaction in
            try transaction.delete(ids[1])
            return try transaction.insert("Clip", ["url": "c"])
        }.result
        try store.writeOptimistically(author: "app") { try $0.update(ids[0], ["title": "B", "rank": 3]) }
        all = try store.history(after: 0)
        objects = ids + [third]
        try store.close()
    }

    /// Where the last values of a transaction cannot be read, because they stand beside damage; also of a line too long
    /// to be held in memory.
    @Test(arguments: [300, 4000]) func aLineOfADamagedTransactionIsNotPrintedInPart(count: Int) throws {
        let store = try folder.open([Sample.clip, RandomHistory.note])
        try store.writeOptimistically { transaction in
            for number in 0..<count {
                try transaction.insert("Note", ["text": .string("\(number)" + String(repeating: "x", count: 400))])
            }
        }
        try store.writeOptimistically { try $0.insert("Note", ["text": "victim"]) }
        try store.close()
        let whole = try run("history", "--values", "--format", "jsonl")
        #expect(whole.status == 0)
        let lines = whole.output.split(separator: "\n")
        #expect(lines.count == all.count + 2)
        for line in lines { _ = try JSONSerialization.jsonObject(with: Data(line.utf8)) }
        var bytes = try Data(contentsOf: URL(filePath: folder.path))
        let place = try #require(bytes.range(of: Data("victim".utf8)))
        bytes[place.lowerBound] ^= 1
        try bytes.write(to: URL(filePath: folder.path))
        let damaged = try run("history", "--values", "--format", "jsonl")
        #expect(damaged.status == 65)
        #expect(damaged.output.isEmpty || damaged.output.hasSuffix("\n"))
        #expect(
            damaged.output.split(separator: "\n").elementsEqual(
                lines.prefix(damaged.output.split(separator: "\n").count)))
    }

    func run(_ arguments: String...) throws -> ToolRun {
        try runTool([arguments[0], folder.path] + arguments.dropFirst())
    }

    /// The numbers of the transactions in lines of JSON.
    func numbers(_ arguments: String...) throws -> [Int] {
        let run = try runTool(["history", folder.path] + arguments)
        #expect(run.status == 0, "\(run.errors)")
        return try lines(run.output).map { try #require($0["number"] as? Int) }
    }

    func lines(_ text: String) throws -> [[String: Any]] {
        try text.split(separator: "\n").map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    private func timestamp(_ number: Int) throws -> String {
        let line = try lines(try run("history", "--limit", "\(number)").output)[number - 1]
        return try #require(line["timestamp"] as? String)
    }

    @Test func everyFilterSelectsItsTransactions() throws {
        #expect(try numbers() == [1, 2, 3, 4, 5])
        #expect(try numbers("--after", "1", "--before", "4") == [2, 3])
        #expect(try numbers("--after", all[2].token.description) == [4, 5])
        #expect(try numbers("--before", all[2].token.description) == [1, 2])
        #expect(try numbers("--after", try timestamp(3)) == [4, 5] && numbers("--before", try timestamp(3)) == [1, 2])
        #expect(try numbers("--after", "2000-01-01T00:00:00Z", "--before", "9999-01-01T00:00:00Z").count == 5)
        #expect(
            try numbers("--author", "app") == [2, 5] && numbers("--author", "app", "--author", "widget") == [2, 3, 5])
        #expect(try numbers("--author", "") == [1, 4] && numbers("--author", "nobody") == [])
        #expect(try numbers("--not-author", "app", "--not-author", "") == [3])
        #expect(try numbers("--context", "import") == [4] && numbers("--context=") == [1, 3, 5])
        #expect(
            try numbers("--entity", "Note") == [2, 4]
                && numbers("--entity", "Note", "--entity", "Clip") == [2, 3, 4, 5])
        #expect(try numbers("--id", objects[0].description) == [2, 3, 5])
        #expect(try numbers("--kind", "delete") == [4] && numbers("--kind", "delete", "--kind", "update") == [3, 4, 5])
        #expect(try numbers("--attribute", "Clip.rank") == [3, 5] && numbers("--attribute", "Clip.title") == [5])
        #expect(try numbers("--reverse", "--limit", "2") == [5, 4])
        #expect(try numbers("--kind", "update", "--author", "app", "--entity", "Clip", "--reverse") == [5])
        // Only what matches is shown.
        let four = try lines(try run("history", "--kind", "delete").output)
        #expect((four[0]["changes"] as? [Any])?.count == 1)
        let text = try run("history", "--format", "text", "--all", "--id", objects[1].description).output
        #expect(text.contains("  insert Note 2:1\n") && text.contains("  delete Note 2:1\n") && !text.contains("Clip"))
        #expect(try run("history", "--count").output == "5\n")
        #expect(try run("history", "--count", "--entity", "Note").output == "2\n")
        try folder.expectIntact()
    }

    @Test func netChangesArePrinted() throws {
        let run = try run("history", "--net", "--after", "2", "--values")
        let changes = try lines(run.output)
        #expect(
            changes.map { $0["id"] as? String } == objects.map(\.description).sorted { ObjectID($0)! < ObjectID($1)! })
        #expect(
            run.output.hasPrefix(
                "{\"kind\":\"update\",\"entity\":\"Clip\",\"id\":\"1:1\",\"attributes\":[\"title\",\"rank\"],"
                    + "\"first\":3,\"last\":5,\"before\":{\"title\":\"A\",\"rank\":1},\"after\":{\"title\":\"B\","
                    + "\"rank\":3}}\n"
            ), "\(run.output)")
        #expect(
            try self.run("history", "--net", "--after", "2", "--format", "text").output == """
                update Clip a (1:1): title, rank  (transactions 3 to 5)
                insert Clip c (1:2)  (transaction 4)
                delete Note 2:1  (transaction 4)

                """)
        #expect(try self.run("history", "--net", "--count").output == "2\n")
        #expect(
            try self.run("history", "--net", "--reverse", "--limit", "1", "--kind", "insert").output.contains("1:2"))
        try folder.expectIntact()
    }

    @Test func versionsArePrintedNewestFirst() throws {
        let run = try run("versions", "Clip", "1")
        let versions = try lines(run.output)
        #expect(run.status == 0 && versions.compactMap { $0["number"] as? Int } == [5, 3, 2])
        let change = try #require(versions[0]["change"] as? [String: Any])
        #expect((change["before"] as? [String: Any])?["title"] as? String == "A")
        #expect((change["after"] as? [String: Any])?["title"] as? String == "B")
        let text = try self.run("versions", "Note", "2:1", "--format", "text", "--limit", "1").output
        #expect(text.hasPrefix("4  ") && text.hasSuffix("  - (import)  delete\n      delete Note 2:1  text  \"n\"\n"))
        #expect(try self.run("versions", "Clip", "77").output == "")
        try folder.expectIntact()
    }

    @Test func aTransactionIsUndone() throws {
        let stopped = try run("revert", "3", "--author", "me")
        #expect(
            stopped.status == 1
                && stopped.output == "conflict: update Clip 1:1: the value of rank has changed since.\n"
                && stopped.errors.contains("Nothing was written.") && stopped.errors.contains("--skip"))
        let run = try run("revert", all[4].token.description, "--author", "me", "--context", "undo")
        let token = try HistoryToken(String(run.output.dropLast()))
        #expect(run.status == 0 && token.number == 6)
        #expect(try numbers("--author", "me", "--context", "undo") == [6])
        #expect(try self.run("revert", "5").output == "Nothing is left to undo.\n")
        #expect(try self.run("revert", "3").status == 0 && self.run("revert", "4", "--skip").status == 0)
        let store = try folder.open()
        #expect(try store.snapshot().rows(of: "Note").map(\.id) == [objects[1]])
        #expect(try store.snapshot().rows(of: "Clip").map(\.values) == [["A", "a", 1]])
        try store.close()
        try folder.expectIntact()
    }

    @Test func invalidArgumentsAreRefused() throws {
        for (arguments, status) in [
            (["history", folder.path, "--kind", "move"], 64), (["history", folder.path, "--id", "x"], 64),
            (["history", folder.path, "--after", "tomorrow"], 64),
            (["history", folder.path, "--attribute", "rank"], 64),
            (["history", folder.path, "--attribute", "Clip.no"], 1), (["history", folder.path, "--entity", "No"], 1),
            (["history", folder.path, "--reverse", "--reverse"], 64), (["history", folder.path, "--after", "99"], 1),
            (["versions", folder.path, "No", "1"], 1), (["versions", folder.path, "Clip", "2:1"], 64),
            (["revert", folder.path, "1"], 1), (["revert", folder.path, "99"], 1), (["revert", folder.path, "x"], 64),
            (["revert", folder.path], 64),
        ] {
            let run = try runTool(arguments)
            #expect(run.status == Int32(status) && run.errors.hasPrefix("annals: "), "\(arguments) \(run.errors)")
        }
        #expect(try run("revert", "1").errors.contains("schema"))
        for arguments in [["history", folder.path, "--net"], ["versions", folder.path, "Clip", "1"]] {
            let run = try runTool(arguments, standardOutput: "/dev/full")
            #expect(run.status == 1 && run.errors.contains("no space is left"))
        }
        try folder.expectIntact()
    }

    /// Errors say what to do in words of the tool.
    @Test func errorsGiveAdviceInTheToolsOwnTerms() throws {
        #expect(try run("clean", "--before", "4").status == 0)
        for arguments in [
            ["history", folder.path, "--after", "1"], ["watch", folder.path, "--after", "1"],
            ["dump", folder.path, "--as-of", all[0].token.description],
        ] {
            let run = try runTool(arguments)
            #expect(run.status == 1 && run.errors.contains("it begins after transaction 3"), "\(run)")
            #expect(run.errors.contains("“annals dump STORE --as-of TOKEN”") && !run.errors.contains("resync"))
        }
        // The way that they name can be gone.
        let info = try run("info").output
        let token = try #require(info.split(separator: "\n").first { $0.hasPrefix("token ") }?.dropFirst(6))
        #expect(try run("dump", "--as-of", String(token)).status == 0)
        #expect(try run("history", "--after", String(token)).output == "")
        try folder.expectIntact()
    }
}
