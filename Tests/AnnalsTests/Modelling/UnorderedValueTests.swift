// Sets and dictionaries inside values: equal ones are stored alike, and are no difference and no conflict.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Point: Codable, Hashable {
    var x = 0
    var y = 0
}

private enum Rule: Codable, Hashable {
    case none
    case words(Set<String>)
    case points([Point: Set<Int>])
}

private struct Nested: Codable, Hashable {
    var numbers: Set<Int> = []
    var groups: Set<Set<String>> = []
    var places: [Point: String] = [:]
    var names: [String: Set<UUID>] = [:]
    var rules: [Rule] = []
    var dates: Set<Date>? = nil
}

private struct Item: Entity, Equatable {
    var name = ""
    var tags: Set<String> = Set((0..<20).map { "initial \($0)" })
    var places: [Point: Int] = [:]
    var nested = Nested()
    var more: Set<Double>?

    static let schema = Schema<Item> { Attribute(\.name, .unique) }
}

@Suite struct UnorderedValueTests {
    private let folder: StoreFolder
    private let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Item.self])
    }

    /// Equal values in memory that were filled in another order, and so are iterated in another one.
    private static func item(_ name: String, _ seed: UInt64) -> Item {
        var random = SeededRandom(seed)
        func set<Element: Hashable>(_ elements: some Sequence<Element>) -> Set<Element> {
            let shuffled = Array(elements).shuffled(using: &random)
            var set = Set<Element>(minimumCapacity: Int.random(in: 0..<200, using: &random))
            for element in shuffled { set.insert(element) }
            return set
        }
        func dictionary<Key: Hashable, Value>(_ keys: [Key], _ value: (Key) -> Value) -> [Key: Value] {
            var dictionary = [Key: Value](minimumCapacity: Int.random(in: 0..<200, using: &random))
            for key in keys.shuffled(using: &random) { dictionary[key] = value(key) }
            return dictionary
        }
        let points = (0..<12).map { Point(x: $0, y: 100 - $0) }
        let ids = (0..<10).map { UUID(uuid: (UInt8($0), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) }
        let words = (0..<20).map { "word \($0) / \"\u{e9}\u{1F600}\"" }
        var item = Item(name: name, tags: set(words), places: dictionary(points) { $0.x })
        item.more = set((0..<15).map { Double($0) / 7 })
        item.nested = Nested(
            numbers: set(0..<20), groups: set([set(words), set(words.prefix(5)), []]),
            places: dictionary(points) { "\($0.y)" }, names: dictionary(["a", "b", "c"]) { _ in set(ids) },
            rules: [.none, .words(set(words)), .points(dictionary(points) { _ in set(0..<9) })],
            dates: set((0..<15).map { Date(timeIntervalSinceReferenceDate: Double($0) * 1.1) }))
        return item
    }

    private func stored(_ name: String) throws -> [Value] {
        let snapshot = try store.snapshot()
        let item = try #require(try snapshot.references(to: Item.self, where: #Predicate { $0.name == name }).first)
        return Array(try #require(try snapshot.row(item.id)).values.dropFirst())
    }

    /// Writes the text of an older version of the library, which kept sets in the order in which they were iterated.
    private func writeAsBefore(_ name: String, tags: String) throws -> Reference<Item> {
        let (item, _) = try store.write { try $0.insert(Item(name: name)) }
        try store.write { _ = try $0.update(item.id, ["tags": .json(tags)]) }
        return item
    }

    private func attributesOfLastChange() throws -> [String]? {
        try store.history(HistoryRequest()).last?.changes.last?.attributes
    }

    @Test func equalValuesAreStoredAlike() throws {
        for seed in 0..<20 as Range<UInt64> {
            let item = Self.item("\(seed)", seed)
            try store.write { _ = try $0.insert(item) }
            #expect(try stored("\(seed)") == stored("0"))
            #expect(try store.snapshot().fetch(Item.self, sortedBy: .ascending(\.name)).contains(item))
        }
        try store.close()
        try folder.expectIntact()
    }

    @Test func otherValuesKeepTheirForm() throws {
        struct Plain: Codable, Equatable {
            enum Kind: String, Codable { case one, two }
            var integer = -7
            var double = 0.1
            var whole = 3.0
            var text = "a/\u{e9}\"\n\u{1F600}"
            var flag = true
            var none: Int?
            var date = Date(timeIntervalSinceReferenceDate: 1.5)
            var data = Data([1, 2, 3])
            var url = URL(string: "https://swift.org/a?b=c")
            var decimal = Decimal(string: "12345678901234567890.5")
            var uuid = UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
            var list = [[1, 2], []]
            var texts = ["b", "a"]
            var names = ["b": 1, "a": 2]
            var numbers = [10: "ten", 9: "nine"]
            var kind = Kind.two
            var wide = UInt64.max
        }
        struct Holder: Entity {
            var plain = Plain()
            var list: [Plain] = []
        }
        let other = try StoreFolder()
        let store = try Store(at: other.path, entities: [Holder.self])
        let (holder, _) = try store.write { try $0.insert(Holder(list: [Plain(), Plain(none: 1)])) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let row = try #require(try store.snapshot().row(holder.id))
        #expect(row["plain"]?.json == String(decoding: try encoder.encode(Plain()), as: UTF8.self))
        #expect(
            row["list"]?.json == String(decoding: try encoder.encode([Plain(), Plain(none: 1)]), as: UTF8.self))
        #expect(try store.snapshot()[holder]?.plain == Plain())
        try store.close()
        try other.expectIntact()
    }

    @Test func equalValuesAreNoDifference() throws {
        let (item, _) = try store.write { try $0.insert(Self.item("a", 1)) }
        let before = try store.currentToken
        for seed in 2..<8 as Range<UInt64> {
            let other = Self.item("a", seed)
            #expect(try !store.write { try $0.update(item) { $0.name = "a" } }.result)
            #expect(try !store.write { try $0.update(item) { $0 = other } }.result)
            #expect(try !store.writeOptimistically { try $0.update(item, to: other) }.result)
            try store.write { _ = try $0.upsert(other) }
            try store.upsert(contentsOf: [other])
            try store.update(Item.self) { $0 = other }
            let context = store.makeContext()
            let object = try context.object(item)
            object.tags = other.tags
            object.objectUpdate { $0 = other }
            #expect(!context.hasChanges)
            #expect(context.changedObjects(Item.self).isEmpty)
            context.upserts = true
            context.insert(other)
            try context.save()
        }
        #expect(try store.currentToken == before)
        #expect(try store.snapshot().count(Item.self) == 1)
        try store.close()
        try folder.expectIntact()
    }

    @Test func equalValuesAreNoConflict() throws {
        let (item, _) = try store.write { try $0.insert(Self.item("a", 1)) }
        let context = store.makeContext()
        let other = store.makeContext()
        let mine = try context.object(item)
        let theirs = try other.object(item)
        mine.tags.insert("new")
        theirs.name = "b"
        try other.save()
        #expect(try attributesOfLastChange() == ["name"])
        try context.save()
        #expect(try attributesOfLastChange() == ["tags"])
        #expect(mine.name == "b")
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Values of before

    @Test func valuesInAnotherOrderAreReadAndAreNoDifference() throws {
        let item = try writeAsBefore("a", tags: #"["c","a","b"]"#)
        let value = try #require(try store.snapshot()[item])
        #expect(value.tags == ["a", "b", "c"])
        let before = try store.currentToken
        #expect(try !store.write { try $0.update(item, to: value) }.result)
        #expect(try !store.write { try $0.update(item) { $0.tags = ["b", "c", "a"] } }.result)
        try store.write { _ = try $0.upsert(value) }
        try store.update(Item.self) { $0.tags = ["b", "c", "a"] }
        let context = store.makeContext()
        let object = try context.object(item)
        object.tags = ["b", "c", "a"]
        #expect(!context.hasChanges)
        #expect(try store.currentToken == before)
        // A change of another property is one of that property alone, whoever makes it.
        try store.write { _ = try $0.update(item) { $0.more = [1] } }
        #expect(try attributesOfLastChange() == ["more"])
        var changed = value
        changed.more = [2]
        try store.write { [changed] in _ = try $0.upsert(changed) }
        #expect(try attributesOfLastChange() == ["more"])
        try store.update(Item.self) { $0.more = [3] }
        #expect(try attributesOfLastChange() == ["more"])
        object.more = [4]
        try context.merge()
        context.mergePolicy = .objectWins
        try context.save()
        #expect(try attributesOfLastChange() == ["more"])
        // A transaction that has changed the object already, and one that gives the same elements in another way.
        try store.write { transaction in
            try transaction.update(item) { $0.more = [5] }
            #expect(try !transaction.update(item) { $0.tags = ["c", "b", "a"] })
        }
        #expect(try attributesOfLastChange() == ["more"])
        #expect(try store.snapshot().row(item.id)?["tags"] == .json(#"["c","a","b"]"#))
        try store.write { _ = try $0.update(item) { $0.tags.insert("d") } }
        #expect(try store.snapshot().row(item.id)?["tags"] == .json(#"["a","b","c","d"]"#))
        try store.close()
        try folder.expectIntact()
    }

    @Test func longValuesInAnotherOrderAreNoDifference() throws {
        let words = (0..<2000).map { "word \($0)" }
        let text = String(decoding: try JSONEncoder().encode(Array(words.reversed())), as: UTF8.self)
        let item = try writeAsBefore("a", tags: text)
        let before = try store.currentToken
        #expect(try !store.write { try $0.update(item, to: Item(name: "a", tags: Set(words))) }.result)
        try store.write { _ = try $0.upsert(Item(name: "a", tags: Set(words))) }
        try store.update(Item.self) { $0.tags = Set(words) }
        #expect(try store.currentToken == before)
        let context = store.makeContext()
        try context.object(item).places = [Point(): 1]
        try context.save()
        #expect(try attributesOfLastChange() == ["places"])
        try store.close()
        try folder.expectIntact()
    }

    @Test func valuesInAnotherOrderAreOneGroup() throws {
        _ = try writeAsBefore("a", tags: #"["c","a","b"]"#)
        _ = try writeAsBefore("b", tags: #"["b","c","a"]"#)
        try store.insert(contentsOf: [Item(name: "c", tags: ["a", "b", "c"]), Item(name: "d", tags: [])])
        let snapshot = try store.snapshot()
        let groups = try snapshot.groups(by: \Item.tags)
        #expect(groups.count == 2)
        #expect(groups.first { $0.key.count == 3 }?.count == 3)
        #expect(try Set(snapshot.values(of: \Item.tags, distinct: true)) == [["a", "b", "c"], []])
        #expect(try snapshot.values(of: \Item.tags, distinct: true).count == 2)
        let tags: Set = ["b", "a", "c"]
        #expect(try snapshot.count(Item.self, where: #Predicate { $0.tags == tags }) == 3)
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Elsewhere

    @Test func aDefaultIsTheSameEachTime() throws {
        let values: [String: Value] = ["name": "a", "places": .json("[]"), "nested": Self.empty]
        let (id, before) = try store.write { try $0.insert("Item", values) }
        #expect(try store.snapshot()[Reference<Item>(id)]?.tags == Item().tags)
        try store.close()
        let again = try Store(at: folder.path, entities: [Item.self])
        #expect(try again.currentToken == before)
        try again.close()
        try folder.expectIntact()
    }

    private static let empty = Value.json(#"{"groups":[],"names":{},"numbers":[],"places":[],"rules":[]}"#)

    @Test func equalMetadataIsNoDifference() throws {
        for seed in 0..<5 as Range<UInt64> { try store.setMetadata(Self.item("a", seed).nested, for: "key") }
        let before = try store.currentToken
        for seed in 5..<10 as Range<UInt64> { try store.setMetadata(Self.item("a", seed).nested, for: "key") }
        #expect(try store.currentToken == before)
        #expect(try store.metadata("key", as: Nested.self) == Self.item("a", 0).nested)
        try store.close()
        try folder.expectIntact()
    }
}
