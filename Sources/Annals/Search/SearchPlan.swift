// What a search asks of a text: terms, words and phrases of terms, and a tree of conditions over them.
//
// Invariants:
// SP1  A plan has at most `maximumLeaves` leaves, all different; each has 1 to `maximumPatterns` patterns.
// SP2  A leaf with one pattern has no distance.
// SP3  Each number in the tree is that of a leaf, and the tree is at most twice as deep as a query may be.

/// A term of a query: exact, or the beginning of terms.
struct SearchPattern: Hashable, Sendable {
    /// Folded UTF-8, as the tokenizer gives it; never empty.
    var bytes: [UInt8]
    var isPrefix: Bool
}

/// A part of a plan that has a frequency, and so a share of the score: one word, a phrase, or words near each other.
struct SearchLeaf: Hashable, Sendable {
    /// One for a word.
    var patterns: [SearchPattern]
    /// Nil for a phrase: the patterns match at consecutive positions. Otherwise each pattern matches at most so many
    /// positions away from the first one, before or after it.
    var distance: Int?
    /// The searchable attributes that count, as bits by their index; nil for all.
    var attributes: UInt64?
    /// False if the leaf occurs only beneath `not`.
    var isScored: Bool

    func allows(_ attribute: Int) -> Bool { attributes.map { $0 >> UInt64(attribute) & 1 == 1 } ?? true }
}

/// A condition over the leaves of a plan.
indirect enum SearchNode: Hashable, Sendable {
    /// The leaf with this index occurs in an attribute that it allows.
    case leaf(Int)
    case all([SearchNode])
    case any([SearchNode])
    case not(SearchNode)
    case nothing
}

/// A query as terms.
struct SearchPlan: Hashable, Sendable {
    static let maximumLeaves = 64
    static let maximumPatterns = 64
    static let maximumAttributes = 64

    var leaves: [SearchLeaf]
    var root: SearchNode

    /// Whether an object matches in which the leaves occur for which `occurs` is true.
    func matches(_ occurs: (Int) -> Bool) -> Bool { Self.matches(root, occurs) }

    /// Whether an object without any of the leaves matches. If not, each match contains at least one of them.
    var matchesWithoutTerms: Bool { matches { _ in false } }

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
