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
}
