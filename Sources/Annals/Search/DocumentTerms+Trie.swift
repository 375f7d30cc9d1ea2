// The patterns of a plan as a tree by their bytes: one walk along a term finds all patterns that match it.

/// The place of a pattern in a plan.
struct PatternUse {
    enum Kind {
        case word
        case phrase
        /// With the index of its leaf among those that have a distance.
        case near(Int)
    }

    var leaf: Int
    /// The index of the pattern in its leaf.
    var place: Int
    var kind: Kind
}

struct PatternTrie {
    private struct Node {
        var byte: UInt8
        /// Indices of nodes and of uses; -1 for none.
        var firstChild: Int32 = -1
        var nextSibling: Int32 = -1
        var firstExact: Int32 = -1
        var firstPrefix: Int32 = -1
    }

    /// The nodes for a first byte; -1 for none. Most terms end here.
    private var roots = [Int32](repeating: -1, count: 256)
    private var nodes: [Node] = []
    /// Each with the next use of the same pattern, or -1.
    private var uses: [(use: PatternUse, next: Int32)] = []

    init() {}

    init(_ plan: SearchPlan) {
        var nearLeaves = 0
        for (index, leaf) in plan.leaves.enumerated() {
            let isNear = leaf.distance != nil
            let kind: PatternUse.Kind = leaf.patterns.count == 1 ? .word : isNear ? .near(nearLeaves) : .phrase
            for (place, pattern) in leaf.patterns.enumerated() {
                add(pattern, PatternUse(leaf: index, place: place, kind: kind))
            }
            if isNear { nearLeaves += 1 }
        }
    }

    /// Adds a pattern that is not empty.
    mutating func add(_ pattern: SearchPattern, _ use: PatternUse) {
        var node: Int32 = -1
        for byte in pattern.bytes { node = child(of: node, byte) ?? addChild(of: node, byte) }
        let index = Int32(uses.count)
        if pattern.isPrefix {
            uses.append((use, nodes[Int(node)].firstPrefix))
            nodes[Int(node)].firstPrefix = index
        } else {
            uses.append((use, nodes[Int(node)].firstExact))
            nodes[Int(node)].firstExact = index
        }
    }

    /// Calls `body` for the uses of each pattern that matches a term.
    @inline(__always)
    func forEachUse(_ term: UnsafeRawBufferPointer, _ body: (PatternUse) -> Void) {
        guard let first = term.first, roots[Int(first)] >= 0 else { return }
        walk(term, from: roots[Int(first)], body)
    }

    private func walk(_ term: UnsafeRawBufferPointer, from root: Int32, _ body: (PatternUse) -> Void) {
        var node = root
        var place = 1
        while true {
            forEachUse(from: nodes[Int(node)].firstPrefix, body)
            if place == term.count { return forEachUse(from: nodes[Int(node)].firstExact, body) }
            guard let next = child(of: node, term[place]) else { return }
            node = next
            place &+= 1
        }
    }

    private func forEachUse(from first: Int32, _ body: (PatternUse) -> Void) {
        var next = first
        while next >= 0 {
            body(uses[Int(next)].use)
            next = uses[Int(next)].next
        }
    }

    private func child(of node: Int32, _ byte: UInt8) -> Int32? {
        var next = node < 0 ? roots[Int(byte)] : nodes[Int(node)].firstChild
        while next >= 0, nodes[Int(next)].byte != byte { next = nodes[Int(next)].nextSibling }
        return next < 0 ? nil : next
    }

    private mutating func addChild(of parent: Int32, _ byte: UInt8) -> Int32 {
        let index = Int32(nodes.count)
        nodes.append(Node(byte: byte))
        if parent < 0 {
            roots[Int(byte)] = index
        } else {
            nodes[Int(index)].nextSibling = nodes[Int(parent)].firstChild
            nodes[Int(parent)].firstChild = index
        }
        return index
    }
}
