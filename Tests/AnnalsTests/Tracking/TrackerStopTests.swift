// A tracker that cannot move its cursor, because somebody keeps the writer lock; and one that never cleans again.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct TrackerStopTests {
    /// Somebody keeps the writer lock, so the cursor stays where it is.
    @Test func changesObservedBeforeAStopAreNotRepeatedIfTheStoreWasBusy() async throws {
        let folder = try StoreFolder()
        let other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        var options = Store.Options()
        options.lockTimeout = .milliseconds(20)
        let store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self], options: options)
        let (calls, path) = (Calls(), folder.path)
        let holder = Guarded<LockHolder?>(nil)
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], logger: Messages(calls: Calls()),
            autoStart: false, clock: ManualClock())
        tracker.observe(Note.self, [.insert]) { changes in
            calls.note(changes[0].after?.title ?? "-")
            if calls.count == 1 { try holder.withLock { $0 = try LockHolder(path) } }
        }
        try await other.write(author: "share") { try $0.insert(Note(title: "one")) }
        tracker.start()
        try await eventually { tracker.metrics.lastError?.code == .busy }
        await tracker.stop()
        holder.withLock { $0 }?.end()
        tracker.start()
        try await other.write(author: "share") { try $0.insert(Note(title: "two")) }
        let newest = try store.currentToken.number
        try await eventually { try store.consumer("app")?.cursor.number == newest }
        #expect(calls.all == ["one", "two"])
        await tracker.stop()

        // Setting the cursor back means that everything is observed again.
        let cursor = try #require(try store.history(HistoryRequest(authors: ["share"])).first?.token)
        try store.resetConsumer("app", to: cursor)
        tracker.start()
        try await eventually { try store.consumer("app")?.cursor.number == newest }
        #expect(calls.all == ["one", "two", "two"])
        await tracker.stop()
        try store.close()
        try other.close()
        try folder.expectIntact()
    }

    /// What the observer has been told of stays so, although the cursor cannot be set yet.
    @Test func aLossIsReportedOnceAlthoughTheStoreIsBusy() async throws {
        let folder = try StoreFolder()
        let other = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        var options = Store.Options()
        options.lockTimeout = .milliseconds(20)
        let store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self], options: options)
        let (calls, path) = (Calls(), folder.path)
        let holder = Guarded<LockHolder?>(nil)
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], logger: Messages(calls: Calls()),
            autoStart: false, clock: ManualClock())
        tracker.observe(Note.self, [.insert]) { changes in
            calls.note(changes[0].after?.title ?? "-")
        } resynchronized: { snapshot in
            calls.note("lost up to \(snapshot.token.number)")
            if calls.count == 1 { try holder.withLock { $0 = try LockHolder(path) } }
        }
        try store.registerConsumer("app")
        try await other.write(author: "share") { try $0.insert(Note(title: "one")) }
        let lost = try store.currentToken.number
        try store.deleteHistory(before: lost + 1)
        tracker.start()
        try await eventually { tracker.metrics.lastError?.code == .busy }
        holder.withLock { $0 }?.end()
        try await other.write(author: "share") { try $0.insert(Note(title: "two")) }
        let newest = try store.currentToken.number
        try await eventually { try store.consumer("app")?.cursor.number == newest }
        #expect(calls.all == ["lost up to \(lost)", "two"] && tracker.metrics.lost == 1)
        await tracker.stop()
        try store.close()
        try other.close()
        try folder.expectIntact()
    }

    /// No duration has so many seconds.
    @Test func infiniteDurationsAreAllowed() async throws {
        let folder = try StoreFolder()
        let store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
        let calls = Calls()
        let tracker = try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "share"], batchAuthors: ["share"],
            cleanStrategy: .byDuration(seconds: .infinity), maximumDuration: .infinity,
            logger: Messages(calls: Calls()), autoStart: false)
        tracker.observe(Note.self, [.insert]) { changes in calls.note(changes[0].after?.title ?? "-") }
        tracker.start()
        for title in ["one", "two", "three"] {
            try await store.write(author: "share") { try $0.insert(Note(title: title)) }
            let newest = try store.currentToken.number
            try await eventually { try store.consumer("app")?.cursor.number == newest }
        }
        await tracker.stop()
        #expect(calls.all == ["one", "two", "three"] && tracker.metrics.cleanings == 1)
        try store.close()
        try folder.expectIntact()
    }
}
