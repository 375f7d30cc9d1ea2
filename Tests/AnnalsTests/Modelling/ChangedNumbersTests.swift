// Names, positions and numbers that were looked up in one schema are not used in another one: whatever was read, held
// or planned before a change of the schema.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

@Suite struct ChangedNumbersTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private func open(_ entities: [any Entity.Type], _ migrations: [Migration] = []) throws -> Store {
        try Store(at: folder.path, entities: entities, migrations: migrations)
    }

    private func end(_ stores: Store...) throws {
        for store in stores { try store.close() }
        try folder.expectIntact()
    }

    // MARK: Migrations

    private enum Before {
        struct Clip: Entity {
            var rank = 0
            var size = 0
            var on = false
        }
    }

    private enum After {
        struct Clip: Entity, Equatable {
            var score = 0.0
            var size = 0.0
            var on = ""
        }
    }

    private static let wideners: [(String, [Migration.Step])] = [
        (
            "renamed, then widened",
            [.change(.renameAttribute("rank", of: "Clip", to: "score")), .widen("score", of: "Clip", to: .double)]
        ),
        (
            "widened, then renamed",
            [.widen("rank", of: "Clip", to: .double), .change(.renameAttribute("rank", of: "Clip", to: "score"))]
        ),
        (
            "renamed twice",
            [
                .change(.renameAttribute("rank", of: "Clip", to: "middle")), .widen("middle", of: "Clip", to: .double),
                .change(.renameAttribute("middle", of: "Clip", to: "score")),
            ]
        ),
        (
            "the entity renamed in between",
            [
                .change(.renameEntity("Clip", to: "Link")), .widen("rank", of: "Link", to: .double),
                .change(.renameAttribute("rank", of: "Link", to: "score")),
                .change(.renameEntity("Link", to: "Clip")),
            ]
        ),
    ]

    /// `size` gets what `rank` was called before, and the other way round where asked: their values stay apart.
    @Test(arguments: wideners.indices, [false, true]) func aMigrationConvertsTheAttributeItNames(
        _ way: Int, hasBody: Bool
    ) throws {
        let old = try open([Before.Clip.self])
        let clip = try old.write { try $0.insert(Before.Clip(rank: 4, size: 7, on: true)) }.result
        try old.close()
        let steps =
            Self.wideners[way].1 + [
                .widen("size", of: "Clip", to: .double), .widen("on", of: "Clip", to: .int),
                .widen("on", of: "Clip", to: .string),
            ]
        let migration =
            hasBody
            ? Migration("m", steps) { try $0.update(After.Clip.self) { old, clip in clip.size += 1 } }
            : Migration("m", steps)
        let store = try open([After.Clip.self], [migration])
        let stored = try store.snapshot()[Reference<After.Clip>(clip.id)]
        #expect(stored == After.Clip(score: 4, size: hasBody ? 8 : 7, on: "1"), "\(Self.wideners[way].0)")
        try end(store)
    }

    /// A program that skips a version has the migrations of both.
    @Test func aMigrationMayWidenWhatALaterOneWidensAgain() throws {
        struct Latest: Entity, Equatable {
            var rank = Decimal(0)
            static let schema = Schema<Latest>("Clip") {}
        }
        let old = try open([Before.Clip.self])
        let clip = try old.write { try $0.insert(Before.Clip(rank: 4)) }.result
        try old.close()
        let second = Migration("second", [.widen("rank", of: "Clip", to: .double)])
        let third = Migration("third", [.widen("rank", of: "Clip", to: .decimal)])
        expect(.migrationFailed) { try open([Latest.self], [second]) }
        let store = try open([Latest.self], [second, third])
        #expect(try store.snapshot()[Reference<Latest>(clip.id)]?.rank == 4)
        try end(store)
    }

    /// After exchanging names, an attribute is still converted from its own values.
    @Test func aMigrationThatExchangesNamesConvertsTheRightValues() throws {
        struct Exchanged: Entity, Equatable {
            var rank = 0.0
            var size = 0
            static let schema = Schema<Exchanged>("Clip") {}
        }
        let old = try open([Before.Clip.self])
        let clip = try old.write { try $0.insert(Before.Clip(rank: 4, size: 7)) }.result
        try old.close()
        let store = try open(
            [Exchanged.self],
            [
                Migration(
                    "m",
                    [
                        .change(.renameAttribute("rank", of: "Clip", to: "size")),
                        .change(.renameAttribute("size", of: "Clip", to: "rank")),
                        .widen("rank", of: "Clip", to: .double),
                    ])
            ])
        #expect(try store.snapshot()[Reference<Exchanged>(clip.id)] == Exchanged(rank: 7, size: 4))
        try end(store)
    }

    // MARK: Contexts

    private struct Thing: Entity, Equatable {
        var a = ""
        var b = ""
        var data = Data()
    }

    private static let otherThing: [SchemaChange] = [
        .renameEntity("Thing", to: "Old"),
        .addEntity(
            EntityDescription(
                "Thing",
                attributes: [
                    AttributeDescription("data", .data, isOptional: false),
                    AttributeDescription("b", .string, isOptional: false),
                    AttributeDescription("a", .string, isOptional: false),
                ])),
    ]

    private enum Edit: CaseIterable { case text, data, delete, insertAgain }

    @Test(arguments: Edit.allCases) private func aSaveWritesNoObjectOfAnotherEntity(_ edit: Edit) throws {
        let (store, newer) = (try open([Thing.self]), try Store(at: folder.path))
        let context = store.makeContext()
        context.undoLevels = 10
        let thing = context.insert(Thing(a: "A", b: "B", data: Data([1])))
        try context.save()
        switch edit {
        case .text: thing.a = "X"
        case .data: thing.data = Data([9, 9])
        case .delete: context.delete(thing)
        case .insertAgain:
            context.delete(thing)
            try context.save()
            try context.undo()
        }
        try newer.changeSchema(Self.otherThing)
        #expect(throws: StoreError.self) { try context.save() }
        let rows = try newer.snapshot().rows(of: "Old")
        #expect(rows.map(\.values) == (edit == .insertAgain ? [] : [["A", "B", .data(Data([1]))]]))
        #expect(try newer.snapshot().rows(of: "Thing").isEmpty)
        context.close()
        try end(store, newer)
    }

    @Test func anInsertedObjectIsOfTheEntityThatHasItsName() throws {
        let (store, newer) = (try open([Thing.self]), try Store(at: folder.path))
        let context = store.makeContext()
        let thing = context.insert(Thing(a: "A", b: "B", data: Data([1])))
        try newer.changeSchema(Self.otherThing)
        try context.save()
        #expect(try newer.snapshot().rows(of: "Old").isEmpty)
        #expect(try newer.snapshot().rows(of: "Thing").map(\.values) == [[.data(Data([1])), "B", "A"]])
        #expect(try store.snapshot()[thing.objectReference] == Thing(a: "A", b: "B", data: Data([1])))
        #expect(thing.a == "A" && !context.hasChanges)
        context.close()
        try end(store, newer)
    }

    private struct Numbered: Entity, Equatable {
        var number = 0
        var name = ""
    }

    /// No object changes, and yet all show something else.
    @Test func contextsAndListsShowAReplacedAttribute() throws {
        let (store, newer) = (try open([Numbered.self]), try Store(at: folder.path))
        let context = store.makeContext()
        let things = [5, 3, 4].map { context.insert(Numbered(number: $0, name: "\($0)")) }
        try context.save()
        things[2].name = "edited"
        let list = try context.results(Numbered.self, sortedBy: .ascending(\.number))
        #expect(list.map(\.number) == [3, 4, 5])
        try newer.changeSchema([
            .replaceAttribute(
                "number", of: "Numbered",
                by: AttributeDescription("number", .int, isOptional: false, defaultValue: .int(1)))
        ])
        try context.merge()
        #expect(things.map(\.number) == [1, 1, 1] && things[2].name == "edited")
        #expect(list.map(\.name) == ["5", "3", "edited"])
        try context.save()
        #expect(try store.snapshot().fetch(Numbered.self).map(\.name) == ["5", "3", "edited"])
        context.close()
        try end(store, newer)
    }

    // MARK: Transactions

    @Test func aValueOfAnEarlierSchemaIsNotWritten() throws {
        let store = try open([Thing.self])
        let thing = try store.write { try $0.insert(Thing(a: "A", b: "B")) }.result
        for data in [Data(), Data(repeating: 1, count: 10_000)] {
            expect(.schemaChanged) {
                try store.write { transaction in
                    try transaction.update(thing) { value in
                        (value.a, value.data) = ("X", data)
                        try transaction.changeSchema([
                            .removeAttribute("a", from: "Thing"),
                            .addAttribute(AttributeDescription("z", .string), to: "Thing"),
                        ])
                    }
                }
            }
        }
        #expect(try store.snapshot()[thing] == Thing(a: "A", b: "B"))
        try end(store)
    }

    private struct Folder: Entity {
        var name = ""
        var clips = ToMany<Filed>()
    }

    private struct Filed: Entity {
        var name = ""
        var folder: Reference<Folder>?
        static let schema = Schema<Filed> {
            Relationship(\.folder, inverse: \.clips, whenTargetIsDeleted: .nullify)
        }
    }

    private func makeFiled(_ store: Store) throws -> (folder: Reference<Folder>, clip: Reference<Filed>) {
        try store.write { transaction in
            let folder = try transaction.insert(Folder(name: "x"))
            return (folder, try transaction.insert(Filed(name: "c", folder: folder)))
        }.result
    }

    @Test func referrersAreThoseOfTheNewSchema() throws {
        let store = try open([Folder.self, Filed.self])
        let (target, clip) = try makeFiled(store)
        struct Stop: Error {}
        #expect(throws: Stop.self) {
            try store.write { transaction in
                try transaction.changeSchema([
                    .replaceAttribute(
                        "folder", of: "Filed",
                        by: AttributeDescription(
                            "folder", .object, target: "Folder", inverse: "clips", whenTargetIsDeleted: .nullify))
                ])
                #expect(try transaction.references(\Folder.clips, of: target).isEmpty)
                #expect(try transaction[clip]?.folder == nil)
                throw Stop()
            }
        }
        #expect(try store.snapshot().references(\Folder.clips, of: target) == [clip])
        try end(store)
    }

    @Test func referrersAreFoundAfterTheirEntityWasRenamed() throws {
        let old = try Store(at: folder.path)
        try old.changeSchema([
            .addEntity(EntityDescription("Folder", attributes: [AttributeDescription("name", .string)])),
            .addEntity(
                EntityDescription(
                    "Clip",
                    attributes: [
                        AttributeDescription("name", .string),
                        AttributeDescription("album", .object, target: "Folder", whenTargetIsDeleted: .nullify),
                    ])),
        ])
        let ids = try old.write { transaction in
            let folder = try transaction.insert("Folder", ["name": "x"])
            return (folder, try transaction.insert("Clip", ["name": "c", "album": .object(folder)]))
        }.result
        try old.close()
        let counter = Mutex(0)
        let store = try open(
            [Folder.self, Filed.self],
            [
                Migration(
                    "m",
                    [
                        .change(.renameEntity("Clip", to: "Filed")),
                        .change(.renameAttribute("album", of: "Filed", to: "folder")),
                    ]
                ) { migration in
                    let found = try migration.transaction.references(\Folder.clips, of: Reference(ids.0))
                    #expect(found.map(\.id) == [ids.1])
                    counter.withLock { $0 += 1 }
                }
            ])
        #expect(counter.withLock { $0 } == 1)
        try end(store)
    }

    /// Making the reference unique gives its index another name.
    @Test func deleteRulesFindReferrersWhoseIndexBecomesUnique() throws {
        let store = try open([Folder.self, Filed.self])
        let (target, clip) = try makeFiled(store)
        try store.write { transaction in
            try transaction.changeSchema([.changeAttribute("folder", of: "Filed", isUnique: true)])
            try transaction.delete(target.id)
        }
        #expect(try store.snapshot().row(clip.id)?["folder"] == .null)
        #expect(try store.snapshot().row(target.id) == nil)
        try end(store)
    }

    /// The store has no index over the attribute yet.
    @Test func anUpsertFindsTheObjectByAKeyThatBecomesUnique() throws {
        let store = try open([Numbered.self])
        let numbered = try store.write { transaction in
            for number in 0..<50 { try transaction.insert(Numbered(number: number, name: "old")) }
            return try transaction.insert(Numbered(number: 77, name: "old"))
        }.result
        let (found, new) = try store.write { transaction in
            try transaction.changeSchema([.changeAttribute("number", of: "Numbered", isUnique: true)])
            return (
                try transaction.upsert(Numbered(number: 77, name: "x")),
                try transaction.upsert(Numbered(number: 78, name: "y"))
            )
        }.result
        #expect(found == numbered && new != numbered)
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(Numbered.self) == 52 && snapshot[numbered]?.name == "x")
        try end(store)
    }

    /// The applied transaction makes the attribute unique, and the store has an object with the key.
    @Test(arguments: [ConflictPolicy.storeWins, .exportWins]) func anAppliedSchemaMakesAKeyUnique(
        _ policy: ConflictPolicy
    ) throws {
        let other = try StoreFolder()
        func make(_ path: String, isUnique: Bool) throws -> Store {
            let store = try Store(at: path)
            try store.changeSchema([
                .addEntity(
                    EntityDescription(
                        "Clip",
                        attributes: [
                            AttributeDescription("url", .string, isUnique: isUnique),
                            AttributeDescription("note", .string),
                        ]))
            ])
            try store.write { _ = try $0.insert("Clip", ["url": "a", "note": .string(isUnique ? "theirs" : "here")]) }
            return store
        }
        let (store, source) = (try make(folder.path, isUnique: false), try make(other.path, isUnique: true))
        var reasons: [ApplyConflict.Reason] = []
        for exported in try source.export() {
            reasons += try store.apply(exported, conflicts: policy).conflicts.map(\.reason)
        }
        let rows = try store.snapshot().rows(of: "Clip")
        #expect(reasons == [.keyTaken(by: rows[0].id)])
        #expect(rows.map(\.values) == [["a", policy == .storeWins ? "here" : "theirs"]])
        try source.close()
        try other.expectIntact()
        try end(store)
    }

    // MARK: Reading

    @Test func predicatesFollowNoReferenceToAnotherEntity() throws {
        let store = try open([Folder.self, Filed.self])
        let (_, clip) = try makeFiled(store)
        try Store(at: folder.path).changeSchema([
            .renameEntity("Folder", to: "Old"),
            .addEntity(EntityDescription("Folder", attributes: [AttributeDescription("name", .string)])),
        ])
        let context = store.makeContext()
        #expect(try context.object(clip).folder == nil)
        #expect(try context.fetch(Filed.self, where: #Predicate { $0.folder?.name == "x" }).isEmpty)
        #expect(try store.snapshot().fetch(Filed.self, where: #Predicate { $0.folder?.name == "x" }).isEmpty)
        context.close()
        try end(store)
    }

    private struct Person: Entity, Equatable {
        var p = ""
    }

    /// The same attributes may be those of several schema versions, with other former names.
    @Test func formerNamesAreThoseOfTheSchemaVersion() throws {
        let newer = try Store(at: folder.path)
        try newer.changeSchema([
            .addEntity(
                EntityDescription(
                    "Person",
                    attributes: [
                        AttributeDescription("p", .string, isOptional: false, defaultValue: ""),
                        AttributeDescription("y", .string, isOptional: false, defaultValue: ""),
                    ]))
        ])
        let id = try newer.write { try $0.insert("Person", ["p": "P", "y": "Y"]) }.result
        let store = try open([Person.self])
        let steps: [SchemaChange] = [
            .renameAttribute("p", of: "Person", to: "x"), .renameAttribute("y", of: "Person", to: "p"),
            .renameAttribute("p", of: "Person", to: "y"),
        ]
        for step in steps {
            try newer.changeSchema([step])
            let fresh = try open([Person.self])
            let seen = try [store, fresh].map { try $0.snapshot()[Reference<Person>(id)] }
            #expect(seen[0] == seen[1], "\(step)")
            try fresh.close()
        }
        try end(store, newer)
    }
}
