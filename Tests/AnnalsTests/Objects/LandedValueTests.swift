// The values that objects show after a save: those of the store, also if they were not read again.

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

    /// The store has the changes of both, and the object shows them, although it was not read after its own save.
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
}
