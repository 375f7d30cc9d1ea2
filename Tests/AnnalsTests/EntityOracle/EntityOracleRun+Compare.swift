// What a store shows in every way there is to ask, against the model.

import Annals
import FoundationEssentials
import Testing

extension EntityOracleRun {
    // MARK: All objects

    func compare(_ snapshot: Snapshot, _ model: TownModel) throws {
        try compare(Town.Owner.self, snapshot, model)
        try compare(Town.Place.self, snapshot, model)
        try compare(Town.Thing.self, snapshot, model)
        if let dead = random.element(random.dead), !model.has(dead) {
            try require(
                try snapshot[Reference<Town.Thing>(dead)] == nil && snapshot[Reference<Town.Place>(dead)] == nil,
                "\(dead) is gone, and there")
        }
        guard let place = random.one(of: Town.Place.self, model) else { return }
        try require(
            try snapshot.references(\Town.Place.things, of: place)
                == model.things.filter { $0.value.place == place }.keys.sorted(), "things of \(place)")
        try require(
            try snapshot.references(\Town.Place.visitors, of: place)
                == model.things.filter { $0.value.visited.contains(place) }.keys.sorted(), "visitors of \(place)")
        try require(
            try snapshot.values(\Town.Place.children, of: place).count
                == model.places.values.count { $0.parent == place }, "children of \(place)")
    }

    private func compare<E: TownEntity>(_ type: E.Type, _ snapshot: Snapshot, _ model: TownModel) throws {
        let wanted = model[keyPath: E.objects]
        var found: [Reference<E>] = []
        try snapshot.forEach(type) { reference, value in
            found.append(reference)
            guard let mine = wanted[reference] else { throw OracleDifference("\(reference) is there: \(value)") }
            try self.require(value.isSame(as: mine), "\(reference) is \(value), and not \(mine)")
            return true
        }
        try require(found == wanted.keys.sorted(), "\(E.self): \(found.count) objects, and not \(wanted.count)")
        try require(try snapshot.count(type) == wanted.count, "a count of \(E.self)")
        if let one = random.element(found) {
            try require(try snapshot[one].map { $0.isSame(as: wanted[one]!) } ?? false, "\(one) by its reference")
        }
    }

    // MARK: In a transaction

    func read(_ transaction: Transaction, _ draft: TownDraft) throws {
        let visible = draft.visible
        counts.operations += 1
        switch random.below(5) {
        case 0:
            let filter = EntityOraclePredicates.place(visible, &random)
            let wanted = visible.places.filter { filter.meaning($0.key, $0.value, visible) }
            try require(
                try transaction.references(to: Town.Place.self, where: filter.predicate).sorted()
                    == wanted.keys.sorted(),
                "in a transaction, \(filter.name)")
            let sorted = try transaction.fetch(
                Town.Place.self, where: filter.predicate, sortedBy: .descending(\.size), .ascending(\.name), limit: 4,
                offset: 1)
            let all = wanted.values.sorted { $0.size == $1.size ? $0.name < $1.name : $0.size > $1.size }
            // Names are not unique before the commit.
            try require(
                sorted.map { "\($0.size) \($0.name)" } == all.dropFirst().prefix(4).map { "\($0.size) \($0.name)" },
                "in a transaction, \(filter.name), sorted")
        case 1, 2:
            let filter = EntityOraclePredicates.thing(visible, &random)
            let wanted = visible.things.filter { filter.meaning($0.key, $0.value, visible) }
            let found = try transaction.references(to: Town.Thing.self, where: filter.predicate)
            try require(found.sorted() == wanted.keys.sorted(), "in a transaction, \(filter.name): \(found)")
            try require(
                try transaction.count(Town.Thing.self, where: filter.predicate) == wanted.count, "in a transaction")
        case 3:
            guard let place = random.one(of: Town.Place.self, visible) else { return }
            try require(
                try transaction.references(\Town.Place.things, of: place)
                    == visible.things.filter { $0.value.place == place }.keys.sorted(), "in a transaction, things")
            try require(
                try transaction.references(\Town.Place.visitors, of: place)
                    == visible.things.filter { $0.value.visited.contains(place) }.keys.sorted(),
                "in a transaction, visitors")
        default:
            for (reference, value) in visible.things {
                let found = try transaction[reference]
                try require(
                    found.map { $0.isSame(as: value) } ?? false,
                    "in a transaction, \(String(describing: found)) is not \(value), after \(draft.trace)"
                )
            }
            for object in draft.gone {
                try require(try transaction[Reference<Town.Thing>(object)] == nil, "deleted here, and there")
            }
        }
    }

    // MARK: Finding

    func find(_ snapshot: Snapshot, _ model: TownModel) throws {
        counts.operations += 1
        counts.predicates += 1
        // What is found is said to be wrong only of objects that are right.
        if random.chance(1, in: 8) { try compare(snapshot, model) }
        do {
            try findSome(snapshot, model)
        } catch {
            try compare(snapshot, model)
            throw error
        }
    }

    private func findSome(_ snapshot: Snapshot, _ model: TownModel) throws {
        if random.chance(1, in: 3) {
            try find(EntityOraclePredicates.place(model, &random), snapshot, model, Self.placeKeys)
        } else {
            let filter = EntityOraclePredicates.thing(model, &random)
            try find(filter, snapshot, model, Self.thingKeys)
            if random.chance(1, in: 2) {
                try reduce(filter, snapshot, model.things.filter { filter.meaning($0.key, $0.value, model) })
            }
        }
    }

    private func find<E: TownEntity>(
        _ filter: OraclePredicate<E>, _ snapshot: Snapshot, _ model: TownModel, _ keys: [OracleSortKey<E>]
    ) throws {
        let all = model[keyPath: E.objects]
        let wanted = all.filter { filter.meaning($0.key, $0.value, model) }.keys.sorted()
        let found = try snapshot.references(to: E.self, where: filter.predicate)
        let how = { (try? snapshot.explain(E.self, where: filter.predicate))?.description ?? "" }
        try require(
            found.sorted() == wanted, "\(filter.name) finds \(found.sorted()), and not \(wanted): \(how())")
        try require(try snapshot.count(E.self, where: filter.predicate) == wanted.count, "a count of \(filter.name)")
        if random.chance(1, in: 4) {
            let first = try snapshot.first(E.self, where: filter.predicate)
            try require(
                first.map { first in wanted.contains { all[$0]!.isSame(as: first) } } ?? wanted.isEmpty,
                "the first of \(filter.name)")
        }
        // Sorted.
        var chosen: [OracleSortKey<E>] = []
        for _ in 0..<1 + random.below(2) {
            let key = keys[random.below(keys.count)]
            if !chosen.contains(where: { $0.name == key.name }) { chosen.append(key) }
        }
        let directions = chosen.map { _ in random.chance(1, in: 2) }
        let isDescending = directions.allSatisfy { $0 }
        let ordered = wanted.map { ($0, all[$0]!) }.sorted { left, right in
            for (key, isDescending) in zip(chosen, directions) {
                let (a, b) = (key.bytes(left.1), key.bytes(right.1))
                if a == b { continue }
                return a.lexicographicallyPrecedes(b) != isDescending
            }
            return isDescending ? right.0 < left.0 : left.0 < right.0
        }.map(\.0)
        let limit = random.maybe(random.below(9))
        let offset = random.chance(1, in: 2) ? 0 : random.below(4)
        let expected = Array(ordered.dropFirst(offset).prefix(limit ?? .max))
        let sorting = zip(chosen, directions).map { $1 ? $0.descending : $0.ascending }
        let names = zip(chosen, directions).map { "\($1 ? "-" : "")\($0.name)" }
        let sorted =
            sorting.count == 1
            ? try snapshot.references(
                to: E.self, where: filter.predicate, sortedBy: sorting[0], limit: limit, offset: offset)
            : try snapshot.references(
                to: E.self, where: filter.predicate, sortedBy: sorting[0], sorting[1], limit: limit, offset: offset)
        try require(
            sorted == expected, "\(filter.name) by \(names) is \(sorted), and not \(expected): \(how())")
        if random.chance(1, in: 3) {
            let values = try snapshot.fetch(
                E.self, where: filter.predicate, sortedBy: sorting[0], limit: limit, offset: offset)
            for value in values {
                try require(wanted.contains { all[$0]!.isSame(as: value) }, "\(filter.name) fetches \(value)")
            }
        }
    }

    // MARK: Aggregates

    private typealias Thing = Town.Thing

    private func reduce(
        _ filter: OraclePredicate<Town.Thing>, _ snapshot: Snapshot, _ wanted: [Reference<Town.Thing>: Town.Thing]
    ) throws {
        let all = wanted.sorted { $0.key < $1.key }.map(\.value)
        let predicate = filter.predicate
        func expect(_ holds: Bool, _ what: String) throws { try require(holds, "\(what) of \(filter.name)") }
        switch random.below(8) {
        case 0:
            try expect(
                try snapshot.sum(of: \Thing.rank, where: predicate) == all.reduce(0) { $0 + $1.rank }, "sum of rank")
            let slots = all.compactMap(\.slot)
            try expect(try snapshot.sum(of: \Thing.slot, where: predicate) == slots.reduce(0, +), "sum of slot")
            try expect(
                try snapshot.average(of: \Thing.slot, where: predicate)
                    == (slots.isEmpty ? nil : Double(slots.reduce(0, +)) / Double(slots.count)), "average of slot")
        case 1:
            try expect(
                try snapshot.minimum(of: \Thing.rank, where: predicate) == all.map(\.rank).min(), "least rank")
            try expect(
                try snapshot.maximum(of: \Thing.rank, where: predicate) == all.map(\.rank).max(), "greatest rank")
            try expect(
                try snapshot.minimum(of: \Thing.tiny, where: predicate) == all.map(\.tiny).min(), "least tiny")
            try expect(
                try snapshot.maximum(of: \Thing.tiny, where: predicate) == all.map(\.tiny).max(), "greatest tiny")
        case 2:
            try expect(
                try snapshot.minimum(of: \Thing.day, where: predicate) == all.compactMap(\.day).min(), "least day")
            try expect(
                try snapshot.maximum(of: \Thing.day, where: predicate) == all.compactMap(\.day).max(), "greatest day")
            try expect(
                try snapshot.maximum(of: \Thing.made, where: predicate) == all.map(\.made).max(), "greatest made")
            try expect(
                try snapshot.minimum(of: \Thing.made, where: predicate) == all.map(\.made).min(), "least made")
        case 3:
            try expect(
                try snapshot.sum(of: \Thing.price, where: predicate) == all.reduce(Decimal(0)) { $0 + $1.price },
                "sum of price")
            try expect(
                try snapshot.minimum(of: \Thing.price, where: predicate) == all.map(\.price).min(), "least price")
            try expect(
                try snapshot.maximum(of: \Thing.fee, where: predicate) == all.compactMap(\.fee).max(), "greatest fee")
        case 4:
            let groups = try snapshot.groups(by: \Thing.color, aggregating: \.rank, \.slot, where: predicate)
            let mine = Dictionary(grouping: all, by: \.color)
            try expect(groups.map(\.key.rawValue) == mine.keys.map(\.rawValue).sorted(), "groups by color")
            for group in groups {
                let things = mine[group.key] ?? []
                let slots = things.compactMap(\.slot)
                try expect(
                    try group.count == things.count && group.sum(\.rank) == things.reduce(0) { $0 + $1.rank }
                        && group.minimum(\.slot) == slots.min() && group.maximum(\.rank) == things.map(\.rank).max()
                        && group.sum(\.slot) == (slots.isEmpty ? nil : slots.reduce(0, +)), "a group by color")
            }
        case 5:
            let groups = try snapshot.groups(by: \Thing.place, where: predicate, having: { $0.count > 1 })
            let mine = Dictionary(grouping: all, by: \.place).filter { $0.value.count > 1 }
            try expect(groups.allSatisfy { mine[$0.key]?.count == $0.count }, "groups by place")
            try expect(groups.count == mine.count, "groups by place")
            let ranks = try snapshot.groups(by: \Thing.rank, where: predicate)
            let byRank = Dictionary(grouping: all, by: \.rank)
            try expect(ranks.map(\.key) == byRank.keys.sorted(), "groups by rank")
            try expect(ranks.allSatisfy { byRank[$0.key]?.count == $0.count }, "groups by rank")
        case 6:
            let ratios = try snapshot.groups(by: \Thing.ratio, where: predicate)
            let numbers = Dictionary(grouping: all.map(\.ratio).filter { !$0.isNaN }, by: { $0 })
            try expect(ratios.map(\.key).filter { !$0.isNaN } == numbers.keys.sorted(), "groups by ratio")
            try expect(
                ratios.reduce(0) { $0 + $1.count } == all.count && ratios.count { $0.key.isNaN } < 2,
                "groups by ratio")
            let distinct = try snapshot.values(of: \Thing.ratio, where: predicate, distinct: true)
            try expect(distinct.count == ratios.count, "distinct ratios")
        default:
            let tuples = try snapshot.select(
                Thing.self, \.title, \.slot, \.place, where: predicate, sortedBy: [.ascending(\.rank)])
            let ranks = all.map(\.rank).sorted()
            try expect(tuples.count == ranks.count, "tuples")
            let texts = tuples.map { "\($0) \(String(describing: $1)) \(String(describing: $2))" }.sorted()
            try expect(
                texts
                    == all.map {
                        "\($0.title) \(String(describing: $0.slot)) \(String(describing: $0.place))"
                    }.sorted(), "tuples")
            let pairs = try snapshot.select(Thing.self, \.isOn, \.rank, where: predicate, distinct: true)
            try expect(
                Set(pairs.map { "\($0) \($1)" }) == Set(all.map { "\($0.isOn) \($0.rank)" }), "distinct pairs")
            try expect(pairs.count == Set(pairs.map { "\($0) \($1)" }).count, "distinct pairs")
        }
    }
}

/// A sort key, and bytes that order as it does.
struct OracleSortKey<E: TownEntity> {
    let name: String
    let ascending: SortKey<E>
    let descending: SortKey<E>
    let bytes: (E) -> [UInt8]

    init<V>(
        _ name: String, _ path: any KeyPath<E, V> & Sendable, _ bytes: @escaping (V) -> [UInt8]
    ) {
        self.name = name
        ascending = .ascending(path)
        descending = .descending(path)
        self.bytes = { bytes($0[keyPath: path]) }
    }

    /// No value first.
    static func optional<W>(_ bytes: @escaping (W) -> [UInt8]) -> (W?) -> [UInt8] {
        { $0.map { [1] + bytes($0) } ?? [0] }
    }

    static func integer<I: FixedWidthInteger>(_ integer: I) -> [UInt8] {
        let bits = UInt64(bitPattern: Int64(integer)) ^ 1 << 63
        return (0..<8).map { UInt8(truncatingIfNeeded: bits >> (56 - 8 * $0)) }
    }

    /// Zeros are equal; NaN comes last.
    static func double(_ double: Double) -> [UInt8] {
        if double.isNaN { return [255, 255] }
        let bits = (double + 0).bitPattern
        let ordered = double < 0 ? ~bits : bits | 1 << 63
        return (0..<8).map { UInt8(truncatingIfNeeded: (double == 0 ? 1 << 63 : ordered) >> (56 - 8 * $0)) }
    }

    static func date(_ date: Date) -> [UInt8] { double(date.timeIntervalSinceReferenceDate) }

    static func text(_ text: String) -> [UInt8] { Array(text.utf8) }

    static func decimal(_ decimal: Decimal) -> [UInt8] { double(Double("\(decimal)") ?? 0) }
}

extension EntityOracleRun {
    static var placeKeys: [OracleSortKey<Town.Place>] {
        [
            OracleSortKey("name", \.name, OracleSortKey<Town.Place>.text),
            OracleSortKey("size", \.size, OracleSortKey<Town.Place>.integer),
        ]
    }

    static var thingKeys: [OracleSortKey<Town.Thing>] {
        typealias Key = OracleSortKey<Town.Thing>
        return [
            Key("rank", \.rank, Key.integer), Key("slot", \.slot, Key.optional(Key.integer)),
            Key("tiny", \.tiny, Key.integer), Key("short", \.short, Key.optional(Key.integer)),
            Key("title", \.title, Key.text), Key("code", \.code, Key.optional(Key.text)),
            Key("ratio", \.ratio, Key.double), Key("share", \.share, Key.optional(Key.double)),
            Key("half", \.half) { Key.double(Double($0)) }, Key("day", \.day, Key.optional(Key.date)),
            Key("made", \.made, Key.date), Key("price", \.price, Key.decimal),
            Key("isOn", \.isOn) { [$0 ? 1 : 0] }, Key("color", \.color) { Key.text($0.rawValue) },
            Key("wide", \.wide, Key.optional { Key.integer(Int64($0)) }),
        ]
    }
}
