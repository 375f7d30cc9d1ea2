// `idle STORE`: a tracker, a context, live results and an observer that have nothing to do.

import Annals
import Glibc

/// Says so when they have followed one change, and then waits until the process is killed.
actor IdleTracker {
    struct Note: Entity { var rank = 0 }

    private let store: Store

    private init(_ path: String) throws { store = try Store(at: path, entities: [Note.self]) }

    static func run(_ path: String) throws {
        Task {
            do {
                try await IdleTracker(path).follow()
            } catch {
                Lines.write("process-helper idle: \(error)\n", to: 2)
                exit(1)
            }
        }
        while true { pause() }
    }

    private func follow() async throws {
        let context = store.makeContext(author: "app")
        let following = store.makeContext(author: "app")
        try following.follow()
        let tracker = try HistoryTracker(
            store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share"],
            cleanStrategy: .byDuration(seconds: 1), logLevel: 0)
        tracker.observe(Note.self, [.insert]) { _ in }
        let results = try context.results(Note.self)
        let updates = Task { [store] in
            for try await update in store.results(Note.self) where !update.values.isEmpty {
                Lines.write("seen\n", to: 1)
            }
        }
        try store.insert(contentsOf: [Note(rank: 1)], author: "share")
        while try results.isEmpty || following.count(Note.self) == 0 { try await Task.sleep(for: .milliseconds(1)) }
        Lines.write("idle\n", to: 1)
        try await updates.value
        await tracker.stop()
    }
}
