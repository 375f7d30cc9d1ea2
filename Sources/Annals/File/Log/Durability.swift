// The condition that a commit waits for before it returns.

/// The moment at which a commit returns.
public enum Durability: Sendable, Hashable {
    /// When the transaction survives a power failure.
    case full
    /// When the transaction survives the death of the process. A sync follows in the background when one second or 16
    /// MiB have gathered. A power failure can remove the last transactions, but never leaves a hole.
    case relaxed
}
