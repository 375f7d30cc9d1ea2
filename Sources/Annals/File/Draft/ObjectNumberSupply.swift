// The object numbers that the drafts of one handle use.
//
// Invariants:
// NU1  The next number of the entity in `latest` is there; that of any other entity is in `next`.
// NU2  `latest` names another entity only with the lock of `next`, and without it only the number in it changes.

internal import Synchronization

/// Gives each number to one draft at a time. Any thread may call it.
package final class ObjectNumberSupply: Sendable {
    /// The next object number of the entity whose numbers were drawn last, under the entity's number, as in an ID: so
    /// that most draws need no lock. 0 for none.
    private let latest = Atomic<UInt64>(0)
    /// At the index of an entity's number: its next object number.
    private let next = Guarded<[UInt64]>([])

    private static let mask = FormatLimits.maximumObjectNumber

    package init() {}

    /// Draws numbers for a draft, at `first` or above. Returns the first of them.
    package func draw(_ entity: UInt16, count: UInt64, from first: UInt64) -> UInt64 {
        let word = latest.load(ordering: .relaxed)
        if word >> 48 == UInt64(entity), entity > 0 {
            let start = max(word & Self.mask, first)
            if let end = Self.word(entity, start + count),
                latest.compareExchange(expected: word, desired: end, ordering: .relaxed).exchanged
            {
                return start
            }
        }
        return drawLocked(entity, count: count, from: first)
    }

    /// An entity with its next number; nil if the number is above those that objects can have.
    private static func word(_ entity: UInt16, _ next: UInt64) -> UInt64? {
        next <= mask ? UInt64(entity) << 48 | next : nil
    }

    @inline(never)
    private func drawLocked(_ entity: UInt16, count: UInt64, from first: UInt64) -> UInt64 {
        next.withLock { next in
            settle(&next)
            let index = Int(entity)
            if index >= next.count { next.append(contentsOf: repeatElement(1, count: index + 1 - next.count)) }
            let start = max(next[index], first)
            next[index] = start + count
            if let word = Self.word(entity, start + count) { latest.store(word, ordering: .relaxed) }
            return start
        }
    }

    /// Moves the number in `latest` to the others: NU2.
    private func settle(_ next: inout [UInt64]) {
        let word = latest.exchange(0, ordering: .relaxed)
        if word == 0 { return }
        assert(Int(word >> 48) < next.count, "NU1: an entity has a next number that was never drawn.")
        next[Int(word >> 48)] = word & Self.mask
    }

    /// Unused numbers go to the next transaction, unless another one has drawn numbers after them.
    package func returnNumbers(_ entity: UInt16, from first: UInt64, end: UInt64) {
        if first == end { return }
        assert(first < end, "T3: numbers are returned that were not drawn.")
        if let word = Self.word(entity, end), let desired = Self.word(entity, first),
            latest.compareExchange(expected: word, desired: desired, ordering: .relaxed).exchanged
        {
            return
        }
        next.withLock { next in
            settle(&next)
            let index = Int(entity)
            if index < next.count, next[index] == end { next[index] = first }
        }
    }
}

extension StoreError {
    static var tooManyObjects: StoreError {
        StoreError(
            .tooLarge,
            "An entity may have at most \(FormatLimits.maximumObjectNumber) objects, including deleted ones.")
    }
}
