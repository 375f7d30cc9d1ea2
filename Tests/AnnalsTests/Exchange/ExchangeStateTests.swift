// What begins with a state, ends at a snapshot, or comes of another history, on more ways than one.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ExchangeStateTests {
    private func object(_ name: String, in store: Store) throws -> ObjectID {
        try #require(try store.snapshot().rows(of: "Item", where: "name", equals: .string(name)).first).id
    }

    private func insert(_ name: String, into store: Store) throws {
        try store.writeOptimistically { try $0.insert("Item", ["name": .string(name)]) }
    }

    private func delete(_ name: String, from store: Store) throws {
        try store.writeOptimistically { try $0.delete(try object(name, in: store)) }
    }

    private func outcomes(
        from source: Store, to target: Store, leavingOut: Bool = false
    ) throws -> [ApplyResult.Outcome] {
        try relay(from: source, to: target, leavingOut: leavingOut).map(\.outcome)
    }

    // MARK: States

    /// What it holds of others does not come a second time from them.
    @Test func aStateNamesTheOtherOriginsThatItContains() throws {
        let three = try ExchangeFolders(3, inAll: true)
        let (m, x, t) = (three.stores[0], three.stores[1], three.stores[2])
        for name in ["m1", "m2"] { try insert(name, into: m) }
        _ = try relay(from: m, to: x)
        try delete("m1", from: x)
        _ = try relay(from: x, to: m, leavingOut: true)
        try x.deleteHistory(before: .max)
        let state = try #require(try x.export().first)
        #expect(try state.holds == x.appliedOrigins && x.appliedOrigins.map(\.storeIdentifier) == [m.identifier])
        #expect(try outcomes(from: x, to: t) == [.applied])
        #expect(try t.lastApplied(from: m.identifier) == x.lastApplied(from: m.identifier))
        #expect(try Set(outcomes(from: m, to: t)) == [.alreadyHere])
        // Another one that gets the state from there knows it too.
        let folder = try StoreFolder()
        let late = try folder.open()
        _ = try relay(from: t, to: late)
        #expect(try late.lastApplied(from: m.identifier) == x.lastApplied(from: m.identifier))
        #expect(try Set(outcomes(from: m, to: late)) == [.alreadyHere])
        for store in three.stores + [late] { #expect(try contents(of: store) == contents(of: x)) }
        try late.close()
        try folder.expectIntact()
        try three.expectIntact()
    }

    /// It does not tell what was deleted since, so nobody takes it who has something of it.
    @Test func aStateIsNotAppliedToAStoreThatHasPartOfIt() throws {
        let three = try ExchangeFolders(3)
        let (o, m, t) = (three.stores[0], three.stores[1], three.stores[2])
        try insert("o1", into: o)
        _ = try relay(from: o, to: t)
        try delete("o1", from: o)
        try insert("o2", into: o)
        let rest = try o.export(after: .token(try #require(try t.lastApplied(from: o.identifier))))
        try o.deleteHistory(before: .max)
        #expect(try outcomes(from: o, to: m) == [.applied])
        let error = #expect(throws: StoreError.self) { try relay(from: m, to: t) }
        #expect(error?.code == .applyGap && error?.message.contains("apply it to a new store.") ?? false)
        for transaction in rest { #expect(try t.apply(transaction).outcome == .applied) }
        #expect(try outcomes(from: m, to: t) == [.alreadyHere])
        #expect(try contents(of: t) == contents(of: o) && contents(of: m) == contents(of: o))
        // Nor where what it holds was made.
        try insert("t1", into: t)
        _ = try relay(from: t, to: m)
        try insert("m1", into: m)
        try m.deleteHistory(before: .max)
        let state = try #require(try m.export().first)
        expect(.applyGap) { try t.apply(state) }
        try three.expectIntact()
    }

    /// A store that has made everything itself that was cleaned there needs no state.
    @Test func aStoreThatMadeTheCleanedHistoryNeedsNoState() throws {
        let pair = try ExchangeFolders(2)
        let (t, a) = (pair.stores[0], pair.stores[1])
        try insert("t1", into: t)
        _ = try relay(from: t, to: a, leavingOut: true)
        try delete("t1", from: t)
        try a.deleteHistory(before: .max)
        #expect(try outcomes(from: a, to: t, leavingOut: true).isEmpty)
        try insert("a1", into: a)
        #expect(try outcomes(from: a, to: t, leavingOut: true) == [.applied])
        _ = try relay(from: t, to: a, leavingOut: true)
        #expect(try contents(of: a) == contents(of: t))
        try pair.expectIntact()
    }

    @Test func aReferenceThatAStateLeftOutIsNoChangeHere() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try insert("x", into: a)
        try a.writeOptimistically { try $0.insert("Item", ["name": "y", "parent": .object(try object("x", in: a))]) }
        try delete("x", from: a)
        try a.deleteHistory(before: .max)
        _ = try relay(from: a, to: b)
        try a.writeOptimistically { try $0.update(try object("y", in: a), ["parent": .object(try object("y", in: a))]) }
        #expect(try outcomes(from: a, to: b) == [.applied])
        #expect(try contents(of: a) == contents(of: b))
        try pair.expectIntact()
    }

    /// Somebody cleans while the state is being applied.
    @Test func transactionsAfterAStateAreExportedDespiteCleaning() throws {
        let pair = try ExchangeFolders(2)
        let (a, b) = (pair.stores[0], pair.stores[1])
        for number in 0..<5 { try insert("\(number)", into: a) }
        try a.deleteHistory(before: 3)
        var count = 0
        try a.forEachExportedTransaction { (transaction) in
            try b.apply(transaction)
            if count == 0 { try a.deleteHistory(before: .max) }
            count += 1
            return true
        }
        #expect(try count == 5 && contents(of: a) == contents(of: b))
        try pair.expectIntact()
    }

    // MARK: Places

    @Test func theTargetMayBeNamedLater() throws {
        let pair = try ExchangeFolders(2)
        let (t, a) = (pair.stores[0], pair.stores[1])
        try insert("t1", into: t)
        _ = try relay(from: t, to: a)
        #expect(try Set(outcomes(from: a, to: t)) == [.alreadyHere])
        try insert("a1", into: a)
        #expect(try outcomes(from: a, to: t, leavingOut: true) == [.applied])
        #expect(try contents(of: a) == contents(of: t))
        try pair.expectIntact()
    }

    /// From before what was cleaned, if nothing after the place was to be given.
    @Test func anExportEndsAtAnOlderSnapshot() throws {
        let pair = try ExchangeFolders(2, inAll: true)
        let (a, b) = (pair.stores[0], pair.stores[1])
        try insert("a1", into: a)
        _ = try relay(from: b, to: a, leavingOut: true)
        _ = try relay(from: a, to: b, leavingOut: true)
        try insert("b1", into: b)
        _ = try relay(from: b, to: a, leavingOut: true)
        let snapshot = try a.snapshot()
        try insert("b2", into: b)
        _ = try relay(from: b, to: a, leavingOut: true)
        try a.deleteHistory(before: .max)
        let place = try #require(try b.lastApplied(from: a.identifier))
        for place in [HistoryRequest.Place.token(place), .number(place.number)] {
            try a.forEachExportedTransaction(after: place, to: b.identifier, in: snapshot) { _ in
                Issue.record("Something is given twice.")
                return true
            }
        }
        try pair.expectIntact()
    }

    /// Each round of the ring moves each place, so nothing has to be remembered of those before.
    @Test func everyRoundOfARingMovesEveryPlace() throws {
        let three = try ExchangeFolders(3, inAll: true)
        let stores = three.stores
        for (index, store) in stores.enumerated() { try insert("\(index)", into: store) }
        for round in 0..<20 {
            for (index, store) in stores.enumerated() {
                try store.writeOptimistically {
                    try $0.update(try object("\(index)", in: store), ["rank": .int(Int64(round))])
                }
                _ = try relay(from: store, to: stores[(index + 1) % 3], leavingOut: true)
            }
        }
        for (index, store) in stores.enumerated() {
            for other in stores where other.identifier != store.identifier {
                // All but what is still under way, and what was made here and so never came.
                let made = try other.history(after: 0).last { $0.origin == nil && !$0.changes.isEmpty }
                let place = try #require(try store.lastApplied(from: other.identifier))
                #expect(try place.number + 4 >= #require(made).number, "\(index)")
            }
        }
        try three.expectIntact()
    }

    // MARK: Other histories

    /// By way of a third store, whose own history is in order.
    @Test func anotherHistoryIsDetectedThroughAThirdStore() throws {
        let three = try ExchangeFolders(3)
        var o = three.stores[0]
        let (m, t) = (three.stores[1], three.stores[2])
        try insert("o1", into: o)
        for store in [t, m] { _ = try relay(from: o, to: store) }
        let (folder, copy) = (three.folders[0], three.folders[0].temporary.path("copy"))
        try o.backup(to: copy)
        try insert("lost", into: o)
        _ = try relay(from: o, to: t)
        try o.close()
        #expect(rename(copy, folder.path) == 0)
        o = try folder.open()
        for name in ["new", "newer"] {
            try insert(name, into: o)
            _ = try relay(from: o, to: m)
            expect(.originDiverged) { try relay(from: m, to: t) }
        }
        try o.close()
        try three.expectIntact()
    }

    /// What was passed over because it had come from a third store is exported again all the same, and missed where it
    /// was lost.
    @Test func anotherHistoryIsDetectedAfterSkippedTransactions() throws {
        let three = try ExchangeFolders(3, inAll: true)
        let (a, m) = (three.stores[0], three.stores[1])
        var t = three.stores[2]
        _ = try relay(from: a, to: t, leavingOut: true)
        _ = try relay(from: m, to: t)
        _ = try relay(from: t, to: a, leavingOut: true)
        let (folder, copy) = (three.folders[2], three.folders[2].temporary.path("copy"))
        try t.backup(to: copy)
        try insert("a1", into: a)
        try insert("m1", into: m)
        for store in [a, t] { _ = try relay(from: m, to: store) }
        #expect(try outcomes(from: t, to: a, leavingOut: true) == [.alreadyHere])
        try t.close()
        #expect(rename(copy, folder.path) == 0)
        t = try folder.open()
        // Under the number of what was lost comes something that the receiver has made.
        let place = try #require(try t.lastApplied(from: a.identifier))
        for transaction in try a.export(after: .token(place), to: t.identifier, limit: 1) { try t.apply(transaction) }
        #expect(try t.currentToken.number == #require(try a.lastApplied(from: t.identifier)).number)
        try insert("newer", into: t)
        expect(.originDiverged) { try relay(from: t, to: a, leavingOut: true) }
        try t.close()
        try three.expectIntact()
    }

    // MARK: Lists

    @Test func aListWithTwoNamesOfOneObjectHoldsItOnce() throws {
        let loose = EntityDescription(
            "Item",
            attributes: [
                AttributeDescription("name", .string),
                AttributeDescription("children", .orderedObjects, target: "Item"),
                AttributeDescription("friends", .objects, target: "Item"),
            ])
        let four = try ExchangeFolders(4, [])
        let (a, c, d, b) = (four.stores[0], four.stores[1], four.stores[2], four.stores[3])
        for store in [a, c, d] { try store.changeSchema([.addEntity(loose)]) }
        try b.changeSchema([.addEntity(ExchangeSample.item)])
        for store in [a, b, c] { try store.writeOptimistically { try $0.insert("Item", ["name": "k"]) } }
        for store in [a, c] { _ = try relay(from: store, to: d) }
        let both = try d.snapshot().rows(of: "Item").map(\.id)
        try d.writeOptimistically {
            try $0.insert("Item", ["name": "list", "children": .orderedObjects(both), "friends": .objects(both)])
        }
        let conflicts = try relay(from: d, to: b, conflicts: .exportWins).flatMap(\.conflicts)
        #expect(conflicts.allSatisfy { $0.reason != .unknownReference }, "\(conflicts)")
        let list = try #require(try b.snapshot().rows(of: "Item").first { $0["name"] == "list" })
        #expect(list["children"] == .orderedObjects([try object("k", in: b)]))
        #expect(list["friends"] == .objects([try object("k", in: b)]))
        try four.expectIntact()
    }
}
