// The terms of texts and of search indexes, for people who ask why something is found or not.

extension Tokenizer {
    /// The terms of a text, in order.
    package static func terms(of text: String) -> [String] {
        var (tokenizer, text, terms) = (Tokenizer(), text, [String]())
        text.withUTF8 { text in
            tokenizer.forEachTerm(of: UnsafeRawBufferPointer(text)) { (term, _) in
                terms.append(String(decoding: term, as: UTF8.self))
            }
        }
        return terms
    }
}

extension Store {
    /// The terms that most objects of an entity's search index contain, with the number of these objects. Of equal
    /// ones, the terms that are first in Unicode's order. Objects that are not indexed do not count.
    ///
    /// Reads all lists of the index, and takes 8 bytes of memory for each indexed object.
    ///
    /// Throws `StoreError`: `unknownEntity`, and `notFound` if the entity has no search index.
    package func commonestTerms(of entity: String, limit: Int) throws -> [(term: String, objects: Int)] {
        let snapshot = try snapshot()
        let layout = try snapshot.entity(entity).layout
        guard let state = try SearchBlocks(snapshot.view)?.record(of: layout.number)?.state else {
            throw Self.lacksSearchIndex(entity)
        }
        let scope = SearchedEntity(layout, state.attributes.map { ($0.number, $0.weight) })
        return try snapshot.view.core.reading { () throws(StoreError) in
            let index = try SearchIndex(snapshot, scope)
            var commonest = CommonestTerms(limit: limit)
            try index?.forEachTerm { commonest.add($0, $1) }
            return commonest.sorted()
        }
    }
}

private struct CommonestTerms {
    let limit: Int
    private var terms: [(term: String, objects: Int)] = []

    init(limit: Int) { self.limit = limit }

    mutating func add(_ term: UnsafeRawBufferPointer, _ objects: Int) {
        terms.append((String(decoding: term, as: UTF8.self), objects))
        // Sorting now and then bounds the memory.
        if terms.count >= 4096, terms.count / 2 >= limit { terms = sorted() }
    }

    func sorted() -> [(term: String, objects: Int)] {
        let sorted = terms.sorted { $0.objects == $1.objects ? $0.term < $1.term : $0.objects > $1.objects }
        return Array(sorted.prefix(limit))
    }
}

extension SearchIndex {
    /// Calls `body` with each term of objects that count, in ascending order, and with the number of these objects.
    fileprivate func forEachTerm(_ body: (UnsafeRawBufferPointer, Int) -> Void) throws(StoreError) {
        var inputs: [CountedTerms] = []
        for segment in segments { inputs.append(try CountedTerms(segment)) }
        let lists = inputs.map(\.lists)
        while let first = lists.lazy.filter({ !$0.isAtEnd }).min(by: { $0.isBefore($1) }) {
            // The list's own bytes are gone after it.
            let term = Array(first.term)
            var objects = 0
            for index in inputs.indices { objects += try inputs[index].takeObjects(with: term) }
            if objects > 0 { term.withUnsafeBytes { body($0, objects) } }
        }
    }
}

/// The lists of a segment, from which the objects of one term after another are counted.
private struct CountedTerms {
    let lists: SegmentMergeInput
    /// For each ordinal the number of the last term that it was counted for, so that an object with a term in two
    /// attributes counts once.
    private var counted: [UInt32]
    private var term: UInt32 = 0

    init(_ segment: SearchIndex.Segment) throws(StoreError) {
        lists = SegmentMergeInput(
            segment.reader,
            (0..<segment.objects).map { segment.isDead($0) ? SegmentMergedObjects.dead : UInt32($0) })
        counted = [UInt32](repeating: 0, count: segment.objects)
        try lists.seek(UnsafeRawBufferPointer(start: nil, count: 0))
    }

    /// The number of objects with a term, if it is the next one; then moves to the one after it.
    mutating func takeObjects(with wanted: [UInt8]) throws(StoreError) -> Int {
        var objects = 0
        term += 1
        while !lists.isAtEnd, wanted.withUnsafeBytes({ lists.term.hasSameBytes(as: $0) }) {
            try lists.beginPostings()
            while lists.newOrdinal != SegmentMergedObjects.dead {
                let ordinal = Int(lists.newOrdinal)
                if counted[ordinal] != term { (counted[ordinal], objects) = (term, objects + 1) }
                try lists.nextPosting()
            }
            try lists.nextList()
        }
        return objects
    }
}
