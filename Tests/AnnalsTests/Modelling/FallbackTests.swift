// Enumerations with cases that only a newer program knows: an older one shows its fallback, and leaves the value alone.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct FallbackTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private enum Newer {
        enum Kind: String { case song, film, game }
        enum Level: Int { case low, high, highest }
        enum Shape: Codable, Equatable {
            case round, square
            case star(Int)
        }

        struct Clip: Entity {
            var title = ""
            var kind = Kind.song
            var level: Level?
            var shape = Shape.round
            var rank = 0
        }
    }

    private enum Older {
        enum Kind: String, Codable { case song, film, other }
        enum Level: Int, Codable { case low, high }
        enum Shape: Codable, Equatable { case round, square }

        struct Clip: Entity {
            var title = ""
            var kind = Kind.song
            var level: Level?
            var shape = Shape.round
            var rank = 0

            static let schema = Schema<Clip> {
                Attribute(\.kind, .fallback(.other), .indexed)
                Attribute(\.level, .fallback(nil))
                Attribute(\.shape, .fallback(.square))
            }
        }
    }

    private enum Strict {
        struct Clip: Entity {
            var title = ""
            var kind = Older.Kind.song
            var level: Older.Level?
            var shape = Older.Shape.round
            var rank = 0
        }
    }

    private func make() throws -> Reference<Newer.Clip> {
        let store = try Store(at: folder.path, entities: [Newer.Clip.self])
        let clip = try store.writeOptimistically {
            try $0.insert(Newer.Clip(title: "t", kind: .game, level: .highest, shape: .star(5)))
        }.result
        try store.close()
        return clip
    }

    private func expectUnknown(_ clip: Reference<Newer.Clip>, _ title: String) throws {
        let store = try Store(at: folder.path, entities: [Newer.Clip.self])
        let found = try #require(try store.snapshot()[clip])
        #expect(found.title == title && found.kind == .game && found.level == .highest && found.shape == .star(5))
        try store.close()
    }

    @Test func withoutAFallbackAnUnknownCaseIsAnError() throws {
        let clip = try make()
        let store = try Store(at: folder.path, entities: [Strict.Clip.self])
        expect(.valueOutOfRange) { try store.snapshot()[Reference<Strict.Clip>(clip.id)] }
        try store.close()
        try folder.expectIntact()
    }

    @Test func anUnknownCaseIsReadAsTheFallbackAndStays() throws {
        let clip = try make()
        let store = try Store(at: folder.path, entities: [Older.Clip.self])
        let own = Reference<Older.Clip>(clip.id)
        var value = try #require(try store.snapshot()[own])
        #expect(value.kind == .other && value.level == nil && value.shape == .square)
        #expect(try store.snapshot().fetch(Older.Clip.self).map(\.kind) == [.other])
        let changes = try store.history(after: 0, includingValues: true).flatMap(\.changes)
        let insert = try #require(changes.first { $0.object == clip.id })
        #expect(try insert.after(of: Older.Clip.self)?.kind == .other)
        // Another property: in a closure, as a whole value, and in a context.
        try store.writeOptimistically { try $0.update(own) { $0.title = "closure" } }
        value.title = "whole"
        try store.writeOptimistically { try $0.update(own, to: value) }
        let context = store.makeContext(author: "app")
        let object = try context.object(own)
        #expect(object.kind == .other)
        object.title = "context"
        try context.save()
        #expect(try store.snapshot().row(clip.id)?["kind"] == "game")
        try store.close()
        try expectUnknown(clip, "context")
        try folder.expectIntact()
    }

    @Test func anotherCaseReplacesIt() throws {
        let clip = try make()
        let store = try Store(at: folder.path, entities: [Older.Clip.self])
        let own = Reference<Older.Clip>(clip.id)
        try store.writeOptimistically { try $0.update(own) { ($0.kind, $0.level, $0.shape) = (.film, .low, .round) } }
        #expect(try store.snapshot().row(clip.id)?["kind"] == "film")
        // A known value becomes the fallback as any other does.
        try store.writeOptimistically { try $0.update(own) { ($0.kind, $0.level, $0.shape) = (.other, nil, .square) } }
        let row = try #require(try store.snapshot().row(clip.id))
        #expect(row["kind"] == "other" && row["level"] == .null)
        try store.close()
        try folder.expectIntact()
    }

    @Test func aFallbackNeedsATypeWithOtherStoredValues() throws {
        struct Wrong: Entity {
            var rank = 0
            static let schema = Schema<Wrong>("Wrong") { Attribute(\.rank, .fallback(1)) }
        }
        let error = expect(.modelInvalid) { try Store(at: folder.path, entities: [Wrong.self]) }
        #expect(error?.message.contains(".fallback") == true)
    }

    /// A predicate finds what reading shows, in a snapshot, in a transaction and in a context.
    @Test func predicatesFindTheValuesThatAreRead() throws {
        let store = try Store(at: folder.path, entities: [Newer.Clip.self])
        try store.write { transaction in
            for (number, kind) in [Newer.Kind.song, .film, .game, .game].enumerated() {
                let level = [nil, Newer.Level.low, .highest, .high][number]
                try transaction.insert(Newer.Clip(title: "\(number)", kind: kind, level: level))
            }
        }
        try store.close()
        let older = try Store(at: folder.path, entities: [Older.Clip.self])
        try older.write { try $0.insert(Older.Clip(title: "4", kind: .other)) }
        let (other, film) = (Older.Kind.other, Older.Kind.film)
        let (both, low) = ([other, film], Older.Level.low)
        let cases: [(Predicate<Object<Older.Clip>>, (Older.Clip) -> Bool)] = [
            (#Predicate { $0.kind == other }, { $0.kind == other }),
            (#Predicate { $0.kind != other }, { $0.kind != other }),
            (#Predicate { $0.kind == film }, { $0.kind == film }),
            (#Predicate { $0.kind != film }, { $0.kind != film }),
            (#Predicate { both.contains($0.kind) }, { both.contains($0.kind) }),
            (#Predicate { !both.contains($0.kind) }, { !both.contains($0.kind) }),
            (#Predicate { $0.level == nil }, { $0.level == nil }),
            (#Predicate { $0.level != nil }, { $0.level != nil }),
            (#Predicate { $0.level == low }, { $0.level == low }),
        ]
        let context = older.makeContext()
        for (number, (predicate, isMatch)) in cases.enumerated() {
            let snapshot = try older.snapshot()
            let wanted = try snapshot.fetch(Older.Clip.self).filter(isMatch).map(\.title)
            #expect(try snapshot.fetch(Older.Clip.self, where: predicate).map(\.title) == wanted, "\(number)")
            #expect(try context.fetch(Older.Clip.self, where: predicate).map(\.title) == wanted, "\(number)")
            try older.write { (transaction: Transaction) throws in
                #expect(try transaction.fetch(Older.Clip.self, where: predicate).map(\.title) == wanted, "\(number)")
            }
        }
        context.close()
        try older.close()
        try folder.expectIntact()
    }
}
