// The background thread of a handle, and its waits.

internal import Synchronization

/// Runs a step on a thread of its own, again and again, until it is stopped.
///
/// Sound although it is shared: variables are touched only with `monitor` locked.
package final class BackgroundWork: @unchecked Sendable {
    package enum Next {
        /// Nothing to do until `wake` is called.
        case wait
        /// Again at this moment of the monotonic clock, or when `wake` is called.
        case again(at: UInt64)
    }

    private let monitor = Monitor()
    /// Whether the thread was started. Atomic, because every commit reads it.
    private let hasStarted = Atomic<Bool>(false)
    private var thread: BackgroundThread?
    private var isStopping = false
    private var isWoken = false

    var isStarted: Bool { hasStarted.load(ordering: .acquiring) }

    /// Starts the thread, once. `step` must not retain the object that stops it.
    func start(name: String, _ step: @escaping @Sendable () -> Next) throws(StoreError) {
        try monitor.withLock { () throws(StoreError) in
            guard thread == nil, !isStopping else { return }
            thread = try BackgroundThread(name: name) { [self] in
                while !isOver(after: step()) {}
            }
            hasStarted.store(true, ordering: .releasing)
        }
    }

    /// Waits as the step requested. The check and the wait share one lock, so that no wake is missed.
    private func isOver(after next: Next) -> Bool {
        monitor.withLock {
            while !isStopping && !isWoken {
                guard case .again(let moment) = next else {
                    monitor.wait()
                    continue
                }
                if !monitor.wait(untilMonotonicMicroseconds: moment) { break }
            }
            isWoken = false
            return isStopping
        }
    }

    func wake() {
        monitor.withLock {
            isWoken = true
            monitor.signalAll()
        }
    }

    func stop() {
        monitor.withLock {
            isStopping = true
            monitor.signalAll()
        }
    }

    /// Waits until the thread has ended.
    func join() { monitor.withLock { thread }?.join() }
}
