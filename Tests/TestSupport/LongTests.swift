// Tests that take long, beside others.

private import Dispatch

/// Work of many seconds.
package enum LongTests {
    /// Has a thread of its own.
    private static let queue = DispatchQueue(label: "long tests")

    /// Runs work. Beside other tests it is done one piece after the other, on a thread of its own: on the threads of
    /// the pool, tests that change threads often, such as those of contexts, would wait each time for the end of a
    /// piece.
    package static func run<Result: Sendable>(
        besideOthers: Bool, _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        guard besideOthers else { return try work() }
        return try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try work() }) }
        }
    }
}
