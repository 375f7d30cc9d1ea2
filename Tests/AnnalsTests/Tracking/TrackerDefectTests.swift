// Defects that trackers of history are known for. Each test fails promptly if its defect is planted.

import Annals
import FoundationEssentials
import TestSupport
import Testing

/// How far a writer's clock is ahead, in seconds.
private let ahead = 7200.0

/// Waits as `eventually`, but not for long, and ends the test if the condition never holds. The limit is one of time
/// and of turns: beside many other tests a turn of this task takes long, and a turn of the tracker's tasks does, too.
private func soon(
    _ condition: () throws -> Bool, isolation: isolated (any Actor)? = #isolation,
    _ location: SourceLocation = #_sourceLocation
) async throws {
    let deadline = ContinuousClock.now + .seconds(10)
    var turns = 0
    while turns < 500 || ContinuousClock.now < deadline {
        if try condition() { return }
        try await Task.sleep(for: .milliseconds(1))
        turns += 1
    }
    try #require(Bool(false), "The condition never held.", sourceLocation: location)
}

@Suite struct TrackerDefectTests: TwoHandleSuite {
    let folder: StoreFolder
    let store: Store
    let other: Store
    let calls = Calls()
    let clock = ManualClock()

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    private func tracker(
        _ authors: [String] = ["app", "share"], batch: [String] = [],
        _ strategy: HistoryTracker.CleanStrategy = .none, maximumDuration: Double = 604_800, clock: ManualClock? = nil
    ) throws -> HistoryTracker {
        try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: authors, batchAuthors: batch, cleanStrategy: strategy,
            maximumDuration: maximumDuration, logger: Messages(calls: Calls()), autoStart: false,
            clock: clock ?? self.clock)
    }

    @discardableResult
    private func insert(_ title: String, by author: String? = "share") throws -> Reference<Note> {
        try other.write(author: author) { try $0.insert(Note(title: title)) }.result
    }

    private func observe(_ tracker: HistoryTracker) {
        tracker.observe(Note.self, [.insert, .delete]) { [calls] changes in
            for change in changes { calls.note("\(changes.kind) \((change.after ?? change.before)?.title ?? "-")") }
        }
    }

    /// A consumer reads all there is, as its own program would.
    private func read(_ consumer: String) throws {
        let cursor = try #require(try store.consumer(consumer)).cursor
        try store.advanceConsumer(consumer, from: cursor, to: store.currentToken)
    }

    /// Waits until the tracker's cursor is at the newest transaction.
    private func caughtUp(_ location: SourceLocation = #_sourceLocation) async throws {
        let newest = try store.currentToken.number
        try await soon({ try (store.consumer("app")?.cursor.number ?? 0) >= newest }, location)
    }

    /// One whole round: stopping waits for its last step, which is cleaning.
    private func round(_ tracker: HistoryTracker) async throws {
        let rounds = tracker.metrics.rounds
        tracker.start()
        try await soon { tracker.metrics.rounds > rounds }
        await tracker.stop()
        #expect(tracker.metrics.rounds == rounds + 1)
    }

    // MARK: The cursor is no date

    @Test func changesAfterAWriterWhoseClockIsAheadAreObserved() async throws {
        let note = try insert("one")
        let tracker = try tracker()
        observe(tracker)
        tracker.start()
        try await soon { calls.count == 1 }
        let clock = OtherClock { Int64(ahead) * 1_000_000 }
        let machine = try Engine.open(folder.path, files: RealFileSystem(), environment: clock)
        _ = try machine.write(author: "share") { try $0.delete(note.id) }
        try machine.close()
        try await soon { calls.count == 2 }
        try insert("two")
        try await soon { calls.count == 3 }
        #expect(calls.all == ["insert one", "delete one", "insert two"])
        // Otherwise this would show nothing.
        let times = try store.history(HistoryRequest(authors: ["share"])).map(\.timestamp)
        #expect(times.count == 3 && times[1] > times[2] + 3600)
        await tracker.stop()
        try end()
    }

    @Test func aReaderWhoseClockIsAheadMissesNothing() async throws {
        let tracker = try tracker(clock: ManualClock(Date() + ahead))
        observe(tracker)
        tracker.start()
        for title in ["one", "two"] {
            try insert(title)
            try await caughtUp()
        }
        #expect(calls.all == ["insert one", "insert two"])
        await tracker.stop()
        try end()
    }

    // MARK: Rounds

    @Test func startingCatchesUpWithoutASignal() async throws {
        try insert("one")
        let tracker = try tracker()
        observe(tracker)
        tracker.start()
        try await soon { calls.count == 1 }
        #expect(calls.all == ["insert one"])
        await tracker.stop()
        try end()
    }

    @Test func changesDuringARoundCauseOneFurtherRound() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert]) { [other] changes in
            guard changes[0].after?.title == "last" else { return }
            for number in 1...20 {
                try await other.write(author: "share") { try $0.insert(Note(title: "\(number)")) }
            }
        }
        tracker.registerMergeHook { [calls] transactions in
            calls.note("\(transactions.count)")
            return .goOn
        }
        for title in ["first", "second", "last"] { try insert(title) }
        tracker.start()
        try await soon { calls.all.compactMap { Int($0) }.reduce(0, +) == 23 }
        #expect(calls.all == ["3", "20"])
        #expect(tracker.metrics.rounds == 2)
        await tracker.stop()
        try end()
    }

    @Test func aHookThatThrowsCallsNoObserverAgain() async throws {
        let tracker = try tracker()
        observe(tracker)
        tracker.registerMergeHook { _ in throw BodyFailure() }
        tracker.start()
        for title in ["one", "two"] {
            try insert(title)
            try await caughtUp()
        }
        #expect(calls.all == ["insert one", "insert two"])
        await tracker.stop()
        try end()
    }

    /// The cursor moves after all bodies, so that a process that is killed in one of them gets the changes again.
    @Test @MainActor func theStepsOfARoundRunInOrder() async throws {
        let (store, calls) = (store, calls)
        @Sendable func note(_ step: String) throws {
            calls.note("\(step), cursor \(try store.consumer("app")?.cursor.number ?? 0), from \(try store.horizon)")
        }
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], batchAuthors: ["share"],
            cleanStrategy: .byNotification(times: 1), logger: Messages(calls: calls), logLevel: 2, autoStart: false,
            deduplicator: { _, _ in try note("deduplicator") }, clock: clock)
        let context = store.makeContext()
        tracker.attach(context) { context, snapshot, changed in
            try note("merge")
            try context.merge(to: snapshot, changed: changed)
        }
        tracker.registerMergeHook { _ in
            try note("hook")
            return .goOn
        }
        tracker.observe(Note.self, [.insert]) { _ in try note("observer") }
        try insert("one")
        tracker.start()
        try await soon { tracker.metrics.cleanings == 1 }
        await tracker.stop()
        #expect(
            calls.all.filter { !$0.contains("follows the store") } == [
                "observer, cursor 0, from 0", "hook, cursor 0, from 0", "merge, cursor 0, from 0",
                "deduplicator, cursor 0, from 0", "debug: “app” has read history up to transaction 2.",
                "info: 2 transactions were removed from history.",
            ])
        try end()
    }

    // MARK: Exactly once

    /// Another program moves the observer's cursor while its body runs. Then nothing may be written, because what is
    /// written and the cursor are one commit.
    @Test func aWritingObserverWritesNothingIfItsCursorCannotMove() async throws {
        try insert("one")
        let tracker = try tracker()
        tracker.observeInTransaction(Note.self, [.insert], name: "labels") { [other] changes, transaction in
            try transaction.insert(Label(name: changes[0].after?.title ?? "-"))
            try other.resetConsumer("app/labels", to: other.currentToken)
        }
        tracker.start()
        try await soon { if case .failed = tracker.state { true } else { false } }
        guard case .failed(let error) = tracker.state else { return }
        #expect(error.code == .consumerConflict)
        #expect(try store.snapshot().count(Label.self) == 0)
        await tracker.stop()
        try end()
    }

    // MARK: Cleaning

    /// A program that read alone is followed by one that knows of another reader.
    @Test func theCleanerWaitsForAuthorsThatNeverRan() async throws {
        let alone = try tracker(["app"])
        alone.start()
        try insert("one")
        try await caughtUp()
        await alone.stop()
        let cleaner = try tracker().cleanerBuilder()
        #expect(try cleaner.clean() == 0 && store.horizon == 0)
        try read("share")
        #expect(try cleaner.clean() == 2 && store.horizon == 2)
        try end()
    }

    @Test func theCleanerDoesNotWaitForBatchAuthors() throws {
        let cleaner = try tracker(["app", "share"], batch: ["share"]).cleanerBuilder()
        try insert("one")
        #expect(try cleaner.clean() == 0)
        try read("app")
        #expect(try cleaner.clean() == 2)
        #expect(try store.consumers.map(\.name) == ["app"])
        try end()
    }

    @Test func changesOfUnlistedAndUnnamedAuthorsAreCleaned() throws {
        let cleaner = try tracker().cleanerBuilder()
        for author in ["share", nil, "somebody", "app"] { try insert("a note", by: author) }
        #expect(try cleaner.clean() == 0)
        for name in ["app", "share"] { try read(name) }
        #expect(try cleaner.clean() == 5)
        #expect(try store.history(HistoryRequest()).isEmpty)
        try end()
    }

    @Test func historyThatIsTooOldIsCleanedUnread() async throws {
        let tracker = try tracker(["app", "share"], .byNotification(times: 1), maximumDuration: 3600)
        try insert("one")
        #expect(try tracker.cleanerBuilder().clean() == 0)
        // Far more than it matters how long the test has taken so far.
        clock.advance(by: 86_400)
        #expect(try tracker.cleanerBuilder().clean() == 2)
        // A strategy does so, too.
        try insert("two")
        tracker.start()
        try await soon { try store.horizon == 3 }
        #expect(try store.consumer("share")?.isLost == true)
        await tracker.stop()
        try end()
    }

    @Test(arguments: [HistoryTracker.CleanStrategy.byNotification(times: 2), .byDuration(seconds: 60)])
    func aTurnThatCleansNothingIsNotUsedUp(strategy: HistoryTracker.CleanStrategy) async throws {
        let tracker = try tracker(["app", "share"], strategy)
        try insert("one")
        for _ in 1...2 { try await round(tracker) }
        #expect(tracker.metrics.cleanings == 0)
        // The turn is still there, so the next round cleans.
        try read("share")
        try await round(tracker)
        #expect(tracker.metrics.cleanings == 1)
        try end()
    }
}
