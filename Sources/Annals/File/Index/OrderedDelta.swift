// A delta of an ordered index in memory: the edits of a leaf since it was last written.

/// A node or a delta in memory below an inner node.
///
/// `@unchecked Sendable` is sound for the reason that `OrderedNode` gives: one that two indexes can reach is never
/// changed.
class OrderedChild: @unchecked Sendable {
    let base: UnsafeMutableRawPointer

    init(bytes: Int) { base = .allocate(byteCount: bytes, alignment: 16) }

    deinit { base.deallocate() }
}

/// The bytes are those of a delta as `OrderedDeltaField` lays it out, except that edits fill it from its end, in any
/// order, that there is free space between slots and edits, and that `bytes` is all of it.
///
/// `@unchecked Sendable` is sound for the reason that `OrderedChild` gives: `ownDelta` copies a shared one before its
/// first edit.
final class OrderedDelta: OrderedChild, @unchecked Sendable {
    private let capacity: Int
    private var lowestEdit: Int
    /// The size of the smallest delta in memory.
    private static let leastBytes = 64
    /// Deltas in memory are not larger.
    private static let mostBytes = 1024
    /// About the memory of the object itself.
    private static let objectBytes = 48

    private init(capacity: Int) {
        self.capacity = capacity
        lowestEdit = capacity
        super.init(bytes: capacity)
    }

    /// One without edits, over a leaf or a delta in the file, with room for so many bytes of edits; nil if it would
    /// be too large.
    convenience init?(over below: UInt64, roomFor bytes: Int) {
        assert(below & 5 == 0 && below != 0, "DL1: the base is not in the file.")
        let needed = OrderedDeltaField.slots + bytes
        guard needed <= Self.mostBytes else { return nil }
        self.init(capacity: Self.capacity(for: needed, atLeast: Self.leastBytes))
        base.initializeMemory(as: UInt8.self, repeating: 0, count: OrderedDeltaField.slots)
        buffer.store(below, at: OrderedDeltaField.base)
        buffer.store(UInt16(capacity), at: OrderedDeltaField.bytes)
    }

    var view: OrderedDeltaView { OrderedDeltaView(memory: base) }
    var memoryBytes: Int { capacity + Self.objectBytes }
    /// Without its free space.
    var usedBytes: Int { slotsEnd + (capacity - lowestEdit) }
    private var buffer: UnsafeMutableRawBufferPointer { .init(start: base, count: capacity) }
    var count: Int { view.count }
    private var slotsEnd: Int { Self.slot(count) }

    private static func slot(_ index: Int) -> Int {
        OrderedDeltaField.slots &+ index &* OrderedDeltaField.slotBytes
    }

    private static func capacity(for needed: Int, atLeast least: Int) -> Int {
        var capacity = least
        while capacity < needed { capacity *= 2 }
        return capacity
    }

    /// One with the same edits, and room for so many bytes of others; nil if it would be too large.
    func copy(withRoomFor bytes: Int) -> OrderedDelta? {
        let needed = usedBytes + bytes
        guard needed <= Self.mostBytes else { return nil }
        let size = Self.capacity(for: needed, atLeast: capacity)
        let copy = OrderedDelta(capacity: size)
        let moved = size - capacity
        copy.lowestEdit = lowestEdit + moved
        copy.base.copyMemory(from: base, byteCount: slotsEnd)
        (copy.base + copy.lowestEdit).copyMemory(from: base + lowestEdit, byteCount: capacity - lowestEdit)
        copy.buffer.store(UInt16(size), at: OrderedDeltaField.bytes)
        for index in 0..<(moved == 0 ? 0 : count) {
            let start = copy.buffer.integer(at: Self.slot(index), as: UInt16.self)
            copy.buffer.store(start + UInt16(moved), at: Self.slot(index))
        }
        return copy
    }

    func hasRoom(for bytes: Int) -> Bool { slotsEnd + bytes <= lowestEdit }

    /// Notes whether the leaf has the target's entry, of which the place is known. Requires room for an edit, unless
    /// there is one of this entry.
    func set(
        _ target: OrderedTarget, isThere: Bool, at place: (index: Int, isFound: Bool), leafCount: Int, leafBytes: Int
    ) {
        if !place.isFound { insert(target, at: place.index) }
        let start = Int(buffer.integer(at: Self.slot(place.index), as: UInt16.self))
        buffer.store(UInt16(target.key.count * 2 + (isThere ? 1 : 0)), at: start + OrderedEditField.size)
        buffer.store(UInt16(leafCount), at: OrderedDeltaField.leafCount)
        buffer.store(UInt16(leafBytes), at: OrderedDeltaField.leafBytes)
    }

    /// The size of an edit.
    static func bytes(of target: OrderedTarget) -> Int {
        OrderedDeltaField.slotBytes + OrderedEditField.bytes + target.key.count
    }

    private func insert(_ target: OrderedTarget, at index: Int) {
        assert(hasRoom(for: Self.bytes(of: target)), "A delta has no room for an edit.")
        lowestEdit -= OrderedEditField.bytes + target.key.count
        buffer.store(target.object, at: lowestEdit + OrderedEditField.object)
        if let key = target.key.baseAddress {
            (base + (lowestEdit + OrderedEditField.bytes)).copyMemory(from: key, byteCount: target.key.count)
        }
        let slot = Self.slot(index)
        (base + (slot + OrderedDeltaField.slotBytes)).copyMemory(from: base + slot, byteCount: slotsEnd - slot)
        buffer.store(UInt16(lowestEdit), at: slot)
        buffer.store(UInt16(count + 1), at: OrderedDeltaField.count)
    }

    // MARK: Writing

    /// Writes a delta with these edits, ascending, to `target`. Returns its bytes.
    static func write(
        _ edits: [OrderedEdit], over below: UInt64, like top: OrderedDeltaView,
        to target: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        assert(!edits.isEmpty && below & 5 == 0, "DL1: a delta in the file has no edits or no base.")
        var end = slot(edits.count)
        for (index, edit) in edits.enumerated() {
            target.store(UInt16(end), at: slot(index))
            let size = edit.key.count * 2 + (edit.isThere ? 1 : 0)
            target.store(UInt16(size), at: end + OrderedEditField.size)
            target.store(edit.object, at: end + OrderedEditField.object)
            end += OrderedEditField.bytes
            target.slice(end, edit.key.count).copyMemory(from: edit.key)
            end += edit.key.count
        }
        let bytes = end.paddedTo8
        target.slice(end, bytes - end).initializeMemory(as: UInt8.self, repeating: 0)
        target.store(below, at: OrderedDeltaField.base)
        target.store(UInt16(edits.count), at: OrderedDeltaField.count)
        target.store(UInt16(bytes), at: OrderedDeltaField.bytes)
        target.store(UInt16(top.leafCount), at: OrderedDeltaField.leafCount)
        target.store(UInt16(top.leafBytes), at: OrderedDeltaField.leafBytes)
        return UnsafeRawBufferPointer(target.slice(0, bytes))
    }
}
