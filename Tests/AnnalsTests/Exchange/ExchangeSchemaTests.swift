// Stores whose programs declare the same entities a little differently exchange transactions all the same.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ExchangeSchemaTests {
    enum There {
        struct Item: Entity {
            var name = ""
            var count = 1
            var note: String? = "there"
            var rank: Int?
            var owner: Reference<Item>?

            static let schema = Schema<Item>("Item") {
                Relationship(\.owner, whenTargetIsDeleted: .nullify)
            }
        }
    }

    /// Other initial values, and values that must be there.
    enum Here {
        struct Item: Entity {
            var name = "none"
            var count = 2
            var note = "here"
            var rank = 5
            var owner: Reference<Item>?

            static let schema = Schema<Item>("Item") {
                Relationship(\.owner, whenTargetIsDeleted: .nullify)
            }
        }
    }

    enum Old {
        struct Item: Entity {
            var name = ""
            static let schema = Schema<Item>("Item")
        }
    }

    private func pair(_ there: any Entity.Type, _ here: any Entity.Type) throws -> (ExchangeFolders, Store, Store) {
        let folders = try ExchangeFolders(2, [])
        for (store, type) in zip(folders.stores, [there, here]) {
            try Store(at: store.path, entities: [type]).close()
        }
        return (folders, folders.stores[0], folders.stores[1])
    }

    private func values(_ store: Store) throws -> [[Value?]] {
        try store.snapshot().rows(of: "Item").map { row in ["name", "count", "note", "rank"].map { row[$0] } }
    }

    @Test(arguments: [false, true]) func initialValuesAndOptionalAttributesMayDiffer(isReversed: Bool) throws {
        let (folders, first, second) = try pair(There.Item.self, Here.Item.self)
        let (source, target) = isReversed ? (second, first) : (first, second)
        let items = try source.writeOptimistically { transaction in
            [
                try transaction.insert("Item", ["name": "a", "count": 3, "note": "n", "rank": 1]),
                try transaction.insert("Item", ["name": "b"]),
            ]
        }.result
        #expect(try relay(from: source, to: target).allSatisfy(\.conflicts.isEmpty))
        #expect(try values(target) == values(source))
        if !isReversed {
            try source.writeOptimistically { try $0.update(items[0], ["note": .null, "rank": .null]) }
            #expect(try relay(from: source, to: target).allSatisfy(\.conflicts.isEmpty))
            #expect(try values(target)[0] == ["a", 3, .null, .null])
            // What its program requires reads as the initial value there.
            let typed = try Store(at: target.path, entities: [Here.Item.self])
            #expect(try typed.snapshot().fetch(Here.Item.self).map(\.rank) == [5, 5])
            try typed.close()
        }
        // And back.
        let copy = try #require(try target.snapshot().rows(of: "Item").first?.id)
        try target.writeOptimistically { try $0.update(copy, ["count": 9]) }
        #expect(try relay(from: target, to: source, leavingOut: true).allSatisfy(\.conflicts.isEmpty))
        #expect(try values(source)[0][1] == 9)
        try folders.expectIntact()
    }

    /// Both add the same attributes to objects that they share, with other initial values.
    @Test func attributesThatBothStoresAddedMayDiffer() throws {
        let (folders, source, target) = try pair(Old.Item.self, Old.Item.self)
        let items = try source.writeOptimistically { transaction in
            try ["a", "b"].map { try transaction.insert("Item", ["name": .string($0)]) }
        }.result
        _ = try relay(from: source, to: target)
        for (store, type) in [(source, There.Item.self), (target, Here.Item.self)] as [(Store, any Entity.Type)] {
            try Store(at: store.path, entities: [type]).close()
        }
        // An object that has only the default here was not changed here.
        try source.writeOptimistically { try $0.update(items[0], ["count": 7, "note": "n"]) }
        #expect(try relay(from: source, to: target).allSatisfy(\.conflicts.isEmpty))
        #expect(try values(target)[0] == ["a", 7, "n", 5])
        // One that was written here was.
        let copy = try #require(try target.snapshot().rows(of: "Item").last?.id)
        try target.writeOptimistically { try $0.update(copy, ["count": 4]) }
        try source.writeOptimistically { try $0.update(items[1], ["count": 8]) }
        let error = expect(.applyConflict) { try relay(from: source, to: target) }
        #expect(error?.applyConflicts.map(\.reason) == [.changedHere])
        try folders.expectIntact()
    }

    /// A required attribute of an entity that the receiver has with objects, and without the attribute.
    @Test func aRequiredAttributeMayBeMissingHere() throws {
        let name = AttributeDescription("name", .string)
        let code = AttributeDescription("code", .int, isOptional: false)
        let folders = try ExchangeFolders(2, [EntityDescription("Item", attributes: [name, code])])
        let (source, target) = (folders.stores[0], folders.stores[1])
        try target.changeSchema([.addEntity(EntityDescription("Item", attributes: [name]))])
        try target.writeOptimistically { try $0.insert("Item", ["name": "own"]) }
        try source.writeOptimistically { try $0.insert("Item", ["name": "a", "code": 3]) }
        #expect(try relay(from: source, to: target).allSatisfy(\.conflicts.isEmpty))
        #expect(try target.snapshot().rows(of: "Item").map { $0["code"] } == [.null, 3])
        try folders.expectIntact()
    }

    /// What cannot be settled is said in the words of those who apply.
    @Test func refusalsMentionTheTransactionAndNoProgram() throws {
        func item(_ type: AttributeType, _ target: String?, _ rule: DeleteRule = .nullify) -> [EntityDescription] {
            [
                EntityDescription("Box", attributes: [AttributeDescription("name", .string)]),
                EntityDescription("Bag", attributes: [AttributeDescription("name", .string)]),
                EntityDescription(
                    "Item",
                    attributes: [
                        AttributeDescription("name", .string), AttributeDescription("kind", type),
                        AttributeDescription("place", .object, target: target, whenTargetIsDeleted: rule),
                    ]),
            ]
        }
        for (here, sentence) in [
            (item(.string, "Box"), "“kind” of “Item” is int in the transaction, but string in this store"),
            (item(.int, "Bag"), "“place” of “Item” refers to “Bag” in this store, but has a reference to “Box”"),
            (item(.int, "Box", .cascade), "“place” of “Item” has the delete rule cascade in this store"),
        ] {
            let folders = try ExchangeFolders(2, item(.int, "Box"))
            let (source, target) = (folders.stores[0], folders.stores[1])
            try target.changeSchema(here.map { .addEntity($0) })
            try source.writeOptimistically { try $0.insert("Item", ["name": "x"]) }
            let error = expect(.schemaMismatch) { try relay(from: source, to: target) }
            #expect(error?.message.contains(sentence) == true, "\(error?.message ?? "")")
            #expect(error?.message.contains("program") == false)
            try folders.expectIntact()
        }
    }
}
