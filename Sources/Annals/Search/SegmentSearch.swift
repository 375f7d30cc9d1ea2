// Finds the matches in one segment: each leaf of the plan as a set of objects, and then the whole plan.
//
// Invariants:
// XG1  The frequency of a leaf in an attribute is what `DocumentTerms` counts in the object's text.
// XG2  Dead objects are neither matches nor counted.
// XG3  Between two leaves, all `summed` frequencies are 0.

/// A set of ordinals of a segment.
struct OrdinalSet: Equatable {
    private(set) var words: [UInt64]
    private let count: Int

    /// - Parameter isFull: Whether it has all ordinals below the count, or none.
    init(count: Int, isFull: Bool = false) {
        self.count = count
        words = [UInt64](repeating: isFull ? .max : 0, count: (count + 63) / 64)
        if isFull, count & 63 != 0 { words[words.count - 1] = 1 << UInt64(count & 63) - 1 }
    }

    var size: Int { words.reduce(0) { $0 + $1.nonzeroBitCount } }
    func contains(_ ordinal: Int) -> Bool { words[ordinal >> 6] >> UInt64(ordinal & 63) & 1 == 1 }
    mutating func insert(_ ordinal: Int) { words[ordinal >> 6] |= 1 << UInt64(ordinal & 63) }

    mutating func formIntersection(_ other: OrdinalSet) {
        for index in words.indices { words[index] &= other.words[index] }
    }

    mutating func formUnion(_ other: OrdinalSet) {
        for index in words.indices { words[index] |= other.words[index] }
    }

    /// Removes the ordinals of bits; missing words have none.
    mutating func subtract(_ bits: [UInt64]) {
        for index in bits.indices where index < words.count { words[index] &= ~bits[index] }
    }

    /// All other ordinals.
    var complement: OrdinalSet {
        var other = OrdinalSet(count: count, isFull: true)
        other.subtract(words)
        return other
    }

    /// Calls `body` with each ordinal, ascending.
    func forEachOrdinal(_ body: (Int) throws(StoreError) -> Void) throws(StoreError) {
        for (index, word) in words.enumerated() {
            var rest = word
            while rest != 0 {
                try body(index << 6 + rest.trailingZeroBitCount)
                rest &= rest - 1
            }
        }
    }
}

/// The objects of a segment in which a leaf occurs.
struct LeafHits {
    var objects: OrdinalSet
    /// Ascending.
    var ordinals: [UInt32] = []
    /// For each of `ordinals`, by column.
    var frequencies: [UInt32] = []
}

/// The matches in one segment.
struct SegmentMatches {
    fileprivate(set) var objects: OrdinalSet
    /// By leaf.
    fileprivate let hits: [LeafHits]
    /// By leaf: the number of objects in which it occurs.
    let containing: [UInt64]
    fileprivate let reader: SegmentReader
    fileprivate let attributes: [Int]

    var byteCount: Int { hits.reduce(0) { $0 + 4 * ($1.ordinals.count + $1.frequencies.count) } }

    /// Calls `body` with the ordinal of each match, ascending, and its score.
    func forEachScore(
        _ ranking: Ranking, _ body: (_ ordinal: Int, _ score: Double) throws(StoreError) -> Void
    ) throws(StoreError) {
        let (attributes, hits) = (attributes, hits)
        var lengths = SegmentLengths(reader)
        // By leaf: the place of the next hit, and that of the object's frequencies, -1 without a hit.
        var next = [Int](repeating: 0, count: hits.count)
        var places = [Int](repeating: -1, count: hits.count)
        try objects.forEachOrdinal { (ordinal) throws(StoreError) in
            try lengths.move(to: ordinal)
            for leaf in hits.indices {
                places[leaf] = -1
                guard hits[leaf].objects.contains(ordinal) else { continue }
                while hits[leaf].ordinals[next[leaf]] < ordinal { next[leaf] &+= 1 }
                places[leaf] = next[leaf] &* attributes.count
            }
            let score = ranking.score(
                frequency: { places[$0] < 0 ? 0 : hits[$0].frequencies[places[$0] &+ $1] },
                length: { lengths.length(attributes[$0]) })
            try body(ordinal, score)
        }
    }
}

/// Memory for the leaves of a search, one after the other. New memory for each leaf would cost more than finding its
/// matches. For one thread.
final class LeafMemory {
    /// By ordinal and column (XG3).
    @exclusivity(unchecked) fileprivate var summed: [UInt32] = []
}

/// A search in one segment.
struct SegmentSearch {
    private let plan: SearchPlan
    private let segment: SearchIndex.Segment
    private let memory: LeafMemory
    private let rows: SearchedRows
    /// By attribute of the segment: the column; nil if it is not searched.
    private var columns: [Int?]
    private let attributes: [Int]
    private var columnCount: Int { attributes.count }

    /// - Parameter attributes: The segment's attribute of each column.
    init(
        _ plan: SearchPlan, _ segment: SearchIndex.Segment, _ attributes: [Int], _ memory: LeafMemory,
        _ rows: SearchedRows
    ) {
        (self.plan, self.segment, self.attributes, self.memory, self.rows) = (plan, segment, attributes, memory, rows)
        columns = [Int?](repeating: nil, count: segment.reader.descriptor.attributes)
        for (column, attribute) in attributes.enumerated() { columns[attribute] = column }
    }

    func matches() throws(StoreError) -> SegmentMatches {
        var alive = OrdinalSet(count: segment.objects, isFull: true)
        alive.subtract(segment.dead)
        var hits: [LeafHits] = []
        var containing: [UInt64] = []
        for (number, leaf) in plan.leaves.enumerated() {
            var found = leaf.patterns.count == 1 ? try word(leaf) : try phrase(leaf, number)
            // XG2.
            found.objects.formIntersection(alive)
            containing.append(UInt64(found.objects.size))
            hits.append(found)
        }
        var objects = result(plan.root, hits)
        objects.formIntersection(alive)
        return SegmentMatches(
            objects: objects, hits: hits, containing: containing, reader: segment.reader, attributes: attributes)
    }

    private func result(_ node: SearchNode, _ hits: [LeafHits]) -> OrdinalSet {
        switch node {
        case .leaf(let leaf): return hits[leaf].objects
        case .all(let nodes):
            var result = OrdinalSet(count: segment.objects, isFull: true)
            for node in nodes { result.formIntersection(self.result(node, hits)) }
            return result
        case .any(let nodes):
            var result = OrdinalSet(count: segment.objects)
            for node in nodes { result.formUnion(self.result(node, hits)) }
            return result
        case .not(let node): return result(node, hits).complement
        case .nothing: return OrdinalSet(count: segment.objects)
        }
    }

    // MARK: Words

    /// The lists of a pattern in the columns that a leaf allows.
    private func lists(_ pattern: SearchPattern, _ leaf: SearchLeaf) throws(StoreError) -> [(Int, PostingList)] {
        var lists: [(Int, PostingList)] = []
        try pattern.bytes.withUnsafeBufferPointer { (bytes) throws(StoreError) in
            let bytes = UnsafeRawBufferPointer(bytes)
            try segment.reader.forEachList(of: bytes, isPrefix: pattern.isPrefix) { (_, attribute, list) in
                if let column = columns[attribute], leaf.allows(column) { lists.append((column, list)) }
                return true
            }
        }
        return lists
    }

    private func word(_ leaf: SearchLeaf) throws(StoreError) -> LeafHits {
        var hits = LeafHits(objects: OrdinalSet(count: segment.objects))
        let lists = try lists(leaf.patterns[0], leaf)
        if lists.isEmpty { return hits }
        if lists.count == 1, columnCount == 1 {
            let count = try lists[0].1.count()
            hits.ordinals.reserveCapacity(count)
            hits.frequencies.reserveCapacity(count)
            var postings = lists[0].1.iterator()
            try postings.forEachPosting { (ordinal, frequency) in
                hits.objects.insert(ordinal)
                hits.ordinals.append(UInt32(truncatingIfNeeded: ordinal))
                hits.frequencies.append(UInt32(truncatingIfNeeded: frequency))
            }
            return hits
        }
        try sum(lists, &hits)
        return hits
    }

    /// Adds up the frequencies of many lists.
    private func sum(_ lists: [(Int, PostingList)], _ hits: inout LeafHits) throws(StoreError) {
        let columnCount = columnCount
        let size = segment.objects * columnCount
        if memory.summed.count < size { memory.summed = [UInt32](repeating: 0, count: size) }
        for (column, list) in lists {
            var postings = list.iterator()
            try postings.forEachPosting { (ordinal, frequency) in
                hits.objects.insert(ordinal)
                memory.summed[ordinal &* columnCount &+ column] &+= UInt32(truncatingIfNeeded: frequency)
            }
        }
        let count = hits.objects.size
        hits.ordinals.reserveCapacity(count)
        hits.frequencies.reserveCapacity(count * columnCount)
        try hits.objects.forEachOrdinal { (ordinal) in
            hits.ordinals.append(UInt32(truncatingIfNeeded: ordinal))
            for place in ordinal &* columnCount..<(ordinal &+ 1) &* columnCount {
                hits.frequencies.append(memory.summed[place])
                // XG3.
                memory.summed[place] = 0
            }
        }
    }

    // MARK: Phrases

    private func phrase(_ leaf: SearchLeaf, _ number: Int) throws(StoreError) -> LeafHits {
        var hits = LeafHits(objects: OrdinalSet(count: segment.objects))
        let lists = try leaf.patterns.map { (pattern) throws(StoreError) in try self.lists(pattern, leaf) }
        var byColumn = [[(ordinal: Int, frequency: UInt32)]](repeating: [], count: columnCount)
        for column in 0..<columnCount where leaf.allows(column) {
            let patterns = lists.map { $0.filter { $0.0 == column }.map(\.1) }
            if patterns.contains(where: \.isEmpty) { continue }
            let candidates = try candidates(patterns)
            func add(_ ordinal: Int, _ frequency: UInt32) {
                if frequency == 0 { return }
                hits.objects.insert(ordinal)
                byColumn[column].append((ordinal, frequency))
            }
            if segment.reader.descriptor.hasPositions(attributes[column]) {
                try forEachFrequency(leaf, patterns, candidates, add)
            } else {
                try candidates.forEachOrdinal { (ordinal) throws(StoreError) in
                    // XG1: the object is alive, so its row has the text of the index.
                    add(ordinal, try rows.frequency(number, column, try segment.reader.number(of: ordinal)))
                }
            }
        }
        var next = [Int](repeating: 0, count: columnCount)
        try hits.objects.forEachOrdinal { (ordinal) in
            hits.ordinals.append(UInt32(truncatingIfNeeded: ordinal))
            for column in byColumn.indices {
                let isThere = next[column] < byColumn[column].count && byColumn[column][next[column]].ordinal == ordinal
                hits.frequencies.append(isThere ? byColumn[column][next[column]].frequency : 0)
                if isThere { next[column] += 1 }
            }
        }
        return hits
    }

    /// The objects that have a word for each pattern in one attribute.
    private func candidates(_ patterns: [[PostingList]]) throws(StoreError) -> OrdinalSet {
        var candidates = OrdinalSet(count: segment.objects, isFull: true)
        candidates.subtract(segment.dead)
        for lists in patterns {
            var objects = OrdinalSet(count: segment.objects)
            for list in lists {
                var postings = list.iterator()
                try postings.forEachPosting { (ordinal, _) in objects.insert(ordinal) }
            }
            candidates.formIntersection(objects)
        }
        return candidates
    }

    /// Calls `body` with each candidate, ascending, and how often a leaf occurs in one attribute of it.
    private func forEachFrequency(
        _ leaf: SearchLeaf, _ patterns: [[PostingList]], _ candidates: OrdinalSet, _ body: (Int, UInt32) -> Void
    ) throws(StoreError) {
        let readers = patterns.map { PositionsReader($0) }
        var positions = [[UInt32]](repeating: [], count: patterns.count)
        var places = [Int](repeating: 0, count: patterns.count)
        try candidates.forEachOrdinal { (ordinal) throws(StoreError) in
            for index in readers.indices { try readers[index].read(ordinal, &positions[index]) }
            // XG1.
            body(ordinal, leaf.frequency(positions, &places))
        }
    }
}

/// Reads the positions of all terms that match a pattern, object by object.
private final class PositionsReader {
    @exclusivity(unchecked) private var postings: [PostingIterator] = []
    @exclusivity(unchecked) private var part = PostingPositions()

    init(_ lists: [PostingList]) { postings = lists.map { $0.iterator() } }

    /// Sets `positions` to those in an object, ascending. Objects come in ascending order.
    func read(_ ordinal: Int, _ positions: inout [UInt32]) throws(StoreError) {
        positions.removeAll(keepingCapacity: true)
        var terms = 0
        for index in postings.indices {
            guard try postings[index].skip(to: ordinal), postings[index].ordinal == ordinal else { continue }
            try postings[index].readPositions(&part)
            positions.append(contentsOf: part.values)
            terms += 1
        }
        if terms > 1 { positions.sort() }
    }
}
