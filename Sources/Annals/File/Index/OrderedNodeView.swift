// Reads a node of an ordered index in place: in the file's bytes, which may be wrong, or in memory.

/// A node's bytes.
///
/// 1. `count` is at most `maximumSlots`, so every slot lies in the node. An entry's offset is compared with the node's
///    end at every reading.
/// 2. Only a node in memory has addresses of children, and `OrderedNode` wrote them; in a stored one they are damage.
///
/// Safe for arbitrary bytes. The memory belongs to the source, which lives as long as the engine, or to a node that the
/// current index keeps alive.
struct OrderedNodeView {
    let base: UnsafeRawPointer
    let level: Int
    let count: Int
    /// The node's offset in the file; 0 for one in memory.
    let fileOffset: UInt64

    /// A node in memory; its bytes were written by this process, or validated when they were copied.
    init(memory base: UnsafeRawPointer) {
        self.base = base
        level = Int(OrderedNodeView.field(base, OrderedNodeField.level))
        count = Int(OrderedNodeView.field(base, OrderedNodeField.count))
        fileOffset = 0
    }

    /// The node at that offset of the file.
    init(stored offset: UInt64, _ source: any NodeSource) throws(StoreError) {
        guard offset != 0, offset % UInt64(FormatLimits.frameAlignment) == 0 else {
            throw OrderedNodeView.damaged("the offset of a node is impossible.", offset)
        }
        let bytes = try source.node(at: offset)
        guard bytes.count >= OrderedLimits.nodeBytes, let base = bytes.baseAddress else {
            throw OrderedNodeView.damaged("a node is cut off.", offset)
        }
        self.base = base
        fileOffset = offset
        level = Int(OrderedNodeView.field(base, OrderedNodeField.level))
        count = Int(OrderedNodeView.field(base, OrderedNodeField.count))
        guard level <= OrderedLimits.maximumLevel, count >= 1, count <= OrderedLimits.maximumSlots else {
            throw OrderedNodeView.damaged("the header of a node is impossible.", offset)
        }
    }

    var isStored: Bool { fileOffset != 0 }
    var isLeaf: Bool { level == 0 }
    /// The first slot whose key takes part in searching.
    var firstKey: Int { level == 0 ? 0 : 1 }
    var entryHeaderBytes: Int { level == 0 ? OrderedEntryField.leafBytes : OrderedEntryField.innerBytes }
    var prefixBytes: Int { Int(OrderedNodeView.field(base, OrderedNodeField.prefixBytes)) }

    @inline(__always)
    private static func field(_ base: UnsafeRawPointer, _ offset: Int) -> UInt16 {
        UInt16(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }

    func field(_ offset: Int) -> Int { Int(OrderedNodeView.field(base, offset)) }

    // MARK: Entries

    @inline(__always)
    private func slot(_ index: Int) -> UnsafeRawPointer {
        base + (OrderedNodeField.bytes &+ index &* OrderedSlotField.bytes)
    }

    @inline(__always)
    func head(at index: Int) -> UInt32 {
        UInt32(bigEndian: slot(index).loadUnaligned(fromByteOffset: OrderedSlotField.head, as: UInt32.self))
    }

    /// The offset of an entry in the node, and the size of its key. The whole entry lies in the node.
    @inline(__always)
    func entry(at index: Int) throws(StoreError) -> (start: Int, keyBytes: Int) {
        assert(index >= 0 && index < count, "The requested entry does not exist.")
        let start = Int(OrderedNodeView.field(slot(index), OrderedSlotField.entry))
        let keyBytes = Int(OrderedNodeView.field(slot(index), OrderedSlotField.keyBytes))
        guard start &+ entryHeaderBytes &+ keyBytes <= OrderedLimits.nodeBytes else {
            throw damaged("an entry is not within its node.")
        }
        return (start, keyBytes)
    }

    @inline(__always)
    func key(at index: Int) throws(StoreError) -> UnsafeRawBufferPointer {
        let (start, keyBytes) = try entry(at: index)
        return UnsafeRawBufferPointer(start: base + (start &+ entryHeaderBytes), count: keyBytes)
    }

    /// The key and the object; in an inner node those of the separator.
    @inline(__always)
    func keyAndObject(at index: Int) throws(StoreError) -> (key: UnsafeRawBufferPointer, object: UInt64) {
        let (start, keyBytes) = try entry(at: index)
        return (
            UnsafeRawBufferPointer(start: base + (start &+ entryHeaderBytes), count: keyBytes),
            load8(start &+ OrderedEntryField.object)
        )
    }

    @inline(__always)
    func load8(_ offset: Int) -> UInt64 {
        UInt64(littleEndian: base.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    // MARK: Children

    /// An inner node's reference to a child: an offset in the file, or the address of a node in memory with its lowest
    /// bit set. The bit above is set for a delta.
    func reference(at index: Int) throws(StoreError) -> UInt64 {
        load8(try entry(at: index).start &+ OrderedEntryField.child)
    }

    @inline(__always)
    static func reference(to base: UnsafeMutableRawPointer) -> UInt64 { UInt64(UInt(bitPattern: base)) | 1 }

    /// Readers follow addresses without counting references; the index keeps the nodes alive. `deltas` becomes the
    /// reference to those over a leaf, or 0; then this is the leaf below them.
    func child(
        at index: Int, _ deltas: inout UInt64, _ source: any NodeSource
    ) throws(StoreError) -> OrderedNodeView {
        var reference = try reference(at: index)
        deltas = 0
        if reference & 2 != 0, level == 1 {
            deltas = reference
            // DL1: below them is the file.
            reference = try OrderedDeltas.leaf(below: reference, isStored: isStored, source)
        }
        let child: OrderedNodeView
        if !isStored, reference & 1 != 0, let address = UnsafeRawPointer(bitPattern: UInt(reference & ~1)) {
            child = OrderedNodeView(memory: address)
        } else {
            child = try OrderedNodeView(stored: reference, source)
        }
        guard child.level == level &- 1 else { throw child.damaged("a node has the wrong level.") }
        return child
    }

    // MARK: Errors

    @inline(never)
    static func damaged(_ message: String, _ offset: UInt64) -> StoreError {
        StoreError(.damaged, "F31: " + message, offset: offset)
    }

    @inline(never)
    func damaged(_ message: String) -> StoreError {
        StoreError(.damaged, "F31: " + message, offset: isStored ? fileOffset : nil)
    }
}

// MARK: Searching

extension OrderedNodeView {
    /// The first slot whose entry is not before the cut, and whether it is the target's entry. In a node that is out of
    /// order it finds any slot, but never one outside.
    func position(of target: OrderedTarget) throws(StoreError) -> (index: Int, isFound: Bool) {
        let first = firstKey
        guard count > first else { return (first, false) }
        let prefix = prefixBytes
        if prefix > 0, let side = try side(of: target, prefix) { return (side < 0 ? count : first, false) }
        let head = target.head(after: prefix)
        var low = firstSlot(from: first, notBelow: head)
        var high = low
        if high < count, self.head(at: high) == head {
            high &+= 1
            if high < count, self.head(at: high) == head { high = firstSlot(above: head, from: high) }
        }
        // Only keys with the very same head must be compared, usually one or none.
        while low < high {
            let middle = (low &+ high) / 2
            let (key, object) = try keyAndObject(at: middle)
            guard key.count >= prefix else { throw damaged("a key is shorter than the common prefix of all keys.") }
            let order = target.order(of: key, object, equal: prefix)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle &+ 1 } else { high = middle }
        }
        return (low, false)
    }

    /// The child below which the cut is.
    func childIndex(of target: OrderedTarget) throws(StoreError) -> Int {
        let (index, isFound) = try position(of: target)
        return isFound ? index : index &- 1
    }

    /// The first slot after the cut.
    func cut(_ target: OrderedTarget) throws(StoreError) -> Int {
        let (index, isFound) = try position(of: target)
        return isFound && target.edge == .afterEntry ? index &+ 1 : index
    }

    /// Below 0 if all keys are before the target, above 0 if they are after it, by their common prefix; nil if that
    /// does not decide.
    @inline(__always)
    private func side(of target: OrderedTarget, _ prefix: Int) throws(StoreError) -> Int? {
        let key = try key(at: firstKey)
        guard key.count >= prefix else { throw damaged("a key is shorter than the common prefix of all keys.") }
        let order = OrderedBytes.compare(key, target.key, from: 0, to: min(prefix, target.key.count))
        if order != 0 { return order }
        if target.key.count >= prefix { return nil }
        return target.edge == .afterPrefix ? -1 : 1
    }

    /// Without branches that depend on the keys: such branches would be mispredicted half of the time.
    @inline(__always)
    private func firstSlot(from first: Int, notBelow head: UInt32) -> Int {
        var low = first
        var left = count &- first
        while left > 1 {
            let half = left / 2
            low = self.head(at: low &+ half &- 1) < head ? low &+ half : low
            left &-= half
        }
        return self.head(at: low) < head ? low &+ 1 : low
    }

    private func firstSlot(above head: UInt32, from first: Int) -> Int {
        var low = first
        var high = count
        while low < high {
            let middle = (low &+ high) / 2
            if self.head(at: middle) <= head { low = middle &+ 1 } else { high = middle }
        }
        return low
    }
}
