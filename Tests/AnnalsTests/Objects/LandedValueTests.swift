// The values that objects show after a save: those of the store.

import Annals
import FoundationEssentials
import TestSupport
import Testing

private struct Plain: Entity, Equatable {
    var name = ""
    var note: String?
    var rank = 0
    var size = 0.0
    var isNew = false
    var added = Date(timeIntervalSinceReferenceDate: 0)
}

private struct Linked: Entity, Equatable {
    var name = ""
    var plain: Reference<Plain>?
    static let schema = Schema<Linked> { Relationship(\.plain, whenTargetIsDeleted: .nullify) }
}

/// Saving computes some of its properties.
private struct Computed: Entity, Equatable {
    var name = ""
    var saves = 0
    var lower = ""
    var changed: Date?

    static let schema = Schema<Computed> {
        Attribute(\.lower, .derived { $0.name.lowercased() })
        Attribute(\.changed, .derived(.lastChange))
    }

    mutating func willSave() { saves += 1 }
}

/// The store computes only the time.
private struct Timed: Entity, Equatable {
    var name = ""
    var changed: Date?
    static let schema = Schema<Timed> { Attribute(\.changed, .derived(.lastChange)) }
}

/// A hook changes only what is not stored, and a stored property is derived from that.
private struct Split: Entity {
    var title = ""
    var words: [String] = []
    var key = ""

    static let schema = Schema<Split> {
        Transient(\.words)
        Attribute(\.key, .derived { $0.words.joined(separator: "-") })
    }

    mutating func willInsert() { willSave() }
    mutating func willSave() { words = title.split(separator: " ").map(String.init) }
}

private struct Folder: Entity {
    var name = ""
}

private struct Filed: Entity {
    var name = ""
    var folder: Reference<Folder>?

    static let schema = Schema<Filed>("Filed") { Relationship(\.folder, whenTargetIsDeleted: .cascade) }
}

/// The same entity, as a program without the reference sees it.
private struct Loose: Entity {
    var name = ""

    static let schema = Schema<Loose>("Filed") {}
}

/// The store counts its sheets.
private struct Binder: Entity {
    var name = ""
    var sheetCount = 0
    var sheets = ToMany<Sheet>()
    static let schema = Schema<Binder> { Attribute(\.sheetCount, .derived(count: \.sheets)) }
}

private struct Sheet: Entity {
    var text = ""
    var binder: Reference<Binder>?
    static let schema = Schema<Sheet> { Relationship(\.binder, inverse: \.sheets) }
}

@Suite struct LandedValueTests {
    private let store: Store
    private let context: Context

    init() throws {
        store = try Store(inMemory: [Plain.self, Linked.self, Computed.self, Timed.self])
        context = store.makeContext()
    }

    @Test func insertedAndChangedObjectsShowWhatTheStoreHas() throws {
        let plain = context.insert(Plain(name: "a", note: "b", rank: 1, size: 0.5, isNew: true, added: .now))
        let linked = context.insert(Linked(name: "l"))
        linked.plain = plain
        let computed = context.insert(Computed(name: "C"))
        let timed = context.insert(Timed(name: "t"))
        for round in 0..<3 {
            plain.note = round == 1 ? nil : "\(round)"
            (linked.name, computed.name, timed.name) = ("l\(round)", "C\(round)", "t\(round)")
            try context.save()
            let snapshot = try store.snapshot()
            #expect(try snapshot[plain.objectReference]?.note == plain.note)
            #expect(try snapshot[linked.objectReference]?.plain == plain.objectReference)
            #expect(linked.plain === plain)
            #expect(computed.saves == round + 1 && computed.lower == "c\(round)")
            #expect(try snapshot[computed.objectReference]?.changed == computed.changed && computed.changed != nil)
            #expect(try snapshot[timed.objectReference]?.changed == timed.changed && timed.changed != nil)
            #expect(!context.hasChanges)
        }
    }

    /// The store has the changes of both, and the object shows them.
    @Test func laterEditsAndCommitsAreRelativeToTheSavedValue() throws {
        let plain = context.insert(Plain(name: "a"))
        try context.save()
        try store.write { transaction in
            try transaction.update(plain.objectReference) { $0.rank = 7 }
        }
        plain.name = "b"
        try context.save()
        #expect(plain.rank == 7)
        #expect(try store.snapshot()[plain.objectReference] == Plain(name: "b", rank: 7))
    }

    @Test func savesOfTwoContextsShowTheChangesOfBoth() throws {
        let plain = context.insert(Plain(name: "a"))
        try context.save()
        let other = store.makeContext()
        plain.name = "b"
        try other.object(plain.objectReference).rank = 5
        try context.save()
        try other.save()
        try context.merge()
        #expect(plain.name == "b" && plain.rank == 5)
        #expect(try store.snapshot()[plain.objectReference] == Plain(name: "b", rank: 5))
    }

    @Test func derivationsUseWhatAHookHasChangedInTransientProperties() throws {
        let store = try Store(inMemory: [Split.self])
        let context = store.makeContext()
        let split = context.insert(Split(title: "a b"))
        try context.save()
        #expect(split.key == "a-b")
        split.title = "c d e"
        try context.save()
        #expect(try split.key == "c-d-e" && store.snapshot()[split.objectReference]?.key == "c-d-e")
    }

    /// A delete rule that the type does not know deletes an object that the same save has changed.
    @Test func anObjectThatItsOwnSaveDeletedIsGone() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path + "/store.annals"
        let full = try Store(at: path, entities: [Filed.self, Folder.self])
        let (filed, folder) = try full.write { transaction in
            let folder = try transaction.insert(Folder(name: "f"))
            return (try transaction.insert(Filed(name: "i", folder: folder)), folder)
        }.result
        let loose = try Store(at: path, entities: [Loose.self, Folder.self])
        let context = loose.makeContext()
        let item = try context.object(Reference<Loose>(filed.id))
        let held = try context.object(Reference<Folder>(folder.id))
        item.name = "x"
        context.delete(held)
        try context.save()
        #expect(item.objectStatus.isGone)
        #expect(try context.fetch(Loose.self).isEmpty && !context.hasChanges)
        try full.close()
        try loose.close()
        try expectIntact(path)
    }

    /// A save changes an object, and the objects that the store counts for it.
    @Test func countsOfTheStoreAreShown() throws {
        let store = try Store(inMemory: [Binder.self, Sheet.self])
        let context = store.makeContext()
        let binder = context.insert(Binder(name: "a"))
        for count in 1...3 {
            binder.name = "\(count)"
            context.insert(Sheet(text: "\(count)")).binder = binder
            try context.save()
            #expect(try binder.sheetCount == count && store.snapshot()[binder.objectReference]?.sheetCount == count)
        }
    }

    /// A merge policy has dropped an edit: the object shows the store's value.
    @Test(arguments: [MergePolicy.storeWins, .rollback])
    func anEditThatThePolicyDropsIsNoLongerShown(_ policy: MergePolicy) throws {
        let plain = context.insert(Plain(name: "a"))
        try context.save()
        context.mergePolicy = policy
        plain.name = "mine"
        try store.write { transaction in
            try transaction.update(plain.objectReference) { $0.name = "theirs" }
        }
        try context.save()
        #expect(plain.name == "theirs" && !context.hasChanges)
    }
}
