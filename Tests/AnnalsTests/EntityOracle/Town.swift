// The types of the oracle of structs: every type of property, every kind of relationship, every rule.

import Annals
import FoundationEssentials

/// Owners have places, places have things.
enum Town {
    struct Owner: Entity, Equatable {
        var name = ""
        var places = ToMany<Place>()

        static let schema = Schema<Owner> { Attribute(\.name, .unique) }
    }

    struct Place: Entity, Equatable {
        var name = ""
        var size = 0
        var owner: Reference<Owner>?
        var parent: Reference<Place>?
        var rival: Reference<Place>?
        var children = ToMany<Place>()
        var things = ToMany<Thing>()
        var visitors = ToMany<Thing>()

        static let schema = Schema<Place> {
            Attribute(\.name, .unique, .preservedOnDeletion)
            Attribute(\.size, .indexed)
            Relationship(\.owner, inverse: \.places, whenTargetIsDeleted: .deny)
            Relationship(\.parent, inverse: \.children, whenTargetIsDeleted: .cascade)
        }
    }

    struct Thing: Entity, Equatable {
        enum Color: String, Codable, CaseIterable { case red, green, blue }
        enum Level: Int, Codable, CaseIterable {
            case low = -1
            case high = 1_099_511_627_776
        }
        struct Note: Codable, Equatable {
            var texts: [String] = []
            var count: UInt8?
        }

        var code: String?
        var title = "untitled"
        var sortTitle = ""
        var rank = 5
        var slot: Int?
        var tiny: Int8 = 0
        var short: Int16?
        var word: UInt16 = 1
        var wide: UInt64?
        var ratio = 0.25
        var share: Double?
        var half: Float = 1
        var isOn = false
        var isRare: Bool?
        var day: Date?
        var made = Date(timeIntervalSinceReferenceDate: 0)
        var uuid: UUID?
        var data = Data()
        var url: URL?
        var price = Decimal(0)
        var fee: Decimal?
        var color = Color.red
        var level: Level?
        var note: Note?
        var words: [String] = []
        var place: Reference<Place>?
        var keeper: Reference<Owner>?
        var visited: [Reference<Place>] = []
        var parts: [Reference<Thing>] = []
        var friends: Set<Reference<Thing>> = []
        var needs: Set<Reference<Owner>> = []
        var friendsOf = ToMany<Thing>()
        var cache = 7

        static let schema = Schema<Thing>(unique: [[\.place, \.slot]], indexed: [[\.isOn, \.rank]]) {
            Attribute(\.code, .unique, .preservedOnDeletion, .pattern("[a-z0-9]*"))
            Attribute(\.title, .length(1...100_000))
            Attribute(\.sortTitle, .derived { String($0.title.lowercased().prefix(20)) })
            Attribute(\.rank, .indexed, .range(-1000...1000))
            Attribute(\.day, .indexed)
            Relationship(\.place, inverse: \.things, whenTargetIsDeleted: .cascade)
            Relationship(\.keeper, whenTargetIsDeleted: .noAction)
            Relationship(\.visited, inverse: \.visitors)
            Relationship(\.parts, .count(0...6), whenTargetIsDeleted: .cascade)
            Relationship(\.friends, inverse: \.friendsOf)
            Relationship(\.needs, whenTargetIsDeleted: .deny)
            Transient(\.cache)
        }
    }

    static let entities: [any Entity.Type] = [Owner.self, Place.self, Thing.self]

    /// A version of the program in which values may be missing that `Thing` always has.
    struct LooseThing: Entity {
        var title: String?
        var rank: Int?
        var tiny: Int?
        var ratio: Double?
        var isOn: Bool?
        var made: Date?
        var price: Decimal?
        var color: String?
        var data: Data?
        var words: [String]?

        static let schema = Schema<LooseThing>("Thing")
    }

    /// The properties that may be missing then.
    static let loose = ["title", "rank", "tiny", "ratio", "isOn", "made", "price", "color", "data", "words"]
}

/// What the model knows of a type.
protocol TownEntity: Entity, Equatable {
    static var objects: WritableKeyPath<TownModel, [Reference<Self>: Self]> { get }
    static var links: [TownLink<Self>] { get }
    /// What is not as the schema asks for.
    var isValid: Bool { get }
    /// With what saving computes.
    var saved: Self { get }
    /// Values under each unique key; nil if a part has no value.
    var keys: [String?] { get }
    /// Bits that `==` does not tell apart, and what it tells apart although it is the same.
    var bits: [UInt64] { get }
    var comparable: Self { get }
}

extension TownEntity {
    func isSame(as other: Self) -> Bool { bits == other.bits && comparable == other.comparable }
    var bits: [UInt64] { [] }
    var comparable: Self { self }
    var isValid: Bool { true }
    var saved: Self { self }
}

/// A property that refers to objects.
struct TownLink<E: TownEntity> {
    let rule: DeleteRule
    let targets: (E) -> [ObjectID]
    /// Takes out what leads to no live object.
    let clean: (inout E, (ObjectID) -> Bool) -> Void
    /// A property that was not changed keeps what it was before it was cleaned.
    let keep: (inout E, _ read: E, _ raw: E) -> Void

    static func one<T>(_ path: WritableKeyPath<E, Reference<T>?>, _ rule: DeleteRule) -> Self {
        Self(
            rule: rule, targets: { $0[keyPath: path].map { [$0.id] } ?? [] },
            clean: { value, isLive in
                if let target = value[keyPath: path], !isLive(target.id) { value[keyPath: path] = nil }
            },
            keep: { if $0[keyPath: path] == $1[keyPath: path] { $0[keyPath: path] = $2[keyPath: path] } })
    }

    static func list<T>(_ path: WritableKeyPath<E, [Reference<T>]>, _ rule: DeleteRule) -> Self {
        Self(
            rule: rule, targets: { $0[keyPath: path].map(\.id) },
            clean: { value, isLive in value[keyPath: path].removeAll { !isLive($0.id) } },
            keep: { if $0[keyPath: path] == $1[keyPath: path] { $0[keyPath: path] = $2[keyPath: path] } })
    }

    static func set<T>(_ path: WritableKeyPath<E, Set<Reference<T>>>, _ rule: DeleteRule) -> Self {
        Self(
            rule: rule, targets: { $0[keyPath: path].map(\.id).sorted() },
            clean: { value, isLive in value[keyPath: path] = value[keyPath: path].filter { isLive($0.id) } },
            keep: { if $0[keyPath: path] == $1[keyPath: path] { $0[keyPath: path] = $2[keyPath: path] } })
    }
}

extension Town.Owner: TownEntity {
    static var objects: WritableKeyPath<TownModel, [Reference<Town.Owner>: Town.Owner]> { \.owners }
    static var links: [TownLink<Town.Owner>] { [] }
    var keys: [String?] { [name] }
}

extension Town.Place: TownEntity {
    static var objects: WritableKeyPath<TownModel, [Reference<Town.Place>: Town.Place]> { \.places }
    static var links: [TownLink<Town.Place>] {
        [.one(\.owner, .deny), .one(\.parent, .cascade), .one(\.rival, .nullify)]
    }
    var keys: [String?] { [name] }
}

extension Town.Thing: TownEntity {
    static var objects: WritableKeyPath<TownModel, [Reference<Town.Thing>: Town.Thing]> { \.things }
    static var links: [TownLink<Town.Thing>] {
        [
            .one(\.place, .cascade), .one(\.keeper, .noAction), .list(\.visited, .nullify), .list(\.parts, .cascade),
            .set(\.friends, .nullify), .set(\.needs, .deny),
        ]
    }

    var keys: [String?] { [code, place.flatMap { place in slot.map { "\(place) \($0)" } }] }
    var bits: [UInt64] { [ratio.bitPattern, share.map(\.bitPattern) ?? .max, UInt64(half.bitPattern)] }

    var comparable: Self {
        var value = self
        (value.ratio, value.share, value.half, value.cache) = (0, nil, 0, 0)
        return value
    }

    var isValid: Bool {
        (code ?? "").utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) } && !title.isEmpty
            && title.count <= 100_000 && abs(rank) <= 1000 && parts.count <= 6
    }

    var saved: Self {
        var value = self
        value.sortTitle = String(title.lowercased().prefix(20))
        return value
    }
}
