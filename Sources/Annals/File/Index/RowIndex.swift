// The row index: for each entity a radix array from object numbers to the newest version of the object.
//
// Invariants:
// X1  The word of an object is 0 if it never existed, the offset of its newest row, or the offset of its deletion's
//     change entry plus 1.
// X2  One thread changes the index at a time (the holder of the log's `follow` lock, or the writer while it appends);
//     readers are inside read sections.
// X3  A node in memory is changed by single atomic stores; a node in the file never changes. A node that becomes
//     unreachable is retired, not freed.
// X4  A node that was read from the file never holds a reference to memory: its words are checked before they are
//     followed.
// X5  Nodes in memory are only below nodes in memory or a root, and each below one; `dirtyNodes` counts them.

internal import Synchronization

/// Sound although it is shared: by X2 and X3.
final class RowIndex: @unchecked Sendable {
    private static let maximumEntities = FormatLimits.maximumEntities + 1
    /// The uppermost four bits of a root's word are its depth.
    private static let depthShift: UInt64 = 60
    private static let referenceMask: UInt64 = 1 << depthShift - 1
    /// Set in no reference to the file.
    private static let impossibleBits = ~referenceMask | 7

    private let roots: PrivateMemory
    private let sections: ReadSections
    private let source: VerifiedFile
    /// The entities with a root.
    private(set) var entities: [UInt16] = []
    private var dirtyNodes = 0
    /// The leaf that was changed last.
    private var lastLeaf: UnsafeMutableRawPointer?
    private var lastLeafKey: UInt64 = 0

    init(_ source: VerifiedFile, _ sections: ReadSections) throws(StoreError) {
        guard let memory = PrivateMemory(count: Self.maximumEntities * 8) else {
            throw StoreError(
                .outOfMemory,
                "The process has too little address space left to open the store: raise its limit (ulimit -v).")
        }
        roots = memory
        self.source = source
        self.sections = sections
    }

    deinit { for node in nodesInMemory() { node.deallocate() } }

    /// The memory of nodes that are not in the file.
    var dirtyBytes: Int { dirtyNodes * IndexNode.bytes }

    private func nodesInMemory() -> [UnsafeMutableRawPointer] {
        var nodes: [UnsafeMutableRawPointer] = []
        nodes.reserveCapacity(dirtyNodes)
        for entity in entities {
            let root = root(entity).pointee.load(ordering: .relaxed)
            guard let node = NodeReference(word: root & Self.referenceMask).memory else { continue }
            nodes.append(node)
            _ = forEachNode(below: node, depth: root >> Self.depthShift) { (_, node, _) in
                nodes.append(node)
                return true
            }
        }
        assert(nodes.count == dirtyNodes, "X5: the nodes in memory are counted wrongly.")
        return nodes
    }

    /// Passes the nodes in memory below one to `body`, each with the word that refers to it and its depth, parents
    /// before children. Returns false, and stops, if `body` returns false.
    private func forEachNode(
        below parent: UnsafeMutableRawPointer, depth: UInt64,
        _ body: (UnsafeMutablePointer<Atomic<UInt64>>, UnsafeMutableRawPointer, UInt64) -> Bool
    ) -> Bool {
        guard depth > 1 else { return true }
        for index in 0..<UInt64(IndexNode.words) {
            let slot = Self.word(parent, index)
            guard let node = NodeReference(word: slot.pointee.load(ordering: .relaxed)).memory else { continue }
            guard body(slot, node, depth - 1), forEachNode(below: node, depth: depth - 1, body) else { return false }
        }
        return true
    }

    // MARK: Words

    @inline(__always)
    private static func word(_ node: UnsafeMutableRawPointer, _ index: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
        assert(UInt(bitPattern: node) % 8 == 0, "not aligned")
        return (node + Int(truncatingIfNeeded: index) &* 8).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    @inline(__always)
    private func root(_ entity: UInt16) -> UnsafeMutablePointer<Atomic<UInt64>> {
        Self.word(roots.bytes.baseAddress.unsafelyUnwrapped, UInt64(entity))
    }

    /// A word of a node in memory or in the file.
    @inline(__always)
    private func load(_ reference: NodeReference, _ index: UInt64) throws(StoreError) -> UInt64 {
        if let memory = reference.memory { return Self.word(memory, index).pointee.load(ordering: .acquiring) }
        return try source.word(at: reference.word &+ index &* 8)
    }

    /// A reference in a node below the root.
    @inline(__always)
    private func child(_ parent: NodeReference, _ index: UInt64) throws(StoreError) -> NodeReference {
        let word = try load(parent, index)
        if parent.word & 1 == 0, word & Self.impossibleBits != 0 { throw Self.malformed(parent.word) }
        return NodeReference(word: word)
    }

    @inline(never)
    private static func malformed(_ offset: UInt64) -> StoreError {
        StoreError(
            .damaged, "F30: a node of the row index is malformed. Restore the store from a backup.", offset: offset)
    }

    // MARK: Reading

    /// The word of an object. Inside a read section.
    @inline(__always)
    func newest(_ object: ObjectID) throws(StoreError) -> UInt64 {
        let root = root(object.entityNumber).pointee.load(ordering: .acquiring)
        var depth = root >> Self.depthShift
        let number = object.number
        guard depth > 0, number &>> (depth &* IndexNode.bits) == 0 else { return 0 }
        var reference = NodeReference(word: root & Self.referenceMask)
        while depth > 1 {
            depth &-= 1
            reference = try child(reference, number &>> (depth &* IndexNode.bits) & 511)
            if reference.isNone { return 0 }
        }
        let word = try load(reference, number & 511)
        if word & 6 != 0 { throw Self.malformed(reference.word) }
        return word
    }

    /// One above the highest number that the entity's array reaches now; 0 if it has none.
    func numberLimit(_ entity: UInt16) -> UInt64 {
        let depth = root(entity).pointee.load(ordering: .acquiring) >> Self.depthShift
        return depth == 0 ? 0 : min(1 << (depth &* IndexNode.bits), FormatLimits.maximumObjectNumber + 1)
    }

    /// Copies the words of the leaf that holds `number`, or, without copying, returns the number of objects from the
    /// leaf's first on that have none: then the next number to read is after them. Inside a read section.
    func leaf(
        _ entity: UInt16, _ number: UInt64, into words: UnsafeMutablePointer<UInt64>
    ) throws(StoreError) -> LeafContent {
        let root = root(entity).pointee.load(ordering: .acquiring)
        var depth = root >> Self.depthShift
        guard depth > 0 else { return .absent(objects: FormatLimits.maximumObjectNumber + 1) }
        guard number >> (depth &* IndexNode.bits) == 0 else {
            return .absent(objects: FormatLimits.maximumObjectNumber + 1)
        }
        var reference = NodeReference(word: root & Self.referenceMask)
        while depth > 1 {
            depth &-= 1
            reference = try child(reference, number >> (depth &* IndexNode.bits) & 511)
            if reference.isNone { return .absent(objects: 1 << (depth &* IndexNode.bits)) }
        }
        var all: UInt64 = 0
        if let memory = reference.memory {
            for index in 0..<IndexNode.words {
                words[index] = Self.word(memory, UInt64(index)).pointee.load(ordering: .acquiring)
                all |= words[index]
            }
        } else {
            // Verified once for all of its words.
            let node = try source.node(at: reference.word)
            for index in 0..<IndexNode.words {
                words[index] = UInt64(littleEndian: node.load(fromByteOffset: index &* 8, as: UInt64.self))
                all |= words[index]
            }
        }
        if all & 6 != 0 { throw Self.malformed(reference.word) }
        return .present
    }

    enum LeafContent {
        case present
        /// The aligned range of this number of object numbers, which contains the requested one, has no object.
        case absent(objects: UInt64)
    }

    // MARK: Changing

    /// Stores the word of an object, and returns the one before it.
    @discardableResult
    func set(_ object: ObjectID, to word: UInt64) throws(StoreError) -> UInt64 {
        assert(word & 6 == 0, "X1: a word names neither a row nor a deletion.")
        let key = object.rawValue >> IndexNode.bits
        if lastLeaf == nil || key != lastLeafKey { (lastLeaf, lastLeafKey) = (try leafToChange(object), key) }
        let slot = Self.word(lastLeaf.unsafelyUnwrapped, object.number & 511)
        let before = slot.pointee.load(ordering: .relaxed)
        slot.pointee.store(word, ordering: .releasing)
        return before
    }

    /// Ensures that the entity has a root, because it had objects once.
    func makeRoot(_ entity: UInt16) {
        guard root(entity).pointee.load(ordering: .relaxed) == 0 else { return }
        entities.append(entity)
        publish(root(entity), makeNode(), 1)
    }

    private func leafToChange(_ object: ObjectID) throws(StoreError) -> UnsafeMutableRawPointer {
        let slot = root(object.entityNumber)
        let number = object.number
        var depth = slot.pointee.load(ordering: .relaxed) >> Self.depthShift
        if depth == 0 {
            makeRoot(object.entityNumber)
            depth = 1
        }
        while number >> (depth &* IndexNode.bits) != 0 {
            let above = makeNode()
            let below = slot.pointee.load(ordering: .relaxed) & Self.referenceMask
            Self.word(above, 0).pointee.store(below, ordering: .relaxed)
            depth += 1
            publish(slot, above, depth)
        }
        let reference = NodeReference(word: slot.pointee.load(ordering: .relaxed) & Self.referenceMask)
        var node = try inMemory(reference, isLeaf: depth == 1)
        if reference.memory == nil { publish(slot, node, depth) }
        while depth > 1 {
            depth -= 1
            let slot = Self.word(node, number >> (depth &* IndexNode.bits) & 511)
            let below = NodeReference(word: slot.pointee.load(ordering: .relaxed))
            node = try inMemory(below, isLeaf: depth == 1)
            if below.memory == nil { slot.pointee.store(NodeReference(memory: node).word, ordering: .releasing) }
        }
        return node
    }

    private func publish(
        _ slot: UnsafeMutablePointer<Atomic<UInt64>>, _ node: UnsafeMutableRawPointer, _ depth: UInt64
    ) {
        assert(depth >= 1 && depth <= IndexNode.maximumDepth, "A root has an impossible depth.")
        slot.pointee.store(NodeReference(memory: node).word | depth << Self.depthShift, ordering: .releasing)
    }

    private func makeNode() -> UnsafeMutableRawPointer {
        let node = sections.makeNode()
        node.initializeMemory(as: UInt8.self, repeating: 0, count: IndexNode.bytes)
        dirtyNodes += 1
        return node
    }

    /// The node in memory, or a copy of it there.
    private func inMemory(_ reference: NodeReference, isLeaf: Bool) throws(StoreError) -> UnsafeMutableRawPointer {
        if let memory = reference.memory { return memory }
        if reference.isNone { return makeNode() }
        let content = try source.node(at: reference.word)
        for index in 0..<IndexNode.words where !isLeaf {
            let word = content.integer(at: index * 8, as: UInt64.self)
            if word & Self.impossibleBits != 0 { throw Self.malformed(reference.word) }
        }
        let node = sections.makeNode()
        node.copyMemory(from: content.baseAddress.unsafelyUnwrapped, byteCount: IndexNode.bytes)
        dirtyNodes += 1
        return node
    }

    // MARK: Checkpoints

    /// A root as stored in a checkpoint.
    struct StoredRoot: Equatable {
        var entity: UInt16
        var depth: UInt8
        var offset: UInt64
    }

    /// Passes every node in memory to `append`, children before parents, with references to the file in it. `append`
    /// returns the offset that the node will have. Returns the future roots. Nothing changes before `take`.
    func writeNodes(
        _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> [StoredRoot] {
        var stored: [StoredRoot] = []
        for entity in entities.inOrder() {
            let root = root(entity).pointee.load(ordering: .relaxed)
            let depth = root >> Self.depthShift
            let reference = NodeReference(word: root & Self.referenceMask)
            let offset = try store(reference, depth: depth, append)
            stored.append(StoredRoot(entity: entity, depth: UInt8(depth), offset: offset))
        }
        return stored
    }

    private func store(
        _ reference: NodeReference, depth: UInt64, _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> UInt64 {
        guard let memory = reference.memory else { return reference.word }
        assert(depth >= 1, "X5: a node in memory is below a leaf.")
        guard depth > 1 else { return try append(UnsafeRawBufferPointer(start: memory, count: IndexNode.bytes)) }
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: IndexNode.bytes, alignment: 64)
        defer { copy.deallocate() }
        copy.copyMemory(from: UnsafeRawBufferPointer(start: memory, count: IndexNode.bytes))
        for index in 0..<IndexNode.words {
            let child = NodeReference(word: copy.integer(at: index * 8, as: UInt64.self))
            if child.memory != nil {
                copy.store(try store(child, depth: depth - 1, append), at: index * 8)
            }
        }
        return try append(UnsafeRawBufferPointer(copy))
    }

    /// Makes these roots the index: nodes in memory are reclaimed after their last reader has ended.
    ///
    /// A root is replaced by one atomic store: readers must find every object all the time.
    func install(_ stored: [StoredRoot]) {
        assert(stored.allSatisfy(\.isPossible), "A root is not possible.")
        let nodes = nodesInMemory()
        let kept = stored.map(\.entity).inOrder()
        for entity in entities where !kept.hasSorted(entity) { root(entity).pointee.store(0, ordering: .releasing) }
        entities = stored.map(\.entity)
        for root in stored {
            self.root(root.entity).pointee.store(
                root.offset | UInt64(root.depth) << Self.depthShift, ordering: .releasing)
        }
        for node in nodes { sections.retire(node) }
        dirtyNodes = 0
        lastLeaf = nil
        sections.reclaim()
    }

    // MARK: Some of them

    /// A written leaf, and the node that refers to it.
    struct WrittenLeaf {
        fileprivate var slot: UnsafeMutablePointer<Atomic<UInt64>>
        fileprivate var memory: UnsafeMutableRawPointer
        fileprivate var offset: UInt64
    }

    /// Passes at most `limit` leaves in memory that are below other nodes to `append`, which returns their future
    /// offsets. Nothing changes before `installLeaves`.
    func writeLeaves(
        atMost limit: Int, _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> [WrittenLeaf] {
        var leaves: [WrittenLeaf] = []
        for entity in entities.inOrder() {
            let root = root(entity).pointee.load(ordering: .relaxed)
            guard let node = NodeReference(word: root & Self.referenceMask).memory else { continue }
            let isComplete = forEachNode(below: node, depth: root >> Self.depthShift) { (slot, node, depth) in
                if depth == 1 { leaves.append(WrittenLeaf(slot: slot, memory: node, offset: 0)) }
                return leaves.count < limit
            }
            if !isComplete { break }
        }
        for index in leaves.indices {
            leaves[index].offset = try append(
                UnsafeRawBufferPointer(start: leaves[index].memory, count: IndexNode.bytes))
        }
        return leaves
    }

    /// Replaces these leaves by their copies in the file, which must be readable already and unchanged.
    func installLeaves(_ leaves: [WrittenLeaf]) {
        for leaf in leaves {
            leaf.slot.pointee.store(NodeReference(offset: leaf.offset).word, ordering: .releasing)
            sections.retire(leaf.memory)
        }
        assert(leaves.count <= dirtyNodes, "X5: the nodes in memory are counted wrongly.")
        dirtyNodes -= leaves.count
        lastLeaf = nil
        sections.reclaim()
    }
}

extension RowIndex.StoredRoot {
    /// A root that a checkpoint below `end` may name.
    var isPossible: Bool {
        entity != 0 && depth >= 1 && UInt64(depth) <= IndexNode.maximumDepth && offset % 8 == 0 && offset > 0
            && offset < 1 << 56
    }
}
