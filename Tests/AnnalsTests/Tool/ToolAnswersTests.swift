// What the tool says for scripts and for people who do not know it: schema, version, places as dates, tokens, errors as
// JSON.

import Annals
import Foundation
import TestSupport
import Testing
import annals

@Suite struct ToolAnswersTests {
    private let folder: StoreFolder
    private let start: HistoryToken

    init() throws {
        folder = try StoreFolder()
        let store = try folder.open([
            EntityDescription(
                "Note",
                attributes: [
                    AttributeDescription("title", .string, isOptional: false, isUnique: true, defaultValue: "x"),
                    AttributeDescription("rank", .int, isIndexed: true),
                ], keys: [IndexDescription(["rank", "title"])]),
            EntityDescription("Log", attributes: [AttributeDescription("line", .string)], history: .off),
        ])
        try store.writeOptimistically(author: "a", contextName: "c") {
            try $0.insert("Note", ["title": "one", "rank": 1])
        }
        start = try store.currentToken
        try store.writeOptimistically(author: "b", contextName: "d") {
            try $0.insert("Note", ["title": "two", "rank": 2])
        }
        try store.close()
    }

    private func output(_ arguments: String...) throws -> String {
        let run = try runTool([arguments[0], folder.path] + arguments.dropFirst())
        #expect(run.status == 0, "\(run.errors)")
        return run.output
    }

    // MARK: Schema, version, help

    @Test func theSchemaIsPrinted() throws {
        let text = try output("schema")
        #expect(
            text == """
                schema version 1
                Note
                  title: string, required, unique, default "x"
                  rank: int, indexed
                  key over rank, title
                Log: history off
                  line: string

                """)
        let one = try output("schema", "Log", "--format", "json")
        #expect(
            one == """
                {"version":1,"entities":[{"name":"Log","history":"off","attributes":[{"name":"line","type":"string",\
                "optional":true,"indexed":false,"unique":false,"preservedOnDeletion":false}],"keys":[]}]}

                """)
        #expect(try output("schema", "Note", "--format", "json").contains(#""default":"x""#))
        #expect(try runTool(["schema", folder.path, "None"]).status == 1)
        try folder.expectIntact()
    }

    @Test func theVersionIsPrinted() throws {
        let run = try runTool(["--version"])
        #expect(run.status == 0 && run.output.wholeMatch(of: /annals \d+\.\d+\.\d+\n/) != nil, "\(run.output)")
    }

    @Test func noLineOfHelpIsLongerThan80Columns() throws {
        let overview = try runTool(["help"]).output
        let commands = overview.matches(of: #/\n  ([a-z]+)  /#).map { String($0.output.1) }
        #expect(commands.contains("history") && commands.contains("help"))
        for text in try [overview] + commands.map({ try runTool(["help", $0]).output }) {
            let long = text.split(separator: "\n").filter { $0.count > 80 }
            #expect(long == [])
        }
    }

    // MARK: Places

    @Test func momentsAreRead() {
        let day: Int64 = 1_795_305_600_000_000
        let hour: Int64 = 3_600_000_000
        let cases: [(String, Int64?)] = [
            ("2026-11-22", day), ("2026-11-22T10:00", day + 10 * hour), ("2026-11-22 10:00", day + 10 * hour),
            ("2026-11-22T10:00:30", day + 10 * hour + 30_000_000),
            ("2026-11-22T10:00:30.5Z", day + 10 * hour + 30_500_000),
            ("2026-11-22T10:00+02:00", day + 8 * hour), ("2026-11-22T10:00:00-0130", day + 11 * hour + hour / 2),
            ("2026-11-22T10", nil), ("2026-02-30", nil), ("2026-11-22T24:00", nil), ("22.11.2026", nil),
            ("2026-11-22Z", nil), ("20261122", nil), ("2026-11-22T10:00+24:00", nil),
        ]
        for (text, moment) in cases { #expect(Timestamp.moment(text) == moment, "\(text)") }
    }

    @Test func aDateIsAPlaceEverywhere() throws {
        let (past, future) = ("2001-01-01", "2900-01-01T00:00+01:00")
        #expect(try output("dump", "--as-of", future).split(separator: "\n").count == 2)
        #expect(try output("dump", "--as-of", past) == "")
        let second = try output("history", "--after", start.description, "--format", "jsonl")
        let time = try #require(second.firstMatch(of: /"timestamp":"([^"]+)"/)).output.1
        let noMoment = try runTool(["dump", folder.path, "--as-of", "2026-13-45"])
        #expect(noMoment.status == 64 && noMoment.errors.contains("“2026-13-45” is not a date"), "\(noMoment.errors)")
        #expect(try output("dump", "--as-of", String(time)).split(separator: "\n").count == 2)
        #expect(try output("history", "--after", past, "--count") == "3\n")
        #expect(try output("history", "--after", future, "--count") == "0\n")
        #expect(try output("export", "--after", future) == "")
        #expect(try output("export", "--after", past).split(separator: "\n").count == 3)
        #expect(try output("consumers", past, "--register", "r", "--format", "json").contains(#""number":0"#))
        #expect(try output("consumers", future, "--advance", "r", "--format", "json").contains(#""number":3"#))
        #expect(try output("clean", "--before", past, "--dry-run", "--format", "json").contains(#""transactions":0"#))
        #expect(try runTool(["revert", folder.path, past]).status == 64)
        try folder.expectIntact()
    }

    // MARK: History

    @Test func entitiesAndContextsAreLeftOut() throws {
        #expect(try output("history", "--not-context", "c", "--not-context", "", "--count") == "1\n")
        #expect(try output("history", "--not-entity", "Log", "--count") == "2\n")
        #expect(try output("history", "--not-entity", "Note", "--count") == "0\n")
        #expect(
            try output("history", "--entity", "Note", "--not-entity", "Log", "--net").split(separator: "\n").count == 2)
        #expect(try runTool(["history", folder.path, "--not-entity", "None"]).status == 1)
        let gap = try runTool(["history", folder.path, "--entity", "Log"])
        #expect(gap.status == 1 && gap.errors.contains("--not-entity"), "\(gap.errors)")
        try folder.expectIntact()
    }

    // MARK: Tokens

    @Test func editsPrintTheirTokens() throws {
        func newest() throws -> String {
            try output("info").firstMatch(of: /token (\S+)/).map { String($0.output.1) } ?? ""
        }
        #expect(try output("insert", "Note", "title=\"three\"") == "1:3\n\(newest())\n")
        #expect(try output("set", "Note", "3", "rank=3") == "\(newest())\n")
        #expect(try output("set", "Note", "3", "rank=3") == "")
        #expect(try output("delete", "Note", "3") == "\(newest())\n")
        try folder.expectIntact()
    }

    // MARK: Errors as JSON

    private func failure(_ arguments: [String]) throws -> (status: Int32?, error: [String: Any]) {
        let run = try runTool(arguments)
        #expect(run.output.isEmpty && run.errors.split(separator: "\n").count == 1, "\(run.errors)")
        let object = try JSONSerialization.jsonObject(with: Data(run.errors.utf8)) as? [String: Any]
        return (run.status, try #require(object?["error"] as? [String: Any]))
    }

    @Test func errorsAreJSONOnRequest() throws {
        let store = try Store(at: folder.path)
        try store.deleteHistory(before: 3)
        try store.close()
        let foreign = HistoryToken(storeIdentifier: UUID(), number: 1, tag: 1)
        let diverged = HistoryToken(storeIdentifier: start.storeIdentifier, number: 3, tag: 1)
        let cases: [(HistoryToken, String)] = [
            (HistoryToken(storeIdentifier: start.storeIdentifier, number: 1, tag: 0), "tokenExpired"),
            (foreign, "tokenForeign"), (diverged, "tokenDiverged"),
            (HistoryToken(storeIdentifier: start.storeIdentifier, number: 9, tag: 0), "tokenUnknown"),
        ]
        for (token, code) in cases {
            for option in [["--format", "jsonl"], ["--format=jsonl"]] {
                let (status, error) = try failure(["history", folder.path, "--after", token.description] + option)
                #expect(status == 1 && error["code"] as? String == code, "\(error)")
                #expect((error["message"] as? String)?.hasSuffix(".") == true)
                #expect(code != "tokenExpired" || error["oldestNumber"] as? Int == 2, "\(error)")
            }
        }
        let missing = try failure(["info", folder.path + "x", "--format", "json"])
        #expect(missing.status == 1 && missing.error["code"] as? String == "notFound", "\(missing)")
        let usage = try failure(["info", "--format", "json"])
        #expect(usage.status == 64 && usage.error["code"] as? String == "usage", "\(usage)")
        // All commands have it, and one JSON object and JSON in lines are the same.
        let missingPath = folder.path + "x"
        for command in [
            ["get", missingPath, "Clip", "1"], ["count", missingPath], ["insert", missingPath, "Clip"],
            ["set", missingPath, "Clip", "1", "a=1"], ["delete", missingPath, "Clip", "1"], ["export", missingPath],
            ["revert", missingPath, "1"], ["history", missingPath], ["dump", missingPath], ["consumers", missingPath],
        ] {
            for format in ["json", "jsonl"] {
                let (status, error) = try failure(command + ["--format", format])
                #expect(status == 1 && error["code"] as? String == "notFound", "\(command): \(error)")
            }
        }
        let one = try runTool(["get", folder.path, "Clip", "1", "--format", "csv"])
        #expect(one.status == 64 && one.errors.contains("one format"), "\(one)")
        let text = try runTool(["history", folder.path, "--after", foreign.description, "--format", "text"])
        #expect(text.status == 1 && text.errors.hasPrefix("annals: "))
        try folder.expectIntact()
    }
}
