// Waiting for a token's transaction: from another process, durable or not, in time or not.

import Annals
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct WaitUntilTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    /// What another process commits, waited for before it begins, and the token that it gives.
    private func committed(
        by store: Store, durability: String, _ wait: @Sendable @escaping (HistoryToken) async throws -> Void
    ) async throws {
        let begun = try store.currentToken.number
        let other = try RunningTool(["commit", folder.path, "20", "other", durability], name: "crash-helper")
        let words = try #require(other.line()).split(separator: " ")
        let (number, tag) = (try #require(UInt64(words[0])), try #require(UInt64(words[1])))
        #expect(number == begun + 20)
        try await wait(HistoryToken(storeIdentifier: store.identifier, number: number, tag: tag))
        #expect(other.end().status == 0)
    }

    private func made() throws -> Store { try folder.open([ChangeSignalTests.clip]) }

    /// Whoever asks looks at one state, and others clean beyond it meanwhile.
    @Test func theDurableTokenCanBeReadDuringCleaning() throws {
        let store = try folder.open([Sample.clip]) { $0.durability = .relaxed }
        let isDone = Atomic(false)
        let threads = try (0..<2).map { number in
            try BackgroundThread(name: "cleans \(number)") {
                while !isDone.load(ordering: .relaxed) {
                    for _ in 0..<3 { _ = try? store.writeOptimistically { try $0.insert("Clip", ["title": "t"]) } }
                    _ = try? store.deleteHistory(before: .max)
                }
            }
        }
        var last: UInt64 = 0
        for _ in 0..<2000 {
            let token = try store.durableToken
            #expect(token.number >= last)
            last = token.number
            // It may lie after where history begins, and is a place of this store.
            do { try store.validate(token) } catch { #expect((error as? StoreError)?.code == .tokenExpired) }
        }
        isDone.store(true, ordering: .relaxed)
        for thread in threads { thread.join() }
        try store.close()
        try folder.expectIntact()
    }

    /// Cleaning says nothing of durability. Where a second passes in between, a sync in the background makes all of it
    /// durable: so more than once.
    @Test func cleaningDoesNotMakeTransactionsDurable() throws {
        let isAhead = try (0..<5).contains { (_) in
            let folder = try StoreFolder()
            let store = try folder.open([Sample.clip]) { $0.durability = .relaxed }
            for _ in 0..<3 { try store.writeOptimistically { try $0.insert("Clip", ["title": "t"]) } }
            try store.deleteHistory(before: .max)
            let isAhead = try store.durableToken < store.currentToken
            try store.close()
            try folder.expectIntact()
            return isAhead
        }
        #expect(isAhead)
    }

    @Test func waitingForAnExistingTransactionEndsAtOnce() async throws {
        let store = try made()
        try store.waitHere(store.currentToken, timeout: .zero)
        try store.waitHere(store.currentToken, durable: true, timeout: .zero)
        try await store.waitUntil(store.currentToken, durable: true, timeout: .zero)
        #expect(try store.durableToken == store.currentToken)
        try store.close()
        try folder.expectIntact()
    }

    @Test func waitingEndsWithACommitOfAnotherProcess() async throws {
        let store = try made()
        // The token that the other process will give is known only afterwards: a thread and a task wait for its number.
        let thread = try BackgroundThread(name: "waits") {
            #expect(throws: Never.self) { _ = try store.changeWatcher(after: .number(0)).next() }
        }
        try await committed(by: store, durability: "relaxed") { token in
            try store.waitHere(token)
            try await store.waitUntil(token)
            #expect(try store.currentToken >= token)
        }
        thread.join()
        try store.close()
        try folder.expectIntact()
    }

    /// Before the transaction is there, waiting ends by its arrival.
    @Test func waitingEndsWhenALaterTransactionArrives() async throws {
        let (store, other) = (try made(), try folder.open())
        let task = Task { () async throws -> UInt64 in
            var iterator = try store.changes(after: .number(0)).makeAsyncIterator()
            var last: UInt64 = 0
            while last < 3, let signal = try await iterator.next() { last = signal.numbers.upperBound }
            return last
        }
        // The tag of what is to come is not known: a wrong one is found out when it has come.
        let expected = HistoryToken(storeIdentifier: store.identifier, number: 3, tag: 1)
        let until = Task { try await store.waitUntil(expected) }
        let blocked = try BackgroundThread(name: "waits") {
            expect(.tokenDiverged) { try store.waitHere(expected) }
        }
        for _ in 0..<2 { try await other.writeOptimistically { try $0.insert("Clip", ["title": "t"]) } }
        await expect(.tokenDiverged) { try await until.value }
        blocked.join()
        #expect(try await task.value == 3)
        try store.close()
        try other.close()
        try folder.expectIntact()
    }

    @Test func aWriterThatWaitsMakesTheTransactionDurable() async throws {
        let store = try made()
        for round in 0..<2 {
            try await committed(by: store, durability: "relaxed") { token in
                if round == 0 {
                    try store.waitHere(token, durable: true)
                } else {
                    try await store.waitUntil(token, durable: true)
                }
                #expect(try store.durableToken >= token)
            }
        }
        // One that was opened later has to write again what is not proved.
        _ = try await committed(by: store, durability: "relaxed") { _ in }
        let late = try folder.open()
        try late.waitHere(late.currentToken, durable: true)
        #expect(try late.durableToken == late.currentToken)
        try late.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func aReaderWaitsUntilTheFileProvesDurability() async throws {
        let store = try made()
        let reader = try folder.open { $0.access = .readOnly }
        try await store.writeOptimistically { try $0.insert("Clip", ["title": "t"]) }
        let token = try store.currentToken
        try reader.waitHere(token)
        expect(.durabilityUnknown) { try reader.waitHere(token, durable: true, timeout: .milliseconds(5)) }
        let task = Task { try await reader.waitUntil(token, durable: true) }
        // A full commit proves it, the next one says so.
        for _ in 0..<2 {
            try await store.writeOptimistically(durability: .full) { try $0.insert("Clip", ["title": "u"]) }
        }
        try await task.value
        try reader.waitHere(token, durable: true)
        #expect(try reader.durableToken >= token)
        try reader.close()
        try store.close()
        try folder.expectIntact()
    }

    @Test func waitingForAMissingTransactionTimesOut() async throws {
        let store = try made()
        let next = HistoryToken(storeIdentifier: store.identifier, number: 2, tag: 0)
        let before = RealEnvironment().monotonicMicroseconds()
        expect(.timeout) { try store.waitHere(next, timeout: .milliseconds(30)) }
        await expect(.timeout) { try await store.waitUntil(next, durable: true, timeout: .milliseconds(30)) }
        #expect(RealEnvironment().monotonicMicroseconds() - before >= 60_000)
        let foreign = HistoryToken(storeIdentifier: UUID(), number: 1, tag: 0)
        expect(.tokenForeign) { try store.waitHere(foreign) }
        await expect(.tokenForeign) { try await store.waitUntil(foreign) }
        let diverged = HistoryToken(storeIdentifier: store.identifier, number: 1, tag: 0)
        expect(.tokenDiverged) { try store.waitHere(diverged) }
        try store.close()
        try folder.expectIntact()
    }

    // MARK: States

    @Test func aWatcherReturnsTheNewestStateAfterAToken() async throws {
        let store = try made()
        let other = try folder.open([ChangeSignalTests.clip])
        let watcher = try store.snapshotWatcher()
        let start = try store.currentToken
        // Transactions that are there already are returned at once.
        for _ in 0..<3 { try await other.write { try $0.insert("Clip", ["title": "t"]) } }
        let first = try #require(try await watcher.next(after: start))
        #expect(try first.count(of: "Clip") == 3)
        // Cleaning does not disturb it. It waits for the next commit.
        try other.deleteHistory(before: .max)
        let last = first.token
        let writing = Task { try await other.write { try $0.insert("Clip", ["title": "t"]) } }
        let second = try #require(try await watcher.next(after: last))
        #expect(try second.token.number > last.number && second.count(of: "Clip") == 4)
        _ = try await writing.value
        await expect(.tokenForeign) {
            _ = try await watcher.next(after: HistoryToken(storeIdentifier: UUID(), number: 1, tag: 0))
        }
        // After `stop`, a waiting call and later calls return nil.
        let waiting = Task { try await watcher.next(after: second.token) == nil }
        watcher.stop()
        #expect(try await waiting.value)
        #expect(try await watcher.next(after: start) == nil)
        let cancelled = Task { try await store.snapshotWatcher().next(after: second.token) == nil }
        cancelled.cancel()
        #expect(try await cancelled.value)
        for store in [store, other] { try store.close() }
        try folder.expectIntact()
    }

    // MARK: Cursors

    @Test func severalCursorsMoveTogetherOrNotAtAll() throws {
        let store = try made()
        for name in ["a", "b"] { try store.registerConsumer(name) }
        let start = try store.currentToken
        try store.write { try $0.insert("Clip", ["title": "t"]) }
        let end = try store.currentToken
        func cursors() throws -> [HistoryToken?] { try ["a", "b"].map { try store.consumer($0)?.cursor } }
        expect(.consumerConflict) { try store.advanceConsumers(["a": (start, end), "b": (end, end)]) }
        expect(.consumerUnknown) { try store.advanceConsumers(["a": (start, end), "none": (start, end)]) }
        #expect(try cursors() == [start, start])
        let holder = try LockHolder(folder.path)
        expect(.busy) { try store.advanceConsumers(["a": (start, end), "b": (start, end)], timeout: .zero) }
        holder.end()
        #expect(try cursors() == [start, start])
        try store.advanceConsumers(["a": (start, end), "b": (start, end)], timeout: .zero)
        #expect(try cursors() == [end, end])
        try store.advanceConsumers([:])
        try store.close()
        try folder.expectIntact()
    }
}

extension Store {
    /// On the calling thread also in a task, where the asynchronous form of the same name would be taken.
    fileprivate func waitHere(
        _ token: HistoryToken, durable: Bool = false, timeout: Duration? = nil
    ) throws {
        try waitUntil(token, durable: durable, timeout: timeout)
    }
}
