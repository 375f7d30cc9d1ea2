// A tracker whose bodies get what named contexts of its own program did: all of it, once, and nothing that the bodies
// wrote themselves.

import Annals
import Synchronization
import TestSupport
import Testing

private struct Entry: Entity {
    var text = ""
}

@Suite struct OwnContextTests {
    private let folder: StoreFolder
    private let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Entry.self])
    }

    private func write(_ text: String, by author: String? = "app", in context: String?) throws {
        try store.write(author: author, contextName: context) { _ = try $0.insert(Entry(text: text)) }
    }

    /// Transactions by each author in each context; returns the texts.
    @discardableResult
    private func writeAll(_ round: Int) throws -> [String] {
        var texts: [String] = []
        for author in ["app", "share", "other", nil] as [String?] {
            for name in ["window", "import", "observer", nil] as [String?] {
                let text = "\(author ?? "-") \(name ?? "-") \(round)"
                try write(text, by: author, in: name)
                texts.append(text)
            }
        }
        return texts
    }

    @Test(
        arguments: [[], ["app"], ["share"], ["app", "share"]],
        [[], ["import"], ["import", "observer", "deduplicator"]])
    func bodiesGetChangesOfOwnContextsAndOtherAuthors(_ authors: [String], _ own: [String]) async throws {
        let seen = Mutex<[String]>([])
        let hooked = Mutex<[String]>([])
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: authors, ownContexts: own, logLevel: 0, autoStart: false,
            deduplicator: { transactions, context in
                if transactions.contains(where: { $0.author == "share" }) { context.insert(Entry(text: "dedup")) }
            })
        tracker.observe(Entry.self, [.insert]) { changes in
            let texts = changes.compactMap(\.after?.text)
            seen.withLock { $0 += texts }
        }
        // Writes under the name of a context that is observed, perhaps.
        tracker.observeInTransaction(Entry.self, [.insert], name: "observer") { changes, transaction in
            guard changes.contains(where: { $0.after?.text.hasPrefix("share import") ?? false }) else { return }
            _ = try transaction.insert(Entry(text: "written"))
        }
        tracker.registerMergeHook { transactions in
            // Declaring the entities is a transaction, too.
            let names = transactions.filter { !$0.changes.isEmpty }.map {
                "\($0.author ?? "-") \($0.contextName ?? "-")"
            }
            hooked.withLock { $0 += names }
            return .goOn
        }
        var expected: [String] = []
        for round in 0..<2 {
            expected += try writeAll(round).filter { text in
                let parts = text.split(separator: " ").map(String.init)
                if parts[0] == "app" { return parts[1] == "import" && own.contains("import") }
                return authors.isEmpty || authors.contains(parts[0])
            }
            if round == 0 { tracker.start() }
        }
        let last = try store.currentToken
        while try store.consumer("app").map({ $0.cursor.number < last.number }) ?? true {
            try await Task.sleep(for: .milliseconds(2))
        }
        await tracker.stop()
        #expect(seen.withLock { $0 } == expected)
        #expect(hooked.withLock { $0 } == expected.map { $0.split(separator: " ").prefix(2).joined(separator: " ") })
        let texts = try store.snapshot().fetch(Entry.self).map(\.text)
        let isSeen = authors.isEmpty || authors.contains("share")
        #expect(texts.count { $0 == "written" } == (isSeen ? 2 : 0))
        #expect(texts.contains("dedup") == isSeen)
        try store.close()
        try folder.expectIntact()
    }

    /// What cannot be delivered is replayed by the same rule.
    @Test func parkedWorkOfAnOwnContextIsReplayed() async throws {
        let fails = Mutex(true)
        let seen = Mutex<[String]>([])
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app"], ownContexts: ["import"], logLevel: 0,
            autoStart: false)
        tracker.observe(Entry.self, [.insert], name: "list") { changes in
            if fails.withLock({ $0 }) { throw OracleDifference("not yet") }
            let texts = changes.compactMap(\.after?.text)
            seen.withLock { $0 += texts }
        }
        try write("imported", in: "import")
        try write("typed", in: "window")
        tracker.start()
        while try tracker.parked.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
        await tracker.stop()
        fails.withLock { $0 = false }
        let parked = try tracker.parked
        #expect(parked.count == 1)
        for work in parked { try await tracker.replay(work) }
        #expect(try seen.withLock { $0 } == ["imported"] && tracker.parked.isEmpty)
        try store.close()
        try folder.expectIntact()
    }

    private enum Author: String, CaseIterable { case app, share }

    @MainActor @Test func authorsCanBeCasesOfAnEnumeration() async throws {
        let context = store.makeContext(author: Author.share)
        let tracker = try HistoryTracker(
            store: store, contexts: [context], currentAuthor: Author.app, allAuthors: Author.allCases,
            batchAuthors: [.share], logLevel: 0, autoStart: false)
        context.insert(Entry(text: "shared"))
        try context.save()
        let plain = try HistoryTracker(
            store: store, currentAuthor: Author.share, allAuthors: Author.allCases, logLevel: 0, autoStart: false)
        #expect(try store.history(after: 0).compactMap(\.author) == ["share"])
        tracker.start()
        while try store.consumer("app")?.cursor != store.currentToken { try await Task.sleep(for: .milliseconds(2)) }
        await tracker.stop()
        await plain.stop()
        context.close()
        try store.close()
        try folder.expectIntact()
    }
}
