// Which state the contexts of a tracker show, and what they need to know to get there.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

/// A value that counts how often it is read from a row.
struct CountedText: Codable, Hashable {
    static let reads = Atomic<Int>(0)
    var text = ""

    init(_ text: String = "") { self.text = text }

    init(from decoder: any Decoder) throws {
        Self.reads.add(1, ordering: .relaxed)
        text = try decoder.singleValueContainer().decode(String.self)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}

struct CountedNote: Entity {
    var rank = 0
    var text = CountedText()
}

@Suite struct TrackerStateTests: TwoHandleSuite {
    let folder: StoreFolder
    let store: Store
    let other: Store
    let calls = Calls()

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self, CountedNote.self])
        other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self, CountedNote.self])
    }

    @discardableResult
    private func insert(_ title: String, by author: String? = "share") throws -> HistoryToken {
        try #require(try other.write(author: author) { try $0.insert(Note(title: title)) }.token)
    }

    private func tracker() throws -> HistoryTracker {
        try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], logger: Messages(calls: Calls()),
            autoStart: false)
    }

    @Test @MainActor func aContextShowsTheStateThatObserversGotAndNoNewerOne() async throws {
        let (context, tracker, gate, other) = (store.makeContext(), try tracker(), Calls(), other)
        let list = try context.results(Note.self, sortedBy: .ascending(\.title))
        tracker.observe(Note.self, [.insert]) { [calls] changes in
            let title = changes[0].after?.title ?? "-"
            calls.note(title)
            if title == "one" { try await other.write(author: "share") { try $0.insert(Note(title: "two")) } }
            if title == "two" { try await eventually { gate.count > 0 } }
        }
        tracker.attach(context)
        tracker.start()
        let one = try insert("one")
        try await eventually { calls.all.contains("two") }
        #expect(try context.token == one)
        #expect(list.map(\.title) == ["one"])
        gate.note("open")
        try await eventually { list.count == 2 }
        #expect(try context.token == store.currentToken)
        await tracker.stop()
        try end()
    }

    /// History is gone when the contexts merge, and still they know what has changed: the round has read it.
    @Test @MainActor func contextsReadNoHistoryThatTheRoundHasRead() async throws {
        try await store.write(author: "app") { transaction in
            for rank in 0..<100 { try transaction.insert(CountedNote(rank: rank)) }
        }
        let references = try store.snapshot().references(to: CountedNote.self)
        let (contexts, tracker) = ((0..<3).map { _ in store.makeContext() }, try tracker())
        let lists = try contexts.map { try $0.results(CountedNote.self, sortedBy: .descending(\.rank)) }
        for context in contexts { tracker.attach(context) }
        tracker.registerMergeHook { [store] transactions in
            if transactions.contains(where: { $0.changes.contains { $0.kind == .update } }) {
                try store.deleteHistory(before: .max)
            }
            return .goOn
        }
        let before = CountedText.reads.load(ordering: .relaxed)
        tracker.start()
        try await other.write(author: "share") { try $0.update(references[0]) { $0.rank = 1000 } }
        try await eventually { lists.allSatisfy { $0.first?.rank == 1000 } }
        #expect(CountedText.reads.load(ordering: .relaxed) - before < 50)
        await tracker.stop()
        // A list does not keep its context, and an optimised build releases it after its last use.
        withExtendedLifetime(contexts) {}
        try end()
    }

    @Test @MainActor func aContextThatCannotMergeBlocksNoOtherContext() async throws {
        let (failing, context, tracker) = (store.makeContext(), store.makeContext(), try tracker())
        let failures = Calls()
        tracker.attach(failing) { context, snapshot, changed in
            failures.note("busy")
            if failures.count < 3 { throw StoreError(.busy, "Another program is writing.") }
            try context.merge(to: snapshot, changed: changed)
        }
        tracker.attach(context)
        let one = try insert("one")
        tracker.start()
        try await eventually { failures.count > 0 }
        #expect(try context.token.number <= one.number)
        try await eventually { try failing.token == one }
        #expect(try context.token == one)
        await tracker.stop()
        try end()
    }

    /// A round of several batches: contexts move once, at its end, and the round knows what all of them have changed.
    @Test @MainActor func contextsMoveOnceARoundHoweverManyBatchesItHas() async throws {
        let (context, tracker) = (store.makeContext(), try tracker())
        tracker.attach(context) { [calls] context, snapshot, changed in
            calls.note("\(snapshot.token.number) \(changed.ids?.count ?? -1)")
            try context.merge(to: snapshot, changed: changed)
        }
        let observed = Calls()
        tracker.observe(Note.self, [.insert]) { changes in observed.note("\(changes.transaction.number)") }
        for number in 0..<1500 { try insert("\(number)", by: number == 700 ? "app" : "share") }
        let newest = try store.currentToken
        tracker.start()
        try await eventually { try context.token == newest }
        #expect(calls.all == ["\(newest.number) 1500"])
        #expect(observed.count == 1499)
        await tracker.stop()
        try end()
    }

    @Test @MainActor func aTrackerWithoutBodiesPassesChangedObjectsToContexts() async throws {
        let (context, tracker) = (store.makeContext(), try tracker())
        tracker.attach(context) { [calls] context, snapshot, changed in
            calls.note("\(snapshot.token.number) \(changed.ids?.count ?? -1)")
            try context.merge(to: snapshot, changed: changed)
        }
        let one = try insert("one")
        tracker.start()
        try await eventually { try context.token == one }
        #expect(calls.all == ["\(one.number) 1"])
        await tracker.stop()
        try end()
    }

    // MARK: Merging to a state

    @Test func aContextNeverGoesBack() throws {
        let context = store.makeContext()
        let empty = try store.snapshot()
        let note = context.insert(Note(title: "saved"))
        let saved = try context.save()
        #expect(try context.merge(to: empty) == saved && note.title == "saved")
        // An object that was read in a newer state does not go back either.
        try other.write { try $0.update(note.objectReference) { $0.title = "newer" } }
        let between = try store.snapshot()
        try other.write { try $0.update(note.objectReference) { $0.title = "newest" } }
        try context.refresh(note, keepingEdits: false)
        #expect(try context.token == saved && note.title == "newest")
        #expect(try context.merge(to: between) == store.currentToken)
        #expect(note.title == "newest")
        try end()
    }

    @Test func severalContextsShowTheSameState() throws {
        let contexts = (0..<2).map { _ in store.makeContext() }
        let one = try insert("one")
        let snapshot = try store.snapshot()
        try insert("two")
        for context in contexts {
            #expect(try context.merge(to: snapshot) == one)
            #expect(try context.fetch(Note.self).map(\.title) == ["one"])
            // Of another handle, and of the past: both lead to the newest state.
            #expect(try context.merge(to: other.snapshot()) == store.currentToken)
        }
        let past = store.makeContext()
        let three = try insert("three")
        try insert("four")
        #expect(try past.merge(to: store.snapshot(asOf: three)) == store.currentToken)
        let foreign = try Store(inMemory: [])
        try foreign.changeSchema([.addEntity(Sample.clip)])
        expect(.tokenForeign) { try past.merge(to: foreign.snapshot()) }
        try foreign.close()
        try end()
    }

    @Test func unsavedEditsStayOverAMergedStateThatLacksThem() throws {
        let context = store.makeContext()
        let note = context.insert(Note(title: "mine", rank: 1))
        try context.save()
        try other.write { try $0.update(note.objectReference) { $0.rank = 2 } }
        let snapshot = try store.snapshot()
        note.title = "edited"
        try context.merge(to: snapshot)
        #expect(note.title == "edited" && note.rank == 2 && context.hasChanges)
        try context.save()
        #expect(try store.snapshot()[note.objectReference]?.title == "edited")
        try end()
    }

    // MARK: The objects that changed

    @Test func theObjectsOfAllTransactionsThatAreReadAreNoted() throws {
        let start = try store.currentToken
        let first = try other.write(author: "share") { try $0.insert(Note(title: "one")) }
        let middle = try store.snapshot()
        let second = try other.write(author: "import") { try $0.insert(Group(name: "two")) }
        let newest = try store.snapshot()
        let ids = [first.result.id, second.result.id]
        var changed = ChangedObjects()
        #expect(changed.ids == nil)
        var seen: [UInt64] = []
        func read(_ place: HistoryToken, to snapshot: Snapshot, _ request: HistoryRequest = HistoryRequest()) throws {
            var request = request
            request.after = .token(place)
            try store.forEachTransaction(request, in: snapshot, noting: &changed) { transaction in
                seen.append(transaction.number)
                return true
            }
        }
        try read(start, to: newest, HistoryRequest(authors: ["share"]))
        #expect(changed.ids == Set(ids) && seen == [middle.token.number])
        // One reading after the other, and again.
        changed = ChangedObjects()
        try read(start, to: middle)
        #expect(changed.ids == [ids[0]])
        try read(middle.token, to: newest)
        #expect(changed.ids == Set(ids))
        try read(middle.token, to: newest)
        #expect(changed.ids == Set(ids))
        // After a gap only what comes after it is known.
        changed = ChangedObjects()
        try read(start, to: middle)
        let third = try other.write { try $0.insert(Note(title: "three")) }
        try read(newest.token, to: store.snapshot())
        #expect(changed.ids == [third.result.id])
        // A reading that ends early, and one against the order, tell nothing.
        try read(start, to: newest, HistoryRequest(limit: 1))
        #expect(changed.ids == nil)
        changed = ChangedObjects()
        try read(start, to: newest, HistoryRequest(order: .newestFirst))
        #expect(changed.ids == nil)
        try end()
    }

    @Test func changedObjectsAreUnknownIfHistoryIsIncomplete() throws {
        let start = try store.currentToken
        try insert("one", by: "share")
        try insert("two", by: "import")
        func ids(after place: HistoryToken) throws -> Set<ObjectID>? {
            var changed = ChangedObjects()
            let request = HistoryRequest(after: .token(place), authors: ["import"])
            try store.forEachTransaction(request, in: store.snapshot(), noting: &changed) { _ in true }
            return changed.ids
        }
        #expect(try ids(after: start)?.count == 2)
        try store.deleteHistory(before: .max, authors: ["share"])
        #expect(try ids(after: start) == nil)
        let place = try store.currentToken
        try other.write { transaction in
            for number in 0..<20_000 { try transaction.insert(Note(title: "\(number)")) }
        }
        #expect(try ids(after: place) == nil)
        let later = try store.currentToken
        try store.changeSchema([.changeEntity("Label", history: .off)])
        #expect(try ids(after: later) == nil)
        try end()
    }
}
