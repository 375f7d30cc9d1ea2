// Transactions that contradict what was changed where they are applied, and ways between stores.

import Annals
import Foundation
import TestSupport
import Testing

@Suite struct ExchangeConflictTests {
    /// Two stores with the objects “x” and “y”, which came from the first.
    struct Pair {
        let folders: ExchangeFolders
        let (a, b): (Store, Store)
        let (xa, ya): (ObjectID, ObjectID)
        let (xb, yb): (ObjectID, ObjectID)

        init() throws {
            folders = try ExchangeFolders(2)
            (a, b) = (folders.stores[0], folders.stores[1])
            // Own objects first, so that IDs differ.
            try b.changeSchema([.addEntity(ExchangeSample.item)])
            try b.writeOptimistically { try $0.insert("Item", ["name": "own"]) }
            (xa, ya) = try a.writeOptimistically { transaction in
                (
                    try transaction.insert("Item", ["name": "x", "rank": 1]),
                    try transaction.insert("Item", ["name": "y", "rank": 1])
                )
            }.result
            _ = try relay(from: a, to: b)
            let entity = try b.entity("Item")
            let snapshot = try b.snapshot()
            xb = try #require(try snapshot.objects(of: entity, where: "name", equals: "x").first)
            yb = try #require(try snapshot.objects(of: entity, where: "name", equals: "y").first)
        }

        func value(_ object: ObjectID, _ name: String) throws -> Value? { try b.snapshot().row(object)?[name] }

        /// Makes a change there; here it is refused, with these reasons, and then applied under a policy.
        func apply(
            _ policy: ConflictPolicy, _ reasons: [ApplyConflict.Reason],
            sourceLocation: SourceLocation = #_sourceLocation,
            _ body: (Transaction) throws -> Void
        ) throws -> ApplyResult {
            try a.writeOptimistically { try body($0) }
            let exported = try #require(try a.export(after: .number(try a.currentToken.number - 1)).first)
            let token = try b.currentToken
            let error = #expect(throws: StoreError.self, sourceLocation: sourceLocation) { try b.apply(exported) }
            #expect(error?.code == .applyConflict, sourceLocation: sourceLocation)
            #expect(error?.applyConflicts.map(\.reason) == reasons, sourceLocation: sourceLocation)
            for cure in ConflictPolicy.allCases where cure != .error {
                #expect(error?.message.contains("“\(cure.rawValue)”") == true, sourceLocation: sourceLocation)
            }
            #expect(try b.currentToken == token, sourceLocation: sourceLocation)
            let result = try b.apply(exported, conflicts: policy)
            #expect(result.conflicts.map(\.reason) == reasons, sourceLocation: sourceLocation)
            #expect(result.outcome == .applied && result.token != nil, sourceLocation: sourceLocation)
            return result
        }
    }

    @Test(arguments: [ConflictPolicy.exportWins, .storeWins])
    func thePolicyDecidesAboutValuesChangedHere(policy: ConflictPolicy) throws {
        let pair = try Pair()
        try pair.b.writeOptimistically { try $0.update(pair.xb, ["rank": 50]) }
        let result = try pair.apply(policy, [.changedHere]) { try $0.update(pair.xa, ["rank": 2, "size": 3]) }
        #expect(result.conflicts.first?.attributes == ["rank"] && result.conflicts.first?.local == pair.xb)
        #expect(try pair.value(pair.xb, "rank") == (policy == .exportWins ? 2 : 50))
        #expect(try pair.value(pair.xb, "size") == 3)
        try pair.folders.expectIntact()
    }

    @Test func theSameChangeOnBothSidesIsNoConflict() throws {
        let pair = try Pair()
        try pair.b.writeOptimistically { try $0.update(pair.xb, ["rank": 2]) }
        try pair.b.writeOptimistically { try $0.delete(pair.yb) }
        try pair.a.writeOptimistically { try $0.update(pair.xa, ["rank": 2]) }
        try pair.a.writeOptimistically { try $0.delete(pair.ya) }
        #expect(try relay(from: pair.a, to: pair.b).allSatisfy { $0.outcome == .applied && $0.conflicts.isEmpty })
        // And other attributes of the same object are no contradiction.
        try pair.b.writeOptimistically { try $0.update(pair.xb, ["size": 77]) }
        try pair.a.writeOptimistically { try $0.update(pair.xa, ["rank": 3]) }
        #expect(try relay(from: pair.a, to: pair.b).allSatisfy { $0.conflicts.isEmpty })
        #expect(try pair.value(pair.xb, "size") == 77 && pair.value(pair.xb, "rank") == 3)
        try pair.folders.expectIntact()
    }

    @Test(arguments: [ConflictPolicy.exportWins, .storeWins]) func anObjectDeletedHereIsNotUpdated(
        policy: ConflictPolicy
    ) throws {
        let pair = try Pair()
        try pair.b.writeOptimistically { try $0.delete(pair.xb) }
        _ = try pair.apply(policy, [.deletedHere]) {
            try $0.update(pair.xa, ["rank": 2])
            try $0.update(pair.ya, ["rank": 2])
        }
        #expect(try pair.b.snapshot().row(pair.xb) == nil)
        #expect(try pair.value(pair.yb, "rank") == 2)
        try pair.folders.expectIntact()
    }

    @Test(arguments: [ConflictPolicy.exportWins, .storeWins])
    func anInsertionWhoseKeyIsTakenBecomesTheObjectThatHasIt(policy: ConflictPolicy) throws {
        let pair = try Pair()
        let own = try #require(
            try pair.b.snapshot().objects(of: try pair.b.entity("Item"), where: "name", equals: "own").first)
        var object: ObjectID?
        _ = try pair.apply(policy, [.keyTaken(by: own)]) {
            object = try $0.insert("Item", ["name": "own", "rank": 8])
            try $0.update(pair.xa, ["parent": .object(try #require(object))])
        }
        #expect(try pair.value(own, "rank") == (policy == .exportWins ? 8 : .null))
        #expect(try pair.value(pair.xb, "parent") == .object(own))
        // From now on it is that one.
        try pair.a.writeOptimistically { try $0.update(try #require(object), ["size": 12]) }
        #expect(try relay(from: pair.a, to: pair.b).allSatisfy { $0.conflicts.isEmpty })
        #expect(try pair.value(own, "size") == 12)
        try pair.folders.expectIntact()
    }

    @Test(arguments: [ConflictPolicy.exportWins, .storeWins]) func anUpdateLeavesOutAKeyThatIsTaken(
        policy: ConflictPolicy
    )
        throws
    {
        let pair = try Pair()
        let own = try #require(
            try pair.b.snapshot().objects(of: try pair.b.entity("Item"), where: "name", equals: "own").first)
        _ = try pair.apply(policy, [.keyTaken(by: own)]) { try $0.update(pair.xa, ["name": "own", "rank": 2]) }
        #expect(try pair.value(pair.xb, "name") == "x" && pair.value(pair.xb, "rank") == 2)
        try pair.folders.expectIntact()
    }

    /// What stays here under “ours” keeps its key, also where the transaction would have taken it away.
    @Test func aKeyThatIsKeptHereStaysTaken() throws {
        let pair = try Pair()
        try pair.b.writeOptimistically { try $0.update(pair.xb, ["name": "here"]) }
        let reasons: [ApplyConflict.Reason] = [.changedHere, .keyTaken(by: pair.xb)]
        try pair.a.writeOptimistically {
            try $0.update(pair.xa, ["name": "there"])
            try $0.update(pair.ya, ["name": "here"])
        }
        let exported = try #require(try pair.a.export().last)
        let result = try pair.b.apply(exported, conflicts: .storeWins)
        #expect(result.conflicts.map(\.reason) == reasons)
        #expect(try pair.value(pair.xb, "name") == "here" && pair.value(pair.yb, "name") == "y")
        try pair.folders.expectIntact()
    }

    @Test func keysThatAreExchangedOrFreedAreNotTaken() throws {
        let pair = try Pair()
        try pair.a.writeOptimistically {
            try $0.update(pair.xa, ["name": "y"])
            try $0.update(pair.ya, ["name": "x"])
        }
        try pair.a.writeOptimistically {
            try $0.delete(pair.xa)
            try $0.insert("Item", ["name": "y", "rank": 100])
        }
        #expect(try relay(from: pair.a, to: pair.b).allSatisfy { $0.conflicts.isEmpty })
        #expect(try pair.value(pair.yb, "name") == "x")
        #expect(try contents(of: pair.b).filter { !$0.contains("own") } == contents(of: pair.a))
        try pair.folders.expectIntact()
    }

    @Test(arguments: [ConflictPolicy.exportWins, .storeWins])
    func unknownObjectsAndReferencesAreLeftOut(policy: ConflictPolicy) throws {
        let pair = try Pair()
        let nobody = try #require(ObjectID(entityNumber: pair.xa.entityNumber, number: 5000))
        let (some, _) = try pair.a.writeOptimistically { try $0.insert("Item", ["name": "some"]) }
        _ = try relay(from: pair.a, to: pair.b)
        try pair.a.writeOptimistically {
            try $0.update(pair.xa, ["parent": .object(some), "rank": 2])
            try $0.insert("Item", ["name": "z", "friends": .objects([some, pair.ya])])
        }
        // A line with references to an object that never came.
        let last = try #require(try pair.a.export().last)
        let broken = try ExportedTransaction(jsonLine: last.jsonLine.replacing("\"\(some)\"", with: "\"\(nobody)\""))
        let applied = try pair.b.apply(broken, conflicts: policy)
        #expect(applied.conflicts.map(\.reason) == [.unknownReference, .unknownReference])
        #expect(try pair.value(pair.xb, "parent") == .null && pair.value(pair.xb, "rank") == 2)
        let z = try #require(try pair.b.snapshot().rows(of: "Item", where: "name", equals: "z").first)
        #expect(z["friends"] == .objects([pair.yb]))
        // A line with an object that never came.
        try pair.a.writeOptimistically { try $0.update(pair.xa, ["rank": 9]) }
        let exported = try #require(try pair.a.export().last)
        let line = exported.jsonLine.replacing("\"update\":\"\(pair.xa)\"", with: "\"update\":\"\(nobody)\"")
        let result = try pair.b.apply(try ExportedTransaction(jsonLine: line), conflicts: policy)
        #expect(result.conflicts.map(\.reason) == [.unknownObject])
        try pair.folders.expectIntact()
    }

    @Test func aReferenceToAnObjectDeletedHereIsNull() throws {
        let pair = try Pair()
        try pair.b.writeOptimistically { try $0.delete(pair.yb) }
        try pair.a.writeOptimistically { try $0.update(pair.xa, ["parent": .object(pair.ya)]) }
        #expect(try relay(from: pair.a, to: pair.b).allSatisfy { $0.conflicts.isEmpty })
        #expect(try pair.value(pair.xb, "parent") == .null)
        try pair.folders.expectIntact()
    }

    @Test func aDeletionThatIsUndoneThereIsUndoneHere() throws {
        let pair = try Pair()
        let (_, token) = try pair.a.writeOptimistically { try $0.delete(pair.xa) }
        _ = try relay(from: pair.a, to: pair.b)
        #expect(try pair.b.snapshot().row(pair.xb) == nil)
        try pair.a.revert(try #require(token))
        _ = try relay(from: pair.a, to: pair.b)
        #expect(try pair.value(pair.xb, "rank") == 1)
        // If it is here again already, that is a contradiction.
        let (_, second) = try pair.a.writeOptimistically { try $0.delete(pair.xa) }
        let deletion = try #require(try relay(from: pair.a, to: pair.b).last?.token)
        try pair.b.revert(deletion)
        try pair.b.writeOptimistically { try $0.update(pair.xb, ["rank": 40]) }
        try pair.a.revert(try #require(second))
        let exported = try #require(try pair.a.export().last)
        expect(.applyConflict) { try pair.b.apply(exported) }
        #expect(try pair.b.apply(exported, conflicts: .exportWins).conflicts.map(\.reason) == [.insertedHere])
        #expect(try pair.value(pair.xb, "rank") == 1)
        try pair.folders.expectIntact()
    }

    // MARK: Ways

    @Test(arguments: [false, true]) func twoStoresThatExportToEachOtherConverge(leavingOut: Bool) throws {
        let pair = try ExchangeFolders(2, inAll: true)
        let (a, b) = (pair.stores[0], pair.stores[1])
        var random = SeededRandom(7)
        for turn in 0..<12 {
            for (index, store) in [a, b].enumerated() {
                let rows = try store.snapshot().rows(of: "Item")
                try store.writeOptimistically { transaction in
                    let parent = rows.isEmpty ? Value.null : .object(random.one(of: rows).id)
                    try transaction.insert("Item", ["name": .string("\(index) \(turn)"), "parent": parent])
                    // Each changes what came from the other as well, but not the same at the same time.
                    for row in rows where row.id.number % 2 == UInt64(turn % 2) && index == turn / 2 % 2 {
                        try transaction.update(row.id, ["rank": .int(Int64(turn))])
                    }
                }
            }
            // There and back until nothing comes any more.
            var rounds = 0
            while try relay(from: a, to: b, leavingOut: leavingOut).count
                + relay(from: b, to: a, leavingOut: leavingOut).count > 0
            {
                rounds += 1
                #expect(rounds < 4)
                if rounds == 4 { break }
            }
            #expect(try contents(of: a) == contents(of: b))
        }
        #expect(try a.snapshot().count(of: "Item") == 24)
        try pair.expectIntact()
    }

    @Test func eachChangeArrivesOnceInChainsCirclesAndBothDirections() throws {
        let four = try ExchangeFolders(4)
        let (a, b, c, d) = (four.stores[0], four.stores[1], four.stores[2], four.stores[3])
        var objects: [ObjectID] = []
        for number in 0..<4 {
            try a.writeOptimistically(author: "a") {
                objects.append(try $0.insert("Item", ["name": .string("a\(number)")]))
            }
        }
        _ = try relay(from: a, to: b)
        try b.writeOptimistically { transaction in
            let row = try #require(try transaction.snapshot.rows(of: "Item").last)
            try transaction.update(row.id, ["rank": 5])
            try transaction.insert("Item", ["name": "b", "parent": .object(row.id)])
        }
        // A chain.
        _ = try relay(from: b, to: c)
        #expect(try contents(of: c) == contents(of: b))
        let origins = try c.history(after: 0).map { $0.origin?.storeIdentifier }
        #expect(origins.dropLast().allSatisfy { $0 == a.identifier } && origins.last == b.identifier)
        // A circle: what A made is passed over there.
        let byA = try a.transactionCount(HistoryRequest(authors: ["a"]))
        let back = try relay(from: c, to: a)
        #expect(back.map(\.outcome) == Array(repeating: .alreadyHere, count: 5) + [.applied])
        // Who made it is not said to have made it twice.
        #expect(try a.transactionCount(HistoryRequest(authors: ["a"])) == byA && byA > 0)
        #expect(try contents(of: a) == contents(of: b))
        // Two ways to the same store, in either order: what came one way is not applied the other way.
        try a.writeOptimistically { try $0.update(objects[0], ["rank": 9]) }
        _ = try relay(from: a, to: b)
        _ = try relay(from: b, to: d)
        #expect(try relay(from: a, to: d).allSatisfy { $0.outcome != .applied || $0.conflicts.isEmpty })
        #expect(try relay(from: c, to: d).allSatisfy { $0.outcome == .alreadyHere })
        #expect(try contents(of: d) == contents(of: b))
        _ = try relay(from: a, to: c)
        _ = try relay(from: b, to: c)
        #expect(try contents(of: c) == contents(of: b))
        try four.expectIntact()
    }

    @Test func ownTransactionsAreNotApplied() throws {
        let pair = try ExchangeFolders(1)
        let a = pair.stores[0]
        try a.writeOptimistically { try $0.insert("Item", ["name": "x"]) }
        let token = try a.currentToken
        for exported in try a.export() { #expect(try a.apply(exported).outcome == .alreadyHere) }
        #expect(try a.currentToken == token)
        try pair.expectIntact()
    }
}
