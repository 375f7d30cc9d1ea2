// Random values of the oracle's types: few enough distinct ones that they meet, with the ends of every type.

import Annals
import FoundationEssentials
import TestSupport

struct TownRandom {
    var generator: SeededRandom
    /// References of objects that are gone, so that some are used again.
    var dead: [ObjectID] = []
    /// How many bytes a text has at most.
    var mostText = 100_000

    init(seed: UInt64) { generator = SeededRandom(seed) }

    mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }
    mutating func chance(_ numerator: Int, in denominator: Int) -> Bool { below(denominator) < numerator }
    mutating func element<Element>(_ list: [Element]) -> Element? { list.isEmpty ? nil : list[below(list.count)] }
    mutating func maybe<Element>(_ element: Element) -> Element? { chance(1, in: 3) ? nil : element }

    // MARK: Values

    static let words = [
        "a", "b", "ab", "Ab", "abc", "ä", "äb", "Ä", "a\r\nb", "z", "é", "日本", "ß", "SS", "\u{0}", "👨‍👩‍👧", "ab\u{7f}",
    ]

    mutating func text() -> String {
        if chance(1, in: 400), mostText > 70_000 { return String(repeating: "long ", count: 14_000) + "\(below(3))" }
        if chance(1, in: 12) { return String(repeating: "x", count: 300) + "\(below(9))" }
        return Self.words[below(Self.words.count)]
    }

    mutating func code() -> String {
        if chance(1, in: 200) { return "NOT VALID" }
        return String(below(500), radix: 20)
    }

    mutating func double() -> Double {
        switch below(12) {
        case 0: -0.0
        case 1: .infinity
        case 2: -.infinity
        case 3: .nan
        case 4: .leastNonzeroMagnitude
        case 5: Double(Int64.max)
        default: Double(below(9) - 4) / 2
        }
    }

    mutating func day() -> Date {
        if chance(1, in: 20) { return Date(timeIntervalSinceReferenceDate: Double(below(3) - 1) * 1e10) }
        return Date(timeIntervalSinceReferenceDate: Double(below(21) - 10) / 4)
    }

    mutating func decimal() -> Decimal {
        if chance(1, in: 20) { return Decimal(string: "-123456789012345678901234.5")! }
        return Decimal(below(21) - 10) / 4
    }

    mutating func uuid() -> UUID {
        UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, UInt8(below(4))))
    }

    mutating func integer<Integer: FixedWidthInteger>(_ type: Integer.Type, to largest: Integer = .max) -> Integer {
        switch below(8) {
        case 0: Integer.min
        case 1: largest
        default: Integer(below(7))
        }
    }

    // MARK: References

    mutating func one<E: TownEntity>(of type: E.Type, _ model: TownModel) -> Reference<E>? {
        element(model[keyPath: E.objects].keys.sorted())
    }

    /// Mostly live, now and then one that is gone.
    mutating func target<E: TownEntity>(_ type: E.Type, _ model: TownModel) -> Reference<E>? {
        if chance(1, in: 3) { return nil }
        if chance(1, in: 600) {
            let gone = dead.filter { $0.entityNumber == model[keyPath: E.objects].keys.first?.id.entityNumber }
            if let object = element(gone) { return Reference(object) }
        }
        return one(of: type, model)
    }

    mutating func targets<E: TownEntity>(_ type: E.Type, _ model: TownModel, upTo most: Int) -> [Reference<E>] {
        if chance(1, in: 2) { return [] }
        var targets: [Reference<E>] = []
        for _ in 0..<below(most + 1) {
            if let target = target(type, model), !targets.contains(target) { targets.append(target) }
        }
        return targets
    }

    // MARK: Objects

    mutating func owner() -> Town.Owner { Town.Owner(name: "o\(below(40))") }

    mutating func place(_ model: TownModel) -> Town.Place {
        Town.Place(
            name: "p\(below(300))", size: below(12) - 3, owner: target(Town.Owner.self, model),
            parent: target(Town.Place.self, model), rival: target(Town.Place.self, model))
    }

    mutating func thing(_ model: TownModel) -> Town.Thing {
        var thing = Town.Thing()
        for property in 0..<Self.properties where chance(1, in: 2) { change(&thing, property, model) }
        if thing.title.isEmpty { thing.title = "t" }
        return thing
    }

    static let properties = 28

    /// Changes one property of a thing.
    mutating func change(_ thing: inout Town.Thing, _ property: Int, _ model: TownModel) {
        switch property {
        case 0: thing.code = maybe(code())
        case 1: thing.title = chance(1, in: 200) ? "" : text()
        case 2: thing.rank = chance(1, in: 150) ? 1001 : below(30) - 10
        case 3: thing.slot = maybe(below(5))
        case 4: thing.tiny = integer(Int8.self)
        case 5: thing.short = maybe(integer(Int16.self))
        case 6: thing.word = integer(UInt16.self)
        case 7: thing.wide = maybe(integer(UInt64.self, to: UInt64(Int64.max)))
        case 8: thing.ratio = double()
        case 9: thing.share = maybe(double())
        case 10: thing.half = Float(double())
        case 11: thing.isOn = chance(1, in: 2)
        case 12: thing.isRare = maybe(chance(1, in: 2))
        case 13: thing.day = maybe(day())
        case 14: thing.made = day()
        case 15: thing.uuid = maybe(uuid())
        case 16: thing.data = Data(repeating: UInt8(below(3)), count: chance(1, in: 500) ? 70_000 : below(4))
        case 17: thing.url = maybe(URL(string: "https://example.org/\(below(4))")!)
        case 18: thing.price = decimal()
        case 19: thing.fee = maybe(decimal())
        case 20: thing.color = Town.Thing.Color.allCases[below(3)]
        case 21: thing.level = maybe(Town.Thing.Level.allCases[below(2)])
        case 22: thing.note = maybe(Town.Thing.Note(texts: [text()], count: maybe(UInt8(below(256)))))
        case 23: thing.words = (0..<below(3)).map { _ in Self.words[below(Self.words.count)] }
        case 24:
            thing.place = target(Town.Place.self, model)
            thing.keeper = target(Town.Owner.self, model)
        case 25: thing.visited = targets(Town.Place.self, model, upTo: 4)
        case 26:
            thing.parts = chance(1, in: 3) ? targets(Town.Thing.self, model, upTo: chance(1, in: 60) ? 7 : 2) : []
        default:
            thing.friends = Set(targets(Town.Thing.self, model, upTo: 4))
            thing.needs = chance(1, in: 4) ? Set(targets(Town.Owner.self, model, upTo: 2)) : []
        }
        thing.cache = 7
    }

    mutating func change(_ place: inout Town.Place, _ model: TownModel) {
        switch below(5) {
        case 0: place.name = "p\(below(300))"
        case 1: place.size = below(12) - 3
        case 2: place.owner = target(Town.Owner.self, model)
        case 3: place.parent = target(Town.Place.self, model)
        default: place.rival = target(Town.Place.self, model)
        }
    }
}
