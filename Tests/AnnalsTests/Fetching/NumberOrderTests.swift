// One order of numbers, NaN included, for sorting and for the least and greatest value, wherever they come from; and
// sums that fit if their result does.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Item: Entity, Equatable {
    var x = 0.0
    var half: Float = 0
    var maybe: Double?
    var decimal = Decimal(0)
    var label = 0
}

/// A number for comparing: all NaNs are one, and so are both zeros.
private func same(_ left: Double?, _ right: Double?) -> Bool {
    guard let left, let right else { return left == nil && right == nil }
    return left == right || left.isNaN && right.isNaN
}

/// The documented order: NaN after all other numbers.
private func isBefore(_ left: Double, _ right: Double) -> Bool {
    left.isNaN ? false : right.isNaN ? true : left < right
}

@Suite struct NumberOrderTests {
    private let folder: StoreFolder
    private let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Item.self, Counted.self, Team.self])
    }

    static let lists: [[Double]] = [
        [.nan, 1, 2], [1, .nan, 2], [1, 2, .nan], [.nan], [.nan, -.nan], [.infinity, .nan, -.infinity],
        [0.0, -0.0, .nan], [-0.0, 0.0], [1, 1], [],
    ]

    private static func item(_ x: Double, _ label: Int) -> Item {
        var value = Item()
        (value.x, value.half, value.label) = (x, Float(x), label)
        value.maybe = x == 1 ? nil : x
        value.decimal = x.isNaN ? .nan : x.isInfinite ? (x > 0 ? 1_000_000 : -1_000_000) : Decimal(x)
        return value
    }

    /// Everything that a way of reading says, for comparison with the others.
    private func expectOrder(
        of xs: [Double], _ values: [Double], _ least: Double?, _ greatest: Double?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let sorted = xs.sorted(by: isBefore)
        #expect(same(least, sorted.first), "\(xs): \(String(describing: least))", sourceLocation: sourceLocation)
        #expect(same(greatest, sorted.last), "\(xs): \(String(describing: greatest))", sourceLocation: sourceLocation)
        // Of two zeros it is always the same one.
        #expect(least?.sign == .plus || least != 0, sourceLocation: sourceLocation)
        #expect(greatest?.sign == .plus || greatest != 0, sourceLocation: sourceLocation)
        #expect(values.count == xs.count, sourceLocation: sourceLocation)
        for (value, x) in zip(values, sorted) {
            #expect(same(value, x), "\(xs): \(values)", sourceLocation: sourceLocation)
        }
    }

    private func insert(_ xs: [Double], isIndexed: Bool) throws {
        if isIndexed {
            try store.changeSchema(
                ["x", "half", "maybe", "decimal"].map { .changeAttribute($0, of: "Item", isIndexed: true) })
        }
        try store.insert(contentsOf: xs.enumerated().map { Self.item($1, $0) })
    }

    @Test(arguments: lists, [false, true]) func numbersHaveOneOrder(_ xs: [Double], isIndexed: Bool) throws {
        try insert(xs, isIndexed: isIndexed)
        let all = #Predicate<Object<Item>> { $0.label < 1000 }
        for predicate in [nil, all] {
            let snapshot = try store.snapshot()
            expectOrder(
                of: xs, try snapshot.fetch(Item.self, where: predicate, sortedBy: .ascending(\.x)).map(\.x),
                try snapshot.minimum(of: \Item.x, where: predicate),
                try snapshot.maximum(of: \Item.x, where: predicate))
            let descending = try snapshot.fetch(Item.self, where: predicate, sortedBy: .descending(\.x))
            #expect(zip(descending.reversed(), xs.sorted(by: isBefore)).allSatisfy { same($0.x, $1) })
            try expectOthers(xs, snapshot, predicate)
            // A context without changes, and with changes of each kind that come to the same.
            for change in 0..<4 {
                let context = store.makeContext()
                let objects = try context.fetch(Item.self)
                switch change {
                case 1:
                    for object in objects.prefix(1) { object.label += 1 }
                case 2:
                    for object in objects {
                        let x = object.x
                        object.x = 77
                        object.x = x
                        object.label += 1
                    }
                case 3:
                    for object in objects.reversed() {
                        context.insert(Self.item(object.x, object.label))
                        context.delete(object)
                    }
                default: break
                }
                let fetched = try context.fetch(Item.self, where: predicate, sortedBy: .ascending(\.x)).map {
                    $0.x as Double
                }
                expectOrder(
                    of: xs, fetched, try context.minimum(of: \Item.x, where: predicate),
                    try context.maximum(of: \Item.x, where: predicate))
                let results = try context.results(Item.self, where: predicate, sortedBy: .ascending(\.x))
                expectOrder(
                    of: xs, results.map { $0.x as Double }, try context.minimum(of: \Item.x, where: predicate),
                    try context.maximum(of: \Item.x, where: predicate))
            }
            // A transaction that has changed some and all of them.
            for count in [1, xs.count] {
                _ = try? store.write { transaction in
                    for reference in try transaction.references(to: Item.self).prefix(count) {
                        try transaction.update(reference) { $0.label += 1 }
                    }
                    let fetched = try transaction.fetch(Item.self, where: predicate, sortedBy: .ascending(\.x)).map(\.x)
                    #expect(fetched.count == xs.count)
                    #expect(zip(fetched, xs.sorted(by: isBefore)).allSatisfy { same($0, $1) })
                    throw CancellationError()
                }
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    /// Properties of other types, and groups.
    private func expectOthers(_ xs: [Double], _ snapshot: Snapshot, _ predicate: Predicate<Object<Item>>?) throws {
        let sorted = xs.sorted(by: isBefore)
        #expect(same(try snapshot.minimum(of: \Item.half, where: predicate).map(Double.init), sorted.first))
        #expect(same(try snapshot.maximum(of: \Item.half, where: predicate).map(Double.init), sorted.last))
        let present = sorted.filter { $0 != 1 }
        #expect(same(try snapshot.minimum(of: \Item.maybe, where: predicate), present.first))
        #expect(same(try snapshot.maximum(of: \Item.maybe, where: predicate), present.last))
        let decimals = try snapshot.fetch(Item.self, where: predicate, sortedBy: .ascending(\.decimal)).map(\.decimal)
        #expect(decimals.map(\.isNaN) == sorted.map(\.isNaN))
        let least = try snapshot.minimum(of: \Item.decimal, where: predicate)
        let greatest = try snapshot.maximum(of: \Item.decimal, where: predicate)
        #expect(least?.isNaN == decimals.first?.isNaN && greatest?.isNaN == decimals.last?.isNaN)
        #expect(least?.isNaN ?? true || least == decimals.first)
        #expect(greatest?.isNaN ?? true || greatest == decimals.last)
        let groups = try snapshot.groups(by: \Item.label, aggregating: \.x, where: predicate)
        for group in groups {
            #expect(same(group.minimum(\.x), xs[group.key]) && same(group.maximum(\.x), xs[group.key]))
        }
        let distinct = try snapshot.groups(by: \Item.x, where: predicate)
        #expect(zip(distinct, distinct.dropFirst()).allSatisfy { isBefore($0.key, $1.key) })
    }

    @Test(arguments: lists, [false, true])
    func comparisonsWithNaNMatchSwift(_ xs: [Double], isIndexed: Bool) throws {
        try insert(xs, isIndexed: isIndexed)
        for bound in [Double.nan, 0, 1, .infinity] {
            let some = [bound, 2]
            let predicates: [(Predicate<Object<Item>>, (Double) -> Bool)] = [
                (#Predicate { $0.x == bound }, { $0 == bound }), (#Predicate { $0.x != bound }, { $0 != bound }),
                (#Predicate { $0.x < bound }, { $0 < bound }), (#Predicate { $0.x >= bound }, { $0 >= bound }),
                (#Predicate { !($0.x < bound) }, { !($0 < bound) }),
                (#Predicate { some.contains($0.x) }, { some.contains($0) }),
            ]
            for (predicate, isMatch) in predicates {
                let expected = xs.filter(isMatch).count
                #expect(try store.snapshot().count(Item.self, where: predicate) == expected)
                let context = store.makeContext()
                #expect(try context.count(Item.self, where: predicate) == expected)
                for object in try context.fetch(Item.self) { object.label += 1 }
                #expect(try context.count(Item.self, where: predicate) == expected)
                _ = try? store.write { transaction in
                    for reference in try transaction.references(to: Item.self) {
                        try transaction.update(reference) { $0.label += 1 }
                    }
                    #expect(try transaction.count(Item.self, where: predicate) == expected)
                    throw CancellationError()
                }
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: Sums

    private struct Team: Entity {
        var name = ""
        var total = 0
        var members = ToMany<Counted>()

        static let schema = Schema<Team> { Attribute(\.total, .derived(sum: \.members, \.n)) }
    }

    private struct Counted: Entity {
        var n = 0
        var small: Int8 = 0
        var text = ""
        var team: Reference<Team>?

        static let schema = Schema<Counted> { Relationship(\.team, inverse: \.members) }
    }

    @Test(arguments: [[Int.max, 1, -1], [1, -1, .max], [.max, .max, .min, .min, 2], [.min, -1, 1], [5]])
    func aSumThatFitsIsReturned(_ numbers: [Int]) throws {
        let sum = Int(numbers.reduce(Int128(0)) { $0 + Int128($1) })
        let (team, _) = try store.write { transaction in
            let team = try transaction.insert(Team(name: "a"))
            for n in numbers { try transaction.insert(Counted(n: n, small: 1, team: team)) }
            return team
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.sum(of: \Counted.n) == sum)
        #expect(try snapshot.average(of: \Counted.n) == Double(sum) / Double(numbers.count))
        #expect(try snapshot.groups(by: \Counted.small, aggregating: \.n).first?.sum(\.n) == sum)
        #expect(try snapshot[team]?.total == sum)
        let context = store.makeContext()
        let objects = try context.fetch(Counted.self)
        #expect(try context.sum(of: \Counted.n) == sum)
        for object in objects { object.text = "b" }
        #expect(try context.sum(of: \Counted.n) == sum)
        #expect(try context.average(of: \Counted.n) == Double(sum) / Double(numbers.count))
        try store.close()
        try folder.expectIntact()
    }

    @Test func aSumThatDoesNotFitThrowsEverywhere() throws {
        try store.insert(contentsOf: (0..<3).map { _ in Counted(n: .max, small: 100) })
        let snapshot = try store.snapshot()
        expect(.valueOutOfRange) { try snapshot.sum(of: \Counted.n) }
        expect(.valueOutOfRange) { try snapshot.sum(of: \Counted.small) }
        #expect(try snapshot.average(of: \Counted.n) == Double(Int.max))
        expect(.valueOutOfRange) { try snapshot.groups(by: \Counted.text, aggregating: \.small).first?.sum(\.small) }
        expect(.invalidArgument) { try snapshot.average(of: \Counted.text) }
        let context = store.makeContext()
        for object in try context.fetch(Counted.self) { object.text = "b" }
        expect(.valueOutOfRange) { try context.sum(of: \Counted.n) }
        expect(.valueOutOfRange) { try context.sum(of: \Counted.small) }
        #expect(try context.average(of: \Counted.n) == Double(Int.max))
        expect(.invalidArgument) { try context.average(of: \Counted.text) }
        try store.close()
        try folder.expectIntact()
    }
}
