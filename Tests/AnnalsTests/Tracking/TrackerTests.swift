// The tracker: what observers get, when contexts follow, what is cleaned, and what happens after failures.

import Annals
import FoundationEssentials
import Glibc
import Synchronization
import TestSupport
import Testing

@Suite struct TrackerTests: TwoHandleSuite {
    let folder: StoreFolder
    let store: Store
    let other: Store
    let calls = Calls()
    let messages = Calls()
    let clock = ManualClock()

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    private func tracker(
        _ authors: [String] = ["app", "share", "import"], batch: [String] = [],
        _ strategy: HistoryTracker.CleanStrategy = .none, maximumDuration: Double = 604_800, autoStart: Bool = false,
        consumer: String? = nil, includingMirroring: Bool = false, deduplicator: HistoryTracker.Deduplicator? = nil
    ) throws -> HistoryTracker {
        try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: authors, includingMirroring: includingMirroring,
            batchAuthors: batch, cleanStrategy: strategy, maximumDuration: maximumDuration,
            logger: Messages(calls: messages), logLevel: 2, autoStart: autoStart, consumer: consumer,
            deduplicator: deduplicator, clock: clock)
    }

    @discardableResult
    private func insert(_ title: String, rank: Int = 0, by author: String? = "share") throws -> Reference<Note> {
        try other.write(author: author) { try $0.insert(Note(title: title, rank: rank)) }.result
    }

    /// Waits until a round has come to the newest transaction.
    private func caughtUp(_ tracker: HistoryTracker) async throws {
        let token = try store.currentToken
        try await eventually { try store.consumer("app").map { $0.cursor.number >= token.number } ?? false }
        // The round has ended, too: cleaning is its last step.
        let rounds = tracker.metrics.rounds
        try insert("next", by: "nobody")
        try await eventually { tracker.metrics.rounds > rounds }
    }

    private func observe(_ tracker: HistoryTracker, _ kinds: Set<HistoryChange.Kind> = [.insert, .update, .delete]) {
        tracker.observe(Note.self, kinds) { [calls] changes in
            for change in changes {
                let title = change.after?.title ?? change.before?.title ?? "-"
                calls.note("\(changes.kind.rawValue) \(title) by \(changes.transaction.author ?? "nobody")")
            }
        }
    }

    /// Lets a tracker run until its observer's work for a new object is parked.
    private func parkedWork(_ tracker: HistoryTracker) async throws -> ParkedWork {
        try insert("bad")
        tracker.start()
        try await eventually { try tracker.parked.count == 1 }
        try await caughtUp(tracker)
        await tracker.stop()
        return try #require(try tracker.parked.first)
    }

    private func expectRefused(
        _ tracker: HistoryTracker, _ work: ParkedWork, _ code: StoreError.Code, _ words: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let error = await #expect(throws: StoreError.self, sourceLocation: sourceLocation) {
            try await tracker.replay(work)
        }
        #expect(error?.code == code && error?.message.contains(words) == true, sourceLocation: sourceLocation)
    }

    // MARK: Observers

    @Test func observersGetChangesOfOtherAuthorsOnceAndInOrder() async throws {
        let note = try insert("before")
        let tracker = try tracker()
        observe(tracker)
        tracker.start()
        try await eventually { calls.count == 1 }
        try await other.write(author: "share") { try $0.update(note) { $0.title = "changed" } }
        try await other.write(author: "import") { try $0.delete(note) }
        try insert("own", by: "app")
        try insert("unlisted", by: "somebody")
        try insert("unnamed", by: nil)
        try await caughtUp(tracker)
        #expect(
            calls.all == ["insert before by share", "update changed by share", "delete changed by import"])
        #expect(try store.consumer("app")?.lag ?? 9 <= 1)
        await tracker.stop()
        #expect(tracker.state == .stopped)
        // A later tracker goes on from the cursor.
        try insert("after")
        let next = try self.tracker()
        observe(next)
        next.start()
        try await eventually { calls.count == 4 }
        #expect(calls.all.last == "insert after by share")
        await next.stop()
        try end()
    }

    @Test func anEmptyListMeansAllAuthorsAndTheOwnAloneMeansNone() async throws {
        try insert("one", by: "somebody")
        try insert("two", by: nil)
        try insert("own", by: "app")
        let nobody = try tracker(["app"], consumer: "app/nobody")
        nobody.observe(Note.self, [.insert]) { [calls] _ in calls.note("wrong") }
        nobody.start()
        let everybody = try tracker([])
        observe(everybody)
        everybody.start()
        try await caughtUp(everybody)
        let token = try store.currentToken
        try await eventually { try (store.consumer("app/nobody")?.cursor.number ?? 0) >= token.number }
        try await eventually { calls.count >= 3 }
        #expect(calls.all == ["insert one by somebody", "insert two by nobody", "insert next by nobody"])
        await nobody.stop()
        await everybody.stop()
        try end()
    }

    @Test func aTransactionIsOneCallForEachEntityAndKind() async throws {
        let old = try insert("old")
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert, .update]) { [calls] changes in
            calls.note("\(changes.kind.rawValue) \(changes.count) \(changes.transaction.number)")
        }
        let named = try tracker.registerObserver(entityName: "Group", operation: .insert) { [calls] changes in
            calls.note("named \(changes.count) \(changes[0].change.entity) \(changes[0].author ?? "-")")
        }
        tracker.start()
        try await eventually { calls.count == 1 }
        try await other.write(author: "import", contextName: "batch") { transaction in
            for number in 1...3 { try transaction.insert(Note(title: "\(number)")) }
            try transaction.update(old) { $0.rank = 3 }
            for name in ["a", "b"] { try transaction.insert(Group(name: name)) }
        }
        try await eventually { calls.count == 4 }
        #expect(calls.all[1...] == ["insert 3 3", "update 1 3", "named 2 Group import"])
        #expect(tracker.removeObserver(id: named) && !tracker.removeObserver(id: named))
        tracker.removeObserver(entityName: "Note", operation: .update)
        try insert("more")
        try await caughtUp(tracker)
        #expect(calls.count == 4)
        await tracker.stop()
        try end()
    }

    @Test func aTombstoneHasThePreservedValues() async throws {
        let elsewhere = try StoreFolder()
        let clips = try Store(at: elsewhere.path, entities: [SampleClip.self])
        let clip = try await clips.write(author: "share") { transaction in
            try transaction.insert(SampleClip(title: "t", url: "https://swift.org"))
        }.result
        let tracker = try HistoryTracker(
            store: clips, currentAuthor: "app", allAuthors: ["app", "share"], autoStart: false)
        tracker.observe(SampleClip.self, [.delete]) { [calls] changes in
            calls.note("\(changes[0].tombstone?[\.url] ?? "-") \(changes[0].reference == clip)")
        }
        tracker.start()
        try await clips.write(author: "share") { try $0.delete(clip) }
        try await eventually { calls.count == 1 }
        #expect(calls.all == ["https://swift.org true"])
        await tracker.stop()
        try clips.close()
        try elsewhere.expectIntact()
        try end()
    }

    @Test func mirroredChangesAreObservedAndReplayedOnlyOnRequest() async throws {
        let elsewhere = try StoreFolder()
        let source = try Store(at: elsewhere.path, entities: [Group.self, Note.self, Label.self])
        try await source.write(author: "share") { try $0.insert(Note(title: "mirrored")) }
        _ = try relay(from: source, to: other)
        try insert("here")
        let plain = try tracker()
        observe(plain)
        plain.start()
        try await caughtUp(plain)
        await plain.stop()
        #expect(calls.all == ["insert here by share"])

        let mirroring = try tracker(consumer: "mirroring", includingMirroring: true)
        mirroring.observe(Note.self, [.insert], name: "mail") { changes in
            if changes[0].after?.title == "mirrored" { throw BodyFailure() }
        }
        mirroring.start()
        try await eventually { try mirroring.parked.count == 1 }
        await mirroring.stop()
        let work = try #require(try mirroring.parked.first)
        // A tracker without mirroring has nothing of it to replay.
        let next = try tracker(consumer: "mirroring")
        next.observe(Note.self, [.insert], name: "mail") { [calls] _ in calls.note("replayed") }
        await expectRefused(next, work, .invalidArgument, "mirroring")
        #expect(try calls.count == 1 && next.parked == [work])
        try source.close()
        try elsewhere.expectIntact()
        try end()
    }

    @Test func anObserverTakesThePlaceOfOneWithTheSameName() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert], name: "mail") { [calls] _ in calls.note("old") }
        observe(tracker)
        #expect(messages.count == 0)
        tracker.observe(Note.self, [.insert], name: "mail") { [calls] _ in calls.note("new") }
        #expect(messages.all.contains { $0.contains("“mail” replaces") })
        try insert("one")
        tracker.start()
        try await caughtUp(tracker)
        await tracker.stop()
        #expect(calls.all == ["insert one by share", "new"])
        try end()
    }

    // MARK: Failing bodies

    @Test func aBodyThatFailsIsCalledFourTimesThenParkedAndNothingElseWaits() async throws {
        let tracker = try tracker()
        let mayFail = Atomic(true)
        tracker.observe(Note.self, [.insert], name: "mail") { [calls] changes in
            calls.note("mail \(changes[0].after?.title ?? "-")")
            if mayFail.load(ordering: .relaxed), changes[0].after?.title == "bad" { throw BodyFailure() }
        }
        observe(tracker)
        try insert("bad")
        try insert("good")
        tracker.start()
        try await eventually { calls.all.contains("insert good by share") }
        try await caughtUp(tracker)
        #expect(calls.all.filter { $0 == "mail bad" }.count == 4)
        #expect(calls.all.filter { $0 == "insert bad by share" }.count == 1)
        #expect(clock.slept == [.milliseconds(100), .milliseconds(400), .milliseconds(1600)])
        await tracker.stop()

        // Another process finds the work in the store.
        let work = try #require(try other.parkedWork(ofConsumer: "app").first)
        #expect(work.name == "mail" && work.attempts == 4 && work.entity == "Note")
        #expect(work.error.contains("BodyFailure"))
        let next = try self.tracker()
        await #expect(throws: StoreError.self) { try await next.replay(work) }
        next.observe(Note.self, [.insert], name: "mail") { [calls] changes in
            calls.note("again \(changes[0].after?.title ?? "-")")
            if mayFail.load(ordering: .relaxed) { throw BodyFailure() }
        }
        await #expect(throws: BodyFailure.self) { try await next.replay(work) }
        #expect(try next.parked.map(\.attempts) == [5])
        mayFail.store(false, ordering: .relaxed)
        try await next.replay(work)
        #expect(try next.parked.isEmpty && other.parkedWork(ofConsumer: "app").isEmpty)
        #expect(calls.all.suffix(2) == ["again bad", "again bad"])
        await #expect(throws: StoreError.self) { try await next.replay(work) }
        try end()
    }

    @Test func parkedWorkIsReplayedTooLateOrSkipped() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert], name: "mail") { _ in throw BodyFailure() }
        tracker.observe(Note.self, [.insert]) { _ in throw BodyFailure() }
        try insert("bad")
        tracker.start()
        try await eventually { try tracker.parked.count == 2 }
        try await caughtUp(tracker)
        await tracker.stop()
        let works = try tracker.parked
        #expect(works.map(\.name) == ["mail", nil])
        // Parked work does not hold up cleaning.
        for name in ["share", "import"] { try store.removeConsumer(name) }
        try store.clean()
        await expectRefused(tracker, works[0], .tokenExpired, "skip it")
        for work in works { try await tracker.skip(work) }
        #expect(try tracker.parked.isEmpty)
        try end()
    }

    /// As after the death of a process between the parking and the cursor.
    @Test func workIsParkedOnceIfItIsDeliveredAgain() async throws {
        let start = try store.currentToken
        try insert("bad")
        for _ in 0..<2 {
            let tracker = try tracker()
            tracker.observe(Note.self, [.insert], name: "mail") { _ in throw BodyFailure() }
            tracker.observe(Note.self, [.insert], name: "print") { _ in throw BodyFailure() }
            tracker.start()
            try await caughtUp(tracker)
            await tracker.stop()
            #expect(try tracker.parked.map(\.name) == ["mail", "print"])
            try store.resetConsumer("app", to: start)
        }
        #expect(try store.parkedWork(ofConsumer: "app").map(\.attempts) == [8, 8])
        try end()
    }

    @Test func parkedWorkIsNotDoneByAnObserverOfOtherChanges() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert], name: "mail") { _ in throw BodyFailure() }
        let work = try await parkedWork(tracker)
        let other = try self.tracker()
        other.observe(Note.self, [.delete], name: "mail") { [calls] _ in calls.note("deleted") }
        await expectRefused(other, work, .invalidArgument, "other changes")
        #expect(try calls.count == 0 && other.parked == [work])
        try end()
    }

    /// What nobody has listed is not observed, and the log says so once.
    @Test func theLogNamesAuthorsThatAreLeftOut() async throws {
        let tracker = try tracker(["app", "share"])
        observe(tracker, [.insert])
        tracker.start()
        for round in 1...3 {
            try insert("tool \(round)", by: "annals")
            try insert("unnamed \(round)", by: nil)
            try insert("share \(round)")
            try await caughtUp(tracker)
        }
        await tracker.stop()
        #expect(calls.all == (1...3).map { "insert share \($0) by share" })
        let named = messages.all.filter { $0.contains("`allAuthors`") }
        #expect(named.count { $0.hasPrefix("notice: “annals” has committed") } == 1, "\(named)")
        #expect(named.count { $0.contains("without an author") } == 1, "\(named)")
        try end()
    }

    /// The history of one who is left out is cleaned before that of those who are observed.
    @Test func cleanedHistoryOfUnlistedAuthorsIsNotMissed() async throws {
        let tracker = try tracker(["app", "share"])
        observe(tracker, [.insert])
        tracker.start()
        try insert("first")
        try await caughtUp(tracker)
        await tracker.stop()
        try insert("left out", by: "annals")
        try insert("second")
        let last = try store.currentToken.number
        try store.deleteHistory(before: last, authors: ["annals"])
        tracker.start()
        try await caughtUp(tracker)
        await tracker.stop()
        #expect(calls.all == ["insert first by share", "insert second by share"])
        try end()
    }

    /// The entity has another name by now, and another entity has its name.
    @Test(arguments: [false, true]) func parkedWorkSurvivesTheRenamingOfItsEntity(isNameTaken: Bool) async throws {
        struct Memo: Entity {
            var title = ""
        }
        let elsewhere = try StoreFolder()
        let old = try Store(at: elsewhere.path, entities: [SampleClip.self])
        let failing = try HistoryTracker(
            store: old, currentAuthor: "app", allAuthors: ["share"], logger: Messages(calls: messages),
            autoStart: false, clock: clock)
        failing.observe(SampleClip.self, [.insert], name: "mail") { _ in throw BodyFailure() }
        failing.start()
        try await old.write(author: "share") { try $0.insert(SampleClip(title: "bad", url: "u")) }
        try await eventually { try failing.parked.count == 1 }
        await failing.stop()
        let work = try #require(try failing.parked.first)
        #expect(work.entity == "SampleClip")
        try old.close()

        var changes: [SchemaChange] = [.renameEntity("SampleClip", to: "Memo")]
        if isNameTaken {
            changes.append(
                .addEntity(EntityDescription("SampleClip", attributes: [AttributeDescription("title", .string)])))
        }
        let new = try Store(
            at: elsewhere.path, entities: [Memo.self], migrations: [Migration("rename", changes.map { .change($0) })])
        let tracker = try HistoryTracker(
            store: new, currentAuthor: "app", allAuthors: ["share"], logger: Messages(calls: messages),
            autoStart: false, clock: clock)
        let again = try #require(try tracker.parked.first)
        #expect(again == work)
        tracker.observe(Memo.self, [.insert], name: "mail") { [calls] changes in
            calls.note("\(changes[0].after?.title ?? "-") \(changes.count)")
        }
        try await tracker.replay(again)
        #expect(try calls.all == ["bad 1"] && tracker.parked.isEmpty)
        try new.close()
        try elsewhere.expectIntact()
        try end()
    }

    @Test func aWritingObserverDoesParkedWorkOnceIfItIsReplayedOften() async throws {
        let tracker = try tracker()
        let mayFail = Atomic(true)
        tracker.observeInTransaction(Note.self, [.insert], name: "labels") { changes, transaction in
            if mayFail.load(ordering: .relaxed) { throw BodyFailure() }
            for change in changes { try transaction.insert(Label(name: change.after?.title ?? "-")) }
        }
        let work = try await parkedWork(tracker)
        mayFail.store(false, ordering: .relaxed)
        let outcomes = await withTaskGroup(of: StoreError.Code?.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    do { try await tracker.replay(work) } catch { return (error as? StoreError)?.code ?? .cancelled }
                    return nil
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.filter { $0 == nil }.count == 1 && outcomes.filter { $0 == .invalidArgument }.count == 7)
        #expect(try store.snapshot().count(Label.self) == 1 && tracker.parked.isEmpty)
        try end()
    }

    @Test func aHookThatFailsDoesNotCallObserversAgain() async throws {
        let tracker = try tracker()
        observe(tracker)
        tracker.registerMergeHook { [calls] transactions in
            calls.note("hook \(transactions.count)")
            throw BodyFailure()
        }
        try insert("one")
        tracker.start()
        try await caughtUp(tracker)
        try await eventually { try !tracker.parked.isEmpty }
        #expect(calls.all == ["insert one by share"] + Array(repeating: "hook 1", count: 4))
        await tracker.stop()
        try end()
    }

    // MARK: Hooks and contexts

    @Test @MainActor func contextsFollowEverythingButTheirOwnSaves() async throws {
        let context = store.makeContext(author: "app", name: "view")
        let note = context.insert(Note(title: "mine", rank: 1))
        try context.save()
        note.title = "edited"
        let tracker = try HistoryTracker(
            store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share"],
            logger: Messages(calls: messages), clock: clock)
        let reference = note.objectReference
        try await other.write(author: "share") { try $0.update(reference) { $0.rank = 2 } }
        try await eventually { note.rank == 2 }
        // The program's own batch work is another's, too.
        try store.update(Note.self, where: #Predicate { $0.rank == 2 }, author: "app") { $0.rank = 3 }
        try await eventually { note.rank == 3 }
        #expect(note.title == "edited" && note.objectStatus.hasChanges)
        let saved = try context.save()
        #expect(try store.snapshot()[note.objectReference]?.title == "edited")
        #expect(try context.token == saved)
        await tracker.stop()
        try end()
    }

    @Test @MainActor func aHookEndsTheMergeAndAClosureMergesDifferently() async throws {
        let context = store.makeContext()
        let special = store.makeContext()
        let tracker = try HistoryTracker(
            store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share"],
            logger: Messages(calls: messages), clock: clock)
        let calls = calls
        tracker.attach(special) { context, snapshot, changed in
            calls.note("special \(snapshot.token.number) \(changed.ids?.count ?? -1)")
            try context.merge(to: snapshot, changed: changed)
        }
        let last = tracker.registerMergeHook { transactions in
            calls.note("last")
            return .goOn
        }
        let first = tracker.registerMergeHook(before: last) { transactions in
            calls.note("first")
            return transactions.contains { $0.changes.count > 1 } ? .finish : .goOn
        }
        try insert("one")
        try await eventually { (try? context.token.number) ?? 0 >= 2 && calls.all.contains("special 2 1") }
        #expect(calls.all.filter { !$0.hasPrefix("special 1") } == ["first", "last", "special 2 1"])
        try await other.write(author: "share") { transaction in
            for title in ["a", "b"] { try transaction.insert(Note(title: title)) }
        }
        try await eventually { try store.consumer("app")?.cursor.number == 3 }
        #expect(try context.token.number == 2 && calls.all.last == "first")
        tracker.removeMergeHook(id: first)
        try insert("two")
        try await eventually { try context.token.number == 4 }
        await tracker.stop()
        try end()
    }

    @Test(arguments: [false, true]) @MainActor
    func observersAreRegisteredBeforeTheFirstRound(hasContext: Bool) async throws {
        try insert("before")
        let context = store.makeContext()
        let tracker =
            try hasContext
            ? HistoryTracker(
                store: store, contexts: [context], currentAuthor: "app", allAuthors: ["app", "share"],
                logger: Messages(calls: messages), clock: clock)
            : HistoryTracker(
                store: store, currentAuthor: "app", allAuthors: ["app", "share"], logger: Messages(calls: messages),
                clock: clock)
        // A round that did not wait for this code would come now.
        usleep(50_000)
        observe(tracker)
        try await eventually { calls.count == 1 }
        await tracker.stop()
        try end()
    }

    // MARK: Exactly once

    @Test func aWritingObserverAndItsCursorAreOneCommit() async throws {
        try insert("one", rank: 1)
        let tracker = try tracker()
        tracker.observeInTransaction(Note.self, [.insert], name: "labels") { changes, transaction in
            for change in changes { try transaction.insert(Label(name: change.after?.title ?? "-")) }
        }
        tracker.start()
        try await eventually { try store.snapshot().count(Label.self) == 1 }
        try insert("two", rank: 2)
        try await eventually { try store.snapshot().count(Label.self) == 2 }
        try await caughtUp(tracker)
        await tracker.stop()
        let history = try store.history(HistoryRequest(authors: ["app"], entities: ["Label"]))
        #expect(history.map(\.contextName) == ["labels", "labels"])
        #expect(try store.consumer("app/labels") != nil)

        // A body that fails writes nothing, and its work is parked.
        let failing = try self.tracker()
        failing.observeInTransaction(Note.self, [.insert], name: "labels") { changes, transaction in
            try transaction.insert(Label(name: "never"))
            throw BodyFailure()
        }
        try insert("three")
        failing.start()
        try await eventually { try failing.parked.count == 1 }
        try await caughtUp(failing)
        await failing.stop()
        #expect(try store.snapshot().count(Label.self) == 2)
        let work = try #require(try failing.parked.first)
        let mended = try self.tracker()
        mended.observeInTransaction(Note.self, [.insert], name: "labels") { changes, transaction in
            for change in changes { try transaction.insert(Label(name: change.after?.title ?? "-")) }
        }
        try await mended.replay(work)
        #expect(try store.snapshot().count(Label.self) == 3 && mended.parked.isEmpty)
        try end()
    }

    @Test func theDeduplicatorsSaveAndTheCursorAreOneCommit() async throws {
        try insert("same")
        try insert("same")
        let tracker = try tracker { transactions, context in
            let notes = try context.fetch(Note.self, where: #Predicate { $0.title == "same" })
            for note in notes.dropFirst() { context.delete(note) }
        }
        tracker.start()
        try await caughtUp(tracker)
        #expect(try store.snapshot().fetch(Note.self, where: #Predicate { $0.title == "same" }).count == 1)
        let saved = try store.history(HistoryRequest(authors: ["app"]))
        #expect(saved.map(\.contextName) == ["deduplicator"])
        await tracker.stop()
        try end()
    }

    // MARK: Cleaning

    @Test func cleaningWaitsForAuthorsThatNeverRanUntilTheLongestTime() async throws {
        for title in ["one", "two"] { try insert(title) }
        try insert("unnamed", by: nil)
        try insert("import", by: "import")
        let tracker = try tracker(["app", "share", "import"], batch: ["import"], .byNotification(times: 1))
        tracker.start()
        try await caughtUp(tracker)
        // Share has never read.
        #expect(try store.horizon == 0 && tracker.metrics.cleanings == 0)
        #expect(try store.consumers.map(\.name).sorted() == ["app", "share"])
        #expect(try tracker.cleanerBuilder().clean() == 0)
        // Its programs do so, and everything goes, whoever made it.
        let share = try #require(try store.consumer("share"))
        try store.advanceConsumer("share", from: share.cursor, to: store.currentToken)
        try await caughtUp(tracker)
        try await eventually { tracker.metrics.cleanings > 0 }
        #expect(try store.horizon >= 4)
        // It never comes again: its history goes when it is too old.
        let before = try store.horizon
        // So long that it does not matter how long the test has taken so far.
        clock.advance(by: 604_800 + 86_400)
        try insert("late")
        try await caughtUp(tracker)
        try await eventually { try store.horizon > before }
        #expect(try store.consumer("share")?.isLost == true)
        await tracker.stop()
        try end()
    }

    @Test func countsBeginAgainOnlyAfterACleaning() async throws {
        let tracker = try tracker(["app", "share"], .byNotification(times: 3))
        tracker.start()
        for number in 1...6 {
            let rounds = tracker.metrics.rounds
            try insert("\(number)")
            try await eventually { tracker.metrics.rounds > rounds }
        }
        #expect(tracker.metrics.cleanings == 0)
        // The count was not used up: the next round cleans.
        let share = try #require(try store.consumer("share"))
        try store.advanceConsumer("share", from: share.cursor, to: store.currentToken)
        try insert("last")
        try await eventually { tracker.metrics.cleanings == 1 }
        await tracker.stop()
        try end()
    }

    @Test func anIntervalBeginsAgainOnlyAfterACleaning() async throws {
        let tracker = try tracker(["app"], .byDuration(seconds: 60))
        try insert("one")
        tracker.start()
        try await eventually { tracker.metrics.cleanings == 1 }
        try insert("two")
        try await caughtUp(tracker)
        #expect(tracker.metrics.cleanings == 1)
        clock.advance(by: 61)
        try insert("three")
        try await eventually { tracker.metrics.cleanings == 2 }
        await tracker.stop()
        try end()
    }

    @Test func aClockThatJumpsForwardDoesNotRemoveEverything() async throws {
        let tracker = try tracker(["app", "share"], .byNotification(times: 1))
        try insert("one")
        tracker.start()
        try await caughtUp(tracker)
        clock.set(by: 40 * 365 * 86_400)
        try insert("two")
        try await caughtUp(tracker)
        #expect(try store.horizon == 0)
        clock.advance(by: 3_601)
        try insert("three")
        try await caughtUp(tracker)
        try await eventually { try store.horizon > 0 }
        await tracker.stop()
        try end()
    }

    // MARK: Lost history, errors

    @Test func observersResynchronizeOnceAfterLostHistoryAndContinue() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert]) { [calls] changes in
            calls.note(changes[0].after?.title ?? "-")
        } resynchronized: { [calls] snapshot in
            calls.note("resynchronized with \(try snapshot.count(Note.self))")
        }
        try insert("one")
        tracker.start()
        try await eventually { calls.count == 1 }
        await tracker.stop()
        try insert("two")
        try insert("three")
        try store.deleteHistory(before: store.currentToken.number + 1)
        tracker.start()
        try await eventually { calls.count == 2 }
        try insert("four")
        try await eventually { calls.count == 3 }
        #expect(calls.all == ["one", "resynchronized with 3", "four"])
        #expect(tracker.metrics.lost == 1 && tracker.state == .running)
        #expect(messages.all.contains { $0.hasPrefix("error: History was lost") })
        await tracker.stop()
        try end()
    }

    /// The first round reads and cleans what the tracker has not been told of yet.
    @Test func cleaningAheadOfTheSignalsLosesNothing() async throws {
        /// Commits while the tracker starts, between listening and reading.
        struct Committing: HistoryTrackerLogger {
            let commit: @Sendable () -> Void
            func log(type: HistoryTrackerLogType, message: String) {
                if message.contains("The store keeps history for") { commit() }
            }
        }
        let other = other
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], batchAuthors: ["share"],
            cleanStrategy: .byNotification(times: 1), maximumDuration: 604_801,
            logger: Committing { _ = try? other.write(author: "share") { try $0.insert(Note(title: "one")) } },
            autoStart: false, clock: clock)
        observe(tracker)
        tracker.start()
        try await eventually { calls.count == 1 }
        try await eventually { try store.horizon >= 2 }
        try insert("two")
        try await eventually { calls.count == 2 }
        #expect(calls.all == ["insert one by share", "insert two by share"])
        #expect(tracker.metrics.lost == 0 && tracker.metrics.cleanings > 0)
        await tracker.stop()
        try end()
    }

    @Test func anEntityWithoutHistoryIsNamed() async throws {
        try store.changeSchema([.changeEntity("Label", history: .off)])
        let tracker = try tracker()
        observe(tracker)
        tracker.observe(Label.self, [.insert]) { [calls] _ in calls.note("wrong") }
        do {
            try tracker.registerObserver(entityName: "Label", operation: .insert) { _ in }
            Issue.record("The entity has no history.")
        } catch let error as StoreError {
            #expect(error.code == .historyGap)
        }
        #expect(throws: StoreError.self) {
            try tracker.registerObserver(entityName: "None", operation: .insert) { _ in }
        }
        try await other.write(author: "share") { try $0.insert(Label(name: "l")) }
        try insert("one")
        tracker.start()
        try await eventually { calls.count == 1 }
        #expect(calls.all == ["insert one by share"])
        #expect(tracker.metrics.lastError?.code == .historyGap && tracker.state == .running)
        await tracker.stop()
        try end()
    }

    @Test func twoTrackersWithOneConsumerHaveAConflict() async throws {
        let tracker = try tracker()
        observe(tracker)
        tracker.start()
        try await caughtUp(tracker)
        let consumer = try #require(try other.consumer("app"))
        try insert("one")
        try await eventually { calls.count == 1 }
        try await eventually { try (other.consumer("app")?.cursor.number ?? 0) > consumer.cursor.number }
        try other.resetConsumer("app", to: consumer.cursor)
        try insert("two")
        try await eventually { if case .failed = tracker.state { true } else { false } }
        guard case .failed(let error) = tracker.state else { return }
        #expect(error.code == .consumerConflict)
        #expect(error.message.contains("consumer:") && error.message.contains("process"))
        // It can be started again.
        tracker.start()
        try await eventually { calls.all.contains("insert two by share") }
        await tracker.stop()
        try end()
    }

    @Test func aClosedStoreEndsTheTracker() async throws {
        let tracker = try tracker()
        tracker.start()
        try await caughtUp(tracker)
        try store.close()
        try await eventually { if case .failed = tracker.state { true } else { false } }
        guard case .failed(let error) = tracker.state else { return }
        #expect(error.code == .closed)
        #expect(messages.all.contains { $0.hasPrefix("fault: ") })
        await tracker.stop()
        try other.close()
        try folder.expectIntact()
    }

    @Test func wrongParametersAreRefused() throws {
        func refusal(_ make: () throws -> HistoryTracker) -> StoreError? {
            do { _ = try make() } catch { return error as? StoreError }
            return nil
        }
        let wrong: [() throws -> HistoryTracker] = [
            { try HistoryTracker(store: store, currentAuthor: "", allAuthors: []) },
            { try tracker(["app", ""]) },
            { try tracker(batch: ["app"]) },
            { try tracker([], .byNotification(times: 0)) },
            { try tracker([], .byDuration(seconds: -1)) },
            { try tracker([], .byDuration(seconds: .nan)) },
            { try tracker(maximumDuration: -1) },
            { try tracker(consumer: "") },
            { try tracker(consumer: String(repeating: "x", count: 1025)) },
            { try tracker(["app", String(repeating: "x", count: 1025)]) },
        ]
        for make in wrong { #expect(refusal(make)?.code == .invalidArgument) }
        let closed = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        try closed.close()
        #expect(refusal { try HistoryTracker(store: closed, currentAuthor: "app", allAuthors: []) }?.code == .closed)
        try end()
    }

    @MainActor @Test func aContextOfAnotherStoreDoesNotFollow() async throws {
        let elsewhere = try StoreFolder()
        let stranger = try Store(at: elsewhere.path, entities: [Group.self, Note.self, Label.self])
        let context = stranger.makeContext()
        let error = #expect(throws: StoreError.self) {
            try HistoryTracker(store: store, contexts: [context], currentAuthor: "app", allAuthors: [])
        }
        #expect(error?.code == .invalidArgument)
        let tracker = try tracker()
        tracker.attach(context)
        #expect(messages.all.contains { $0.hasPrefix("error: A context does not follow") })
        tracker.start()
        try insert("one")
        try await caughtUp(tracker)
        #expect(tracker.metrics.merges == 0)
        await tracker.stop()
        context.close()
        try stranger.close()
        try elsewhere.expectIntact()
        try end()
    }

    // MARK: Starting and stopping

    @Test func aBodyMayStopItsOwnTracker() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert]) { [calls, weak tracker] changes in
            calls.note(changes[0].after?.title ?? "-")
            await tracker?.stop()
        }
        try insert("one")
        try insert("two")
        tracker.start()
        try await eventually { calls.count == 1 }
        // Whether the body has ended or not: what it has got is not delivered again.
        tracker.start()
        #expect(tracker.state == .running)
        try await eventually { calls.count == 2 }
        #expect(calls.all == ["one", "two"])
        await tracker.stop()
        #expect(tracker.state == .stopped)
        try end()
    }

    @Test func releasingATrackerEndsIt() async throws {
        var tracker: HistoryTracker? = try tracker()
        weak let core = tracker
        observe(try #require(tracker))
        tracker?.start()
        try await caughtUp(try #require(tracker))
        tracker = nil
        #expect(core == nil)
        try insert("one")
        try await eventually { messages.all.contains { $0.contains("no longer follows") } }
        #expect(calls.count == 0)
        try end()
    }
}
