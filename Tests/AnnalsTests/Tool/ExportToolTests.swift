// `annals export` and `annals apply`, from outside.

import Annals
import Foundation
import Glibc
import TestSupport
import Testing

@Suite struct ExportToolTests {
    let (source, target): (StoreFolder, StoreFolder)
    let lines: TemporaryDirectory

    init() throws {
        (source, target) = (try StoreFolder(), try StoreFolder())
        lines = try TemporaryDirectory()
        // The first transaction adds the entity, and changes no object.
        try source.open([EntityDescription("Item", attributes: [])]).close()
    }

    func load(_ text: String, _ options: String...) throws {
        let run = try runTool(["load", source.path, "-", "--entity", "Item", "--key", "k"] + options, input: text)
        #expect(run.status == 0, "\(run.errors)")
    }

    func export(_ options: String...) throws -> String {
        let run = try runTool(["export", source.path] + options)
        #expect(run.status == 0, "\(run.errors)")
        return run.output
    }

    func apply(_ text: String, _ options: String...) throws -> ToolRun {
        try runTool(["apply", target.path, "-"] + options, input: text)
    }

    func dump(_ folder: StoreFolder, _ options: String...) throws -> String {
        try runTool(["dump", folder.path] + options).output
    }

    @Test func anAppliedExportLeadsToTheSameObjects() throws {
        try load("{\"k\":\"a\",\"n\":1,\"t\":\"\u{202e}\u{85}\"}\n{\"k\":\"b\",\"x\":0.1}\n", "--author", "me")
        let first = try export()
        #expect(
            first.split(separator: "\n").count == 2 && first.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F || $0 == 0x0A })
        let run = try apply(first, "--format", "json")
        #expect(
            run.status == 0
                && run.output.hasPrefix(
                    "{\"applied\":2,\"changes\":2,\"passedOver\":0,\"conflicts\":0,"
                        + "\"place\":\"A1."),
            "\(run.output)\(run.errors)")
        #expect(try dump(target) == dump(source))
        try load("{\"k\":\"a\",\"n\":2}\n{\"k\":\"c\"}\n", "--prune")
        // All of it once more, and what is new.
        let again = try apply(try export())
        #expect(again.output.hasPrefix("2 transactions with 3 changes applied, 2 skipped, 0 conflicts; now after A1."))
        #expect(try dump(target, "--bare") == dump(source, "--bare"))
        let place = try #require(again.output.split(separator: " ").last.map { String($0.dropLast()) })
        #expect(try export("--after", place) == "")
        #expect(try export("--after", "2").split(separator: "\n").count == 2)
        #expect(try export("--limit", "1").split(separator: "\n").count == 1)
        let history = try runTool(["history", target.path, "--author", "me"]).output.split(separator: "\n")
        #expect(history.count == 1 && history.allSatisfy { $0.contains("\"origin\":\"A1.") })
        let identifier = try source.open().identifier
        let text = try runTool(["history", target.path, "--format", "text"]).output
        #expect(text.contains("; applied 4 of \(identifier)"))
        let back = try runTool(["export", target.path, "--to", identifier.uuidString])
        #expect(back.status == 0 && back.output == "")
        try source.expectIntact()
        try target.expectIntact()
    }

    @Test func aBadLineStopsWithItsNumber() throws {
        for name in ["a", "b", "c"] { try load("{\"k\":\"\(name)\"}\n") }
        let exported = try export().split(separator: "\n").map(String.init)
        #expect(exported.count == 4)
        let bad = try apply(
            "\n" + exported[0] + "\n" + exported[1] + "\n" + exported[2].dropLast(3) + "\n" + exported[3])
        #expect(
            bad.status == 1 && bad.output == "" && bad.errors.contains("Line 4 of standard input: "), "\(bad.errors)")
        #expect(try dump(target, "--bare") == "{\"k\":\"a\"}\n")
        let gap = try apply(exported[3])
        #expect(gap.status == 1 && gap.errors.contains("Line 1 ") && gap.errors.contains("after 2"), "\(gap.errors)")
        #expect(try apply(exported[2] + "\n" + exported[3]).status == 0)
        #expect(try dump(target) == dump(source))
        try target.expectIntact()
    }

    @Test func invalidArgumentsCreateNoStore() throws {
        #expect(try apply("{}\n").status == 1)
        let run = try apply("\n \n")
        #expect(run.status == 0 && run.output.hasPrefix("0 transactions"))
        #expect(target.temporary.names == [])
        #expect(try runTool(["apply", target.path, lines.path("none")]).status == 1)
        #expect(try runTool(["apply", target.path, "-", "--conflicts", "mine"]).status == 64)
        #expect(try runTool(["export", target.path]).status == 1)
        try load("{\"k\":\"a\"}\n")
        #expect(try runTool(["export", source.path, "--to", "x"]).status == 64)
        #expect(try runTool(["export", source.path, "--after", "99"]).status == 1)
    }

    /// What is said there leads back to an answer.
    @Test func anExpiredPlaceAdvisesANewStore() throws {
        for name in ["a", "b", "c"] { try load("{\"k\":\"\(name)\"}\n") }
        #expect(try runTool(["clean", source.path, "--before", "4"]).status == 0)
        let late = try runTool(["export", source.path, "--after", "1"])
        #expect(late.status == 1 && late.output == "")
        #expect(late.errors.contains("up to 3 was cleaned"), "\(late.errors)")
        #expect(late.errors.contains("without --after") && !late.errors.contains("dump"), "\(late.errors)")
        #expect(try apply(try export()).status == 0)
        #expect(try dump(target, "--bare") == dump(source, "--bare"))
        try source.expectIntact()
        try target.expectIntact()
    }

    @Test func conflictsAreListedOrRefused() throws {
        try load("{\"k\":\"a\",\"n\":1}\n")
        #expect(try apply(try export()).status == 0)
        #expect(try runTool(["set", target.path, "Item", "1", "n=5"]).status == 0)
        try load("{\"k\":\"a\",\"n\":2}\n")
        let exported = try export()
        let refused = try apply(exported)
        #expect(refused.status == 1 && refused.errors.contains("n was changed here"), "\(refused.errors)")
        let ours = try apply(exported, "--conflicts", "storeWins", "--author", "sync", "--context", "night")
        #expect(
            ours.status == 0
                && ours.output.contains("1 transactions with 1 changes applied, 2 skipped, 1 conflicts"))
        #expect(ours.errors.contains("conflict in transaction 3: update Item 1:1 (here 1:1): "))
        #expect(try dump(target, "--bare") == "{\"k\":\"a\",\"n\":5}\n")
        try load("{\"k\":\"a\",\"n\":3}\n")
        #expect(try apply(try export(), "--conflicts", "exportWins", "--author", "sync").status == 0)
        #expect(try dump(target, "--bare") == "{\"k\":\"a\",\"n\":3}\n")
        #expect(try runTool(["history", target.path, "--author", "sync", "--count"]).output == "2\n")
        try target.expectIntact()
    }

    /// The tool waits for more lines, and dies: what it had applied is there, whole, and the rest comes with the next
    /// one.
    @Test(arguments: [1, 3, 6]) func aToolKilledBetweenLinesLeavesCompleteTransactions(count: Int) throws {
        for number in 0..<8 {
            try load("{\"k\":\"a\",\"n\":\(number)}\n{\"k\":\"b\(number)\"}\n{\"k\":\"c\",\"m\":\(number)}\n")
        }
        let exported = try export().split(separator: "\n").map(String.init)
        let pipe = lines.path("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        let tool = try RunningTool(["apply", target.path, pipe])
        let descriptor = open(pipe, O_WRONLY)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        let text = exported[..<count].map { $0 + "\n" }.joined() + exported[count].prefix(50)
        #expect(Array(text.utf8).withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == text.utf8.count)
        let last = try ExportedTransaction(jsonLine: exported[count - 1]).token
        let identifier = last.storeIdentifier
        let deadline = RealEnvironment().monotonicMicroseconds() + 600_000_000
        while (try? target.open { $0.createsIfMissing = false }.lastApplied(from: identifier)) != last {
            try #require(RealEnvironment().monotonicMicroseconds() < deadline)
            RealEnvironment().sleep(microseconds: 500)
        }
        tool.signal(SIGKILL)
        #expect(tool.end().signal == SIGKILL)
        #expect(try dump(target, "--bare") == dump(source, "--bare", "--as-of", "\(last.number)"))
        #expect(try apply(exported.joined(separator: "\n")).status == 0)
        #expect(try dump(target) == dump(source))
        try target.expectIntact()
    }

    @Test func noStoreIsLeftIfNothingIsApplied() throws {
        try load("{\"k\":\"a\"}\n{\"k\":\"b\"}\n", "--batch", "1")
        let behind = try export("--after", "2")
        let whole = try export()
        for (text, status) in [("", 0), ("\n \n", 0), ("x\n", 1), (behind, 1), (behind + whole, 1)] {
            let run = try apply(text)
            #expect(run.status == Int32(status), "\(run)")
            #expect(target.temporary.names == [], "\(text)")
        }
        #expect(try runTool(["apply", target.path, lines.path("none")]).status == 1)
        #expect(target.temporary.names == [])
        // What was applied before the line that is refused stays.
        let first = try #require(whole.split(separator: "\n").first)
        #expect(try apply("\(first)\nx\n").status == 1)
        #expect(try runTool(["history", target.path, "--count"]).output == "1\n")
        // A store that was there stays, whatever is in it.
        #expect(try apply("x\n").status == 1)
        let (empty, path) = (try StoreFolder(), target.path)
        try empty.open().close()
        #expect(rename(empty.path, path) == 0)
        #expect(try apply(behind).status == 1)
        try target.expectIntact()
        try source.expectIntact()
    }
}
