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
        #expect(try Self.lines(of: b.store).count == 1 && b.merging.parkedCount == 2)
        // Others go on: a third store is as the second one.
        try c.store.write { try $0.insert("Item", ["name": "c1", "rank": "high"]) }
        for own in try c.take() { try b.receive(own) }
        #expect(try Self.lines(of: b.store).count == 2)
        // A change of an object that is not here yet is lost, and comes back.
        try a.store.write { try $0.update(first, ["name": "a1 new"]) }
        for own in try a.take() { try b.receive(own) }
        #expect(b.merging.parkedCount == 2)
        try b.merging.settle(below: Stamp(1000, b.store.identifier))
        try b.merging.save()
        _ = try b.store.clean()
        if restarts { try b.restart() }
        #expect(b.merging.parkedCount == 2)
        // Nothing has changed: they are not tried in vain.
        let before = try b.store.snapshot().token
        try b.mergeParked()
        #expect(try b.store.snapshot().token == before && b.merging.parkedCount == 2)
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

    @Test func aParkedTransactionTakesItsPlaceInTheOrder() throws {
        let entities = { (rank: AttributeType) in
            [
                EntityDescription("Tag", attributes: [AttributeDescription("name", .string, isUnique: true)]),
                Self.entity(rank),
            ]
        }
        func member(_ seed: UInt64, _ rank: AttributeType) throws -> GroupMember {
            let store = try GroupMember.store(seed: seed, entities(rank))
            return GroupMember(store, try MergingStore(store))
        }
        let (a, b, c) = (try member(1, .int), try member(2, .string), try member(3, .int))
        // The first store's tag has the name first, and its transactions do not fit in the second one.
        try a.store.write { transaction in
            _ = try transaction.insert("Tag", ["name": "x"])
            _ = try transaction.insert("Item", ["name": "of a", "rank": 1])
        }
        let ownOfA = try a.take()
        for number in 1...4 { try c.store.write { try $0.insert("Item", ["name": .string("\(number)")]) } }
        try c.store.write { try $0.insert("Tag", ["name": "x"]) }
        let ownOfC = try c.take()
        for own in ownOfA { try b.receive(own) }
        try Self.change(b.store, to: .int)
        for own in ownOfC { try b.receive(own) }
        try b.mergeParked()
        for own in ownOfC { try a.receive(own) }
        for own in ownOfA { try c.receive(own) }
        #expect(try Self.lines(of: b.store) == Self.lines(of: a.store))
        #expect(try Self.lines(of: c.store) == Self.lines(of: a.store))
        #expect(try a.store.snapshot().rows(of: "Tag").count == 1)
    }
}
