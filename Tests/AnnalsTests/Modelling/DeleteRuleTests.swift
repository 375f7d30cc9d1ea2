// Delete rules look at the state that a transaction leaves, whatever the order in which it came about.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct DeleteRuleTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    struct Box: Entity, Equatable { var name = "" }

    struct Part: Entity, Equatable {
        var name = ""
        var code = 0
        var box: Reference<Box>?
        var boxes: [Reference<Box>] = []
        var some: Set<Reference<Box>> = []
        var locked: Reference<Box>?
        var lockedList: [Reference<Box>] = []
        var loose: Reference<Box>?

        static let schema = Schema<Part> {
            Attribute(\.code, .unique)
            Relationship(\.box, whenTargetIsDeleted: .cascade)
            Relationship(\.boxes, whenTargetIsDeleted: .cascade)
            Relationship(\.some, whenTargetIsDeleted: .cascade)
            Relationship(\.locked, whenTargetIsDeleted: .deny)
            Relationship(\.lockedList, whenTargetIsDeleted: .deny)
            Relationship(\.loose, whenTargetIsDeleted: .noAction)
        }
    }

    private func store() throws -> Store { try Store(at: folder.path, entities: [Box.self, Part.self]) }

    // MARK: Deleting and taking the reference away in one transaction

    /// A property, how it refers to a box, and how it no longer does.
    private struct Way: Sendable {
        let name: String
        let attribute: String
        let none: Value
        let refer: @Sendable (inout Part, Reference<Box>) -> Void
        let leave: @Sendable (inout Part, Reference<Box>) -> Void

        static let all: [Way] = [
            Way(
                name: "one", attribute: "box", none: .null, refer: { $0.box = $1 },
                leave: { part, _ in part.box = nil }),
            Way(
                name: "list", attribute: "boxes", none: .orderedObjects([]), refer: { $0.boxes = [$1] },
                leave: { part, _ in part.boxes = [] }),
            Way(
                name: "one of a list", attribute: "boxes", none: .orderedObjects([]), refer: { $0.boxes = [$1] },
                leave: { part, box in part.boxes.removeAll { $0 == box } }),
            Way(
                name: "set", attribute: "some", none: .objects([]), refer: { $0.some = [$1] },
                leave: { $0.some.remove($1) }),
            Way(
                name: "deny", attribute: "locked", none: .null, refer: { $0.locked = $1 },
                leave: { part, _ in part.locked = nil }),
            Way(
                name: "deny, list", attribute: "lockedList", none: .orderedObjects([]),
                refer: { $0.lockedList = [$1] }, leave: { part, _ in part.lockedList = [] }),
        ]
    }

    @Test(arguments: ["update", "update, titled", "whole", "whole, read", "upsert", "untyped"], [true, false])
    func aReferenceThatTheTransactionRemovesDoesNotCount(_ how: String, deletesFirst: Bool) throws {
        let store = try store()
        for (code, way) in Way.all.enumerated() {
            for underLock in [true, false] {
                let code = code * 2 + (underLock ? 1 : 0)
                let ((box, part), _) = try store.write { transaction in
                    let box = try transaction.insert(Box(name: way.name))
                    var part = Part(name: "p", code: code)
                    way.refer(&part, box)
                    return (box, try transaction.insert(part))
                }
                let body: (Transaction) throws -> Void = { transaction in
                    let before = try #require(try transaction[part])
                    if deletesFirst { try transaction.delete(box) }
                    switch how {
                    case "update": try transaction.update(part) { way.leave(&$0, box) }
                    case "update, titled":
                        try transaction.update(part) { part in
                            part.name = "q"
                            way.leave(&part, box)
                        }
                    case "whole", "upsert":
                        var value = before
                        way.leave(&value, box)
                        if how == "whole" {
                            try transaction.update(part, to: value)
                        } else {
                            #expect(try transaction.upsert(value) == part)
                        }
                    case "whole, read":
                        var value = try #require(try transaction[part])
                        way.leave(&value, box)
                        try transaction.update(part, to: value)
                    default: try transaction.update(part.id, [way.attribute: way.none])
                    }
                    if !deletesFirst { try transaction.delete(box) }
                }
                if underLock { try store.write(body) } else { try store.writeOptimistically(body) }
                let snapshot = try store.snapshot()
                #expect(try snapshot[box] == nil)
                let name = how == "update, titled" ? "q" : "p"
                #expect(try snapshot[part] == Part(name: name, code: code), "\(way.name)")
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    /// Whoever only passes on what was read before the deletion takes nothing away.
    @Test(arguments: ["update", "whole", "upsert", "untyped"], [true, false])
    func aReferenceThatStaysCounts(_ how: String, deletesFirst: Bool) throws {
        let store = try store()
        for (code, way) in Way.all.enumerated() {
            let ((box, part), _) = try store.write { transaction in
                let box = try transaction.insert(Box(name: way.name))
                var part = Part(name: "p", code: code)
                way.refer(&part, box)
                return (box, try transaction.insert(part))
            }
            let body: (Transaction) throws -> Void = { transaction in
                var value = try #require(try transaction[part])
                let old = try #require(try transaction.row(part.id)?[way.attribute])
                if deletesFirst { try transaction.delete(box) }
                value.name = "q"
                switch how {
                case "update": try transaction.update(part) { $0.name = "q" }
                case "whole": try transaction.update(part, to: value)
                case "upsert": try transaction.upsert(value)
                default: try transaction.update(part.id, ["name": "q", way.attribute: old])
                }
                if !deletesFirst { try transaction.delete(box) }
            }
            if way.name.hasPrefix("deny") {
                let error = expect(.deleteDenied) { try store.writeOptimistically(body) }
                #expect(error?.objects == [part.id])
            } else {
                try store.writeOptimistically(body)
                #expect(try store.snapshot()[part] == nil, "\(way.name)")
            }
        }
        try store.close()
        try folder.expectIntact()
    }

    /// Objects of the transaction itself, and a deletion that spreads.
    @Test func objectsWrittenAndDeletedInOneTransactionFollowTheSameRules() throws {
        let store = try store()
        let (parts, _) = try store.write { transaction in
            let boxes = try (0..<4).map { try transaction.insert(Box(name: "\($0)")) }
            let stays = try transaction.insert(Part(code: 1, box: boxes[0]))
            let goes = try transaction.insert(Part(code: 2, box: boxes[1]))
            let loose = try transaction.insert(Part(code: 3, loose: boxes[2]))
            let later = try transaction.insert(Part(code: 4))
            for box in boxes.dropLast() { try transaction.delete(box) }
            try transaction.update(stays) { part in
                #expect(part.box == boxes[0])
                part.box = boxes[3]
            }
            // What refers to it only now follows the rule, too.
            try transaction.update(later) { $0.boxes = [boxes[3], boxes[2]] }
            return [stays, goes, loose, later]
        }
        let snapshot = try store.snapshot()
        #expect(try snapshot[parts[0]]?.box != nil && snapshot[parts[1]] == nil && snapshot[parts[3]] == nil)
        #expect(try snapshot[parts[2]] == Part(code: 3))
        try store.close()
        try folder.expectIntact()
    }

    /// What is read in the body refers to nothing that it has deleted. What is changed still does, to be taken away.
    @Test func aBodyMayRemoveReferencesToObjectsItHasDeleted() throws {
        let store = try store()
        let ((box, part), _) = try store.write { transaction in
            let box = try transaction.insert(Box(name: "b"))
            return (box, try transaction.insert(Part(code: 1, box: box, boxes: [box], loose: box)))
        }
        try store.write { transaction in
            try transaction.delete(box)
            for round in 0..<2 {
                #expect(try transaction[part]?.box == nil && transaction[part]?.boxes == [])
                #expect(try transaction.row(part.id)?["box"] == .null)
                #expect(try transaction.count(Part.self, where: #Predicate { $0.box == nil }) == 1)
                #expect(try transaction.count(Part.self, where: #Predicate { $0.box?.name == "b" }) == 0)
                try transaction.update(part) { value in
                    #expect(value.box == box && value.boxes == [box] && value.loose == box)
                    // The second time it is a row of the transaction.
                    if round == 0 { value.name = "q" }
                }
            }
            try transaction.update(part) { value in
                value.box = nil
                value.boxes.removeAll()
            }
        }
        #expect(try store.snapshot()[part] == Part(name: "q", code: 1))
        try store.close()
        try folder.expectIntact()
    }

    /// A migration changes objects in the same way.
    @Test func aMigrationMayDeleteObjectsAndRemoveReferences() throws {
        let older = try store()
        let ((box, part), _) = try older.write { transaction in
            let box = try transaction.insert(Box(name: "b"))
            return (box, try transaction.insert(Part(code: 1, box: box, locked: box)))
        }
        try older.close()
        let migration = Migration("boxes") { migration in
            try migration.transaction.delete(box)
            try migration.update(Part.self) { _, part in (part.box, part.locked) = (nil, nil) }
        }
        let store = try Store(at: folder.path, entities: [Box.self, Part.self], migrations: [migration])
        #expect(try store.snapshot()[part] == Part(code: 1))
        try store.close()
        try folder.expectIntact()
    }

    /// In a context, rules are carried out when an object is deleted, except `deny`, which saving looks at.
    @Test(arguments: [true, false]) func aContextThatRemovesReferencesMayDeleteTheirTarget(deletesFirst: Bool) throws {
        let store = try store()
        let context = store.makeContext()
        let box = context.insert(Box(name: "b"))
        let parts = [
            context.insert(Part(code: 1, box: box.objectReference)),
            context.insert(Part(code: 2, boxes: [box.objectReference])),
            context.insert(Part(code: 3, some: [box.objectReference])),
        ]
        let locked = context.insert(Part(code: 4, locked: box.objectReference, lockedList: [box.objectReference]))
        try context.save()
        for part in parts {
            part.objectUpdate { value in (value.box, value.boxes, value.some) = (nil, [], []) }
        }
        let unlock = { locked.objectUpdate { value in (value.locked, value.lockedList) = (nil, []) } }
        if !deletesFirst { unlock() }
        context.delete(box)
        if deletesFirst { unlock() }
        #expect((parts + [locked]).allSatisfy { !$0.objectStatus.isGone })
        try context.save()
        #expect(try store.snapshot().fetch(Part.self) == (1...4).map { Part(code: $0) })
        #expect(try store.snapshot().count(Box.self) == 0)
        context.close()
        try store.close()
        try folder.expectIntact()
    }
}
