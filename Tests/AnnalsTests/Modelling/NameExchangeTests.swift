// Attributes and entities that exchange names, and migrations that remove duplicates and make unique at once.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct NameExchangeTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private enum Old {
        struct Clip: Entity {
            var a = ""
            var b = ""
            var c = ""
            static let schema = Schema<Clip>(indexed: [[\.a, \.c]]) { Attribute(\.b, .indexed) }
        }
    }

    private enum Swapped {
        struct Clip: Entity {
            var a = ""
            var b = ""
            var c = ""
            static let schema = Schema<Clip>(indexed: [[\.b, \.c]]) {
                Attribute(\.a, .renamed(from: "b"), .indexed)
                Attribute(\.b, .renamed(from: "a"))
            }
        }
    }

    private enum Ring {
        struct Clip: Entity {
            var a = ""
            var b = ""
            var c = ""
            static let schema = Schema<Clip>(indexed: [[\.b, \.a]]) {
                Attribute(\.b, .renamed(from: "a"))
                Attribute(\.c, .renamed(from: "b"), .indexed)
                Attribute(\.a, .renamed(from: "c"))
            }
        }
    }

    private enum Chain {
        struct Clip: Entity {
            var b = ""
            var c = ""
            var d = ""
            static let schema = Schema<Clip>(indexed: [[\.b, \.d]]) {
                Attribute(\.b, .renamed(from: "a"))
                Attribute(\.c, .renamed(from: "b"), .indexed)
                Attribute(\.d, .renamed(from: "c"))
            }
        }
    }

    private func makeOld() throws -> (clip: Reference<Old.Clip>, token: HistoryToken) {
        let store = try Store(at: folder.path, entities: [Old.Clip.self])
        let clip = try store.writeOptimistically { try $0.insert(Old.Clip(a: "first", b: "second", c: "third")) }.result
        let token = try #require(try store.writeOptimistically { try $0.update(clip) { $0.b = "changed" } }.token)
        try store.close()
        return (clip, token)
    }

    /// Opens a store some times: names are exchanged once.
    private func expectValues<E: Entity>(
        _ type: E.Type, _ expected: [String: String], migrations: [Migration] = []
    ) throws {
        let (clip, token) = try makeOld()
        for round in 1...3 {
            let store = try Store(at: folder.path, entities: [type], migrations: migrations)
            let row = try #require(try store.snapshot().row(clip.id))
            #expect(Dictionary(uniqueKeysWithValues: zip(row.attributes, row.values.map(\.string))) == expected)
            // History, old states and indexes.
            let value = try #require(try store.snapshot()[Reference<E>(clip.id)])
            let then = try #require(try store.snapshot(asOf: token)[Reference<E>(clip.id)])
            #expect("\(value)" == "\(then)", "round \(round)")
            let history = try store.history(after: token.number - 1, includingValues: true)
            let update = try #require(history.first?.changes.first)
            let (before, after) = (try update.before(of: type), try update.after(of: type))
            #expect("\(after.map { "\($0)" } ?? "")" == "\(value)")
            #expect("\(before.map { "\($0)" } ?? "")".contains("second"))
            let number = try store.currentToken.number
            try store.close()
            #expect(try reopened(type, migrations) == number, "opening again writes nothing")
        }
        let store = try Store(at: folder.path, entities: [type], migrations: migrations)
        try store.compact()
        try store.close()
        #expect(try reopened(type, migrations) > 0)
        let last = try Store(at: folder.path, entities: [type], migrations: migrations)
        let row = try #require(try last.snapshot().row(clip.id))
        #expect(Dictionary(uniqueKeysWithValues: zip(row.attributes, row.values.map(\.string))) == expected)
        try last.close()
        try folder.expectIntact()
    }

    private func reopened<E: Entity>(_ type: E.Type, _ migrations: [Migration]) throws -> UInt64 {
        let store = try Store(at: folder.path, entities: [type], migrations: migrations)
        defer { try? store.close() }
        return try store.currentToken.number
    }

    @Test func twoAttributesExchangeNames() throws {
        try expectValues(Swapped.Clip.self, ["a": "changed", "b": "first", "c": "third"])
    }

    @Test func twoAttributesExchangeNamesInAMigration() throws {
        try expectValues(
            Swapped.Clip.self, ["a": "changed", "b": "first", "c": "third"], migrations: [Migration("exchange")])
    }

    @Test func threeAttributesExchangeNames() throws {
        try expectValues(Ring.Clip.self, ["b": "first", "c": "changed", "a": "third"])
    }

    @Test func eachAttributeTakesTheNameOfTheNext() throws {
        try expectValues(Chain.Clip.self, ["b": "first", "c": "changed", "d": "third"])
    }

    @Test func aNewStoreExchangesNothing() throws {
        for _ in 1...3 {
            let store = try Store(at: folder.path, entities: [Swapped.Clip.self])
            try store.writeOptimistically { try $0.insert(Swapped.Clip(a: "a", b: "b")) }
            let clips = try store.snapshot().fetch(Swapped.Clip.self)
            #expect(clips.allSatisfy { $0.a == "a" && $0.b == "b" })
            try store.close()
        }
        try folder.expectIntact()
    }

    /// By steps: names in one run of renames are those from before it.
    @Test func entitiesAndAttributesExchangeNamesInSteps() throws {
        let store = try folder.open([
            EntityDescription(
                "A",
                attributes: [
                    AttributeDescription("x", .int), AttributeDescription("y", .int),
                    AttributeDescription("to", .object, target: "B", inverse: "back"),
                ]),
            EntityDescription(
                "B",
                attributes: [
                    AttributeDescription("z", .int), AttributeDescription("back", .object, target: "A", inverse: "to"),
                    AttributeDescription("other", .object, target: "A"),
                ]),
        ])
        let a = try store.writeOptimistically { try $0.insert("A", ["x": 1, "y": 2]) }.result
        let token = try store.changeSchema([
            .renameEntity("A", to: "B"), .renameEntity("B", to: "A"), .renameAttribute("x", of: "B", to: "y"),
            .renameAttribute("y", of: "B", to: "x"), .renameAttribute("back", of: "A", to: "other"),
            .renameAttribute("other", of: "A", to: "back"),
        ])
        #expect(token != nil)
        let row = try #require(try store.snapshot().row(a))
        #expect(row.entity == "B" && row["x"] == 2 && row["y"] == 1)
        let entities = try store.entities
        let reference = try #require(entities.first { $0.name == "B" }?["to"])
        #expect(reference.target == "A" && reference.inverse == "other")
        #expect(entities.first { $0.name == "A" }?["other"]?.inverse == "to")
        expect(.schemaRefused) { try store.changeSchema([.renameAttribute("x", of: "B", to: "y")]) }
        expect(.schemaRefused) { try store.changeSchema([.renameEntity("A", to: "B")]) }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Duplicates

    private enum Loose {
        struct Clip: Entity {
            var url = ""
            var rank = 0
        }
    }

    private enum Unique {
        struct Clip: Entity {
            var url = ""
            var rank = 0
            static let schema = Schema<Clip> { Attribute(\.url, .unique) }
        }
    }

    private func makeLoose() throws {
        let store = try Store(at: folder.path, entities: [Loose.Clip.self])
        try store.writeOptimistically { transaction in
            for number in 0..<60 { try transaction.insert(Loose.Clip(url: "u\(number % 20)", rank: number)) }
        }
        try store.close()
    }

    private static func removingDuplicates(below limit: Int) -> Migration {
        Migration("unique", [.redeclare("url", of: "Clip")]) { migration in
            var seen: Set<String> = []
            for row in try migration.before.rows(of: "Clip") {
                let url = row["url"]?.string ?? ""
                guard !seen.insert(url).inserted, row["rank"]?.int ?? 0 < limit else { continue }
                if row.id.number % 2 == 0 {
                    try migration.transaction.delete(row.id)
                } else {
                    try migration.transaction.update(row.id, ["url": .string("v\(row.id.number)")])
                }
            }
        }
    }

    @Test func aMigrationRemovesDuplicatesAndMakesUnique() throws {
        try makeLoose()
        let failed = expect(.migrationFailed) {
            try Store(
                at: folder.path, entities: [Unique.Clip.self], migrations: [Self.removingDuplicates(below: 57)])
        }
        #expect(failed?.message.contains("have the same value") == true, "\(failed?.message ?? "")")
        let store = try Store(
            at: folder.path, entities: [Unique.Clip.self], migrations: [Self.removingDuplicates(below: 60)])
        let clips = try store.snapshot().fetch(Unique.Clip.self)
        #expect(clips.count == 40 && Set(clips.map(\.url)).count == 40)
        expect(.uniqueViolation) { try store.writeOptimistically { try $0.insert(Unique.Clip(url: "u3")) } }
        try store.close()
        try folder.expectIntact()
    }

    /// The same without a migration, in a transaction that is prepared without the writer lock.
    @Test func aTransactionRemovesDuplicatesAndMakesUnique() throws {
        try makeLoose()
        let store = try folder.open()
        let rows = try store.snapshot().rows(of: "Clip")
        let changes = [SchemaChange.changeAttribute("url", of: "Clip", isUnique: true)]
        expect(.uniqueViolation) { try store.changeSchema(changes) }
        expect(.uniqueViolation) {
            try store.writeOptimistically { transaction in
                try transaction.changeSchema(changes)
                for row in rows[20..<59] { try transaction.delete(row.id) }
            }
        }
        try store.writeOptimistically { transaction in
            try transaction.changeSchema(changes)
            for row in rows[20..<60] { try transaction.delete(row.id) }
            try transaction.insert("Clip", ["url": "new", "rank": 1])
        }
        #expect(try store.snapshot().count(of: "Clip") == 21)
        expect(.uniqueViolation) { try store.writeOptimistically { try $0.insert("Clip", ["url": "u3", "rank": 1]) } }
        try store.close()
        try folder.expectIntact()
    }
}
