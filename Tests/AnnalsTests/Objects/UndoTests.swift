// Undo and redo in a context: what was shown before a group is shown again, and what others did stays.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct UndoTests {
    let folder: StoreFolder
    let store: Store
    let context: Context

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        context = store.makeContext(author: "app")
        context.undoLevels = 100
    }

    private func end() throws {
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    private func another(_ change: (Transaction) throws -> Void) throws {
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.writeOptimistically { try change($0) }
        try other.close()
        try context.merge()
    }

    @Test func editsAreUndoneAndRedoneInGroups() throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        note.title = "b"
        note.title = "c"
        try context.save()
        context.undoGroup("Rank") { note.rank = 2 }
        #expect(context.undoActionName == "Rank")
        note.text = "not saved"
        #expect(note.saves == 2 && context.canUndo && !context.canRedo)
        try context.undo()
        #expect(note.text == nil && note.rank == 2)
        try context.undo()
        #expect(note.rank == 1 && context.redoActionName == "Rank" && note.title == "c")
        try context.undo()
        #expect(note.title == "a" && note.saves == 1 && context.hasChanges)
        let before = note.objectReference
        try context.save()
        #expect(try store.snapshot()[before]?.title == "a")
        for _ in 0..<3 { try context.redo() }
        #expect(!context.canRedo && note.title == "c" && note.rank == 2 && note.text == "not saved")
        try context.undo()
        note.rank = 9
        #expect(!context.canRedo)
        context.removeAllUndoActions()
        #expect(!context.canUndo)
        try context.undo()
        #expect(note.rank == 9)
        try context.save()
        #expect(try store.snapshot()[before]?.rank == 9)
        try end()
    }

    @Test(arguments: [false, true]) func anInsertIsUndone(isSaved: Bool) throws {
        let group = context.insert(Group(name: "g"))
        let note = context.insert(Note(title: "a", group: group.objectReference))
        if isSaved { try context.save() }
        try context.undo()
        #expect(group.objectStatus.isDeleted == isSaved && note.objectStatus.isGone == !isSaved)
        #expect(try context.count(Note.self) == 0)
        try context.save()
        #expect(try store.snapshot().count(Note.self) == 0 && !context.canUndo)
        try context.redo()
        #expect(note.group === group && group.notes.first === note && note.objectStatus.isInserted)
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.group == group.objectReference)
        try end()
    }

    @Test(arguments: [false, true]) func aDeletionIsUndoneWithItsCascade(isSaved: Bool) throws {
        let group = context.insert(Group(name: "g"))
        let label = context.insert(Label(name: "l"))
        let notes = (0..<3).map {
            context.insert(Note(title: "n\($0)", group: group.objectReference, labels: [label.objectReference]))
        }
        try context.save()
        let references = notes.map(\.objectReference)
        context.undoGroup {
            context.delete(label)
            context.delete(group)
        }
        #expect(notes[0].objectStatus.isDeleted)
        if isSaved { try context.save() }
        #expect(notes[0].objectStatus.isGone == isSaved)
        try context.undo()
        #expect(context.hasChanges == isSaved && notes.map(\.objectReference) == references)
        #expect(group.notes.map(\.title) == ["n0", "n1", "n2"] && label.notes.count == 3)
        #expect(notes.allSatisfy { $0.group === group && $0.labels.first === label })
        try context.save()
        #expect(try store.snapshot()[references[1]]?.group == group.objectReference)
        try context.redo()
        #expect(notes[2].objectStatus.isDeleted && group.notes.isEmpty)
        try context.save()
        #expect(try store.snapshot().count(Note.self) == 0)
        try end()
    }

    @Test func referencesFollowTheirObjectsThroughASave() throws {
        let note = context.insert(Note(title: "a"))
        try context.save()
        let group = context.insert(Group(name: "g"))
        context.beginUndoGrouping()
        note.group = group
        context.endUndoGrouping()
        context.undoGroup { note.group = nil }
        try context.save()
        try context.undo()
        #expect(note.group === group && group.notes.first === note)
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.group == group.objectReference)
        try end()
    }

    @Test func aDeletionThatTwoContextsUndoIsInsertedOnce() throws {
        let label = context.insert(Label(name: "l"))
        try context.save()
        let other = store.makeContext(author: "share")
        other.undoLevels = 10
        let same = try other.object(label.objectReference)
        context.delete(label)
        other.delete(same)
        try context.save()
        try other.save()
        try context.undo()
        try other.undo()
        try context.save()
        let inserted = try store.currentToken
        #expect(try other.save() == inserted && store.currentToken == inserted)
        #expect(!other.hasChanges && same.name == "l" && !same.objectStatus.isGone)
        #expect(try store.snapshot().count(Label.self) == 1)
        other.close()
        try end()
    }

    /// Undo shows a deleted object again, another program inserts it again with other values, and rollback shows those.
    @Test func anInsertionByAnotherHandleIsNotUndone() throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        let reference = note.objectReference
        context.delete(note)
        let deletion = try context.save()
        try context.undo()
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.revert(deletion)
        try other.writeOptimistically { try $0.update(reference) { $0.rank = 2 } }
        try other.close()
        try context.merge()
        context.rollback()
        #expect(note.rank == 2 && !context.hasChanges)
        // The object would go again, and others have changed it. The rank is no change of this context.
        expect(.undoConflict) { try context.undo() }
        #expect(note.rank == 2 && !context.hasChanges)
        try end()
    }

    @Test func theOldestGroupsAreForgotten() throws {
        context.undoLevels = 2
        let note = context.insert(Note(title: "a"))
        for rank in 1...4 { context.undoGroup { note.rank = rank } }
        for _ in 1...4 { try context.undo() }
        #expect(note.rank == 2 && !context.canUndo && context.undoLevels == 2)
        context.undoLevels = 0
        note.rank = 7
        #expect(!context.canUndo && !context.canRedo)
        try end()
    }

    // MARK: Others

    @Test func undoOfAnAttributeThatAnotherHandleChangedIsAConflict() throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        note.title = "b"
        note.rank = 2
        try context.save()
        try another { try $0.update(note.objectReference) { $0.title = "theirs" } }
        let error = expect(.undoConflict) { try context.undo() }
        let conflict = try #require(error?.mergeConflicts.first)
        #expect(error?.mergeConflicts.count == 1 && conflict.attribute == "title" && conflict.kind == .attribute)
        #expect(conflict.base == "a" && conflict.mine == "b" && conflict.theirs == "theirs")
        #expect(note.title == "theirs" && note.rank == 2 && !context.hasChanges && context.canUndo)
        try context.undo(skippingConflicts: true)
        #expect(note.title == "theirs" && note.rank == 1)
        try context.redo()
        #expect(note.title == "theirs" && note.rank == 2)
        try end()
    }

    @Test func changesOfAnotherHandleWithinAGroupAreNotUndone() throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        note.title = "b"
        try another { try $0.update(note.objectReference) { $0.rank = 5 } }
        note.text = "mine"
        // Saving merges, too.
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.update(Note.self) { $0.rank = 6 }
        try other.close()
        try context.save()
        #expect(note.rank == 6)
        try context.undo()
        #expect(note.title == "a" && note.text == nil && note.rank == 6)
        try context.save()
        note.text = "dropped"
        try context.refresh(note, keepingEdits: false)
        #expect(note.text == nil)
        try end()
    }

    @Test func undoKeepsAnObjectThatAnotherHandleUses() throws {
        let group = context.insert(Group(name: "g"))
        try context.save()
        try another { try $0.insert(Note(title: "theirs", group: group.objectReference)) }
        #expect(expect(.undoConflict) { try context.undo() }?.mergeConflicts.map(\.kind) == [.changedInStore])
        #expect(group.notes.count == 1 && !context.hasChanges)
        group.name = "h"
        try context.save()
        try another { try $0.delete(group.objectReference) }
        #expect(expect(.undoConflict) { try context.undo() }?.mergeConflicts.map(\.kind) == [.deletedInStore])
        context.close()
        #expect(expect(.contextClosed) { try context.undo() } != nil)
        try end()
    }

    /// What undoing and redoing find when others have changed something since.
    enum Meanwhile: String, CaseIterable { case nothing, sameAttribute, anotherAttribute, sameValue, deleted }

    @Test(arguments: Meanwhile.allCases, [false, true])
    func redoingFindsConflicts(meanwhile: Meanwhile, isList: Bool) throws {
        let labels = (0..<3).map { context.insert(Label(name: "\($0)")) }
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        if isList { note.labels = [labels[0]] } else { note.title = "b" }
        try context.save()
        try context.undo()
        try context.save()
        try another { transaction in
            switch meanwhile {
            case .nothing: break
            case .sameAttribute:
                try transaction.update(note.objectReference) {
                    if isList { $0.labels = [labels[1].objectReference] } else { $0.title = "theirs" }
                }
            case .anotherAttribute: try transaction.update(note.objectReference) { $0.rank = 9 }
            case .sameValue:
                try transaction.update(note.objectReference) {
                    if isList { $0.labels = [labels[0].objectReference] } else { $0.title = "b" }
                }
            case .deleted: try transaction.delete(note.objectReference)
            }
        }
        switch meanwhile {
        case .nothing, .anotherAttribute, .sameValue:
            try context.redo()
            #expect(isList ? note.labels.map(\.name) == ["0"] : note.title == "b")
            #expect(note.rank == (meanwhile == .anotherAttribute ? 9 : 1))
        case .sameAttribute:
            let conflict = try #require(expect(.undoConflict) { try context.redo() }?.mergeConflicts.first)
            #expect(conflict.attribute == (isList ? "labels" : "title") && conflict.object == note.objectReference.id)
            #expect(conflict.theirs == (isList ? .orderedObjects([labels[1].objectReference.id]) : "theirs"))
            #expect(conflict.mine == (isList ? .orderedObjects([]) : "a"))
            #expect(context.canRedo && !context.hasChanges)
            try context.redo(skippingConflicts: true)
            #expect(isList ? note.labels.map(\.name) == ["1"] : note.title == "theirs")
        case .deleted:
            #expect(expect(.undoConflict) { try context.redo() }?.mergeConflicts.map(\.kind) == [.deletedInStore])
            try context.redo(skippingConflicts: true)
            #expect(note.objectStatus.isGone)
        }
        #expect(!context.canRedo)
        try context.save()
        try end()
    }

    /// What a merge policy has decided against was never saved. Undoing does not overwrite what is there instead.
    @Test(arguments: MergePolicy.allCases) func undoAfterASettledConflictOverwritesNothing(policy: MergePolicy) throws {
        let note = context.insert(Note(title: "a", text: "a", rank: 1))
        try context.save()
        note.title = "mine"
        note.text = "mine"
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.writeOptimistically { try $0.update(note.objectReference) { $0.title = "theirs" } }
        try other.close()
        context.mergePolicy = policy
        if policy == .error {
            expect(.mergeConflict) { try context.save() }
            #expect(context.canUndo && note.title == "mine")
            try context.undo()
            #expect(!note.objectStatus.changedValues.keys.contains("text") && note.text == "a")
            context.rollback()
            try context.merge()
        } else {
            try context.save()
            let isMine = policy == .objectWins || policy == .overwrite
            #expect(note.title == (isMine ? "mine" : "theirs"))
            if isMine {
                try context.undo()
                #expect(note.title == "a" && note.text == "a")
            } else {
                let attributes = expect(.undoConflict) { try context.undo() }?.mergeConflicts.map(\.attribute)
                #expect(attributes?.contains("title") == true)
                try context.undo(skippingConflicts: true)
                #expect(note.title == "theirs" && note.text == "a")
            }
        }
        try context.save()
        try end()
    }

    @Test func forgettingEditsIsUndone() throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        for kind in 0..<3 {
            context.undoGroup { note.title = "b\(kind)" }
            context.undoGroup {
                switch kind {
                case 0: context.rollback()
                case 1: context.discard(note)
                default: #expect(throws: Never.self) { try context.refresh(note, keepingEdits: false) }
                }
            }
            #expect(note.title == "a")
            try context.undo()
            #expect(note.title == "b\(kind)" && note.objectStatus.isChanged)
            try context.redo()
            #expect(note.title == "a" && !context.hasChanges)
            try context.undo()
            try context.undo()
            #expect(note.title == "a" && !context.hasChanges)
        }
        // An object that was never saved is there again.
        let added = context.undoGroup { context.insert(Note(title: "added")) }
        context.undoGroup { context.rollback() }
        #expect(added.objectStatus.isGone)
        try context.undo()
        #expect(added.objectStatus.isInserted)
        try context.save()
        #expect(try store.snapshot()[added.objectReference]?.title == "added")
        try end()
    }

    @Test func editsMadeDuringASaveAreTheirOwnGroup() async throws {
        context.close()
        try await Self.background(store)
        try folder.expectIntact()
    }

    @MainActor private static func background(_ store: Store) async throws {
        let context = store.makeContext()
        context.undoLevels = 10
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        note.title = "b"
        let saving = Task { try await context.saveInBackground() }
        // What is being saved is no change any more.
        while context.hasChanges { await Task.yield() }
        note.title = "c"
        note.rank = 2
        _ = try await saving.value
        #expect(note.title == "c" && note.objectStatus.changedValues.keys.sorted() == ["rank", "title"])
        try context.undo()
        #expect(note.title == "b" && note.rank == 1 && !context.hasChanges)
        try context.undo()
        #expect(note.title == "a" && note.objectStatus.isChanged)
        try context.redo()
        try context.redo()
        #expect(note.title == "c" && note.rank == 2)
        // Undone while it is being saved.
        let again = Task { try await context.saveInBackground() }
        while context.hasChanges { await Task.yield() }
        try context.undo()
        _ = try await again.value
        #expect(note.title == "b" && note.objectStatus.isChanged)
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.title == "b")
        context.close()
        try store.close()
    }

    /// Edits keep an object that others have deleted, also if it was deleted here and that was undone.
    @Test(arguments: [MergePolicy.error, .objectWins, .storeWins])
    func theDeletionOfAnAlreadyDeletedObjectCanBeUndone(policy: MergePolicy) throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        note.title = "b"
        context.undoGroup { note.rank = 2 }
        try another { try $0.delete(note.objectReference) }
        #expect(note.title == "b" && note.objectStatus.isChanged)
        context.undoGroup { context.delete(note) }
        try context.undo()
        #expect(note.objectStatus.isChanged && note.rank == 2)
        context.mergePolicy = policy
        if policy == .error {
            #expect(expect(.mergeConflict) { try context.save() }?.mergeConflicts.map(\.kind) == [.deletedInStore])
            try context.redo()
            #expect(note.objectStatus.isDeleted)
        }
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.title == (policy == .objectWins ? "b" : nil))
        #expect(note.objectStatus.isGone == (policy != .objectWins) && !context.hasChanges)
        try end()
    }

    /// Two contexts have undone the deletion of one object.
    @Test(arguments: MergePolicy.allCases, [false, true])
    func anObjectThatTwoContextsInsertAgainExistsOnce(policy: MergePolicy, mergesFirst: Bool) throws {
        let note = context.insert(Note(title: "a", rank: 1))
        try context.save()
        context.delete(note)
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self]).makeContext()
        other.mergePolicy = .objectWins
        let theirs = try other.object(note.objectReference)
        theirs.title = "theirs"
        try context.save()
        try context.undo()
        note.rank = 5
        try other.save()
        #expect(try store.snapshot()[note.objectReference]?.title == "theirs")
        context.mergePolicy = policy
        if mergesFirst { try context.merge() }
        #expect(note.title == "a" && note.rank == 5)
        if policy == .error {
            let conflicts = expect(.mergeConflict) { try context.save() }?.mergeConflicts
            #expect(conflicts?.contains { $0.attribute == "title" && $0.base == nil && $0.theirs == "theirs" } == true)
            context.rollback()
            try context.merge()
            #expect(note.title == "theirs" && note.rank == 1 && !context.hasChanges)
        }
        try context.save()
        let isMine = policy == .objectWins || policy == .overwrite
        #expect(note.title == (isMine ? "a" : "theirs") && note.rank == (isMine ? 5 : 1) && !note.objectStatus.isGone)
        let saved = try #require(try store.snapshot()[note.objectReference])
        #expect(saved.title == note.title && saved.rank == note.rank)
        #expect(try context.fetch(Note.self).first === note && context.count(Note.self) == 1)
        other.close()
        try end()
    }

    @Test func theHistoryKeepsNothingAlive() throws {
        weak var lost: Object<Note>?
        try store.perform { brief in
            brief.undoLevels = 10
            let note = brief.insert(Note(title: "a"))
            try brief.save()
            note.title = "b"
            lost = note
        }
        #expect(lost == nil)
        try end()
    }

    // MARK: At random

    /// Longer with `Tests/run long undo`: an operation is a round.
    @Test func undoAndRedoRestoreEveryState() throws {
        guard let long = LongRun("undo", operations: 300) else { return }
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        for round in 0..<long.operations {
            let context = store.makeContext()
            context.undoLevels = 1000
            var run = UndoRun(context, other, long.seed &* 100_000 &+ UInt64(round))
            do {
                try run.run()
                try run.disturb()
            } catch {
                long.record(error, "round \(round)")
                break
            }
            context.close()
        }
        print("undo, seed \(long.seed): \(long.operations) rounds")
        try other.close()
        try end()
    }
}

/// Random changes in a context, undone and redone.
private struct UndoRun {
    struct Difference: Error { let what: String }

    let context: Context
    let other: Store
    var random: SeededRandom
    var groups: [Object<Group>] = []
    var labels: [Object<Label>] = []
    var notes: [Object<Note>] = []
    var states: [[String]] = []
    var number = 0

    init(_ context: Context, _ other: Store, _ seed: UInt64) {
        (self.context, self.other) = (context, other)
        random = SeededRandom(seed)
        number = Int(seed) * 1000
        states = [state]
    }

    /// What is shown, without what hooks count.
    var state: [String] {
        func place<E>(_ object: Object<E>, _ all: [Object<E>]) -> String {
            all.firstIndex { $0 === object }.map(String.init) ?? "?"
        }
        func isShown<E>(_ object: Object<E>) -> Bool { !object.objectStatus.isDeleted && !object.objectStatus.isGone }
        var lines: [String] = []
        for (index, group) in groups.enumerated() where isShown(group) {
            lines.append("group \(index) \(group.name): \(group.notes.map { place($0, notes) }.sorted())")
        }
        for (index, label) in labels.enumerated() where isShown(label) {
            lines.append("label \(index) \(label.name): \(label.notes.map { place($0, notes) }.sorted())")
        }
        for (index, note) in notes.enumerated() where isShown(note) {
            let group = note.group.map { place($0, groups) } ?? "-"
            lines.append("note \(index) \(note.title) \(note.rank) \(group) \(note.labels.map { place($0, labels) })")
        }
        return lines
    }

    private mutating func pick<E>(_ all: [Object<E>]) -> Object<E>? {
        all.filter { !$0.objectStatus.isDeleted && !$0.objectStatus.isGone }.randomElement(using: &random)
    }

    mutating func run() throws {
        let context = context
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            let isByHand = Bool.random(using: &random)
            if isByHand { context.beginUndoGrouping() }
            for _ in 0..<Int.random(in: 1...6, using: &random) { try change() }
            if isByHand { context.endUndoGrouping() } else { try context.save() }
            if state != states.last { states.append(state) }
        }
        let saves = Bool.random(using: &random)
        for _ in 0..<2 {
            for expected in states.dropLast().reversed() { try step(expected, saves, "undo") { try context.undo() } }
            try require(!context.canUndo, "nothing to undo")
            for expected in states.dropFirst() { try step(expected, saves, "redo") { try context.redo() } }
            try require(!context.canRedo, "nothing to redo")
        }
        try context.save()
        try require(state == states.last, "the state after saving")
        try expectSaved()
    }

    // MARK: Others

    /// What others change after a group stays, whatever is undone and redone, and however often it is saved.
    mutating func disturb() throws {
        let (context, number) = (context, number)
        let shown = notes.filter { !$0.objectStatus.isDeleted && !$0.objectStatus.isGone }
        var theirs: [(note: Object<Note>, title: String?, rank: Int?)] = []
        try other.writeOptimistically { transaction in
            theirs = []
            for note in shown where Int.random(in: 0..<3, using: &random) == 0 {
                let (title, rank) = Bool.random(using: &random) ? ("their \(number)", nil) : (nil, -number)
                theirs.append((note, title, rank))
                try transaction.update(note.objectReference) {
                    if let title { $0.title = title } else { $0.rank = -number }
                }
            }
        }
        try context.merge()
        for step in 0..<40 {
            if context.canUndo, step < 30 || !context.canRedo {
                try disturbed(theirs.isEmpty) { try context.undo(skippingConflicts: $0) }
            } else {
                try disturbed(theirs.isEmpty) { try context.redo(skippingConflicts: $0) }
            }
            if Int.random(in: 0..<6, using: &random) == 0 { try context.save() }
            for (note, title, rank) in theirs {
                try require(!note.objectStatus.isDeleted && !note.objectStatus.isGone, "a note that others use stays")
                try require(title == nil || note.title == title, "the title of others stays, not \(note.title)")
                try require(rank == nil || note.rank == rank, "the rank of others stays, not \(note.rank)")
            }
        }
        try context.save()
        try expectSaved()
    }

    /// Without leave to skip conflicts, either all of a group is taken back or nothing.
    private func disturbed(_ isAlone: Bool, _ body: (Bool) throws -> Void) throws {
        let before = state
        do { try body(false) } catch let error as StoreError {
            try require(error.code == .undoConflict && !error.mergeConflicts.isEmpty, "\(error)")
            try require(!isAlone, "nobody has changed anything: \(error)")
            try require(state == before, "nothing is undone if it throws")
            try body(true)
        }
    }

    private mutating func step(_ expected: [String], _ saves: Bool, _ what: String, _ body: () throws -> Void) throws {
        try body()
        try require(state == expected, "\(what): \(state) instead of \(expected)")
        guard saves, Int.random(in: 0..<4, using: &random) == 0 else { return }
        try context.save()
        try require(state == expected, "saved after \(what): \(state) instead of \(expected)")
        if Bool.random(using: &random) { try expectSaved() }
    }

    private func expectSaved() throws {
        let snapshot = try context.snapshot
        for note in notes {
            let isShown = !note.objectStatus.isDeleted && !note.objectStatus.isGone
            let saved = note.objectStatus.isGone ? nil : try snapshot[note.objectReference]
            try require(saved == (isShown ? note.objectStatus.snapshot : nil), "\(note.title) is saved")
        }
    }

    private func require(_ holds: Bool, _ what: String) throws { if !holds { throw Difference(what: what) } }

    private mutating func change() throws {
        self.number += 1
        let number = self.number
        let choice = Int.random(in: 0..<12, using: &random)
        let note = pick(notes)
        let group = pick(groups)
        let label = pick(labels)
        switch choice {
        case 0: groups.append(context.insert(Group(name: "g\(number)")))
        case 1: labels.append(context.insert(Label(name: "l\(number)")))
        case 2, 3, 4:
            notes.append(
                context.insert(
                    Note(
                        title: "n\(number)", rank: number, group: group?.objectReference,
                        labels: label.map { [$0.objectReference] } ?? [])))
        case 5: note?.title = "t\(number)"
        case 6: note?.objectUpdate { ($0.rank, $0.group) = (number, group?.objectReference) }
        case 7: note?.objectUpdate { ($0.rank, $0.labels) = (number, label.map { [$0.objectReference] } ?? []) }
        case 8: if let note { context.delete(note) }
        case 9: if let group, number % 2 == 0 { context.delete(group) } else { group?.name = "r\(number)" }
        case 10: if let label { context.delete(label) }
        default: try context.merge()
        }
    }
}
