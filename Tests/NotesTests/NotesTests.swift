// The program Notes, as its users start it: sessions that are processes, on one store.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct NotesTests {
    let folder: TemporaryDirectory
    var path: String { folder.path("notes.annals") }

    init() throws { folder = try TemporaryDirectory() }

    private func session(_ commands: String...) throws -> RunningTool {
        let session = try RunningTool([path], name: "sample-notes", takesInput: true)
        for command in commands { session.send(command) }
        return session
    }

    private func expectIntact() throws { #expect(try runTool(["verify", path]).status == 0) }

    @Test func aSessionShowsSavesOfAnotherSession() throws {
        let mine = try session("folder Reading", "add Swift", "save")
        mine.expect("Saved.")
        let theirs = try session("open Swift", "watch")
        theirs.expect("Reading/Swift:")
        for command in ["tag language", "add Linux", "save"] { mine.send(command) }
        // Lists are told during a merge, tasks that observe afterwards.
        theirs.expect("+ Linux")
        theirs.expect("Reading/Swift: #language")
        mine.send("delete")
        mine.send("save")
        theirs.expect("- Linux")
        try expectIntact()
    }

    @Test func aConflictIsShownAndTheUserDecides() throws {
        let mine = try session("add Swift", "text Old", "save")
        mine.expect("Saved.")
        let theirs = try session("open Swift", "text Theirs")
        theirs.expect("-/Swift: Theirs")
        mine.send("text Mine")
        mine.send("save")
        mine.expect("Saved.")
        theirs.send("save")
        theirs.expect("Conflict: the text is “Mine” by now, and here “Theirs”.")
        theirs.send("save mine")
        mine.expect("-/Swift: Theirs")
        // What others have changed since is not undone.
        mine.send("undo")
        mine.expect("Conflict: the text is “Theirs” by now, and here “Mine”.")
        try expectIntact()
    }

    @Test func undoRestoresAndRedoDoesItAgain() throws {
        let session = try session("folder Reading", "add Swift", "tag language", "delete", "undo", "search language")
        session.expect("Undone: delete")
        session.expect("Reading/Swift: #language")
        for command in ["undo", "undo", "redo", "save"] { session.send(command) }
        session.expect("Saved.")
        #expect(try runTool([path, "list"], name: "sample-notes").output == "Reading/Swift:\n")
        try expectIntact()
    }

    @Test func aKilledSessionLosesOnlyUnsavedChanges() throws {
        let session = try session("add Saved", "save", "add Unsaved")
        session.expect("-/Unsaved:")
        session.signal(9)
        #expect(session.end().signal == 9)
        #expect(try runTool([path, "list"], name: "sample-notes").output == "-/Saved:\n")
        try expectIntact()
    }

    @Test func aStoreOfVersion1IsMigrated() throws {
        let old = try Store(at: path, entities: [Version1.Folder.self, Version1.Note.self])
        try old.write { transaction in
            let folder = try transaction.insert(Version1.Folder(name: "Reading"))
            try transaction.insert(Version1.Note(name: "Swift", labels: "language fast", folder: folder))
            try transaction.insert(Version1.Note(name: "C", labels: "language", folder: folder))
        }
        try old.close()
        let found = try runTool([path, "search language"], name: "sample-notes")
        #expect(found.output == "Reading/C: #language\nReading/Swift: #fast #language\n")
        try expectIntact()
    }
}

/// What the first version of the program declared.
enum Version1 {
    struct Folder: Entity {
        var name = ""
        var notes = ToMany<Note>()
        static let schema = Schema<Folder> { Attribute(\.name, .unique) }
    }

    struct Note: Entity {
        var name = ""
        var text = ""
        var labels = ""
        var folder: Reference<Folder>?
        static let schema = Schema<Note> { Relationship(\.folder, inverse: \.notes, whenTargetIsDeleted: .cascade) }
    }
}

extension RunningTool {
    /// Reads lines until one is as expected.
    func expect(_ line: String, sourceLocation: SourceLocation = #_sourceLocation) {
        var lines: [String] = []
        while let next = self.line() {
            if next == line { return }
            lines.append(next)
        }
        Issue.record("“\(line)” did not come, but \(lines)", sourceLocation: sourceLocation)
    }
}
