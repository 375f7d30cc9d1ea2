// `annals report`: its numbers are those of other commands, no name adds markup, and odd stores have a page, too.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ReportToolTests {
    let folder: StoreFolder
    let pages: TemporaryDirectory

    init() throws { (folder, pages) = (try StoreFolder(), try TemporaryDirectory()) }

    // MARK: The same numbers

    /// Authors with and without a name, two entities, all kinds of changes, a removed entity, a reader.
    private func makeStore() throws {
        let store = try folder.open([Sample.clip, RandomHistory.note])
        let ids = try store.write(author: "app") { transaction in
            try (0..<20).map { try transaction.insert("Clip", ["url": .string("u\($0)"), "rank": 1]) }
        }.result
        try store.registerConsumer("reader")
        for round in 0..<30 {
            try store.write(author: ["app", nil, "import", "a\(round)"][round % 4]) { transaction in
                for id in ids[0...(round % 7)] { try transaction.update(id, ["rank": .int(Int64(round + 2))]) }
                try transaction.insert("Note", ["text": .string("n\(round)")])
            }
        }
        try store.write { try $0.delete(ids[19]) }
        try store.close()
    }

    private func lines(_ arguments: String...) throws -> [[String: Any]] {
        let run = try runTool([arguments[0], folder.path] + arguments.dropFirst())
        #expect(run.status == 0, "\(run.errors)")
        return try run.output.split(separator: "\n").map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    @Test(arguments: [[], ["7"], ["-3"], ["0"], ["now"]]) func numbersAreThoseOfInfoAndSummaries(_ since: [String])
        throws
    {
        try makeStore()
        let page = try report(since.flatMap { ["--since", $0] })
        let info = try #require(try lines("info", "--format", "json").first)
        let space = try #require(info["space"] as? [String: UInt64])
        #expect(
            page.table("space").map(\.numbers)
                == ["live", "history", "index", "garbage", "free"].map { [space[$0] ?? 0] })
        #expect(
            page.table("store").flatMap(\.numbers)
                == ["transactions", "number", "horizon", "fileBytes", "end"].map { info[$0] as? UInt64 ?? .max })
        let frames = try #require(info["frameBytes"] as? [String: UInt64])
        #expect(page.table("frames").allSatisfy { frames[$0.name] == $0.numbers[0] } && !frames.isEmpty)
        let entities = try #require(info["entities"] as? [[String: Any]])
        #expect(page.table("contents").map(\.name) == entities.map { $0["name"] as? String })
        #expect(page.table("contents").flatMap(\.numbers) == entities.map { $0["objects"] as? UInt64 ?? .max })
        let consumer = try #require((info["consumers"] as? [[String: Any]])?.first)
        #expect(
            page.table("consumers").first?.numbers.prefix(2)
                == [consumer["lag"], consumer["number"]].map { $0 as? UInt64 ?? 0 }[...])

        let after = since.first.map { ["--after", $0] } ?? []
        for (id, grouping) in [("authors", "author"), ("entities", "entity")] {
            let run = try runTool(["history", folder.path, "--summary", grouping, "--format", "jsonl"] + after)
            let groups = try run.output.split(separator: "\n").map {
                try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
            }
            let rows = page.table(id)
            #expect(rows.map(\.name) == groups.map { ($0[grouping] as? String).map { $0.isEmpty ? "-" : $0 } })
            let columns = ["transactions", "changes", "inserts", "updates", "deletes"]
            #expect(rows.map(\.numbers) == groups.map { group in columns.map { group[$0] as? UInt64 ?? .max } })
        }
        // All pictures of the same history have the same sums.
        let authors = page.table("authors")
        let (transactions, changes) = (authors.sum(0), authors.sum(1))
        #expect(since == ["now"] ? transactions == 0 : transactions > 0)
        #expect(page.table("changes-over-time").flatMap(\.numbers).reduce(0, +) == changes)
        #expect(page.table("transactions-over-time").flatMap(\.numbers).reduce(0, +) == transactions)
        #expect(page.table("sizes").sum(0) == transactions)
        #expect(page.table("gaps").sum(0) == (transactions < 2 ? 0 : transactions - 1))
        let updates = authors.sum(3)
        #expect(page.table("attributes").sum(0) == updates)
        try folder.expectIntact()
    }

    @Test func objectsHaveLabelsAndCounts() throws {
        try makeStore()
        let rows = try report().table("objects")
        #expect(rows.first?.name == "Clip u0 (1:1)" && rows.first?.numbers == [31, 31])
        #expect(rows.map { $0.numbers[0] } == rows.map { $0.numbers[0] }.sorted(by: >))
        // It was inserted and deleted.
        #expect(rows.contains { $0.name == "Clip 1:20, deleted" && $0.numbers == [2, 2] })
        try folder.expectIntact()
    }

    /// More objects than counters: a frequent object is found, and its count is an upper bound.
    @Test func frequentObjectsAreFoundAmongMany() throws {
        let store = try folder.open([Sample.clip])
        let ids = try store.write { transaction in
            try (0..<6000).map { try transaction.insert("Clip", ["url": .string("u\($0)")]) }
        }.result
        for round in 1...40 {
            try store.write { try $0.update(ids[5], ["rank": .int(Int64(round))]) }
            if round % 10 == 0 {
                try store.write { transaction in
                    for id in ids[1000...] { try transaction.update(id, ["rank": .int(Int64(round))]) }
                }
            }
        }
        try store.close()
        let page = try report()
        let first = try #require(page.table("objects").first)
        #expect(first.name == "Clip u5 (1:6)" && first.numbers[0] >= 41 && (30...41).contains(first.numbers[1]))
        #expect(page.text.contains("more objects than the report"))
        try folder.expectIntact()
    }

    // MARK: Names

    @Test func namesAddNoMarkup() throws {
        let evil = "</title></svg><script>alert('1')</script>&amp;\"\u{1b}[2J\u{202e}<!--"
        let entity = EntityDescription(evil, attributes: [AttributeDescription(evil + "2", .string, isUnique: true)])
        let store = try folder.open([entity])
        for number in 0..<3 {
            let object = try store.write(author: evil) {
                try $0.insert(evil, [evil + "2": .string("\(number)" + evil)])
            }.result
            try store.write(author: evil) { try $0.update(object, [evil + "2": .string(evil + "\(number)")]) }
        }
        let long = try store.write(author: String(repeating: "w", count: 1024)) {
            try $0.insert(evil, [evil + "2": .string(String(repeating: "<W", count: 32_768))])
        }.result
        try store.registerConsumer(evil)
        try store.write { try $0.update(long, [evil + "2": .string(String(repeating: "<M", count: 32_768))]) }
        try store.close()
        let page = try report()
        #expect(page.text.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;&quot;\\u{1b}[2J\\u{202e}"))
        #expect(page.text.utf8.count < 200_000)
        try folder.expectIntact()
    }

    // MARK: Odd stores

    @Test func aStoreWithoutContentHasAPage() throws {
        try folder.open().close()
        let page = try report()
        #expect(page.text.contains("There is no history to show.") && page.text.contains("0 objects of 0 entities"))
        try folder.expectIntact()
    }

    @Test func aStoreWithOneTransactionHasAPage() throws {
        try folder.open([Sample.clip]).close()
        let page = try report()
        #expect(page.table("transactions-over-time").flatMap(\.numbers) == [1] && page.table("gaps").isEmpty)
        #expect(
            page.text.contains("1 transaction with 0 changes by 1 author,") && page.text.contains("Growth: unknown"))
        try folder.expectIntact()
    }

    @Test func cleanedHistoryIsNoted() throws {
        try makeStore()
        let store = try folder.open()
        try store.deleteHistory(before: 10)
        try store.close()
        let page = try report()
        #expect(page.text.contains("Transactions up to 9 were cleaned."))
        #expect(page.text.contains("Cleaning has passed consumer “reader”"))
        #expect(page.table("store")[2].numbers == [9])
        #expect(try report(["--since", "3"]).text.contains("Transactions up to 9 were cleaned."))
        try folder.expectIntact()
    }

    @Test func historyThatIsNotKeptHasAPage() throws {
        try makeStore()
        #expect(try runTool(["retention", folder.path, "none"]).status == 0)
        #expect(try runTool(["set", folder.path, "Clip", "1", "rank=99"]).status == 0)
        _ = try report()
        #expect(try runTool(["retention", folder.path, "off", "--entity", "Note"]).status == 0)
        #expect(try report().table("contents").map(\.name) == ["Clip", "Note"])
        try folder.expectIntact()
    }

    @Test func manyEntitiesHaveAPage() throws {
        let names = (0..<300).map { "E\($0)" }
        let store = try folder.open(names.map { EntityDescription($0, attributes: [AttributeDescription("n", .int)]) })
        try store.write { transaction in for name in names { try transaction.insert(name, ["n": 1]) } }
        try store.close()
        let page = try report()
        #expect(page.table("contents").count == 300 && page.table("entities").sum(1) == 300)
        try folder.expectIntact()
    }

    static let times: [([Int64], String)] = [
        ([0, 0, 0], "second"), ([0, 50, 100], "10 seconds"), ([0, -7200, 3600], "10 minutes"),
        ([0, 2_592_000], "day"), ([0, 25_920_000], "week"), ([0, 43_200_000, 86_400], "month"),
        ([0, 777_600_000], "year"), ([0, 31_536_000_000, -1_700_000_000], "100 years"),
    ]

    /// Up to a thousand years ahead, and back to before 1970.
    @Test(arguments: times)
    func timesFarApartHaveAPage(_ seconds: [Int64], _ unit: String) throws {
        let store = try folder.open([Sample.clip])
        let ids = try store.write { transaction in
            try (0..<seconds.count).map { try transaction.insert("Clip", ["url": .string("u\($0)")]) }
        }.result
        try store.close()
        for (ahead, id) in zip(seconds, ids) {
            let clock = OtherClock { ahead * 1_000_000 }
            let machine = try Engine.open(folder.path, files: RealFileSystem(), environment: clock)
            _ = try machine.write(author: "other") { try $0.delete(id) }
            try machine.close()
        }
        let page = try report()
        #expect(page.text.contains("Changes per \(unit), by author"))
        let rows = page.table("transactions-over-time")
        #expect(rows.count <= 60 && rows.flatMap(\.numbers).reduce(0, +) == UInt64(seconds.count) + 2)
        #expect(page.table("gaps").contains { $0.name == "clock set back" } == (seconds != seconds.sorted()))
        try folder.expectIntact()
    }

    /// In the night when summer time ends, local clocks show 2:50, and 20 minutes later 2:10.
    @Test func theEndOfSummerTimeHasAPage() throws {
        let store = try folder.open([Sample.clip])
        let ids = try store.write { transaction in
            try (0..<3).map { try transaction.insert("Clip", ["url": .string("u\($0)")]) }
        }.result
        try store.close()
        for (minutes, id) in zip([0, 1, 20], ids) {
            let ahead = 1_792_889_400 + Int64(minutes) * 60 - Int64(Date().timeIntervalSince1970)
            let clock = OtherClock { ahead * 1_000_000 }
            let machine = try Engine.open(folder.path, files: RealFileSystem(), environment: clock)
            _ = try machine.write(author: "other") { try $0.delete(id) }
            try machine.close()
        }
        let page = try report(["--since", "2"], zone: "CET-1CEST,M3.5.0,M10.5.0/3")
        #expect(page.text.contains("from 2026-10-25 02:50:") && page.text.contains("to 2026-10-25 02:10:"))
        #expect(page.table("transactions-over-time").flatMap(\.numbers).reduce(0, +) == 3)
        try folder.expectIntact()
    }

    // MARK: The file

    @Test func onlyAnEarlierReportIsReplaced() throws {
        try makeStore()
        let report = pages.path("r.html")
        try pages.write("", to: "r.html")
        for _ in 0..<2 {
            #expect(try runTool(["report", folder.path, report]).output.contains("as of transaction 33"))
        }
        #expect(pages.read("r.html")?.hasSuffix("</html>\n") == true && pages.names == ["r.html"])
        try pages.write("a letter", to: "letter")
        symlink(folder.path, pages.path("link"))
        mkfifo(pages.path("pipe"), 0o600)
        for (file, words) in [
            (folder.path, "is the store itself"), (pages.path("letter"), "exists, and is not a report"),
            (pages.path("link"), "is not a regular file"), (pages.path("pipe"), "is not a regular file"),
            (pages.path, "is not a regular file"), ("/dev/null", "is not a regular file"),
            (pages.path("none/r.html"), "could not be written"),
        ] {
            let run = try runTool(["report", folder.path, file])
            #expect(run.status == 1 && run.output.isEmpty && run.errors.contains(words), "\(run)")
        }
        #expect(pages.read("letter") == "a letter" && pages.names == ["letter", "link", "pipe", "r.html"])
        #expect(try runTool(["report", folder.path, "-", "--since", "99"]).status == 1)
        #expect(try runTool(["report", folder.path, "-"], standardOutput: "/dev/full").status == 1)
        try folder.expectIntact()
    }

    @Test func aReportIsMadeWhileAnApplicationWrites() throws {
        try makeStore()
        let store = try folder.open()
        let page = try report()
        try store.write { try $0.insert("Note", ["text": "more"]) }
        #expect(try report().table("authors").sum(0) == page.table("authors").sum(0) + 1)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Pages

    private func report(_ options: [String] = [], zone: String = "UTC") throws -> Page {
        let run = try runTool(["report", folder.path, "-"] + options, environment: ["TZ": zone])
        #expect(run.status == 0 && run.errors.isEmpty, "\(run.errors)")
        let page = Page(text: run.output)
        page.expectSound()
        return page
    }
}

private struct Page {
    let text: String

    /// The rows of a table: their first cells, and their numbers.
    func table(_ id: String) -> [(name: String, numbers: [UInt64])] {
        guard let start = text.range(of: "<table id=\"\(id)\">"),
            let end = text.range(of: "</table>", range: start.upperBound..<text.endIndex)
        else { return [] }
        return text[start.upperBound..<end.lowerBound].components(separatedBy: "<tr>").dropFirst(2).map { row in
            let name = row.firstMatch(of: #/<th scope="row">(.*?)</th>/#).map { String($0.1) } ?? ""
            return (name, row.matches(of: #/<data value="(\d+)">/#).compactMap { UInt64($0.1) })
        }
    }

    /// It loads nothing, runs nothing, and every tag is closed in order.
    func expectSound(sourceLocation: SourceLocation = #_sourceLocation) {
        for words in ["http:", "https:", "<script", "javascript:", "url(", "@import", "src=", "href="] {
            #expect(!text.contains(words), "\(words)", sourceLocation: sourceLocation)
        }
        #expect(text.hasPrefix("<!DOCTYPE html>\n"), sourceLocation: sourceLocation)
        #expect(!text.unicodeScalars.contains { $0.value < 32 && $0 != "\n" }, sourceLocation: sourceLocation)
        var open: [Substring] = []
        let body = text.replacing(#/<!DOCTYPE html>|<!-- [^<]* -->/#, with: "").replacing(
            #/<style>[^<]*</style>/#, with: "")
        for tag in body.matches(of: #/<(/?)([a-z0-9]+)((?: [a-zA-Z0-9-]+="[^"<>]*")*)(/?)>/#).map(\.output) {
            if tag.1 == "/" {
                #expect(open.popLast() == tag.2, "\(tag.0)", sourceLocation: sourceLocation)
            } else if tag.4.isEmpty {
                open.append(tag.2)
            }
        }
        #expect(open.isEmpty, "\(open)", sourceLocation: sourceLocation)
        let rest = body.replacing(#/<(/?)([a-z0-9]+)((?: [a-zA-Z0-9-]+="[^"<>]*")*)(/?)>/#, with: "")
        #expect(!rest.contains { "<>\"".contains($0) }, sourceLocation: sourceLocation)
        #expect(rest.matches(of: #/&(?!amp;|lt;|gt;|quot;|#39;)/#).isEmpty, sourceLocation: sourceLocation)
        #expect(!text.contains("nan") && !text.contains("=\"inf"), sourceLocation: sourceLocation)
    }
}

extension [(name: String, numbers: [UInt64])] {
    fileprivate func sum(_ column: Int) -> UInt64 { reduce(0) { $0 + $1.numbers[column] } }
}
