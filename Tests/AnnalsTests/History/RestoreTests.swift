// `Transaction.restore`: earlier states from history, from an older file and from a backup, beside types, searches,
// compaction, cleaning and other writers. `RestoreToolTests` restores random states.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct RestoreTests: StoreSuite {
    private struct Box: Entity {
        var name = ""
        var notes = ToMany<Note>()
        var count = 0
        static let schema = Schema<Box>("Box") {
            Attribute(\.name, .unique)
            Attribute(\.count, .derived(count: \.notes))
        }
    }

    private struct Note: Entity {
        var text = ""
        var box: Reference<Box>?
        var changed: Date?
        static let schema = Schema<Note>("Note") {
            Attribute(\.text, .searchable)
            Attribute(\.changed, .derived(.lastChange))
            Relationship(\.box, inverse: \.notes, whenTargetIsDeleted: .deny)
        }
    }

    let folder: StoreFolder
    let store: Store
    private let box: Reference<Box>
    private let notes: [Reference<Note>]
    private let first: HistoryToken

    init() throws {
        folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Box.self, Note.self])
        let ((box, notes), token) = try store.write { transaction in
            let box = try transaction.insert(Box(name: "home"))
            return (box, try ["one", "two"].map { try transaction.insert(Note(text: $0, box: box)) })
        }
        (self.store, self.box, self.notes, first) = (store, box, notes, try #require(token))
    }

    /// All objects, as texts.
    private func state(_ snapshot: Snapshot) throws -> [String] {
        try snapshot.entities.flatMap { entity in
            try snapshot.rows(of: entity.name).map { "\($0.id) \($0.values)" }
        }
    }

    /// Changes an object, deletes one, and inserts one.
    private func change() throws {
        try store.write { transaction in
            try transaction.update(notes[0]) { ($0.text, $0.box) = ("changed", nil) }
            try transaction.delete(notes[1])
            try transaction.insert(Note(text: "three", box: try transaction.insert(Box(name: "new"))))
        }
    }

    private func found(_ text: String) throws -> Int {
        try store.snapshot().search(Note.self, for: SearchQuery(text)).count
    }

    private enum Source: CaseIterable { case history, olderFile, cleanedHistory, backup, otherHandle }

    /// With its derived values, by one transaction that can be undone. Searches find it.
    @Test(arguments: Source.allCases, [false, true])
    private func everythingComesBack(source: Source, isIndexed: Bool) throws {
        if isIndexed { try store.updateSearchIndexes() }
        var earlier = try store.snapshot(asOf: first)
        let expected = try state(earlier)
        try change()
        if isIndexed { try store.updateSearchIndexes() }
        var other: Store?
        switch source {
        case .history: break
        case .olderFile: try store.compact()
        case .cleanedHistory: try store.deleteHistory(before: store.currentToken.number + 1)
        case .backup:
            try store.backup(to: folder.path + "-older")
            other = try Store(at: folder.path + "-older")
        case .otherHandle: other = try Store(at: folder.path)
        }
        if let other { earlier = try other.snapshot(asOf: first) }
        let before = try state(store.snapshot())
        let (result, token) = try store.write(author: "me") { try $0.restore(to: earlier) }
        #expect(result == [])
        #expect(try state(store.snapshot()) == expected)
        #expect(try store.snapshot().fetch(Box.self).map(\.count) == [2])
        #expect(try found("two") == 1 && found("three") == 0)
        #expect(try store.write { try $0.restore(to: earlier) }.token == nil)
        #expect(try store.revert(#require(token)).conflicts == [])
        // The time of the last change is that of the undoing.
        #expect(try state(store.snapshot()).count == before.count && found("three") == 1 && found("two") == 0)
        #expect(try store.searchIndexFaults().isEmpty)
        try other?.close()
        if source == .backup { try Store.destroy(at: folder.path + "-older") }
        try end()
    }

    @Test func someObjectsComeBack() throws {
        try change()
        let earlier = try store.snapshot(asOf: first)
        try store.write { try $0.restore(to: earlier, objects: [notes[1].id, notes[1].id]) }
        let now = try store.snapshot()
        #expect(try now.fetch(Note.self).map(\.text).sorted() == ["changed", "three", "two"])
        #expect(try now.fetch(Box.self).map(\.count).sorted() == [1, 1])
        // The new box is in use.
        #expect(code { try store.write { try $0.restore(to: earlier, entity: "Box") } } == .deleteDenied)
        try store.write { try $0.restore(to: earlier, entity: "Note") }
        #expect(try store.snapshot().fetch(Note.self).map(\.text).sorted() == ["one", "two"])
        try store.write { try $0.restore(to: earlier, entity: "Box") }
        #expect(try state(store.snapshot()) == state(earlier))
        // A missing target.
        try store.write { transaction in
            for note in notes { try transaction.delete(note) }
            try transaction.delete(box)
        }
        #expect(code { try store.write { try $0.restore(to: earlier, entity: "Note") } } == .referenceMissing)
        try store.write { try $0.restore(to: earlier, objects: [box.id] + notes.map(\.id)) }
        #expect(try state(store.snapshot()) == state(earlier))
        try end()
    }

    /// Objects that only the other writer has changed come back, too.
    @Test func anotherWriterIsNotOverlooked() throws {
        let earlier = try store.snapshot(asOf: first)
        try store.write { try $0.update(notes[0]) { $0.text = "changed" } }
        let other = try Store(at: folder.path)
        var runs = 0
        try store.writeOptimistically { transaction in
            runs += 1
            if runs == 1 { try other.write { try $0.delete(notes[1].id) } }
            try transaction.restore(to: earlier)
        }
        #expect(runs == 2)
        #expect(try state(store.snapshot()) == state(earlier))
        try other.close()
        try end()
    }

    private func code(_ body: () throws -> Void) -> StoreError.Code? {
        #expect(throws: StoreError.self) { try body() }?.code
    }

    @Test func mistakesAreNamed() throws {
        try change()
        let earlier = try store.snapshot(asOf: first)
        let before = try store.currentToken
        func refused(_ body: (Transaction) throws -> Void) -> StoreError.Code? { code { try store.write(body) } }
        let late = refused {
            try $0.delete(notes[0])
            try $0.restore(to: earlier)
        }
        #expect(late == .invalidArgument)
        #expect(refused { try $0.restore(to: earlier, entity: "Notes") } == .unknownEntity)
        let missing = try #require(ObjectID(entityNumber: notes[0].id.entityNumber, number: 99))
        #expect(refused { try $0.restore(to: earlier, objects: [missing]) } == .objectNotFound)
        let hidden = try #require(ObjectID(entityNumber: 900, number: 1))
        #expect(refused { try $0.restore(to: earlier, objects: [hidden]) } == .objectNotFound)
        let foreign = try Store(inMemory: [Box.self, Note.self])
        #expect(refused { try $0.restore(to: foreign.snapshot()) } == .tokenForeign)
        try foreign.close()
        #expect(try store.currentToken == before)
        // A copy that went its own way.
        try store.backup(to: folder.path + "-copy")
        let copy = try Store(at: folder.path + "-copy")
        try copy.write { try $0.delete(notes[0].id) }
        #expect(refused { try $0.restore(to: copy.snapshot()) } == .tokenUnknown)
        try change(by: "other")
        #expect(refused { try $0.restore(to: copy.snapshot()) } == .tokenDiverged)
        try copy.close()
        try Store.destroy(at: folder.path + "-copy")
        try store.changeSchema([.changeEntity("Note", history: .off)])
        try change(by: "third")
        #expect(refused { try $0.restore(to: store.snapshot(asOf: before)) } == .historyGap)
        try store.write { try $0.restore(to: store.snapshot(asOf: before), entity: "Box") }
        #expect(try store.snapshot().fetch(Box.self).map(\.name).sorted() == ["home", "new"])
        try end()
    }

    private func change(by name: String) throws { try store.write { try $0.insert(Box(name: name)) } }

    @Test func aChangedSchemaIsNoted() throws {
        try store.close()
        let again = try Store(at: folder.path)
        try again.changeSchema([
            .renameAttribute("text", of: "Note", to: "body"), .removeAttribute("count", from: "Box"),
            .addAttribute(AttributeDescription("stars", .int, defaultValue: 1), to: "Note"),
        ])
        try again.write { try $0.update(notes[0].id, ["body": "changed", "stars": 5]) }
        try again.write { try $0.delete(notes[1].id) }
        let left = try again.write { try $0.restore(to: again.snapshot(asOf: first)) }.result
        #expect(left == ["“count” of “Box” stays as it is: the schema no longer has that attribute."])
        let rows = try again.snapshot().rows(of: "Note")
        #expect(rows.map { $0["body"]?.string } == ["one", "two"] && rows.map { $0["stars"]?.int } == [5, 1])
        try again.close()
        try folder.expectIntact()
    }
}
