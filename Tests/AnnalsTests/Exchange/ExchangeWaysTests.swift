// Several stores that export to each other in any order, and are cleaned.

import Annals
import TestSupport
import Testing

/// Stores that change and exchange at random. Each changes only objects that it has inserted itself, so nothing
/// contradicts.
private struct RandomExchange {
    let circle: ExchangeFolders
    var stores: [Store] { circle.stores }
    var random: SeededRandom
    /// By the indices of who exports and who applies: nil for no way, otherwise whether it leaves out what the receiver
    /// has made.
    var ways: [[Bool?]]
    var turn = 0
    /// How often cleaning went beyond what a receiver was given last.
    var cleanedBehind = 0

    init(seed: UInt64, _ count: Int) throws {
        circle = try ExchangeFolders(count, inAll: true)
        random = SeededRandom(seed)
        ways = []
        for from in 0..<count {
            ways.append(
                (0..<count).map { to in
                    // A circle at least, so that everything comes to everybody.
                    to == from || to != (from + 1) % count && random.happens(0.4) ? nil : random.happens(0.5)
                })
        }
    }

    mutating func step() throws {
        let from = random.one(of: Array(stores.indices))
        let to = random.one(of: stores.indices.filter { ways[from][$0] != nil })
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<4: try commit(from)
        case 4..<8: try relay(from, to, limit: random.happens(0.3) ? Int.random(in: 1..<4, using: &random) : nil)
        case 8: try clean(from)
        default: try stores[from].compact()
        }
    }

    private mutating func commit(_ index: Int) throws {
        let (store, prefix) = (stores[index], "\(index) ")
        let rows = try store.snapshot().rows(of: "Item")
        let own = rows.filter { $0["name"]?.string?.hasPrefix(prefix) ?? false }
        turn += 1
        try store.writeOptimistically { transaction in
            let parent = rows.isEmpty ? Value.null : .object(random.one(of: rows).id)
            guard !own.isEmpty, random.happens(0.6) else {
                try transaction.insert("Item", ["name": .string("\(prefix)\(turn)"), "parent": parent])
                return
            }
            let object = random.one(of: own).id
            if random.happens(0.2) {
                try transaction.delete(object)
            } else {
                try transaction.update(object, ["rank": .int(Int64(turn)), "parent": parent])
            }
        }
    }

    private func exported(_ from: Int, _ to: Int, limit: Int? = nil) throws -> [ExportedTransaction] {
        let (source, target) = (stores[from], stores[to])
        guard let leavesOut = ways[from][to] else { return [] }
        let place = try target.lastApplied(from: source.identifier)
        return try source.export(
            after: place.map { .token($0) }, to: leavesOut ? target.identifier : nil, limit: limit)
    }

    @discardableResult
    private func relay(_ from: Int, _ to: Int, limit: Int? = nil) throws -> Int {
        let exported = try exported(from, to, limit: limit)
        for transaction in exported { try stores[to].apply(transaction) }
        return exported.count
    }

    /// Up to what every receiver has, or need not be given.
    private mutating func clean(_ index: Int) throws {
        let store = stores[index]
        var last = try store.currentToken.number
        for to in stores.indices where ways[index][to] != nil {
            if let next = try exported(index, to, limit: 1).first { last = min(last, next.token.number - 1) }
        }
        guard last > 0 else { return }
        for to in stores.indices where ways[index][to] != nil {
            let place = try stores[to].lastApplied(from: store.identifier)
            if let place, place.number < last { cleanedBehind += 1 }
        }
        try store.deleteHistory(before: last + 1)
    }

    /// Everything to everybody, until nothing comes any more.
    func rest() throws {
        for _ in 0..<20 {
            var count = 0
            for from in stores.indices {
                for to in stores.indices where ways[from][to] != nil { count += try relay(from, to) }
            }
            if count == 0 { return }
        }
        Issue.record("The stores do not come to rest.")
    }
}

@Suite struct ExchangeWaysTests {
    /// Whatever way a transaction comes, it is applied once; and what a store leaves out of an export moves nobody's
    /// place, which must not be what cuts the receiver off when it is cleaned.
    @Test(arguments: [1, 2, 3, 5, 6, 7, 9] as [UInt64]) func allStoresConverge(seed: UInt64) throws {
        var exchange = try RandomExchange(seed: seed, 2 + Int(seed % 3))
        for _ in 0..<150 { try exchange.step() }
        try exchange.rest()
        let expected = try contents(of: exchange.stores[0])
        for store in exchange.stores.dropFirst() { #expect(try contents(of: store) == expected) }
        #expect(exchange.cleanedBehind > 0)
        try exchange.circle.expectIntact()
    }
}
