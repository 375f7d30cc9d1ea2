// A program that declares something else than the store is refused, and told both; migrations change what is declared.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SchemaMismatchTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// What a store has had from the first version of a program.
    enum First {
        struct Folder: Entity {
            var name = ""
            var number = 0
            var clips = ToMany<Clip>()

            static let schema = Schema<Folder>(unique: [[\.name, \.number]]) { Attribute(\.name, .unique) }
        }
        struct Clip: Entity {
            var title = ""
            var rank = 1
            var folder: Reference<Folder>?
            var other: Reference<Folder>?

            static let schema = Schema<Clip> {
                Attribute(\.rank, .valueForOlderObjects(1))
                Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .cascade)
            }
        }
        static let all: [any Entity.Type] = [Folder.self, Clip.self]
    }

    /// The same but for one thing each.
    enum Other {
        struct Inverse: Entity {
            var name = ""
            var items = ToMany<InverseClip>()
            static let schema = Schema<Inverse>("Folder") { Attribute(\.name, .unique) }
        }
        struct InverseClip: Entity {
            var folder: Reference<Inverse>?
            static let schema = Schema<InverseClip>("Clip") {
                Relationship(\.folder, inverse: \.items, whenTargetIsDeleted: .cascade)
            }
        }
        struct Rule: Entity {
            var name = ""
            var clips = ToMany<RuleClip>()
            static let schema = Schema<Rule>("Folder") { Attribute(\.name, .unique) }
        }
        struct RuleClip: Entity {
            var folder: Reference<Rule>?
            static let schema = Schema<RuleClip>("Clip") {
                Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .deny)
            }
        }
        struct Target: Entity {
            var folder: Reference<Target>?
            static let schema = Schema<Target>("Clip") { Relationship(\.folder, whenTargetIsDeleted: .cascade) }
        }
        struct Default: Entity {
            var rank = 1
            static let schema = Schema<Default>("Clip") { Attribute(\.rank, .valueForOlderObjects(2)) }
        }
        struct WideType: Entity {
            var rank = 1.0
            static let schema = Schema<WideType>("Clip")
        }
        struct NotUnique: Entity {
            var name = ""
            static let schema = Schema<NotUnique>("Folder")
        }
        struct MoreUnique: Entity {
            var title = ""
            static let schema = Schema<MoreUnique>("Clip") { Attribute(\.title, .unique) }
        }
        struct LessKeys: Entity {
            var name = ""
            var number = 0
            static let schema = Schema<LessKeys>("Folder", indexed: [[\.name, \.number]]) { Attribute(\.name, .unique) }
        }
        struct MoreKeys: Entity {
            var title = ""
            var rank = 1
            static let schema = Schema<MoreKeys>("Clip", unique: [[\.title, \.rank]])
        }
    }

    private func open(_ entities: [any Entity.Type], _ migrations: [Migration] = []) throws -> Store {
        try Store(at: folder.path, entities: entities, migrations: migrations)
    }

    @Test func theInverseIsPartOfTheSchema() throws {
        let store = try open(First.all)
        let clip = try #require(try store.snapshot().entities.first { $0.name == "Clip" })
        #expect(clip["folder"]?.inverse == "clips" && clip["other"]?.inverse == nil)
        _ = try store.compact()
        #expect(try store.snapshot().entities.first { $0.name == "Clip" } == clip)
        try store.close()
        try open(First.all).close()
        try folder.expectIntact()
    }

    @Test func everyDifferentDeclarationIsRefusedAndBothAreNamed() throws {
        let store = try open(First.all)
        let before = try store.snapshot().entities
        let cases: [([any Entity.Type], entity: String, attributes: [String], words: [String])] = [
            (
                [Other.Inverse.self, Other.InverseClip.self], "Clip", ["folder"],
                ["inverse “clips”", "inverse “items”"]
            ),
            ([Other.Rule.self, Other.RuleClip.self], "Clip", ["folder"], ["rule cascade", "rule deny"]),
            ([Other.Target.self], "Clip", ["folder"], ["refers to “Folder”", "reference to “Clip”"]),
            ([Other.Default.self], "Clip", ["rank"], ["default int(1)", "default int(2)"]),
            ([Other.WideType.self], "Clip", ["rank"], ["type int", "type double"]),
            ([Other.NotUnique.self], "Folder", ["name"], ["is unique", "without .unique"]),
            ([Other.MoreUnique.self], "Clip", ["title"], ["is not unique", "it as unique"]),
            ([Other.LessKeys.self], "Folder", ["name", "number"], ["a unique key on “name”, “number”", "none"]),
            ([Other.MoreKeys.self], "Clip", ["title", "rank"], ["no unique key on “title”, “rank”", "one"]),
        ]
        for (entities, entity, attributes, words) in cases {
            let error = expect(.schemaMismatch) { try open(entities) }
            #expect(error?.entity == entity && error?.attributes == attributes, "\(entities)")
            for word in words + attributes.map({ "“\($0)”" }) + ["“\(entity)”"] {
                #expect(error?.message.contains(word) == true, "\(error?.message ?? "") does not say \(word)")
            }
        }
        #expect(try store.snapshot().entities == before)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aMigrationAdoptsTheNewDeclarations() throws {
        struct Folder: Entity {
            var name = ""
            var number = 0
            var items = ToMany<Clip>()
            var others = ToMany<Clip>()

            static let schema = Schema<Folder> { Attribute(\.name) }
        }
        struct Clip: Entity {
            var title = ""
            var rank = 1
            var folder: Reference<Folder>?
            var other: Reference<Folder>?

            static let schema = Schema<Clip> {
                Attribute(\.title, .unique)
                Attribute(\.rank, .valueForOlderObjects(2))
                Relationship(\.folder, inverse: \.items, whenTargetIsDeleted: .deny)
                Relationship(\.other, inverse: \.others)
            }
        }
        let old = try open(First.all)
        let (folderOne, _) = try old.writeOptimistically { transaction in
            let folder = try transaction.insert(First.Folder(name: "a"))
            try transaction.insert(First.Clip(title: "x", rank: 5, folder: folder))
            try transaction.insert(First.Clip(title: "y", rank: 1, folder: folder))
            return folder
        }
        let steps: [Migration.Step] = [
            .redeclare("folder", of: "Clip"), .redeclare("title", of: "Clip"), .redeclare("name", of: "Folder"),
            .change(.removeKey(IndexDescription(["name", "number"], isUnique: true), from: "Folder")),
        ]
        // The default is another one still.
        expect(.migrationFailed) { try open([Folder.self, Clip.self], [Migration("second", steps)]) }
        let new = try open(
            [Folder.self, Clip.self], [Migration("second", steps + [.redeclare("rank", of: "Clip")])])
        let entities = try new.snapshot().entities
        let clip = try #require(entities.first { $0.name == "Clip" })
        #expect(clip["folder"]?.inverse == "items" && clip["folder"]?.whenTargetIsDeleted == .deny)
        #expect(clip["title"]?.isUnique == true && clip["rank"]?.defaultValue == 2)
        // That another side is new is no contradiction.
        #expect(clip["other"]?.inverse == "others")
        #expect(entities.first { $0.name == "Folder" }?["name"]?.isUnique == false)
        let same = Reference<Folder>(folderOne.id)
        #expect(try new.snapshot().values(\.items, of: same).map(\.rank) == [5, 1])
        let denied = expect(.deleteDenied) { try new.writeOptimistically { try $0.delete(same) } }
        #expect(denied?.objects.count == 2)
        let taken = expect(.uniqueViolation) { try new.writeOptimistically { try $0.insert(Clip(title: "x")) } }
        #expect(taken?.objects.count == 1 || taken?.object != nil)
        try new.writeOptimistically {
            try $0.insert(Folder(name: "a"))
            try $0.insert(Folder(name: "a"))
        }
        // The older program goes on with what the store declares.
        try old.close()
        let older = try open(First.all)
        expect(.deleteDenied) { try older.writeOptimistically { try $0.delete(folderOne) } }
        #expect(try older.snapshot().references(\.clips, of: folderOne).count == 2)
        #expect(try older.snapshot().entities == entities)
        try older.close()
        try new.close()
        try folder.expectIntact()
    }

    @Test func aUniquenessThatTheObjectsBreakIsRefusedAndNothingChanges() throws {
        let store = try open(First.all)
        try store.insert(contentsOf: [First.Clip(title: "x"), First.Clip(title: "x")])
        let before = try store.snapshot().entities
        let migration = Migration("unique", [.redeclare("title", of: "Clip")])
        let error = expect(.migrationFailed) { try open([Other.MoreUnique.self], [migration]) }
        #expect(error?.message.contains("“title”") == true)
        #expect(try store.snapshot().entities == before)
        #expect(try store.snapshot().count(First.Clip.self) == 2)
        try store.close()
        try folder.expectIntact()
    }
}
