// Calls of a context that get an object of another context.

import Annals
import TestSupport
import Testing

@Suite struct OtherContextTests {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    /// Every call that takes an object. Those that cannot throw leave the error for the next call that can.
    private static let calls: [@Sendable (Context, Object<Group>) throws -> Void] = [
        { context, object in
            context.delete(object)
            try context.save()
        },
        { context, object in
            context.discard(object)
            try context.save()
        },
        { context, object in try context.refresh(object, keepingEdits: false) },
        { context, object in try context.obtainPermanentReferences(for: [object]) },
    ]

    @Test(arguments: calls.indices) func theErrorNamesAWayOut(call: Int) throws {
        let (here, there) = (store.makeContext(), store.makeContext())
        let (saved, inserted) = (there.insert(Group(name: "a")), there.insert(Group(name: "b")))
        try there.obtainPermanentReferences(for: [inserted])
        let temporary = there.insert(Group(name: "c"))
        there.delete(inserted)
        there.delete(temporary)
        try there.save()
        saved.name = "changed"
        let again = there.insert(Group(name: "d"))
        let reserved = there.insert(Group(name: "e"))
        try there.obtainPermanentReferences(for: [reserved])

        let known = expect(.wrongContext) { try Self.calls[call](here, saved) }
        #expect(
            known?.message
                == "The object \(saved.objectReference.id) of “Group” belongs to another context: call that context, "
                + "or use the object that `object(_:)` of this context returns for its reference.")
        #expect(known?.object == saved.objectReference.id && known?.entity == "Group")
        for unsaved in [again, reserved] {
            let error = expect(.wrongContext) { try Self.calls[call](here, unsaved) }
            #expect(
                error?.message == "An object of “Group” belongs to another context, which has not saved it: save that "
                    + "context first, and use the object's objectReference.")
        }
        // Nothing has happened, here or there.
        #expect(!here.hasChanges && here.deferredError == nil)
        #expect(saved.name == "changed" && there.insertedObjects(Group.self).count == 2)
        // The way out that the error names.
        try here.merge()
        #expect(try here.object(saved.objectReference).name == "a")
        try there.save()
        #expect(try store.snapshot().fetch(Group.self).map(\.name).sorted() == ["changed", "d", "e"])
        for context in [here, there] { context.close() }
        try store.close()
        try folder.expectIntact()
    }

    @Test func aTemporaryReferenceWithoutItsObjectIsNamed() throws {
        let (here, there) = (store.makeContext(), store.makeContext())
        let group = there.insert(Group(name: "a"))
        let error = expect(.wrongContext) { try here.object(group.objectReference) }
        #expect(
            error?.message == "The reference to an object of “Group” is temporary, and its object is inserted in "
                + "another context, or was released: save its context first, and use the object's objectReference."
        )
        for context in [here, there] { context.close() }
        try store.close()
        try folder.expectIntact()
    }
}
