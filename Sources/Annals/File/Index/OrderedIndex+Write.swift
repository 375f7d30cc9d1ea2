// Writing an ordered index: nodes and deltas in memory go to the file, all or some, children before parents.

extension OrderedIndex {
    /// Passes each node and delta that is not in the file yet to `append`, children before parents; `append` returns
    /// its future offset there, a multiple of 8 and not 0. A node has 4096 bytes, a delta fewer. They live until
    /// `append` returns.
    ///
    /// Returns the offset of the highest node, 0 for an empty index. Afterwards no node is in memory. If `append`
    /// throws, the index is unchanged. Snapshots keep their nodes.
    package mutating func writeDirtyNodes(
        _ source: any NodeSource, _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> UInt64 {
        guard let root else { return rootOffset }
        var writer = OrderedNodesWriter(deltas, source)
        defer { writer.deallocate() }
        let offset = try writer.write(root, append)
        assert(writer.memory == dirtyBytes, "An index counts its nodes in memory wrongly.")
        becomeClean(root: offset)
        return offset
    }

    /// Passes nodes and deltas to `append` until these have at least `limit` bytes, those with the least keys first:
    /// while ascending keys are added, these are full, and the nodes for the next keys stay in memory. If `append`
    /// throws, the index cannot be used any more; copies of it are unchanged.
    ///
    /// - Returns: the bytes passed, of which a last node may exceed the limit.
    @discardableResult
    package mutating func writeNodes(
        ofBytes limit: Int, _ source: any NodeSource,
        _ append: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> Int {
        assert(limit > 0, "Nothing may be written, so an index never becomes clean.")
        guard let root = ownRoot() else { return 0 }
        var writer = OrderedNodesWriter(deltas, source)
        defer { writer.deallocate() }
        if let offset = try writer.write(some: root, atMost: limit, append) {
            assert(writer.memory == dirtyBytes, "An index counts its nodes in memory wrongly.")
            becomeClean(root: offset)
        } else {
            becameClean(bytes: writer.memory)
        }
        return writer.bytes
    }
}

/// Passes nodes and deltas in memory to `append`.
private struct OrderedNodesWriter {
    typealias Append = (UnsafeRawBufferPointer) throws(StoreError) -> UInt64

    private let deltas: OrderedDeltaPolicy
    private let source: any NodeSource
    private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: OrderedLimits.nodeBytes, alignment: 16)
    private var edits: [OrderedEdit] = []
    /// The bytes that were passed.
    private(set) var bytes = 0
    /// The memory of the nodes and deltas that were passed.
    private(set) var memory = 0

    init(_ deltas: OrderedDeltaPolicy, _ source: any NodeSource) { (self.deltas, self.source) = (deltas, source) }

    func deallocate() { scratch.deallocate() }

    private mutating func write(
        _ content: UnsafeRawBufferPointer, memory: Int, _ append: Append
    ) throws(StoreError) -> UInt64 {
        let offset = try append(content)
        precondition(
            offset != 0 && offset % UInt64(FormatLimits.frameAlignment) == 0, "A node cannot begin at that offset.")
        bytes += content.count
        self.memory += memory
        return offset
    }

    private mutating func write(
        _ node: OrderedNode, children: [UInt64], memory: Int = OrderedLimits.nodeBytes, _ append: Append
    ) throws(StoreError) -> UInt64 {
        node.write(to: scratch, children: children)
        return try write(UnsafeRawBufferPointer(scratch), memory: memory, append)
    }

    /// Writes a node with everything below it that is in memory. Returns its offset.
    ///
    /// Recursion is not deeper than the tree, which this process built or validated: at most `maximumLevel` calls.
    mutating func write(_ node: OrderedNode, _ append: Append) throws(StoreError) -> UInt64 {
        var children: [UInt64] = []
        children.reserveCapacity(node.childCount)
        for index in 0..<node.childCount {
            if let child = node.child(at: index) {
                children.append(try write(child, append))
            } else if let delta = node.delta(at: index) {
                children.append(try write(delta, of: node, at: index, append))
            } else {
                children.append(0)
            }
        }
        return try write(node, children: children, append)
    }

    /// Does the same until `limit` bytes were passed. Returns nil if the node must wait for the next time.
    mutating func write(
        some node: OrderedNode, atMost limit: Int, _ append: Append
    ) throws(StoreError) -> UInt64? {
        for index in 0..<node.childCount {
            if let child = node.ownChild(at: index) {
                guard let offset = try write(some: child, atMost: limit, append) else { return nil }
                node.setStoredChild(offset, at: index)
            } else if let delta = node.delta(at: index) {
                if bytes >= limit { return nil }
                node.setStoredChild(try write(delta, of: node, at: index, append), at: index)
            }
        }
        return bytes >= limit ? nil : try write(node, children: [], append)
    }

    // MARK: Deltas

    /// Writes a delta, with those below that it should take up, or the whole leaf if too many bytes of deltas would be
    /// over it. Returns the reference.
    private mutating func write(
        _ delta: OrderedDelta, of node: OrderedNode, at index: Int, _ append: Append
    ) throws(StoreError) -> UInt64 {
        var whole: OrderedNode?
        var below = delta.view.base
        do throws(StoreError) {
            let all = try OrderedDeltas(node.reference(at: index), source)
            if let taken = deltasToTake(all, ownBytes: delta.usedBytes) {
                try collect(all, taken)
                below = all[taken - 1].base
            } else {
                whole = try OrderedIndex.whole(node, index, source)
            }
        } catch {
            // Only reading the leaf reports the error: the checkpoint has what was changed since. If it failed, no
            // checkpoint would succeed for as long as one place of the disk cannot be read.
            try collect(OrderedDeltas(delta.view), 1)
        }
        if let whole { return try write(whole, children: [], memory: delta.memoryBytes, append) }
        let content = OrderedDelta.write(edits, over: below, like: delta.view, to: scratch)
        return try write(content, memory: delta.memoryBytes, append) | 2
    }

    /// The number of the highest deltas that become one: with the one in memory those that have at most twice the bytes
    /// of the ones above, so that an edit is written again only a few times. Nil if the leaf should be whole.
    private func deltasToTake(_ all: OrderedDeltas, ownBytes: Int) -> Int? {
        var taken = 1
        var bytes = ownBytes
        while taken < all.count,
            all[taken].bytes <= bytes * 2 || all.count - taken >= FormatLimits.maximumDeltas
        {
            bytes += all[taken].bytes
            taken += 1
        }
        for number in taken..<all.count { bytes += all[number].bytes }
        return bytes > Int(deltas.mostInFile) ? nil : taken
    }

    private mutating func collect(_ all: OrderedDeltas, _ taken: Int) throws(StoreError) {
        edits.removeAll(keepingCapacity: true)
        var merged = try MergedEdits(all, count: taken)
        var bytes = OrderedDeltaField.slots
        while let edit = try merged.next() {
            edits.append(edit)
            bytes += OrderedDeltaField.slotBytes + OrderedEditField.bytes + edit.key.count
            // Edits of a wrong delta may lie one over the other.
            guard bytes.paddedTo8 < OrderedLimits.nodeBytes else {
                throw all[taken - 1].damaged("the edits of a delta have too many bytes.")
            }
        }
    }
}
