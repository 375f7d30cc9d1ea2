// Objects found through an index as values, and what a value holds.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct RowQueryTests {
    private func store(_ directory: TemporaryDirectory) throws -> Store {
        let city = EntityDescription(
            "City",
            attributes: [
                AttributeDescription("name", .string, isOptional: false, isUnique: true),
                AttributeDescription("country", .string),
                AttributeDescription("size", .int),
            ],
            keys: [IndexDescription(["country", "size"])])
        let store = try Store(at: directory.path("cities.annals"), entities: [city])
        try store.writeOptimistically { transaction in
            for (name, country, size) in [("b", "x", 3), ("a", "x", 1), ("d", "y", 2), ("c", "x", 2), ("e", nil, 5)] {
                try transaction.insert(
                    "City",
                    [
                        "name": .string(name), "country": country.map { .string($0) } ?? .null,
                        "size": .int(Int64(size)),
                    ])
            }
        }
        return store
    }

    @Test func rowsAreReturnedInTheOrderOfTheIndex() throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        let snapshot = try store.snapshot()
        func names(_ rows: [Row]) -> String { rows.compactMap { $0["name"]?.string }.joined() }
        #expect(names(try snapshot.rows(of: "City", by: ["name"])) == "abcde")
        #expect(names(try snapshot.rows(of: "City", by: ["name"], limit: 2, reversed: true)) == "ed")
        #expect(names(try snapshot.rows(of: "City", by: ["country", "size"])) == "eacbd")
        let x = RangeBound.including(["x"])
        #expect(names(try snapshot.rows(of: "City", by: ["country", "size"], from: x, to: x)) == "acb")
        #expect(
            names(try snapshot.rows(of: "City", by: ["name"], from: .excluding(["b"]), to: .including(["d"]))) == "cd")
        #expect(names(try snapshot.rows(of: "City", where: "name", equals: "c")) == "c")
        #expect(try snapshot.rows(of: "City", where: "name", equals: "z") == [])
        #expect(try snapshot.rows(of: "City", by: ["name"], limit: 0) == [])
        #expect(try snapshot.rows(of: "City", by: ["name"], limit: -1) == [])
        #expect(throws: StoreError.self) { try snapshot.rows(of: "City", by: ["size"]) }
        #expect(throws: StoreError.self) { try snapshot.rows(of: "Town", by: ["name"]) }
        #expect(throws: StoreError.self) { try snapshot.rows(of: "City", where: "name", equals: 1) }
        try store.close()
    }

    @Test func aValueIsReturnedOnlyAsItsOwnType() throws {
        let object = try #require(ObjectID(entityNumber: 1, number: 2))
        let date = Date(timeIntervalSince1970: 1)
        let uuid = UUID()
        let values: [Value] = [
            .null, .bool(true), .int(1), .double(2), .string("s"), .data(Data([1])), .date(date), .uuid(uuid),
            .decimal(3), .json("[]"), .object(object), .orderedObjects([object]), .objects([object]),
        ]
        #expect(values.compactMap(\.bool) == [true])
        #expect(values.compactMap(\.int) == [1])
        #expect(values.compactMap(\.double) == [2])
        #expect(values.compactMap(\.string) == ["s"])
        #expect(values.compactMap(\.data) == [Data([1])])
        #expect(values.compactMap(\.date) == [date])
        #expect(values.compactMap(\.uuid) == [uuid])
        #expect(values.compactMap(\.decimal) == [3])
        #expect(values.compactMap(\.json) == ["[]"])
        #expect(values.compactMap(\.object) == [object])
        #expect(values.compactMap(\.orderedObjects) == [[object]])
        #expect(values.compactMap(\.objects) == [[object]])
    }
}
