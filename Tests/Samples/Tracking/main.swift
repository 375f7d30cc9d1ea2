// tracking STORE app|share|import: the README's third program as an app, with the share extension and the importer of
// `annals demo`.

import Annals
import AnnalsDemo

struct TooLate: Error {}

/// Looks again and again, so that it needs nothing of what is shown here.
@MainActor func wait(until condition: () throws -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(300)
    while try !condition() {
        guard ContinuousClock.now < deadline else { throw TooLate() }
        try await Task.sleep(for: .milliseconds(1))
    }
}

@MainActor func app(_ store: Store) async throws {
    let context = store.makeContext(author: "app")
    let tracker = try HistoryTracker(
        store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share", "import"],
        batchAuthors: ["import"], cleanStrategy: .byNotification(times: 10))
    tracker.observe(Clip.self, [.insert]) { changes in print(changes.count, "new clips") }
    // Objects of `context` now follow other writers, and history is removed when all have read it.
    let reading = context.insert(Folder(name: "Reading"))
    let clip = context.insert(Clip(title: "Swift", url: Clip.firstURL, folder: reading.objectReference))
    try context.save()
    reading.name = "Not saved"
    // The importer's 500, and two of the three that are shared: the share extension deletes one.
    try await wait { clip.rank == 5 && reading.clips.count == 503 }
    let number = try store.currentToken.number
    try store.setMetadata(Int(number), for: "demo.done", author: "app")
    try await wait { try store.horizon >= number }
    await tracker.stop()
    print(reading.name, reading.clips.count, context.hasChanges)
}

let (path, name) = (CommandLine.arguments[1], CommandLine.arguments[2])
if name == "app" {
    let store = try Store(at: path, entities: [Folder.self, Clip.self])
    try await app(store)
    try store.close()
} else if let role = Demonstration.Role(rawValue: name) {
    try await Demonstration(role, path) { _ in }.run()
}
