// A thread of the library's own, for work that waits in system calls and so must not occupy a task's thread.

/// A running thread, which a caller can join.
///
/// If its object is released, the thread runs on. No signal handler of the program runs on it.
package final class BackgroundThread: Sendable {
    private enum State { case running, joining, ended }

    private let number: UInt
    /// A forked child has only the thread that forked it.
    private let process = OwnProcess()
    private let state = Guarded(State.running)

    /// - Parameter name: The name in debuggers; the system keeps the first 15 bytes.
    /// - Throws: `outOfMemory` if the system gives no more threads.
    package init(name: String, _ body: @escaping @Sendable () -> Void) throws(StoreError) {
        let shown = String(decoding: name.utf8.filter { $0 != 0 && $0 < 0x80 }.prefix(15), as: UTF8.self)
        do throws(SystemError) {
            number = try SystemCalls.startThread(name: shown, body)
        } catch { throw StoreError(error) }
    }

    deinit {
        if process.wasForked { return }
        if state.withLock({ $0 == .running }) { SystemCalls.detachThread(number) }
    }

    /// Waits until the thread has ended. Returns at once for later callers, on the thread itself, and after a fork.
    package func join() {
        guard !process.wasForked, !SystemCalls.isCurrentThread(number) else { return }
        let isFirst = state.withLock { state in
            defer { if state == .running { state = .joining } }
            return state == .running
        }
        guard isFirst else { return }
        SystemCalls.joinThread(number)
        state.withLock { $0 = .ended }
    }
}
