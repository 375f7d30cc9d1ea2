// A value of which each process has its own. A forked child gets a new one.

internal import Synchronization

/// A value that is made when it is first needed, once in each process.
///
/// A child replaces its parent's without taking a lock, because a thread of the parent may have held that lock at the
/// fork. Values are never freed.
///
/// A structure, and `MadeInProcess` is not generic: the first use of a generic class makes its type at run time.
package struct PerProcess<Item: AnyObject & Sendable>: ~Copyable, Sendable {

    /// The address of the newest value; 0 for none.
    private let current = Atomic<UInt>(0)
    private let make: @Sendable () -> Item

    package init(_ make: @escaping @Sendable () -> Item) { self.make = make }

    package var value: Item {
        let old = current.load(ordering: .acquiring)
        if let made = made(at: old) { return Self.item(of: made) }
        let new = Unmanaged.passRetained(MadeInProcess(make()))
        let (isFirst, winner) = current.compareExchange(
            expected: old, desired: UInt(bitPattern: new.toOpaque()), ordering: .acquiringAndReleasing)
        if !isFirst, let made = made(at: winner) {
            new.release()
            return Self.item(of: made)
        }
        return Self.item(of: new.takeUnretainedValue())
    }

    /// The same, but nil if this process has no value yet.
    package var existing: Item? { made(at: current.load(ordering: .acquiring)).map { Self.item(of: $0) } }

    private func made(at address: UInt) -> MadeInProcess? {
        guard let pointer = UnsafeRawPointer(bitPattern: address) else { return nil }
        let made = Unmanaged<MadeInProcess>.fromOpaque(pointer).takeUnretainedValue()
        return made.process.wasForked ? nil : made
    }

    /// Sound: `value` alone makes these objects, with an item.
    private static func item(of made: MadeInProcess) -> Item { unsafeDowncast(made.value, to: Item.self) }
}

/// A value, and the process that made it.
private final class MadeInProcess: Sendable {
    let process = OwnProcess()
    let value: any AnyObject & Sendable

    init(_ value: any AnyObject & Sendable) { self.value = value }
}
