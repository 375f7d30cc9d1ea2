// The process that holds the writer lock, as a value of an error.

public import FoundationEssentials

extension StoreError {
    /// The process that holds the writer lock.
    public struct LockHolder: Hashable, Sendable {
        /// The process ID, as the holder's own system assigned it.
        public let processID: UInt32
        /// When it took the lock, by its own clock.
        public let since: Date
    }

    /// For `busy`: the process that held the lock for too long. Nil if another thread of this process or a foreign
    /// program held it, and for other errors.
    public var lockHolder: LockHolder? {
        (facts as? LockFacts).map {
            LockHolder(processID: $0.processID, since: Microseconds.date($0.sinceMicroseconds))
        }
    }
}
