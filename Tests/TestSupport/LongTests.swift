// Tests that take long, beside others.

private import Dispatch
private import Synchronization

/// Work of many seconds.
package enum LongTests {
    /// Each has a thread of its own.
    private static let queues = [DispatchQueue(label: "long tests"), DispatchQueue(label: "other long tests")]
    private static let count = Atomic<Int>(0)

    /// Runs work. Beside other tests it is done on two threads of its own: on the threads of the pool, tests that
    /// change threads often, such as those of contexts, would wait each time for the end of a piece.
    package static func run<Result: Sendable>(
        besideOthers: Bool, _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        guard besideOthers else { return try work() }
        let queue = queues[count.add(1, ordering: .relaxed).oldValue % queues.count]
        return try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}
