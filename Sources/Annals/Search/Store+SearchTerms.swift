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
    /// Reads all lists of the index, and keeps all different terms in memory.
    ///
    /// Throws `StoreError`: `unknownEntity`, and `notFound` if the entity has no search index.
    package func commonestTerms(of entity: String, limit: Int) throws -> [(term: String, objects: Int)] {
        let snapshot = try snapshot()
        let layout = try snapshot.entity(entity).layout
        guard let state = try SearchBlocks(snapshot.view)?.record(of: layout.number)?.readableState() else {
            throw Self.lacksSearchIndex(entity)
        }
        let scope = SearchedEntity(layout, state)
        return try snapshot.view.core.reading { () throws(StoreError) in
            let index = try SearchIndex(snapshot, scope)
            var objects: [String: Int] = [:]
            for segment in index?.segments ?? [] {
                try segment.forEachTerm { objects[String(decoding: $0, as: UTF8.self), default: 0] += $1 }
            }
            let sorted = objects.sorted { $0.value == $1.value ? $0.key < $1.key : $0.value > $1.value }
            return sorted.prefix(limit).map { (term: $0.key, objects: $0.value) }
        }
    }
}

extension SearchIndex.Segment {
    /// Calls `body` with each term of objects that count, and with the number of these objects.
    fileprivate func forEachTerm(_ body: (UnsafeRawBufferPointer, Int) -> Void) throws(StoreError) {
        // For each ordinal the last term that it was counted for: an object with a term in two attributes counts once.
        var counted = [UInt32](repeating: 0, count: objects)
        var term: [UInt8] = []
        var (number, count) = (UInt32(0), 0)
        func end() { if count > 0 { term.withUnsafeBytes { body($0, count) } } }
        try reader.forEachList(of: UnsafeRawBufferPointer(start: nil, count: 0), isPrefix: true) {
            (found, _, list) throws(StoreError) in
            if !term.withUnsafeBytes({ found.hasSameBytes(as: $0) }) {
                end()
                (term, number, count) = (Array(found), number + 1, 0)
            }
            var postings = list.iterator()
            try postings.forEachPosting { (ordinal, _) in
                if isDead(ordinal) || counted[ordinal] == number { return }
                (counted[ordinal], count) = (number, count + 1)
            }
            return true
        }
        end()
    }
}
