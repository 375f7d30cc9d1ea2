// Following as a task of one's own: it ends cleanly when it is cancelled, and otherwise says why.

import Annals
import FoundationEssentials
import Observation
import TestSupport
import Testing

@Suite struct StructuredFollowTests: TwoHandleSuite {
    let folder: StoreFolder
    let (store, other): (Store, Store)

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    // MARK: A context

    @MainActor @Test func aContextFollowsUntilItsTaskIsCancelled() async throws {
        try await other.write { try $0.insert(Note(title: "before")) }
        let context = store.makeContext()
        let note = try context.fetch(Note.self)[0]
        _ = try other.update(Note.self) { $0.title = "between" }
        let following = Task { try await context.followUntilCancelled() }
        while note.title != "between" { await Task.yield() }
        _ = try other.update(Note.self) { $0.title = "after" }
        while note.title != "after" { await Task.yield() }
        following.cancel()
        try await following.value
        // Also one that is cancelled before it begins.
        let cancelled = Task { try await context.followUntilCancelled() }
        cancelled.cancel()
        try await cancelled.value
        context.close()
        try end()
    }

    /// Each merge is followed by another commit at once, and still the actor does its other work in between.
    @MainActor @Test func aContextThatFollowsLeavesTheActorFree() async throws {
        let context = store.makeContext()
        let notes = try context.results(Note.self)
        let (merges, most) = (Calls(), 200)
        func write() { _ = try? other.write { try $0.insert(Note(title: "note")) } }
        notes.onChange = { _ in
            merges.note("merge")
            if merges.count < most { write() }
        }
        write()
        let following = Task { try await context.followUntilCancelled() }
        let seen = Task { merges.count }
        #expect(await seen.value < most)
        while merges.count < most { await Task.yield() }
        following.cancel()
        try await following.value
        context.close()
        try end()
    }

    /// The same for signals.
    @MainActor @Test func signalsLeaveTheActorFree() async throws {
        let (signals, most) = (Calls(), 200)
        func write() { _ = try? other.write { try $0.insert(Note(title: "note")) } }
        let changes = try store.changes()
        write()
        let following = Task {
            for try await _ in changes {
                signals.note("signal")
                if signals.count == most { return }
                write()
            }
        }
        let seen = Task { signals.count }
        #expect(await seen.value < most)
        try await following.value
        try end()
    }

    enum Ending: CaseIterable { case closedContext, closedStore, removed, replaced }

    @MainActor @Test(arguments: Ending.allCases)
    func aContextReportsWhyItStoppedFollowing(_ ending: Ending) async throws {
        let context = store.makeContext()
        let following = Task { () -> StoreError? in
            do { try await context.followUntilCancelled() } catch { return error as? StoreError }
            return nil
        }
        let follower = store.makeContext(author: "follower")
        try follower.follow()
        let told = Calls()
        withObservationTracking {
            _ = follower.followError
        } onChange: {
            told.note("told")
        }
        await Task.yield()
        let code: StoreError.Code
        switch ending {
        case .closedContext:
            context.close()
            follower.close()
            // It is noticed with the next change.
            try await other.write { try $0.insert(Note(title: "x")) }
            code = .contextClosed
        case .closedStore:
            try store.close()
            code = .closed
        case .removed:
            try FileManager.default.removeItem(atPath: folder.path)
            code = .storeRemoved
        case .replaced:
            try FileManager.default.removeItem(atPath: folder.path)
            try Store(at: folder.path, entities: [Note.self, Group.self, Label.self]).close()
            code = .storeReplaced
        }
        let error = await following.value
        #expect(error?.code == code, "\(error.map { "\($0)" } ?? "no error")")
        // Whoever closes the context knows why it ends.
        if ending != .closedContext { try await eventually { follower.followError?.code == code } }
        #expect((follower.followError == nil) == (ending == .closedContext))
        #expect(told.count == (ending == .closedContext ? 0 : 1))
        context.close()
        try store.close()
        try other.close()
        if ending != .removed { try folder.expectIntact() }
    }

    // MARK: A tracker

    private func tracker(_ calls: Calls) throws -> HistoryTracker {
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], logger: Messages(calls: Calls()),
            autoStart: false,
            clock: ManualClock())
        tracker.observe(Note.self, [.insert]) { changes in calls.note(changes[0].after?.title ?? "-") }
        return tracker
    }

    @Test func aTrackerRunsUntilItsTaskIsCancelled() async throws {
        let calls = Calls()
        let tracker = try tracker(calls)
        for round in 0..<3 {
            let run = Task { try await tracker.run() }
            try await other.write(author: "share") { try $0.insert(Note(title: "\(round)")) }
            try await eventually { calls.count == round + 1 }
            #expect(tracker.state == .running)
            if round < 2 { run.cancel() } else { await tracker.stop() }
            try await run.value
            #expect(tracker.state == .stopped)
        }
        #expect(calls.all == ["0", "1", "2"])
        // Also one that is cancelled before it begins.
        let cancelled = Task { try await tracker.run() }
        cancelled.cancel()
        try await cancelled.value
        try await eventually { tracker.state == .stopped }
        try end()
    }

    @Test func aTrackerReportsWhyItHasEnded() async throws {
        let tracker = try tracker(Calls())
        let run = Task { () -> StoreError? in
            do { try await tracker.run() } catch { return error as? StoreError }
            return nil
        }
        try await eventually { tracker.metrics.rounds > 0 }
        try store.close()
        let error = await run.value
        #expect(error?.code == .closed && error.map { tracker.state == .failed($0) } == true)
        // A run that cannot begin ends at once.
        let again = await #expect(throws: StoreError.self) { try await tracker.run() }
        #expect(again?.code == .closed)
        try end()
    }

    @Test func aBodyMustNotWaitForItsOwnTracker() async throws {
        let calls = Calls()
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], logger: Messages(calls: Calls()),
            autoStart: false,
            clock: ManualClock())
        tracker.observe(Note.self, [.insert]) { [weak tracker] _ in
            do { try await tracker?.run() } catch { calls.note("\((error as? StoreError)?.code.rawValue ?? "-")") }
        }
        tracker.start()
        try await other.write(author: "share") { try $0.insert(Note(title: "x")) }
        try await eventually { calls.all == ["invalidArgument"] }
        await tracker.stop()
        try end()
    }
}
