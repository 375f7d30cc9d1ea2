// The queue of asynchronous writes. They run on the queue's own thread, so that no thread of the cooperative pool
// waits.

internal import Synchronization

/// Runs the asynchronous writes of one store one after the other, in the order in which they came.
///
/// The thread starts with the first write, and ends after a second without one. It does not keep the store alive: the
/// writes do.
///
/// Sound although it is shared: its state is used only with `monitor` locked.
final class WriteQueue: @unchecked Sendable {
    private static let idleMicroseconds: UInt64 = 1_000_000

    private let monitor = Monitor()
    private let process = OwnProcess()
    private var writes: [@Sendable () -> Void] = []
    private var hasThread = false

    /// Throws `forked` in a child process, which lacks the thread, and `outOfMemory` if no thread can be started.
    func add(_ write: @escaping @Sendable () -> Void) throws(StoreError) {
        if process.wasForked { throw process.refusal() }
        try monitor.withLock { () throws(StoreError) in
            if !hasThread {
                // The thread ends by itself.
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

    /// All waiting writes; nil if none came for a while. Then the thread ends.
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

/// One asynchronous write, from the call to its end. It is either cancelled or appended, never both.
final class AsyncWrite<Result: Sendable>: Sendable {
    private enum Phase {
        /// Waiting for its turn, or for the writer lock.
        case waiting
        case inBody
        /// Being appended: it can no longer be cancelled.
        case appending
    }

    private struct State {
        var phase = Phase.waiting
        var isCancelled = false
        var continuation: CheckedContinuation<Result, any Error>?
    }

    private let state = Guarded(State())

    /// Queues the write before it releases the caller's actor, and waits for its result. Calls `body` once on the
    /// queue's thread, unless the task is cancelled first.
    func run(
        in queue: WriteQueue, isolation: isolated (any Actor)? = #isolation,
        _ body: @escaping @Sendable (AsyncWrite) throws -> Result
    ) async throws -> Result {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation(isolation: isolation) { continuation in
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

    /// Resumes the task, unless cancellation has resumed it already.
    private func end(with result: Swift.Result<Result, any Error>) {
        let continuation = state.withLock { state in
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(with: result)
    }

    /// Does not interrupt a running body: it may use things that the task uses after this call.
    private func cancel() {
        let isWaiting = state.withLock { state in
            state.isCancelled = true
            return state.phase == .waiting
        }
        if isWaiting { end(with: .failure(CancellationError())) }
    }

    /// Prevents the write from being appended. False if it is being appended, or is over. The task then gets
    /// `CancellationError`.
    func recall() -> Bool {
        let phase = state.withLock { state in
            if state.phase != .appending { state.isCancelled = true }
            return state.phase
        }
        if phase == .waiting { end(with: .failure(CancellationError())) }
        return phase != .appending
    }

    // MARK: Called by the transaction

    /// Runs the transaction's body. Throws `CancellationError` if the task was cancelled before or during the body.
    func runBody<Value>(_ body: () throws -> Value) throws -> Value {
        try enter(.inBody)
        let value = try body()
        try enter(.waiting)
        return value
    }

    /// From here on the write cannot be cancelled. Called under the writer lock.
    func beginAppending() throws { try enter(.appending) }

    private func enter(_ phase: Phase) throws {
        try state.withLock { state in
            if state.isCancelled { throw CancellationError() }
            state.phase = phase
        }
    }
}
