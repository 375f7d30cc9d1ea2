// `annals demo`: an application and its extension on one store, in a folder of its own that is gone afterwards.

internal import Annals
internal import Glibc

extension Command {
    static let demo = Command(
        "demo", "Shows two users of one store following each other's changes.",
        details: """
            Opens one new store twice, as an application and its extension would, in a temporary folder (TMPDIR, or
            else /tmp). Each writes and sees what the other wrote, by history from where it had come to. Ends with
            failure where anything is not as it should be, and removes the folder.
            """, run: DemoCommand.run)
}

enum DemoCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let folder = try makeFolder()
        let path = folder + "/demo.annals"
        defer {
            unlink(path)
            rmdir(folder)
        }
        var failure: ToolFailure?
        do throws(ToolFailure) { try show(path, &output) } catch { failure = error }
        if let failure { throw failure }
        return .done
    }

    private static func makeFolder() throws(ToolFailure) -> String {
        let base = getenv("TMPDIR").flatMap { $0.pointee == 0 ? nil : String(cString: $0) } ?? "/tmp"
        var template = Array((base + "/annals-demo-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw ToolFailure(.failed, "No folder could be made in \(base): \(String(cString: strerror(errno))).")
        }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func show(_ path: String, _ output: inout Output) throws(ToolFailure) {
        let clip = EntityDescription(
            "Clip",
            attributes: [
                AttributeDescription("title", .string, isOptional: false, defaultValue: ""),
                AttributeDescription("url", .string, isUnique: true, isPreservedOnDeletion: true),
                AttributeDescription("rank", .int, isIndexed: true),
            ])
        var options = Store.Options()
        options.reading = .copied
        let (app, helper) = try storing { () throws(StoreError) in
            (
                try Store(at: path, entities: [clip], options: options),
                try Store(at: path, entities: [clip], options: options)
            )
        }
        defer {
            try? app.close()
            try? helper.close()
        }
        var seen = try storing { () throws(StoreError) in try helper.currentToken }

        let first = try attempting {
            try app.commit(author: "app", context: "editor") { transaction in
                try transaction.insert("Clip", ["title": "Swift", "url": "https://swift.org", "rank": 1])
            }
        }.result
        try output.line("app        inserts Clip \(first)")
        try follow(helper, "extension", &seen, expecting: ["insert Clip \(first) by app"], &output)

        var appSeen = seen
        let renamed = try attempting {
            try helper.commit(author: "extension") { transaction in
                try transaction.update(first, ["title": "Swift.org"])
            }
        }.result
        try output.line("extension  changes the title of Clip \(first)")
        try check(renamed, "An update that differs said that it did not.")
        try follow(app, "app", &appSeen, expecting: ["update Clip \(first) (title) by extension"], &output)
        seen = appSeen
        let title = try storing { () throws(StoreError) in try app.snapshot().row(first)?["title"] }
        try check(title == "Swift.org", "The application does not see what the extension wrote.")

        let unchanged = try attempting {
            try app.commit(author: "app") { transaction in try transaction.update(first, ["title": "Swift.org"]) }
        }
        try check(!unchanged.result && unchanged.token == nil, "An update without a difference was written.")
        try output.line("app        writes the same title again: nothing is written")

        try attempting { _ = try app.commit(author: "app") { transaction in try transaction.delete(first) } }
        try output.line("app        deletes Clip \(first)")
        try follow(
            helper, "extension", &seen, expecting: ["delete Clip \(first), was https://swift.org, by app"], &output)
        let left = try storing { () throws(StoreError) in try helper.snapshot().count(of: "Clip") }
        try check(left == 0, "A deleted object is still counted.")
        let size = try storing { () throws(StoreError) in try helper.statistics.endBytes }
        try output.line("Everything is as it should be. One file: \(size) bytes.")
    }

    /// Reads what came after `token`, prints it, and moves the token on.
    private static func follow(
        _ store: Store, _ name: String, _ token: inout HistoryToken, expecting expected: [String],
        _ output: inout Output
    ) throws(ToolFailure) {
        let from = token
        let transactions = try storing { () throws(StoreError) in try store.history(after: from) }
        var found: [String] = []
        for transaction in transactions {
            for change in transaction.changes {
                let attributes = change.attributes.isEmpty ? "" : " (\(change.attributes.joined(separator: ", ")))"
                var line = "\(change.kind.rawValue) \(change.entity) \(change.object)\(attributes)"
                if case .string(let url)? = change.preserved?["url"] { line += ", was \(url)," }
                found.append(line + " by \(transaction.author ?? "nobody")")
            }
            token = transaction.token
        }
        for line in found { try output.line(name.padded(to: 9) + "  sees: " + line) }
        try check(found == expected, "The \(name) sees other changes than were made.")
    }

    private static func check(_ holds: Bool, _ sentence: String) throws(ToolFailure) {
        guard holds else { throw ToolFailure(.failed, sentence) }
    }
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: Swift.max(0, width - count)) }
}
