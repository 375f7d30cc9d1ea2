// Commits a transaction that a test has made frame by frame, without an engine.

package import Annals

extension Log {
    /// Appends a transaction and, with `.full`, waits until it is durable.
    @discardableResult
    package func commit(
        _ transaction: DraftFrames, durability: Durability = .full
    ) throws(StoreError) -> AppendedTransaction {
        try whileOpen { () throws(StoreError) in
            let appended = try appendWhileOpen(transaction, durability)
            if durability == .full { try synchronize(through: appended.end) }
            return appended
        }
    }

    /// The first half of a commit: afterwards every process sees the transaction.
    @discardableResult
    package func append(
        _ transaction: DraftFrames, durability: Durability
    ) throws(StoreError) -> AppendedTransaction {
        try whileOpen { () throws(StoreError) in try appendWhileOpen(transaction, durability) }
    }

    private func appendWhileOpen(
        _ transaction: DraftFrames, _ durability: Durability
    ) throws(StoreError) -> AppendedTransaction {
        try transaction.complete()
        return try locked(durability, isHeld: true, mayKeepLock: true) { (appender) throws(StoreError) in
            try append(transaction.prepared, with: appender)
        }
    }
}
