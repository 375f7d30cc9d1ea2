// Commits and writes from tasks: none of them occupies a thread of the cooperative pool, and a cancelled one writes
// nothing.

import Annals
import Foundation
import Testing

@Suite struct AsyncWriteTests {
    private let folder: StoreFolder
    private let store: Store

    init() throws {
        folder = try StoreFolder()
        // Longer than the whole suite: while all tests run, a task may wait minutes for its turn in the pool, and the
        // thread that holds the lock waits for the task.
        store = try folder.open([
            EntityDescription("Clip", attributes: [AttributeDescription("rank", .int)])
        ]) { $0.lockTimeout = .seconds(1200) }
    }

    /// Ends the test: the store holds so many objects, and is intact.
    private func end(_ objects: Int) throws {
        #expect(try store.snapshot().count(of: "Clip") == objects)
        try store.close()
        try folder.expectIntact()
    }

    @Test func theResultAndTheTokenAreReturned() async throws {
        let (object, token) = try await store.writeOptimistically(author: "a") { try $0.insert("Clip", ["rank": 1]) }
        #expect(try store.currentToken == token)
        let (value, second) = try await store.write(contextName: "c") { transaction in
            try transaction.update(object, ["rank": 2])
            return 7
        }
        #expect(value == 7 && second?.number == (token?.number ?? 0) + 1)
        #expect(try await store.writeOptimistically { _ in "nothing" }.token == nil)
        try await store.write { try $0.delete(object) }
        try end(0)
    }

    @Test func errorsAreThrownUnchanged() async throws {
        struct Own: Error {}
        await #expect(throws: Own.self) { try await store.writeOptimistically { _ in throw Own() } }
        var taken = false
        do {
            try await store.write { try $0.insert("None", [:]) }
        } catch let error as StoreError where error.code == .unknownEntity {
            taken = true
        }
        #expect(taken)
        try await store.write { transaction in
            #expect(throws: StoreError.self) { try store.writeOptimistically { try $0.insert("Clip", [:]) } }
            try transaction.insert("Clip", [:])
        }
        try end(1)
    }

    @Test func concurrentWritesAreAllCommitted() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask {
                    if number.isMultiple(of: 2) {
                        try await store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
                    } else {
                        try await store.write { try $0.insert("Clip", ["rank": 1]) }
                    }
                }
            }
            try await group.waitForAll()
        }
        try end(200)
    }

    /// More tasks wait for the lock than the pool has threads; another task of the pool goes on.
    @Test(.timeLimit(.minutes(20))) func theThreadPoolContinuesWhileWritesWait() async throws {
        let holder = try LockHolder(folder.path)
        let store = store
        let count = ProcessInfo.processInfo.activeProcessorCount * 4
        let writes = (0..<count).map { _ in
            Task { _ = try await store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) } }
        }
        // With the pool's threads blocked it would never come back.
        for _ in 0..<20 { await Task.detached { try? await Task.sleep(for: .milliseconds(5)) }.value }
        #expect(try store.snapshot().count(of: "Clip") == 0)
        holder.end()
        for write in writes { try await write.value }
        try end(count)
    }

    @Test(.timeLimit(.minutes(20)), arguments: [false, true])
    func aWriteCancelledWhileItWaitsWritesNothing(inWrite: Bool) async throws {
        let before = try store.currentToken
        let holder = try LockHolder(folder.path)
        let store = store
        let writes = (0..<8).map { _ in
            Task {
                _ =
                    inWrite
                    ? try await store.write { try $0.insert("Clip", ["rank": 1]) }
                    : try await store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
            }
        }
        for write in writes { write.cancel() }
        // They end while the lock is still held.
        for write in writes { await #expect(throws: CancellationError.self) { try await write.value } }
        holder.end()
        // The next turn comes after theirs.
        try await store.writeOptimistically { _ in }
        #expect(try store.currentToken == before)
        try end(0)
    }

    /// A commit whose body has run already waits for the lock only.
    @Test(.timeLimit(.minutes(20))) func aCommitCanBeCancelledAfterItsBody() async throws {
        let holder = try LockHolder(folder.path)
        let store = store
        let hasRun = AsyncStream<Void>.makeStream()
        let write = Task {
            _ = try await store.writeOptimistically { transaction in
                try transaction.insert("Clip", ["rank": 1])
                hasRun.continuation.yield()
            }
        }
        for await _ in hasRun.stream { break }
        write.cancel()
        await #expect(throws: CancellationError.self) { try await write.value }
        holder.end()
        try await store.writeOptimistically { _ in }
        try end(0)
    }

    /// A consumer that a transaction moves, without any change of its own, stays where it is too.
    @Test(.timeLimit(.minutes(20))) func aCancelledAdvanceMovesNoConsumer() async throws {
        let store = store
        let start = try store.registerConsumer("reader").cursor
        try await store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
        let token = try store.currentToken
        let holder = try LockHolder(folder.path)
        let hasRun = AsyncStream<Void>.makeStream()
        let write = Task {
            _ = try await store.writeOptimistically { transaction in
                try transaction.advanceConsumer("reader", from: start, to: token)
                hasRun.continuation.yield()
            }
        }
        for await _ in hasRun.stream { break }
        write.cancel()
        await #expect(throws: CancellationError.self) { try await write.value }
        holder.end()
        try await store.writeOptimistically { _ in }
        #expect(try store.consumers.map(\.cursor) == [start])
        try end(1)
    }

    @Test func aCancelledWriteWaitsForItsBodyAndWritesNothing() async throws {
        let store = store
        let isInBody = AsyncStream<Void>.makeStream()
        let mayEnd = Guarded(false)
        let hasEnded = Guarded(false)
        let write = Task {
            _ = try await store.write { transaction in
                isInBody.continuation.yield()
                while !mayEnd.withLock({ $0 }) { usleep(1000) }
                try transaction.insert("Clip", ["rank": 1])
                hasEnded.withLock { $0 = true }
            }
        }
        for await _ in isInBody.stream { break }
        write.cancel()
        mayEnd.withLock { $0 = true }
        await #expect(throws: CancellationError.self) { try await write.value }
        #expect(hasEnded.withLock { $0 })
        try end(0)
    }

    @Test func aTaskThatIsCancelledAlreadyWritesNothing() async throws {
        let store = store
        let write = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await store.writeOptimistically { try $0.insert("Clip", ["rank": 1]) }
        }
        await #expect(throws: CancellationError.self) { try await write.value }
        try end(0)
    }

    @Test func callsOfAClosedStoreThrow() async throws {
        try store.close()
        await expect(.closed) { try await store.writeOptimistically { try $0.insert("Clip", [:]) } }
        await expect(.closed) { try await store.write { try $0.insert("Clip", [:]) } }
        try folder.expectIntact()
    }
}
