// The plan of a search: the words and phrases that it looks for, as terms, and a tree of conditions over them.
//
// Invariants:
// QP1  A plan has at most `maximumLeaves` leaves, all different; each has 1 to `maximumPatterns` patterns.
// QP2  A leaf with one pattern has no distance.
// QP3  Each number in the tree is that of a leaf. `nothing` is a whole plan, never a part.
// QP4  The tree is at most two levels deeper than its query, so reading it recursively is safe.

/// A term of a query: exact, or the beginning of terms.
package struct SearchPattern: Hashable, Sendable {
    /// Folded UTF-8, as the tokenizer gives it; never empty.
    package var bytes: [UInt8]
    package var isPrefix: Bool

    package init(bytes: [UInt8], isPrefix: Bool) { (self.bytes, self.isPrefix) = (bytes, isPrefix) }
}

/// A part of a plan that has a frequency, and so a share of the score: one word, a phrase, or words near each other.
package struct SearchLeaf: Hashable, Sendable {
    /// One for a word.
    package var patterns: [SearchPattern]
    /// Nil for a phrase: the patterns match at consecutive positions. Otherwise each pattern matches at most so many
    /// positions away from the first one, before or after it.
    package var distance: Int?
    /// The searchable attributes that count, as bits by their index; nil for all.
    package var attributes: UInt64?
    /// False if the leaf occurs only beneath `not`.
    package var isScored: Bool

    package init(patterns: [SearchPattern], distance: Int? = nil, attributes: UInt64? = nil, isScored: Bool = true) {
        (self.patterns, self.distance, self.attributes, self.isScored) = (patterns, distance, attributes, isScored)
    }

    package func allows(_ attribute: Int) -> Bool { attributes.map { $0 >> UInt64(attribute) & 1 == 1 } ?? true }
}

/// A condition over the leaves of a plan.
package indirect enum SearchNode: Hashable, Sendable {
    /// The leaf with this index occurs in an attribute that it allows.
    case leaf(Int)
    case all([SearchNode])
    case any([SearchNode])
    case not(SearchNode)
    case nothing
}

/// A query as terms.
package struct SearchPlan: Hashable, Sendable {
    package static let maximumLeaves = 64
    package static let maximumPatterns = 64
    package static let maximumAttributes = 64

    package var leaves: [SearchLeaf]
    package var root: SearchNode

    init(leaves: [SearchLeaf], root: SearchNode) { (self.leaves, self.root) = (leaves, root) }

    /// Whether an object matches in which the leaves occur for which `occurs` is true.
    package func matches(_ occurs: (Int) -> Bool) -> Bool { Self.matches(root, occurs) }

    private static func matches(_ node: SearchNode, _ occurs: (Int) -> Bool) -> Bool {
        switch node {
        case .leaf(let leaf): occurs(leaf)
        case .all(let nodes): nodes.allSatisfy { matches($0, occurs) }
        case .any(let nodes): nodes.contains { matches($0, occurs) }
        case .not(let node): !matches(node, occurs)
        case .nothing: false
        }
    }
}
