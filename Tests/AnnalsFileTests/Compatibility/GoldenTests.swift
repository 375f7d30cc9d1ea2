// Golden files: stores as they were first written. `ANNALS_WRITE_GOLDEN=1 swift test` writes those that version1.txt
// does not list. What it lists stays for ever, because every later program must read it. If a later program writes
// something else, its golden file gets another name, and the old one is no longer made by `GoldenStores`.

import Annals
import FoundationEssentials
import SimulatedDisk
import TestSupport
import Testing

@Suite struct GoldenTests {
    private static let folder = PackageFolder.url("Tests/AnnalsFileTests/Golden")

    @Test(arguments: GoldenStores.all.map(\.name))
    func goldenStoresAreWrittenAndReadAsBefore(_ name: String) throws {
        let golden = try #require(GoldenStores.all.first { $0.name == name })
        let made = try golden.make()
        let store = Self.folder.appending(path: name + ".annals")
        let dump = Self.folder.appending(path: name + ".jsonl")
        let lines = try TransactionDump.lines(open(made)).map { $0 + "\n" }.joined()
        if ProcessInfo.processInfo.environment["ANNALS_WRITE_GOLDEN"] == "1", try Self.version1()[name] == nil {
            try Data(trimmed(made)).write(to: store)
            try Data(lines.utf8).write(to: dump)
        }
        let bytes = try [UInt8](Data(contentsOf: store))
        let expected = try String(decoding: Data(contentsOf: dump), as: UTF8.self)
        #expect(bytes == trimmed(made), "what is written has changed")
        #expect(lines == expected)
        #expect(try TransactionDump.lines(open(bytes)).map { $0 + "\n" }.joined() == expected)
    }

    /// The files of version 1 by their names, and their checksums.
    private static func version1() throws -> [String: String] {
        let text = try String(contentsOf: folder.appending(path: "version1.txt"), encoding: .utf8)
        return Dictionary(
            uniqueKeysWithValues: text.split(separator: "\n").map { line in
                let words = line.split(separator: " ")
                return (String(words[1]), String(words[0]))
            })
    }

    private static func bytes(_ name: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: folder.appending(path: name + ".annals")))
    }

    @Test func filesOfVersion1AreUnchanged() throws {
        let listed = try Self.version1()
        #expect(Set(GoldenStores.all.map(\.name)).isSubset(of: listed.keys), "version1.txt lacks a golden file")
        var kinds: Set<FrameKind> = []
        for (name, checksum) in listed {
            let bytes = try Self.bytes(name)
            let found = bytes.withUnsafeBytes { Checksum.hash($0, seed: 0) }
            let text = String(found, radix: 16)
            #expect(String(repeating: "0", count: 16 - text.count) + text == checksum, "\(name) has changed")
            let counts = try check(bytes).counts
            kinds.formUnion(FrameKind.allCases.filter { counts.bytes(of: $0) > 0 })
        }
        #expect(kinds == Set(FrameKind.allCases), "a golden file is missing")
    }

    /// Read by mapping and by copies, written to, and compacted.
    @Test(arguments: try version1().keys.sorted(), [false, true])
    func filesOfVersion1CanBeReadWrittenAndCompacted(_ name: String, maps: Bool) throws {
        var machine = EngineMachine()
        machine.options.log.maps = maps
        machine.machine.disk.install(try Self.bytes(name), at: EngineMachine.path)
        let log = try machine.machine.open(access: .readOnly)
        let expected = try String(
            contentsOf: Self.folder.appending(path: name + ".jsonl"), encoding: .utf8)
        #expect(try TransactionDump.lines(log).map { $0 + "\n" }.joined() == expected)
        try log.close()
        let store = StoreHandle(try machine.open())
        let last = try store.newest().view.number
        var later = EngineNote.definition
        later.number = 60_000
        later.name = .init("Later")
        _ = try store.newest().engine.commit { try $0.changeSchema([later]) }
        _ = try store.compact(.lowered)
        let (id, _) = try store.newest().engine.commit {
            try $0.insert(entity: later.number, EngineNote.row("title", 1))
        }
        let view = try store.newest().view
        #expect(try view.number == last + 2 && view.title(id) == "title")
        try store.newest().engine.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact && !report.hasDamage, "\(report.findings)")
    }

    /// The worked example of FileFormat.md shows the bytes that there are.
    @Test func theWorkedExampleMatchesTheGoldenFile() throws {
        let bytes = try [UInt8](Data(contentsOf: Self.folder.appending(path: "example.annals")))
        let text = try Self.page()
        var shown = 0
        for line in text.split(separator: "\n") {
            guard let match = line.wholeMatch(of: /([0-9a-f]{6})  ((?:[0-9a-f]{2} ?)+)(?: .*)?/) else { continue }
            let offset = try #require(Int(match.output.1, radix: 16))
            var expected = Self.bytes(match.output.2)
            // `00 x 400` is a run of zeros.
            if let run = line.firstMatch(of: #/  00 x ([0-9]+)/#), let count = Int(run.output.1) {
                expected = [UInt8](repeating: 0, count: count)
            }
            #expect(offset == shown, "a gap before \(match.output.1)")
            try #require(offset + expected.count <= bytes.count)
            #expect(Array(bytes[offset..<offset + expected.count]) == expected, "at \(match.output.1)")
            shown = offset + expected.count
        }
        #expect(shown == bytes.count)
    }

    @Test func aRowOfOtherTypesIsWrittenAsThePageShows() throws {
        let reference = try #require(
            LargeValueReference(offset: 0x1270, valueBytes: 100_000, checksum: 0x1122_3344_5566_7788))
        let object = try #require(ObjectID(entityNumber: 1, number: 2))
        var writer = ByteWriter()
        try EncodedRow.append(
            [Samples.decimal(125, -1, true), .object(object), .large(reference)],
            layout: Samples.layout([.decimal, .object, .data]), entryDistance: 4, schemaVersion: 1, isDeletion: false,
            to: &writer)
        var shown: [UInt8] = []
        for line in try Self.page().split(separator: "\n") {
            guard let match = line.wholeMatch(of: /\+([0-9a-f]{2})  ((?:[0-9a-f]{2} ?)+)(?: .*)?/) else { continue }
            #expect(Int(match.output.1, radix: 16) == shown.count)
            shown += Self.bytes(match.output.2)
        }
        #expect(shown == Array(writer.bytes))
    }

    /// The bytes of a line: two digits each, in groups of one field.
    private static func bytes(_ shown: Substring) -> [UInt8] {
        let digits = Array(shown.utf8.filter { $0 != UInt8(ascii: " ") })
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }

    private static func page() throws -> String {
        let page = folder.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources/Annals/Annals.docc/FileFormat.md")
        return try String(decoding: Data(contentsOf: page), as: UTF8.self)
    }

    private func open(_ bytes: [UInt8]) throws -> Log {
        let machine = Machine()
        machine.disk.install(bytes, at: Machine.path)
        return try machine.open(access: .readOnly)
    }

    /// Reserved space is left out, but for a page or two: it would only make the repository larger.
    private func trimmed(_ bytes: [UInt8]) -> [UInt8] {
        let used = (bytes.lastIndex { $0 != 0 } ?? 0) + 1
        return Array(bytes[..<min(bytes.count, (used + 4095) / 4096 * 4096 + 8192)])
    }
}
