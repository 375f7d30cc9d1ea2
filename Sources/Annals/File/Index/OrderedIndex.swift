// The ordered index: finds objects by key, as a B+tree that is a value.

/// The source of clean nodes.
package protocol NodeSource {
    /// The node at that offset of the file: 4096 bytes, verified, unchanged as long as the engine lives.
    func node(at offset: UInt64) throws(StoreError) -> UnsafeRawBufferPointer
}

/// Entries of a key and an object, each once, in ascending order of both.
///
/// A copy is a snapshot: it stays as it is, and any thread may read it, while one writer changes the original. Nodes
/// that were not changed since the index was last written are read in place in the file; a changed node is a copy in
/// memory, which is copied again if a snapshot shares it.
///
/// 1. `root` is the highest node if that is in memory, and then `rootOffset` is 0. In an empty index, and only there,
///    `root` is nil and `rootOffset` is 0.
/// 2. Nodes in memory are only below nodes in memory; `dirtyNodes` counts them.
/// 3. A level is only above the next lower one, no node is empty, and the root has more than one child, as far as that
///    is known without reading it.
///
/// Nodes that become empty are dropped, and nodes are never merged: deletions leave half-empty nodes, which later
/// insertions fill; Johnson and Shasha ("B-trees with inserts and deletes: why free-at-empty is better than
/// merge-at-half", 1989) found that to cost little space and to save most of the work. If an entry comes after the last
/// one of a full node, only the new entry goes to a new node: ascending keys fill their nodes.
package struct OrderedIndex: Sendable {
    private(set) var root: OrderedNode?
    private(set) var rootOffset: UInt64
    package private(set) var entries: UInt64
    private var dirtyNodes = 0

    /// An empty index.
    package init() { self.init(root: 0, entries: 0) }

    /// An index stored in the file: the offset of its highest node, 0 for an empty one.
    package init(root: UInt64, entries: UInt64) {
        rootOffset = root
        self.entries = entries
    }

    package var isEmpty: Bool { root == nil && rootOffset == 0 }

    /// The size of the nodes that are not in the file yet.
    package var dirtyBytes: Int { dirtyNodes * OrderedLimits.nodeBytes }

    /// Forgets the nodes in memory, after they were written to the file.
    mutating func becomeClean(root: UInt64) {
        self.root = nil
        rootOffset = root
        dirtyNodes = 0
    }

    /// Forgets nodes that were written to the file; the root is not among them.
    mutating func becameClean(nodes: Int) {
        assert(nodes < dirtyNodes && root != nil, "The root is among the written nodes.")
        dirtyNodes -= nodes
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
            try descend(&place, target, source)
        }
        let (position, isFound) = try place.node.view.position(of: target)
        if isFound { return false }
        if place.node.hasRoom(forKeyOf: key.count) {
            place.node.insert(key, object.rawValue, at: position)
        } else {
            try splitLeaf(&place, target, position)
        }
        entries &+= 1
        assert(root != nil && dirtyNodes > 0, "An index counts its nodes in memory wrongly.")
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
        dirtyNodes += 1
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
        dirtyNodes += 1
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
        dirtyNodes += 1
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
            try descend(&place, target, source)
            if node.count > 1 { branch = (node, place.index) }
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
        dirtyNodes -= branch.node.level
        assert(dirtyNodes > 0, "An index counts its nodes in memory wrongly.")
        lowerRoot()
    }

    /// Replaces the root by its child as long as it has only one.
    private mutating func lowerRoot() {
        while let node = root, node.level > 0, node.count == 1 {
            root = node.child(at: 0)
            rootOffset = root == nil ? node.storedChild(at: 0) : 0
            dirtyNodes -= 1
        }
        assert((root == nil) == (dirtyNodes == 0), "An index counts its nodes in memory wrongly.")
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
                dirtyNodes += 1
            }
        }
        guard let root else { preconditionFailure("An index without a root cannot be changed.") }
        return root
    }

    private mutating func descend(
        _ place: inout Place, _ target: OrderedTarget, _ source: any NodeSource
    ) throws(StoreError) {
        let node = place.node
        let index = try node.view.childIndex(of: target)
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
            child = try OrderedNode(copyOf: node.view.child(at: index, source))
            dirtyNodes += 1
        }
        node.setChild(child, at: index)
        return child
    }
}
