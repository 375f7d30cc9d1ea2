// An object that is deleted before it was ever saved follows the same rules as one that is in the store.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct UnsavedDeletionTests {
    let folder: StoreFolder
    let store: Store

    struct Item: Entity, Equatable {
        var name = ""
        var loose: Reference<Item>?
        var lock: Reference<Item>?
        var soft: Reference<Item>?
        var owner: Reference<Item>?
        var looseList: [Reference<Item>] = []
        var lockList: [Reference<Item>] = []
        var softSet: Set<Reference<Item>> = []
        var owners: [Reference<Item>] = []

        static let schema = Schema<Item> {
            Relationship(\.loose, whenTargetIsDeleted: .noAction)
            Relationship(\.lock, whenTargetIsDeleted: .deny)
            Relationship(\.owner, whenTargetIsDeleted: .cascade)
            Relationship(\.looseList, whenTargetIsDeleted: .noAction)
            Relationship(\.lockList, whenTargetIsDeleted: .deny)
            Relationship(\.owners, whenTargetIsDeleted: .cascade)
        }
    }

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Item.self])
    }

    static let ways: [(name: String, refer: @Sendable (inout Item, Reference<Item>) -> Void)] = [
        ("loose", { $0.loose = $1 }), ("looseList", { $0.looseList = [$1] }), ("lock", { $0.lock = $1 }),
        ("lockList", { $0.lockList = [$1] }), ("soft", { $0.soft = $1 }), ("softSet", { $0.softSet = [$1] }),
        ("owner", { $0.owner = $1 }), ("owners", { $0.owners = [$1] }),
    ]

    /// Whether the target was saved, whether its reference was already permanent, and whether what refers was saved.
    enum Before: String, CaseIterable { case unsaved, permanent, saved }

    @Test(arguments: Before.allCases, [false, true])
    func rulesAreTheSameForUnsavedObjects(_ before: Before, isReferrerSaved: Bool) throws {
        for (name, refer) in Self.ways {
            let context = store.makeContext()
            let referrer = context.insert(Item(name: "a"))
            if isReferrerSaved { try context.save() }
            let target = context.insert(Item(name: "b"))
            switch before {
            case .unsaved: break
            case .permanent: try context.obtainPermanentReferences(for: [target])
            case .saved: try context.save()
            }
            referrer.objectUpdate { refer(&$0, target.objectReference) }
            // The object itself may be let go.
            context.delete(target)
            if name.hasPrefix("lock") {
                let error = expect(.deleteDenied) { try context.save() }
                #expect(error?.entity == "Item" && error?.attributes == [name], "\(name)")
                #expect(error?.objects == [referrer.objectReference.id])
                referrer.objectUpdate { ($0.lock, $0.lockList) = (nil, []) }
            }
            try context.save()
            let stored = try store.snapshot().fetch(Item.self)
            #expect(stored == (name.hasPrefix("owner") ? [] : [Item(name: "a")]), "\(name)")
            #expect(referrer.objectStatus.isGone == name.hasPrefix("owner"))
            #expect(!context.hasChanges)
            // The context shows what it has saved.
            if !name.hasPrefix("owner") {
                referrer.name = "c"
                try context.save()
                #expect(try store.snapshot()[referrer.objectReference] == Item(name: "c"))
            }
            context.close()
            try store.delete(Item.self)
        }
        try store.close()
        try folder.expectIntact()
    }

    /// Until it is saved, the other may be deleted as well, or the deletion be undone.
    @Test func savingChecksTheFinalState() throws {
        let context = store.makeContext()
        context.undoLevels = 10
        var referrer = context.insert(Item(name: "a"))
        var target = context.insert(Item(name: "b"))
        referrer.objectUpdate { ($0.lock, $0.looseList) = (target.objectReference, [target.objectReference]) }
        context.delete(target)
        context.delete(referrer)
        try context.save()
        #expect(try store.snapshot().count(Item.self) == 0)

        referrer = context.insert(Item(name: "a"))
        target = context.insert(Item(name: "b"))
        referrer.objectUpdate { ($0.lock, $0.looseList) = (target.objectReference, [target.objectReference]) }
        context.undoGroup("deletion") { context.delete(target) }
        expect(.deleteDenied) { try context.save() }
        try context.undo()
        try context.save()
        let stored = try #require(try store.snapshot()[referrer.objectReference])
        #expect(stored.lock == target.objectReference && stored.looseList == [target.objectReference])
        // It is in the store now, whatever it was before.
        for round in 0..<2 {
            referrer.objectUpdate { ($0.soft, $0.name) = (target.objectReference, "\(round)") }
            try context.save()
            #expect(try store.snapshot()[referrer.objectReference]?.soft == target.objectReference)
        }
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    /// Referring to it only after it was deleted is the same, unless it would delete what refers.
    @Test(arguments: [Before.unsaved, .saved])
    func laterReferencesToADeletedObjectFollowTheRules(_ before: Before) throws {
        for (name, refer) in Self.ways where !name.hasPrefix("owner") {
            let context = store.makeContext()
            let (referrer, target) = (context.insert(Item(name: "a")), context.insert(Item(name: "b")))
            if before == .saved { try context.save() }
            context.delete(target)
            referrer.objectUpdate { refer(&$0, target.objectReference) }
            if name.hasPrefix("lock") {
                expect(.deleteDenied) { try context.save() }
                referrer.objectUpdate { ($0.lock, $0.lockList) = (nil, []) }
            }
            try context.save()
            #expect(try store.snapshot().fetch(Item.self) == [Item(name: "a")], "\(name)")
            context.close()
            try store.delete(Item.self)
        }
        let context = store.makeContext()
        let (referrer, target) = (context.insert(Item(name: "a")), context.insert(Item(name: "b")))
        context.delete(target)
        referrer.owner = target
        expect(.wrongContext) { try context.save() }
        referrer.owner = nil
        try context.save()
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    /// RH2.
    @Test func validatingFailsLikeSaving() throws {
        let context = store.makeContext()
        let (referrer, target) = (context.insert(Item(name: "a")), context.insert(Item(name: "b")))
        referrer.lock = target
        context.delete(target)
        expect(.deleteDenied) { try context.validate() }
        referrer.lock = nil
        try context.validate()
        try context.save()
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    @MainActor @Test func aBackgroundSaveFollowsTheRules() async throws {
        let context = store.makeContext()
        let (referrer, target) = (context.insert(Item(name: "a")), context.insert(Item(name: "b")))
        referrer.objectUpdate { ($0.loose, $0.lock) = (target.objectReference, target.objectReference) }
        context.delete(target)
        do {
            try await context.saveInBackground()
            Issue.record("not denied")
        } catch let error as StoreError {
            #expect(error.code == .deleteDenied)
        }
        referrer.lock = nil
        try await context.saveInBackground()
        #expect(try store.snapshot().fetch(Item.self) == [Item(name: "a")])
        #expect(!context.hasChanges)
        context.close()
        try store.close()
        try folder.expectIntact()
    }
}
