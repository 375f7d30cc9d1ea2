// `annals watch` and `annals history --follow`: lines as transactions come, and how they end.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct WatchToolTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    func made() throws -> Store { try folder.open([ChangeSignalTests.clip]) }

    func insert(_ author: String, _ store: Store) throws {
        try store.writeOptimistically(author: author) { try $0.insert("Clip", ["title": "t"]) }
    }

    @Test(arguments: [SIGTERM, SIGINT]) func aSignalOfTheSystemEndsTheToolWithSuccess(number: Int32) throws {
        let store = try made()
        try insert("app", store)
        let tool = try RunningTool(["watch", folder.path, "--after", "1", "--not-author", "sync"])
        let first = try #require(tool.line())
        let process = getpid()
        #expect(
            first
                == "{\"first\":2,\"last\":2,\"authors\":[\"app\"],\"entities\":[\"Clip\"],\"processIDs\":[\(process)],"
                + "\"token\":\"\(try store.currentToken)\"}")
        try insert("sync", store)
        try insert("o\"t", store)
        // What is left out may have been passed over before the other one came, or with it.
        let second = try #require(tool.line())
        #expect(second.contains("\"last\":4,\"authors\":[\"o\\\"t\"],"))
        tool.signal(number)
        let run = tool.end()
        #expect(run.status == 0 && run.output == "" && run.errors == "")
        try store.close()
        try folder.expectIntact()
    }

    /// Whether the signal comes while the store is opened depends on who is faster: the store grows until it does.
    @Test func aSignalEndsTheToolWhileItOpensTheStore() throws {
        let store = try made()
        var hasEnded = false
        for commits in [40, 80, 160, 320, 640, 1280] where !hasEnded {
            for _ in 1...commits {
                try store.writeOptimistically(durability: .relaxed) { transaction in
                    for _ in 1...500 { try transaction.insert("Clip", ["title": "t"]) }
                }
            }
            let tool = try RunningTool(["watch", folder.path])
            // From then on it takes signals itself.
            while signalsBlocked(of: tool.processID) & 1 << UInt64(SIGTERM - 1) == 0, tool.isRunning {}
            tool.signal(SIGTERM)
            let end = tool.end()
            // Otherwise it was open already, and ended in order.
            hasEnded = end.signal == SIGTERM
            #expect(hasEnded || end.status == 0)
        }
        #expect(hasEnded)
        try store.close()
        try folder.expectIntact()
    }

    private func signalsBlocked(of process: UInt32) -> UInt64 {
        let file = open("/proc/\(process)/status", O_RDONLY | O_CLOEXEC)
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = read(file, &bytes, bytes.count)
        let status = String(decoding: bytes[..<max(count, 0)], as: UTF8.self)
        let line = status.split(separator: "\n").first { $0.hasPrefix("SigBlk:") }
        return line?.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) } ?? 0
    }

    @Test func changesCanBePrintedAsText() throws {
        let store = try made()
        try insert("app", store)
        let tool = try RunningTool(["watch", folder.path, "--after", "1", "--format", "text"])
        #expect(tool.line() == "transaction 2, by app, of Clip, process \(getpid())")
        tool.signal(SIGTERM)
        #expect(tool.end().status == 0)
        try store.close()
        try folder.expectIntact()
    }

    @Test func historyFollowsNewTransactions() throws {
        let store = try made()
        try insert("app", store)
        let tool = try RunningTool(["history", folder.path, "--follow", "--format", "jsonl"])
        for number in 1...2 { #expect(try #require(tool.line()).hasPrefix("{\"number\":\(number),")) }
        for number in 3...5 {
            try insert("app", store)
            #expect(try #require(tool.line()).hasPrefix("{\"number\":\(number),"))
        }
        tool.signal(SIGTERM)
        #expect(tool.end().status == 0)
        // With a limit it ends by itself.
        let limited = try RunningTool(["history", folder.path, "--follow", "--limit", "6", "--format", "jsonl"])
        try insert("app", store)
        #expect(limited.end().status == 0)
        try store.close()
        try folder.expectIntact()
    }

    @Test(arguments: [["watch", "--after", "1"], ["history", "--follow"]]) func aClosedPipeEndsTheToolSilently(
        arguments: [String]
    ) throws {
        let store = try made()
        var ends: [Int32] = [-1, -1]
        #expect(pipe(&ends) == 0)
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        close(ends[0])
        defer { close(ends[1]) }
        try insert("app", store)
        let run = try runTool(arguments + [folder.path], descriptor: ends[1])
        #expect(run.status == 141 && run.errors.isEmpty)
        try store.close()
        try folder.expectIntact()
    }

    @Test func watchingAMissingStoreOrPlaceFails() throws {
        let store = try made()
        #expect(try runTool(["watch", folder.path, "--after", "9"]).status == 1)
        #expect(try runTool(["watch", folder.path, "--after", "x"]).status == 64)
        #expect(try runTool(["watch", folder.path + "no"]).status == 1)
        let tool = try RunningTool(["watch", folder.path, "--after", "0"])
        #expect(tool.line() != nil)
        try store.close()
        unlink(folder.path)
        let run = tool.end()
        #expect(run.status == 1 && run.errors.contains("removed or renamed"))
    }

    @Test func severalAuthorsAreLeftOut() throws {
        let store = try made()
        for author in ["one", "two", "three"] { try insert(author, store) }
        let tool = try RunningTool([
            "watch", folder.path, "--after", "1", "--not-author", "one", "--not-author", "two", "--format", "text",
        ])
        let line = try #require(tool.line())
        #expect(line.contains(", by three, of Clip"), "\(line)")
        tool.signal(SIGTERM)
        #expect(tool.end().status == 0)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Replaced stores

    /// A backup takes the place of the store, then another store.
    @Test(arguments: [["watch", "--format", "text"], ["history", "--follow", "--format", "text"]])
    func aReplacedStoreIsFollowedOn(command: [String]) async throws {
        let temporary = try TemporaryDirectory()
        var store = try made()
        try store.backup(to: temporary.path("backup"))
        let tool = try RunningTool([command[0], folder.path, "--after", "1"] + command.dropFirst())
        try insert("one", store)
        #expect(tool.line()?.contains("one") == true)
        try store.close()
        #expect(rename(temporary.path("backup"), folder.path) == 0)
        store = try Store(at: folder.path)
        // The backup has only transaction 1: its transaction 2 is another one.
        try await eventually { tool.errors.contains("was replaced: continuing after transaction 1.") }
        try insert("two", store)
        #expect(tool.line()?.contains("two") == true)
        // Another store is continued with at its end.
        let other = try StoreFolder()
        let successor = try other.open([ChangeSignalTests.clip])
        try insert("old", successor)
        try successor.close()
        try store.close()
        #expect(rename(other.path, folder.path) == 0)
        try await eventually { tool.errors.contains("was replaced: continuing after transaction 2.") }
        store = try Store(at: folder.path)
        try insert("three", store)
        #expect(tool.line()?.contains("three") == true)
        tool.signal(SIGTERM)
        #expect(tool.end().status == 0)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Rates

    @Test func eachSecondIsALine() throws {
        let store = try made()
        _ = try runTool(["consumers", folder.path, "--register", "search"])
        let tool = try RunningTool(["watch", folder.path, "--top"])
        _ = try #require(tool.line())
        for _ in 0..<3 { try insert("app", store) }
        try insert("o\"t", store)
        // The transactions may come in two seconds.
        var (transactions, lines) = (0, [String]())
        while transactions < 4, lines.count < 10 {
            let line = try #require(tool.line())
            let second = try JSONDecoder().decode(Second.self, from: Data(line.utf8))
            #expect(second.transactions == second.authors.reduce(0) { $0 + $1.transactions })
            #expect(second.changes == second.transactions && second.fileBytes > 4096)
            transactions += second.transactions
            lines.append(line)
            #expect(second.consumers.map(\.lag) == [second.number - 1])
        }
        #expect(transactions == 4, "\(lines)")
        tool.signal(SIGINT)
        #expect(tool.end().status == 0)
        #expect(try runTool(["watch", folder.path, "--top", "--after", "1"]).status == 64)
        try store.close()
        try folder.expectIntact()
    }

    private struct Second: Decodable {
        struct Author: Decodable { var transactions: Int }
        struct Reader: Decodable { var lag: Int }
        var (number, transactions, changes, fileBytes): (Int, Int, Int, Int)
        var authors: [Author]
        var consumers: [Reader]
    }
}
