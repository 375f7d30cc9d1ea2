// Bodies that fail all the time, and what makes no sense but throws nothing.

import Annals
import FoundationEssentials
import Synchronization
import TestSupport
import Testing

/// Its waits end only when they are cut short.
private final class StandingClock: HistoryTrackerClock {
    private let counts = Mutex<(begun: Int, cut: Int)>((0, 0))
    var begun: Int { counts.withLock { $0.begun } }
    var cut: Int { counts.withLock { $0.cut } }
    var now: Date { Date() }
    var uptime: Duration { .zero }

    func sleep(for duration: Duration) async throws {
        counts.withLock { $0.begun += 1 }
        do {
            try await Task.sleep(for: .seconds(60))
        } catch {
            counts.withLock { $0.cut += 1 }
            throw error
        }
    }
}

@Suite struct TrackerFailureTests: StoreSuite {
    let folder: StoreFolder
    let store: Store
    let calls = Calls()
    let messages = Calls()
    let clock = ManualClock()

    init() throws {
        folder = try StoreFolder()
        store = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self])
    }

    private func tracker(
        _ authors: [String] = ["app", "share"], batch: [String] = [],
        deduplicator: HistoryTracker.Deduplicator? = nil, clock: (any HistoryTrackerClock)? = nil
    ) throws -> HistoryTracker {
        try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: authors, batchAuthors: batch,
            logger: Messages(calls: messages), logLevel: 2, autoStart: false, deduplicator: deduplicator,
            clock: clock ?? self.clock)
    }

    private func insert(_ titles: String...) throws {
        for title in titles { try store.write(author: "share") { try $0.insert(Note(title: title)) } }
    }

    /// Runs a tracker until it has read everything.
    private func run(_ tracker: HistoryTracker) async throws {
        let newest = try store.currentToken.number
        tracker.start()
        try await eventually { try store.consumer("app").map { $0.cursor.number >= newest } ?? false }
        await tracker.stop()
    }

    @Test func anObserverThatFailsAllTheTimeHoldsUpLittle() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert], name: "mail") { [calls] changes in
            let title = changes[0].after?.title ?? "-"
            calls.note(title)
            if title.hasPrefix("bad") { throw BodyFailure() }
        }
        try insert("bad 1", "bad 2", "bad 3", "good", "bad 4")
        try await run(tracker)
        let four = [("bad 1", 4), ("bad 2", 4), ("bad 3", 4), ("good", 1), ("bad 4", 4)]
        #expect(calls.all == four.flatMap { Array(repeating: $0.0, count: $0.1) })
        #expect(try tracker.parked.map(\.attempts) == [4, 4, 4, 4])
        let (patient, impatient) = ([100, 400, 1600], [1, 4, 16])
        #expect(clock.slept == (patient + impatient + impatient + patient).map { .milliseconds($0) })
        try end()
    }

    @Test func stoppingDoesNotWaitForTheNextAttempt() async throws {
        let clock = StandingClock()
        let tracker = try tracker(clock: clock)
        tracker.observe(Note.self, [.insert], name: "mail") { [calls] _ in
            calls.note("mail")
            throw BodyFailure()
        }
        try insert("bad")
        tracker.start()
        try await eventually { clock.begun == 1 }
        await tracker.stop()
        #expect(clock.begun == 1 && clock.cut == 1 && calls.count == 4)
        #expect(try tracker.parked.map(\.attempts) == [4])
        try end()
    }

    @Test func aDeduplicatorThatClosesItsContextGetsAnError() async throws {
        let tracker = try tracker { _, context in
            context.insert(Label(name: "new"))
            context.close()
        }
        try insert("one")
        try await run(tracker)
        let work = try #require(try tracker.parked.first)
        #expect(work.body == .deduplicator && work.error.contains("leave the context open"))
        let error = await #expect(throws: StoreError.self) { try await tracker.replay(work) }
        #expect(error?.code == .contextClosed)
        #expect(try tracker.parked.map(\.attempts) == [5])
        #expect(try store.snapshot().count(Label.self) == 0)
        try end()
    }

    @MainActor @Test func aClosedContextDoesNotFollow() async throws {
        let context = store.makeContext()
        context.close()
        expect(.contextClosed) { try context.token }
        expect(.contextClosed) { try context.snapshot }
        expect(.contextClosed) {
            try HistoryTracker(store: store, contexts: [context], currentAuthor: "app", allAuthors: [])
        }
        try tracker().attach(context)
        #expect(messages.all.contains { $0.hasPrefix("error: A context does not follow") })
        try end()
    }

    @Test func impossibleObservationsAreLogged() async throws {
        let tracker = try tracker(["app", "share"], batch: ["share", "import"])
        tracker.observe(Note.self, [], name: "mail") { [calls] _ in calls.note("mail") }
        #expect(messages.all.contains { $0.hasPrefix("error: Observer “mail” observes no kind of change") })
        #expect(tracker.metrics.lastError?.code == .invalidArgument)
        try insert("one")
        try await run(tracker)
        #expect(messages.all.contains { $0.hasPrefix("notice: The batch author “import” is not in `allAuthors`") })
        #expect(!messages.all.contains { $0.contains("batch author “share”") } && calls.count == 0)
        try end()
    }

    /// It keeps its place in the store.
    @Test func aStoreForReadingCannotBeTracked() async throws {
        var options = Store.Options()
        options.access = .readOnly
        let reader = try Store(at: folder.path, entities: [Group.self, Note.self, Label.self], options: options)
        let token = try store.currentToken
        let tracker = try HistoryTracker(
            store: reader, currentAuthor: "app", allAuthors: [], logger: Messages(calls: messages), autoStart: false,
            clock: clock)
        let error = await #expect(throws: StoreError.self) { try await tracker.run() }
        #expect(error?.code == .readOnly, "\(error?.description ?? "")")
        #expect(tracker.state == error.map { .failed($0) })
        #expect(messages.all.contains { $0.hasPrefix("fault: The tracker has ended") && $0.contains("for writing") })
        #expect(try store.currentToken == token && store.consumers.isEmpty)
        try reader.close()
        try end()
    }

    /// The text of an error ends with a full stop, with a path after it, or with neither.
    @Test(
        arguments: [
            StoreError(.closed, "The store is closed: open it again."),
            StoreError(.notFound, "The file is missing: check the path.", path: "/data/s"), BodyFailure(),
        ] as [any Error]) func theMessageOfParkedWorkEndsItsSentences(error: any Error) async throws
    {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert], name: "mail") { _ in throw error }
        tracker.registerMergeHook { _ in throw error }
        try insert("one")
        try await run(tracker)
        let parked = messages.all.filter { $0.hasSuffix("is parked: replay or skip it. The last error: \(error)") }
        #expect(parked.count == 2, "\(messages.all)")
        #expect(messages.all.allSatisfy { !$0.contains("..") }, "\(messages.all)")
        try end()
    }

    private struct Forgotten: Entity {
        var n = 0
        static let schema = Schema<Forgotten>("Forgotten") { Attribute(\.n, .indexed) }
    }

    /// The log names it when the observer is registered, and not again when changes come.
    @Test func anEntityThatIsNotDeclaredIsNamedAtOnce() async throws {
        let tracker = try tracker()
        tracker.observe(Note.self, [.insert]) { [calls] _ in calls.note("note") }
        #expect(messages.count == 0)
        tracker.observe(Forgotten.self, [.insert], name: "mail") { [calls] changes in
            calls.note("forgotten \(changes.count)")
        }
        tracker.observe(Forgotten.self, [.delete]) { _ in }
        let named =
            "error: “Forgotten” is observed, but the store has no such entity: open the store with the type in "
            + "`entities:`, or do not observe it."
        #expect(messages.all == [named])
        #expect(tracker.metrics.lastError?.code == .unknownEntity)
        try insert("one")
        try await run(tracker)
        #expect(messages.all.filter { $0.contains("“Forgotten”") } == [named])
        // Another program adds the entity: from then on it is observed.
        let newer = try Store(at: folder.path, entities: [Forgotten.self])
        try await newer.write(author: "share") { try $0.insert(Forgotten(n: 1)) }
        try newer.close()
        try await run(tracker)
        #expect(calls.all == ["note", "forgotten 1"])
        #expect(messages.all.filter { $0.contains("“Forgotten”") } == [named])
        try end()
    }

    @Test func anEntityWhoseHistoryIsOffIsNamedAtOnce() async throws {
        try store.changeSchema([.changeEntity("Label", history: .off)])
        let tracker = try tracker()
        tracker.observe(Label.self, [.insert], name: "mail") { _ in }
        func named() -> [String] { messages.all.filter { $0.hasPrefix("error: “Label” is observed, but its history") } }
        #expect(named().count == 1 && tracker.metrics.lastError?.code == .historyGap)
        try await store.write(author: "share") { try $0.insert(Label(name: "l")) }
        try insert("one")
        try await run(tracker)
        #expect(named().count == 1)
        // Each time that it is turned off the log names it once.
        try store.changeSchema([.changeEntity("Label", history: .full)])
        try insert("two")
        try await run(tracker)
        try store.changeSchema([.changeEntity("Label", history: .off)])
        try await store.write(author: "share") { try $0.insert(Label(name: "m")) }
        try insert("three")
        try await run(tracker)
        #expect(named().count == 2)
        try end()
    }
}
