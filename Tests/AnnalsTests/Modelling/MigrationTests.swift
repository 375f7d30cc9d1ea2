// Migrations run once and whole; versions of a program alternate on one file; metadata and groups.

import Annals
import FoundationEssentials
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite struct MigrationTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    enum Old {
        struct Clip: Entity, Equatable {
            var name = ""
            var rank = 0
            var note: String?
            var owner: Reference<Person>?
        }
        struct Person: Entity {
            var name = ""
        }
    }

    enum New {
        struct Clip: Entity, Equatable {
            var title = ""
            var rank = 0.0
            var note: String?
            var owner: [Reference<Person>] = []
            var length = 1

            static let schema = Schema<Clip> {
                Attribute(\.title, .renamed(from: "name"))
                Attribute(\.rank, .indexed)
                Relationship(\.owner, whenTargetIsDeleted: .deny)
            }
        }
        struct Person: Entity {
            var name = ""
        }

        static let migrations = [
            Migration(
                "wider", [.widen("rank", of: "Clip", to: .double), .widen("owner", of: "Clip", to: .orderedObjects)]),
            Migration("lengths") { migration in
                try migration.update(Clip.self) { old, clip in clip.length = old["name"]?.string?.count ?? -1 }
            },
        ]
    }

    private func makeOld() throws -> Reference<Old.Clip> {
        let store = try Store(at: folder.path, entities: [Old.Clip.self, Old.Person.self])
        let (clip, _) = try store.writeOptimistically { transaction in
            let person = try transaction.insert(Old.Person(name: "p"))
            try transaction.insert(Old.Clip(name: "x", rank: 9, note: nil, owner: nil))
            return try transaction.insert(Old.Clip(name: "abc", rank: 3, note: "n", owner: person))
        }
        try store.close()
        return clip
    }

    private func openNew(_ migrations: [Migration] = New.migrations) throws -> Store {
        try Store(at: folder.path, entities: [New.Clip.self, New.Person.self], migrations: migrations)
    }

    @Test func aMigrationRunsOnceAndKeepsHistory() throws {
        let old = try makeOld()
        expect(.schemaMismatch) { try Store(at: folder.path, entities: [New.Clip.self, New.Person.self]) }
        let counted = Counter()
        let migrations =
            [New.migrations[0]]
            + [
                Migration("lengths") { migration in
                    counted.add()
                    // The old rows are those before this migration.
                    try migration.update(New.Clip.self) { old, clip in
                        #expect(old["rank"] == .double(clip.rank))
                        clip.length = clip.title.count
                    }
                }
            ]
        for _ in 0..<3 {
            let store = try openNew(migrations)
            let clip = try #require(try store.snapshot()[Reference<New.Clip>(old.id)])
            #expect(clip.title == "abc" && clip.rank == 3 && clip.owner.count == 1 && clip.length == 3)
            let found = try store.snapshot().fetch(New.Clip.self, where: #Predicate { $0.rank > 4 })
            #expect(found.map(\.title) == ["x"] && found[0].owner.isEmpty)
            #expect(try store.snapshot().metadataKeys.isEmpty)
            try store.close()
        }
        #expect(counted.count == 1)
        let store = try openNew(migrations)
        // History reaches back, in the schema of its time.
        let versions = try store.versions(of: old.id)
        #expect(versions.map(\.change.kind) == [.update, .update, .insert])
        #expect(versions.last?.change.after?["rank"] == .int(3) && versions.last?.change.after?["name"] == "abc")
        #expect(versions.map(\.contextName) == ["lengths", "wider", nil])
        _ = try store.compact()
        #expect(try store.snapshot()[Reference<New.Clip>(old.id)]?.rank == 3)
        try store.close()
        try folder.expectIntact()
    }

    /// Then every store is newer than the program.
    @Test func forgottenMigrationsAreReported() throws {
        _ = try makeOld()
        try openNew().close()
        let store = try Store(at: folder.path, entities: [Old.Clip.self, Old.Person.self])
        let error = expect(.schemaMismatch) { try store.snapshot().fetch(Old.Clip.self) }
        #expect(error?.message.contains("“rank” of “Clip” has the type double in the store") == true)
        #expect(error?.message.contains("`migrations:`") == true)
        #expect(error?.attributes == ["rank"])
        try store.close()
        try folder.expectIntact()
    }

    @Test func aMigrationThatFailsChangesNothing() throws {
        let old = try makeOld()
        struct Failure: Error {}
        let error = expect(.migrationFailed) {
            try openNew([
                New.migrations[0],
                Migration("bad") { migration in
                    try migration.update(New.Clip.self) { _, clip in clip.length = 100 }
                    throw Failure()
                },
            ])
        }
        #expect(error?.message.contains("“bad” failed") == true)
        // The first one has happened. An older program goes on with what it knows of.
        let store = try openNew()
        #expect(try store.snapshot()[Reference<New.Clip>(old.id)]?.length == -1)
        try store.close()
        expect(.migrationFailed) {
            try openNew(New.migrations + [Migration("again", [.widen("title", of: "Clip", to: .int)])])
        }
        let unknown = expect(.migrationFailed) {
            try openNew(New.migrations + [Migration("unknown", [.change(.removeAttribute("nothing", from: "Clip"))])])
        }
        #expect(unknown?.entity == "Clip" && unknown?.attributes == ["nothing"])
        expect(.invalidArgument) { try openNew([Migration("a"), Migration("a")]) }
        try folder.expectIntact()
    }

    @Test func aNewStoreNeedsNoMigration() throws {
        let ran = Counter()
        let store = try openNew([Migration("first") { _ in ran.add() }])
        try store.writeOptimistically { try $0.insert(New.Clip(title: "t")) }
        try store.close()
        let again = try openNew([Migration("first") { _ in ran.add() }, Migration("second") { _ in ran.add() }])
        #expect(ran.count == 1)
        try again.close()
        try folder.expectIntact()
    }

    enum Renamed {
        struct Tape: Entity, Equatable {
            var name = ""
            var rank = 0

            static let schema = Schema<Tape>("Tape") {}
        }
    }

    /// A store with entities is not new, also if the program declares none of them under their present names.
    @Test func theOnlyEntityIsRenamed() throws {
        struct Only: Entity {
            var name = ""
            var rank = 0
            static let schema = Schema<Only>("Clip") {}
        }
        let old = try Store(at: folder.path, entities: [Only.self])
        try old.insert(contentsOf: [Only(name: "a", rank: 1), Only(name: "b", rank: 2)])
        try old.close()
        let ran = Counter()
        let migrations = [
            Migration("rename", [.change(.renameEntity("Clip", to: "Tape"))]) { migration in
                ran.add()
                try migration.update(Renamed.Tape.self) { _, tape in tape.rank += 10 }
            }
        ]
        for _ in 0..<2 {
            let store = try Store(at: folder.path, entities: [Renamed.Tape.self], migrations: migrations)
            let tapes = try store.snapshot().fetch(Renamed.Tape.self, sortedBy: .ascending(\.rank))
            #expect(tapes == [Renamed.Tape(name: "a", rank: 11), Renamed.Tape(name: "b", rank: 12)])
            #expect(try store.snapshot().entities.map(\.name) == ["Tape"])
            try store.close()
        }
        #expect(ran.count == 1)
        try folder.expectIntact()
    }

    /// A migration's body may be all that knows of the old entity.
    @Test func objectsMoveToAnEntityOfAnotherName() throws {
        let old = try Store(at: folder.path, entities: [First.Item.self])
        try old.insert(contentsOf: [First.Item(name: "a", count: 3)])
        try old.close()
        let store = try Store(
            at: folder.path, entities: [Renamed.Tape.self],
            migrations: [
                Migration("move") { migration in
                    for row in try migration.before.rows(of: "Item") {
                        let tape = Renamed.Tape(
                            name: row["name"]?.string ?? "", rank: row["count"]?.int.map(Int.init) ?? 0)
                        try migration.transaction.insert(tape)
                        try migration.transaction.delete(row.id)
                    }
                }
            ])
        #expect(try store.snapshot().fetch(Renamed.Tape.self) == [Renamed.Tape(name: "a", rank: 3)])
        #expect(try store.snapshot().count(of: "Item") == 0)
        try store.close()
        try folder.expectIntact()
    }

    /// Nothing is there to be changed: the entity is added as it is declared. Any other missing entity is an error.
    @Test func stepsForADeclaredEntityThatTheStoreLacksAreSkipped() throws {
        try Store(at: folder.path, entities: [First.Item.self]).close()
        let missing = expect(.migrationFailed) {
            try openNew([Migration("wrong", [.widen("rank", of: "Clp", to: .double)])])
        }
        #expect(missing?.message.contains("no entity “Clp”") == true)
        let store = try openNew()
        try store.writeOptimistically { try $0.insert(New.Clip(title: "t")) }
        #expect(try store.snapshot().fetch(New.Clip.self).map(\.rank) == [0])
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Two versions in turn

    enum First {
        struct Item: Entity, Equatable {
            var name = ""
            var count = 0
        }
    }

    enum Second {
        struct Item: Entity, Equatable {
            var title = ""
            var count: Int?
            var extra = "extra"

            static let schema = Schema<Item> {
                Attribute(\.title, .renamed(from: "name"))
                Attribute(\.count, .indexed)
            }
        }
    }

    @Test func twoVersionsTakeTurnsWithoutLoss() throws {
        var wanted: [ObjectID: (name: String, count: Int, extra: String)] = [:]
        var random = SeededRandom(7)
        var first: Store? = try Store(at: folder.path, entities: [First.Item.self])
        var second: Store?
        for round in 0..<400 {
            if round % 50 == 1 { second = try Store(at: folder.path, entities: [Second.Item.self]) }
            if round % 50 == 2 { first = try Store(at: folder.path, entities: [First.Item.self]) }
            if round == 200 { _ = try first?.compact() }
            let key = wanted.keys.sorted().randomElement(using: &random)
            if round % 2 == 0 || second == nil {
                try first!.write { transaction in
                    if let key, round % 4 == 0 {
                        try transaction.update(Reference<First.Item>(key)) { $0.name += "1" }
                        wanted[key]!.name += "1"
                    } else {
                        let item = try transaction.insert(First.Item(name: "n\(round)", count: round))
                        wanted[item.id] = ("n\(round)", round, "extra")
                    }
                }
            } else {
                try second!.write { transaction in
                    if let key, round % 4 == 1 {
                        try transaction.update(Reference<Second.Item>(key)) {
                            $0.extra += "2"
                            $0.title += "2"
                        }
                        wanted[key]!.extra += "2"
                        wanted[key]!.name += "2"
                    } else {
                        let item = try transaction.insert(Second.Item(title: "s\(round)", count: round, extra: "e"))
                        wanted[item.id] = ("s\(round)", round, "e")
                    }
                }
            }
        }
        let (one, two) = (try first!.snapshot(), try second!.snapshot())
        for (id, item) in wanted {
            #expect(try one[Reference<First.Item>(id)] == First.Item(name: item.name, count: item.count))
            let other = Second.Item(title: item.name, count: item.count, extra: item.extra)
            #expect(try two[Reference<Second.Item>(id)] == other)
        }
        #expect(try two.fetch(Second.Item.self, where: #Predicate { $0.count == 7 }).count == 1)
        #expect(try one.fetch(First.Item.self, where: #Predicate { $0.count == 7 }).count == 1)
        try first!.close()
        try second!.close()
        try folder.expectIntact()
    }

    // MARK: Metadata and groups

    struct Settings: Codable, Equatable {
        var theme = "dark"
        var sizes = [1, 2]
    }

    @Test func metadataBelongsToTransactions() throws {
        let store = try Store(at: folder.path, entities: [Old.Person.self])
        let other = try Store(at: folder.path, entities: [Old.Person.self])
        #expect(try store.metadata("settings", as: Settings.self) == nil)
        let before = try store.snapshot()
        try store.setMetadata(Settings(), for: "settings", author: "app")
        #expect(try other.metadata("settings", as: Settings.self) == Settings())
        #expect(try before.metadata("settings", as: Settings.self) == nil)
        struct Stop: Error {}
        #expect(throws: Stop.self) {
            try store.write { transaction in
                try transaction.setMetadata(1, for: "count")
                throw Stop()
            }
        }
        try store.write { transaction in
            try transaction.insert(Old.Person(name: "p"))
            try transaction.setMetadata(1, for: "count")
            try transaction.setMetadata(2, for: "count")
            try transaction.setMetadata(Settings?.none, for: "settings")
            try transaction.setMetadata("x", for: "gone")
            try transaction.setMetadata(String?.none, for: "gone")
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.metadataKeys == ["count"] && snapshot.metadata("count", as: Int.self) == 2)
        expect(.typeMismatch) { try snapshot.metadata("count", as: [String].self) }
        expect(.invalidArgument) { try store.setMetadata(1, for: "_annals.x") }
        expect(.invalidArgument) { try store.setMetadata(1, for: "") }
        // Nothing of it is an object or part of history.
        #expect(try snapshot.entities.map(\.name) == ["Person"])
        #expect(try store.changes(HistoryRequest()).count == 1)
        _ = try store.compact()
        #expect(try store.metadata("count", as: Int.self) == 2)
        try store.close()
        try other.close()
        try folder.expectIntact()
    }

    @Test func aGroupHasItsOwnFolder() throws {
        let data = folder.temporary.path + "/data"
        let group = try AppGroup("org.example.notes", in: data)
        #expect(try AppGroup("org.example.notes", in: data) == group)
        var status = stat()
        #expect(stat(group.path, &status) == 0 && status.st_mode & 0o777 == 0o700)
        let store = try Store(at: group.storeURL(named: "Notes"))
        #expect(store.path == group.storePath(named: "Notes"))
        try store.close()
        for name in ["", ".hidden", "a/b", "ä", String(repeating: "a", count: 201)] {
            expect(.invalidArgument) { try AppGroup(name, in: data) }
        }
        try FileManager.default.removeItem(atPath: data)
    }
}

/// Counts from any thread.
private final class Counter: Sendable {
    private let value = Atomic(0)
    var count: Int { value.load(ordering: .relaxed) }
    func add() { value.add(1, ordering: .relaxed) }
}
