// The thread that ends a mirror's wait for messages when its store changes.
//
// Invariants:
// MN1  The thread looks at the store only while the mirror waits. While a mirror is busy, commits wake no thread.
// MN2  A transaction after the number with which the wait began ends the wait.

internal import Annals

final class MirrorSignals: Sendable {
    private let store: Store
    private let interruption: Interruption
    private let monitor = Monitor()
    /// With `monitor` locked.
    private nonisolated(unsafe) var state = State()

    private struct State {
        /// The last transaction that the waiting mirror knows; nil while it does not wait.
        var known: UInt64?
        var watcher: StateWatcher?
        var isEnding = false
    }

    private static let retryMicroseconds: UInt64 = 1_000_000

    /// Throws `outOfMemory` if the system gives no more threads.
    init(_ store: Store, _ interruption: Interruption) throws {
        (self.store, self.interruption) = (store, interruption)
        _ = try BackgroundThread(name: "annals-signals") { self.run() }
    }

    /// The mirror begins to wait. Anything newer than the store's present state ends the wait.
    func begin() {
        // An error shows itself to the mirror: its wait ends at once.
        let known = (try? store.snapshot().token.number) ?? 0
        monitor.withLock { state.known = known }
        monitor.signalAll()
    }

    /// The mirror's wait is over.
    func end() { monitor.withLock { state.known = nil } }

    /// Ends the thread, sooner or later.
    func stop() {
        let watcher = monitor.withLock {
            state.isEnding = true
            return state.watcher
        }
        watcher?.stop()
        monitor.signalAll()
    }

    // MARK: The thread

    private func run() {
        while let known = nextWait() {
            do {
                guard let token = try watcher()?.next(after: known) else { continue }
                let isWaiting = monitor.withLock {
                    defer { if let known = state.known { state.known = max(known, token.number) } }
                    return state.known != nil
                }
                if isWaiting { interruption.interrupt() }
                // The mirror needs that before it publishes, and prepares its messages meanwhile.
                try store.waitUntil(token, durable: true)
            } catch {
                // The mirror meets it, too. It is another file perhaps.
                monitor.withLock {
                    state.watcher = nil
                    guard !state.isEnding else { return }
                    _ = monitor.wait(
                        untilMonotonicMicroseconds: RealEnvironment().monotonicMicroseconds() &+ Self.retryMicroseconds)
                }
            }
        }
    }

    /// Waits until the mirror does. Nil at the end.
    private func nextWait() -> UInt64? {
        monitor.withLock {
            while true {
                if state.isEnding { return nil }
                if let known = state.known { return known }
                monitor.wait()
            }
        }
    }

    private func watcher() throws -> StateWatcher? {
        if let watcher = monitor.withLock({ state.watcher }) { return watcher }
        let new = try StateWatcher(store)
        return monitor.withLock {
            guard !state.isEnding else { return nil }
            state.watcher = new
            return new
        }
    }
}
