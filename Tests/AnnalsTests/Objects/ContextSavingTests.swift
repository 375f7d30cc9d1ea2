// Saving a context: upserts, what an error leaves, and what runs under the writer lock.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

/// Has everything in which a program's own code can run.
private struct Watched: Entity, Equatable {
    /// Encoded by the program's own code.
    struct Measure: AttributeValue, Equatable {
        var steps = 0
        static var attributeType: AttributeType { .string }
        func attributeValue() throws -> Value {
            LockProbe.codeRuns("attributeValue")
            return .string("\(steps)")
        }
        init(steps: Int) { self.steps = steps }
        init?(attributeValue: Value) {
            LockProbe.codeRuns("init(attributeValue:)")
            guard let steps = attributeValue.string.flatMap({ Int($0) }) else { return nil }
            self.steps = steps
        }
    }

    var name = ""
    var measure = Measure(steps: 0)
    var lower = ""
    var links: [Reference<Watched>] = []
    var saves = 0

    static let schema = Schema<Watched> {
        Attribute(
            \.name, .unique,
            .check("must not be bad") {
                LockProbe.codeRuns("check")
                return $0 != "bad"
            })
        Attribute(
            \.lower,
            .derived {
                LockProbe.codeRuns("derived")
                return $0.name.lowercased()
            })
        Relationship(\.links, whenTargetIsDeleted: .nullify)
    }

    mutating func willInsert() { LockProbe.codeRuns("willInsert") }
    mutating func willSave() {
        LockProbe.codeRuns("willSave")
        saves += 1
    }
    mutating func willDelete() { LockProbe.codeRuns("willDelete") }
}

/// Asks for the writer lock when the program's code runs.
private enum LockProbe {
    @TaskLocal static var store: Store?
    static let seen = Mutex<Set<String>>([])

    static func codeRuns(_ place: String) {
        guard let store else { return }
        seen.withLock { _ = $0.insert(place) }
        do { try store.write { _ in } } catch { Issue.record("\(place) runs with the writer lock: \(error)") }
    }
}

@Suite struct ContextSavingTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self, Passport.self, Watched.self])
    }

    // MARK: Upserts

    /// Unique by what it refers to and its number.
    struct Passport: Entity, Equatable {
        var group: Reference<Group>?
        var number = 0
        var name = ""
        static let schema = Schema<Passport>(unique: [[\.group, \.number]]) {
            Relationship(\.group, whenTargetIsDeleted: .cascade)
        }
    }

    @Test(arguments: [false, true]) func anInsertTakesOverTheObjectWithItsUniqueValue(isHeld: Bool) throws {
        let stored = try store.writeOptimistically { transaction in
            let group = try transaction.insert(Group(name: "a"))
            try transaction.insert(Note(title: "old", group: group))
            return try (group, transaction.insert(Passport(group: group, number: 7, name: "old")))
        }.result
        let context = store.makeContext()
        context.undoLevels = 10
        context.upserts = true
        let former = isHeld ? try context.object(stored.0) : nil
        #expect(former.map { $0.name == "a" } ?? true)
        // A passport before its group, so that its key has a reference that is replaced.
        let passport = context.insert(Passport(number: 7, name: "new"))
        let group = context.insert(Group(name: "a"))
        let parent = context.insert(Group(name: "parent"))
        let note = context.insert(Note(title: "new", group: group.objectReference))
        passport.group = group
        group.parent = parent
        let temporary = group.objectReference
        try context.save()
        #expect(group.objectReference == stored.0 && passport.objectReference == stored.1 && !context.hasChanges)
        #expect(try context.object(stored.0) === group && context.object(temporary) === group)
        #expect(note.group === group && group.notes.map(\.title) == ["old", "new"] && group.parent === parent)
        #expect(former?.objectStatus.isGone ?? true)
        let snapshot = try store.snapshot()
        #expect(try snapshot.fetch(Group.self).count == 2 && snapshot.count(Passport.self) == 1)
        #expect(try snapshot[stored.1] == Passport(group: stored.0, number: 7, name: "new"))
        #expect(try snapshot[note.objectReference]?.group == stored.0)
        // It is an update, and undone as one.
        group.name = "b"
        try context.save()
        try context.undo()
        try context.undo()
        #expect(passport.name == "old" && group.name == "a" && group.parent == nil && note.objectStatus.isDeleted)
        try context.save()
        #expect(try store.snapshot()[stored.0] == Group(name: "a") && store.snapshot().count(Note.self) == 1)
        try context.redo()
        try context.save()
        #expect(try store.snapshot()[stored.1]?.name == "new" && context.count(Note.self) == 2)
        context.close()
        try end()
    }

    @Test func liveResultsShowTheObjectThatTookOver() throws {
        let stored = try store.writeOptimistically { transaction in
            try ["a", "b", "c"].map { try transaction.insert(Group(name: $0)) }
        }.result
        let context = store.makeContext()
        context.upserts = true
        let results = try context.results(Group.self, sortedBy: .descending(\.name))
        #expect(results.map(\.name) == ["c", "b", "a"])
        let group = context.insert(Group(name: "b"))
        let other = context.insert(Group(name: "d"))
        #expect(results.map(\.name) == ["d", "c", "b", "b", "a"])
        try context.save()
        #expect(results.map(\.name) == ["d", "c", "b", "a"] && results[2] === group && results[0] === other)
        #expect(results.map(\.objectReference) == [other.objectReference, stored[2], stored[1], stored[0]])
        group.name = "e"
        #expect(results.map(\.name) == ["e", "d", "c", "a"])
        context.close()
        try end()
    }

    @Test func anObjectThatCannotBeTakenOverIsAUniqueViolation() throws {
        let stored = try store.writeOptimistically { try $0.insert(Group(name: "a")) }.result
        let context = store.makeContext()
        context.upserts = true
        // Two of them.
        let first = context.insert(Group(name: "a"))
        let second = context.insert(Group(name: "a"))
        expect(.uniqueViolation) { try context.save() }
        #expect(first.objectStatus.isInserted && second.objectStatus.isInserted)
        context.delete(second)
        // One that is changed here.
        let held = try context.object(stored)
        held.parent = first
        expect(.uniqueViolation) { try context.save() }
        context.discard(held)
        // One that is deleted here makes room.
        context.delete(held)
        try context.save()
        #expect(first.objectReference != stored && held.objectStatus.isGone)
        #expect(try store.snapshot().fetch(Group.self) == [Group(name: "a")])
        // Without unique values nothing is taken over.
        context.insert(Label(name: "l"))
        context.insert(Label(name: "l"))
        try context.save()
        #expect(try context.count(Label.self) == 2)
        context.upserts = false
        context.insert(Group(name: "a"))
        expect(.uniqueViolation) { try context.save() }
        context.close()
        try end()
    }

    @Test func savingSucceedsWhileAnotherHandleInsertsTheSameKeys() throws {
        let context = store.makeContext()
        context.upserts = true
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        let thread = try RunningThread {
            for number in 0..<300 { try other.writeOptimistically { _ = try $0.upsert(Group(name: "\(number)")) } }
        }
        var groups: [Object<Group>] = []
        for number in 0..<300 {
            groups.append(context.insert(Group(name: "\(number)")))
            if number % 3 == 0 { try context.save() }
        }
        try context.save()
        try thread.join()
        #expect(try store.snapshot().count(Group.self) == 300)
        #expect(try groups.allSatisfy { try store.snapshot()[$0.objectReference]?.name == $0.name })
        try other.close()
        context.close()
        try end()
    }

    // MARK: Permanent references

    @Test(arguments: [false, true]) func savingKeepsAPermanentReference(compacts: Bool) throws {
        let context = store.makeContext()
        context.undoLevels = 10
        let group = context.insert(Group(name: "g"))
        let note = context.insert(Note(title: "n", group: group.objectReference))
        let temporary = (group.objectReference, note.objectReference)
        let reference = try context.obtainPermanentReferences(for: [group, group])[0]
        let references = try context.obtainPermanentReferences(for: [note, context.insert(Note(title: "m"))])
        #expect(reference == group.objectReference && reference != temporary.0 && group.objectStatus.isInserted)
        #expect(note.group === group && group.notes.first === note && note.objectStatus.snapshot.group == reference)
        #expect(try context.object(temporary.0) === group && context.object(references[0]) === note)
        #expect(try context.obtainPermanentReferences(for: [note]) == [note.objectReference])
        // Others insert and compact meanwhile.
        let other = try Store(at: store.path, entities: [Group.self, Note.self, Label.self])
        let theirs = try other.writeOptimistically { transaction in
            try (0..<5).map { try transaction.insert(Note(title: "theirs \($0)")) }
        }.result
        #expect(Set(theirs).isDisjoint(with: references))
        if compacts { try other.compact() }
        try other.update(Note.self) { $0.rank = 3 }
        // Undone and done again before they are saved.
        try context.undo()
        #expect(note.objectStatus.isGone && !context.hasChanges)
        try context.redo()
        #expect(note.objectReference == references[0] && note.group === group)
        try context.save()
        #expect(group.objectReference == reference && note.objectReference == references[0] && !context.hasChanges)
        #expect(try other.snapshot()[references[0]]?.group == reference)
        #expect(try other.snapshot().count(Note.self) == 7)
        // After a rollback nobody gets the ID.
        let lost = try context.obtainPermanentReferences(for: [context.insert(Note(title: "lost"))])[0]
        context.rollback()
        let next = context.insert(Note(title: "next"))
        try context.save()
        #expect(next.objectReference != lost && next.objectReference > lost)
        expect(.objectNotFound) { try context.object(lost) }
        // One that has its own reference does not become another.
        context.upserts = true
        let second = context.insert(Group(name: "g"))
        try context.obtainPermanentReferences(for: [second])
        expect(.uniqueViolation) { try context.save() }
        expect(.wrongContext) { try other.makeContext().obtainPermanentReferences(for: [second]) }
        context.delete(second)
        // Deleted and undone after it was saved: inserted again.
        context.delete(note)
        try context.save()
        try context.undo()
        try context.save()
        #expect(try store.snapshot()[references[0]]?.title == "n")
        context.close()
        try other.close()
        try end()
    }

    // MARK: Errors

    enum Mistake: String, CaseIterable {
        case unique, invalid, deniedDeletion, conflict, missingTarget, strangeObject, busy, unknownEntity, closedStore
    }

    @Test(arguments: Mistake.allCases) func anErrorLeavesTheContextUnchanged(mistake: Mistake) throws {
        var options = Store.Options()
        options.lockTimeout = .milliseconds(20)
        let own = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self], options: options)
        let context = own.makeContext(author: "app")
        context.undoLevels = 10
        let groups = (0..<4).map { context.insert(Group(name: "g\($0)")) }
        let notes = (0..<4).map { context.insert(Note(title: "n\($0)", rank: $0, group: groups[$0].objectReference)) }
        groups[1].parent = groups[0]
        try context.save()
        context.undoGroup("first") { notes[0].title = "changed" }
        context.delete(notes[1])
        let added = context.insert(Note(title: "added", group: groups[2].objectReference))
        added.draft = "a draft"
        var code = StoreError.Code.uniqueViolation
        var other: Context?
        switch mistake {
        case .unique: context.insert(Group(name: "g3"))
        case .invalid:
            notes[3].title = String(repeating: "x", count: 41)
            code = .validationFailed
        case .deniedDeletion:
            context.delete(groups[0])
            code = .deleteDenied
        case .conflict:
            try store.writeOptimistically { try $0.update(notes[0].objectReference) { $0.title = "theirs" } }
            code = .mergeConflict
        case .missingTarget:
            try store.writeOptimistically { try $0.delete(groups[3].objectReference) }
            groups[2].parent = groups[3]
            code = .mergeConflict
        case .strangeObject:
            let strange = store.makeContext()
            notes[2].objectUpdate { $0.group = strange.insert(Group(name: "strange")).objectReference }
            other = strange
            code = .wrongContext
        case .busy: code = .busy
        case .unknownEntity:
            context.insert(Everything())
            code = .unknownEntity
        case .closedStore: code = .closed
        }
        func text(_ values: [String: Value]) -> String { "\(values.sorted { $0.key < $1.key })" }
        func state() throws -> [String] {
            var lines: [String] = []
            for group in groups {
                let status = group.objectStatus
                lines.append("\(group.objectReference) \(text(status.changedValues)) \(text(status.savedValues))")
                lines.append(
                    "\(group.objectStatus.snapshot) \(group.objectStatus.isDeleted) \(group.objectStatus.isGone)")
            }
            for note in notes + [added] {
                let status = note.objectStatus
                lines.append("\(note.objectReference) \(text(status.changedValues)) \(text(status.savedValues))")
                lines.append(
                    "\(note.objectStatus.snapshot) \(note.objectStatus.isDeleted) \(note.objectStatus.isInserted)")
            }
            lines.append("\(try context.token) \(context.insertedObjects(Note.self).map(\.title))")
            lines.append("\(context.changedObjects(Note.self).map(\.title)) \(context.deletedObjects(Note.self).count)")
            lines.append("\(context.canUndo) \(context.canRedo) \(context.undoActionName ?? "-")")
            return lines
        }
        let before = try state()
        for _ in 0..<2 {
            if mistake == .busy {
                try store.write { _ in _ = expect(code) { try context.save() } }
            } else {
                if mistake == .closedStore { try own.close() }
                expect(code) { try context.save() }
            }
            for (line, earlier) in zip(try state(), before) { #expect(line == earlier) }
        }
        other?.close()
        // It can still be undone, all of it, group by group.
        while context.canUndo, mistake != .closedStore, mistake != .conflict { try context.undo() }
        if mistake != .closedStore, mistake != .conflict { #expect(try context.count(Note.self) == 0) }
        context.close()
        try own.close()
        try end()
    }

    // MARK: The lock

    @Test func noCodeOfTheProgramRunsWithTheWriterLock() throws {
        var options = Store.Options()
        options.lockTimeout = .seconds(2)
        let probe = try Store(at: store.path, entities: [Watched.self], options: options)
        let context = store.makeContext()
        context.mergePolicy = .objectWins
        context.upserts = true
        let watched = context.insert(Watched(name: "W"))
        try context.save()
        let other = try Store(at: store.path, entities: [Watched.self])
        let isOver = Atomic(false)
        let reference = watched.objectReference
        // Others get in between, so that saving has to begin again.
        let thread = try RunningThread {
            var number = 0
            while !isOver.load(ordering: .relaxed) {
                number += 1
                try other.writeOptimistically {
                    try $0.update(reference) { $0.measure.steps = number }
                    _ = try $0.upsert(Watched(name: "n\(number % 40)"))
                }
            }
        }
        defer { isOver.store(true, ordering: .relaxed) }
        try LockProbe.$store.withValue(probe) {
            var last: Object<Watched>?
            for number in 0..<40 {
                watched.name = "W\(number)"
                watched.measure.steps = -number
                let added = context.insert(Watched(name: "n\(number)", measure: .init(steps: 3)))
                added.links = [watched]
                if let last, number % 3 == 0 { context.delete(last) }
                last = added
                try context.save()
            }
        }
        isOver.store(true, ordering: .relaxed)
        try thread.join()
        let all: Set = [
            "attributeValue", "init(attributeValue:)", "check", "derived", "willInsert", "willSave", "willDelete",
        ]
        LockProbe.seen.withLock { #expect($0 == all) }
        #expect(watched.saves == 41)
        try probe.close()
        try other.close()
        context.close()
        try end()
    }
}

/// A thread whose error is thrown where it is waited for.
private final class RunningThread {
    private final class Failure: Sendable { let value = Mutex<(any Error)?>(nil) }

    private let failure: Failure
    private var thread: BackgroundThread?

    init(_ body: @escaping @Sendable () throws -> Void) throws {
        let failure = Failure()
        self.failure = failure
        thread = try BackgroundThread(name: "writes") {
            do { try body() } catch { failure.value.withLock { $0 = error } }
        }
    }

    func join() throws {
        thread?.join()
        if let error = failure.value.withLock({ $0 }) { throw error }
    }
}
