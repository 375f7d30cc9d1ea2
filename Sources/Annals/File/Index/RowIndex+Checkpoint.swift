// Checkpoints of the row index: nodes in memory go to the file, all or some, children before parents.

internal import Synchronization

extension RowIndex {
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
        dirtyBytes = 0
        lastLeaf = nil
        sections.reclaim()
    }

    // MARK: Some of them

    /// A written leaf: the word that refers to it, before and after.
    struct WrittenLeaf {
        fileprivate var slot: UnsafeMutablePointer<Atomic<UInt64>>
        fileprivate var memory: NodeReference
        fileprivate var stored: NodeReference
    }

    /// Passes leaves in memory that are below other nodes to `append`, which returns their future offsets, until these
    /// are `limit`. Nothing changes before `installLeaves`.
    func writeLeaves(
        atMost limit: Int, _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> [WrittenLeaf] {
        var leaves: [WrittenLeaf] = []
        for entity in entities.inOrder() {
            let root = root(entity).pointee.load(ordering: .relaxed)
            guard let node = NodeReference(word: root & Self.referenceMask).memory else { continue }
            collectLeaves(below: node, depth: root >> Self.depthShift, atMost: limit, &leaves)
        }
        for index in leaves.indices {
            guard let memory = leaves[index].memory.memory else { continue }
            leaves[index].stored = NodeReference(
                offset: try append(UnsafeRawBufferPointer(start: memory, count: IndexNode.bytes)))
        }
        return leaves
    }

    private func collectLeaves(
        below parent: UnsafeMutableRawPointer, depth: UInt64, atMost limit: Int, _ leaves: inout [WrittenLeaf]
    ) {
        guard depth > 1 else { return }
        for index in 0..<UInt64(IndexNode.words) where leaves.count < limit {
            let slot = Self.word(parent, index)
            let reference = NodeReference(word: slot.pointee.load(ordering: .relaxed))
            guard let node = reference.memory else { continue }
            if depth == 2 {
                leaves.append(WrittenLeaf(slot: slot, memory: reference, stored: .none))
            } else {
                collectLeaves(below: node, depth: depth - 1, atMost: limit, &leaves)
            }
        }
    }

    /// Replaces these leaves by their copies in the file, which must be readable already and unchanged.
    func installLeaves(_ leaves: [WrittenLeaf]) {
        for leaf in leaves {
            leaf.slot.pointee.store(leaf.stored.word, ordering: .releasing)
            dirtyBytes -= leaf.memory.memoryBytes
            sections.retire(leaf.memory)
        }
        assert(dirtyBytes >= 0, "X5: the nodes in memory are counted wrongly.")
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
