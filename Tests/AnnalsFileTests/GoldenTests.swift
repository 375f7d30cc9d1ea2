// Golden files: stores as they were first written. `ANNALS_WRITE_GOLDEN=1 swift test` writes them anew after a change
// of the format.

import Annals
import FoundationEssentials
import SimulatedDisk
import Testing

@Suite struct GoldenTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Golden")

    @Test(arguments: GoldenStores.all.map(\.name))
    func isWrittenAndReadAsEver(_ name: String) throws {
        let golden = try #require(GoldenStores.all.first { $0.name == name })
        let made = try golden.make()
        let store = Self.folder.appending(path: name + ".annals")
        let dump = Self.folder.appending(path: name + ".jsonl")
        let lines = try TransactionDump.lines(open(made)).map { $0 + "\n" }.joined()
        if ProcessInfo.processInfo.environment["ANNALS_WRITE_GOLDEN"] == "1" {
            try Data(trimmed(made)).write(to: store)
            try Data(lines.utf8).write(to: dump)
        }
        let bytes = try [UInt8](Data(contentsOf: store))
        let expected = try String(decoding: Data(contentsOf: dump), as: UTF8.self)
        #expect(bytes == trimmed(made), "what is written has changed")
        #expect(lines == expected)
        #expect(try TransactionDump.lines(open(bytes)).map { $0 + "\n" }.joined() == expected)
    }

    /// The worked example of FileFormat.md shows the bytes that there are.
    @Test func theWorkedExampleIsThatOfTheGoldenFile() throws {
        let bytes = try [UInt8](Data(contentsOf: Self.folder.appending(path: "example.annals")))
        let page = Self.folder.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Sources/Annals/Annals.docc/FileFormat.md")
        let text = try String(decoding: Data(contentsOf: page), as: UTF8.self)
        var shown = 0
        for line in text.split(separator: "\n") {
            guard let match = line.wholeMatch(of: /([0-9a-f]{6})  ((?:[0-9a-f]{2} ?)+)(?: .*)?/) else { continue }
            let offset = try #require(Int(match.output.1, radix: 16))
            var expected = match.output.2.split(separator: " ").compactMap { UInt8($0, radix: 16) }
            // `00 x 400` is a run of zeros.
            if let run = line.firstMatch(of: #/  00 x ([0-9]+)/#), let count = Int(run.output.1) {
                expected = [UInt8](repeating: 0, count: count)
            }
            #expect(offset == shown, "a gap before \(match.output.1)")
            try #require(offset + expected.count <= bytes.count)
            #expect(Array(bytes[offset..<offset + expected.count]) == expected, "at \(match.output.1)")
            shown = offset + expected.count
        }
        #expect(shown > FormatLimits.pageBytes && bytes[shown...].allSatisfy { $0 == 0 })
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
