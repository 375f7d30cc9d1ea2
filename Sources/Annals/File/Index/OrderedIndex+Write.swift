// Writing an ordered index: nodes in memory go to the file, all or some, children before parents.

extension OrderedIndex {
    /// Passes each node that is not in the file yet to `write` as its 4096 bytes, children before parents; `write`
    /// returns its future offset there, a multiple of 8 and not 0. The bytes live until `write` returns.
    ///
    /// Returns the offset of the highest node, 0 for an empty index. Afterwards no node is in memory. If `write`
    /// throws, the index is unchanged. Snapshots keep their nodes.
    package mutating func writeDirtyNodes(
        _ write: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> UInt64 {
        guard let root else { return rootOffset }
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: OrderedLimits.nodeBytes, alignment: 16)
        defer { scratch.deallocate() }
        let offset = try OrderedIndex.write(root, scratch, write)
        becomeClean(root: offset)
        return offset
    }

    /// Recursion is not deeper than the tree, which this process built or validated: at most `maximumLevel` calls.
    private static func write(
        _ node: OrderedNode, _ scratch: UnsafeMutableRawBufferPointer,
        _ write: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> UInt64 {
        var offsets: [UInt64] = []
        let children = node.level == 0 ? 0 : node.count
        offsets.reserveCapacity(children)
        for index in 0..<children {
            guard let child = node.child(at: index) else {
                offsets.append(0)
                continue
            }
            offsets.append(try self.write(child, scratch, write))
        }
        node.write(to: scratch, childOffsets: offsets)
        let offset = try write(UnsafeRawBufferPointer(scratch))
        precondition(
            offset != 0 && offset % UInt64(FormatLimits.frameAlignment) == 0, "A node cannot begin at that offset.")
        return offset
    }

    // MARK: Some of them

    /// Passes at most `limit` nodes to `write`, those with the least keys first: while ascending keys are added, these
    /// are full, and the nodes for the next keys stay in memory. If `write` throws, the index cannot be used any more;
    /// copies of it are unchanged.
    ///
    /// - Returns: their number.
    @discardableResult
    package mutating func writeNodes(
        atMost limit: Int, _ write: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> Int {
        guard let root = ownRoot() else { return 0 }
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: OrderedLimits.nodeBytes, alignment: 16)
        defer { scratch.deallocate() }
        var left = limit
        if let offset = try OrderedIndex.write(some: root, &left, scratch, write) {
            becomeClean(root: offset)
        } else {
            becameClean(nodes: limit - left)
        }
        return limit - left
    }

    /// Returns the node's offset in the file; nil if it must wait for the next time.
    private static func write(
        some node: OrderedNode, _ left: inout Int, _ scratch: UnsafeMutableRawBufferPointer,
        _ write: (UnsafeRawBufferPointer) throws(StoreError) -> UInt64
    ) throws(StoreError) -> UInt64? {
        for index in 0..<(node.level == 0 ? 0 : node.count) {
            guard let child = node.ownChild(at: index) else { continue }
            guard let offset = try self.write(some: child, &left, scratch, write) else { return nil }
            node.setStoredChild(offset, at: index)
        }
        if left == 0 { return nil }
        left -= 1
        node.write(to: scratch, childOffsets: [])
        let offset = try write(UnsafeRawBufferPointer(scratch))
        precondition(
            offset != 0 && offset % UInt64(FormatLimits.frameAlignment) == 0, "A node cannot begin at that offset.")
        return offset
    }
}
