// Reads a delta of an ordered index in place, in the file's bytes, which may be wrong, or in memory: edits of a leaf
// that are kept over it instead of in a copy of it.
//
// Invariants:
// DL1  The base of a delta in memory is in the file, and the delta holds every edit of the leaf that the base lacks.
//      A reader goes from the highest delta down, and the first edit of an entry counts.
// DL2  A delta in the file is above its base, by offset, so a chain ends.
// DL3  A leaf with deltas has an entry and fits a node. Only a leaf below another node has deltas.

/// Offsets of the fields of a delta. Slots follow, u16 for each edit, ascending by key and object, and then edits.
///
/// All integers are little-endian.
package enum OrderedDeltaField {
    /// u64: the offset of the leaf, or that of a delta below plus 2.
    package static let base = 0
    /// u16: the number of edits, at least 1.
    package static let count = 8
    /// u16: its size.
    package static let bytes = 10
    /// u16: the number of entries that the leaf has with this delta and those below.
    package static let leafCount = 12
    /// u16: the total size of these entries.
    package static let leafBytes = 14
    package static let slots = 16
    package static let slotBytes = 2
}

/// Offsets of the fields of an edit; the key follows.
package enum OrderedEditField {
    /// u16: twice the size of the key, plus 1 if the leaf has the entry, or 0 if it lacks it.
    package static let size = 0
    /// u64
    package static let object = 2
    package static let bytes = 10
}

/// The size limits of deltas of ordered indexes.
package struct OrderedDeltaPolicy: Sendable {
    /// A leaf with more edits in memory becomes whole there. With 0 every changed leaf is whole.
    package var mostEdits: UInt16 = 24
    /// A leaf with more bytes of deltas over it is written whole.
    package var mostInFile: UInt16 = 1920

    package init() {}
}

/// An entry that a leaf has or lacks.
struct OrderedEdit {
    let key: UnsafeRawBufferPointer
    let object: UInt64
    let isThere: Bool
}

/// A delta's bytes, which the source or the index keeps alive.
///
/// Safe for arbitrary bytes: `count` slots lie within the delta, and an edit's offset is compared with its end at each
/// reading.
struct OrderedDeltaView {
    private let memory: UnsafeRawPointer
    /// The delta's offset in the file; 0 for one in memory.
    let fileOffset: UInt64

    /// One that this process has written.
    init(memory: UnsafeRawPointer) { (self.memory, fileOffset) = (memory, 0) }

    /// The delta to which a node in memory refers, if it is there, too.
    @inline(__always)
    init?(inMemory reference: UInt64) {
        guard reference & 3 == 3, let memory = UnsafeRawPointer(bitPattern: UInt(reference & ~7)) else { return nil }
        self.init(memory: memory)
    }

    init(stored offset: UInt64, _ source: any NodeSource) throws(StoreError) {
        guard offset >= UInt64(FormatLimits.pageBytes), offset % UInt64(FormatLimits.frameAlignment) == 0 else {
            throw OrderedNodeView.damaged("the offset of a delta is impossible.", offset)
        }
        let content = try source.delta(at: offset)
        guard let memory = content.baseAddress, content.count == OrderedDeltaView.bytes(content) else {
            throw OrderedNodeView.damaged("the header of a delta is impossible.", offset)
        }
        (self.memory, fileOffset) = (memory, offset)
        guard base & 5 == 0, base & ~7 < offset, base & ~7 >= UInt64(FormatLimits.pageBytes) else {
            // DL2.
            throw damaged("the base of a delta is impossible.")
        }
    }

    /// The size of the delta that begins with these bytes; nil if none can.
    static func bytes(_ head: UnsafeRawBufferPointer) -> Int? {
        guard head.count >= OrderedDeltaField.slots else { return nil }
        let bytes = Int(head.integer(at: OrderedDeltaField.bytes, as: UInt16.self))
        let count = Int(head.integer(at: OrderedDeltaField.count, as: UInt16.self))
        let slotsEnd = OrderedDeltaField.slots + count * OrderedDeltaField.slotBytes
        return count > 0 && slotsEnd <= bytes && bytes < OrderedLimits.nodeBytes ? bytes : nil
    }

    @inline(__always)
    private func field(_ offset: Int) -> Int {
        Int(UInt16(littleEndian: memory.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
    }

    @inline(__always)
    private func load8(_ offset: Int) -> UInt64 {
        UInt64(littleEndian: memory.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    /// The reference below it: the leaf's offset, or that of a delta plus 2.
    var base: UInt64 { load8(OrderedDeltaField.base) }
    var count: Int { field(OrderedDeltaField.count) }
    /// Its size; in memory with its free space.
    var bytes: Int { field(OrderedDeltaField.bytes) }
    var leafCount: Int { field(OrderedDeltaField.leafCount) }
    var leafBytes: Int { field(OrderedDeltaField.leafBytes) }

    // MARK: Edits

    func edit(at index: Int) throws(StoreError) -> OrderedEdit {
        assert(index >= 0 && index < count, "The requested edit does not exist.")
        let start = field(OrderedDeltaField.slots &+ index &* OrderedDeltaField.slotBytes)
        let front = start &+ OrderedEditField.bytes
        guard front <= bytes else { throw damaged("an edit is not within its delta.") }
        let size = field(start &+ OrderedEditField.size)
        guard front &+ size / 2 <= bytes else { throw damaged("an edit is not within its delta.") }
        return OrderedEdit(
            key: UnsafeRawBufferPointer(start: memory + front, count: size / 2),
            object: load8(start &+ OrderedEditField.object), isThere: size & 1 == 1)
    }

    /// The first edit that is not before the cut, and whether it is one of the target's entry. In a delta that is out
    /// of order it finds any.
    func position(of target: OrderedTarget) throws(StoreError) -> (index: Int, isFound: Bool) {
        var low = 0
        var high = count
        while low < high {
            let middle = (low &+ high) / 2
            let edit = try edit(at: middle)
            let order = target.order(of: edit.key, edit.object, equal: 0)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle &+ 1 } else { high = middle }
        }
        return (low, false)
    }

    /// Whether the leaf has the entry, as far as the delta knows.
    func isThere(_ target: OrderedTarget) throws(StoreError) -> Bool? {
        let (index, isFound) = try position(of: target)
        return isFound ? try edit(at: index).isThere : nil
    }

    /// The first edit after the cut.
    func cut(_ target: OrderedTarget) throws(StoreError) -> Int {
        let (index, isFound) = try position(of: target)
        return isFound && target.edge == .afterEntry ? index + 1 : index
    }

    // MARK: Checking

    /// Throws `damaged` unless the edits ascend, and every byte is as a writer of these edits writes it.
    func validate() throws(StoreError) {
        var end = OrderedDeltaField.slots + count * OrderedDeltaField.slotBytes
        var last: OrderedEdit?
        for index in 0..<count {
            let edit = try edit(at: index)
            guard field(OrderedDeltaField.slots + index * OrderedDeltaField.slotBytes) == end,
                edit.key.count <= OrderedLimits.maximumKeyBytes
            else { throw damaged("an edit of a delta is misplaced.") }
            guard ObjectID(rawValue: edit.object) != nil else { throw damaged("an edit has no object ID.") }
            if let last {
                let order = OrderedTarget(edit.key, object: edit.object).order(of: last.key, last.object, equal: 0)
                if order >= 0 { throw damaged("the edits of a delta do not ascend.") }
            }
            end += OrderedEditField.bytes + edit.key.count
            last = edit
        }
        let rest = UnsafeRawBufferPointer(start: memory + end, count: max(0, bytes - end))
        guard bytes == end.paddedTo8, rest.allSatisfy({ $0 == 0 }) else { throw damaged("a delta has a wrong size.") }
    }

    @inline(never)
    func damaged(_ message: String) -> StoreError {
        OrderedNodeView.damaged(message, fileOffset)
    }
}
