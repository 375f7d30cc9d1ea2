// States in parts: from a store through bodies of a courier to another store.

import Annals
import AnnalsMirror
import Foundation
import TestSupport
import Testing

@Suite struct MessageStateTests {
    static let entities = [
        EntityDescription(
            "Person",
            attributes: [
                AttributeDescription("name", .string, isOptional: false, isUnique: true),
                AttributeDescription("friend", .object, target: "Person", whenTargetIsDeleted: .nullify),
                AttributeDescription("pets", .orderedObjects, target: "Pet"),
                AttributeDescription("picture", .data),
            ]),
        EntityDescription(
            "Pet",
            attributes: [
                AttributeDescription("name", .string), AttributeDescription("owner", .object, target: "Person"),
                AttributeDescription("price", .decimal),
            ]),
    ]

    /// Objects that refer to later and earlier ones of both entities, with gaps by deletion.
    private func filled(_ path: String, seed: UInt64, count: Int = 200) throws -> Store {
        let store = try Store(at: path, entities: Self.entities)
        var random = SeededRandom(seed)
        var people: [ObjectID] = []
        var pets: [ObjectID] = []
        try store.write { transaction in
            for index in 0..<count {
                pets.append(
                    try transaction.insert("Pet", ["name": .string("pet \(index)"), "price": .decimal(Decimal(index))]))
                people.append(
                    try transaction.insert(
                        "Person",
                        [
                            "name": .string("person \(index) of \(seed)"),
                            "picture": .data(Data(repeating: UInt8(index % 256), count: random.next(below: 300))),
                        ]))
            }
        }
        try store.write { transaction in
            for person in people {
                try transaction.update(
                    person,
                    [
                        "friend": .object(random.one(of: people)),
                        "pets": .orderedObjects(Array(pets.shuffled(using: &random).prefix(3))),
                    ])
            }
            for pet in pets { try transaction.update(pet, ["owner": .object(random.one(of: people))]) }
        }
        try store.write { transaction in
            for pet in pets where random.next(below: 4) == 0 { try transaction.delete(pet) }
            for person in people where random.next(below: 4) == 0 { try transaction.delete(person) }
        }
        return store
    }

    private func bodies(_ store: Store, maximum: Int) throws -> [[UInt8]] {
        var encoder = try StateBodies(of: store, maximumBodyBytes: maximum)
        var bodies: [[UInt8]] = []
        while let body = try encoder.next() { bodies.append(body) }
        return bodies
    }

    private func isIntact(_ path: String) throws -> Bool {
        try Checker.check(path, options: CheckOptions(), files: RealFileSystem()).isIntact
    }

    /// The content by value, without IDs.
    private func content(_ store: Store) throws -> [String: Set<String>] {
        let snapshot = try store.snapshot()
        func text(_ value: Value?) throws -> String {
            func name(_ object: ObjectID) throws -> String { try snapshot.row(object).map { "\($0["name"]!)" } ?? "-" }
            switch value {
            case .object(let object): return try name(object)
            case .orderedObjects(let objects): return try objects.map(name).filter { $0 != "-" }.joined(separator: ",")
            default: return value.map { "\($0)" } ?? ""
            }
        }
        var content: [String: Set<String>] = [:]
        for entity in Self.entities {
            for row in try snapshot.rows(of: entity.name) {
                let texts = try entity.attributes.map { try text(row[$0.name]) }
                content[entity.name, default: []].insert(texts.joined(separator: "|"))
            }
        }
        return content
    }

    @Test(arguments: [64, 200, 5000, 1 << 20])
    func aStateInPartsIsEqualInTheOtherStore(maximum: Int) throws {
        let folder = try TemporaryDirectory()
        let there = try filled(folder.path + "/a", seed: 1)
        let here = try Store(at: folder.path + "/b")
        let bodies = try bodies(there, maximum: maximum)
        #expect(bodies.allSatisfy { $0.count <= maximum })
        let token = try here.applyState(bodies: { apply in for body in bodies { try apply(body) } })
        #expect(token?.number == 1)
        #expect(try content(here) == content(there))
        #expect(try here.lastApplied(from: there.identifier) == there.currentToken)
        #expect(try isIntact(folder.path + "/b"))
        // Later transactions go on after the state.
        try there.write { try $0.insert("Pet", ["name": "late"]) }
        for transaction in try there.export(after: .token(here.lastApplied(from: there.identifier)!)) {
            #expect(try here.apply(transaction).outcome == .applied)
        }
        #expect(try content(here) == content(there))
    }

    @Test func aStateGoesThroughAThirdStoreWithTheNamesOfTheFirst() throws {
        let folder = try TemporaryDirectory()
        let first = try filled(folder.path + "/a", seed: 1, count: 40)
        let second = try filled(folder.path + "/b", seed: 2, count: 40)
        let third = try Store(at: folder.path + "/c")
        for transaction in try first.export() { try second.apply(transaction) }
        let bodies = try bodies(second, maximum: 1000)
        try third.applyState(bodies: { apply in for body in bodies { try apply(body) } })
        #expect(try content(third) == content(second))
        #expect(try third.lastApplied(from: first.identifier) == first.currentToken)
        // The first store's changes find their objects.
        try first.write { transaction in
            for row in try first.snapshot().rows(of: "Pet") { try transaction.update(row.id, ["name": "new"]) }
        }
        for transaction in try first.export(after: .token(third.lastApplied(from: first.identifier)!)) {
            #expect(try third.apply(transaction).outcome == .applied)
            try second.apply(transaction)
        }
        #expect(try content(third) == content(second))
    }

    /// The transaction that applied a state is a state for later stores, too.
    @Test func anAppliedStateIsExportedAsAState() throws {
        let folder = try TemporaryDirectory()
        let there = try filled(folder.path + "/a", seed: 1, count: 30)
        let here = try Store(at: folder.path + "/b")
        let bodies = try bodies(there, maximum: 1000)
        try here.applyState(bodies: { apply in for body in bodies { try apply(body) } }, author: "mirror")
        let exported = try here.export()
        #expect(exported.count == 1)
        #expect(exported[0].holds != nil && exported[0].author == "mirror")
        #expect(try exported[0].origin == there.currentToken)
        let last = try Store(at: folder.path + "/c")
        #expect(try last.apply(exported[0]).outcome == .applied)
        #expect(try content(last) == content(there))
        #expect(try last.lastApplied(from: there.identifier) == there.currentToken)
        #expect(try here.apply(last.export()[0]).outcome == .alreadyHere)
    }

    @Test func aStateBesideOwnObjectsKeepsThem() throws {
        let folder = try TemporaryDirectory()
        let there = try filled(folder.path + "/a", seed: 1, count: 30)
        let here = try filled(folder.path + "/b", seed: 2, count: 30)
        let both = try content(there).merging(content(here)) { $0.union($1) }
        let bodies = try bodies(there, maximum: 1000)
        try here.applyState(bodies: { apply in for body in bodies { try apply(body) } })
        #expect(try content(here) == both)
        #expect(try isIntact(folder.path + "/b"))
        expectFailure(.applyGap) {
            try here.applyState(bodies: { apply in for body in bodies { try apply(body) } })
        }
    }

    @Test func aUniqueValueThatIsHereAlreadyStopsTheState() throws {
        let folder = try TemporaryDirectory()
        let there = try filled(folder.path + "/a", seed: 1, count: 30)
        let here = try Store(at: folder.path + "/b", entities: Self.entities)
        let names = try there.snapshot().rows(of: "Person").compactMap { $0["name"]?.string }
        try here.write { try $0.insert("Person", ["name": .string(names[0])]) }
        let before = try content(here)
        let bodies = try bodies(there, maximum: 1000)
        expectFailure(.uniqueViolation) {
            try here.applyState(bodies: { apply in for body in bodies { try apply(body) } })
        }
        #expect(try content(here) == before)
    }

    /// Each body missing, doubled, or in another place: nothing is applied.
    @Test func aStateThatIsNotWholeChangesNothing() throws {
        let folder = try TemporaryDirectory()
        let there = try filled(folder.path + "/a", seed: 1, count: 20)
        let bodies = try bodies(there, maximum: 400)
        #expect(bodies.count > 10)
        let here = try Store(at: folder.path + "/b")
        func fails(_ bodies: [[UInt8]], _ comment: String) throws {
            expectFailure(.exportMalformed, comment) {
                try here.applyState(bodies: { apply in for body in bodies { try apply(body) } })
            }
            #expect(try here.currentToken.number == 0)
        }
        for index in bodies.indices {
            var broken = bodies
            broken.remove(at: index)
            try fails(broken, "without \(index)")
            broken = bodies
            broken.insert(bodies[index], at: index)
            try fails(broken, "twice \(index)")
            if index > 0 {
                broken = bodies
                broken.swapAt(index, index - 1)
                try fails(broken, "swapped \(index)")
            }
        }
    }

    @Test func aStoreWithoutTransactionsHasNoState() throws {
        let folder = try TemporaryDirectory()
        let store = try Store(at: folder.path + "/a")
        #expect(try bodies(store, maximum: 1000).isEmpty)
    }

    @Test func hostilePartsAreMalformed() throws {
        let folder = try TemporaryDirectory()
        let here = try Store(at: folder.path + "/b")
        let beginning: ExportedStatePart = .beginning(
            ExportedTransaction(
                token: MessageSamples.token(7), previous: nil, microseconds: 0, author: nil, contextName: nil,
                origin: nil, originPrevious: nil, holds: [], schema: Self.entities, renames: [], changes: []))
        func pet(_ number: UInt64, owner: ExportedObject? = nil) -> ExportedChange {
            ExportedChange(
                kind: .insert, object: MessageSamples.object(2, number), entity: "Pet",
                attributes: ["name", "owner"],
                values: [
                    ExportedValue(.plain(.string("a"))),
                    owner.map { ExportedValue(.object($0)) } ?? ExportedValue(.plain(.absent)),
                ], before: nil)
        }
        func stretch(_ number: UInt64, _ count: UInt64, entity: String = "Pet", of store: UUID? = nil)
            -> ExportedStatePart
        {
            .stretches([
                ExportedStretch(entity: entity, first: MessageSamples.object(2, number, of: store), count: count)
            ])
        }
        let cases: [[ExportedStatePart]] = [
            [], [beginning], [beginning, beginning], [.end(objects: 0)], [stretch(1, 1)], [.objects([pet(1)])],
            [beginning, .objects([pet(1)])], [beginning, stretch(1, 1), .end(objects: 1)],
            [beginning, stretch(1, 1), .objects([pet(1)]), .end(objects: 2)],
            [beginning, stretch(1, 1), .objects([pet(1)]), .end(objects: 1), .end(objects: 1)],
            [beginning, stretch(1, 1), .objects([pet(2)])],
            [beginning, stretch(1, 2), stretch(2, 1), .objects([pet(1)])],
            [beginning, stretch(1, 1), .objects([pet(1)]), stretch(2, 1)],
            [beginning, stretch(1, 1, entity: "Nothing")],
            [beginning, stretch(1, 1, of: here.identifier)],
            [beginning, stretch(1, .max)], [beginning, stretch(1, 0)],
            [beginning, stretch(1, 1), .objects([pet(1, owner: MessageSamples.object(2, 2))])],
            [
                beginning, stretch(1, 1),
                .objects([pet(1, owner: MessageSamples.object(2, 1, of: MessageSamples.other))]),
            ],
        ]
        for (index, parts) in cases.enumerated() {
            expectFailure(.exportMalformed, "case \(index)") {
                try here.applyState { apply in for part in parts { try apply(part) } }
            }
        }
        expectFailure(.tooLarge) {
            try here.applyState { apply in
                for part in [beginning, stretch(1, 1 << 47), stretch(1 << 47, 1 << 47), .objects([pet(1)])] {
                    try apply(part)
                }
            }
        }
        #expect(try here.currentToken.number == 0)
        // Whatever was drawn for them is free again.
        try here.applyState { apply in
            for part in [beginning, stretch(1, 1), .objects([pet(1)]), .end(objects: 1)] { try apply(part) }
        }
        #expect(try here.snapshot().rows(of: "Pet").map(\.id.number) == [1])
    }
}
