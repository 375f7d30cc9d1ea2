// A program of two versions, for Tests/run syscalls: the newer one is killed while it changes the older one's store.

import Annals
import FoundationEssentials

/// `migrate make STORE` makes a store of the older version; `migrate run STORE` opens it with the newer one, which has
/// two migrations; `migrate first STORE` fails in the second one, before it has changed anything.
enum Migrating {
    enum Older {
        struct Person: Entity {
            var name = ""
        }

        struct Clip: Entity {
            var name = ""
            var rank = 0
            var note: String?
            var body = Data()
            var owner: Reference<Person>?

            static let schema = Schema<Clip> {
                Attribute(\.name, .unique)
                Relationship(\.owner, whenTargetIsDeleted: .cascade)
            }
        }

        static let entities: [any Entity.Type] = [Person.self, Clip.self]
    }

    enum Newer {
        struct Person: Entity {
            var name = ""
            var clips = ToMany<Clip>()
        }

        struct Clip: Entity {
            var title = ""
            var rank = 0.0
            var note: String?
            var body = Data()
            var length = -1
            var owner: [Reference<Person>] = []
            var next: Reference<Clip>?

            static let schema = Schema<Clip> {
                Attribute(\.title, .unique, .renamed(from: "name"))
                Attribute(\.rank, .indexed)
                Relationship(\.owner, inverse: \.clips, whenTargetIsDeleted: .cascade)
            }
        }

        static let entities: [any Entity.Type] = [Person.self, Clip.self]
    }

    private struct Stop: Error {}

    private static func migrations(stops: Bool) -> [Migration] {
        [
            Migration(
                "wider", [.widen("rank", of: "Clip", to: .double), .widen("owner", of: "Clip", to: .orderedObjects)]),
            Migration("lengths") { migration in
                if stops { throw Stop() }
                var last: Reference<Newer.Clip>?
                let persons = try migration.transaction.references(to: Newer.Person.self)
                try migration.update(Newer.Clip.self) { old, clip in
                    clip.length = old["name"]?.string?.count ?? -2
                    clip.rank += 0.5
                    clip.next = last
                    last = Reference(old.id)
                }
                // And what belongs to it.
                if let person = persons.first { try migration.transaction.delete(person) }
                try migration.transaction.insert(Newer.Clip(title: "new", owner: Array(persons.suffix(2))))
            },
        ]
    }

    static func run(_ mode: String, _ path: String) throws {
        var options = Store.Options()
        options.lockTimeout = .seconds(60)
        switch mode {
        case "make":
            let store = try Store(at: path, entities: Older.entities, options: options)
            try store.writeOptimistically { transaction in
                let persons = try (0..<7).map { try transaction.insert(Older.Person(name: "person \($0)")) }
                // More than a frame holds, and values that stand in frames of their own.
                for number in 0..<900 {
                    let size = number % 300 == 9 ? 70_000 : number % 700
                    try transaction.insert(
                        Older.Clip(
                            name: "clip \(number)", rank: number, note: number % 3 == 0 ? nil : "note \(number)",
                            body: Data(repeating: UInt8(number % 251), count: size),
                            owner: number % 5 == 0 ? nil : persons[number % 7]))
                }
            }
            try store.close()
        case "run", "first":
            do {
                let store = try Store(
                    at: path, entities: Newer.entities, migrations: migrations(stops: mode == "first"),
                    options: options)
                try store.close()
            } catch let error as StoreError where error.code == .migrationFailed && mode == "first" {
                return
            }
        default: throw Wrong("usage: process-helper migrate make|run|first STORE")
        }
    }
}
