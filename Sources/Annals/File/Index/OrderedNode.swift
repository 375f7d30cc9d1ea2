// A node of an ordered index in memory: the file's layout, and the children that are in memory too.

import Synchronization

/// A node that was changed since the index was last written.
///
/// 1. The bytes are those of a node as `OrderedNodeField` lays it out, except that entries may lie in any order with
///    holes between them, and that the reference to a child in memory is its address with the lowest bit set.
///    A delta's address has the lowest two bits set.
/// 2. `children` of an inner node has one element for each slot: the node or delta whose address is stored there, or
///    nil for an offset. A leaf has none. It is plain memory with room for all slots: every step of every change asks
///    whether a child has other references, and an array would first ask the same of itself.
/// 3. `entryBytes` is the sum of the entries' sizes, and all of them and the slots fit the node.
///
/// `@unchecked Sendable` is sound because only a node that one index alone reaches is changed, by the one writer of
/// that index: it asks `isKnownUniquelyReferenced` at every step from the root, so a shared parent is copied, and its
/// children are shared from then on. Nodes that other indexes can reach do not change.
final class OrderedNode: OrderedChild, @unchecked Sendable {
    let level: Int
    private let children: UnsafeMutablePointer<OrderedChild?>?

    init(level: Int) {
        self.level = level
        children = OrderedNode.roomForChildren(level)
        super.init(bytes: OrderedLimits.nodeBytes)
        base.initializeMemory(as: UInt8.self, repeating: 0, count: OrderedNodeField.bytes)
        bytes.store(UInt16(level), at: OrderedNodeField.level)
        lowestEntry = OrderedLimits.nodeBytes
    }

    /// Omits the bytes between the slots and the entries: they are never read.
    private init(copyOf node: OrderedNode) {
        level = node.level
        children = OrderedNode.roomForChildren(level)
        super.init(bytes: OrderedLimits.nodeBytes)
        if let children, let theirs = node.children { children.initialize(from: theirs, count: node.count) }
        let lowest = node.lowestEntry
        base.copyMemory(from: node.base, byteCount: OrderedNode.slot(node.count))
        (base + lowest).copyMemory(from: node.base + lowest, byteCount: OrderedLimits.nodeBytes - lowest)
    }

    /// Throws if the stored bytes are not a changeable node.
    init(copyOf view: OrderedNodeView) throws(StoreError) {
        try view.validateLayout()
        level = view.level
        children = OrderedNode.roomForChildren(level)
        super.init(bytes: OrderedLimits.nodeBytes)
        children?.initialize(repeating: nil, count: view.count)
        base.copyMemory(from: view.base, byteCount: OrderedLimits.nodeBytes)
    }

    deinit {
        children?.deinitialize(count: count)
        children?.deallocate()
    }

    private static func roomForChildren(_ level: Int) -> UnsafeMutablePointer<OrderedChild?>? {
        level == 0 ? nil : .allocate(capacity: OrderedLimits.maximumSlots)
    }

    func copy() -> OrderedNode { OrderedNode(copyOf: self) }

    var view: OrderedNodeView { OrderedNodeView(memory: base) }
    private var bytes: UnsafeMutableRawBufferPointer { .init(start: base, count: OrderedLimits.nodeBytes) }

    // MARK: The header

    private(set) var count: Int {
        get { field(OrderedNodeField.count) }
        set { setField(OrderedNodeField.count, newValue) }
    }
    private var entryBytes: Int {
        get { field(OrderedNodeField.entryBytes) }
        set { setField(OrderedNodeField.entryBytes, newValue) }
    }
    private var lowestEntry: Int {
        get { field(OrderedNodeField.lowestEntry) }
        set { setField(OrderedNodeField.lowestEntry, newValue) }
    }
    private var prefixBytes: Int {
        get { field(OrderedNodeField.prefixBytes) }
        set { setField(OrderedNodeField.prefixBytes, newValue) }
    }
    /// The number of children: none in a leaf.
    var childCount: Int { level == 0 ? 0 : count }
    private var firstKey: Int { level == 0 ? 0 : 1 }
    private var entryHeaderBytes: Int { level == 0 ? OrderedEntryField.leafBytes : OrderedEntryField.innerBytes }

    @inline(__always)
    private func field(_ offset: Int) -> Int { Int(bytes.integer(at: offset, as: UInt16.self)) }

    @inline(__always)
    private func setField(_ offset: Int, _ value: Int) {
        bytes.store(UInt16(truncatingIfNeeded: value), at: offset)
    }

    // MARK: Slots and entries

    @inline(__always)
    private static func slot(_ index: Int) -> Int { OrderedNodeField.bytes &+ index &* OrderedSlotField.bytes }

    private func start(_ index: Int) -> Int { field(OrderedNode.slot(index) &+ OrderedSlotField.entry) }
    private func keyBytes(_ index: Int) -> Int { field(OrderedNode.slot(index) &+ OrderedSlotField.keyBytes) }
    private func entryBytes(_ index: Int) -> Int { entryHeaderBytes &+ keyBytes(index) }

    func key(_ index: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + (start(index) &+ entryHeaderBytes), count: keyBytes(index))
    }

    func object(_ index: Int) -> UInt64 {
        bytes.integer(at: start(index) &+ OrderedEntryField.object, as: UInt64.self)
    }

    private func setSlot(_ index: Int, head: UInt32, start: Int, keyBytes: Int) {
        let slot = OrderedNode.slot(index)
        setHead(index, head)
        setField(slot &+ OrderedSlotField.entry, start)
        setField(slot &+ OrderedSlotField.keyBytes, keyBytes)
    }

    private func setHead(_ index: Int, _ head: UInt32) {
        bytes.store(head.byteSwapped, at: OrderedNode.slot(index) &+ OrderedSlotField.head)
    }

    /// Whether an entry with a key of that size fits, perhaps after closing holes.
    func hasRoom(forKeyOf keyBytes: Int) -> Bool {
        OrderedNode.slot(count &+ 1) &+ entryBytes &+ entryHeaderBytes &+ keyBytes <= OrderedLimits.nodeBytes
    }

    var hasRoomForSeparator: Bool { hasRoom(forKeyOf: OrderedLimits.maximumKeyBytes) }

    // MARK: Changing

    /// Puts an entry in front of the one at `index`. Requires room for it.
    func insert(_ key: UnsafeRawBufferPointer, _ object: UInt64, at index: Int, child: OrderedNode? = nil) {
        assert(index >= 0 && index <= count && (child == nil) == (level == 0), "An entry does not fit its node.")
        let size = entryHeaderBytes &+ key.count
        makeRoom(size)
        admit(key, at: index)
        let start = lowestEntry &- size
        bytes.store(object, at: start &+ OrderedEntryField.object)
        if let child {
            bytes.store(OrderedNodeView.reference(to: child.base), at: start &+ OrderedEntryField.child)
            insertChild(child, at: index)
        }
        if let source = key.baseAddress {
            (base + (start &+ entryHeaderBytes)).copyMemory(from: source, byteCount: key.count)
        }
        let head = index < firstKey ? 0 : OrderedBytes.head(key, after: prefixBytes, filler: 0)
        let slot = OrderedNode.slot(index)
        (base + (slot &+ OrderedSlotField.bytes)).copyMemory(
            from: base + slot, byteCount: (count &- index) &* OrderedSlotField.bytes)
        setSlot(index, head: head, start: start, keyBytes: key.count)
        lowestEntry = start
        entryBytes &+= size
        count &+= 1
    }

    func remove(at index: Int) {
        assert(index >= 0 && index < count, "An entry is removed that is not there.")
        entryBytes &-= entryBytes(index)
        let slot = OrderedNode.slot(index)
        count &-= 1
        (base + slot).copyMemory(
            from: base + (slot &+ OrderedSlotField.bytes), byteCount: (count &- index) &* OrderedSlotField.bytes)
        guard level > 0 else { return }
        if let place = children.map({ $0 + index }) {
            place.deinitialize(count: 1)
            place.moveInitialize(from: place + 1, count: count &- index)
        }
        if index == 0, count > 0 { clearFirstSeparator() }
    }

    private func insertChild(_ child: OrderedNode, at index: Int) {
        guard let children else { preconditionFailure("A leaf has no children.") }
        assert(count < OrderedLimits.maximumSlots, "A node has no room for a child.")
        (children + (index &+ 1)).moveInitialize(from: children + index, count: count &- index)
        (children + index).initialize(to: child)
    }

    private func clearFirstSeparator() {
        let start = start(0)
        entryBytes &-= keyBytes(0)
        bytes.store(0 as UInt64, at: start &+ OrderedEntryField.object)
        setSlot(0, head: 0, start: start, keyBytes: 0)
    }

    /// Replaces the child at `index` by one with the same content.
    func setChild(_ child: OrderedNode, at index: Int) {
        assert(child.level == level - 1, "A child is at a wrong level.")
        children?[index] = child
        bytes.store(OrderedNodeView.reference(to: child.base), at: start(index) &+ OrderedEntryField.child)
    }

    /// The leaf at `index` has a delta in memory from now on.
    func setDelta(_ delta: OrderedDelta, at index: Int) {
        assert(level == 1, "DL3: a delta is not over a leaf.")
        children?[index] = delta
        bytes.store(OrderedNodeView.reference(to: delta.base) | 2, at: start(index) &+ OrderedEntryField.child)
    }

    /// The child at `index` is in the file from now on: there, or at that offset less 2 if it has a delta.
    func setStoredChild(_ reference: UInt64, at index: Int) {
        assert(reference & 5 == 0 && (level == 1 || reference & 2 == 0), "A child cannot be at that offset.")
        children?[index] = nil
        bytes.store(reference, at: start(index) &+ OrderedEntryField.child)
    }

    /// The node at `index`, if it is in memory and has no other reference. Requires that only this index reaches the
    /// parent.
    func ownChild(at index: Int) -> OrderedNode? {
        if !isChildUnique(at: index), let shared = child(at: index) { setChild(shared.copy(), at: index) }
        return child(at: index)
    }

    /// The reference to the child at `index`.
    @inline(__always)
    func reference(at index: Int) -> UInt64 {
        bytes.integer(at: start(index) &+ OrderedEntryField.child, as: UInt64.self)
    }

    /// The child at `index`, if it is a node in memory; a leaf has none.
    @inline(__always)
    func child(at index: Int) -> OrderedNode? {
        guard let child = below(index), reference(at: index) & 2 == 0 else { return nil }
        return unsafeDowncast(child, to: OrderedNode.self)
    }

    /// The delta in memory over the leaf at `index`.
    func delta(at index: Int) -> OrderedDelta? {
        guard let child = below(index), reference(at: index) & 2 != 0 else { return nil }
        return unsafeDowncast(child, to: OrderedDelta.self)
    }

    @inline(__always)
    private func below(_ index: Int) -> OrderedChild? {
        assert(index >= 0 && index < count, "The requested child does not exist.")
        return children?[index]
    }

    /// Whether the child is in memory without another reference; only for a node without other references.
    @inline(__always)
    func isChildUnique(at index: Int) -> Bool {
        guard let children else { return false }
        assert(index >= 0 && index < count, "The requested child does not exist.")
        return hasOneReference(&children[index])
    }

    static func isUnique(_ node: inout OrderedNode?) -> Bool { hasOneReference(&node) }

    // MARK: The common bytes

    /// Shortens the common prefix of the keys to its part that `key`, soon to be among them, shares.
    private func admit(_ key: UnsafeRawBufferPointer, at index: Int) {
        guard index >= firstKey else { return }
        if count <= firstKey {
            prefixBytes = key.count
            return
        }
        let limit = min(prefixBytes, key.count)
        let common = OrderedBytes.commonBytes(self.key(firstKey), key, limit: limit)
        if common < prefixBytes { setPrefix(common) }
    }

    private func setPrefix(_ prefix: Int) {
        prefixBytes = prefix
        for index in firstKey..<max(count, firstKey) {
            setHead(index, OrderedBytes.head(key(index), after: prefix, filler: 0))
        }
    }

    /// In an ordered node, the common prefix of the first and the last key is common to all keys. It is not longer than
    /// the shortest key of the node.
    private func renewPrefix() {
        guard count > firstKey else { return setPrefix(0) }
        var limit = OrderedLimits.maximumKeyBytes
        for index in firstKey..<count { limit = min(limit, keyBytes(index)) }
        setPrefix(OrderedBytes.commonBytes(key(firstKey), key(count &- 1), limit: limit))
    }

    // MARK: Splitting

    /// The first slot of the second half, by size; neither half is empty.
    var middle: Int {
        let half = (entryBytes &+ count &* OrderedSlotField.bytes) / 2
        var size = 0
        for index in 0..<count {
            size &+= entryBytes(index) &+ OrderedSlotField.bytes
            if size > half { return max(1, min(index, count &- 1)) }
        }
        return max(1, count &- 1)
    }

    /// Moves the entries from `index` on to a new node, which is empty if `index` is the end.
    func splitOff(from index: Int) -> OrderedNode {
        let right = OrderedNode(level: level)
        guard index < count else { return right }
        for moved in index..<count { right.append(entry: moved, of: self) }
        if level > 0 {
            if let children { right.children?.moveInitialize(from: children + index, count: count &- index) }
            right.clearFirstSeparator()
        }
        entryBytes &-= (index..<count).reduce(0) { $0 &+ entryBytes($1) }
        count = index
        renewPrefix()
        right.renewPrefix()
        return right
    }

    /// Appends a copy of another node's entry; its head is not right yet.
    private func append(entry index: Int, of node: OrderedNode) {
        let size = node.entryBytes(index)
        lowestEntry &-= size
        (base + lowestEntry).copyMemory(from: node.base + node.start(index), byteCount: size)
        setSlot(count, head: 0, start: lowestEntry, keyBytes: node.keyBytes(index))
        entryBytes &+= size
        count &+= 1
    }

    // MARK: Closing holes

    @inline(__always)
    private func makeRoom(_ size: Int) {
        assert(hasRoom(forKeyOf: size &- entryHeaderBytes), "A node has no room for an entry.")
        if lowestEntry &- size < OrderedNode.slot(count &+ 1) { closeHoles() }
    }

    private func closeHoles() {
        withUnsafeTemporaryAllocation(byteCount: OrderedLimits.nodeBytes, alignment: 16) { scratch in
            writeEntries(to: scratch)
            bytes.copyMemory(from: UnsafeRawBufferPointer(scratch))
        }
    }

    /// Writes the node in the form of the file, with the references that it has.
    private func writeEntries(to target: UnsafeMutableRawBufferPointer) {
        let slotsEnd = OrderedNode.slot(count)
        target.copyMemory(from: UnsafeRawBufferPointer(start: base, count: slotsEnd))
        var lowest = OrderedLimits.nodeBytes
        for index in 0..<count {
            let size = entryBytes(index)
            lowest &-= size
            UnsafeMutableRawBufferPointer(rebasing: target[lowest..<lowest &+ size]).copyMemory(
                from: UnsafeRawBufferPointer(start: base + start(index), count: size))
            target.store(
                UInt16(truncatingIfNeeded: lowest), at: OrderedNode.slot(index) &+ OrderedSlotField.entry)
        }
        assert(lowest >= slotsEnd, "The entries of a node overlap its slots.")
        target.store(UInt16(truncatingIfNeeded: lowest), at: OrderedNodeField.lowestEntry)
        UnsafeMutableRawBufferPointer(rebasing: target[slotsEnd..<lowest]).initializeMemory(
            as: UInt8.self, repeating: 0)
    }

    /// Writes the node as it will be stored in the file, with these references for the children that are in memory.
    func write(to target: UnsafeMutableRawBufferPointer, children: [UInt64]) {
        assert(children.isEmpty || children.count == count, "A node has other children than entries.")
        writeEntries(to: target)
        for (index, reference) in children.enumerated() where reference != 0 {
            let start = Int(
                target.integer(at: OrderedNode.slot(index) + OrderedSlotField.entry, as: UInt16.self))
            target.store(reference, at: start + OrderedEntryField.child)
        }
    }
}

/// The fence makes other threads' reads of the node, before they released it, happen before its changes.
@inline(__always)
private func hasOneReference<Child: OrderedChild>(_ node: inout Child?) -> Bool {
    guard isKnownUniquelyReferenced(&node) else { return false }
    atomicMemoryFence(ordering: .acquiring)
    return true
}
