// Keeps one transaction that has ended, so that the next one need not ask for memory: for one row that costs more than
// the row.

internal import Synchronization

/// At most one ended transaction. Any thread may call it.
///
/// Sound although it holds a pointer: it owns the object it points to, and whoever exchanges the address for another
/// becomes the only owner.
struct TransactionRecycler: ~Copyable, Sendable {
    /// The address of the object; 0 for none.
    private let address = Atomic<UInt>(0)

    deinit { _ = pop() }

    func pop() -> PendingTransaction? { Self.owned(address.exchange(0, ordering: .acquiring)) }

    /// Keeps a transaction that nobody else refers to, in place of the one that was kept before.
    func put(_ transaction: PendingTransaction) {
        let kept = UInt(bitPattern: Unmanaged.passRetained(transaction).toOpaque())
        _ = Self.owned(address.exchange(kept, ordering: .acquiringAndReleasing))
    }

    private static func owned(_ address: UInt) -> PendingTransaction? {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        return Unmanaged<PendingTransaction>.fromOpaque(pointer).takeRetainedValue()
    }
}
