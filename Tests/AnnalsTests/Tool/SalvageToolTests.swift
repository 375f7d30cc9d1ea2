// `annals salvage` from outside, and the library's call.

import Annals
import Foundation
import Glibc
import TestSupport
import Testing

@Suite struct SalvageToolTests {
    let folder: StoreFolder
    let target: String

    init() throws {
        folder = try StoreFolder()
        target = folder.path + ".new"
        let lines = (1...500).map { "{\"name\":\"item \($0)\",\"n\":\($0)}" }.joined(separator: "\n")
        let run = try runTool(
            ["load", folder.path, "-", "--entity", "Item", "--key", "name", "--batch", "50"], input: lines)
        #expect(run.status == 0)
    }

    private func damage(_ offset: Int, _ count: Int) throws {
        var bytes = try Data(contentsOf: URL(filePath: folder.path))
        for index in offset..<offset + count { bytes[index] ^= 0x55 }
        try bytes.write(to: URL(filePath: folder.path))
    }

    /// The lines are right; it is the store that is not.
    @Test func loadingIntoADamagedStoreBlamesTheStore() throws {
        try damage(20_000, 700)
        let before = try Data(contentsOf: URL(filePath: folder.path))
        let lines = (1...500).map { "{\"name\":\"item \($0)\",\"n\":1}" }.joined(separator: "\n")
        let run = try runTool(["load", folder.path, "-", "--entity", "Item", "--key", "name"], input: lines)
        #expect(run.status == 65, "\(run.errors)")
        #expect(!run.errors.contains("is wrong") && run.errors.contains("annals salvage"), "\(run.errors)")
        #expect(!run.errors.contains("..") && run.errors.contains(folder.path), "\(run.errors)")
        #expect(try Data(contentsOf: URL(filePath: folder.path)) == before)
    }

    @Test func theReadableRestOfADamagedStoreIsWritten() throws {
        try damage(20_000, 700)
        let before = try Data(contentsOf: URL(filePath: folder.path))
        #expect(try runTool(["dump", folder.path]).status == 65)
        let run = try runTool(["salvage", folder.path, target, "--format", "json"])
        #expect(run.status == 2 && run.errors.isEmpty)
        #expect(try Data(contentsOf: URL(filePath: folder.path)) == before)
        let report = try #require(
            try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
        let objects = try #require(report["objects"] as? Int)
        #expect(objects >= 400 && objects < 500)
        #expect(report["bytesPassedOver"] as? Int ?? 0 > 700)
        #expect((report["entities"] as? [[String: Any]])?.first?["name"] as? String == "Item")
        #expect(try runTool(["verify", target]).status == 0)
        let dump = try runTool(["dump", target]).output
        #expect(dump.split(separator: "\n").count == objects)
        // The same IDs as before, and writable.
        #expect(dump.contains("\"_id\":\"1:1\",\"name\":\"item 1\""))
        #expect(dump.contains("\"_id\":\"1:500\",\"name\":\"item 500\""))
        #expect(try runTool(["insert", target, "Item", "name=\"more\""]).output.contains("1:501"))
    }

    /// Rows that compaction leaves belong to no transaction: only the index of a checkpoint knows of them.
    @Test func lossesOfACompactedStoreAreReportedWithTheirOwnStatus() throws {
        #expect(try runTool(["clean", folder.path, "--before", "9"]).status == 0)
        #expect(try runTool(["compact", folder.path]).status == 0)
        let frames = try runTool(["frames", folder.path, "--format", "jsonl"]).output.split(separator: "\n")
        let rows = try #require(
            try frames.map { try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
                .first { $0?["kind"] as? String == "rows" } ?? nil)
        try damage(try #require(rows["offset"] as? Int) + (try #require(rows["bytes"] as? Int)) / 2, 1)
        let run = try runTool(["salvage", folder.path, target, "--format", "json"])
        #expect(run.status == 2, "\(run.errors)")
        let report = try #require(try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
        let objects = try #require(report["objects"] as? Int)
        #expect(objects < 500 && report["lostObjects"] as? Int == 500 - objects)
        #expect(report["hasLosses"] as? Bool == true && report["changesMissing"] as? Int == 500 - objects)
        let entity = try #require((report["entities"] as? [[String: Any]])?.first)
        #expect(entity["lostObjects"] as? Int == 500 - objects && entity["outdatedObjects"] as? Int == 0)
        #expect(unlink(target) == 0)
        let text = try runTool(["salvage", folder.path, target, "--format", "text"])
        #expect(text.status == 2)
        #expect(text.output.contains("\(objects) of “Item”, \(500 - objects) more are lost"), "\(text.output)")
    }

    @Test func theReportCanBePrintedAsText() throws {
        try damage(20_000, 1)
        let run = try runTool(["salvage", folder.path, target, "--format", "text"])
        #expect(run.status == 2)
        #expect(run.output.contains(" of “Item”"))
        #expect(run.output.contains(" bytes unreadable, of "))
        #expect(run.output.contains("transactions complete, 1 with gaps, 0 missing"))
    }

    @Test func impossibleSalvagesAreReported() throws {
        #expect(try runTool(["salvage", folder.path]).status == 64)
        #expect(try runTool(["salvage", folder.path, folder.path]).status == 1)
        #expect(try runTool(["salvage", folder.path + ".none", target]).status == 1)
        let directory = try runTool(["salvage", (folder.path as NSString).deletingLastPathComponent, target])
        #expect(directory.status == 1 && directory.errors.contains("regular file"))
        let nowhere = try runTool(["salvage", folder.path, "/nonexistent/new"])
        #expect(nowhere.status == 1)
        try damage(40, 8)
        let run = try runTool(["salvage", folder.path, target])
        #expect(run.status == 65 && run.errors.contains("header page"))
        try Data().write(to: URL(filePath: folder.path))
        let nothing = try runTool(["salvage", folder.path, target])
        #expect(nothing.status == 65 && !nothing.errors.contains("annals salvage"), "\(nothing.errors)")
        #expect(!FileManager.default.fileExists(atPath: target))
        #expect(folder.temporary.names == ["s.annals"])
    }

    @Test func theFileOfAKilledSalvageIsRemoved() throws {
        let left = ".s.annals.new.annals-salvage"
        try folder.temporary.write("what was written by then", to: left)
        #expect(try runTool(["salvage", folder.path, target]).status == 0)
        #expect(folder.temporary.names == ["s.annals", "s.annals.new"])
        #expect(try runTool(["verify", target]).status == 0)
    }

    @Test func theLibraryReturnsTheReport() throws {
        let report = try Store.salvage(from: folder.path, to: target)
        #expect(report.objects == 500 && report.bytesPassedOver == 0 && report.schemaChanges == [])
        #expect(report.entities.map(\.name) == ["Item"])
        let mode = try FileManager.default.attributesOfItem(atPath: target)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        let source = try Store(at: folder.path)
        let store = try Store(at: target)
        #expect(store.identifier != source.identifier)
        #expect(try store.snapshot().count(of: "Item") == 500)
        try store.close()
        try source.close()
        #expect(throws: StoreError.self) { try Store.salvage(from: folder.path, to: target) }
    }

    /// Whoever ends a long command by Ctrl-C finds everything as it was, and no file that nobody knows.
    @Test(arguments: [["compact"], ["backup", "new"], ["salvage", "new"]]) func aSignalLeavesNoFiles(
        command: [String]
    ) throws {
        let store = try folder.open()
        for start in stride(from: 1000, to: 21_000, by: 1000) {
            try store.writeOptimistically { transaction in
                for number in start..<start + 1000 {
                    try transaction.insert("Item", ["name": .string("\(number) " + String(repeating: "x", count: 200))])
                }
            }
        }
        try store.close()
        let before = try runTool(["dump", folder.path]).output
        let operands = command.dropFirst().map { folder.temporary.path($0) }
        let tool = try RunningTool([command[0], folder.path] + operands)
        // Its file is there, or it was quicker than this.
        while folder.temporary.names == ["s.annals"], tool.isRunning {}
        // Once or twice: as `timeout` sends it.
        for _ in 1...2 { tool.signal(SIGINT) }
        let run = tool.end()
        #expect(run.signal == nil)
        if run.status == 0 {
            #expect(folder.temporary.names.allSatisfy { ["s.annals", "new"].contains($0) })
        } else {
            #expect(run.status == 1 && run.errors.contains("was cancelled"), "\(run)")
            #expect(folder.temporary.names == ["s.annals"])
        }
        if run.status == 0, command.count > 1 { #expect(unlink(folder.temporary.path("new")) == 0) }
        #expect(try runTool(["dump", folder.path]).output == before)
        try folder.expectIntact()
    }
}
