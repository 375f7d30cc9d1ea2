// The IDs of the existing objects that a transaction has changed, for a lookup at each change. Swift's `Set` uses a
// keyed hash, which resists chosen keys. Stores draw IDs, so one multiplication is enough.
//
// Invariants:
// CD1  A slot is 0, which is no object's ID, or holds an ID. Each ID is in one slot, and no slot between the slot of
//      its hash and its own is 0.
// CD2  At most half of the slots are taken, so every search ends.

package struct ChangedIDs {
    /// A power of two, or none.
    private var slots: [UInt64] = []
    package private(set) var count = 0

    package init() {}

    private static let fewest = 16

    package var isEmpty: Bool { count == 0 }

    /// The bytes of its memory.
    package var memory: Int { slots.count * 8 }

    @inline(__always)
    package func contains(_ id: UInt64) -> Bool {
        if count == 0 { return false }
        return slots.withUnsafeBufferPointer { $0[Self.place(of: id, in: $0)] == id }
    }

    /// Adds an ID. Adding it again has no effect.
    package mutating func insert(_ id: UInt64) {
        precondition(id != 0, "CD1: 0 is no object's ID.")
        if count * 2 >= slots.count { grow() }
        let isNew = slots.withUnsafeMutableBufferPointer { slots in
            let place = Self.place(of: id, in: UnsafeBufferPointer(slots))
            if slots[place] == id { return false }
            slots[place] = id
            return true
        }
        if isNew { count += 1 }
        assert(count * 2 <= slots.count, "CD2: more than half of the slots are taken.")
    }

    /// Keeps the memory if much of it was used: the next transaction is probably as large.
    package mutating func removeAll() {
        if count == 0 { return }
        if slots.count > Self.fewest, count * 8 < slots.count {
            slots = []
        } else {
            slots.withUnsafeMutableBufferPointer { $0.update(repeating: 0) }
        }
        count = 0
    }

    /// The slot that holds the ID, or the free one for it. `slots` has a free one.
    @inline(__always)
    private static func place(of id: UInt64, in slots: UnsafeBufferPointer<UInt64>) -> Int {
        // The highest bits of the product depend on all bits of the ID: its entity is in the highest ones.
        let product = id &* 0x9E37_79B9_7F4A_7C15
        var place = Int(truncatingIfNeeded: product &>> UInt64(truncatingIfNeeded: slots.count.leadingZeroBitCount + 1))
        while slots[place] != 0, slots[place] != id { place = (place &+ 1) & (slots.count &- 1) }
        return place
    }

    private mutating func grow() {
        let old = slots
        slots = Array(repeating: 0, count: max(Self.fewest, old.count * 2))
        slots.withUnsafeMutableBufferPointer { slots in
            for id in old where id != 0 { slots[Self.place(of: id, in: UnsafeBufferPointer(slots))] = id }
        }
    }
}
