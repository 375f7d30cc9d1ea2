// F31 for one node: whether it is written in its only form, and whether its keys ascend.

extension OrderedNodeView {
    /// Throws `damaged` unless the entries lie one below the other, in the order of the slots, and references can lead
    /// to nodes.
    ///
    /// Changing a copy of the node relies on this; order and heads do not matter for it.
    func validateLayout() throws(StoreError) {
        var lowest = OrderedLimits.nodeBytes
        let slotsEnd = OrderedNodeField.bytes + count * OrderedSlotField.bytes
        for index in 0..<count {
            let (start, keyBytes) = try entry(at: index)
            lowest -= entryHeaderBytes + keyBytes
            guard start == lowest, lowest >= slotsEnd else { throw damaged("an entry of a node is misplaced.") }
            guard keyBytes <= OrderedLimits.maximumKeyBytes, index < firstKey || keyBytes >= prefixBytes else {
                throw damaged("the key of an entry is too long or too short.")
            }
            if !isLeaf { try validateInner(index, start, keyBytes) }
        }
        guard field(OrderedNodeField.lowestEntry) == lowest,
            field(OrderedNodeField.entryBytes) == OrderedLimits.nodeBytes - lowest,
            isZero(OrderedNodeField.zero, OrderedNodeField.bytes)
        else { throw damaged("the header of a node does not match its entries.") }
    }

    private func validateInner(_ index: Int, _ start: Int, _ keyBytes: Int) throws(StoreError) {
        let reference = load8(start + OrderedEntryField.child)
        guard reference & 5 == 0, reference > 2, level == 1 || reference & 2 == 0 else {
            throw damaged("the offset of a child is impossible.")
        }
        if index == 0 {
            guard keyBytes == 0, load8(start + OrderedEntryField.object) == 0 else {
                throw damaged("the first entry of an inner node has a key or an object ID.")
            }
        }
    }

    /// Throws `damaged` unless the entries ascend, and every byte of the node is as a writer of these entries writes
    /// it.
    func validate() throws(StoreError) {
        if isStored {
            try validateLayout()
            let slotsEnd = OrderedNodeField.bytes + count * OrderedSlotField.bytes
            guard isZero(slotsEnd, field(OrderedNodeField.lowestEntry)) else {
                throw damaged("the unused bytes of a node are not zero.")
            }
            if !isLeaf, head(at: 0) != 0 { throw damaged("the head of a slot is wrong.") }
        }
        guard count > firstKey else { return }
        let prefix = prefixBytes
        let common = try key(at: firstKey)
        for index in firstKey..<count {
            let (key, object) = try keyAndObject(at: index)
            guard key.count >= prefix, common.count >= prefix,
                OrderedBytes.commonBytes(key, common, limit: prefix) == prefix,
                head(at: index) == OrderedBytes.head(key, after: prefix, filler: 0)
            else { throw damaged("the head of a slot is wrong.") }
            if isLeaf, ObjectID(rawValue: object) == nil { throw damaged("an entry has no object ID.") }
            if index > firstKey {
                let last = try keyAndObject(at: index - 1)
                try requireAscending(last, (key, object))
            }
        }
    }

    func requireAscending(
        _ last: (key: UnsafeRawBufferPointer, object: UInt64), _ next: (key: UnsafeRawBufferPointer, object: UInt64)
    ) throws(StoreError) {
        guard OrderedTarget(next.key, object: next.object).order(of: last.key, last.object, equal: 0) < 0 else {
            throw damaged("the entries of an index do not ascend.")
        }
    }

    private func isZero(_ start: Int, _ end: Int) -> Bool {
        UnsafeRawBufferPointer(start: base + start, count: end - start).allSatisfy { $0 == 0 }
    }
}
