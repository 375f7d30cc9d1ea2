// Live results of contexts: what each kind of change does to them, and who is told of it.

import Annals
import FoundationEssentials
import Observation
import TestSupport
import Testing

@Suite struct ResultsTests: StoreSuite {
    let folder: StoreFolder
    let store: Store
    let context: Context

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        context = store.makeContext(author: "app")
    }

    /// Notes with these ranks, saved.
    @discardableResult
    private func notes(_ ranks: [Int]) throws -> [Object<Note>] {
        let notes = ranks.map { context.insert(Note(title: "n\($0)", rank: $0)) }
        try context.save()
        return notes
    }

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

    /// Collects the differences that a list tells.
    private func differences<E: Entity>(of results: Results<E>) -> () -> [ResultsDiff] {
        let told = Guarded<[ResultsDiff]>([])
        results.onChange = { diff in told.withLock { $0.append(diff) } }
        return {
            told.withLock { all in
                defer { all = [] }
                return all
            }
        }
    }

    private let high: Predicate<Object<Note>> = #Predicate { $0.rank >= 10 }

    // MARK: One change

    @Test func ownEditsShowBeforeTheyAreSaved() throws {
        let notes = try notes([5, 10, 20, 30])
        let results = try context.results(Note.self, where: high, sortedBy: .ascending(\.rank))
        let told = differences(of: results)
        #expect(results.map(\.rank) == [10, 20, 30] && results.count == 3 && results.first === notes[1])
        notes[0].rank = 25
        #expect(results.map(\.rank) == [10, 20, 25, 30] && told() == [ResultsDiff(inserted: [2])])
        notes[1].rank = 40
        #expect(results.map(\.rank) == [20, 25, 30, 40])
        #expect(told() == [ResultsDiff(moved: [ResultsDiff.Move(from: 0, to: 3)])])
        notes[2].rank = 1
        #expect(results.map(\.rank) == [25, 30, 40] && told() == [ResultsDiff(removed: [0])])
        context.delete(notes[3])
        #expect(results.map(\.rank) == [25, 40] && told() == [ResultsDiff(removed: [1])])
        let new = context.insert(Note(title: "new", rank: 30))
        #expect(results.map(\.rank) == [25, 30, 40] && results[1] === new && told() == [ResultsDiff(inserted: [1])])
        #expect(results.index(of: new) == 1 && results.index(of: notes[3]) == nil)
        // Between the same objects as before: no difference.
        new.rank = 35
        #expect(results.map(\.rank) == [25, 35, 40] && told() == [])
        context.rollback()
        #expect(results.map(\.rank) == [10, 20, 30] && results[0] === notes[1])
        #expect(told().count == 1)
        try end()
    }

    @Test func theFirstSaveKeepsObjectsInPlace() throws {
        let old = try notes([10, 10])
        // Equal keys are in the order of insertion; unsaved objects come last.
        let ascending = try context.results(Note.self, sortedBy: .ascending(\.rank))
        let descending = try context.results(Note.self, sortedBy: .descending(\.rank))
        let unsorted = try context.results(Note.self)
        let told = [differences(of: ascending), differences(of: descending), differences(of: unsorted)]
        let new = [context.insert(Note(title: "a", rank: 10)), context.insert(Note(title: "b", rank: 10))]
        #expect(ascending.map(\.title) == ["n10", "n10", "a", "b"] && ascending[2] === new[0])
        #expect(descending.map(\.title) == ["b", "a", "n10", "n10"])
        #expect(told.map { $0().count } == [2, 2, 2])
        let observed = observe { ascending.count + descending.count + unsorted.count }
        try context.save()
        #expect(ascending.map(\.title) == ["n10", "n10", "a", "b"] && ascending[2] === new[0])
        #expect(ascending.references == (old + new).map(\.objectReference))
        #expect(descending.references == (old + new).map(\.objectReference).reversed())
        #expect(unsorted.references == (old + new).map(\.objectReference))
        #expect(told.map { $0().count } == [0, 0, 0] && observed.times == 0)
        // Another context has been faster: now the two come after its object.
        let later = context.insert(Note(title: "c", rank: 10))
        try store.writeOptimistically { try $0.insert(Note(title: "other", rank: 10)) }
        _ = told.map { $0() }
        try context.save()
        #expect(ascending.map(\.title) == ["n10", "n10", "a", "b", "other", "c"] && ascending[5] === later)
        #expect(told.map { $0() }[0] == [ResultsDiff(inserted: [4])])
        try end()
    }

    @Test func changesOfAnotherHandleShowAfterAMerge() throws {
        let notes = try notes([10, 20, 30])
        let results = try context.results(Note.self, where: high, sortedBy: .descending(\.rank))
        let told = differences(of: results)
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        try other.update(Note.self, where: #Predicate { $0.rank == 10 }) { $0.rank = 50 }
        try other.delete(Note.self, where: #Predicate { $0.rank == 20 })
        try other.writeOptimistically { try $0.insert(Note(title: "new", rank: 40)) }
        #expect(results.map(\.rank) == [30, 20, 10] && told() == [])
        let observed = observe { results.count }
        try context.merge()
        #expect(results.map(\.rank) == [50, 40, 30] && results[0] === notes[0] && observed.times == 1)
        #expect(
            told() == [ResultsDiff(removed: [1], inserted: [1], moved: [ResultsDiff.Move(from: 2, to: 0)])])
        // An own edit stays where it is.
        notes[2].rank = 45
        try other.update(Note.self, where: #Predicate { $0.rank == 30 }) { $0.rank = 60 }
        try context.merge()
        #expect(results.map(\.rank) == [50, 45, 40])
        try other.close()
        try end()
    }

    /// The rule of the relationship deletes the objects of the store, and not those that nobody else has.
    @Test func resultsFollowAnUnsavedObjectWhoseTargetIsDeletedElsewhere() throws {
        let group = context.insert(Group(name: "g"))
        try context.save()
        let note = context.insert(Note(title: "unsaved"))
        note.group = group
        let (without, with) = (
            try context.results(Note.self, where: #Predicate { $0.group == nil }),
            try context.results(Note.self, where: #Predicate { $0.group != nil })
        )
        #expect(without.isEmpty && with.count == 1)
        try store.write { try $0.delete(group.objectReference) }
        try context.merge()
        #expect(note.group == nil)
        #expect(without.map(\.title) == ["unsaved"] && with.isEmpty)
        try end()
    }

    @Test func rulesUndoAndRedoAreFollowed() throws {
        context.undoLevels = 10
        let group = context.insert(Group(name: "g"))
        for rank in [1, 2, 3] { context.insert(Note(title: "n", rank: rank, group: group.objectReference)) }
        try context.save()
        let results = try context.results(Note.self, sortedBy: .ascending(\.rank))
        let told = differences(of: results)
        context.delete(group)
        #expect(results.isEmpty && told() == [ResultsDiff(removed: [0, 1, 2])])
        try context.undo()
        #expect(results.map(\.rank) == [1, 2, 3] && told() == [ResultsDiff(inserted: [0, 1, 2])])
        try context.redo()
        #expect(results.isEmpty && told() == [ResultsDiff(removed: [0, 1, 2])])
        try context.save()
        #expect(results.isEmpty && told() == [])
        try context.undo()
        try context.save()
        #expect(results.map(\.rank) == [1, 2, 3])
        try end()
    }

    @Test func aConflictSettledForTheStoreShowsInResults() throws {
        let notes = try notes([10, 20])
        context.mergePolicy = .storeWins
        let results = try context.results(Note.self, sortedBy: .ascending(\.rank))
        notes[0].rank = 30
        try store.update(Note.self, where: #Predicate { $0.rank == 10 }) { $0.rank = 15 }
        try context.merge()
        #expect(results.map(\.rank) == [20, 30])
        try context.save()
        #expect(results.map(\.rank) == [15, 20] && results[0] === notes[0])
        try end()
    }

    /// Read anew, an object may be newer than all else that the context shows, and so it is after undoing.
    @Test func aRefreshedObjectStaysWhenItsDeletionIsUndone() throws {
        context.undoLevels = 5
        let others = store.makeContext()
        others.undoLevels = 5
        let note = try notes([10])[0]
        try others.merge()
        others.delete(try others.object(note.objectReference))
        try others.save()
        try context.merge()
        try others.undo()
        try others.save()
        let results = try context.results(Note.self)
        #expect(results.isEmpty)
        try context.refresh(note, keepingEdits: false)
        #expect(results.first === note)
        context.delete(note)
        #expect(try results.isEmpty && context.fetch(Note.self).isEmpty)
        try context.undo()
        #expect(try results.first === note && context.fetch(Note.self).first === note)
        try context.merge()
        #expect(try results.first === note && context.fetch(Note.self).first === note && !context.hasChanges)
        try end()
    }

    // MARK: Sections

    @Test func sectionsCoverTheListInOrder() throws {
        let notes = try notes([20, 10, 20, 30])
        let results = try context.results(
            Note.self, where: high, sortedBy: .descending(\.title), sectionedBy: \.rank)
        let told = differences(of: results)
        func sections() -> [[Int]] { results.sections.map { [$0.value] + $0.map(\.rank) } }
        #expect(sections() == [[10, 10], [20, 20, 20], [30, 30]])
        #expect(results.sections[1].startIndex == 1 && results.sections[1][2] === results[2])
        // Into another section, at the same position of the list.
        notes[3].rank = 40
        #expect(sections() == [[10, 10], [20, 20, 20], [40, 40]])
        #expect(told() == [ResultsDiff(moved: [ResultsDiff.Move(from: 3, to: 3)])])
        notes[1].rank = 20
        #expect(sections() == [[20, 20, 20, 20], [40, 40]])
        let new = context.insert(Note(title: "m", rank: 30))
        #expect(sections() == [[20, 20, 20, 20], [30, 30], [40, 40]] && results.index(of: new) == 3)
        notes[3].rank = 1
        #expect(sections() == [[20, 20, 20, 20], [30, 30]])
        context.rollback()
        #expect(sections() == [[10, 10], [20, 20, 20], [30, 30]])
        // The direction of the first sort key counts.
        let descending = try context.results(Note.self, sortedBy: .descending(\.rank), sectionedBy: \.rank)
        #expect(descending.sections.map(\.value) == [30, 20, 10])
        let none = try context.results(Note.self, where: #Predicate { $0.rank > 99 }, sectionedBy: \.rank)
        #expect(none.sections.isEmpty)
        do {
            _ = try context.results(Group.self, sectionedBy: \.notes)
            Issue.record("The other side of a relationship is no stored property.")
        } catch let error as StoreError {
            #expect(error.code == .invalidArgument)
        }
        try end()
    }

    // MARK: Who is told

    @Test func onlyRelevantChangesAreReported() throws {
        let group = context.insert(Group(name: "g"))
        let notes = try notes([10, 20, 30])
        notes[0].group = group
        try context.save()
        let plain = try context.results(Note.self, where: high, sortedBy: .ascending(\.rank))
        let related = try context.results(
            Note.self, where: #Predicate { $0.group?.name == "g" }, sortedBy: .ascending(\.rank))
        let told = (differences(of: plain), differences(of: related))
        let observed = observe { (plain.count, related.count) }
        let whole = observe { plain.map(\.text) }
        notes[1].title = "another title"
        notes[1].labels = [context.insert(Label(name: "l"))]
        group.objectUpdate { $0.name = "g" }
        context.insert(Group(name: "h"))
        try context.save()
        try store.update(Note.self) { $0.title = "by others" }
        try store.update(Label.self) { $0.name = "by others" }
        try context.merge()
        #expect(observed.times == 0 && told.0() == [] && told.1() == [])
        // Those who have read an object through the list are told by the object.
        #expect(whole.times == 0)
        notes[1].text = "text"
        #expect(whole.times == 1 && told.0() == [])
        group.name = "another"
        #expect(related.isEmpty && told.1() == [ResultsDiff(removed: [0])] && told.0() == [] && observed.times == 1)
        let again = observe { related.count }
        try context.save()
        try store.update(Group.self, where: #Predicate { $0.name == "another" }) { $0.name = "g" }
        try context.merge()
        #expect(related.map(\.rank) == [10] && again.times == 1 && told.0() == [])
        try end()
    }

    @Test func anObserverIsNotifiedOnceForEachPieceOfWork() throws {
        try notes(Array(10..<40))
        let results = try context.results(Note.self, where: high, sortedBy: .ascending(\.rank))
        let told = differences(of: results)
        try store.update(Note.self) { $0.rank = 50 - $0.rank }
        try store.delete(Note.self, where: #Predicate { $0.rank < 20 })
        try context.merge()
        #expect(told().count == 1 && results.map(\.rank) == Array(20...40))
        results[0].objectUpdate {
            $0.rank = 100
            $0.title = "both at once"
        }
        #expect(told().count == 1)
        try context.save()
        context.mergePolicy = .rollback
        results[0].rank = 30
        _ = told()
        try store.update(Note.self) { $0.rank += 1 }
        try context.save()
        #expect(told().count == 1 && results.map(\.rank) == Array(22...41) + [101])
        try end()
    }

    @Test func anObserverMayChangeTheList() throws {
        let notes = try notes([10, 20, 30])
        let results = try context.results(Note.self, where: high, sortedBy: .ascending(\.rank))
        var seen: [[Int]] = []
        results.onChange = { [unowned results] _ in
            seen.append(results.map(\.rank))
            if let first = results.first, first.rank < 20 { first.rank = 40 }
        }
        notes[2].rank = 5
        #expect(seen == [[10, 20], [20, 40]] && results.map(\.rank) == [20, 40])
        results.onChange = nil
        // Each object once, although the list changes.
        for note in results { note.rank += 100 }
        #expect(results.map(\.rank) == [120, 140])
        try end()
    }

    // MARK: Lives

    @Test func aListKeepsTheObjectsThatItReturned() throws {
        try notes([10, 20])
        var results: Results<Note>? = try context.results(Note.self, where: high, sortedBy: .ascending(\.rank))
        weak let first = results?[0]
        weak var second: Object<Note>?
        #expect(first != nil && first === results?[0])
        try store.update(Note.self, where: #Predicate { $0.rank == 10 }) { $0.rank = 1 }
        try context.merge()
        #expect(first == nil && results?.count == 1)
        second = results?[0]
        let slice = results?[0..<1]
        weak let list = results
        results = nil
        #expect(list != nil && slice?.first === second)
        try context.save()
        try end()
    }

    @Test func aListIsReleasedAndNoLongerNotified() throws {
        let notes = try notes([10, 20])
        weak var list: Results<Note>?
        do {
            let results = try context.results(Note.self, sortedBy: .ascending(\.rank))
            _ = results.map(\.title)
            list = results
        }
        #expect(list == nil)
        notes[0].rank = 30
        try context.save()
        try end()
    }

    @Test func afterTheContextHasEndedTheListStays() throws {
        try notes([10, 20])
        let results = try context.results(Note.self, sortedBy: .ascending(\.rank))
        context.close()
        try store.update(Note.self) { $0.rank += 1 }
        #expect(results.map(\.rank) == [10, 20] && results.updateError == nil)
        expect(.contextClosed) { try context.results(Note.self) }
        try end()
    }

    @Test func anErrorIsKeptUntilTheListFollowsAgain() throws {
        let notes = try notes([10, 20, 30])
        for note in notes { note.text = "text" }
        try context.save()
        let results = try context.results(
            Note.self, where: #Predicate { $0.text!.count > 3 }, sortedBy: .ascending(\.rank))
        #expect(results.map(\.rank) == [10, 20, 30])
        notes[0].labels = [store.makeContext().insert(Label(name: "of another context"))]
        let told = Calls()
        withObservationTracking {
            _ = results.updateError
        } onChange: {
            told.note("told")
        }
        notes[1].text = nil
        #expect(results.updateError?.code == .invalidArgument && results.count == 3)
        #expect(told.count == 1)
        notes[2].text = "t"
        #expect(results.updateError?.code == .invalidArgument && results.count == 3)
        notes[1].text = "another"
        #expect(results.updateError == nil && results.map(\.rank) == [10, 20])
        // What saving has to report is still there.
        expect(.wrongContext) { try context.save() }
        try context.save()
        try end()
    }
}
