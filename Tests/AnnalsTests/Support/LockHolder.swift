// Another writer, for as long as a test wants.

import Annals

/// Holds the writer lock on a thread of its own, until it is told to end.
final class LockHolder: Sendable {
    private let monitor = Monitor()
    private let isHeld = Guarded(false)
    private let isOver = Guarded(false)
    private let thread = Guarded<BackgroundThread?>(nil)

    init(_ path: String) throws {
        let other = try Store(at: path)
        let thread = try BackgroundThread(name: "holds") { [self] in
            _ = try? other.write { _ in
                isHeld.withLock { $0 = true }
                monitor.withLock {
                    monitor.signalAll()
                    while !isOver.withLock({ $0 }) { monitor.wait() }
                }
            }
            try? other.close()
        }
        self.thread.withLock { $0 = thread }
        monitor.withLock { while !isHeld.withLock({ $0 }) { monitor.wait() } }
    }

    func end() {
        monitor.withLock { isOver.withLock { $0 = true } }
        monitor.signalAll()
        thread.withLock { $0 }?.join()
    }
}
