// Checkpoints of the row index: nodes and deltas in memory go to the file, all or some, children before parents.
//
// Invariants:
// X8  The total of the entries over a leaf in the file is at most `mostInFile`, and so many deltas at most are over it
//     as `mostInChain` allows, except over damage.
// X9  A node in the file refers to no memory.

internal import Synchronization

extension RowIndex {
    /// A root as stored in a checkpoint.
    struct StoredRoot: Equatable {
        var entity: UInt16
        var depth: UInt8
        var offset: UInt64
    }

    /// Passes every node and delta in memory to `append`, children before parents, with references to the file in it.
    /// `append` returns the offset that it will have. Returns the future roots. Nothing changes before `install`.
    func writeNodes(
        _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> [StoredRoot] {
        var stored: [StoredRoot] = []
        var merged = MergedEntries()
        for entity in entities.inOrder() {
            let root = root(entity).pointee.load(ordering: .relaxed)
            let depth = root >> Self.depthShift
            let reference = NodeReference(word: root & Self.referenceMask)
            let offset = try store(reference, depth: depth, &merged, append)
            stored.append(StoredRoot(entity: entity, depth: UInt8(depth), offset: offset))
        }
        return stored
    }

    /// Returns the future reference.
    private func store(
        _ reference: NodeReference, depth: UInt64, _ merged: inout MergedEntries,
        _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> UInt64 {
        guard let memory = reference.memory else { return reference.word }
        assert(depth >= 1, "X5: a node in memory is below a leaf.")
        guard depth > 1 else { return try storeLeaf(reference, &merged, append).word }
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: IndexNode.bytes, alignment: 64)
        defer { copy.deallocate() }
        copy.copyMemory(from: UnsafeRawBufferPointer(start: memory, count: IndexNode.bytes))
        for index in 0..<IndexNode.words {
            let child = NodeReference(word: copy.integer(at: index * 8, as: UInt64.self))
            if child.memory != nil {
                let stored = try store(child, depth: depth - 1, &merged, append)
                assert(stored & 1 == 0, "X9: a written node refers to memory.")
                copy.store(stored, at: index * 8)
            }
        }
        return try append(UnsafeRawBufferPointer(copy))
    }

    /// Passes a whole leaf in memory, or a delta, to `append`. Returns the future reference.
    private func storeLeaf(
        _ reference: NodeReference, _ merged: inout MergedEntries,
        _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> NodeReference {
        guard let memory = reference.memory else { return reference }
        guard reference.isDelta else {
            return NodeReference(offset: try append(UnsafeRawBufferPointer(start: memory, count: IndexNode.bytes)))
        }
        let changes = LeafChanges(memory)
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: IndexNode.bytes, alignment: 64)
        defer { scratch.deallocate() }
        var (base, isWhole) = (changes.base, false)
        do throws(StoreError) {
            (base, isWhole) = try merge(changes, &merged)
            if isWhole {
                _ = try fill(reference, scratch.bindMemory(to: UInt64.self).baseAddress.unsafelyUnwrapped)
            }
        } catch {
            // Only reading the leaf reports the error: the checkpoint has what was changed since. If it failed, no
            // checkpoint would succeed for as long as one place of the disk cannot be read.
            if merged.count > DeltaField.mostEntries || !isWhole {
                base = changes.base
                merged.removeAll()
                changes.forEachEntry { merged.add($0) }
            }
            isWhole = false
        }
        let bytes = isWhole ? UnsafeRawBufferPointer(scratch) : merged.write(over: base, to: scratch)
        let isDelta = bytes.count != IndexNode.bytes
        assert(!isDelta || merged.count <= DeltaField.mostEntries, "X8: a delta is too large.")
        return NodeReference(offset: try append(bytes), isDelta: isDelta)
    }

    /// Adds the entries of a delta in memory, and of those below it that it should take up. Returns the base of the
    /// rest, and whether the leaf should be whole instead.
    private func merge(
        _ changes: LeafChanges, _ merged: inout MergedEntries
    ) throws(StoreError) -> (base: NodeReference, isWhole: Bool) {
        merged.removeAll()
        changes.forEachEntry { merged.add($0) }
        let links = try chain(changes.base)
        var base = changes.base
        var absorbed = 0
        for link in links {
            let isLong = links.count - absorbed >= deltas.mostInChain
            guard isLong || link.head.count <= merged.count * deltas.absorbs else { break }
            try forEachEntry(of: link) { merged.add($0) }
            base = link.head.base
            absorbed += 1
        }
        return (base, links[absorbed...].reduce(merged.count) { $0 + $1.head.count } > deltas.mostInFile)
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

    /// A leaf that was written: the word that refers to it, before and after.
    struct WrittenLeaf {
        fileprivate let slot: UnsafeMutablePointer<Atomic<UInt64>>
        fileprivate let memory: NodeReference
        fileprivate var stored = NodeReference.none
    }

    /// Passes leaves and deltas in memory that are below other nodes to `append`, as `writeNodes` does, until they take
    /// `limit` bytes or none are left. Nothing changes before `installLeaves`.
    ///
    /// Begins after those that the last call has written, so that leaves which change often do not keep the others
    /// waiting.
    ///
    /// - Returns: them, and their bytes, of which a last one may exceed the limit.
    func writeLeaves(
        ofBytes limit: Int, _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> (leaves: [WrittenLeaf], bytes: Int) {
        var leaves: [WrittenLeaf] = []
        var merged = MergedEntries()
        var bytes = 0
        var next = nextLeaf
        for leaf in leavesInMemory(from: next, atMost: limit / Self.leastLeafBytes + 1) {
            guard bytes < limit else { break }
            var written = leaf.leaf
            written.stored = try storeLeaf(written.memory, &merged) { (content) throws(StoreError) in
                bytes += content.count
                return try append(content)
            }
            leaves.append(written)
            next = leaf.number + 1
        }
        nextLeaf = next
        return (leaves, bytes)
    }

    /// The size of the smallest delta.
    private static let leastLeafBytes = 16

    /// A leaf in memory, with its number: the entity's in the upper 16 bits, below it that of the first object / 512.
    private typealias NumberedLeaf = (number: UInt64, leaf: WrittenLeaf)

    /// At most so many leaves in memory that are below other nodes, from a number on, and from the first on after the
    /// last.
    private func leavesInMemory(from number: UInt64, atMost limit: Int) -> [NumberedLeaf] {
        var leaves: [NumberedLeaf] = []
        for range in [number..<UInt64.max, 0..<number] {
            for entity in entities.inOrder() {
                let root = root(entity).pointee.load(ordering: .relaxed)
                let reference = NodeReference(word: root & Self.referenceMask)
                collect(
                    reference, depth: root >> Self.depthShift, first: UInt64(entity) << 48, in: range, atMost: limit,
                    &leaves)
            }
        }
        return leaves
    }

    /// `first`: the number of the first leaf below the reference.
    private func collect(
        _ reference: NodeReference, depth: UInt64, first: UInt64, in range: Range<UInt64>, atMost limit: Int,
        _ leaves: inout [NumberedLeaf]
    ) {
        guard let node = reference.memory, depth > 1 else { return }
        let step = UInt64(1) << ((depth - 2) * IndexNode.bits)
        for index in 0..<UInt64(IndexNode.words) where leaves.count < limit {
            let number = first + index * step
            guard number + step > range.lowerBound, number < range.upperBound else { continue }
            let slot = Self.word(node, index)
            let below = NodeReference(word: slot.pointee.load(ordering: .relaxed))
            if below.memory == nil { continue }
            if depth == 2 {
                leaves.append((number, WrittenLeaf(slot: slot, memory: below)))
            } else {
                collect(below, depth: depth - 1, first: number, in: range, atMost: limit, &leaves)
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
