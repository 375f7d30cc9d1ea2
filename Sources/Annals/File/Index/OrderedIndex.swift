// The ordered index: finds objects by key, as a B+tree that is a value.

/// The source of clean nodes.
package protocol NodeSource {
    /// The node at that offset of the file: 4096 bytes, verified, unchanged as long as the engine lives.
    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer

    /// The delta at that offset, with the size that its header has; or the header alone, if that is impossible.
    func delta(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer
}

/// Entries of a key and an object, each once, in ascending order of both.
///
/// A copy is a snapshot: it stays as it is, and any thread may read it, while one writer changes the original. Nodes
/// that were not changed since the index was last written are read in place in the file; a changed node is a copy in
/// memory, which is copied again if a snapshot shares it. A leaf with few edits keeps them in a delta over it.
///
/// 1. `root` is the highest node if that is in memory, and then `rootOffset` is 0. In an empty index, and only there,
///    `root` is nil and `rootOffset` is 0.
/// 2. Nodes and deltas in memory are only below nodes in memory; `dirtyBytes` is the sum of their sizes.
/// 3. A level is only above the next lower one, no node is empty, and the root has more than one child, as far as that
///    is known without reading it, or one that has deltas or had some.
///
/// Nodes that become empty are dropped, and nodes are never merged: deletions leave half-empty nodes, which later
/// insertions fill; Johnson and Shasha ("B-trees with inserts and deletes: why free-at-empty is better than
/// merge-at-half", 1989) found that to cost little space and to save most of the work. If an entry comes after the last
/// one of a full node, only the new entry goes to a new node: ascending keys fill their nodes.
package struct OrderedIndex: Sendable {
    private(set) var root: OrderedNode?
    private(set) var rootOffset: UInt64
    package private(set) var entries: UInt64
    /// The size of the nodes and deltas that are not in the file yet.
    package private(set) var dirtyBytes = 0
    let deltas: OrderedDeltaPolicy

    /// An empty index.
    package init(_ deltas: OrderedDeltaPolicy) { self.init(root: 0, entries: 0, deltas) }

    /// An index stored in the file: the offset of its highest node, 0 for an empty one.
    package init(root: UInt64, entries: UInt64, _ deltas: OrderedDeltaPolicy) {
        rootOffset = root
        self.entries = entries
        self.deltas = deltas
    }

    package var isEmpty: Bool { root == nil && rootOffset == 0 }

    /// Forgets the nodes in memory, after they were written to the file.
    mutating func becomeClean(root: UInt64) {
        self.root = nil
        rootOffset = root
        dirtyBytes = 0
    }

    /// Forgets nodes and deltas of this size, which were written to the file; the root is not among them.
    mutating func becameClean(bytes: Int) {
        assert(bytes < dirtyBytes && root != nil, "The root is among the written nodes.")
        dirtyBytes -= bytes
    }

    /// The highest node, with no other reference; nil if none is in memory.
    mutating func ownRoot() -> OrderedNode? {
        if !OrderedNode.isUnique(&root) { root = root?.copy() }
        return root
    }

    // MARK: Inserting

    /// Adds an entry; false if it exists. Logarithmic. Throws errors of the source, and `damaged`; the index then has
    /// the same entries as before. The key has at most `IndexKey.maximumBytes`.
    @discardableResult
    package mutating func insert(
        _ key: UnsafeRawBufferPointer, _ object: ObjectID, _ source: any NodeSource
    ) throws(StoreError) -> Bool {
        let target = OrderedIndex.target(key, object)
        var place = Place(node: try mutableRoot(source), parent: nil, index: 0)
        while place.node.level > 0 {
            // Full inner nodes are split on the way down, so that a split further below finds room above it.
            if !place.node.hasRoomForSeparator { try splitInner(&place, target) }
            let index = try place.node.view.childIndex(of: target)
            if let isChanged = try editInDelta(of: place.node, at: index, target, isThere: true, source) {
                if isChanged { entries &+= 1 }
                return isChanged
            }
            try descend(&place, to: index, source)
        }
        let (position, isFound) = try place.node.view.position(of: target)
        if isFound { return false }
        if place.node.hasRoom(forKeyOf: key.count) {
            place.node.insert(key, object.rawValue, at: position)
        } else {
            try splitLeaf(&place, target, position)
        }
        entries &+= 1
        assert(root != nil && dirtyBytes > 0, "An index counts its nodes in memory wrongly.")
        return true
    }

    private static func target(_ key: UnsafeRawBufferPointer, _ object: ObjectID) -> OrderedTarget {
        precondition(key.count <= OrderedLimits.maximumKeyBytes, "A key is too long for an index.")
        return OrderedTarget(key, object: object.rawValue)
    }

    /// A node without other references, and whether it is among its parent's children.
    private struct Place {
        var node: OrderedNode
        var parent: OrderedNode?
        var index: Int
    }

    /// Moves the last children, or half of them, to a new node, and continues with the target's node.
    private mutating func splitInner(_ place: inout Place, _ target: OrderedTarget) throws(StoreError) {
        let parent = try parent(of: place)
        let node = place.node
        let isAtEnd = try node.view.childIndex(of: target) == node.count - 1
        let middle = isAtEnd ? node.count - 1 : node.middle
        let (key, object) = try node.view.keyAndObject(at: middle)
        // The key is in the node's own memory, which does not change when its last entries leave it.
        let isRight = target.order(of: key, object, equal: 0) <= 0
        let right = node.splitOff(from: middle)
        parent.insert(key, object, at: place.index + 1, child: right)
        dirtyBytes += OrderedLimits.nodeBytes
        place = Place(node: isRight ? right : node, parent: parent, index: place.index + (isRight ? 1 : 0))
    }

    private mutating func splitLeaf(
        _ place: inout Place, _ target: OrderedTarget, _ position: Int
    ) throws(StoreError) {
        let parent = try parent(of: place)
        let left = place.node
        let middle = position == left.count ? position : left.middle
        let isRight = position > middle || middle == left.count
        let right = left.splitOff(from: middle)
        (isRight ? right : left).insert(target.key, target.object, at: isRight ? position - middle : position)
        assert(left.count > 0 && right.count > 0, "A node is split into an empty one.")
        let (key, object) = OrderedIndex.separator(left, right)
        parent.insert(key, object, at: place.index + 1, child: right)
        dirtyBytes += OrderedLimits.nodeBytes
    }

    /// The shortest key that is above the left leaf's last one and not above the right leaf's first one; an object is
    /// needed only if those are equal. The bytes are in the right leaf.
    private static func separator(
        _ left: OrderedNode, _ right: OrderedNode
    ) -> (key: UnsafeRawBufferPointer, object: UInt64) {
        let last = left.key(left.count - 1)
        let first = right.key(0)
        let common = OrderedBytes.commonBytes(last, first, limit: min(last.count, first.count))
        guard common < first.count else { return (first, right.object(0)) }
        return (first.slice(0, common + 1), 0)
    }

    /// The parent node, which is a new root if the node had none. It has room for one more child.
    private mutating func parent(of place: Place) throws(StoreError) -> OrderedNode {
        if let parent = place.parent { return parent }
        guard place.node.level < OrderedLimits.maximumLevel else {
            throw StoreError(.tooLarge, "An index has its greatest height: compact the store.")
        }
        assert(place.node === root, "A node without a parent is not the root.")
        let parent = OrderedNode(level: place.node.level + 1)
        parent.insert(UnsafeRawBufferPointer(start: nil, count: 0), 0, at: 0, child: place.node)
        root = parent
        dirtyBytes += OrderedLimits.nodeBytes
        return parent
    }

    // MARK: Removing

    /// Removes an entry; false if it does not exist. Logarithmic. Throws errors of the source, and `damaged`; the index
    /// then has the same entries as before.
    @discardableResult
    package mutating func remove(
        _ key: UnsafeRawBufferPointer, _ object: ObjectID, _ source: any NodeSource
    ) throws(StoreError) -> Bool {
        if isEmpty { return false }
        let target = OrderedIndex.target(key, object)
        var place = Place(node: try mutableRoot(source), parent: nil, index: 0)
        // The lowest node that keeps a child when the leaf is dropped, and the index of the dropped child.
        var branch: (node: OrderedNode, index: Int)?
        while place.node.level > 0 {
            let node = place.node
            let index = try node.view.childIndex(of: target)
            if let isChanged = try editInDelta(of: node, at: index, target, isThere: false, source) {
                if isChanged, entries > 0 { entries -= 1 }
                return isChanged
            }
            try descend(&place, to: index, source)
            if node.count > 1 { branch = (node, index) }
        }
        let (position, isFound) = try place.node.view.position(of: target)
        guard isFound else { return false }
        place.node.remove(at: position)
        entries = entries > 0 ? entries - 1 : 0
        if place.node.count == 0 { drop(branch) }
        return true
    }

    /// Drops an empty leaf, and its ancestors without other children.
    private mutating func drop(_ branch: (node: OrderedNode, index: Int)?) {
        guard let branch else { return becomeClean(root: 0) }
        branch.node.remove(at: branch.index)
        // The leaf was whole, so was each of its ancestors below the branch.
        dirtyBytes -= branch.node.level * OrderedLimits.nodeBytes
        assert(dirtyBytes > 0, "An index counts its nodes in memory wrongly.")
        lowerRoot()
    }

    /// Replaces the root by its child as long as it has only one, which has no deltas (DL3).
    private mutating func lowerRoot() {
        while let node = root, node.level > 0, node.count == 1, node.reference(at: 0) & 2 == 0 {
            root = node.child(at: 0)
            rootOffset = root == nil ? node.reference(at: 0) : 0
            dirtyBytes -= OrderedLimits.nodeBytes
        }
        assert((root == nil) == (dirtyBytes == 0), "An index counts its nodes in memory wrongly.")
    }

    // MARK: Nodes that may be changed

    /// The highest node, in memory and without other references.
    private mutating func mutableRoot(_ source: any NodeSource) throws(StoreError) -> OrderedNode {
        if !OrderedNode.isUnique(&root) {
            if let shared = root {
                root = shared.copy()
            } else {
                root =
                    rootOffset == 0
                    ? OrderedNode(level: 0)
                    : try OrderedNode(copyOf: OrderedNodeView(stored: rootOffset, source))
                rootOffset = 0
                dirtyBytes += OrderedLimits.nodeBytes
            }
        }
        guard let root else { preconditionFailure("An index without a root cannot be changed.") }
        return root
    }

    private mutating func descend(
        _ place: inout Place, to index: Int, _ source: any NodeSource
    ) throws(StoreError) {
        let node = place.node
        place = Place(node: try mutableChild(of: node, at: index, source), parent: node, index: index)
        assert(place.node.level == node.level - 1, "A level is skipped.")
    }

    private mutating func mutableChild(
        of node: OrderedNode, at index: Int, _ source: any NodeSource
    ) throws(StoreError) -> OrderedNode {
        if node.isChildUnique(at: index), let child = node.child(at: index) { return child }
        let child: OrderedNode
        if let shared = node.child(at: index) {
            child = shared.copy()
        } else {
            child = try OrderedIndex.whole(node, index, source)
            dirtyBytes += OrderedLimits.nodeBytes - (node.delta(at: index)?.memoryBytes ?? 0)
        }
        node.setChild(child, at: index)
        return child
    }

    /// A copy in memory of a child that is not there as a node, with the edits of the deltas over it.
    static func whole(
        _ node: OrderedNode, _ index: Int, _ source: any NodeSource
    ) throws(StoreError) -> OrderedNode {
        var deltas: UInt64 = 0
        let child = try node.view.child(at: index, &deltas, source)
        if deltas == 0 { return try OrderedNode(copyOf: child) }
        return try OrderedNode(copyOf: child, try OrderedDeltas(deltas, source))
    }

    // MARK: Deltas

    /// Notes an entry, or that there is none, as an edit in a delta over the leaf. Returns whether that is new. Returns
    /// nil, and changes nothing, if the leaf is to be changed itself.
    @inline(__always)
    private mutating func editInDelta(
        of node: OrderedNode, at index: Int, _ target: OrderedTarget, isThere: Bool, _ source: any NodeSource
    ) throws(StoreError) -> Bool? {
        guard node.level == 1, node.reference(at: index) & 3 != 1, deltas.mostEdits > 0 else { return nil }
        return try editLeaf(below: node, at: index, target, isThere, source)
    }

    @inline(never)
    private mutating func editLeaf(
        below node: OrderedNode, at index: Int, _ target: OrderedTarget, _ isThere: Bool, _ source: any NodeSource
    ) throws(StoreError) -> Bool? {
        let reference = node.reference(at: index)
        let own = OrderedDeltaView(inMemory: reference)
        let place = try own?.position(of: target) ?? (index: 0, isFound: false)
        var wasThere = place.isFound ? try own?.edit(at: place.index).isThere : nil
        var (count, bytes) = (own?.leafCount ?? 0, own?.leafBytes ?? 0)
        if wasThere == nil {
            wasThere = try OrderedIndex.isThere(target, below: own?.base ?? reference, &count, &bytes, source)
        }
        if wasThere == isThere { return false }
        let entryBytes = OrderedEntryField.leafBytes + target.key.count
        count += isThere ? 1 : -1
        bytes += isThere ? entryBytes : -entryBytes
        let slots = OrderedNodeField.bytes + count * OrderedSlotField.bytes
        // DL3: a leaf that would be empty, or have too much for a node, becomes whole.
        guard count > 0, bytes >= 0, slots + bytes <= OrderedLimits.nodeBytes else { return nil }
        guard let delta = ownDelta(below: node, at: index, place.isFound ? 0 : OrderedDelta.bytes(of: target)) else {
            return nil
        }
        delta.set(target, isThere: isThere, at: place, leafCount: count, leafBytes: bytes)
        return true
    }

    /// Whether a leaf has the entry, without the delta in memory over it. Also returns the leaf's count and bytes, if
    /// they are not known, that is, 0.
    private static func isThere(
        _ target: OrderedTarget, below reference: UInt64, _ count: inout Int, _ bytes: inout Int,
        _ source: any NodeSource
    ) throws(StoreError) -> Bool {
        var next = reference
        var left = FormatLimits.maximumDeltas
        while next & 7 == 2 {
            let delta = try OrderedDeltaView(stored: next & ~7, source)
            left &-= 1
            guard left >= 0 else { throw delta.damaged("a leaf has too many deltas.") }
            if count == 0 { (count, bytes) = (delta.leafCount, delta.leafBytes) }
            if let isThere = try delta.isThere(target) { return isThere }
            next = delta.base
        }
        let leaf = try OrderedNodeView(stored: next, source)
        guard leaf.isLeaf else { throw leaf.damaged("a node has the wrong level.") }
        if count == 0 { (count, bytes) = (leaf.count, leaf.field(OrderedNodeField.entryBytes)) }
        return try leaf.position(of: target).isFound
    }

    /// The delta in memory over the leaf, without other references and with so much room; nil if it would be too large.
    private mutating func ownDelta(below node: OrderedNode, at index: Int, _ room: Int) -> OrderedDelta? {
        // Asked first: `old` is another reference.
        let isOwn = node.isChildUnique(at: index)
        let new: OrderedDelta?
        let old = node.delta(at: index)
        if let old {
            if room > 0, old.count >= Int(deltas.mostEdits) { return nil }
            if isOwn, old.hasRoom(for: room) { return old }
            new = old.copy(withRoomFor: room)
        } else {
            new = OrderedDelta(over: node.reference(at: index), roomFor: room)
        }
        guard let new else { return nil }
        node.setDelta(new, at: index)
        dirtyBytes += new.memoryBytes - (old?.memoryBytes ?? 0)
        return new
    }
}
