// Edits that refer to what another writer has deleted: saving settles them, or says how to go on.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct DeletedTargetTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    struct Tag: Entity {
        var name = ""
        var notes = ToMany<Note>()
        var tagged = ToMany<Note>()
    }

    struct Note: Entity {
        var title = ""
        var tag: Reference<Tag>?
        var tags: Set<Reference<Tag>> = []
        var list: [Reference<Tag>] = []

        static let schema = Schema<Note> {
            Relationship(\.tag, inverse: \.notes)
            Relationship(\.tags, inverse: \.tagged)
            Relationship(\.list, whenTargetIsDeleted: .nullify)
        }
    }

    struct Pin: Entity {
        var title = ""
        var tag: Reference<Tag>?
        static let schema = Schema<Pin> { Relationship(\.tag, .required, whenTargetIsDeleted: .cascade) }
    }

    /// What refers to the deleted tag.
    enum How: CaseIterable { case one, set, list, newOne, newLists, other, pin, newPin }

    static let cases = MergePolicy.allCases.flatMap { policy in How.allCases.map { (policy, $0) } }

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Tag.self, Note.self, Pin.self])
    }

    /// One context that refers to a tag, and the tag is deleted: `held` is what the note referred to before.
    private struct Made {
        var context: Context
        var note: Object<Note>
        var pin: Object<Pin>
        var new: Object<Note>?
        var newPin: Object<Pin>?
        var held: Reference<Tag>
    }

    private func made(_ policy: MergePolicy, _ how: How, merges: Bool) throws -> Made {
        let ((held, gone, note, pin), _) = try store.write { transaction in
            let held = try transaction.insert(Tag(name: "held"))
            let gone = try transaction.insert(Tag(name: "gone"))
            let note = try transaction.insert(Note(title: "t", tag: held, tags: [held], list: [held]))
            return (held, gone, note, try transaction.insert(Pin(title: "p", tag: held)))
        }
        let context = store.makeContext()
        context.mergePolicy = policy
        let (object, pinned) = (try context.object(note), try context.object(pin))
        let tag = try context.object(gone)
        var made = Made(context: context, note: object, pin: pinned, held: held)
        switch how {
        case .one: object.tag = tag
        case .set: object.objectUpdate { $0.tags = [gone] }
        case .list: object.objectUpdate { $0.list = [gone, held] }
        case .newOne: made.new = context.insert(Note(title: "new", tag: gone))
        case .newLists: made.new = context.insert(Note(title: "new", tags: [gone, held], list: [gone]))
        case .other: object.title = "edited"
        case .pin: pinned.tag = tag
        case .newPin: made.newPin = context.insert(Pin(title: "new", tag: gone))
        }
        try store.write { try $0.delete(gone) }
        if merges { try context.merge() }
        return made
    }

    @Test(arguments: cases, [false, true]) func savingSettlesReferencesToDeletedTargets(
        _ pair: (MergePolicy, How), merges: Bool
    ) throws {
        let (policy, how) = pair
        let made = try made(policy, how, merges: merges)
        let (context, note) = (made.context, made.note)
        let isSingle = [.one, .newOne, .pin, .newPin].contains(how)
        if isSingle, policy == .error {
            let error = expect(.mergeConflict) { try context.save() }
            #expect(error?.mergeConflicts.map(\.kind) == [.targetDeleted] && "\(error!)".contains("“tag”"))
            expect(.mergeConflict) { try context.save() }
            // Each way out that the error names.
            context.rollback()
            try context.save()
            #expect(!context.hasChanges)
            return try end()
        }
        if how == .newPin || how == .pin && [.objectWins, .overwrite].contains(policy) {
            let error = expect(.referenceMissing) { try context.save() }
            #expect(error?.entity == "Pin" && error?.attributes == ["tag"])
            let pin = made.newPin ?? made.pin
            pin.tag = try context.object(made.held)
            try context.save()
            #expect(try store.snapshot().fetch(Pin.self).allSatisfy { $0.tag == made.held })
            return try end()
        }
        try context.save()
        #expect(!context.hasChanges)
        let saved = try #require(try store.snapshot()[note.objectReference])
        let now = note.objectStatus.snapshot
        #expect(now.tag == saved.tag && now.tags == saved.tags && now.list == saved.list && now.title == saved.title)
        switch how {
        case .one:
            #expect(saved.tag == ([.storeWins, .rollback].contains(policy) ? made.held : nil))
        case .set: #expect(saved.tags == [])
        case .list: #expect(saved.list == [made.held])
        case .newOne: #expect(made.new?.objectStatus.isInserted == false && made.new?.objectStatus.snapshot.tag == nil)
        case .newLists:
            let new = try #require(made.new).objectStatus.snapshot
            #expect(new.tags == [made.held] && new.list.isEmpty)
        case .other: #expect(saved.title == "edited" && saved.tag == made.held)
        case .pin: #expect(made.pin.objectStatus.snapshot.tag == made.held)
        case .newPin: break
        }
        try end()
    }

    @Test(arguments: How.allCases) @MainActor
    func savingInTheBackgroundSettlesReferencesToDeletedTargets(_ how: How) async throws {
        let made = try made(.objectWins, how, merges: false)
        if how == .pin || how == .newPin {
            let error = await #expect(throws: StoreError.self) { try await made.context.saveInBackground() }
            #expect(error?.code == .referenceMissing)
            made.context.rollback()
        } else {
            try await made.context.saveInBackground()
            #expect(made.note.tag === (how == .one ? nil : try made.context.object(made.held)))
        }
        #expect(!made.context.hasChanges)
        try end()
    }

    @Test(arguments: How.allCases) func refreshingOrAssigningSettlesTheConflict(_ how: How) throws {
        for isAssigned in [false, true] where how != .pin && how != .newPin {
            let made = try made(.error, how, merges: isAssigned)
            if isAssigned {
                made.note.tag = made.note.tag
                made.new?.tag = made.new?.tag
            } else if made.new == nil {
                try made.context.refresh(made.note, keepingEdits: true)
            } else {
                made.context.discard(try #require(made.new))
            }
            try made.context.save()
            #expect(!made.context.hasChanges)
        }
        try end()
    }

    /// A deletion is settled before a newer one is there.
    @Test func anObjectInsertedAgainIsNoDeletedTarget() throws {
        let context = store.makeContext()
        context.undoLevels = 5
        let tag = context.insert(Tag(name: "t"))
        let note = context.insert(Note(title: "n"))
        try context.save()
        context.delete(tag)
        try context.save()
        try context.undo()
        note.tag = tag
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.tag == tag.objectReference)
        try end()
    }

    @Test func aReferenceToAnObjectThatNeverExistedIsAnError() throws {
        let context = store.makeContext()
        context.mergePolicy = .objectWins
        let never = Reference<Tag>(try #require(ObjectID(entityNumber: 1, number: 77)))
        let note = context.insert(Note(title: "n", tag: never))
        expect(.referenceMissing) { try context.save() }
        #expect(note.objectStatus.isInserted)
        context.rollback()
        try end()
    }
}
