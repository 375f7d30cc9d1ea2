// Stores that export to each other, and keep no history of an entity.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ExchangeWithoutHistoryTests {
    private static let log = EntityDescription(
        "Log", attributes: [AttributeDescription("text", .string)], history: .off)

    private func makeStores(_ count: Int) throws -> ExchangeFolders {
        try ExchangeFolders(count, [ExchangeSample.item, Self.log])
    }

    private func insert(_ name: String, into store: Store) throws {
        try store.writeOptimistically { try $0.insert("Item", ["name": .string(name)]) }
        try store.writeOptimistically { try $0.insert("Log", ["text": .string("log of \(name)")]) }
    }

    private func names(_ store: Store) throws -> [String] {
        try store.snapshot().rows(of: "Item").compactMap { $0["name"]?.string }.sorted()
    }

    private func logs(_ store: Store) throws -> [String] {
        try store.snapshot().rows(of: "Log").compactMap { $0["text"]?.string }.sorted()
    }

    /// The first export of the second store is its history, and not a state that the first one cannot take.
    @Test func twoStoresExportToEachOther() throws {
        let pair = try makeStores(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try insert("a1", into: a)
        _ = try relay(from: a, to: b, leavingOut: true)
        #expect(try logs(b) == ["log of a1"])
        try insert("b1", into: b)
        for round in 2...4 {
            _ = try relay(from: b, to: a, leavingOut: true)
            #expect(try names(a) == names(b))
            try insert("a\(round)", into: a)
            try insert("b\(round)", into: b)
            let shared = try #require(try b.snapshot().rows(of: "Item", where: "name", equals: "a1").first)
            try b.writeOptimistically { try $0.update(shared.id, ["rank": .int(Int64(round))]) }
            _ = try relay(from: a, to: b, leavingOut: true)
        }
        _ = try relay(from: b, to: a, leavingOut: true)
        #expect(try contents(of: a).filter { !$0.hasPrefix("Log") } == contents(of: b).filter { !$0.hasPrefix("Log") })
        // What has no history stays where it was made, except for what the first state held.
        #expect(try logs(a) == (1...4).map { "log of a\($0)" })
        #expect(try logs(b) == ["log of a1"] + (1...4).map { "log of b\($0)" })
        try pair.expectIntact()
    }

    /// A deletion comes too, which a state would not say.
    @Test func aDeletionInTheSecondStoreReachesTheFirst() throws {
        let pair = try makeStores(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        for name in ["x", "y"] { try insert(name, into: a) }
        _ = try relay(from: a, to: b, leavingOut: true)
        let x = try #require(try b.snapshot().rows(of: "Item", where: "name", equals: "x").first)
        try b.writeOptimistically { try $0.delete(x.id) }
        _ = try relay(from: b, to: a, leavingOut: true)
        #expect(try names(a) == ["y"])
        try pair.expectIntact()
    }

    /// Of what was cleaned, only a state is left, and a new store must take it.
    @Test func cleanedHistoryIsStillAGap() throws {
        let pair = try makeStores(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try insert("a1", into: a)
        _ = try relay(from: a, to: b, leavingOut: true)
        try insert("b1", into: b)
        try b.deleteHistory(before: .max)
        expect(.applyGap) { _ = try relay(from: b, to: a, leavingOut: true) }
        expect(.tokenExpired) { _ = try b.export(after: .number(0), to: a.identifier) }
        #expect(try names(a) == ["a1"])
        try pair.expectIntact()
    }

    /// Two stores have the objects of a third one. Neither knows of the other, and the error names the way out.
    @Test func aStoreWithTheObjectsOfAThirdStoreMustBeginAtTransaction0() throws {
        let three = try makeStores(3)
        let (a, b, c) = (three.stores[0], three.stores[1], three.stores[2])
        try insert("a1", into: a)
        for store in [b, c] { _ = try relay(from: a, to: store, leavingOut: true) }
        try insert("b1", into: b)
        let error = expect(.applyGap) { _ = try relay(from: b, to: c, leavingOut: true) }
        #expect(error?.message.contains("after transaction 0") == true)
        for transaction in try b.export(after: .number(0), to: c.identifier) { try c.apply(transaction) }
        #expect(try names(c) == ["a1", "b1"])
        try insert("b2", into: b)
        _ = try relay(from: b, to: c, leavingOut: true)
        #expect(try names(c) == ["a1", "b1", "b2"])
        try three.expectIntact()
    }

    /// A store that comes later begins with a state as before.
    @Test func aNewStoreGetsTheState() throws {
        let pair = try makeStores(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try insert("a1", into: a)
        _ = try relay(from: a, to: b, leavingOut: true)
        try insert("b1", into: b)
        let folder = try StoreFolder()
        let late = try folder.open()
        _ = try relay(from: b, to: late, leavingOut: true)
        #expect(try names(late) == ["a1", "b1"] && logs(late) == ["log of a1", "log of b1"])
        try late.close()
        try folder.expectIntact()
        try pair.expectIntact()
    }
}
