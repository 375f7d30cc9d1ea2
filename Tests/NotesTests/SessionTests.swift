// The parts of the program Notes in one process, with a store in memory: its session, and its objects in contexts.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@MainActor @Suite struct SessionTests {
    let store: Store

    init() throws {
        store = try Store(inMemory: [Folder.self, Note.self, Tag.self])
        try store.write { try $0.insert(Note(title: "Swift", text: "Old")) }
    }

    /// The checker reads files, so it gets a copy.
    private func expectIntact() throws {
        let folder = try TemporaryDirectory()
        try store.backup(to: folder.path("copy.annals"))
        #expect(try runTool(["verify", folder.path("copy.annals")]).status == 0)
    }

    // MARK: Sessions

    @Test func commandsChangeTheStore() throws {
        var lines: [String] = []
        let session = try Session(store) { lines.append($0) }
        for command in ["folder Reading", "add Linux", "tag system", "save"] { session.run(command) }
        #expect(lines == ["Saved."])
        let found = try store.snapshot().fetch(
            Note.self, where: #Predicate { $0.tags.contains { $0.name == "system" } })
        #expect(found.map(\.title) == ["Linux"])
        session.run("open Windows")
        #expect(lines.last == "Error: There is no note “Windows”.")
        session.end()
        try expectIntact()
    }

    @Test func anotherHandleMakesAConflict() throws {
        var lines: [String] = []
        let session = try Session(store) { lines.append($0) }
        session.run("open Swift")
        session.run("text Mine")
        let other = try Store(at: store.path, entities: [Folder.self, Note.self, Tag.self])
        try other.update(Note.self, where: #Predicate { $0.title == "Swift" }) { $0.text = "Theirs" }
        session.run("save")
        #expect(lines.contains("Conflict: the text is “Theirs” by now, and here “Mine”."))
        session.run("save theirs")
        #expect(try store.snapshot().fetch(Note.self).map(\.text) == ["Theirs"])
        session.end()
        try expectIntact()
    }

    @Test func aConflictOfFoldersShowsTheirNames() throws {
        var lines: [String] = []
        let session = try Session(store) { lines.append($0) }
        session.run("open Swift")
        session.run("move Mine")
        try store.write { transaction in
            let folder = try transaction.insert(Folder(name: "Theirs"))
            for note in try transaction.references(to: Note.self) {
                try transaction.update(note) { $0.folder = folder }
            }
        }
        session.run("save")
        #expect(lines.first == "Conflict: the folder is “Theirs” by now, and here “Mine”.")
        session.run("save mine")
        session.run("list")
        #expect(lines.last == "Mine/Swift: Old")
        session.end()
        try expectIntact()
    }

    @Test(.timeLimit(.minutes(10))) func aSessionFollowsTheStore() async throws {
        let (lines, output) = AsyncStream.makeStream(of: String.self)
        let session = try Session(store) { output.yield($0) }
        session.run("open Swift")
        let other = try Store(at: store.path, entities: [Folder.self, Note.self, Tag.self])
        try other.update(Note.self, where: #Predicate { $0.title == "Swift" }) { $0.text = "Theirs" }
        for await line in lines where line == "-/Swift: Theirs" { break }
        session.end()
        try expectIntact()
    }

    @Test func twoSessionsMakeTheSameTag() throws {
        let (first, second) = (try Session(store) { _ in }, try Session(store) { _ in })
        for (session, title) in [(first, "One"), (second, "Two")] {
            session.run("add \(title)")
            session.run("tag new")
        }
        first.run("save")
        second.run("save")
        #expect(try store.snapshot().count(Tag.self) == 1)
        #expect(try store.snapshot().count(Note.self, where: #Predicate { $0.tags.contains { $0.name == "new" } }) == 2)
        first.end()
        second.end()
        try expectIntact()
    }

    // MARK: Objects

    @Test func validatingReportsEveryFault() throws {
        let context = store.makeContext()
        let twins = (0..<2).map { _ in context.insert(Folder(name: "Twin")) }
        let long = context.insert(Note(title: String(repeating: "x", count: 41)))
        do {
            try context.validate()
        } catch let error as StoreError {
            #expect(error.failures.map(\.code) == [.validationFailed, .uniqueViolation])
            #expect(error.validationFailures.map(\.object) == [long.objectReference.id])
            #expect(Set(error.failures[1].objects) == Set(twins.map(\.objectReference.id)))
        }
        context.rollback()
        try context.save()
        try expectIntact()
    }

    @Test func eachFaultIsShownBesideItsField() throws {
        func faults(in error: StoreError) -> [(object: ObjectID?, attribute: String?, text: String)] {
            error.failures.flatMap { failure in
                switch failure.code {
                case .validationFailed: failure.validationFailures.map { ($0.object, $0.attribute, $0.message) }
                case .requiredMissing: [(failure.object, failure.attributes.first, "is required")]
                case .uniqueViolation: failure.objects.map { ($0, failure.attributes.first, "is there already") }
                default: [(failure.object, failure.attributes.first, failure.message)]
                }
            }
        }
        let context = store.makeContext()
        let twins = (0..<2).map { _ in context.insert(Folder(name: "Twin")) }
        let long = context.insert(Note(title: String(repeating: "x", count: 41)))
        for wrong in [[long.objectReference.id], twins.map(\.objectReference.id)] {
            let found = try faults(in: #require(throws: StoreError.self) { try context.validate() })
            #expect(Set(wrong).isSubset(of: found.compactMap(\.object)))
            #expect(found.allSatisfy { ["title", "name"].contains($0.attribute) && !$0.text.isEmpty })
            if wrong.count == 1 { context.discard(long) }
        }
        context.rollback()
        try expectIntact()
    }

    @Test func bothSidesOfARelationshipAgree() throws {
        let context = store.makeContext(author: "test", name: "objects")
        let folder = context.insert(Folder(name: "Reading"))
        let note = context.insert(Note(title: "Linux", folder: folder.objectReference))
        note.folder?.name = "Systems"
        #expect(folder.name == "Systems" && folder.notes.first === note)
        note.objectUpdate {
            $0.title = "Linux 6"
            $0.text = "It is out."
        }
        #expect(note.objectStatus.isInserted)
        #expect(note.objectStatus.changedValues["title"] == "Linux 6")
        let token = try context.save()
        #expect(try context.token == token)
        #expect(!context.hasChanges && !note.objectStatus.isInserted)
        context.delete(folder)
        #expect(note.objectStatus.isDeleted)
        try context.save()
        #expect(note.objectStatus.isGone && note.title == "Linux 6")
        try expectIntact()
    }

    @Test func mergingKeepsUnsavedEdits() throws {
        let context = store.makeContext(author: "test")
        let note = try #require(try context.first(Note.self, where: #Predicate { $0.title == "Swift" }))
        note.title = "Swift.org"
        let other = try Store(at: store.path, entities: [Folder.self, Note.self, Tag.self])
        let done = try other.update(Note.self, where: #Predicate { $0.title == "Swift" }) { $0.text = "Theirs" }
        #expect(note.text == "Old")
        let token = try #require(done.token)
        try store.waitUntil(token, timeout: .seconds(10))
        try context.merge(upTo: token)
        #expect(note.title == "Swift.org" && note.text == "Theirs")
        #expect(note.objectStatus.savedValues == ["title": "Swift"])
        try context.save()
        try expectIntact()
    }
}
