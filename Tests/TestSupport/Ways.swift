// One change of a small store, and every way to make it. So a test can let each way meet each other one, and compare
// what all who read the store show then.

package import Annals
package import FoundationEssentials

/// What the ways change: parts, and visits, whose history is off unless the store is made otherwise. Both are in boxes,
/// which have their sums.
package enum Ways {
    package struct Box: Entity {
        package var number = 0
        package var total = 0
        package var visitTotal = 0
        package var changed = Date.distantPast
        package var parts = ToMany<Part>()
        package var visits = ToMany<Visit>()

        package init() {}
        package init(number: Int) { self.number = number }

        package static let schema = Schema<Box> {
            Attribute(\.number, .unique)
            Attribute(\.total, .derived(sum: \.parts, \.rank))
            Attribute(\.visitTotal, .derived(sum: \.visits, \.rank))
            Attribute(\.changed, .derived(.lastChange))
        }
    }

    package struct Part: Entity, WaysItem {
        package var key = 0
        package var rank = 0
        package var text = ""
        package var memo = ""
        package var words = Ways.words(0)
        package var box: Reference<Box>?

        package init() {}

        package static let schema = Schema<Part> {
            Attribute(\.key, .unique, .preservedOnDeletion)
            Attribute(\.rank, .indexed)
            Attribute(\.memo, .searchable)
            Attribute(\.words, .searchable(weight: 2))
            Relationship(\.box, inverse: \.parts)
        }
        package static var changed: [any PartialKeyPath<Part> & Sendable] { [\.rank, \.words, \.box] }
        package static func with(key: Int) -> Predicate<Object<Part>> { #Predicate { $0.key == key } }
    }

    package struct Visit: Entity, WaysItem {
        package var key = 0
        package var rank = 0
        package var text = ""
        package var words = Ways.words(0)
        package var box: Reference<Box>?

        package init() {}

        package static let schema = Schema<Visit>(history: .off) {
            Attribute(\.key, .unique)
            Attribute(\.rank, .indexed)
            Attribute(\.words, .searchable)
            Relationship(\.box, inverse: \.visits)
        }
        package static var changed: [any PartialKeyPath<Visit> & Sendable] { [\.rank, \.words, \.box] }
        package static func with(key: Int) -> Predicate<Object<Visit>> { #Predicate { $0.key == key } }
    }

    /// Makes a transaction long.
    package struct Filler: Entity {
        package var text = ""
        package init() {}
        package init(text: String) { self.text = text }
    }

    package static let entities: [any Entity.Type] = [Box.self, Part.self, Visit.self, Filler.self]

    /// The searched text of parts and visits of a rank.
    package static func words(_ rank: Int) -> String { "rank w\(rank)" }

    /// Opened with these first, a new store keeps the history of visits.
    package static let keepingVisits = [EntityDescription("Visit", attributes: [])]

    /// A program that knows less.
    enum Older {
        struct Part: Entity, WaysOlderItem {
            var key = 0
            var rank = 0

            static let schema = Schema<Part> { Attribute(\.key, .unique, .preservedOnDeletion) }
            static func with(key: Int) -> Predicate<Object<Part>> { #Predicate { $0.key == key } }
        }

        struct Visit: Entity, WaysOlderItem {
            var key = 0
            var rank = 0

            static let schema = Schema<Visit>(history: .off) { Attribute(\.key, .unique) }
            static func with(key: Int) -> Predicate<Object<Visit>> { #Predicate { $0.key == key } }
        }

        static let entities: [any Entity.Type] = [Part.self, Visit.self]
    }

    /// A program that knows more, and has migrations.
    enum Newer {
        struct Box: Entity {
            var number = 0
            var total = 0
            var visitTotal = 0
            var changed = Date.distantPast
            var parts = ToMany<Part>()
            var visits = ToMany<Visit>()

            static let schema = Schema<Box> {
                Attribute(\.number, .unique)
                Attribute(\.total, .derived(sum: \.parts, \.rank))
                Attribute(\.visitTotal, .derived(sum: \.visits, \.rank))
                Attribute(\.changed, .derived(.lastChange))
            }
        }

        struct Part: Entity {
            var key = 0
            var rank = 0
            var text = ""
            var memo = ""
            var words = Ways.words(0)
            var color = "c"
            var box: Reference<Box>?

            static let schema = Schema<Part> {
                Attribute(\.key, .unique, .preservedOnDeletion)
                Attribute(\.rank, .indexed)
                Relationship(\.box, inverse: \.parts)
            }
        }

        struct Visit: Entity {
            var key = 0
            var rank = 0
            var text = ""
            var words = Ways.words(0)
            var box: Reference<Box>?

            static let schema = Schema<Visit>(history: .off) {
                Attribute(\.key, .unique)
                Attribute(\.rank, .indexed)
                Relationship(\.box, inverse: \.visits)
            }
        }

        static let entities: [any Entity.Type] = [Box.self, Part.self, Visit.self, Filler.self]
    }
}

/// A part or a visit.
package protocol WaysItem: Entity, Sendable {
    var key: Int { get set }
    var rank: Int { get set }
    var text: String { get set }
    var words: String { get set }
    var box: Reference<Ways.Box>? { get set }
    init()
    static var changed: [any PartialKeyPath<Self> & Sendable] { get }
    static func with(key: Int) -> Predicate<Object<Self>>
}

protocol WaysOlderItem: Entity {
    var key: Int { get set }
    var rank: Int { get set }
    init(key: Int, rank: Int)
    static func with(key: Int) -> Predicate<Object<Self>>
}

/// What a store has of parts or visits, by key.
package struct WaysItems: Equatable, Sendable {
    package struct Item: Equatable, Sendable {
        package var rank: Int
        package var length: Int
        package var box: Int?
    }

    package private(set) var items: [Int: Item]

    /// What a new store has: key 0.
    package init(length: Int) { items = [0: Item(rank: 0, length: length, box: nil)] }

    package var lines: [String] {
        items.sorted { $0.key < $1.key }.map { key, item in
            WaysItems.line(key, item.rank, item.length, item.box)
        }
    }

    package static func line(_ key: Int, _ rank: Int, _ length: Int, _ box: Int?) -> String {
        "\(key): rank \(rank), length \(length), box \(box.map(String.init) ?? "none")"
    }

    package func total(ofBox box: Int) -> Int { items.values.filter { $0.box == box }.map(\.rank).reduce(0, +) }

    package mutating func apply(_ change: WaysChange.Items) {
        items[change.inserted] = Item(rank: change.insertedRank, length: change.length, box: change.box)
        if let updated = change.updated {
            items[updated]?.rank = change.updatedRank
            items[updated]?.box = change.otherBox
        }
        if let deleted = change.deleted { items[deleted] = nil }
    }
}

/// A change: of parts and of visits, one inserted, one updated, one deleted. Key 0 is left alone.
package struct WaysChange: Sendable {
    package struct Items: Sendable {
        package let inserted: Int
        package let insertedRank: Int
        package let updated: Int?
        package let updatedRank: Int
        package let deleted: Int?
        package let box: Int
        package let otherBox: Int
        package let length: Int

        init(_ number: Int, _ keys: [Int], _ length: Int) {
            let keys = keys.filter { $0 != 0 }.sorted()
            inserted = number
            insertedRank = number % 7
            updated = keys.isEmpty ? nil : keys[number % keys.count]
            updatedRank = number * 10
            let other = keys.isEmpty ? nil : keys[(number * 7 + 1) % keys.count]
            deleted = keys.count < 6 || other == updated ? nil : other
            box = number % 3
            otherBox = (number / 2) % 3
            self.length = length
        }
    }

    package let number: Int
    package let parts: Items
    package let visits: Items

    /// - Parameters:
    ///   - number: Above those of all changes before, and above 0.
    ///   - parts: The keys of the parts that it may touch.
    ///   - visits: The keys of the visits that it may touch.
    ///   - length: How long texts are.
    package init(_ number: Int, parts: [Int], visits: [Int], length: Int) {
        self.number = number
        self.parts = Items(number, parts, length)
        self.visits = Items(number, visits, length)
    }
}

/// A way to make a change, or to leave everything as it is.
package enum Way: String, CaseIterable, Sendable {
    case transaction, untyped, batch, upsert, context, background, undo, apply, revert, migration, older, long
    case compact, clean, restore, index

    /// Whether it makes the change.
    package var changes: Bool { ![.compact, .clean, .restore, .index].contains(self) }
}
