// What a hostile user, or an unlucky one, does to a store: nothing is lost, and the program is not ended.

import Annals
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct HostileTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func filled(_ count: Int = 200) throws -> Store {
        let store = try folder.open([Sample.clip])
        for index in 1...count {
            try store.writeOptimistically(author: index % 2 == 0 ? "even" : "odd") { transaction in
                try transaction.insert("Clip", ["title": .string(String(repeating: "\(index) ", count: 30))])
            }
        }
        return store
    }

    /// Under the temporary name of a backup there may be anything: another name of the store, too.
    @Test func aBackupWritesToNoExistingFile() throws {
        let store = try filled()
        let leftover = folder.temporary.path(".copy.annals-backup")
        let copy = folder.temporary.path("copy")
        #expect(link(folder.path, leftover) == 0)
        try store.backup(to: copy)
        #expect(try store.snapshot().count(of: "Clip") == 200)
        // Neither does it keep who may read what is there.
        try folder.temporary.write("something", to: ".third.annals-backup")
        #expect(chmod(folder.temporary.path(".third.annals-backup"), 0o666) == 0)
        try store.backup(to: folder.temporary.path("third"))
        var status = stat()
        #expect(stat(folder.temporary.path("third"), &status) == 0 && status.st_mode & 0o777 == 0o600)
        try store.close()
        for name in ["copy", "third"] {
            let other = try Store(at: folder.temporary.path(name))
            #expect(try other.snapshot().count(of: "Clip") == 200)
            try other.close()
            #expect(unlink(folder.temporary.path(name)) == 0)
        }
        try folder.expectIntact()
    }

    /// The tool reads by copies: a file that becomes shorter under it ends no process by a signal.
    @Test(arguments: [["watch", "--after", "1"], ["history", "--follow"]]) func aTruncatedFileKillsNoTool(
        arguments: [String]
    ) throws {
        try filled().close()
        let tool = try RunningTool([arguments[0], folder.path] + arguments.dropFirst())
        // It watches, and has told of what there is.
        for _ in 1...(arguments[0] == "history" ? 201 : 1) { _ = try #require(tool.line()) }
        #expect(truncate(folder.path, 8192) == 0)
        let run = tool.end()
        #expect(run.signal == nil && (run.status == 65 || run.status == 1), "\(run)")
        #expect(run.errors.hasPrefix("annals: "))
        // What is left is a store that lost what was cut off: it is not this test's to check.
        #expect(unlink(folder.path) == 0)
    }

    @Test func transactionsThatTheStoreHasLostDoNotPassAsItsOwn() throws {
        let store = try filled(3)
        let backup = folder.temporary.path("backup")
        try store.backup(to: backup)
        for index in 1...3 {
            try store.writeOptimistically { try $0.insert("Clip", ["title": .string("lost \(index)")]) }
        }
        let lost = try store.export()
        let replica = try Store(at: folder.temporary.path("replica"))
        for transaction in lost { try replica.apply(transaction) }
        let others = try replica.export()
        try store.close()
        #expect(rename(backup, folder.path) == 0)
        let restored = try folder.open()
        // Those that it has.
        for transaction in lost.dropLast(3) { #expect(try restored.apply(transaction).outcome == .alreadyHere) }
        for transaction in lost.suffix(3) { expect(.originDiverged) { try restored.apply(transaction) } }
        // On the way over another store as well.
        expect(.originDiverged) { for transaction in others { try restored.apply(transaction) } }
        // And where the number was given again.
        try restored.writeOptimistically { try $0.insert("Clip", ["title": "another"]) }
        expect(.originDiverged) { try restored.apply(lost[lost.count - 3]) }
        #expect(try restored.snapshot().count(of: "Clip") == 4)
        try restored.close()
        try replica.close()
        #expect(unlink(folder.temporary.path("replica")) == 0)
        try folder.expectIntact()
    }

    @Test func hidingOneAuthorsHistoryLeavesOtherAuthorsReadable() throws {
        let store = try filled(10)
        let last = try store.currentToken.number
        try store.deleteHistory(before: last, authors: ["odd"])
        expect(.tokenExpired) { try store.history(HistoryRequest(after: .number(0))) }
        expect(.tokenExpired) { try store.history(HistoryRequest(after: .number(0), authors: ["odd", "even"])) }
        // From the beginning of history, what is left.
        #expect(try store.history(HistoryRequest()).count == 6)
        #expect(try store.history(HistoryRequest(authors: ["even"])).count == 5)
        // The schema's transaction has no author.
        #expect(try store.history(HistoryRequest(excludedAuthors: ["odd"])).count == 6)
        let error = #expect(throws: StoreError.self) { try store.history(HistoryRequest(after: .number(0))) }
        let token = try #require(error?.oldestToken)
        #expect(try store.history(HistoryRequest(after: .token(token))).map(\.number) == [last])
        try store.close()
        try folder.expectIntact()
    }
}
