// Which transactions a mirror carries.

extension Mirror {
    /// Which transactions a mirror carries.
    ///
    /// A group waits for each of its stores. So while a store does not receive, all others keep the history that it
    /// lacks, and while it does not publish, all keep the history after its first transaction that waits.
    public enum Direction: String, Sendable, Hashable, CaseIterable {
        /// Publishes the store's transactions, and merges those of the other stores.
        case both
        /// Only publishes. Transactions of the other stores are merged when the mirror runs with `both` again.
        case publish
        /// Only receives. Transactions of this store are published when the mirror runs with `both` again, or leaves.
        /// For a store that is only read.
        case receive
    }
}
