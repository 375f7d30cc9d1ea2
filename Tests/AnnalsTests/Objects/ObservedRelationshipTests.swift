// Observers of related objects and of other sides are told of every change, whoever holds the objects.

import Annals
import FoundationEssentials
import Observation
import Synchronization
import TestSupport
import Testing

@Suite struct ObservedRelationshipTests: StoreSuite {
    let folder: StoreFolder
    let store: Store

    struct Tag: Entity {
        var name = ""
        var notes = ToMany<Note>()
        var tagged = ToMany<Note>()
        var listed = ToMany<Note>()
    }

    struct Note: Entity {
        var title = ""
        var tag: Reference<Tag>?
        var tags: Set<Reference<Tag>> = []
        var list: [Reference<Tag>] = []

        static let schema = Schema<Note> {
            Attribute(\.title, .indexed)
            Relationship(\.tag, inverse: \.notes)
            Relationship(\.tags, inverse: \.tagged)
            Relationship(\.list, inverse: \.listed)
        }
    }

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Tag.self, Note.self])
    }

    private final class Count: Sendable {
        let value = Mutex(0)
        func tick() { value.withLock { $0 += 1 } }
        var now: Int { value.withLock { $0 } }
    }

    // MARK: Related objects

    @Test func anUnreferencedRelatedObjectIsObserved() throws {
        let ((tag, note), _) = try store.write { transaction in
            let tag = try transaction.insert(Tag(name: "old"))
            return (tag, try transaction.insert(Note(title: "n", tag: tag)))
        }
        let context = store.makeContext()
        let object = try context.object(note)
        let told = Count()
        func shown() -> String {
            withObservationTracking {
                object.tag?.name ?? "-"
            } onChange: {
                told.tick()
            }
        }
        #expect(shown() == "old")
        try store.write { try $0.update(tag) { $0.name = "new" } }
        try context.merge()
        #expect(told.now == 1 && shown() == "new")
        try context.object(tag).name = "mine"
        #expect(told.now == 2 && shown() == "mine")
        context.rollback()
        #expect(told.now == 3 && shown() == "new")
        try store.write { try $0.delete(tag) }
        try context.merge()
        #expect(told.now == 4 && shown() == "-")
        try end()
    }

    /// An object of the other side, of a list, and of the other side of that.
    @Test func aPathOfRelatedObjectsIsObserved() throws {
        let ((tag, note), _) = try store.write { transaction in
            let tag = try transaction.insert(Tag(name: "t"))
            return (tag, try transaction.insert(Note(title: "n", list: [tag])))
        }
        let context = store.makeContext()
        let object = try context.object(note)
        let told = Count()
        func shown() -> String {
            withObservationTracking {
                object.list[0].listed[0].list[0].name
            } onChange: {
                told.tick()
            }
        }
        #expect(shown() == "t")
        try store.write { try $0.update(tag) { $0.name = "u" } }
        try context.merge()
        #expect(told.now == 1 && shown() == "u")
        try end()
    }

    /// What was observed is kept no longer than somebody observes it, or little longer.
    @Test func objectsThatAreNoLongerObservedAreReleased() throws {
        let count = 2_000
        try store.write { transaction in
            for number in 0..<count {
                let tag = try transaction.insert(Tag(name: "\(number)"))
                _ = try transaction.insert(Note(title: "\(number)", tag: tag))
            }
        }
        let context = store.makeContext()
        let told = Count()
        var held: [ObjectIdentifier: () -> Bool] = [:]
        for note in try context.fetch(Note.self) {
            withObservationTracking {
                guard let tag = note.tag else { return }
                _ = tag.name
                held[ObjectIdentifier(tag)] = { [weak tag] in tag != nil }
            } onChange: {
                told.tick()
            }
            // Ends the observation.
            note.tag = nil
        }
        #expect(told.now == count)
        #expect(held.values.count { $0() } <= 130)
        try end()
    }

    @Test func aContextThatEndsReleasesObservedObjects() throws {
        let ((_, note), _) = try store.write { transaction in
            let tag = try transaction.insert(Tag(name: "t"))
            return (tag, try transaction.insert(Note(title: "n", tag: tag)))
        }
        weak var tag: Object<Tag>?
        do {
            let context = store.makeContext()
            let object = try context.object(note)
            withObservationTracking {
                let related = object.tag
                _ = related?.name
                tag = related
            } onChange: {
            }
            #expect(tag != nil)
        }
        #expect(tag == nil)
        try end()
    }

    // MARK: Other sides

    enum Side: CaseIterable {
        case one, set, list

        func set(_ note: inout Note, _ tag: Reference<Tag>?) {
            switch self {
            case .one: note.tag = tag
            case .set: note.tags = tag.map { [$0] } ?? []
            case .list: note.list = tag.map { [$0] } ?? []
            }
        }

        func count(_ tag: Object<Tag>) -> Int {
            switch self {
            case .one: tag.notes.count
            case .set: tag.tagged.count
            case .list: tag.listed.count
            }
        }
    }

    /// What happens before somebody observes, and then.
    enum Way: CaseIterable {
        case deleteRollback, deleteDiscard, editRollback, editDiscard, deleteSaveUndo, editTheyAddMerge, theyAdd
        case theyInsert, addRollback, theyDelete, insertRollback, theyAddAll, deleteTheyEditStoreWins
        case editTheyEditStoreWins, deleteRefresh, insertOnly
    }

    @Test(arguments: Side.allCases, Way.allCases)
    func observersOfTheOtherSideAreNotified(side: Side, way: Way) throws {
        for isHeld in [true, false] {
            try store.delete(Note.self)
            try store.delete(Tag.self)
            try look(side, way, isHeld: isHeld)
        }
        try end()
    }

    private func look(_ side: Side, _ way: Way, isHeld: Bool) throws {
        func note(_ title: String, _ tag: Reference<Tag>?) -> Note {
            var note = Note(title: title)
            side.set(&note, tag)
            return note
        }
        let ((target, first, other), _) = try store.write { transaction in
            let tag = try transaction.insert(Tag(name: "g"))
            return (tag, try transaction.insert(note("", tag)), try transaction.insert(note("other", nil)))
        }
        let context = store.makeContext()
        context.undoLevels = 10
        let tag = try context.object(target)
        var kept = isHeld ? try context.fetch(Note.self) : []
        func object() throws -> Object<Note> { try context.object(first) }
        switch way {
        case .deleteRollback, .deleteDiscard, .deleteTheyEditStoreWins, .deleteRefresh:
            let object = try object()
            if way == .deleteDiscard || way == .deleteRefresh { kept.append(object) }
            context.delete(object)
        case .deleteSaveUndo:
            context.delete(try object())
            try context.save()
        case .editRollback, .editDiscard, .editTheyAddMerge, .editTheyEditStoreWins:
            try object().objectUpdate { side.set(&$0, nil) }
        case .addRollback: try context.object(other).objectUpdate { side.set(&$0, target) }
        case .insertRollback: context.insert(note("", target))
        case .theyAdd, .theyInsert, .theyDelete, .theyAddAll, .insertOnly: break
        }
        if !isHeld, way != .deleteDiscard, way != .deleteRefresh { kept = [] }
        let told = Count()
        let before = withObservationTracking {
            side.count(tag)
        } onChange: {
            told.tick()
        }
        switch way {
        case .deleteRollback, .editRollback, .addRollback, .insertRollback: context.rollback()
        case .deleteDiscard: context.discard(try #require(kept.last { $0.objectReference == first }))
        case .deleteRefresh:
            try context.refresh(try #require(kept.last { $0.objectReference == first }), keepingEdits: false)
        case .editDiscard: context.discard(try object())
        case .deleteSaveUndo: try context.undo()
        case .editTheyAddMerge:
            try store.write { try $0.update(other) { side.set(&$0, target) } }
            try context.merge()
        case .theyAdd:
            try store.write { try $0.update(other) { side.set(&$0, target) } }
            try context.save()
            try context.merge()
        case .theyInsert, .theyDelete, .theyAddAll:
            try store.write { transaction in
                switch way {
                case .theyInsert: _ = try transaction.insert(note("", target))
                case .theyDelete: try transaction.delete(first)
                default: try transaction.update(other) { side.set(&$0, target) }
                }
            }
            context.insert(Tag(name: "x"))
            try context.save()
        case .deleteTheyEditStoreWins, .editTheyEditStoreWins:
            try store.write { transaction in
                try transaction.update(first) { note in
                    note.title = "theirs"
                    if way == .editTheyEditStoreWins { side.set(&note, nil) }
                }
            }
            context.mergePolicy = .storeWins
            try context.save()
        case .insertOnly: context.insert(note("", target))
        }
        let after = side.count(tag)
        #expect((before != after) == (told.now > 0), "\(side) \(way) \(isHeld): \(before) to \(after), \(told.now)")
        withExtendedLifetime(kept) {}
        context.close()
    }
}
