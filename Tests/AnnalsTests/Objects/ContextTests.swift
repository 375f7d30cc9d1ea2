// Objects in contexts: one for each ID, changed, saved, merged.

import Annals
import FoundationEssentials
import Glibc
import Observation
import TestSupport
import Testing

struct Group: Entity, Equatable {
    var name = ""
    var notes = ToMany<Note>()
    var parent: Reference<Group>?
    var groups = ToMany<Group>()

    static let schema = Schema<Group> {
        Attribute(\.name, .unique)
        Relationship(\.parent, inverse: \.groups, whenTargetIsDeleted: .deny)
    }
}

struct Note: Entity, Equatable {
    var title = ""
    var text: String?
    var rank = 0
    var group: Reference<Group>?
    var labels: [Reference<Label>] = []
    var saves = 0
    var draft = ""

    static let schema = Schema<Note> {
        Attribute(\.title, .length(0...40))
        Attribute(\.rank, .indexed)
        Relationship(\.group, inverse: \.notes, whenTargetIsDeleted: .cascade)
        Relationship(\.labels, inverse: \.notes)
        Transient(\.draft)
    }

    mutating func willSave() { saves += 1 }
}

struct Label: Entity, Equatable {
    var name = ""
    var notes = ToMany<Note>()
}

@Suite struct ContextTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    // MARK: Errors of properties

    @Test func anObjectThatCannotBeReadIsReportedAndNotKept() throws {
        // Two megabytes below a checkpoint: opening does not read the first row.
        let first = try store.write { transaction in
            try (0..<2000).map {
                try transaction.insert(Note(title: "\($0)", text: String(repeating: "text ", count: 200)))
            }
        }.result[0]
        try store.compact()
        try store.close()
        let store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        let context = store.makeContext()
        let note = try context.object(first)
        #expect(context.deferredError == nil)
        let bytes = try [UInt8](Data(contentsOf: URL(filePath: folder.path)))
        let place = try #require(bytes.firstRange(of: Array("text text".utf8))).lowerBound
        try overwrite(place, [bytes[place] ^ 1])
        #expect(note.title == "")
        #expect(context.deferredError?.code == .damaged)
        note.rank = 7
        expect(.damaged) { try context.save() }
        #expect(context.deferredError == nil)
        // Once it can be read again, it is, and nothing was saved over it.
        try note.objectUpdate { value in
            value.rank = 9
            try overwrite(place, [bytes[place]])
        }
        expect(.damaged) { try context.save() }
        try overwrite(place, [bytes[place] ^ 1])
        let number = note.rank
        try overwrite(place, [bytes[place]])
        note.rank = number + 1
        expect(.damaged) { try context.save() }
        #expect(note.title == "0" && note.rank == 0)
        note.rank = 8
        try context.save()
        #expect(try store.snapshot().fetch(Note.self).first?.rank == 8)
        #expect(try store.snapshot().fetch(Note.self).first?.title == "0")
        let last = try #require(try context.fetch(Note.self).last)
        try store.close()
        #expect(last.title == "" && context.deferredError?.code == .closed)
        try folder.expectIntact()
    }

    private func overwrite(_ place: Int, _ bytes: [UInt8]) throws {
        let file = open(folder.path, O_WRONLY)
        defer { close(file) }
        try #require(pwrite(file, bytes, bytes.count, place) == bytes.count)
    }

    @Test func anErrorDropsNoOtherChange() throws {
        let reference = try store.write { try $0.insert(Note(title: "a")) }.result
        let (context, other) = (store.makeContext(), store.makeContext())
        let group = other.insert(Group(name: "unsaved"))
        let (first, second) = (context.insert(Note(title: "b")), try context.object(reference))
        first.group = group
        second.rank = 7
        expect(.wrongContext) { try context.save() }
        try context.save()
        #expect(try store.snapshot().fetch(Note.self).map(\.rank).sorted() == [0, 7])
        try end()
    }

    // MARK: The first steps

    @Test func insertedObjectsAreSavedWithTheirReferences() throws {
        let context = store.makeContext(author: "app", name: "view")
        let group = context.insert(Group(name: "Reading"))
        let note = context.insert(Note(title: "Swift", rank: 12, group: group.objectReference))
        let temporary = note.objectReference
        #expect(note.group === group && group.notes.count == 1 && group.notes[0] === note)
        #expect(context.hasChanges && note.objectStatus.isInserted && note.objectStatus.savedValues.isEmpty)
        #expect(try store.snapshot().count(Note.self) == 0)
        let token = try context.save()
        #expect(try token == store.currentToken && context.token == token)
        #expect(!context.hasChanges && !note.objectStatus.hasChanges)
        #expect(note.objectReference != temporary && note.saves == 1 && note.group === group)
        #expect(try context.object(temporary) === note && context.object(note.objectReference) === note)
        let saved = try #require(try store.snapshot()[note.objectReference])
        #expect(saved.title == "Swift" && saved.group == group.objectReference)
        #expect(try store.history(after: token.number - 1).map(\.author) == ["app"])
        // Nothing to save: nothing is written.
        #expect(try context.save() == token)
        note.title = "Swift"
        #expect(try context.save() == token && store.currentToken == token)
        try end()
    }

    @Test func objectsInACircleAreSavedTogether() throws {
        let context = store.makeContext()
        let first = context.insert(Group(name: "a"))
        let second = context.insert(Group(name: "b", parent: first.objectReference))
        first.parent = second
        try context.save()
        let snapshot = try store.snapshot()
        #expect(try snapshot[first.objectReference]?.parent == second.objectReference)
        #expect(try snapshot[second.objectReference]?.parent == first.objectReference)
        #expect(first.groups.map(\.name) == ["b"])
        try end()
    }

    @Test func ownEditsStayWhenAnotherHandleWrites() throws {
        let context = store.makeContext(author: "app")
        let group = context.insert(Group(name: "Reading"))
        let note = context.insert(Note(title: "Swift", rank: 12, group: group.objectReference))
        try context.save()
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.update(Note.self, where: #Predicate { $0.rank > 10 }, author: "import") { $0.rank *= 2 }
        note.title = "Swift.org"
        note.draft = "kept"
        #expect(note.rank == 12)
        try context.merge()
        #expect(note.title == "Swift.org" && note.rank == 24 && note.draft == "kept")
        #expect(
            note.objectStatus.changedValues == ["title": "Swift.org"]
                && note.objectStatus.savedValues == ["title": "Swift"])
        let best = try context.fetch(
            Note.self, where: #Predicate { $0.rank > 20 }, sortedBy: .descending(\.rank))
        #expect(best.count == 1 && best.first === note)
        context.delete(group)
        #expect(note.objectStatus.isDeleted && group.notes.isEmpty)
        try context.save()
        #expect(note.objectStatus.isGone && note.title == "Swift.org")
        #expect(try other.snapshot().count(Note.self) == 0)
        try other.close()
        try end()
    }

    // MARK: Fetching

    @Test func fetchingShowsUnsavedChanges() throws {
        let context = store.makeContext()
        let group = context.insert(Group(name: "g"))
        for rank in 1...20 { context.insert(Note(title: "n\(rank)", rank: rank, group: group.objectReference)) }
        try context.save()
        let notes = try context.fetch(Note.self, sortedBy: .ascending(\.rank))
        notes[0].rank = 100
        context.delete(notes[1])
        let added = context.insert(Note(title: "new", rank: 5, group: group.objectReference))
        let high: Predicate<Object<Note>> = #Predicate { $0.rank >= 19 }
        #expect(try context.fetch(Note.self, where: high, sortedBy: .descending(\.rank)).map(\.rank) == [100, 20, 19])
        #expect(try context.count(Note.self, where: high) == 3 && context.count(Note.self) == 20)
        #expect(try context.count(Note.self, where: high, includingUnsaved: false) == 2)
        #expect(try context.sum(of: \Note.rank) == 210 - 1 + 100 - 2 + 5)
        #expect(try context.sum(of: \Note.rank, includingUnsaved: false) == 210)
        #expect(try context.maximum(of: \Note.rank) == 100 && context.minimum(of: \Note.rank) == 3)
        #expect(try context.average(of: \Note.rank) == Double(210 - 1 + 100 - 2 + 5) / 20)
        let fives = try context.fetch(Note.self, where: #Predicate { $0.rank == 5 })
        #expect(fives.map(\.title) == ["n5", "new"] && fives[1] === added)
        // Pages of what is sorted, with and without unsaved objects.
        var paged: [Int] = []
        for offset in stride(from: 0, to: 20, by: 3) {
            paged += try context.fetch(Note.self, sortedBy: .ascending(\.rank), limit: 3, offset: offset).map(\.rank)
        }
        #expect(paged == paged.sorted() && paged.count == 20)
        // Through a relationship that is not saved.
        let other = context.insert(Group(name: "other"))
        notes[5].group = other
        let inOther: Predicate<Object<Note>> = #Predicate { $0.group?.name == "other" }
        #expect(try context.fetch(Note.self, where: inOther).first === notes[5])
        #expect(try context.fetch(Note.self, where: inOther, includingUnsaved: false).isEmpty)
        group.name = "renamed"
        #expect(try context.count(Note.self, where: #Predicate { $0.group?.name == "renamed" }) == 19)
        try context.save()
        try end()
    }

    // MARK: Conflicts

    private func conflict(_ policy: MergePolicy) throws -> (Context, Object<Note>, Store) {
        let context = store.makeContext()
        context.mergePolicy = policy
        let note = context.insert(Note(title: "base", text: "base", rank: 1))
        try context.save()
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.writeOptimistically { transaction in
            try transaction.update(note.objectReference) {
                $0.title = "theirs"
                $0.rank = 2
            }
        }
        note.title = "mine"
        note.text = "mine"
        return (context, note, other)
    }

    @Test(arguments: [false, true], MergePolicy.allCases)
    func aConflictIsSettledByThePolicy(mergesFirst: Bool, policy: MergePolicy) throws {
        let (context, note, other) = try conflict(policy)
        if mergesFirst {
            try context.merge()
            #expect(note.title == "mine" && note.text == "mine" && note.rank == 2)
        }
        if policy == .error {
            let before = try store.currentToken
            let error = expect(.mergeConflict) { try context.save() }
            let conflicts = try #require(error?.mergeConflicts)
            #expect(conflicts.map(\.attribute) == ["title"] && conflicts[0].object == note.objectReference.id)
            #expect(conflicts[0].base == "base" && conflicts[0].mine == "mine" && conflicts[0].theirs == "theirs")
            let sentence = "“title” of \(note.objectReference) of “Note” was changed here and in the store."
            #expect(conflicts[0].description == sentence && error?.message.hasPrefix(sentence) == true)
            #expect(try store.currentToken == before && note.title == "mine" && note.text == "mine")
            try context.refresh(note, keepingEdits: true)
        }
        try context.save()
        let saved = try #require(try other.snapshot()[note.objectReference])
        let expected: (String, String, Int) =
            switch policy {
            case .error, .objectWins: ("mine", "mine", 2)
            case .storeWins: ("theirs", "mine", 2)
            case .overwrite: ("mine", "mine", mergesFirst ? 2 : 1)
            case .rollback: ("theirs", "base", 2)
            }
        #expect((saved.title, saved.text ?? "", saved.rank) == expected)
        #expect((note.title, note.text ?? "", note.rank) == expected && !context.hasChanges)
        try other.close()
        try end()
    }

    @Test(arguments: MergePolicy.allCases)
    func thePolicyDecidesAboutAnObjectDeletedInTheStore(policy: MergePolicy) throws {
        let (context, note, other) = try conflict(policy)
        try other.writeOptimistically { try $0.delete(note.objectReference) }
        if policy == .error {
            #expect(expect(.mergeConflict) { try context.save() }?.mergeConflicts.map(\.kind) == [.deletedInStore])
            #expect(
                expect(.objectGone) { try context.refresh(note, keepingEdits: true) }?.object == note.objectReference.id
            )
            context.discard(note)
            try context.merge()
        }
        try context.save()
        let isThere = policy == .objectWins || policy == .overwrite
        #expect(try (other.snapshot()[note.objectReference]?.title == "mine") == isThere)
        #expect(note.objectStatus.isGone == !isThere && !context.hasChanges)
        try other.close()
        try end()
    }

    @Test func anObjectDeletedHereAndChangedThereIsAConflict() throws {
        let (context, note, other) = try conflict(.error)
        context.rollback()
        #expect(note.title == "base")
        context.delete(note)
        #expect(expect(.mergeConflict) { try context.save() }?.mergeConflicts.map(\.kind) == [.changedInStore])
        try context.merge()
        #expect(expect(.mergeConflict) { try context.save() }?.mergeConflicts.map(\.kind) == [.changedInStore])
        context.mergePolicy = .objectWins
        try context.save()
        #expect(try other.snapshot().count(Note.self) == 0 && note.objectStatus.isGone)
        try other.close()
        try end()
    }

    /// What others have inserted again and deleted again is as absent as it was, and is not the same.
    @Test(arguments: [false, true]) func aRefreshedObjectMayBeDeletedAgain(isDeleted: Bool) throws {
        let context = store.makeContext()
        let others = store.makeContext()
        others.undoLevels = 5
        let note = context.insert(Note(title: "n"))
        try context.save()
        try others.merge()
        others.delete(try others.object(note.objectReference))
        try others.save()
        try context.merge()
        #expect(note.objectStatus.isGone)
        try others.undo()
        try others.save()
        try context.refresh(note, keepingEdits: false)
        #expect(try !note.objectStatus.isGone && context.fetch(Note.self).first === note)
        if isDeleted { context.delete(note) } else { note.title = "mine" }
        others.delete(try others.object(note.objectReference))
        try others.save()
        if isDeleted {
            try context.save()
        } else {
            #expect(expect(.mergeConflict) { try context.save() }?.mergeConflicts.map(\.kind) == [.deletedInStore])
            context.rollback()
        }
        try context.merge()
        #expect(note.objectStatus.isGone && !context.hasChanges)
        try end()
    }

    @Test func listsAreMergedElementByElement() throws {
        let context = store.makeContext()
        let labels = (0..<5).map { context.insert(Label(name: "\($0)")) }
        let note = context.insert(Note(title: "n", labels: labels[0..<3].map(\.objectReference)))
        try context.save()
        try store.writeOptimistically { transaction in
            try transaction.update(note.objectReference) {
                $0.labels = [labels[0], labels[2], labels[3]].map(\.objectReference)
            }
        }
        note.labels.append(labels[4])
        note.labels.removeFirst()
        #expect(labels[4].notes.count == 1 && labels[0].notes.isEmpty)
        try context.save()
        // TW3: in the order of the store, each element of one side after the same element as there.
        #expect(note.labels.map(\.name) == ["2", "4", "3"])
        #expect(labels[1].notes.isEmpty && labels[3].notes.count == 1)
        try end()
    }

    // MARK: Errors

    @Test func aFailedSaveLeavesTheContextUnchanged() throws {
        let context = store.makeContext()
        let group = context.insert(Group(name: "a"))
        try context.save()
        let again = context.insert(Group(name: "a"))
        let note = context.insert(Note(title: "n", group: again.objectReference))
        let place = try context.token
        #expect(expect(.uniqueViolation) { try context.save() }?.object == group.objectReference.id)
        #expect(try context.token == place && again.objectStatus.isInserted && note.group === again && note.saves == 0)
        again.name = "b"
        note.title = String(repeating: "x", count: 41)
        #expect(expect(.validationFailed) { try context.save() }?.validationFailures.map(\.attribute) == ["title"])
        expect(.validationFailed) { try context.validate() }
        note.title = "short"
        again.parent = group
        try context.save()
        context.delete(group)
        #expect(expect(.deleteDenied) { try context.save() }?.object == again.objectReference.id)
        context.delete(again)
        try context.save()
        #expect(note.objectStatus.isGone && group.objectStatus.isGone)
        note.title = "too late"
        expect(.objectGone) { try context.save() }
        try context.save()
        try end()
    }

    @Test func objectsStayInTheirContext() throws {
        let context = store.makeContext()
        let other = store.makeContext()
        let group = other.insert(Group(name: "a"))
        let note = context.insert(Note(title: "n"))
        note.group = group
        #expect(note.group == nil)
        expect(.wrongContext) { try context.save() }
        context.delete(group)
        expect(.wrongContext) { try context.save() }
        expect(.wrongContext) { try context.object(group.objectReference) }
        expect(.wrongContext) { try context.refresh(group, keepingEdits: false) }
        try other.save()
        try context.save()
        // Once it is saved, its reference means the same object everywhere.
        note.group = group
        #expect(note.group?.name == "a" && note.group !== group)
        try context.save()
        let strange = context.insert(Note(title: "s", group: other.insert(Group(name: "b")).objectReference))
        let error = expect(.wrongContext) { try context.save() }
        #expect(error?.message.hasPrefix("“group” of “Note” refers to an object of “Group” that is not") == true)
        context.delete(strange)
        try context.save()
        context.close()
        expect(.contextClosed) { try context.fetch(Note.self) }
        expect(.contextClosed) { try context.save() }
        #expect(note.title == "n")
        try store.close()
        expect(.closed) { try store.makeContext().fetch(Note.self) }
        try folder.expectIntact()
    }

    @Test func aContextOutlivesItsStoreButTheMainOneDoesNotKeepIt() async throws {
        try await MainActor.run {
            var other: Store? = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
            let main = try #require(other?.mainContext)
            #expect(main === other?.mainContext)
            main.insert(Group(name: "main"))
            try main.save()
            weak let kept = other
            other = nil
            #expect(kept == nil)
            expect(.contextClosed) { try main.save() }
        }
        #expect(try store.snapshot().count(Group.self) == 1)
        try end()
    }

    // MARK: Lives of objects

    @Test func unreferencedObjectsAreReleased() throws {
        let context = store.makeContext()
        var group: Object<Group>? = context.insert(Group(name: "a"))
        try context.save()
        let reference = try #require(group?.objectReference)
        weak var seen = group
        group = nil
        #expect(seen == nil)
        group = try context.object(reference)
        seen = group
        group?.name = "b"
        group = nil
        // It has something unsaved.
        #expect(seen != nil && context.changedObjects(Group.self).count == 1)
        try context.save()
        #expect(seen == nil)
        #expect(try store.snapshot()[reference]?.name == "b")
        weak var lost: Object<Group>?
        do {
            let brief = store.makeContext()
            let parent = brief.insert(Group(name: "c"))
            lost = brief.insert(Group(name: "d", parent: parent.objectReference))
            parent.parent = lost
        }
        #expect(lost == nil)
        try end()
    }

    // MARK: Observation

    private final class Told: Sendable {
        private let count = Guarded(0)
        var times: Int { count.withLock { $0 } }
        func tell() { count.withLock { $0 += 1 } }
    }

    private func observe<Value>(_ read: () -> Value) -> Told {
        let told = Told()
        _ = withObservationTracking(read) { told.tell() }
        return told
    }

    @Test func onlyPropertiesThatWereReadAreObserved() throws {
        let context = store.makeContext()
        let group = context.insert(Group(name: "g"))
        let note = context.insert(Note(title: "a", rank: 1, group: group.objectReference))
        try context.save()
        let title = observe { note.title }
        let rank = observe { note.rank }
        let notes = observe { group.notes.count }
        note.rank = 2
        #expect(title.times == 0 && rank.times == 1 && notes.times == 0)
        note.title = "b"
        #expect(title.times == 1)
        context.insert(Note(title: "c", group: group.objectReference))
        #expect(notes.times == 1)
        let whole = observe { note.title.count + note.rank }
        try context.save()
        #expect(whole.times == 0)
        // What others do is told once, when it is merged.
        let again = observe { (note.title, note.rank) }
        let others = observe { group.notes.map(\.title) }
        try store.update(Note.self, where: #Predicate { $0.rank == 2 }) {
            $0.title = "d"
            $0.rank = 3
        }
        try store.writeOptimistically { try $0.insert(Note(title: "e", group: group.objectReference)) }
        #expect(again.times == 0 && others.times == 0)
        try context.merge()
        #expect(again.times == 1 && others.times == 1 && note.title == "d" && group.notes.count == 3)
        try end()
    }

    // MARK: In the background

    @Test func editsMadeDuringASaveStayUnsaved() async throws {
        try await background()
        try end()
    }

    @MainActor private func background() async throws {
        let context = store.makeContext(author: "app")
        let note = context.insert(Note(title: "a"))
        let saving = Task { try await context.saveInBackground() }
        // What is being saved is no change any more.
        while context.hasChanges { await Task.yield() }
        note.title = "b"
        let token = try await saving.value
        #expect(try store.snapshot().count(Note.self) == 1 && store.history(after: token.number - 1).count == 1)
        #expect(note.title == "b")
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.title == "b")
        // By itself.
        try context.follow()
        try store.update(Note.self) { $0.title = "c" }
        while note.title != "c" { try await Task.sleep(for: .milliseconds(1)) }
        // Whatever was cleaned before it looks, or before it begins.
        try store.update(Note.self) { $0.title = "d" }
        try store.deleteHistory(before: store.currentToken.number + 1)
        while note.title != "d" { try await Task.sleep(for: .milliseconds(1)) }
        context.stopFollowing()
        try store.update(Note.self) { $0.title = "e" }
        try store.deleteHistory(before: store.currentToken.number + 1)
        try context.follow()
        while note.title != "e" { try await Task.sleep(for: .milliseconds(1)) }
        try store.close()
        while context.followError == nil { try await Task.sleep(for: .milliseconds(1)) }
        #expect(context.followError?.code == .closed)
    }
}
