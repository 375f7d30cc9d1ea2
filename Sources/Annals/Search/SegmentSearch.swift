// Finds the matches in one segment: each leaf of the plan as a set of objects, and then the whole plan.
//
// Invariants:
// SS1  The frequency of a leaf in an attribute is what `DocumentTerms` counts in the object's text.
// SS2  Dead objects are neither matches nor counted.

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
    func forEach(_ body: (Int) throws(StoreError) -> Void) throws(StoreError) {
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
private struct LeafHits {
    var objects: OrdinalSet
    /// Ascending.
    var ordinals: [UInt32] = []
    /// For each of `ordinals`, by column.
    var frequencies: [UInt32] = []
}

/// A search in one segment.
struct SegmentSearch {
    private let plan: SearchPlan
    private let scope: SearchedEntity
    private let segment: SearchIndex.Segment
    /// By attribute of the segment: the column; nil if it is not searched.
    private var columns: [Int?]
    private let attributes: [Int]
    private var columnCount: Int { attributes.count }

    /// - Parameter attributes: The segment's attribute of each column.
    init(_ plan: SearchPlan, _ scope: SearchedEntity, _ segment: SearchIndex.Segment, _ attributes: [Int]) {
        (self.plan, self.scope, self.segment, self.attributes) = (plan, scope, segment, attributes)
        columns = [Int?](repeating: nil, count: segment.reader.descriptor.attributes)
        for (column, attribute) in attributes.enumerated() { columns[attribute] = column }
    }

    /// The matches, and for each leaf the number of objects that contain it.
    func matches() throws(StoreError) -> (matches: SearchMatches, containing: [UInt64]) {
        var alive = OrdinalSet(count: segment.objects, isFull: true)
        alive.subtract(segment.dead)
        var hits: [LeafHits] = []
        var containing: [UInt64] = []
        for leaf in plan.leaves {
            var found = leaf.patterns.count == 1 ? try word(leaf) : try phrase(leaf)
            // SS2.
            found.objects.formIntersection(alive)
            containing.append(UInt64(found.objects.size))
            hits.append(found)
        }
        var result = self.result(plan.root, hits)
        result.formIntersection(alive)
        return (try matches(result, hits), containing)
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

    private func matches(_ objects: OrdinalSet, _ hits: [LeafHits]) throws(StoreError) -> SearchMatches {
        var matches = SearchMatches(plan, scope)
        var next = [Int](repeating: 0, count: hits.count)
        let (reader, attributes) = (segment.reader, attributes)
        let entity = UInt64(scope.entity) << 48
        try objects.forEach { (ordinal) throws(StoreError) in
            try matches.add(entity | reader.number(of: ordinal)) { (column) throws(StoreError) in
                try reader.length(ordinal, attributes[column])
            }
            for leaf in hits.indices where hits[leaf].objects.contains(ordinal) {
                while hits[leaf].ordinals[next[leaf]] < ordinal { next[leaf] += 1 }
                for column in attributes.indices {
                    let frequency = hits[leaf].frequencies[next[leaf] * attributes.count + column]
                    if frequency > 0 { matches.setLast(frequency, leaf: leaf, column: column) }
                }
            }
        }
        return matches
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
        if lists.count == 1, columnCount == 1 {
            var postings = lists[0].1.iterator()
            while try postings.next() {
                hits.objects.insert(postings.ordinal)
                hits.ordinals.append(UInt32(postings.ordinal))
                hits.frequencies.append(UInt32(postings.frequency))
            }
            return hits
        }
        if lists.isEmpty { return hits }
        var frequencies = [UInt32](repeating: 0, count: segment.objects * columnCount)
        for (column, list) in lists {
            var postings = list.iterator()
            while try postings.next() {
                hits.objects.insert(postings.ordinal)
                frequencies[postings.ordinal * columnCount + column] &+= UInt32(postings.frequency)
            }
        }
        try hits.objects.forEach { (ordinal) in
            hits.ordinals.append(UInt32(ordinal))
            hits.frequencies += frequencies[ordinal * columnCount..<(ordinal + 1) * columnCount]
        }
        return hits
    }

    // MARK: Phrases

    private func phrase(_ leaf: SearchLeaf) throws(StoreError) -> LeafHits {
        var hits = LeafHits(objects: OrdinalSet(count: segment.objects))
        var frequencies: [UInt64: UInt32] = [:]
        let lists = try leaf.patterns.map { (pattern) throws(StoreError) in try self.lists(pattern, leaf) }
        for column in 0..<columnCount where leaf.allows(column) {
            let patterns = lists.map { $0.filter { $0.0 == column }.map(\.1) }
            if patterns.contains(where: \.isEmpty) { continue }
            try forEachOccurrence(leaf, patterns) { (ordinal, frequency) in
                hits.objects.insert(ordinal)
                frequencies[UInt64(ordinal * columnCount + column)] = frequency
            }
        }
        try hits.objects.forEach { (ordinal) in
            hits.ordinals.append(UInt32(ordinal))
            for column in 0..<columnCount {
                hits.frequencies.append(frequencies[UInt64(ordinal * columnCount + column)] ?? 0)
            }
        }
        return hits
    }

    /// Calls `body` with the objects in which a leaf occurs in one attribute, ascending, and how often.
    private func forEachOccurrence(
        _ leaf: SearchLeaf, _ patterns: [[PostingList]], _ body: (Int, UInt32) -> Void
    ) throws(StoreError) {
        var candidates = OrdinalSet(count: segment.objects, isFull: true)
        for lists in patterns {
            var objects = OrdinalSet(count: segment.objects)
            for list in lists {
                var postings = list.iterator()
                while try postings.next() { objects.insert(postings.ordinal) }
            }
            candidates.formIntersection(objects)
        }
        candidates.subtract(segment.dead)
        var readers = try patterns.map { (lists) throws(StoreError) in try PositionsReader(lists) }
        var positions = [[UInt32]](repeating: [], count: patterns.count)
        try candidates.forEach { (ordinal) throws(StoreError) in
            for index in readers.indices { try readers[index].read(ordinal, &positions[index]) }
            let frequency = leaf.frequency(positions)
            if frequency > 0 { body(ordinal, frequency) }
        }
    }
}

/// Reads the positions of all terms that match a pattern, object by object.
private struct PositionsReader {
    private var postings: [PostingIterator] = []
    private var part: [UInt32] = []

    init(_ lists: [PostingList]) throws(StoreError) { postings = lists.map { $0.iterator() } }

    /// Sets `positions` to those in an object, ascending. Objects come in ascending order.
    mutating func read(_ ordinal: Int, _ positions: inout [UInt32]) throws(StoreError) {
        positions.removeAll(keepingCapacity: true)
        var terms = 0
        for index in postings.indices {
            guard try postings[index].skip(to: ordinal), postings[index].ordinal == ordinal else { continue }
            try postings[index].readPositions(&part)
            positions += part
            terms += 1
        }
        if terms > 1 { positions.sort() }
    }
}
