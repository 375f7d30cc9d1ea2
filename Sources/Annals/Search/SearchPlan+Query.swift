// Makes the plan of a query: its texts become terms, and equal words and phrases become one leaf.

extension SearchPlan {
    /// `attributes` are the names of the entity's searchable attributes, in order. A query about other names finds
    /// nothing in them.
    package init(_ query: SearchQuery, attributes: [String]) {
        precondition(attributes.count <= Self.maximumAttributes, "An entity has too many searchable attributes.")
        var planning = SearchPlanning(attributes)
        let root = planning.node(query, SearchScope()) ?? .nothing
        self.init(leaves: planning.leaves, root: root)
        assert(leaves.count <= Self.maximumLeaves, "QP1: a plan has at most \(Self.maximumLeaves) leaves.")
    }
}

/// The restrictions of a part of a query that come from the parts around it.
private struct SearchScope {
    /// As in `SearchLeaf`.
    var attributes: UInt64?
    var isScored = true
}

/// The leaves found so far. A part without terms has no node: it has no effect on the parts around it.
private struct SearchPlanning {
    private let names: [String]
    private var tokenizer = Tokenizer()
    private(set) var leaves: [SearchLeaf] = []

    init(_ names: [String]) { self.names = names }

    mutating func node(_ query: SearchQuery, _ scope: SearchScope) -> SearchNode? {
        switch query.part {
        case .typed(let text): typed(text, scope)
        case .word(let text), .phrase(let text): leaf(terms(text[...]).phrase, nil, scope)
        case .prefix(let text): leaf(terms(text[...]).phraseWithPrefix, nil, scope)
        case .near(let texts, let distance): leaf(texts.flatMap { terms($0[...]).words }, distance, scope)
        case .all(let parts): Self.all(parts.compactMap { node($0, scope) })
        case .any(let parts): Self.any(parts.compactMap { node($0, scope) })
        case .not(let part): not(scope) { plan, scope in plan.node(part, scope) }
        case .attributes(let names, let part): node(part, among(names, scope))
        }
    }

    private mutating func typed(_ text: String, _ scope: SearchScope) -> SearchNode? {
        var nodes: [SearchNode] = []
        var parts = TypedQuery(text)
        // Repeated words are no new leaves, but they take time.
        while nodes.count < SearchPlan.maximumLeaves, let part = parts.next() {
            let terms = terms(part.text)
            let isExcluded = part.hasMinus && (part.isQuoted || terms.beginsAtOnce)
            let node =
                isExcluded
                ? not(scope) { plan, scope in plan.leaf(terms.phrase, nil, scope) }
                : leaf(part.isLast ? terms.phraseWithPrefix : terms.phrase, nil, scope)
            if let node { nodes.append(node) }
        }
        return Self.all(nodes)
    }

    private mutating func not(
        _ scope: SearchScope, _ node: (inout Self, SearchScope) -> SearchNode?
    ) -> SearchNode? {
        var scope = scope
        scope.isScored = false
        return node(&self, scope).map { .not($0) }
    }

    /// The leaf with these patterns; nil if there are none, or too many leaves (QP1).
    private mutating func leaf(_ patterns: [SearchPattern], _ distance: Int?, _ scope: SearchScope) -> SearchNode? {
        if patterns.isEmpty { return nil }
        let patterns = Array(patterns.prefix(SearchPlan.maximumPatterns))
        let distance = patterns.count == 1 ? nil : distance
        let equal = leaves.firstIndex {
            $0.attributes == scope.attributes && $0.distance == distance && $0.patterns == patterns
        }
        if let equal {
            if scope.isScored { leaves[equal].isScored = true }
            return .leaf(equal)
        }
        if leaves.count == SearchPlan.maximumLeaves { return nil }
        leaves.append(
            SearchLeaf(
                patterns: patterns, distance: distance, attributes: scope.attributes, isScored: scope.isScored))
        return .leaf(leaves.count - 1)
    }

    private func among(_ names: [String], _ scope: SearchScope) -> SearchScope {
        var mask: UInt64 = 0
        for (index, name) in self.names.enumerated() where names.contains(name) { mask |= 1 << UInt64(index) }
        var scope = scope
        scope.attributes = scope.attributes.map { $0 & mask } ?? mask
        return scope
    }

    private static func all(_ nodes: [SearchNode]) -> SearchNode? {
        let nodes = distinct(nodes.flatMap { if case .all(let inner) = $0 { inner } else { [$0] } })
        return nodes.count > 1 ? .all(nodes) : nodes.first
    }

    private static func any(_ nodes: [SearchNode]) -> SearchNode? {
        let nodes = distinct(nodes.flatMap { if case .any(let inner) = $0 { inner } else { [$0] } })
        return nodes.count > 1 ? .any(nodes) : nodes.first
    }

    /// Each node once, in order.
    private static func distinct(_ nodes: [SearchNode]) -> [SearchNode] {
        var known: Set<SearchNode> = []
        return nodes.filter { known.insert($0).inserted }
    }

    private mutating func terms(_ text: Substring) -> QueryTerms {
        var text = text
        return text.withUTF8 { QueryTerms(UnsafeRawBufferPointer($0), &tokenizer) }
    }
}

/// The terms of a text of a query.
///
/// A text "東京都" has the terms 東京, 京都 and 都: pairs of characters, and the last character alone. If a query ends
/// with such a run, the run may go on in the text. So the query drops the last character after a pair, which contains
/// it. If the character is the only one, it is a prefix of pairs. Within a phrase, the run ends in the text as in the
/// query.
private struct QueryTerms {
    private var terms: [SearchPattern] = []
    private var places: [TermPlace] = []
    private let endsAtOnce: Bool

    init(_ text: UnsafeRawBufferPointer, _ tokenizer: inout Tokenizer) {
        var (terms, places): ([SearchPattern], [TermPlace]) = ([], [])
        tokenizer.forEachTerm(of: text) { bytes, place in
            terms.append(SearchPattern(bytes: Array(bytes), isPrefix: false))
            places.append(place)
        }
        (self.terms, self.places, endsAtOnce) = (terms, places, places.last?.end == text.count)
    }

    /// Whether the text begins with its first term.
    var beginsAtOnce: Bool { places.first?.start == 0 }

    /// At consecutive positions.
    var phrase: [SearchPattern] { patterns { $0 == terms.count - 1 } }

    /// The phrase, with the last term as a prefix if the text ends with it: if nothing ended the word.
    var phraseWithPrefix: [SearchPattern] {
        var patterns = phrase
        if endsAtOnce, patterns.count <= SearchPlan.maximumPatterns, !patterns.isEmpty {
            patterns[patterns.count - 1].isPrefix = true
        }
        return patterns
    }

    /// At any positions.
    var words: [SearchPattern] { patterns { _ in true } }

    /// `isLoose` is true for terms after which a run of characters may go on.
    private func patterns(isLoose: (Int) -> Bool) -> [SearchPattern] {
        terms.indices.compactMap { index in
            guard isLoose(index), isLastCharacter(index) else { return terms[index] }
            let isAfterPair = index > 0 && places[index - 1].isPair && !isLastCharacter(index - 1)
            return isAfterPair ? nil : SearchPattern(bytes: terms[index].bytes, isPrefix: true)
        }
    }

    private func isLastCharacter(_ index: Int) -> Bool {
        places[index].isPair && places[index].head == places[index].end
    }
}
