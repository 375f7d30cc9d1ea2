// A value of which each process has its own. A forked child gets a new one.

internal import Synchronization

/// A value that is made when it is first needed, once in each process.
///
/// A child replaces its parent's without taking a lock, because a thread of the parent may have held that lock at the
/// fork. Values are never freed.
package final class PerProcess<Item: Sendable>: Sendable {
    private final class Made: Sendable {
        let process = OwnProcess()
        let value: Item
        init(_ value: Item) { self.value = value }
    }

    /// The address of the newest value; 0 for none.
    private let current = Atomic<UInt>(0)
    private let make: @Sendable () -> Item

    package init(_ make: @escaping @Sendable () -> Item) { self.make = make }

    package var value: Item {
        let old = current.load(ordering: .acquiring)
        if let made = made(at: old) { return made.value }
        let new = Unmanaged.passRetained(Made(make()))
        let (isFirst, winner) = current.compareExchange(
            expected: old, desired: UInt(bitPattern: new.toOpaque()), ordering: .acquiringAndReleasing)
        if !isFirst, let made = made(at: winner) {
            new.release()
            return made.value
        }
        return new.takeUnretainedValue().value
    }

    /// The same, but nil if this process has no value yet.
    package var existing: Item? { made(at: current.load(ordering: .acquiring))?.value }

    private func made(at address: UInt) -> Made? {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        let made = Unmanaged<Made>.fromOpaque(pointer).takeUnretainedValue()
        return made.process.wasForked ? nil : made
    }
}
