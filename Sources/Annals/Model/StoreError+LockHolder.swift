// The process that has kept a writer waiting, as a value.

public import FoundationEssentials

extension StoreError {
    /// The process that holds the writer lock.
    public struct LockHolder: Hashable, Sendable {
        /// As the holder's own process namespace counts.
        public let processID: UInt32
        /// When it took the lock, by its own clock.
        public let since: Date
    }

    /// Of `busy`: the process that did not finish in time. Nil if another thread of this process or a foreign program
    /// held the lock, and for other errors.
    public var lockHolder: LockHolder? {
        (facts as? LockFacts).map {
            LockHolder(processID: $0.processID, since: Microseconds.date($0.sinceMicroseconds))
        }
    }
}
