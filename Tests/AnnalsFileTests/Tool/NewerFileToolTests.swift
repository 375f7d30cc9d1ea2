// Every command of the tool with files of later formats: it says "unsupported" or answers rightly, and writes nothing.

import Annals
import FoundationEssentials
import Glibc
import SimulatedDisk
import TestSupport
import Testing

@Suite struct NewerFileToolTests {
    /// What a command does to the store that it is given.
    private enum Doing {
        case reads, writes
        /// It looks at frames, and not at all that is in them.
        case checks
        case copies
        /// It goes on until it is told to end.
        case follows
        /// It opens none.
        case nothing
    }

    /// The words of a command line; "STORE" and "NEW" stand for paths, "LINES", "EXPORT" and "SCHEMA" for files.
    private static let calls: [(doing: Doing, words: [String])] = [
        (.reads, ["get", "STORE", "Note", "1"]), (.reads, ["find", "STORE", "Note"]),
        (.reads, ["find", "STORE", "Note", "--where", "title = \"one\"", "--count"]),
        (.reads, ["find", "STORE", "Note", "--text", "one"]), (.reads, ["search-index", "STORE"]),
        (.reads, ["count", "STORE"]),
        (.reads, ["dump", "STORE"]), (.reads, ["dump", "STORE", "--as-of", "2"]), (.reads, ["schema", "STORE"]),
        (.reads, ["schema", "STORE", "--apply", "SCHEMA", "--dry-run"]),
        (.reads, ["history", "STORE", "--values"]), (.reads, ["diff", "STORE", "STORE"]),
        (.reads, ["versions", "STORE", "Note", "1"]), (.reads, ["export", "STORE"]), (.reads, ["consumers", "STORE"]),
        (.reads, ["retention", "STORE"]), (.reads, ["clean", "STORE", "--before", "2", "--dry-run"]),
        (.reads, ["info", "STORE"]), (.reads, ["report", "STORE", "-"]),
        (.reads, ["restore", "STORE", "--to", "2", "--dry-run"]),
        (.writes, ["load", "STORE", "LINES", "--entity", "Note"]),
        (.writes, ["insert", "STORE", "Note", "title=\"two\""]),
        (.writes, ["set", "STORE", "Note", "1", "title=\"two\""]), (.writes, ["delete", "STORE", "Note", "1"]),
        (.writes, ["schema", "STORE", "--apply", "SCHEMA"]), (.writes, ["revert", "STORE", "2"]),
        (.writes, ["restore", "STORE", "--to", "2"]),
        (.writes, ["apply", "STORE", "EXPORT"]), (.writes, ["consumers", "STORE", "--register", "someone"]),
        (.writes, ["retention", "STORE", "forever"]), (.writes, ["retention", "STORE", "off", "--entity", "Note"]),
        (.writes, ["clean", "STORE", "--before", "2"]), (.writes, ["compact", "STORE"]),
        (.writes, ["search-index", "STORE", "--add", "Note", "title"]), (.writes, ["demo", "import", "STORE"]),
        (.checks, ["verify", "STORE"]), (.checks, ["frames", "STORE"]),
        (.copies, ["backup", "STORE", "NEW"]), (.copies, ["salvage", "STORE", "NEW"]),
        (.follows, ["watch", "STORE", "--after", "0"]), (.follows, ["history", "STORE", "--follow"]),
        (.nothing, ["completion", "bash"]), (.nothing, ["help"]),
    ]

    /// A command that is new is named above, too.
    @Test func everyCommandIsCalled() throws {
        let help = try runTool(["help"]).output.split(separator: "\n", omittingEmptySubsequences: false)
        let table = help.drop { !$0.hasPrefix("  ") }.prefix { $0.hasPrefix("  ") }
        let commands = Set(table.compactMap { $0.firstMatch(of: #/^\ \ ([a-z-]+)\ \ /#).map { String($0.output.1) } })
        #expect(commands.count > 20)
        #expect(Set(Self.calls.map { $0.words[0] }) == commands)
    }

    // MARK: All kinds

    @Test(arguments: NewerFile.all) func additionsOfANewerProgramAreUnsupportedOrKept(_ file: NewerFile) throws {
        let bytes = try file.bytes()
        let folder = try Folder(bytes)
        for (doing, words) in Self.calls {
            let stops = file.effect == .stops
            switch doing {
            case .reads: try expect(folder, words, isRefused: stops)
            case .writes: try expect(folder, words, isRefused: true)
            case .checks where words[0] == "verify" && file.effect == .stopsCopies:
                let run = try runTool(folder.arguments(words))
                #expect(run.status == 65 && run.output.contains("F36"), "\(run)")
            case .checks where words[0] == "verify": try expect(folder, words, isRefused: stops)
            // Frames are listed whose content only others read.
            case .checks: try expect(folder, words, isRefused: stops ? nil : false)
            case .copies:
                try expect(folder, words, isRefused: file.effect != .stopsWriters)
                folder.removeCopy()
            case .follows where stops: try expect(folder, words, isRefused: true)
            case .follows: try expectFollowing(folder, words)
            case .nothing: break
            }
            #expect(try folder.contents() == bytes, "\(words)")
            #expect(folder.names == ["s.annals"], "\(words)")
        }
    }

    /// Only features are noticed there without reading: what a newer program wrote without declaring one is
    /// unsupported where it is read, and never damaged.
    @Test(arguments: NewerFile.appended.filter { $0.effect == .stops })
    func undeclaredAdditionsBelowACheckpointAreUnsupportedOrKept(_ file: NewerFile) throws {
        let bytes = try file.bytesBelowSilentCheckpoint()
        let folder = try Folder(bytes)
        for (doing, words) in Self.calls {
            switch doing {
            case .reads, .checks: try expect(folder, words, isRefused: nil)
            case .copies:
                try expect(folder, words, isRefused: nil)
                folder.removeCopy()
            case .writes, .follows, .nothing: continue
            }
            #expect(try folder.contents() == bytes, "\(words)")
            #expect(folder.names == ["s.annals"], "\(words)")
        }
    }

    @Test(arguments: NewerFile.rows) func aValueOfAnotherFormIsUnsupported(_ file: NewerFile) throws {
        let bytes = try file.bytes()
        let folder = try Folder(bytes)
        let ofPrices = [
            ["get", "STORE", "Price", "1"], ["find", "STORE", "Price"], ["versions", "STORE", "Price", "1"],
        ]
        for words in ofPrices { try expect(folder, words, isRefused: true) }
        for (doing, words) in Self.calls where doing == .reads || doing == .checks {
            let readsAll = [["dump", "STORE"], ["export", "STORE"], ["history", "STORE", "--values"]].contains(words)
            try expect(folder, words, isRefused: readsAll || words[0] == "verify" ? true : nil)
        }
        for words in [["backup", "STORE", "NEW"], ["salvage", "STORE", "NEW"], ["compact", "STORE"]] {
            try expect(folder, words, isRefused: true)
        }
        #expect(try folder.contents() == bytes)
        #expect(folder.names == ["s.annals"])
    }

    /// Nil means that it may be refused.
    private func expect(
        _ folder: Folder, _ words: [String], isRefused: Bool?, location: SourceLocation = #_sourceLocation
    ) throws {
        let run = try runTool(folder.arguments(words))
        let all = run.errors + run.output
        let isNewer = all.contains("newer version of Annals")
        // Of `diff`, 1 means a difference.
        let failed: Int32 = words[0] == "diff" ? 2 : 1
        switch isRefused {
        case true?: #expect(run.status == failed && isNewer, "\(words): \(run)", sourceLocation: location)
        case false?: #expect(run.status == 0 && !isNewer, "\(words): \(run)", sourceLocation: location)
        case nil: #expect(run.status == (isNewer ? failed : 0), "\(words): \(run)", sourceLocation: location)
        }
        for advice in ["damage", "estore", "salvage the"] {
            #expect(!all.contains(advice), "\(words): \(run)", sourceLocation: location)
        }
    }

    private func expectFollowing(_ folder: Folder, _ words: [String]) throws {
        let tool = try RunningTool(folder.arguments(words))
        #expect(tool.line()?.isEmpty == false, "\(words)")
        tool.signal(SIGTERM)
        let run = tool.end()
        #expect(run.status == 0 && run.errors.isEmpty, "\(words): \(run)")
    }

    // MARK: While it runs

    @Test(arguments: NewerFile.appended.filter { $0.effect == .stops }, ["watch", "history"])
    func aFileThatBecomesNewerEndsItsFollowers(_ file: NewerFile, _ command: String) throws {
        var old = try ForgedFile.withNotes()
        old.addCommit([.insert(1, try Note.encoded("one"))])
        let folder = try Folder(old.finished())
        let words = try #require(Self.calls.first { $0.doing == .follows && $0.words[0] == command }).words
        let tool = try RunningTool(folder.arguments(words))
        #expect(tool.line()?.isEmpty == false)
        let bytes = try file.bytes()
        try folder.append(bytes, from: old.bytes.count)
        // What came before, and no more.
        while tool.line() != nil {}
        let run = tool.end()
        #expect(run.status == 1 && run.errors.contains("newer version of Annals"), "\(run)")
        #expect(try folder.contents() == bytes)
    }

    @Test func additionsThatStopOnlyWritersAreFollowed() throws {
        var old = try ForgedFile.withNotes()
        old.addCommit([.insert(1, try Note.encoded("one"))])
        let folder = try Folder(old.finished())
        let file = try #require(NewerFile.appended.first { $0.name == "a declared member that stops writers" })
        let tool = try RunningTool(folder.arguments(["watch", "STORE", "--after", "1"]))
        #expect(tool.line()?.contains("\"last\":2") == true)
        let bytes = try file.bytes()
        try folder.append(bytes, from: old.bytes.count)
        #expect(tool.line()?.contains("\"last\":3") == true)
        tool.signal(SIGTERM)
        #expect(tool.end().status == 0)
        #expect(try folder.contents() == bytes)
    }
}

/// A store in a folder of its own, and beside it what commands read.
private final class Folder {
    private let store: TemporaryDirectory
    private let inputs: TemporaryDirectory
    private var path: String { store.path("s.annals") }

    init(_ bytes: [UInt8]) throws {
        (store, inputs) = (try TemporaryDirectory(), try TemporaryDirectory())
        try Data(bytes).write(to: URL(filePath: path))
        try inputs.write("{\"title\":\"two\"}\n", to: "LINES")
        try inputs.write(
            #"{"entities":[{"name":"More","attributes":[{"name":"a","type":"int","optional":true}]}]}"#, to: "SCHEMA")
        var other = ForgedFile(storeID: UUIDBytes(high: 3, low: 4))
        try other.addNotes()
        other.addCommit([.insert(1, try Note.encoded("other"))])
        try Data(other.finished()).write(to: URL(filePath: inputs.path("other")))
        try inputs.write(try runTool(["export", inputs.path("other")]).output, to: "EXPORT")
    }

    var names: [String] { store.names }

    func contents() throws -> [UInt8] { try [UInt8](Data(contentsOf: URL(filePath: path))) }

    func removeCopy() { unlink(store.path("new")) }

    func arguments(_ words: [String]) -> [String] {
        words.map { word in
            switch word {
            case "STORE": path
            case "NEW": store.path("new")
            case "LINES", "EXPORT", "SCHEMA": inputs.path(word)
            default: word
            }
        }
    }

    /// What another program writes, as it stands in these bytes.
    func append(_ bytes: [UInt8], from start: Int) throws {
        let file = open(path, O_WRONLY | O_CLOEXEC)
        defer { close(file) }
        let rest = Array(bytes[start...])
        try #require(pwrite(file, rest, rest.count, start) == rest.count)
    }
}
