// Looks for a plan's words and phrases in the texts of one object, without an index.
//
// Invariants:
// DT1  The frequencies of an attribute are those that `SearchLeaf.frequency` counts from positions.

/// How often a plan's leaves occur in the searchable texts of one object. Reading allocates no memory for each term, so
/// use one value for many objects.
package struct DocumentTerms {
    private var tokenizer = Tokenizer()
    private var counter: LeafCounter
    private let plan: SearchPlan
    /// The number of terms of each attribute.
    package private(set) var lengths: [UInt32]

    /// `attributes` is the number of searchable attributes.
    package init(_ plan: SearchPlan, attributes: Int) {
        self.plan = plan
        lengths = [UInt32](repeating: 0, count: attributes)
        counter = LeafCounter(plan, attributes: attributes)
    }

    /// Reads the text of an attribute. Without a call, or with nil, an attribute has no terms.
    package mutating func read(_ text: UnsafeRawBufferPointer?, attribute: Int) {
        guard let text else { return }
        lengths[attribute] = Self.read(text, attribute, &tokenizer, &counter)
    }

    /// Forgets the object, so that the next one can be read.
    package mutating func reset() {
        for attribute in lengths.indices { lengths[attribute] = 0 }
        counter.reset()
    }

    package func frequency(_ leaf: Int, _ attribute: Int) -> UInt32 { counter.frequency(leaf, attribute) }

    /// Whether the object that has been read matches the plan.
    package var matches: Bool { plan.matches { counter.occurring >> UInt64($0) & 1 == 1 } }

    /// Two parameters, because a closure cannot use one member of a structure while another one is being changed.
    private static func read(
        _ text: UnsafeRawBufferPointer, _ attribute: Int, _ tokenizer: inout Tokenizer, _ counter: inout LeafCounter
    ) -> UInt32 {
        counter.begin(attribute)
        var length: UInt32 = 0
        tokenizer.forEachTerm(of: text) { term, place in
            counter.note(term, UInt32(truncatingIfNeeded: place.position))
            length &+= 1
        }
        counter.end()
        return length
    }
}

/// Counts the leaves that end at the terms of a text, term by term.
///
/// A phrase of n patterns has n bits. Bit i is set after a term if patterns 0...i match the last i + 1 terms, so one
/// shift moves all beginnings of the phrase on by a term.
private struct LeafCounter {
    private let trie: PatternTrie
    private let attributes: Int
    /// By attribute: the leaves that it counts for, as bits.
    private let allowed: [UInt64]
    /// By leaf: the bit of a phrase's last pattern.
    private let lastBits: [UInt64]
    /// By leaf: the bits of a phrase after the last term, and the patterns that match the current one.
    private var begun: [UInt64]
    private var matching: [UInt64]
    /// The phrases with bits in `begun` or `matching`, as bits by leaf.
    private var active: UInt64 = 0
    private var near: [NearPositions]
    private var attribute = 0
    /// By leaf, then by attribute.
    private var frequencies: [UInt32]
    /// The leaves that occur in any attribute, as bits.
    private(set) var occurring: UInt64 = 0

    init(_ plan: SearchPlan, attributes: Int) {
        let leaves = plan.leaves
        self.attributes = attributes
        allowed = (0..<attributes).map { attribute in
            leaves.indices.reduce(0) { leaves[$1].allows(attribute) ? $0 | 1 << UInt64($1) : $0 }
        }
        lastBits = leaves.map { 1 << UInt64($0.patterns.count - 1) }
        begun = [UInt64](repeating: 0, count: leaves.count)
        matching = begun
        frequencies = [UInt32](repeating: 0, count: leaves.count * attributes)
        near = []
        var trie = PatternTrie()
        for (index, leaf) in leaves.enumerated() {
            let isNear = leaf.distance != nil
            if isNear { near.append(NearPositions(index, leaf)) }
            for (place, pattern) in leaf.patterns.enumerated() {
                let kind: PatternUse.Kind = leaf.patterns.count == 1 ? .word : isNear ? .near(near.count - 1) : .phrase
                trie.add(pattern, PatternUse(leaf: index, place: place, kind: kind))
            }
        }
        self.trie = trie
    }

    func frequency(_ leaf: Int, _ attribute: Int) -> UInt32 { frequencies[leaf * attributes + attribute] }

    mutating func reset() {
        for index in frequencies.indices { frequencies[index] = 0 }
        occurring = 0
    }

    mutating func begin(_ attribute: Int) { self.attribute = attribute }

    @inline(__always)
    mutating func note(_ term: UnsafeRawBufferPointer, _ position: UInt32) {
        trie.forEachUse(term) { use in note(use, position) }
        if active != 0 { movePhrasesOn() }
    }

    mutating func end() {
        for index in near.indices { count(near[index].leaf, near[index].takeFrequency()) }
        var rest = active
        active = 0
        while rest != 0 {
            begun[rest.trailingZeroBitCount] = 0
            rest &= rest - 1
        }
    }

    private mutating func note(_ use: PatternUse, _ position: UInt32) {
        guard allowed[attribute] >> UInt64(use.leaf) & 1 == 1 else { return }
        switch use.kind {
        case .word: count(use.leaf, 1)
        case .near(let index): near[index].add(position, use.place)
        case .phrase:
            matching[use.leaf] |= 1 << UInt64(use.place)
            active |= 1 << UInt64(use.leaf)
        }
    }

    private mutating func movePhrasesOn() {
        var rest = active
        while rest != 0 {
            let leaf = rest.trailingZeroBitCount
            rest &= rest - 1
            let bits = (begun[leaf] << 1 | 1) & matching[leaf]
            (begun[leaf], matching[leaf]) = (bits, 0)
            if bits & lastBits[leaf] != 0 { count(leaf, 1) }
            if bits == 0 { active &= ~(1 << UInt64(leaf)) }
        }
    }

    private mutating func count(_ leaf: Int, _ more: UInt32) {
        if more == 0 { return }
        frequencies[leaf * attributes + attribute] &+= more
        occurring |= 1 << UInt64(leaf)
    }
}

/// The positions of words near each other in the text that is being read.
private struct NearPositions {
    let leaf: Int
    private let description: SearchLeaf
    private var positions: [[UInt32]]

    init(_ leaf: Int, _ description: SearchLeaf) {
        (self.leaf, self.description) = (leaf, description)
        positions = [[UInt32]](repeating: [], count: description.patterns.count)
    }

    mutating func add(_ position: UInt32, _ place: Int) { positions[place].append(position) }

    mutating func takeFrequency() -> UInt32 {
        let frequency = description.frequency(positions)
        for place in positions.indices { positions[place].removeAll(keepingCapacity: true) }
        return frequency
    }
}
