// The three programs that `annals demo` runs on one store: an app, a share extension and an importer.

internal import Annals
internal import FoundationEssentials
internal import Synchronization

/// One of the programs. Each waits for the others, and ends when history is cleaned.
package actor Demonstration {
    package enum Role: String, CaseIterable, Sendable {
        case app
        case share
        case importer = "import"
    }

    private struct Failure: Error, CustomStringConvertible {
        let description: String

        static func unless(_ holds: Bool, _ sentence: @autoclosure () -> String) throws {
            if !holds { throw Failure(description: sentence()) }
        }
    }

    /// How many clips are imported, how often their ranks change, and how many clips are shared.
    private static let (imported, rankings, shared) = (500, 4, 3)
    /// The clips at the end: the app's, and all others but one that is deleted.
    private static let clipsAtTheEnd = 1 + shared - 1 + imported
    private static let editedTitle = "Swift, worth reading"

    private let role: Role
    private let store: Store
    private let say: @Sendable (String) throws -> Void

    /// - Parameter say: Receives a sentence after each step.
    package init(_ role: Role, _ path: String, say: @escaping @Sendable (String) throws -> Void) throws {
        self.role = role
        self.say = say
        var options = Store.Options()
        options.durability = .relaxed
        store = try Store(at: path, entities: [Folder.self, Clip.self], options: options)
    }

    package func run() async throws {
        switch role {
        case .app: try await runApp()
        case .share: try await runShare()
        case .importer: try await runImporter()
        }
        try store.close()
    }

    private func runApp() async throws {
        let context = store.makeContext(author: "app", name: "view")
        let folder = context.insert(Folder(name: "Reading"))
        let clip = context.insert(
            Clip(title: "Swift", url: Clip.firstURL, rank: 1, folder: folder.objectReference))
        try context.save()
        clip.title = Self.editedTitle
        try say("holds the clip “Swift” of rank 1, and changes its title without saving")

        let (tracker, inserted, deleted) = try track([context], .byNotification(times: 1))
        try await wait("the rank changes") { clip.rank == 5 }
        try say("sees rank 5 in the object that it holds; the title is still “\(clip.title)”")
        try Failure.unless(
            clip.title == Self.editedTitle && clip.objectStatus.isChanged, "The unsaved title was lost.")
        let expected = Self.shared + Self.imported
        try await wait("all clips arrive") { inserted.count >= expected && deleted.count >= 1 }
        try say("has observed \(inserted.count) inserted clips, and the deletion of \(deleted.all.joined())")
        try Failure.unless(
            inserted.count == expected && deleted.all == [Clip.url("share", 2)],
            "The observers did not receive the expected changes.")
        try await wait("the folder shows them") { folder.clips.count == expected }
        try say("shows \(folder.clips.count) clips in the folder")
        let saved = try context.save()
        // The share extension waits for the same.
        try store.setMetadata(Int(saved.number), for: "demo.done", author: "app")
        try await wait("history is cleaned") { [store] in try store.horizon >= saved.number }
        try say(
            "has saved its title as transaction \(saved.number); all have read that, so history up to there is cleaned")
        await tracker.stop()
    }

    private func runShare() async throws {
        let (tracker, inserted, _) = try track([], .none)
        let folder = try await folder()
        let (first, second) = (Clip.firstURL, Clip.url("share", 2))
        try await store.write(author: "share") { transaction in
            for clip in try transaction.references(to: Clip.self, where: #Predicate { $0.url == first }) {
                try transaction.update(clip) { $0.rank = 5 }
            }
            for number in 1...Self.shared {
                try transaction.insert(
                    Clip(title: "Shared \(number)", url: Clip.url("share", number), folder: folder))
            }
        }
        try say("sets the rank to 5 and inserts \(Self.shared) clips")
        // The app's clip, and those of the importer.
        try await wait("the import is seen") { inserted.count == 1 + Self.imported }
        try say("has observed \(inserted.count) clips of the other processes, and deletes its own second clip")
        try await store.write(author: "share") { transaction in
            for clip in try transaction.references(to: Clip.self, where: #Predicate { $0.url == second }) {
                try transaction.delete(clip)
            }
        }
        var saved: Int?
        try await wait("the app has saved") { [store] in
            saved = try store.metadata("demo.done", as: Int.self)
            return saved != nil
        }
        // A transaction by any author is a round of the app, and it cleans at the end of some rounds.
        var rounds = 0
        try await wait("history is cleaned") { [store] in
            rounds += 1
            try store.setMetadata(rounds, for: "demo.rounds", author: "share")
            return try store.horizon >= saved ?? 0
        }
        await tracker.stop()
    }

    private func runImporter() async throws {
        let folder = try await folder()
        let clips = (1...Self.imported).map { number in
            Clip(title: "Imported \(number)", url: Clip.url("import", number), rank: number, folder: folder)
        }
        try store.insert(contentsOf: clips, author: "import", contextName: "batch")
        let prefix = String(Clip.url("import", 0).dropLast())
        for _ in 1...Self.rankings {
            try store.update(
                Clip.self, where: #Predicate { $0.url.starts(with: prefix) }, author: "import", contextName: "ranking"
            ) { $0.rank += 1 }
        }
        try say("inserts \(clips.count) clips, changes all ranks \(Self.rankings) times, and ends")
    }

    /// Starts a tracker whose observers keep the addresses of inserted and of deleted clips.
    private func track(
        _ contexts: [Context], _ cleaning: HistoryTracker.CleanStrategy
    ) throws -> (HistoryTracker, inserted: Seen, deleted: Seen) {
        let tracker = try HistoryTracker(
            store: store, contexts: contexts, currentAuthor: role.rawValue,
            allAuthors: Role.allCases.map(\.rawValue), batchAuthors: [Role.importer.rawValue],
            cleanStrategy: cleaning, logLevel: 0)
        let (inserted, deleted) = (Seen(), Seen())
        tracker.observe(Clip.self, [.insert]) { changes in inserted.add(changes.map { $0.after?.url ?? "-" }) }
        tracker.observe(Clip.self, [.delete]) { changes in deleted.add(changes.map { $0.tombstone?[\.url] ?? "-" }) }
        return (tracker, inserted, deleted)
    }

    /// The folder, as soon as the app has made it.
    private func folder() async throws -> Reference<Folder> {
        var folder: Reference<Folder>?
        try await wait("the app has created its folder") {
            folder = try store.snapshot().references(to: Folder.self).first
            return folder != nil
        }
        guard let folder else { throw Failure(description: "The app has not created its folder.") }
        return folder
    }

    /// Examines the store after the three programs, and compacts it.
    package static func examine(_ path: String, say: (String) -> Void) throws {
        let store = try Store(at: path, entities: [Folder.self, Clip.self])
        defer { try? store.close() }
        let clips = try store.snapshot().count(Clip.self)
        try Failure.unless(clips == clipsAtTheEnd, "The store has \(clips) clips instead of \(clipsAtTheEnd).")
        let url = Clip.firstURL
        let first = try store.snapshot().fetch(Clip.self, where: #Predicate { $0.url == url })
        try Failure.unless(first.map(\.title) == [editedTitle], "The app's title was not saved.")
        try Failure.unless(
            try store.consumers.map(\.name).sorted() == ["app", "share"],
            "Not exactly the app and the share extension are consumers of history.")
        let result = try store.compact()
        say("Compaction: \(result.bytesBefore) bytes before, \(result.bytesAfter) after.")
        try Failure.unless(result.bytesAfter < result.bytesBefore, "Compaction freed nothing.")
        try Failure.unless(try store.snapshot().count(Clip.self) == clipsAtTheEnd, "Compaction lost clips.")
        try store.close()
        try Failure.unless(try Checker.check(path, files: RealFileSystem()).isIntact, "The store is not intact.")
        say("Everything is as it should be.")
    }

    /// Looks again and again, so that it needs nothing of what is shown here.
    private func wait(_ what: String, _ condition: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !condition() {
            try Failure.unless(ContinuousClock.now < deadline, "\(role.rawValue): it took too long until \(what).")
            try await Task.sleep(for: .milliseconds(2))
        }
    }
}

private final class Seen: Sendable {
    private let list = Mutex<[String]>([])
    var all: [String] { list.withLock { $0 } }
    var count: Int { list.withLock { $0.count } }
    func add(_ more: [String]) { list.withLock { $0 += more } }
}
