// A mutex with a condition: threads wait until another thread signals a change.

/// Mutual exclusion with waiting, which `Mutex` does not have.
///
/// Within one process only. Its user documents the state that it guards. It is not recursive. A waiting thread looks at
/// its condition again after every return from `wait`: a return proves nothing.
package final class Monitor: Sendable {
    private let memory = SystemCalls.makeMonitor()

    package init() {}

    deinit { SystemCalls.destroy(memory) }

    package func lock() { SystemCalls.lock(memory) }

    /// The same, but waits no longer than that.
    ///
    /// - Returns: whether the caller has the lock.
    package func lock(timeoutMicroseconds: UInt64) -> Bool {
        SystemCalls.lock(memory, timeoutMicroseconds: timeoutMicroseconds)
    }

    package func unlock() { SystemCalls.unlock(memory) }

    package func withLock<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        lock()
        defer { unlock() }
        return try body()
    }

    /// Releases the lock until a signal. The caller holds it before and after.
    package func wait() { SystemCalls.wait(memory) }

    /// The same, but not beyond a moment of the monotonic clock (`Environment.monotonicMicroseconds`).
    ///
    /// - Returns: false when the moment has passed.
    package func wait(untilMonotonicMicroseconds deadline: UInt64) -> Bool {
        SystemCalls.wait(memory, untilMonotonicMicroseconds: deadline)
    }

    /// Wakes all waiting threads, once they can have the lock. The caller may hold it or not.
    package func signalAll() { SystemCalls.signalAll(memory) }
}
