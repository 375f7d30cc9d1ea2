// Transactions that do not fit the schema of a store: they wait there, and lose nothing.

import Annals
import AnnalsMirror
import FoundationEssentials
import TestSupport
import Testing

@Suite struct MergeParkingTests {
    private static func entity(_ rank: AttributeType) -> EntityDescription {
        EntityDescription(
            "Item", attributes: [AttributeDescription("name", .string), AttributeDescription("rank", rank)])
    }

    private static func member(_ seed: UInt64, _ rank: AttributeType) throws -> GroupMember {
        let store = try GroupMember.store(seed: seed, [entity(rank)])
        return GroupMember(store, try MergingStore(store))
    }

    private static func lines(of store: Store) throws -> [String] {
        let snapshot = try store.snapshot()
        return try snapshot.entities.map(\.name).filter { !$0.hasPrefix("_") }.flatMap { entity in
            try snapshot.rows(of: entity).map { row in
                "\(entity) \(row["name"] ?? .null) \(row["rank"] ?? .null) \(row["text"] ?? .null)"
            }
        }.sorted()
    }

    private static func change(_ store: Store, to type: AttributeType) throws {
        try store.changeSchema([
            .removeAttribute("rank", from: "Item"), .addAttribute(AttributeDescription("rank", type), to: "Item"),
        ])
    }

    @Test(arguments: [false, true])
    func transactionsThatDoNotFitWaitForTheSchema(restarts: Bool) throws {
        let (a, b, c) = (try Self.member(1, .int), try Self.member(2, .string), try Self.member(3, .string))
        let (first, _) = try a.store.write { try $0.insert("Item", ["name": "a1", "rank": 1]) }
        try a.store.write { try $0.insert("Item", ["name": "a2"]) }
        for own in try a.take() { try b.receive(own) }
        // Without a value of the attribute, the second item fits.
        #expect(try Self.lines(of: b.store).count == 1 && b.merging.parkedCount == 1)
        // Others go on: a third store is as the second one.
        try c.store.write { try $0.insert("Item", ["name": "c1", "rank": "high"]) }
        for own in try c.take() { try b.receive(own) }
        #expect(try Self.lines(of: b.store).count == 2)
        // A change of an object that is not here yet is lost, and comes back.
        try a.store.write { try $0.update(first, ["name": "a1 new"]) }
        for own in try a.take() { try b.receive(own) }
        #expect(b.merging.parkedCount == 1)
        try b.merging.settle(below: Stamp(1000, b.store.identifier))
        try b.merging.save()
        _ = try b.store.clean()
        if restarts { try b.restart() }
        #expect(b.merging.parkedCount == 1)
        // Nothing has changed: they are not tried in vain.
        let before = try b.store.snapshot().token
        try b.mergeParked()
        #expect(try b.store.snapshot().token == before && b.merging.parkedCount == 1)
        try Self.change(b.store, to: .int)
        try b.mergeParked()
        #expect(b.merging.parkedCount == 0)
        // The value of the other type went with the attribute.
        let expected = ["Item string(\"a1 new\") int(1) null", "Item string(\"a2\") null null"]
        #expect(try Self.lines(of: b.store).filter { $0.contains("\"a") } == expected)
        if restarts { try b.restart() }
        #expect(b.merging.parkedCount == 0)
        try a.store.write { try $0.update(first, ["rank": 2]) }
        for own in try a.take() { try b.receive(own) }
        #expect(try Self.lines(of: b.store).contains { $0.contains("a1 new") && $0.contains("int(2)") })
        let report = try Checker.check(
            b.store.path, options: CheckOptions(), files: try Store.files(for: b.store.path))
        #expect(report.isIntact, "\(report.findings)")
    }

    /// - Parameter isLate: Whether the others come before it in the order, and arrive while it is parked.
    @Test(arguments: [false, true])
    func aParkedTransactionTakesItsPlaceInTheOrder(isLate: Bool) throws {
        func member(_ seed: UInt64, _ rank: AttributeType) throws -> GroupMember {
            let tag = EntityDescription("Tag", attributes: [AttributeDescription("name", .string, isUnique: true)])
            let store = try GroupMember.store(seed: seed, [tag, Self.entity(rank)])
            return GroupMember(store, try MergingStore(store))
        }
        let (a, b, c) = (try member(1, .int), try member(2, .string), try member(3, .int))
        let other = isLate ? a : c
        for number in 1...4 { try other.store.write { try $0.insert("Item", ["name": .string("\(number)")]) } }
        // Two tags have one name, and the transaction of one of them does not fit in the second store.
        try a.store.write { transaction in
            _ = try transaction.insert("Tag", ["name": "x"])
            _ = try transaction.insert("Item", ["name": "of a", "rank": 1])
        }
        try c.store.write { try $0.insert("Tag", ["name": "x"]) }
        let (ownOfA, ownOfC) = (try a.take(), try c.take())
        for own in ownOfA + ownOfC { try b.receive(own) }
        #expect(b.merging.parkedCount == 1)
        try Self.change(b.store, to: .int)
        try b.mergeParked()
        for own in ownOfC { try a.receive(own) }
        for own in ownOfA { try c.receive(own) }
        let ownOfB = try b.take()
        for own in ownOfB { for member in [a, c] { try member.receive(own) } }
        for member in [a, b, c] {
            #expect(try Self.lines(of: member.store) == Self.lines(of: a.store))
            #expect(try member.store.snapshot().rows(of: "Tag").count == 1 && member.merging.parkedCount == 0)
            try member.restart()
        }
        // All have one name for the tag.
        let tag = try #require(try c.store.snapshot().rows(of: "Tag").first).id
        try c.store.write { try $0.update(tag, ["name": "y"]) }
        for own in try c.take() { for member in [a, b] { try member.receive(own) } }
        for member in [a, b, c] {
            #expect(try member.store.snapshot().rows(of: "Tag").map { $0["name"] } == ["y"])
        }
    }
}
