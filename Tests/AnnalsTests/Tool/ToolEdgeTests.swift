// What the tool does at the edges: names and texts that dumps cannot print as they are, outputs that fail, names that
// are taken.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ToolEdgeTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func load(_ lines: String, into path: String, _ options: String...) throws -> ToolRun {
        try runTool(["load", path, "-", "--entity", "Item"] + options, input: lines)
    }

    // MARK: Dumps that can be loaded

    /// The dump of the store loads as the same values, and its dump is the same.
    private func expectRoundTrip(_ first: String) throws {
        let other = try StoreFolder()
        let loaded = try load(first, into: other.path)
        #expect(loaded.status == 0, "\(loaded.errors)")
        #expect(try runTool(["dump", other.path, "--bare"]).output == first)
    }

    @Test func textThatIsNotJSONDiffersFromAString() throws {
        let item = EntityDescription("Item", attributes: [AttributeDescription("j", .json)])
        let store = try folder.open([item])
        let texts = ["not json", "\"text\"", "{\"_notJSON\":\"x\"}", "{\"_notJSON\":1}", "{\"a\": 1}", ""]
        _ = try store.write { transaction in
            for text in texts { _ = try transaction.insert("Item", ["j": .json(text)]) }
        }
        try store.close()
        let dump = try runTool(["dump", folder.path, "--bare"]).output
        #expect(
            dump == """
                {"j":{"_notJSON":"not json"}}
                {"j":"text"}
                {"j":{"_notJSON":"{\\"_notJSON\\":\\"x\\"}"}}
                {"j":{"_notJSON":1}}
                {"j":{"a": 1}}
                {"j":{"_notJSON":""}}

                """)
        let other = try StoreFolder()
        let copy = try other.open([item])
        try copy.close()
        #expect(try load(dump, into: other.path).status == 0)
        let reader = try other.open()
        let snapshot = try reader.snapshot()
        var read: [Value] = []
        let handle = try snapshot.entity("Item")
        try snapshot.forEachRow(of: handle) { (row) throws(StoreError) in
            read.append(try row.value(at: 0))
            return true
        }
        #expect(read == texts.map { .json($0) })
        try reader.close()
    }

    @Test func attributesNamedLikeTheToolsOwnMembersGetAPrefix() throws {
        let item = EntityDescription(
            "Item",
            attributes: ["_id", "__id", "_entity", "_ids"].map { AttributeDescription($0, .int) })
        let store = try folder.open([item])
        _ = try store.write { try $0.insert("Item", ["_id": 1, "__id": 2, "_entity": 3, "_ids": 4]) }
        try store.close()
        #expect(
            try runTool(["dump", folder.path]).output
                == "{\"_entity\":\"Item\",\"_id\":\"1:1\",\"__id\":1,\"___id\":2,\"__entity\":3,\"_ids\":4}\n")
        #expect(
            try runTool(["dump", folder.path, "--format", "csv"]).output.hasPrefix(
                "_entity,_id,__id,___id,__entity,_ids\n"))
        let bare = try runTool(["dump", folder.path, "--bare"]).output
        #expect(bare == "{\"__id\":1,\"___id\":2,\"__entity\":3,\"_ids\":4}\n")
        try expectRoundTrip(bare)
        // A whole dump is still refused, in words that help.
        #expect(try load("{\"_id\":\"1:1\"}", into: folder.path).errors.contains("--bare"))
    }

    // MARK: Names that are taken

    @Test func aDirectoryInTheWayIsNamed() throws {
        let store = try folder.open([Sample.clip])
        _ = try store.write { try $0.insert("Clip", ["rank": 1]) }
        try store.close()
        for (name, arguments) in [
            ("s.annals.compacting", ["compact", folder.path]),
            (".copy.annals-backup", ["backup", folder.path, folder.temporary.path("copy")]),
            (".new.annals-salvage", ["salvage", folder.path, folder.temporary.path("new")]),
        ] {
            let path = folder.temporary.path(name)
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            let run = try runTool(arguments)
            #expect(run.status == 1 && run.errors.contains("“\(name)”"), "\(run.errors)")
            #expect(run.errors.contains("directory") && run.errors.contains("move it away"), "\(run.errors)")
            rmdir(path)
            #expect(try runTool(arguments).status == 0)
        }
    }

    // MARK: Lines and outputs

    @Test(arguments: [false, true]) func aLineOfTooManyAttributesIsNamed(fromFile: Bool) throws {
        let members = (0...1000).map { "\"a\($0)\":1" }.joined(separator: ",")
        let many = (0..<999).map { "\"a\($0)\":1" }.joined(separator: ",")
        for (lines, line) in [
            ("{\"a\":1}\n{\(members)}\n", 2), ("{\(many)}\n{\"b\":1}\n{\"c\":1}\n", 3),
        ] {
            let path = folder.temporary.path("lines")
            try folder.temporary.write(lines, to: "lines")
            let run =
                fromFile
                ? try runTool(["load", folder.path, path, "--entity", "Item"]) : try load(lines, into: folder.path)
            #expect(run.status == 1 && run.errors.contains("Line \(line) of"), "\(run.errors)")
            #expect(run.errors.contains("1000"))
        }
    }

    @Test func anErrorAfterACommitReportsThatTheCommitExists() throws {
        let store = try folder.open([Sample.clip])
        let token = try store.write { try $0.insert("Clip", ["rank": 1]) }.token
        try store.close()
        let number = try #require(token).number
        try folder.temporary.write("{\"n\":1}\n", to: "lines")
        for arguments in [
            ["insert", folder.path, "Clip", "rank=2"],
            ["load", folder.path, folder.temporary.path("lines"), "--entity", "Item"],
            ["revert", folder.path, "\(number)"], ["retention", folder.path, "7d"],
            ["consumers", folder.path, "--register", "sync"], ["clean", folder.path, "--before", "2"],
            ["compact", folder.path], ["backup", folder.path, folder.temporary.path("copy")],
        ] {
            let run = try runTool(arguments, standardOutput: "/dev/full")
            #expect(run.status == 1 && run.errors.contains("no space is left"), "\(arguments) \(run)")
            #expect(run.errors.contains("has still made its changes"), "\(arguments) \(run.errors)")
        }
        let info = try runTool(["info", folder.path], standardOutput: "/dev/full")
        #expect(info.status == 1 && !info.errors.contains("has still made"))
    }

    @Test func aClosedPipeEndsTheToolSilently() throws {
        try #require(try load("{\"n\":1}", into: folder.path).status == 0)
        for arguments in [["dump", folder.path], ["insert", folder.path, "Item", "n=2"], ["help"]] {
            mkfifo(folder.temporary.path("pipe"), 0o600)
            let reader = open(folder.temporary.path("pipe"), O_RDONLY | O_NONBLOCK | O_CLOEXEC)
            let writer = open(folder.temporary.path("pipe"), O_WRONLY | O_CLOEXEC)
            close(reader)
            let run = try runTool(arguments, descriptor: writer)
            close(writer)
            unlink(folder.temporary.path("pipe"))
            #expect(run.signal == nil && run.status == 141 && run.errors == "", "\(run)")
        }
        #expect(try runTool(["dump", folder.path, "--bare"]).output == "{\"n\":1}\n{\"n\":2}\n")
    }
}
