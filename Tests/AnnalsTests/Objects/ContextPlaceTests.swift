// Objects that are newer than their context's place, when the context moves to a state in which they are as they were.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct ContextPlaceTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    /// More transactions than the context holds objects: it compares the objects, and does not read history.
    private static func insertLabels(_ store: Store) throws {
        for number in 0..<10 { try store.insert(contentsOf: [Label(name: "\(number)")]) }
    }

    /// What another writer does to the only object between a save and the move to the newest state.
    enum Interference: CaseIterable {
        /// Deletes what was inserted.
        case deletes
        /// Sets back what was changed.
        case setsBack
        case setsBackAndCompacts
    }

    /// Holds a context whose saves somebody interferes with, before it can look at the store again.
    private actor Saver {
        private let context: Context
        private let note: Object<Note>
        private var isSaving = false

        init(_ store: Store, _ interference: Interference) throws {
            context = store.makeContext()
            note = context.insert(Note(title: "n"))
            try context.obtainPermanentReferences(for: [note])
            if interference == .deletes { return }
            try context.save()
            note.rank = 1
        }

        func save() async throws {
            isSaving = true
            try await context.saveInBackground()
        }

        func interfere(_ interference: Interference, _ other: Store) async throws {
            while !isSaving { await Task.yield() }
            try interfereNow(interference, other)
        }

        /// While this waits on the actor, `save` cannot go on.
        private func interfereNow(_ interference: Interference, _ other: Store) throws {
            let reference = note.objectReference
            while try other.snapshot()[reference]?.rank != (interference == .deletes ? 0 : 1) {}
            try other.write { transaction in
                if interference == .deletes {
                    try transaction.delete(reference)
                } else {
                    try transaction.update(reference) { ($0.rank, $0.saves) = (0, 1) }
                }
            }
            try ContextPlaceTests.insertLabels(other)
            if interference == .setsBackAndCompacts { try other.compact() }
        }

        var shown: (isGone: Bool, rank: Int) { (note.objectStatus.isGone, note.rank) }
        func merge() throws { try context.merge() }
        func close() { context.close() }
    }

    @Test(arguments: Interference.allCases)
    func aContextShowsThatItsSaveWasRevertedAtOnce(interference: Interference) async throws {
        let other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        let saver = try Saver(store, interference)
        async let saving: Void = saver.save()
        try await saver.interfere(interference, other)
        try await saving
        try await saver.merge()
        let (isGone, rank) = await saver.shown
        #expect(isGone == (interference == .deletes) && rank == 0)
        await saver.close()
        try other.close()
        try end()
    }

    /// An object is read anew when others have inserted it again, and they delete it again.
    @Test func aRefreshedObjectIsDeletedAgain() throws {
        let (context, others) = (store.makeContext(), store.makeContext())
        others.undoLevels = 5
        let note = context.insert(Note(title: "n"))
        try context.save()
        try others.merge()
        others.delete(try others.object(note.objectReference))
        try others.save()
        try context.merge()
        try others.undo()
        try others.save()
        try context.refresh(note, keepingEdits: false)
        #expect(!note.objectStatus.isGone)
        others.delete(try others.object(note.objectReference))
        try others.save()
        try Self.insertLabels(store)
        try context.merge()
        #expect(note.objectStatus.isGone)
        try end()
    }

    /// Edits keep an object that others have deleted, for as long as there are any.
    @Test func withoutEditsADeletedObjectIsGone() throws {
        let context = store.makeContext()
        let note = context.insert(Note(title: "n"))
        try context.save()
        note.rank = 1
        try store.write { try $0.delete(note.objectReference) }
        try context.merge()
        #expect(note.rank == 1 && !note.objectStatus.isGone)
        note.rank = 0
        try Self.insertLabels(store)
        try context.merge()
        #expect(note.objectStatus.isGone && !context.hasChanges)
        try end()
    }
}
