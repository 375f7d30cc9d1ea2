// Holding a background save on its way, and writing meanwhile.

import Annals
import TestSupport

/// Holds a store's thread for asynchronous writes: saves that come later are on their way until it opens.
final class Gate: @unchecked Sendable {
    // Sound: the monitor guards it.
    private let monitor = Monitor()
    private var isOpen = false
    private var isReached = false

    private func pass() {
        monitor.withLock {
            isReached = true
            monitor.signalAll()
            while !isOpen { monitor.wait() }
        }
    }

    func open() {
        monitor.withLock {
            isOpen = true
            monitor.signalAll()
        }
    }

    /// Holds the thread. Earlier writes are done when this returns.
    init(_ store: Store) {
        Task.detached { try await store.writeOptimistically { _ in self.pass() } }
        monitor.withLock { while !isReached { monitor.wait() } }
    }
}

/// Another writer, which does not give the actor away.
@discardableResult
func writeAtOnce<Result>(_ store: Store, _ body: (Transaction) throws -> Result) throws -> Result {
    try store.write(author: "other", body).result
}

/// The same, for what certainly changes something.
func writtenAtOnce(_ store: Store, _ body: (Transaction) throws -> Void) throws -> HistoryToken {
    guard let token = try store.write(author: "other", body).token else {
        throw OracleDifference("nothing was written")
    }
    return token
}
