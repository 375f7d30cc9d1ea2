// History and states of earlier schema versions, read with types: by the same rules of names and defaults as the newest
// state, in newer and in older versions of a program.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

@Suite struct EarlierSchemaTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    enum First {
        struct Item: Entity, Equatable {
            var name = ""
            var n = 0
            var box: Reference<Box>?

            static let schema = Schema<Item>("Item", unique: [[\.name, \.n]]) {
                Attribute(\.name, .preservedOnDeletion, .indexed)
                Relationship(\.box, inverse: \.items)
            }
        }

        struct Box: Entity {
            var label = ""
            var items = ToMany<Item>()
            var count = 0
            var sum = 0

            static let schema = Schema<Box>("Box") {
                Attribute(\.count, .derived(count: \.items))
                Attribute(\.sum, .derived(sum: \.items, \Item.n))
            }
        }

        static let entities: [any Entity.Type] = [Item.self, Box.self]
    }

    /// It renames an attribute, an attribute of a key, what is summed up, and a relationship.
    enum Second {
        struct Item: Entity, Equatable {
            var title = ""
            var number = 0
            var place: Reference<Box>?
            var more = 7
            var note: String? = "n"

            static let schema = Schema<Item>("Item", unique: [[\.title, \.number]]) {
                Attribute(\.title, .renamed(from: "name"), .preservedOnDeletion, .indexed)
                Attribute(\.number, .renamed(from: "n"))
                Relationship(\.place, .renamed(from: "box"), inverse: \.items)
                Attribute(\.more, .valueForOlderObjects(5))
            }
        }

        struct Box: Entity {
            var label = ""
            var items = ToMany<Item>()
            var count = 0
            var sum = 0

            static let schema = Schema<Box>("Box") {
                Attribute(\.count, .derived(count: \.items))
                Attribute(\.sum, .derived(sum: \.items, \Item.number))
            }
        }

        struct Shelf: Entity, Equatable {
            var label = ""
        }

        static let entities: [any Entity.Type] = [Item.self, Box.self, Shelf.self]
    }

    private func openFirst() throws -> Store { try Store(at: folder.path, entities: First.entities) }
    private func openSecond() throws -> Store { try Store(at: folder.path, entities: Second.entities) }

    // MARK: The older version

    /// The newer version has written, and the older one reads what was done.
    @Test(arguments: [false, true]) func theOlderVersionReadsHistory(isReopened: Bool) throws {
        var old = try openFirst()
        let start = try old.currentToken
        let new = try openSecond()
        let item = try new.writeOptimistically { try $0.insert(Second.Item(title: "new", number: 1)) }.result
        let first = try new.currentToken
        try new.writeOptimistically { try $0.update(item) { $0.title = "newer" } }
        try new.writeOptimistically { try $0.update(item) { $0.more = 8 } }
        try new.writeOptimistically { try $0.delete(item) }
        if isReopened {
            try old.close()
            old = try openFirst()
        }
        let changes = try old.changes(HistoryRequest(after: .token(start), entities: ["Item"]), includingValues: true)
        #expect(changes.map(\.kind) == [.insert, .update, .update, .delete])
        let (before, after) = (
            try changes.map { try $0.before(of: First.Item.self)?.name },
            try changes.map { try $0.after(of: First.Item.self)?.name }
        )
        #expect(before == [nil, "new", "newer", "newer"] && after == ["new", "newer", "newer", nil])
        #expect(changes.map { $0.changes(\First.Item.name) } == [false, true, false, false])
        #expect(changes[3].tombstone(of: First.Item.self)?[\.name] == "newer")
        #expect(changes[3].tombstone(of: First.Item.self)?[\.n] == nil)
        let versions = try old.versions(of: item.id)
        #expect(try versions.map { try $0.change.after(of: First.Item.self)?.n } == [nil, 1, 1, 1])
        // Names select changes under each that they have had.
        let request = HistoryRequest(after: .token(start), changedAttributes: ["Item": ["name"]])
        #expect(try old.changes(request).count == 1)
        let past = try old.snapshot(asOf: first)
        #expect(try past.fetch(First.Item.self) == [First.Item(name: "new", n: 1)])
        #expect(try past.fetch(First.Item.self, where: #Predicate { $0.name == "new" && $0.n < 2 }).count == 1)
        try old.close()
        try new.close()
        try folder.expectIntact()
    }

    /// A relationship, a key and derived values whose attributes have other names now.
    @Test func theOlderVersionFindsRenamedRelationshipsAndKeys() throws {
        try openFirst().close()
        let new = try openSecond()
        let box = try new.writeOptimistically { transaction in
            let box = try transaction.insert(Second.Box(label: "b"))
            try transaction.insert(Second.Item(title: "a", number: 1, place: box))
            return box
        }.result
        // It must not take its key for a missing one.
        let old = try openFirst()
        let here = Reference<First.Box>(box.id)
        #expect(try old.snapshot().values(\First.Box.items, of: here).map(\.name) == ["a"])
        let inside = try old.snapshot().fetch(First.Box.self, where: #Predicate { $0.items.contains { $0.n == 1 } })
        #expect(inside.count == 1)
        try old.writeOptimistically { transaction in
            #expect(try transaction.references(\First.Box.items, of: here).count == 1)
            try transaction.insert(First.Item(name: "b", n: 20, box: here))
            #expect(try transaction.references(\First.Box.items, of: here).count == 2)
        }
        // The older version keeps derived values, too.
        let now = try #require(try new.snapshot()[box])
        #expect(now.count == 2 && now.sum == 21)
        let context = old.makeContext()
        #expect(try context.object(here).items.map(\.name) == ["a", "b"])
        expect(.uniqueViolation) { try old.writeOptimistically { try $0.insert(First.Item(name: "b", n: 20)) } }
        try old.close()
        try new.close()
        try folder.expectIntact()
    }

    @Test func anObserverOfTheOlderVersionGetsValues() async throws {
        let old = try openFirst()
        let new = try openSecond()
        let tracker = try HistoryTracker(store: old, currentAuthor: "old", allAuthors: ["new"], autoStart: false)
        let seen = Mutex<[String]>([])
        tracker.observe(First.Item.self, [.insert, .update, .delete]) { changes in
            for change in changes {
                let text =
                    "\(change.before?.name ?? "-") \(change.after?.name ?? "-") \(change.tombstone?[\.name] ?? "-") "
                    + "\(change.changes(\.name))"
                seen.withLock { $0.append(text) }
            }
        }
        tracker.start()
        let item = try await new.write(author: "new") { try $0.insert(Second.Item(title: "x")) }.result
        try await new.write(author: "new") { try $0.update(item) { $0.title = "y" } }
        try await new.write(author: "new") { try $0.delete(item) }
        try await eventually { seen.withLock { $0.count } >= 3 }
        await tracker.stop()
        #expect(seen.withLock { $0 } == ["- x - false", "x y - true", "y - y false"])
        try old.close()
        try new.close()
        try folder.expectIntact()
    }

    // MARK: The newer version

    /// What was written before the attributes were added, and under other names.
    @Test func theNewerVersionReadsOldStates() throws {
        let old = try openFirst()
        let box = try old.writeOptimistically { transaction in
            let box = try transaction.insert(First.Box(label: "b"))
            for n in 1...3 { try transaction.insert(First.Item(name: "i\(n)", n: n, box: n == 3 ? nil : box)) }
            return box
        }.result
        let then = try old.currentToken
        let (item, _) = try old.writeOptimistically { transaction in
            let item = try #require(
                try transaction.references(to: First.Item.self, where: #Predicate { $0.n == 1 }).first)
            try transaction.update(item) { $0.name = "changed" }
            return item
        }
        try old.close()
        let new = try openSecond()
        try new.writeOptimistically { try $0.insert(Second.Shelf(label: "s")) }
        let past = try new.snapshot(asOf: then)
        let wanted = (1...3).map { n in
            Second.Item(
                title: "i\(n)", number: n, place: n == 3 ? nil : Reference(box.id), more: 5, note: "n")
        }
        #expect(try past.fetch(Second.Item.self) == wanted)
        #expect(try past[Reference<Second.Item>(item.id)] == wanted[0])
        #expect(try past.count(Second.Item.self) == 3)
        let found = try past.fetch(
            Second.Item.self, where: #Predicate { $0.more == 5 && $0.title.starts(with: "i") && $0.number != 2 },
            sortedBy: .descending(\.title))
        #expect(found.map(\.number) == [3, 1])
        #expect(try past.fetch(Second.Item.self, where: #Predicate { $0.note == nil }).isEmpty)
        #expect(try past.sum(of: \Second.Item.more) == 15 && past.maximum(of: \Second.Item.title) == "i3")
        #expect(try past.select(Second.Item.self, \.title) == ["i1", "i2", "i3"])
        let here = Reference<Second.Box>(box.id)
        #expect(try past.references(\Second.Box.items, of: here).count == 2)
        let boxes = try past.fetch(Second.Box.self, where: #Predicate { $0.items.contains { $0.number == 2 } })
        #expect(boxes.map(\.label) == ["b"])
        let placed = try past.count(Second.Item.self, where: #Predicate { $0.place?.label == "b" })
        #expect(placed == 2)
        // An entity that was added since had no objects.
        #expect(try past.fetch(Second.Shelf.self).isEmpty && past.count(Second.Shelf.self) == 0)
        // Without types, a state has the names and attributes of its time.
        #expect(try past.rows(of: "Item").first?.attributes == ["name", "n", "box"])
        #expect(past.schemaVersion < (try new.snapshot().schemaVersion))
        let history = try new.changes(HistoryRequest(entities: ["Item"]), includingValues: true)
        #expect(try history.first?.after(of: Second.Item.self) == wanted[0])
        #expect(history.contains { $0.changes(\Second.Item.title) })
        #expect(try history.last?.before(of: Second.Item.self) == wanted[0])
        // A decoded change has no more than the names of its time.
        let line = try JSONEncoder().encode(history)
        let decoded = try JSONDecoder().decode([HistoryChange].self, from: line)
        #expect(decoded == history && decoded.hashValue == history.hashValue)
        #expect(try decoded.first?.after(of: Second.Item.self)?.title == "i1")
        #expect(decoded.contains { $0.changes(\Second.Item.title) })
        try new.close()
        try folder.expectIntact()
    }

    /// The file's first state has rows of the base.
    @Test func theFilesFirstStateIsReadInTheNewSchema() throws {
        let old = try openFirst()
        try old.insert(contentsOf: [First.Item(name: "a", n: 1)])
        try old.writeOptimistically { try $0.insert(First.Item(name: "b", n: 2)) }
        let then = try old.currentToken
        try old.writeOptimistically { try $0.insert(First.Item(name: "c", n: 3)) }
        try old.deleteHistory(before: old.currentToken)
        _ = try old.compact()
        try old.close()
        let new = try openSecond()
        #expect(try new.snapshot(asOf: then).fetch(Second.Item.self).map(\.title) == ["a", "b"])
        #expect(try new.snapshot(asOf: then).fetch(Second.Item.self).map(\.more) == [5, 5])
        try new.close()
        try folder.expectIntact()
    }

    // MARK: Attributes that others have replaced

    enum Narrow {
        struct Clip: Entity {
            var rank = 3
            var code = "c"
            var gone: String?
            static let schema = Schema<Clip>("Clip") { Attribute(\.rank, .preservedOnDeletion) }
        }
    }

    enum Wide {
        struct Clip: Entity {
            var stars = 0.5
            var code = "c"
            static let schema = Schema<Clip>("Clip") {
                Attribute(\.stars, .renamed(from: "rank"), .preservedOnDeletion)
                Attribute(\.code, .valueForOlderObjects("d"))
            }
        }

        static let migrations = [
            Migration(
                "wider",
                [
                    .widen("rank", of: "Clip", to: .double), .redeclare("code", of: "Clip"),
                    .change(.removeAttribute("gone", from: "Clip")),
                ])
        ]
    }

    @Test func replacedAttributesAreReadAsTheirSuccessors() throws {
        let old = try Store(at: folder.path, entities: [Narrow.Clip.self])
        let clip = try old.writeOptimistically { try $0.insert(Narrow.Clip(rank: 4, code: "x", gone: "g")) }.result
        let then = try old.currentToken
        try old.writeOptimistically { try $0.update(clip) { $0.rank = 5 } }
        try old.writeOptimistically { try $0.delete(clip) }
        try old.close()
        struct Widened: Entity {
            var rank = 0.5
            var code = "c"
            static let schema = Schema<Widened>("Clip") {
                Attribute(\.rank, .preservedOnDeletion)
                Attribute(\.code, .valueForOlderObjects("d"))
            }
        }
        try Store(at: folder.path, entities: [Widened.self], migrations: Wide.migrations).close()
        let new = try Store(at: folder.path, entities: [Wide.Clip.self], migrations: Wide.migrations)
        let changes = try new.changes(HistoryRequest(entities: ["Clip"]), includingValues: true)
        // Widened values are converted, whatever the attribute is called by now.
        #expect(try changes.map { try $0.after(of: Wide.Clip.self)?.stars } == [4, 5, nil])
        #expect(try changes.map { try $0.after(of: Wide.Clip.self)?.code } == ["x", "x", nil])
        #expect(changes.map { $0.changes(\Wide.Clip.stars) } == [false, true, false])
        #expect(changes.last?.tombstone(of: Wide.Clip.self)?[\.stars] == 5)
        let past = try new.snapshot(asOf: then)
        let error = expect(.schemaMismatch) { try past.fetch(Wide.Clip.self) }
        #expect(error?.message.contains("had the type int at that time") == true)
        #expect(error?.message.contains("snapshot.rows") == true)
        struct Code: Entity {
            var code = ""
            static let schema = Schema<Code>("Clip")
        }
        #expect(try past.fetch(Code.self).map(\.code) == ["x"])
        try new.close()
        try folder.expectIntact()
    }

    /// An entity that was removed, and another one that has its name now.
    @Test func removedEntitiesCanBeReadInPastStates() throws {
        let old = try Store(at: folder.path, entities: [Narrow.Clip.self])
        try old.insert(contentsOf: [Narrow.Clip(rank: 4)])
        let then = try old.currentToken
        try old.changeSchema([.removeEntity("Clip")])
        #expect(try old.snapshot(asOf: then).fetch(Narrow.Clip.self).map(\.rank) == [4])
        try old.changeSchema([
            .addEntity(
                EntityDescription(
                    "Clip",
                    attributes: [
                        AttributeDescription("rank", .int, isOptional: false),
                        AttributeDescription("code", .string, isOptional: false), AttributeDescription("gone", .string),
                    ]))
        ])
        try old.insert(contentsOf: [Narrow.Clip(rank: 9)])
        #expect(try old.snapshot(asOf: then).fetch(Narrow.Clip.self).map(\.rank) == [4])
        #expect(try old.snapshot().fetch(Narrow.Clip.self).map(\.rank) == [9])
        try old.close()
        try folder.expectIntact()
    }

    // MARK: Initial values

    enum Plain {
        struct Note: Entity, Equatable {
            var n = 0
            static let schema = Schema<Note>("Note")
        }
    }

    struct Note: Entity, Equatable {
        var n = 0
        var required = "r"
        var optional: String? = "o"
        var rank: Int? = 7
        var given: String? = "i"
        var none: String? = "n"
        var missing: String?
        var id: UUID? = UUID()

        static let schema = Schema<Note>("Note") {
            Attribute(\.rank, .indexed)
            Attribute(\.given, .valueForOlderObjects("d"))
            Attribute(\.none, .valueForOlderObjects(nil))
        }
    }

    /// Optional or not: an object from before a property was added has its initial value, wherever it is read.
    @Test func aNewPropertyHasItsInitialValueInOldObjects() throws {
        let old = try Store(at: folder.path, entities: [Plain.Note.self])
        let first = try old.writeOptimistically { try $0.insert(Plain.Note(n: 1)) }.result
        let then = try old.currentToken
        let new = try Store(at: folder.path, entities: [Note.self])
        // The older version goes on inserting.
        try old.writeOptimistically { try $0.insert(Plain.Note(n: 2)) }
        let own = try new.writeOptimistically {
            try $0.insert(Note(n: 3, optional: nil, rank: nil, given: nil, none: nil))
        }.result
        let snapshot = try new.snapshot()
        let id = try #require(try snapshot[Reference<Note>(first.id)]?.id)
        let wanted = [1, 2].map { Note(n: $0, given: "d", none: nil, id: id) }
        #expect(try snapshot.fetch(Note.self, where: #Predicate { $0.n < 3 }) == wanted)
        #expect(try snapshot[own]?.optional == nil && snapshot[own]?.rank == nil && snapshot[own]?.given == nil)
        #expect(try snapshot.count(Note.self, where: #Predicate { $0.optional == nil }) == 1)
        #expect(try snapshot.count(Note.self, where: #Predicate { $0.rank == 7 }) == 2)
        #expect(try snapshot.explain(Note.self, where: #Predicate { $0.rank == 7 }).rowsTouched == 2)
        #expect(try snapshot.fetch(Note.self, sortedBy: .ascending(\.rank)).map(\.n) == [3, 1, 2])
        #expect(try snapshot.row(first.id)?["optional"] == "o" && snapshot.row(first.id)?["missing"] == .null)
        #expect(try new.makeContext().object(Reference<Note>(first.id)).optional == "o")
        let past = try new.snapshot(asOf: then)
        #expect(try past.fetch(Note.self) == [wanted[0]])
        let change = try #require(try new.changes(HistoryRequest(), includingValues: true).first)
        #expect(try change.after(of: Note.self) == wanted[0])
        // An object that the older version changes keeps it.
        try old.writeOptimistically { try $0.update(first) { $0.n = 10 } }
        #expect(try new.snapshot()[Reference<Note>(first.id)] == Note(n: 10, given: "d", none: nil, id: id))
        try old.close()
        try new.close()
        try folder.expectIntact()
    }

    enum Loose {
        struct Task: Entity {
            var name = ""
            var text: String?
            var rank: Int?
            var tags: [String]?
            static let schema = Schema<Task>("Task")
        }
    }

    struct Task: Entity {
        var name = ""
        var text = "new"
        var rank = 5
        var tags = ["new"]
        static let schema = Schema<Task>("Task")
    }

    /// An older object has no value, and reads as the initial one. Editing something else does not write that.
    @MainActor @Test(arguments: MergePolicy.allCases) func aContextWritesOnlyEditedAttributes(policy: MergePolicy)
        async throws
    {
        let old = try Store(at: folder.path, entities: [Loose.Task.self])
        let tasks = try await old.write { transaction in
            try (0..<3).map { try transaction.insert(Loose.Task(name: "\($0)")) }
        }.result
        let new = try Store(at: folder.path, entities: [Task.self])
        let start = try new.currentToken
        let context = new.makeContext()
        context.mergePolicy = policy
        let objects = try context.fetch(Task.self, sortedBy: .ascending(\.name))
        objects[0].name = "a"
        try context.save()
        objects[1].name = String(repeating: "long", count: 30_000)
        try await context.saveInBackground()
        // Another writer is faster with another attribute.
        objects[2].name = "c"
        try await old.write { try $0.update(tasks[2]) { $0.tags = ["theirs"] } }
        try context.save()
        let changes = try new.changes(HistoryRequest(after: .token(start)))
        #expect(changes.map(\.attributes) == [["name"], ["name"], ["tags"], ["name"]])
        let rows = try new.snapshot().rows(of: "Task")
        #expect(rows.allSatisfy { $0["text"] == .null && $0["rank"] == .null })
        objects[0].rank = 6
        objects[0].tags = []
        try context.save()
        #expect(try new.changes(HistoryRequest(after: .token(start))).last?.attributes == ["rank", "tags"])
        try old.close()
        try new.close()
        try folder.expectIntact()
    }
}
