// Finds the change of each object in a draft: a table that is made only if an object is looked up.
//
// Invariants:
// OC1  Every entry up to `next` is known. The place of an object is that of its newest entry, or none if that was
//      removed.
// OC2  At least an eighth of the slots is free, so that every search ends.

/// The changes that count, by object. One search touches one or two slots of 16 bytes.
///
/// Sound: the memory is this object's alone, and a slot is always below `capacity`.
final class OwnChanges {
    /// The number of its frame among frames with changes, and the offset of the entry in the frame's table.
    struct Place: Equatable {
        var part: UInt32
        var position: UInt32

        /// For an object whose change was removed.
        static let none = Place(part: .max, position: .max)
    }

    private struct Slot {
        /// The number of the object's ID; 0 in a free slot.
        var object: UInt64
        var place: Place
    }

    private var slots: UnsafeMutablePointer<Slot>
    private var capacity: Int
    private var shift: UInt64
    private var used = 0
    /// For each complete part, the number of its frame.
    private(set) var parts: [Int] = []
    /// The number of frames seen.
    private(set) var frames = 0
    private var next = Place(part: 0, position: UInt32(TransactionField.bytes))

    /// Makes a table for this number of objects and some more.
    init(expecting count: Int) {
        shift = 64 - UInt64(max(6, Int.bitWidth - (count + count / 2).leadingZeroBitCount))
        capacity = 1 << (64 - shift)
        slots = .allocate(capacity: capacity)
        slots.initialize(repeating: Slot(object: 0, place: .none), count: capacity)
    }

    deinit { slots.deallocate() }

    // MARK: Places

    /// The place of the change of an object; nil if it has none that counts.
    func place(of object: UInt64) -> Place? {
        let slot = slots[find(object)]
        return slot.object == object && slot.place != .none ? slot.place : nil
    }

    /// Records the place of an object's change. Returns whether it had an earlier one that counted.
    private func put(_ object: UInt64, _ place: Place) -> Bool {
        assert(object != 0, "OC1: a free slot is taken for an object.")
        var index = find(object)
        if slots[index].object == object {
            defer { slots[index].place = place }
            return slots[index].place != .none
        }
        if (used + 1) * 8 > capacity * 7 {
            grow()
            index = find(object)
        }
        slots[index] = Slot(object: object, place: place)
        used += 1
        assert(used * 8 <= capacity * 7, "OC2: too few slots are free.")
        return false
    }

    /// The slot of an object, or the free slot for it.
    @inline(__always)
    private func find(_ object: UInt64) -> Int {
        var index = Int(truncatingIfNeeded: (object &* 0x9E37_79B9_7F4A_7C15) >> shift)
        while slots[index].object != object, slots[index].object != 0 { index = (index &+ 1) & (capacity &- 1) }
        return index
    }

    private func grow() {
        let (old, count) = (slots, capacity)
        capacity *= 2
        shift -= 1
        slots = .allocate(capacity: capacity)
        slots.initialize(repeating: Slot(object: 0, place: .none), count: capacity)
        for index in 0..<count where old[index].object != 0 { slots[find(old[index].object)] = old[index] }
        old.deallocate()
    }

    /// Drops the change of an object. Returns whether it counted.
    func takeOut(_ object: UInt64) -> Bool {
        let index = find(object)
        guard slots[index].object == object, slots[index].place != .none else { return false }
        slots[index].place = .none
        return true
    }

    // MARK: Following the transaction

    /// Adds the entries of the newest part, from the first unknown one on. Returns the number of older entries that no
    /// longer count.
    func continueThrough(_ table: UnsafeRawBufferPointer) -> UInt64 {
        var superseded: UInt64 = 0
        while next.position < table.count {
            let change = ChangeView(at: Int(next.position), of: table)
            if put(change.objectBits, next) { superseded += 1 }
            next.position += UInt32(change.entryBytes)
        }
        assert(Int(next.position) == table.count, "OC1: an entry is longer than its table.")
        return superseded
    }

    /// Notes that the part was the frame with this number, and that another part follows.
    func endPart(_ frame: Int) {
        parts.append(frame)
        next = Place(part: UInt32(parts.count), position: UInt32(TransactionField.bytes))
    }

    func passFrame() { frames += 1 }

    /// Notes that the entry of an object in the open part moved to the front.
    func move(_ object: UInt64, to position: Int) {
        let index = find(object)
        assert(slots[index].object == object, "OC1: an entry has moved that is not known.")
        slots[index].place.position = UInt32(position)
    }

    /// Notes that the open part has this length now, and that all its entries are known.
    func cut(to position: Int) { next.position = UInt32(position) }
}
