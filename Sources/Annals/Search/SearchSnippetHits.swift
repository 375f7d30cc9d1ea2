// Finds the terms of a text that belong to matches of a plan's leaves.

/// A term, or the first character of a pair, that belongs to a match: offsets in the text's UTF-8.
struct SearchHit: Hashable {
    var start: Int
    var end: Int
    var leaf: Int
}

/// Reads a text once. A phrase of n patterns has n bits, as in `DocumentTerms`: bit i is set after a term if patterns
/// 0...i match the last i + 1 terms.
struct SearchHits {
    /// Terms at consecutive positions, the last ones of the text.
    private static let recentTerms = SearchPlan.maximumPatterns

    private var trie = PatternTrie()
    private let leaves: [SearchLeaf]
    /// By leaf, then by pattern: whether the pattern is one character that begins a pair.
    private var areHeads: [[Bool]]
    private var begun: [UInt64]
    private var matching: [UInt64]
    /// The leaves with bits in `begun` or `matching`.
    private var active: [Int] = []
    /// By leaf: the position at which the last match ended.
    private var ends: [Int]
    private var recent = [TermPlace?](repeating: nil, count: Self.recentTerms)
    /// By leaf with a distance, then by pattern: the terms that match.
    private var near: [Int: [[TermPlace]]] = [:]
    private var hits: [SearchHit] = []

    /// The hits in a text, by their starts. A leaf beneath `not` has none, and neither has one that does not allow the
    /// attribute.
    static func hits(in text: UnsafeRawBufferPointer, _ leaves: [SearchLeaf], attribute: Int?) -> [SearchHit] {
        var search = Self(leaves, attribute)
        var tokenizer = Tokenizer()
        tokenizer.forEachTerm(of: text) { term, place in search.note(term, place) }
        search.addNear()
        return search.hits.sorted { ($0.start, $0.end, $0.leaf) < ($1.start, $1.end, $1.leaf) }
    }

    private init(_ leaves: [SearchLeaf], _ attribute: Int?) {
        self.leaves = leaves.map { leaf in
            var leaf = leaf
            // Words near each other may be named twice.
            if leaf.distance != nil { leaf.patterns = Self.distinct(leaf.patterns) }
            return leaf
        }
        areHeads = self.leaves.map { $0.patterns.map(Self.isHead) }
        begun = [UInt64](repeating: 0, count: leaves.count)
        matching = begun
        ends = [Int](repeating: -1, count: leaves.count)
        for (index, leaf) in self.leaves.enumerated()
        where leaf.isScored && attribute.map(leaf.allows) ?? true && !leaf.patterns.isEmpty {
            assert(leaf.patterns.count <= SearchPlan.maximumPatterns, "QP1: a leaf has too many patterns.")
            if leaf.distance != nil { near[index] = leaf.patterns.map { _ in [] } }
            for (place, pattern) in leaf.patterns.enumerated() {
                trie.add(pattern, PatternUse(leaf: index, place: place, kind: .word))
            }
        }
    }

    private static func distinct(_ patterns: [SearchPattern]) -> [SearchPattern] {
        var known: Set<SearchPattern> = []
        return patterns.filter { known.insert($0).inserted }
    }

    private static func isHead(_ pattern: SearchPattern) -> Bool {
        guard pattern.isPrefix else { return false }
        var tokenizer = Tokenizer()
        var isHead = false
        pattern.bytes.withUnsafeBytes { bytes in
            tokenizer.forEachTerm(of: bytes) { _, place in
                isHead = place.position == 0 && place.isPair && place.head == place.end
            }
        }
        return isHead
    }

    private mutating func note(_ term: UnsafeRawBufferPointer, _ place: TermPlace) {
        recent[place.position % Self.recentTerms] = place
        let (trie, leaves) = (trie, leaves)
        trie.forEachUse(term) { use in
            if leaves[use.leaf].distance != nil {
                near[use.leaf]?[use.place].append(place)
            } else {
                if begun[use.leaf] == 0 && matching[use.leaf] == 0 { active.append(use.leaf) }
                matching[use.leaf] |= 1 << UInt64(use.place)
            }
        }
        if !active.isEmpty { movePhrasesOn(place) }
    }

    private mutating func movePhrasesOn(_ place: TermPlace) {
        for leaf in active {
            begun[leaf] = (begun[leaf] << 1 | 1) & matching[leaf]
            matching[leaf] = 0
            let last = leaves[leaf].patterns.count - 1
            if begun[leaf] >> UInt64(last) & 1 == 1 { addPhrase(leaf, place, last) }
        }
        active.removeAll { begun[$0] == 0 }
    }

    /// Adds the terms of a phrase, without those that are in the phrase's last match.
    private mutating func addPhrase(_ leaf: Int, _ place: TermPlace, _ last: Int) {
        for position in max(place.position - last, ends[leaf] + 1)..<place.position {
            if let place = recent[position % Self.recentTerms] { add(leaf, place, isHead: false) }
        }
        add(leaf, place, isHead: areHeads[leaf][last])
        ends[leaf] = place.position
    }

    private mutating func add(_ leaf: Int, _ place: TermPlace, isHead: Bool) {
        hits.append(SearchHit(start: place.start, end: isHead && place.isPair ? place.head : place.end, leaf: leaf))
    }

    // MARK: Words near each other

    private mutating func addNear() {
        for (leaf, places) in near {
            let distance = leaves[leaf].distance ?? 0
            var firsts = places[0]
            for others in places.dropFirst() { firsts = Self.terms(firsts, near: others, distance) }
            for place in firsts { add(leaf, place, isHead: areHeads[leaf][0]) }
            for (pattern, others) in places.enumerated().dropFirst() {
                for place in Self.terms(others, near: firsts, distance) {
                    add(leaf, place, isHead: areHeads[leaf][pattern])
                }
            }
        }
    }

    /// The terms that have one of `others` at most `distance` positions away.
    private static func terms(_ terms: [TermPlace], near others: [TermPlace], _ distance: Int) -> [TermPlace] {
        var next = 0
        return terms.filter { term in
            while next < others.count, term.position - others[next].position > distance { next += 1 }
            return next < others.count && others[next].position - term.position <= distance
        }
    }
}
