// Goes from leaf to leaf of an ordered index, in either direction.

/// The leaves of an index from one on, and the nodes that lead to the current one.
///
/// 1. Levels fall by one from node to node, so there are at most `maximumLevel` nodes above a leaf.
/// 2. Every leaf begins after the end of the one before it (or ends in front of its beginning), otherwise it is
///    damaged: so no leaf comes twice, even if nodes are wrong, and the walk ends.
///
/// Allocates nothing. Views stay valid because the source keeps its bytes, and the caller the index.
struct OrderedWalk {
    private struct Step {
        var view: OrderedNodeView
        var index: Int
    }

    private let source: any NodeSource
    private let isReversed: Bool
    private let isValidating: Bool
    /// One place for each level above the leaves: `maximumLevel` of them.
    private var above = InlineArray<19, Step?>(repeating: nil)
    private var depth = 0
    private(set) var leaf: OrderedNodeView
    /// The reference to the deltas over the leaf; 0 without any.
    private(set) var deltas: UInt64 = 0
    /// These deltas, while validating. Elsewhere, so that a walk is small.
    private(set) var validated: ValidatedDeltas?

    /// Begins with the leaf in or beside which the cut is; without a cut, at the very beginning or end.
    init(
        _ root: OrderedNodeView, at cut: OrderedTarget?, isReversed: Bool, isValidating: Bool = false,
        _ source: any NodeSource
    ) throws(StoreError) {
        self.source = source
        self.isReversed = isReversed
        self.isValidating = isValidating
        assert(above.count == OrderedLimits.maximumLevel, "A walk has not a place for each level.")
        leaf = root
        try descend(at: cut)
    }

    /// Descends from the node in `leaf` to a leaf.
    private mutating func descend(at cut: OrderedTarget?) throws(StoreError) {
        if isValidating { try leaf.validate() }
        while !leaf.isLeaf {
            let index = if let cut { try leaf.childIndex(of: cut) } else { isReversed ? leaf.count - 1 : 0 }
            guard depth < above.count else { throw leaf.damaged("an index is too high.") }
            above[depth] = Step(view: leaf, index: index)
            depth += 1
            leaf = try child(of: leaf, at: index)
            if isValidating { try leaf.validate() }
        }
        if isValidating { try validateDeltas() }
    }

    private mutating func child(of view: OrderedNodeView, at index: Int) throws(StoreError) -> OrderedNodeView {
        let child = try view.child(at: index, &deltas, source)
        if isValidating, view.isStored, (deltas == 0 ? child.fileOffset : deltas & ~7) >= view.fileOffset {
            throw view.damaged("a node refers to a node that does not precede it.")
        }
        return child
    }

    /// Moves to the next leaf in the direction of the walk; false at the end.
    mutating func advance() throws(StoreError) -> Bool {
        let last = leaf
        let lastEntry = isValidating ? try entry(isLast: true) : nil
        while depth > 0, let step = above[depth - 1] {
            let index = isReversed ? step.index - 1 : step.index + 1
            guard index >= 0, index < step.view.count else {
                depth -= 1
                continue
            }
            above[depth - 1]?.index = index
            leaf = try child(of: step.view, at: index)
            try descend(at: nil)
            let (left, right) = isReversed ? (leaf, last) : (last, leaf)
            try requireAscending(left, right)
            if let lastEntry { try requireSeparated(lastEntry, by: step.view, at: index) }
            return true
        }
        return false
    }

    private func requireAscending(_ left: OrderedNodeView, _ right: OrderedNodeView) throws(StoreError) {
        try right.requireAscending(try left.keyAndObject(at: left.count - 1), try right.keyAndObject(at: 0))
    }

    private func requireSeparated(
        _ last: (key: UnsafeRawBufferPointer, object: UInt64), by node: OrderedNodeView, at index: Int
    ) throws(StoreError) {
        let (key, object) = try node.keyAndObject(at: index)
        let separator = OrderedTarget(key, object: object)
        let first = try entry(isLast: false)
        guard separator.order(of: last.key, last.object, equal: 0) < 0,
            separator.order(of: first.key, first.object, equal: 0) >= 0
        else { throw node.damaged("a separator does not separate its children.") }
    }

    /// The first or the last entry of the leaf with its deltas, while validating.
    private func entry(isLast: Bool) throws(StoreError) -> (key: UnsafeRawBufferPointer, object: UInt64) {
        var merged = try MergedLeaf(leaf, validated?.deltas ?? OrderedDeltas(), isReversed: isLast)
        guard let entry = try merged.next() else { throw leaf.damaged("a leaf with deltas is empty.") }
        return entry
    }

    /// DL3, and that the highest delta counts right.
    private mutating func validateDeltas() throws(StoreError) {
        validated = nil
        if deltas == 0 { return }
        let all = try OrderedDeltas(deltas, source)
        validated = ValidatedDeltas(all)
        for number in 0..<all.count where all[number].fileOffset != 0 { try all[number].validate() }
        var merged = try MergedLeaf(leaf, all)
        var (count, bytes) = (0, 0)
        while let (key, _) = try merged.next() {
            count += 1
            bytes += OrderedEntryField.leafBytes + key.count
        }
        guard count > 0, count == all[0].leafCount, bytes == all[0].leafBytes,
            OrderedNodeField.bytes + count * OrderedSlotField.bytes + bytes <= OrderedLimits.nodeBytes
        else { throw all[0].damaged("a delta counts the entries of its leaf wrongly.") }
    }
}

final class ValidatedDeltas {
    let deltas: OrderedDeltas

    init(_ deltas: OrderedDeltas) { self.deltas = deltas }
}
