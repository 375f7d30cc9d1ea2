// Stores that the newer version of a program has created, and the older one opens: renamed attributes are found as
// after a migration.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct FormerNameTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private enum First {
        struct Box: Entity {
            var label = ""
            var items = ToMany<Item>()
        }

        struct Item: Entity, Equatable {
            var name = ""
            var count = 0
            var box: Reference<Box>?

            static let schema = Schema<Item>(unique: [[\.name, \.count]]) { Relationship(\.box, inverse: \.items) }
        }

        static let entities: [any Entity.Type] = [Box.self, Item.self]
    }

    /// The next one has renamed an attribute.
    private enum Second {
        struct Box: Entity {
            var label = ""
            var items = ToMany<Item>()
        }

        struct Item: Entity, Equatable {
            var heading = ""
            var count = 0
            var box: Reference<Box>?

            static let schema = Schema<Item>(unique: [[\.heading, \.count]]) {
                Attribute(\.heading, .renamed(from: "name"))
                Relationship(\.box, inverse: \.items)
            }
        }

        static let entities: [any Entity.Type] = [Box.self, Item.self]
    }

    /// The newest one has renamed it again, and a relationship.
    private enum Third {
        struct Box: Entity {
            var label = ""
            var items = ToMany<Item>()
        }

        struct Item: Entity, Equatable {
            var title = ""
            var count = 0
            var place: Reference<Box>?
            var a = "a"
            var b = "b"
            var words = "a word"
            var extra = 2.5

            static let schema = Schema<Item>(unique: [[\.title, \.count]], indexed: [[\.words, \.extra]]) {
                Attribute(\.title, .indexed, .renamed(from: "name"), .renamed(from: "heading"))
                Relationship(\.place, .renamed(from: "box"), inverse: \.items)
                Attribute(\.a, .renamed(from: "b"))
                Attribute(\.b, .renamed(from: "a"))
            }
        }

        static let entities: [any Entity.Type] = [Box.self, Item.self]
    }

    private func makeThird(migrations: [Migration] = []) throws -> (item: ObjectID, box: ObjectID) {
        let store = try Store(at: folder.path, entities: Third.entities, migrations: migrations)
        defer { try? store.close() }
        return try store.write { transaction in
            let box = try transaction.insert(Third.Box(label: "b"))
            let item = try transaction.insert(Third.Item(title: "t", count: 1, place: box, a: "1", b: "2"))
            return (item.id, box.id)
        }.result
    }

    @Test(arguments: [false, true]) func theOlderProgramFindsRenamedAttributes(_ hasMigrations: Bool) throws {
        let migrations = hasMigrations ? [Migration("none")] : []
        let (item, box) = try makeThird(migrations: migrations)
        let second = try Store(at: folder.path, entities: Second.entities)
        #expect(try second.snapshot()[Reference<Second.Item>(item)]?.heading == "t")
        try second.write { try $0.update(Reference<Second.Item>(item)) { $0.heading = "u" } }
        try second.close()
        let third = try Store(at: folder.path, entities: Third.entities, migrations: migrations)
        let value = try #require(try third.snapshot()[Reference<Third.Item>(item)])
        #expect(value == Third.Item(title: "u", count: 1, place: Reference(box), a: "1", b: "2"))
        // Nothing was added beside.
        let attributes = try third.entity("Item").attributes
        #expect(Set(attributes) == ["title", "count", "place", "a", "b", "words", "extra"] && attributes.count == 7)
        #expect(try third.snapshot().values(\Third.Box.items, of: Reference(box)).map(\.title) == ["u"])
        // Its unique key is one key.
        let old = try Store(at: folder.path, entities: Second.entities)
        expect(.uniqueViolation) { try old.write { try $0.insert(Second.Item(heading: "u", count: 1)) } }
        try old.close()
        try third.close()
        try folder.expectIntact()
    }

    /// With two names of before, both are known.
    @Test func theOldestProgramFindsRenamedAttributes() throws {
        let store = try Store(at: folder.path, entities: Second.entities)
        let item = try store.write { transaction in
            try transaction.insert(Second.Item(heading: "t", count: 1, box: try transaction.insert(Second.Box())))
        }.result
        try store.close()
        let first = try Store(at: folder.path, entities: First.entities)
        #expect(try first.snapshot()[Reference<First.Item>(item.id)]?.name == "t")
        let request = HistoryRequest(changedAttributes: ["Item": ["name"]])
        try first.write { try $0.update(Reference<First.Item>(item.id)) { $0.name = "v" } }
        #expect(try first.changes(request).count == 1)
        try first.close()
        let third = try Store(at: folder.path, entities: Third.entities)
        #expect(try third.snapshot()[Reference<Third.Item>(item.id)]?.title == "v")
        #expect(try third.snapshot()[Reference<Third.Item>(item.id)]?.place != nil)
        try third.close()
        try folder.expectIntact()
        try Store.destroy(at: folder.path)
        let (made, _) = try makeThird()
        let newest = try Store(at: folder.path)
        try newest.write { try $0.update(made, ["title": "x"]) }
        for attribute in ["name", "heading"] {
            #expect(try newest.changes(HistoryRequest(changedAttributes: ["Item": [attribute]])).count == 1)
        }
        try newest.close()
        try folder.expectIntact()
    }

    /// As after a migration: the two stores hold the same under the same names.
    @Test func aCreatedStoreEqualsAMigratedOne() throws {
        let other = try StoreFolder()
        for entities in [First.entities, Second.entities, Third.entities] {
            try Store(at: other.path, entities: entities).close()
        }
        _ = try makeThird()
        let (created, migrated) = (try Store(at: folder.path), try Store(at: other.path))
        func described(_ store: Store) throws -> [String] {
            try store.entity("Item").attributes.map { "\($0)" }.sorted()
        }
        #expect(try described(created) == described(migrated))
        for store in [created, migrated] { try store.close() }
        for folder in [folder, other] {
            for entities in [Third.entities, Second.entities, Third.entities] {
                try Store(at: folder.path, entities: entities).close()
            }
        }
        let names = try [folder, other].map { folder in
            let store = try Store(at: folder.path)
            defer { try? store.close() }
            return try store.entity("Item").attributes.sorted()
        }
        #expect(names[0] == names[1])
        try folder.expectIntact()
        try other.expectIntact()
    }

    /// The process ends between the steps in which a store is created: any version goes on.
    @Test func anUnfinishedCreationIsFinished() throws {
        var options = Store.Options()
        options.durability = .relaxed
        let whole = try Store(at: folder.path, entities: Third.entities, options: options)
        // Nothing is durable yet, so any part of it may be what a loss of power leaves.
        let bytes = try Data(contentsOf: URL(filePath: folder.path))
        // Opening again writes nothing.
        let number = try whole.currentToken.number
        try Store(at: folder.path, entities: Third.entities).close()
        #expect(try whole.currentToken.number == number)
        try whole.close()
        let part = folder.path + ".part"
        var versions: Set<Int> = []
        for count in stride(from: 4096, through: min(bytes.count, 12 << 10), by: 128) {
            try bytes.prefix(count).write(to: URL(filePath: part))
            if let store = try? Store(at: part) {
                versions.insert(Int(try store.currentToken.number))
                try store.close()
            } else {
                continue
            }
            for entities in [Third.entities, Second.entities, Third.entities] {
                try Store(at: part, entities: entities).close()
            }
            let store = try Store(at: part)
            let names = try store.entity("Item").attributes
            #expect(Set(names) == ["title", "count", "place", "a", "b", "words", "extra"] && names.count == 7)
            try store.close()
            try Store.destroy(at: part)
        }
        #expect(versions.isSuperset(of: [1, 2, 3]))
        try folder.expectIntact()
    }

    private enum Before {
        struct Clip: Entity {
            var name = ""
            var other = 0
        }
    }

    private enum After {
        struct Clip: Entity {
            var title = ""
            var name = "new"
            var other = 0

            static let schema = Schema<Clip>(unique: [[\.title, \.name]]) {
                Attribute(\.title, .renamed(from: "name"))
                Attribute(\.name, .indexed)
            }
        }
    }

    /// A new attribute has a name that became free: a version that knows only the name finds the new one, as after a
    /// migration.
    @Test func aNewAttributeMayHaveAFreeName() throws {
        let other = try StoreFolder()
        try Store(at: other.path, entities: [Before.Clip.self]).close()
        var found: [[String]] = []
        for folder in [folder, other] {
            for _ in 1...2 {
                let store = try Store(at: folder.path, entities: [After.Clip.self])
                let clip = try store.write { try $0.insert(After.Clip(title: "t", name: "n\(found.count)")) }.result
                #expect(try store.snapshot()[clip]?.title == "t")
                found.append(try store.entity("Clip").attributes.sorted())
                try store.close()
            }
            let old = try Store(at: folder.path, entities: [Before.Clip.self])
            #expect(try old.snapshot().fetch(Before.Clip.self).map(\.name).allSatisfy { $0.hasPrefix("n") })
            try old.close()
            try folder.expectIntact()
        }
        #expect(Set(found) == [["name", "other", "title"]])
    }

    private struct Tape: Entity {
        var name = ""
    }

    /// Names of entities are not noted, whether a migration has renamed them or the store is new.
    @Test(arguments: [false, true]) func formerNamesOfEntitiesAreNotNoted(_ isNew: Bool) throws {
        if !isNew { try Store(at: folder.path, entities: [Lone.self]).close() }
        let migrations = [Migration("tapes", [.change(.renameEntity("Lone", to: "Tape"))])]
        let store = try Store(at: folder.path, entities: [Tape.self], migrations: migrations)
        try store.write { try $0.insert(Tape(name: "a")) }
        let old = try Store(at: folder.path, entities: [Lone.self])
        #expect(try old.snapshot().count(Lone.self) == 0 && store.snapshot().count(Tape.self) == 1)
        try old.close()
        try store.close()
        try folder.expectIntact()
    }

    /// An entity that is added to a store of an older version.
    @Test func formerNamesInAnAddedEntityAreKnown() throws {
        try Store(at: folder.path, entities: [Lone.self]).close()
        let (item, _) = try makeThird()
        let second = try Store(at: folder.path, entities: Second.entities)
        #expect(try second.snapshot()[Reference<Second.Item>(item)]?.heading == "t")
        try second.close()
        try folder.expectIntact()
    }

    private struct Lone: Entity {
        var name = ""
    }
}
