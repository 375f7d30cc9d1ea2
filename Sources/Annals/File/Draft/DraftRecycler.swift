// Keeps one ended transaction for the next one: allocating its memory would cost more than writing a row.

internal import Synchronization

/// At most one ended transaction. Any thread may call it.
///
/// Sound although it holds a pointer: it owns the object. The caller that exchanges the address becomes the only owner.
struct DraftRecycler: ~Copyable, Sendable {
    /// The address of the object; 0 for none.
    private let address = Atomic<UInt>(0)

    deinit { _ = pop() }

    func pop() -> Draft? { Self.owned(address.exchange(0, ordering: .acquiring)) }

    /// Keeps a transaction without other references. Releases the one kept before.
    func put(_ transaction: Draft) {
        let kept = UInt(bitPattern: Unmanaged.passRetained(transaction).toOpaque())
        _ = Self.owned(address.exchange(kept, ordering: .acquiringAndReleasing))
    }

    private static func owned(_ address: UInt) -> Draft? {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        return Unmanaged<Draft>.fromOpaque(pointer).takeRetainedValue()
    }
}
