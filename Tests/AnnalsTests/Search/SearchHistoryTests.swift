// The steps of a search index in history: only requests that name their author get them.

import Annals
import TestSupport
import Testing

@Suite struct SearchHistoryTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [SearchNote.self], options: Store.Options(durability: .relaxed))
    }

    private func authors(_ request: HistoryRequest = HistoryRequest()) throws -> [String?] {
        try store.history(request).map(\.author)
    }

    private func insert(by author: String) throws {
        try store.write(author: author) { transaction in
            var note = SearchNote()
            note.title = "swift"
            _ = try transaction.insert(note)
        }
    }

    @Test func stepsOfAnIndexAreListedForThoseWhoNameTheirAuthor() throws {
        try insert(by: "app")
        try store.updateSearchIndexes()
        try insert(by: "app")
        let author = "_annals.search"
        #expect(try authors().compactMap(\.self) == ["app", "app"])
        #expect(try Set(authors(HistoryRequest(authors: [author]))) == [author])
        #expect(try store.history(after: 0).contains { $0.author == author })
        try end()
    }

    @Test func noSignalAnnouncesThem() throws {
        let watcher = try store.changeWatcher(excluding: [])
        try insert(by: "app")
        #expect(try watcher.next()?.authors == ["app"])
        try store.updateSearchIndexes()
        #expect(try watcher.next(timeout: .zero) == nil)
        #expect(try watcher.position == store.snapshot().token.number)
        try insert(by: "app")
        #expect(try watcher.next()?.authors == ["app"])
        try end()
    }

    @Test func theirAuthorHidesNothingElse() throws {
        try insert(by: "app")
        try store.updateSearchIndexes()
        try insert(by: "_annals.search")
        #expect(try authors().compactMap(\.self) == ["app", "_annals.search"])
        let watcher = try store.changeWatcher(after: .oldest)
        #expect(try watcher.next()?.authors == ["_annals.search", "app"])
        try end()
    }

    @Test func anExportIsWhole() throws {
        try insert(by: "app")
        try store.updateSearchIndexes()
        try insert(by: "app")
        try store.updateSearchIndexes()
        let other = try Store(inMemory: [SearchNote.self])
        for transaction in try store.export(after: .number(0)) { _ = try other.apply(transaction) }
        #expect(try other.snapshot().searchCount(SearchNote.self, for: "swift") == 2)
        try end()
    }

    /// It was one state of all objects, because the index has no history.
    @Test func anExportOfEverythingHasTheHistory() throws {
        for author in ["app", "share", "app"] {
            try insert(by: author)
            try store.updateSearchIndexes()
        }
        let exported = try store.export()
        #expect(exported.filter { !$0.changes.isEmpty }.map(\.author) == ["app", "share", "app"])
        let other = try Store(inMemory: [SearchNote.self])
        for transaction in exported { _ = try other.apply(transaction) }
        #expect(try other.snapshot().searchCount(SearchNote.self, for: "swift") == 3)
        #expect(try other.history(HistoryRequest()).compactMap(\.author) == ["app", "share", "app"])
        try end()
    }

    /// It removed everything, because the reader of the index had read it.
    @Test func withoutAnotherReaderCleaningKeepsWhatRetentionKeeps() throws {
        for _ in 0..<3 {
            try insert(by: "app")
            try store.updateSearchIndexes()
        }
        #expect(try store.clean().transactions == 0 && store.horizon == 0)
        #expect(try authors().compactMap(\.self) == ["app", "app", "app"])
        let reader = try store.registerConsumer("reader")
        try insert(by: "app")
        // It waits for the reader of the index, too.
        try store.advanceConsumer("reader", from: reader.cursor, to: store.currentToken)
        func place(_ name: String) throws -> UInt64 { try #require(try store.consumer(name)).cursor.number }
        #expect(try place("_annals.search") < place("reader"))
        try store.clean()
        #expect(try store.horizon == place("_annals.search"))
        try store.updateSearchIndexes()
        #expect(try place("_annals.search") >= place("reader"))
        try store.clean()
        #expect(try store.horizon == place("reader") && authors().isEmpty)
        try end()
    }

    /// A reader has nothing to read if only these follow its place.
    @Test func readersHaveReadThem() throws {
        try store.registerConsumer("reader", at: .oldest)
        try insert(by: "app")
        let read = try store.currentToken
        try store.updateSearchIndexes()
        func lags() throws -> [UInt64] { try ["reader", "_annals.search"].compactMap { try store.consumer($0)?.lag } }
        #expect(try lags()[0] > 0 && lags()[1] == 0 && store.cleaningPlan().waitingFor.map(\.name) == ["reader"])
        try store.resetConsumer("reader", to: read)
        #expect(try store.currentToken > read && lags() == [0, 0] && store.cleaningPlan().waitingFor.isEmpty)
        try insert(by: "app")
        #expect(try lags().allSatisfy { $0 > 0 } && store.cleaningPlan().waitingFor.count == 2)
        try store.deleteHistory(before: store.currentToken.number + 1)
        #expect(try store.consumer("reader")?.isLost == true && lags()[0] > 0)
        try end()
    }

    /// A program may take the newest token for that of its own transaction: the error explains the mistake.
    @Test func aStepIsNotUndone() throws {
        try insert(by: "app")
        let token = try store.currentToken
        try store.updateSearchIndexes()
        let step = try store.currentToken
        #expect(step > token)
        #expect(expect(.notRevertible) { try store.revert(step) }?.message.contains("search index") == true)
        try store.deleteHistory(before: step.number)
        try store.compact()
        expect(.notRevertible) { try store.revert(step) }
        try end()
    }

    /// -1 is the transaction before the last one that anybody has made.
    @Test(arguments: [0, 1, 7]) func countingBackLeavesThemOut(cleaned: Int) throws {
        var random = SeededRandom(UInt64(cleaned))
        for _ in 0..<20 { if random.happens(0.6) { try insert(by: "app") } else { try store.updateSearchIndexes() } }
        let all = try store.history(HistoryRequest()).map(\.number)
        if cleaned > 0 { try store.deleteHistory(before: all[cleaned]) }
        let (listed, horizon) = (try store.history(HistoryRequest()).map(\.number), try store.horizon)
        #expect(try store.number(back: 0) == store.currentToken.number)
        for (back, number) in listed.reversed().enumerated().dropFirst() {
            #expect(try store.number(back: UInt64(back)) == number, "\(back) of \(listed)")
        }
        for more in 0...horizon {
            #expect(try store.number(back: UInt64(listed.count) + more) == horizon - more, "\(more)")
        }
        expect(.tokenUnknown) { try store.number(back: UInt64(listed.count) + horizon + 1) }
        try end()
    }
}
