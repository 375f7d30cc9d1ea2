// A context saves after another handle has changed the schema: every value lands in its own attribute, whichever way
// the save takes to write it.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct SaveAcrossSchemasTests {
    private let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    private enum Mood: String, Codable, CaseIterable { case calm, glad }

    private struct Place: Codable, Equatable {
        var x = 0
        var y = 0
    }

    /// The newer program lacks two attributes, which lie between the others.
    private enum First {
        struct Thing: Entity {
            var gone = "x"
            var first = Data([1])
            var second = Data([2])
            var goneToo = Data([9])
            var mood = Mood.calm
            var place = Place()
            var key = UUID(uuid: (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
            var price = Decimal(1)
            var words: [String] = []
            var text = ""
            var more = ""
            var link: URL?
            var number = 0
            var changed: Date?
            static let schema = Schema<Thing>("Thing") { Attribute(\.changed, .derived(.lastChange)) }
        }
    }

    /// The same without two of the attributes.
    private struct Thing: Entity, Equatable {
        var first = Data([1])
        var second = Data([2])
        var mood = Mood.calm
        var place = Place()
        var key = UUID(uuid: (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        var price = Decimal(1)
        var words: [String] = []
        var text = ""
        var more = ""
        var link: URL?
        var number = 0
        var changed: Date?
        static let schema = Schema<Thing>("Thing") { Attribute(\.changed, .derived(.lastChange)) }
    }

    /// A change of one property, of a value and of an object.
    private struct Edit: Sendable {
        let value: @Sendable (inout Thing) -> Void
        let object: @Sendable (Object<Thing>) -> Void

        init<V: Sendable>(_ path: any WritableKeyPath<Thing, V> & Sendable, _ new: V) {
            value = { $0[keyPath: path] = new }
            object = { $0[dynamicMember: path] = new }
        }
    }

    /// Each is made alone, and then all of them.
    private static let edits = [
        Edit(\.first, Data([3, 3, 3])), Edit(\.second, Data([4, 4])), Edit(\.mood, .glad),
        Edit(\.place, Place(x: 7, y: 8)), Edit(\.key, UUID(uuid: (7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7))),
        Edit(\.price, Decimal(25) / 10), Edit(\.words, ["a", "b"]),
        Edit(\.text, String(repeating: "long ", count: 2000)), Edit(\.more, "m"),
        Edit(\.link, URL(string: "https://example.org")), Edit(\.number, 42),
    ]

    private static let changes: [[SchemaChange]] = [
        [.removeAttribute("gone", from: "Thing")],
        [.removeAttribute("goneToo", from: "Thing")],
        [.removeAttribute("gone", from: "Thing"), .removeAttribute("goneToo", from: "Thing")],
        [
            .removeAttribute("gone", from: "Thing"),
            .addAttribute(AttributeDescription("gone", .data, isOptional: true), to: "Thing"),
        ],
        [.renameAttribute("first", of: "Thing", to: "firstOfAll"), .removeAttribute("gone", from: "Thing")],
    ]

    private enum Way: CaseIterable { case insert, update, insertAgain, deleteAgain }

    private static let cases = Way.allCases.flatMap { way in
        changes.indices.flatMap { change in (0...edits.count).map { (way, change, $0) } }
    }

    /// Opens it as a program that knows all attributes first, so that positions are those of that program.
    private func open() throws -> Store {
        try Store(at: folder.path, entities: [First.Thing.self]).close()
        return try Store(at: folder.path, entities: [Thing.self])
    }

    @Test(arguments: cases) private func valuesLandInTheirOwnAttributes(
        _ way: Way, _ change: Int, _ edit: Int
    ) throws {
        let (store, newer) = (try open(), try Store(at: folder.path))
        let context = store.makeContext()
        context.undoLevels = 10
        var expected = Thing()
        let thing = context.insert(expected)
        if way != .insert { try context.save() }
        let before = thing.changed
        if way == .insertAgain {
            context.delete(thing)
            try context.save()
            try context.undo()
        }
        for edit in edit < Self.edits.count ? [Self.edits[edit]] : Self.edits {
            edit.value(&expected)
            edit.object(thing)
        }
        try newer.changeSchema(Self.changes[change])
        try context.save()
        if way == .deleteAgain {
            context.delete(thing)
            try context.save()
            try context.undo()
            try context.save()
        }
        let reference = thing.objectReference
        var stored = try #require(try store.snapshot()[reference])
        #expect(stored.changed != nil && stored.changed != before && stored.changed == thing.changed)
        stored.changed = nil
        #expect(stored == expected)
        context.close()
        for store in [newer, store] { try store.close() }
        try folder.expectIntact()
    }
}
