// `annals demo`: an app, a share extension and an importer as three processes on one store, in a folder that is removed
// afterwards.

internal import Annals
internal import FoundationEssentials
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

enum DemoCommand {
    static let command = Command(
        "demo", "Shows three processes that share a store: objects that change by themselves, observers, cleaning.",
        details: """
            Starts an app, a share extension and a batch importer as three processes on one new store, in the
            folder of an app group below a temporary folder (in TMPDIR, or in /tmp). The app holds objects in a
            context. They show the changes of the other processes, and keep an unsaved edit. Observers get inserted
            clips, and the preserved values of a deleted clip. When all have read it, history is cleaned, and the
            store is compacted. The command fails if anything is wrong, and removes the folder. With ROLE (app, share,
            or import), runs only that process on STORE: use three terminals.
            """, operands: ["[ROLE]", "[STORE]"]
    ) { arguments, output in
        if let name = arguments.operands.first {
            guard let role = DemoRole(rawValue: name), arguments.operands.count == 2 else {
                throw arguments.refusal("demo: ROLE is app, share or import, and STORE is a path.")
            }
            let path = arguments.operands[1]
            // The process that shows all three blocks them for itself.
            Ending.change(SIG_UNBLOCK)
            try ToolTask.wait { try await DemoPlayer(role, path).play() }
            return
        }
        let ending = try Ending.onSignals()
        ending.holdBack()
        let base = (Terminal.environment("TMPDIR") ?? "/tmp") + "/annals-demo-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: base) }
        try FileManager.default.createDirectory(
            atPath: base, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let path = try AppGroup("demo", in: base).storePath(named: "demo")
        output.line("Three processes share \(path).")
        try output.finish()
        let players = try DemoRole.allCases.map { role in try start(role, path) }
        ending.then { for player in players { kill(player, SIGTERM) } }
        // Wait for all, even if one has failed.
        let endings = players.map(status)
        try expect(!ending.isAsked, "The demonstration was interrupted.")
        try expect(endings.allSatisfy { $0 == 0 }, "One of the three processes has failed.")
        try conclude(path, output)
    }

    private static func start(_ role: DemoRole, _ path: String) throws -> pid_t {
        let strings = ["annals", "demo", role.rawValue, path].map { (word: String) in strdup(word) }
        defer { for string in strings { free(string) } }
        var process: pid_t = 0
        let failure = posix_spawn(&process, "/proc/self/exe", nil, nil, strings + [nil], environ)
        try expect(failure == 0, "A process could not be started: \(String(cString: strerror(failure))).")
        return process
    }

    private static func status(of process: pid_t) -> Int32? {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return nil } }
        return status & 0x7F == 0 ? status >> 8 & 0xFF : nil
    }

    /// Examines the result of the three programs, and compacts the store.
    private static func conclude(_ path: String, _ output: Output) throws {
        let store = try StoreAccess.open(path, .readWrite)
        defer { try? store.close() }
        let clips = try store.snapshot().count(of: "Clip")
        let expected = UInt64(1 + DemoModel.shared - 1 + DemoModel.imported)
        try expect(clips == expected, "The store has \(clips) clips instead of \(expected).")
        let first = try store.snapshot().rows(of: "Clip", where: "url", equals: .string(DemoModel.firstURL))
        try expect(first.map { $0["title"] } == [.string(DemoModel.editedTitle)], "The app's title was not saved.")
        try expect(
            try store.consumers.map(\.name).sorted() == ["app", "share"],
            "Not exactly the app and the share extension are consumers of history.")
        let result = try store.compact()
        output.line("Compaction: \(result.bytesBefore) bytes before, \(result.bytesAfter) after.")
        try expect(result.bytesAfter < result.bytesBefore, "Compaction freed nothing.")
        try expect(try store.snapshot().count(of: "Clip") == expected, "Compaction lost clips.")
        try store.close()
        try expect(try Checker.check(path, files: RealFileSystem()).isIntact, "The store is not intact.")
        output.line("Everything is as it should be.")
    }

    static func expect(_ holds: Bool, _ sentence: @autoclosure () -> String) throws {
        if !holds { throw ToolFailure(sentence()) }
    }
}

enum DemoRole: String, CaseIterable {
    case app
    case share
    case importer = "import"
}

enum DemoModel {
    struct Folder: Entity {
        var name = ""
        var clips = ToMany<Clip>()
        static let schema = Schema<Folder> { Attribute(\.name, .unique) }
    }

    struct Clip: Entity {
        var title = ""
        var url = ""
        var rank = 0
        var folder: Reference<Folder>?

        static let schema = Schema<Clip> {
            Attribute(\.url, .unique, .preservedOnDeletion)
            Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .cascade)
        }
    }

    static let (imported, rankings, shared) = (500, 4, 3)
    static let firstURL = "https://swift.org"
    static let editedTitle = "Swift, worth reading"

    static func url(_ author: String, _ number: Int) -> String { "https://example.org/\(author)/\(number)" }
}

actor DemoPlayer {
    private typealias Folder = DemoModel.Folder
    private typealias Clip = DemoModel.Clip

    private let role: DemoRole
    private let store: Store

    init(_ role: DemoRole, _ path: String) throws {
        self.role = role
        var options = Store.Options()
        options.durability = .relaxed
        store = try Store(at: path, entities: [Folder.self, Clip.self], options: options)
    }

    func play() async throws {
        switch role {
        case .app: try await playApp()
        case .share: try await playShare()
        case .importer: try await playImporter()
        }
        try store.close()
    }

    private func playApp() async throws {
        let context = store.makeContext(author: "app", name: "view")
        let folder = context.insert(Folder(name: "Reading"))
        let clip = context.insert(
            Clip(title: "Swift", url: DemoModel.firstURL, rank: 1, folder: folder.objectReference))
        try context.save()
        clip.title = DemoModel.editedTitle
        try say("holds the clip “Swift” of rank 1, and changes its title without saving")

        let (tracker, inserted, deleted) = try track([context], .byNotification(times: 1))
        try await wait("the rank changes") { clip.rank == 5 }
        try say("sees rank 5 in the object that it holds; the title is still “\(clip.title)”")
        try DemoCommand.expect(
            clip.title == DemoModel.editedTitle && clip.objectStatus.isChanged, "The unsaved title was lost.")
        let expected = DemoModel.shared + DemoModel.imported
        try await wait("all clips arrive") { inserted.count >= expected && deleted.count >= 1 }
        try say("has observed \(inserted.count) inserted clips, and the deletion of \(deleted.all.joined())")
        try DemoCommand.expect(
            inserted.count == expected && deleted.all == [DemoModel.url("share", 2)],
            "The observers did not receive the expected changes.")
        try await wait("the folder shows them") { folder.clips.count == expected }
        try say("shows \(folder.clips.count) clips in the folder")
        let saved = try context.save()
        try store.setMetadata(true, for: "demo.done", author: "app")
        try await wait("history is cleaned") { [store] in try store.horizon >= saved.number }
        try say(
            "has saved its title as transaction \(saved.number); all have read that, so history up to there is cleaned")
        await tracker.stop()
    }

    private func playShare() async throws {
        let (tracker, inserted, _) = try track([], .none)
        let folder = try await folder()
        let (first, second) = (DemoModel.firstURL, DemoModel.url("share", 2))
        try await store.write(author: "share") { transaction in
            for clip in try transaction.references(to: Clip.self, where: #Predicate { $0.url == first }) {
                try transaction.update(clip) { $0.rank = 5 }
            }
            for number in 1...DemoModel.shared {
                try transaction.insert(
                    Clip(title: "Shared \(number)", url: DemoModel.url("share", number), folder: folder))
            }
        }
        try say("sets the rank to 5 and inserts \(DemoModel.shared) clips")
        // The app's clip, and those of the importer.
        try await wait("the import is seen") { inserted.count == 1 + DemoModel.imported }
        try say("has observed \(inserted.count) clips of the other processes, and deletes its own second clip")
        try await store.write(author: "share") { transaction in
            for clip in try transaction.references(to: Clip.self, where: #Predicate { $0.url == second }) {
                try transaction.delete(clip)
            }
        }
        try await wait("the app has saved") { [store] in try store.metadata("demo.done", as: Bool.self) == true }
        let last = try store.currentToken
        try await wait("everything is read") { [store] in
            try store.consumer("share").map { $0.cursor >= last } ?? false
        }
        // A transaction by any author is a round of the app, at whose end it cleans.
        try store.setMetadata(true, for: "demo.read", author: "share")
        await tracker.stop()
    }

    private func playImporter() async throws {
        let folder = try await folder()
        let clips = (1...DemoModel.imported).map { number in
            Clip(title: "Imported \(number)", url: DemoModel.url("import", number), rank: number, folder: folder)
        }
        try store.insert(contentsOf: clips, author: "import", contextName: "batch")
        let prefix = String(DemoModel.url("import", 0).dropLast())
        for _ in 1...DemoModel.rankings {
            try store.update(
                Clip.self, where: #Predicate { $0.url.starts(with: prefix) }, author: "import", contextName: "ranking"
            ) { $0.rank += 1 }
        }
        try say("inserts \(clips.count) clips, changes all ranks \(DemoModel.rankings) times, and ends")
    }

    /// Starts a tracker whose observers keep the addresses of inserted and of deleted clips.
    private func track(
        _ contexts: [Context], _ cleaning: HistoryTracker.CleanStrategy
    ) throws -> (HistoryTracker, inserted: Seen, deleted: Seen) {
        let tracker = try HistoryTracker(
            store: store, contexts: contexts, currentAuthor: role.rawValue,
            allAuthors: DemoRole.allCases.map(\.rawValue), batchAuthors: [DemoRole.importer.rawValue],
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
        return try folder.orThrow(ToolFailure("The app has not created its folder."))
    }

    private func wait(_ what: String, _ condition: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !condition() {
            try DemoCommand.expect(ContinuousClock.now < deadline, "\(role.rawValue): it took too long until \(what).")
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    private func say(_ sentence: String) throws {
        let output = Output(.standardOutput)
        let space = String(repeating: " ", count: 8 - role.rawValue.count)
        output.line(role.rawValue + space + sentence)
        try output.finish()
    }
}

private final class Seen: Sendable {
    private let list = Mutex<[String]>([])
    var all: [String] { list.withLock { $0 } }
    var count: Int { list.withLock { $0.count } }
    func add(_ more: [String]) { list.withLock { $0 += more } }
}
