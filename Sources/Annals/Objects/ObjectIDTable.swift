// A table of a context's data by object ID. Every object passes through several, so a lookup takes few steps.
//
// Invariants:
// OT1  An ID is in the first slot that was free from its place on: between the two no slot is free. So a lookup ends at
//      the first free slot.
// OT2  At least a quarter of the slots is free.

/// By the temporary IDs of objects: the IDs that they have since they were saved.
typealias PermanentIDs = ObjectIDTable<ObjectID>

/// Values by the IDs of objects: a dictionary that trusts its keys to be spread out. Most are consecutive numbers.
package struct ObjectIDTable<Value> {
    fileprivate struct Slot {
        /// 0 if the slot is free: no object has this ID.
        var id: UInt64 = 0
        var value: Value?
    }

    private var slots: [Slot] = []
    package private(set) var count = 0
    /// 64 without the number of bits that an index of a slot has.
    private var shift: UInt64 = 64

    private static var fewestSlots: Int { 16 }

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// The values, in no order. Later changes of the table do not affect them.
    package var values: some Sequence<Value> { slots.lazy.compactMap(\.value) }

    /// The IDs with their values, in no order.
    package var pairs: some Sequence<(id: ObjectID, value: Value)> {
        slots.lazy.compactMap { slot in slot.value.map { (ObjectID(checked: slot.id), $0) } }
    }

    /// The IDs in ascending order.
    package var sortedIDs: [ObjectID] {
        var ids: [UInt64] = []
        ids.reserveCapacity(count)
        for slot in slots where slot.id != 0 { ids.append(slot.id) }
        ids.sort()
        return ids.map { ObjectID(checked: $0) }
    }

    package subscript(id: ObjectID) -> Value? {
        get {
            if count == 0 { return nil }
            var index = place(of: id.rawValue)
            while true {
                let found = slots[index].id
                if found == id.rawValue { return slots[index].value }
                if found == 0 { return nil }
                index = (index &+ 1) & (slots.count &- 1)
            }
        }
        set {
            if let newValue { set(id, newValue) } else { remove(id) }
        }
    }

    /// Makes room for this number of values in all.
    package mutating func reserveCapacity(_ count: Int) {
        var size = max(slots.count, Self.fewestSlots)
        while size - size / 4 < count { size *= 2 }
        if size > slots.count { resize(size) }
    }

    /// Removes an ID. Returns whether the table had it.
    @discardableResult
    package mutating func remove(_ id: ObjectID) -> Bool {
        if count == 0 { return false }
        var free = place(of: id.rawValue)
        while slots[free].id != id.rawValue {
            if slots[free].id == 0 { return false }
            free = (free &+ 1) & (slots.count &- 1)
        }
        count &-= 1
        if count == 0, slots.count > 16384 {
            // A context that once had very many objects does not keep the room for them.
            self = ObjectIDTable()
            return true
        }
        // OT1: later values move into the gap, unless their place is after the gap.
        var index = free
        while true {
            index = (index &+ 1) & (slots.count &- 1)
            let next = slots[index].id
            if next == 0 { break }
            let distance = (index &- place(of: next)) & (slots.count &- 1)
            if distance >= (index &- free) & (slots.count &- 1) {
                slots.swapAt(free, index)
                free = index
            }
        }
        slots[free] = Slot()
        return true
    }

    private mutating func set(_ id: ObjectID, _ value: Value) {
        if count &+ 1 > slots.count &- slots.count / 4 { resize(max(Self.fewestSlots, slots.count * 2)) }
        var index = place(of: id.rawValue)
        while true {
            let found = slots[index].id
            if found == id.rawValue || found == 0 {
                if found == 0 { count &+= 1 }
                assert(count <= slots.count - slots.count / 4, "OT2: too few slots are free.")
                slots[index] = Slot(id: id.rawValue, value: value)
                return
            }
            index = (index &+ 1) & (slots.count &- 1)
        }
    }

    /// The first place for an ID: the highest bits of a product, which every bit of the ID changes.
    @inline(__always)
    private func place(of id: UInt64) -> Int {
        Int(truncatingIfNeeded: (id &* 0x9E37_79B9_7F4A_7C15) &>> shift)
    }

    private mutating func resize(_ size: Int) {
        let old = slots
        slots = Array(repeating: Slot(), count: size)
        shift = UInt64(size.leadingZeroBitCount + 1)
        for slot in old where slot.id != 0 {
            var index = place(of: slot.id)
            while slots[index].id != 0 { index = (index &+ 1) & (slots.count &- 1) }
            slots[index] = slot
        }
    }
}

extension ObjectIDTable: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (ObjectID, Value)...) {
        for (id, value) in elements { self[id] = value }
    }
}

extension ObjectIDTable: Sendable where Value: Sendable {}
extension ObjectIDTable.Slot: Sendable where Value: Sendable {}
