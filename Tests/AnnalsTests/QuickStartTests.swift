// The README's quick start, as it stands there: it compiles, runs and says what it promises.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

@Suite struct QuickStartTests {
    /// What the code of the README prints: unqualified, `print` is this suite's.
    private final class Output: Sendable {
        let lines = Mutex<[String]>([])
    }

    private let output = Output()

    private func print(_ items: Any...) {
        output.lines.withLock { $0.append(items.map { "\($0)" }.joined(separator: " ")) }
    }

    @Test func theQuickStartRuns() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("notes.annals")
        try quickStart(path)
        #expect(output.lines.withLock(\.self) == ["2 insert 0 -> 3", "3 update 3 -> 4"])
        let store = try Store(at: path)
        #expect(try store.snapshot().rows(of: "Note").map { $0["rank"] } == [.int(4)])
        try store.close()
    }

    /// The lines between the markers are the README's.
    private func quickStart(_ path: String) throws {
        // README begins
        let note = EntityDescription(
            "Note",
            attributes: [
                AttributeDescription("title", .string, isOptional: false),
                AttributeDescription("rank", .int, isIndexed: true),
            ])
        let store = try Store(at: path, entities: [note])
        let token = try store.currentToken

        let (id, _) = try store.commit(author: "app") { transaction in
            try transaction.insert("Note", ["title": "Swift", "rank": 3])
        }
        try store.commit(author: "app") { try $0.update(id, ["rank": 4]) }

        for transaction in try store.history(after: token, includingValues: true) {
            for change in transaction.changes {
                let ranks = [change.before, change.after].map { $0?["rank"]?.int ?? 0 }
                print(transaction.number, change.kind, ranks[0], "->", ranks[1])
            }
        }
        try store.close()
        // README ends
    }

    @Test func whatElseThereIsRuns() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("notes.annals")
        try quickStart(path)
        let store = try Store(at: path)
        let token = try store.currentToken
        let id = try #require(try store.snapshot().rows(of: "Note").first?.id)
        try more(store, token, id)
        #expect(try store.entity("Note").attributes == ["title", "rank", "done"])
        try store.close()
    }

    private func more(_ store: Store, _ token: HistoryToken, _ id: ObjectID) throws {
        // More begins
        let snapshot = try store.snapshot()  // one state, for as long as you like
        print(try snapshot.row(id)?["title"]?.string ?? "")
        for row in try snapshot.rows(of: "Note", by: ["rank"], from: .including([2]), reversed: true) {
            print(row.id, row["rank"]?.int ?? 0, row["title"]?.string ?? "")
        }
        var sum: Int64 = 0
        // The same where they stand: no value is made but those that are asked for.
        try snapshot.forEachRow(of: snapshot.entity("Note")) { (row) throws(StoreError) in
            sum += row.int(at: 1) ?? 0
            return true
        }
        let before = try store.snapshot(asOf: token)  // as it was
        try store.commit(author: "app") { try $0.delete(id) }
        try store.changeSchema([.addAttribute(AttributeDescription("done", .bool, defaultValue: false), to: "Note")])
        // More ends
        #expect(output.lines.withLock { $0.suffix(2) } == ["Swift", "\(id) 4 Swift"])
        #expect(try store.snapshot().row(id) == nil && before.row(id) != nil)
        #expect(before.token == token)
        #expect(sum == 4)
    }

    @Test func exportingRuns() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("notes.annals")
        try quickStart(path)
        let store = try Store(at: path)
        let mirrorPath = directory.path("mirror.annals")
        for _ in 1...2 {
            try mirror(store, mirrorPath)
            let other = try Store(at: mirrorPath)
            #expect(try other.snapshot().rows(of: "Note").map { $0["rank"] } == [.int(4)])
            #expect(try other.history(HistoryRequest()).filter { $0.origin != nil }.count == 3)
            try other.close()
        }
        try store.close()
    }

    private func mirror(_ store: Store, _ mirrorPath: String) throws {
        // Export begins
        let mirror = try Store(at: mirrorPath)
        let last = try mirror.lastApplied(from: store.identifier)
        for transaction in try store.export(after: last.map { .token($0) }) { try mirror.apply(transaction) }
        try mirror.close()
        // Export ends
    }

    @Test func sharingRuns() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("notes.annals")
        try quickStart(path)
        let store = try Store(at: path)
        let other = try Store(at: path)
        let note = try #require(try store.snapshot().rows(of: "Note").first?.id)
        try other.commit(author: "app") { try $0.update(note, ["rank": 5]) }
        try other.commit(author: "end") { try $0.update(note, ["rank": 6]) }
        try await share(store)
        #expect(try other.horizon == other.currentToken.number)
        #expect(try other.consumer("extension")?.lag == 0)
        try other.close()
        try store.close()
    }

    private func share(_ store: Store) async throws {
        // Sharing begins
        let consumer = try store.registerConsumer("extension", at: store.oldestToken)
        var cursor = consumer.cursor
        for try await signal in try store.ownAndRemoteChanges(after: cursor, excluding: ["extension"]) {
            let request = HistoryRequest(
                after: .token(cursor), before: .number(signal.token.number + 1), excludedAuthors: ["extension"])
            for transaction in try store.history(request) { print(transaction.author ?? "-", transaction.number) }
            try store.advanceConsumer("extension", from: cursor, to: signal.token)
            cursor = signal.token
            if signal.authors.contains("end") { break }
        }
        try store.clean()  // what all consumers have read
        try store.compact()  // gives its space back
        // Sharing ends
    }

    @Test func theReadmeSaysTheSame() throws {
        let source = try String(contentsOfFile: #filePath, encoding: .utf8)
        let lines = source.split(separator: "\n", omittingEmptySubsequences: false)
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let readme = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
        for name in ["README", "More", "Export", "Sharing"] {
            let start = try #require(lines.firstIndex { $0.hasSuffix("// \(name) begins") })
            let end = try #require(lines.firstIndex { $0.hasSuffix("// \(name) ends") })
            let code = lines[(start + 1)..<end].map { $0.hasPrefix("        ") ? $0.dropFirst(8) : $0 }
            #expect(readme.contains(code.joined(separator: "\n") + "\n```"))
        }
    }
}
