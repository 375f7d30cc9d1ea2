// A value and the mutex that guards it.

/// Lends its value to one thread at a time.
///
/// Used instead of the standard library's `Mutex`, which the thread sanitizer does not know: it reports everything that
/// a `Mutex` guards as a race. Within one process only, and not recursive.
///
/// A structure, which lies in the object that owns it: the first use of each generic class makes its type at run time,
/// which would be a hundredth of opening a store.
///
/// Sound although it is shared: the value is touched only with the mutex locked, or by `deinit`.
package struct Guarded<State>: ~Copyable, @unchecked Sendable {
    private let mutex = SystemCalls.makeMonitor()
    private let value: UnsafeMutablePointer<State>

    package init(_ value: consuming sending State) {
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
    }

    deinit {
        value.deinitialize(count: 1)
        value.deallocate()
        SystemCalls.destroy(mutex)
    }

    package func withLock<Result, Failure: Error>(
        _ body: (inout sending State) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        SystemCalls.lock(mutex)
        defer { SystemCalls.unlock(mutex) }
        return try body(&value.pointee)
    }
}
