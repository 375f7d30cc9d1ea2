// The README's quick start, as it stands there: it compiles, runs and says what it promises.

import Annals
import FoundationEssentials
import Testing

@Suite struct QuickStartTests {
    @Test func theQuickStartRuns() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("notes.annals")
        try Self.quickStart(path)
        let store = try Store(at: path)
        #expect(try store.snapshot().rows(of: "Note").map { $0["rank"] } == [.int(4)])
        try store.close()
    }

    /// The lines between the markers are the README's.
    static func quickStart(_ path: String) throws {
        // README begins
        let note = EntityDescription(
            "Note",
            attributes: [
                AttributeDescription("title", .string, isOptional: false, isUnique: true),
                AttributeDescription("rank", .int, isIndexed: true),
            ])
        let store = try Store(at: path, entities: [note])

        let (id, _) = try store.commit(author: "app") { transaction in
            try transaction.insert("Note", ["title": "Swift", "rank": 3])
        }
        try store.commit(author: "app") { try $0.update(id, ["rank": 4]) }

        print(try store.snapshot().row(id)?["rank"] ?? .absent)
        for transaction in try store.history(after: 0) where transaction.author == "app" {
            print(transaction.number, transaction.changes.map(\.kind))
        }
        try store.close()
        // README ends
    }

    @Test func theReadmeSaysTheSame() throws {
        let source = try String(contentsOfFile: #filePath, encoding: .utf8)
        let lines = source.split(separator: "\n", omittingEmptySubsequences: false)
        guard let start = lines.firstIndex(where: { $0.hasSuffix("// README begins") }),
            let end = lines.firstIndex(where: { $0.hasSuffix("// README ends") })
        else { preconditionFailure("The markers are in this file.") }
        let code = lines[(start + 1)..<end].map { $0.hasPrefix("        ") ? $0.dropFirst(8) : $0 }.joined(
            separator: "\n")
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let readme = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
        #expect(readme.contains("```swift\nimport Annals\n\n" + code + "\n```"))
    }
}
