// Snapshots show whether an object has changed; reserved IDs let objects refer to each other before they are there.

import Annals
import TestSupport
import Testing

@Suite struct DiffersTests {
    private static let item = EntityDescription(
        "Item",
        attributes: [
            AttributeDescription("name", .string), AttributeDescription("next", .object, target: "Item"),
        ])
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func onlyAChangedObjectDiffers() throws {
        let store = try folder.open([Self.item])
        let (ids, _) = try store.writeOptimistically { transaction in
            try (0..<3).map { try transaction.insert("Item", ["name": "\($0)"]) }
        }
        let before = try store.snapshot()
        try store.writeOptimistically { transaction in
            try transaction.update(ids[0], ["name": "other"])
            try transaction.delete(ids[1])
        }
        let after = try store.snapshot()
        #expect(try ids.map { try after.differs($0, from: before) } == [true, true, false])
        let nobody = try #require(ObjectID(entityNumber: ids[0].entityNumber, number: 99))
        #expect(try !after.differs(nobody, from: before))
        // Compaction moves every version, and changes none.
        _ = try store.compact()
        let compacted = try store.snapshot()
        #expect(try ids.map { try compacted.differs($0, from: after) } == [false, false, false])
        #expect(try ids.map { try compacted.differs($0, from: before) } == [true, true, false])
        try store.close()
        try folder.expectIntact()
    }

    @Test func objectsUnderReservedIDsReferInCircles() throws {
        let store = try folder.open([Self.item])
        let item = try store.entity("Item")
        let (pair, _) = try store.writeOptimistically { transaction in
            let pair = [try transaction.reserveID(of: item), try transaction.reserveID(of: item)]
            #expect(try transaction.row(pair[0]) == nil)
            expect(.objectNotFound) { try transaction.update(pair[0], ["name": "early"]) }
            expect(.objectNotFound) { try transaction.delete(pair[0]) }
            try transaction.insert(item, ["a", .object(pair[1])], as: pair[0])
            try transaction.insert(item, ["b", .object(pair[0])], as: pair[1])
            expect(.invalidArgument) { try transaction.insert(item, ["again", nil], as: pair[0]) }
            #expect(try transaction.row(pair[0])?["name"] == "a")
            return pair
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot.row(pair[0])?["next"] == .object(pair[1]))
        #expect(try snapshot.row(pair[1])?["next"] == .object(pair[0]))
        #expect(try snapshot.count(of: "Item") == 2)
        // One that is never inserted does not exist, and nobody else gets its number.
        expect(.referenceMissing) {
            try store.writeOptimistically { transaction in
                let never = try transaction.reserveID(of: item)
                try transaction.insert(item, ["c", .object(never)])
            }
        }
        expect(.invalidArgument) { try store.writeOptimistically { try $0.insert(item, ["d", nil], as: pair[0]) } }
        let (left, _) = try store.writeOptimistically { try $0.reserveID(of: item) }
        #expect(left.number > pair[1].number)
        try store.close()
        try folder.expectIntact()
    }
}
