// A backup is put back while programs follow the store: all of them go on, or all of them throw the same error.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct RestoredStoreTests {
    let folder: StoreFolder
    static let entities: [any Entity.Type] = [Group.self, Note.self, Label.self]

    init() throws { folder = try StoreFolder() }

    enum Way: CaseIterable {
        /// The backup takes the name at once.
        case renamedOver
        /// The store is moved away first, so there is no file of that name for a moment.
        case movedAway
    }

    /// Those who follow a store, each in a way of its own, and what they have shown.
    @MainActor private final class Followers {
        let contexts: [Context]
        let lists: [Results<Note>]
        let store: Store
        private(set) var shown: [String: [String]] = [:]
        private(set) var errors: [String: StoreError.Code] = [:]
        private var tasks: [Task<Void, Never>] = []

        init(_ store: Store) throws {
            self.store = store
            contexts = [store.makeContext(author: "a"), store.makeContext(author: "b")]
            lists = try contexts.map { try $0.results(Note.self) }
            try contexts[0].follow()
            let (context, results) = (contexts[1], store.results(Note.self))
            watch("following") { try await context.followUntilCancelled() }
            watch("results") { [weak self] in
                for try await update in results { self?.shown["results"] = update.values.map(\.title) }
            }
            let changes = try store.changes()
            watch("changes") { [weak self] in
                for try await _ in changes {
                    self?.shown["changes"] = try store.snapshot().fetch(Note.self).map(\.title)
                }
            }
        }

        private func watch(_ name: String, _ body: @escaping @MainActor () async throws -> Void) {
            tasks.append(
                Task { [weak self] in
                    do { try await body() } catch { self?.errors[name] = (error as? StoreError)?.code }
                })
        }

        var all: [String: [String]] {
            shown.merging(["follow": lists[0].map(\.title), "following": lists[1].map(\.title)]) { $1 }
        }

        var allErrors: [String: StoreError.Code] {
            var all = errors
            if let error = contexts[0].followError { all["follow"] = error.code }
            return all
        }

        func end() async {
            contexts[0].stopFollowing()
            for task in tasks { task.cancel() }
            for task in tasks { await task.value }
        }
    }

    private func restore(_ way: Way, _ backup: String) {
        if way == .movedAway { rename(folder.path, folder.path + ".old") }
        rename(backup, folder.path)
    }

    @MainActor @Test(arguments: Way.allCases)
    func followersContinueWithABackupThatHasAllTheyHaveSeen(_ way: Way) async throws {
        let store = try Store(at: folder.path, entities: Self.entities)
        let followers = try Followers(store)
        try await Store(at: folder.path, entities: Self.entities).write { try $0.insert(Note(title: "one")) }
        let names = ["follow", "following", "results", "changes"]
        while !names.allSatisfy({ followers.all[$0] == ["one"] }) { try await Task.sleep(for: .milliseconds(1)) }
        let backup = folder.path + ".copy"
        try store.backup(to: backup)
        restore(way, backup)
        let other = try Store(at: folder.path, entities: Self.entities)
        try await other.write { try $0.insert(Note(title: "two")) }
        while !names.allSatisfy({ followers.all[$0] == ["one", "two"] }) {
            #expect(followers.allErrors.isEmpty)
            if !followers.allErrors.isEmpty { break }
            try await Task.sleep(for: .milliseconds(1))
        }
        // Its own commits are in the same file.
        try await store.write { try $0.insert(Note(title: "three")) }
        #expect(try other.snapshot().fetch(Note.self).map(\.title) == ["one", "two", "three"])
        #expect(followers.allErrors.isEmpty)
        await followers.end()
        for context in followers.contexts { context.close() }
        for store in [store, other] { try store.close() }
        unlink(folder.path + ".old")
        try folder.expectIntact()
    }

    /// Reading looks only once a second which file has the store's name. A backup looks at once.
    @Test func aBackupIsOfTheFileThatWasPutBack() throws {
        let store = try Store(at: folder.path, entities: Self.entities)
        try store.write { try $0.insert(Note(title: "one")) }
        for turn in 0..<3 {
            try store.backup(to: folder.path + ".copy")
            restore(.renamedOver, folder.path + ".copy")
            let other = try Store(at: folder.path, entities: Self.entities)
            try other.write { try $0.insert(Note(title: "turn \(turn)")) }
            try other.close()
        }
        try store.backup(to: folder.path + ".copy")
        let copy = try Store(at: folder.path + ".copy")
        #expect(try copy.snapshot().count(of: "Note") == 4)
        try copy.close()
        unlink(folder.path + ".copy")
        // Of a file that was removed, there is nothing but what this handle has.
        let kept = try store.snapshot().count(Note.self)
        rename(folder.path, folder.path + ".away")
        try store.backup(to: folder.path + ".copy")
        rename(folder.path + ".copy", folder.path)
        unlink(folder.path + ".away")
        let last = try Store(at: folder.path, entities: Self.entities)
        #expect(try last.snapshot().count(Note.self) == kept && kept == 4)
        try last.close()
        try? store.close()
        try folder.expectIntact()
    }

    /// The backup has all that the tracker has seen, but the tracker's cursors stand in it where they stood before.
    @MainActor @Test(arguments: Way.allCases) func aTrackerContinuesWithABackupThatHasOlderCursors(_ way: Way)
        async throws
    {
        let store = try Store(at: folder.path, entities: Self.entities)
        let backup = folder.path + ".copy"
        let calls = Guarded<[String]>([])
        let tracker = try HistoryTracker(store: store, contexts: [], currentAuthor: "app", allAuthors: [], logLevel: 0)
        tracker.observe(Note.self, [.insert]) { changes in
            for change in changes { calls.withLock { $0.append(change.after?.title ?? "-") } }
        }
        tracker.observeInTransaction(Note.self, [.insert], name: "labels") { changes, transaction in
            for change in changes { try transaction.insert(Label(name: change.after?.title ?? "-")) }
        }
        // After the observers, and before the tracker's cursor moves.
        tracker.registerMergeHook { _ in
            if calls.withLock({ $0 }) == ["one"] { try store.backup(to: backup) }
            return .goOn
        }
        tracker.start()
        let hasReadAll = { (store: Store) in try store.consumers.allSatisfy { try $0.cursor == store.currentToken } }
        try await eventually { try store.consumers.count == 2 }
        let first = try Store(at: folder.path, entities: Self.entities)
        try await first.write(author: "other") { try $0.insert(Note(title: "one")) }
        try await eventually { try calls.withLock { $0 } == ["one"] && hasReadAll(first) }
        restore(way, backup)
        let other = try Store(at: folder.path, entities: Self.entities)
        #expect(try !hasReadAll(other))
        for title in ["two", "three"] {
            try await other.write(author: "other") { try $0.insert(Note(title: title)) }
            try await eventually { tracker.state != .running || calls.withLock { $0 }.last == title }
        }
        try await eventually { try tracker.state != .running || hasReadAll(other) }
        #expect(tracker.state == .running, "\(tracker.state) \(tracker.metrics)")
        #expect(calls.withLock { $0 } == ["one", "two", "three"])
        #expect(try store.snapshot().fetch(Label.self).map(\.name) == ["one", "two", "three"])
        await tracker.stop()
        for store in [store, first, other] { try store.close() }
        unlink(folder.path + ".old")
        try folder.expectIntact()
    }

    @MainActor @Test(arguments: Way.allCases)
    func followersEndWithTheSameErrorForAnOlderBackup(_ way: Way) async throws {
        let store = try Store(at: folder.path, entities: Self.entities)
        let backup = folder.path + ".copy"
        try store.backup(to: backup)
        let followers = try Followers(store)
        try await Store(at: folder.path, entities: Self.entities).write { try $0.insert(Note(title: "one")) }
        let names = ["follow", "following", "results", "changes"]
        while !names.allSatisfy({ followers.all[$0] == ["one"] }) { try await Task.sleep(for: .milliseconds(1)) }
        restore(way, backup)
        let other = try Store(at: folder.path, entities: Self.entities)
        try await other.write { try $0.insert(Note(title: "two")) }
        while followers.allErrors.count < names.count { try await Task.sleep(for: .milliseconds(1)) }
        let code = expect(.storeReplaced) { try store.write { try $0.insert(Note(title: "three")) } }?.code
        #expect(followers.allErrors == Dictionary(uniqueKeysWithValues: names.map { ($0, code) }))
        await followers.end()
        for context in followers.contexts { context.close() }
        try? store.close()
        #expect(try other.snapshot().fetch(Note.self).map(\.title) == ["two"])
        try other.close()
        unlink(folder.path + ".old")
        try folder.expectIntact()
    }
}
