// Where asynchronous writes wait for their turn: a thread of their own, so that none of the cooperative pool waits.

internal import Synchronization

/// Runs asynchronous writes of one store, one after the other, in the order in which they came.
///
/// The thread starts with the first write, and ends when none has come for a second. It does not keep the store alive:
/// the writes do.
///
/// Sound although it is shared: everything that changes is touched only with `monitor` locked.
final class WriteQueue: @unchecked Sendable {
    private static let idleMicroseconds: UInt64 = 1_000_000

    private let monitor = Monitor()
    private let process = OwnProcess()
    private var writes: [@Sendable () -> Void] = []
    private var hasThread = false

    /// Throws `forked` in a child, which does not have the thread, and `outOfMemory` if no thread can be started.
    func add(_ write: @escaping @Sendable () -> Void) throws(StoreError) {
        if process.wasForked { throw process.refusal() }
        try monitor.withLock { () throws(StoreError) in
            if !hasThread {
                // It ends by itself.
                _ = try BackgroundThread(name: "annals-write") { self.runWrites() }
                hasThread = true
            }
            writes.append(write)
            monitor.signalAll()
        }
    }

    private func runWrites() {
        while let next = nextWrites() {
            for write in next { write() }
        }
    }

    /// All that have come; nil if none came for a while, and then the thread ends.
    private func nextWrites() -> [@Sendable () -> Void]? {
        monitor.withLock {
            let deadline = SystemCalls.monotonicMicroseconds() &+ Self.idleMicroseconds
            while writes.isEmpty {
                if !monitor.wait(untilMonotonicMicroseconds: deadline), writes.isEmpty {
                    hasThread = false
                    return nil
                }
            }
            defer { writes = [] }
            return writes
        }
    }
}

/// One asynchronous write, from the call to its end. It decides between cancelling and appending: only one of them
/// happens.
final class AsyncWrite<Result: Sendable>: Sendable {
    private enum Phase {
        /// For its turn, or for the writer lock.
        case waiting
        case inBody
        /// It is appended now, whatever comes.
        case appending
    }

    private struct State {
        var phase = Phase.waiting
        var isCancelled = false
        var continuation: CheckedContinuation<Result, any Error>?
    }

    private let state = Guarded(State())

    /// Queues the write, and waits for its result. `body` is called once on the queue's thread, unless the task is
    /// cancelled before.
    func run(in queue: WriteQueue, _ body: @escaping @Sendable (AsyncWrite) throws -> Result) async throws -> Result {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                state.withLock { $0.continuation = continuation }
                do throws(StoreError) {
                    if state.withLock({ $0.isCancelled }) { return end(with: .failure(CancellationError())) }
                    try queue.add { self.takeTurn(body) }
                } catch {
                    end(with: .failure(error))
                }
            }
        } onCancel: {
            cancel()
        }
    }

    private func takeTurn(_ body: (AsyncWrite) throws -> Result) {
        if state.withLock({ $0.isCancelled }) { return end(with: .failure(CancellationError())) }
        do {
            end(with: .success(try body(self)))
        } catch {
            end(with: .failure(error))
        }
    }

    /// Resumes the task, unless cancelling has done so.
    private func end(with result: Swift.Result<Result, any Error>) {
        let continuation = state.withLock { state in
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(with: result)
    }

    /// A body that runs is waited for: it may use what the task goes on to use.
    private func cancel() {
        let isWaiting = state.withLock { state in
            state.isCancelled = true
            return state.phase == .waiting
        }
        if isWaiting { end(with: .failure(CancellationError())) }
    }

    // MARK: What the transaction tells

    /// Runs the transaction's body. Throws `CancellationError` if the task was cancelled before or meanwhile.
    func runBody<Value>(_ body: () throws -> Value) throws -> Value {
        try enter(.inBody)
        let value = try body()
        try enter(.waiting)
        return value
    }

    /// From here on it is not cancelled any more. With the writer lock.
    func beginAppending() throws { try enter(.appending) }

    private func enter(_ phase: Phase) throws {
        try state.withLock { state in
            if state.isCancelled { throw CancellationError() }
            state.phase = phase
        }
    }
}
