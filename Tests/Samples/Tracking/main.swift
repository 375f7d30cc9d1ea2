// tracking STORE app|share|import: the README's third program as an app, with a share extension and an importer.

import Annals
import FoundationEssentials

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
        Attribute(\.rank, .indexed)
        Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .cascade)
    }
}

struct TooLate: Error {}

/// Looks again and again, so that it needs nothing of what is shown here.
@MainActor func wait(until condition: () throws -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(300)
    while try !condition() {
        guard ContinuousClock.now < deadline else { throw TooLate() }
        try await Task.sleep(for: .milliseconds(1))
    }
}

@MainActor func folder() async throws -> Reference<Folder> {
    var found: Reference<Folder>?
    try await wait {
        found = try store.snapshot().references(to: Folder.self).first
        return found != nil
    }
    guard let found else { throw TooLate() }
    return found
}

/// Adds clips, and goes on changing one of them until history is cleaned.
@MainActor func share() async throws {
    let tracker = try HistoryTracker(
        store: store, currentAuthor: "share", allAuthors: ["app", "share", "import"], batchAuthors: ["import"])
    let folder = try await folder()
    let (first, _) = try await store.write(author: "share") { transaction in
        try (1...3).map { try transaction.insert(Clip(title: "Shared", url: "share:\($0)", folder: folder)) }[0]
    }
    try await wait {
        try store.write(author: "share") { try $0.update(first) { $0.rank += 1 } }
        return try store.horizon > 0
    }
    await tracker.stop()
}

/// Adds clips at once, and never reads.
@MainActor func importClips() async throws {
    let folder = try await folder()
    let clips = (1...100).map { Clip(title: "Imported", url: "import:\($0)", rank: $0, folder: folder) }
    try store.insert(contentsOf: clips, author: "import")
}

let store = try Store(at: CommandLine.arguments[1], entities: [Folder.self, Clip.self])
switch CommandLine.arguments[2] {
case "share": try await share()
case "import": try await importClips()
default: try await app()
}
try store.close()

@MainActor func app() async throws {
    let context = store.makeContext(author: "app")
    let tracker = try HistoryTracker(
        store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share", "import"],
        batchAuthors: ["import"], cleanStrategy: .byNotification(times: 10))
    tracker.observe(Clip.self, [.insert]) { changes in print(changes.count, "new clips") }
    // Objects of `context` now follow other writers, and history is removed when all have read it.
    let reading = context.insert(Folder(name: "Reading"))
    try context.save()
    reading.name = "Not saved"
    try await wait { reading.clips.count == 103 && reading.clips.contains { $0.rank > 0 && $0.title == "Shared" } }
    try await wait { try store.horizon > 0 }
    await tracker.stop()
    print(reading.name, reading.clips.count, context.hasChanges)
}
