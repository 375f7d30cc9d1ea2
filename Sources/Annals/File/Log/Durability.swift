// The condition that a commit waits for before it returns.

/// When a commit returns.
public enum Durability: Sendable, Hashable {
    /// When the transaction survives the loss of power.
    case full
    /// When the transaction survives the death of the process. A sync follows in the background when one second or 16
    /// MiB have gathered. Power loss can take a suffix of the transactions, and never leaves a hole.
    case relaxed
}
