// One search in one state: which objects match, in which order, and how many.
//
// Invariants:
// XR1  Each object of the entity counts once: with the texts of the caller if it has changed them, otherwise with those
//      of its row or with those that the index has.
// XR2  A score depends on all objects of the entity, and not on what the index has or what the caller asks for.

/// Uncommitted changes of a transaction or a context, which replace objects of the state.
struct SearchedChanges {
    /// All changed and deleted objects of the entity.
    var hidden: Set<ObjectID> = []
    /// Those that exist, with their texts by column.
    var texts: [(object: ObjectID, texts: [String?])] = []
    /// Whether they are all objects of the entity, because the state has it in another form.
    var areAll = false
}

/// An object that a search without types has found.
public struct FoundObject: Hashable, Sendable {
    /// The object.
    public let object: ObjectID
    /// The rank: greater for better matches. Scores of different searches cannot be compared.
    public let score: Double
}

/// A search, planned for one state.
struct SearchRun {
    let snapshot: Snapshot
    let scope: SearchedEntity
    let plan: SearchPlan
    private let changes: SearchedChanges
    private var document: DocumentTerms
    private var statistics: SearchStatistics
    /// The matches that are not in the index.
    private var loose: SearchMatches
    /// Of each segment, the matches that were kept after counting.
    private var indexed: [SegmentMatches?] = []

    private let memory = LeafMemory()
    private let rows: SearchedRows
    private var rowsRead = 0
    private static let manyRows = 2048

    /// Matches of segments that are kept between counting and scoring. Beyond it they are found again.
    private static let keptBytes = 16 << 20

    init(
        _ snapshot: Snapshot, _ scope: SearchedEntity, _ query: SearchQuery,
        _ changes: SearchedChanges = SearchedChanges()
    ) {
        (self.snapshot, self.scope, self.changes) = (snapshot, scope, changes)
        plan = SearchPlan(query, attributes: scope.names)
        document = DocumentTerms(plan, attributes: scope.columns.count)
        statistics = SearchStatistics(
            objects: 0, totalLengths: scope.columns.map { _ in 0 }, containing: plan.leaves.map { _ in 0 })
        loose = SearchMatches(plan, scope)
        rows = SearchedRows(snapshot, scope, plan)
    }

    /// The matches that `isWanted` accepts, best first, and at most so many.
    mutating func best(
        _ most: Int, _ isWanted: (ObjectID) throws(StoreError) -> Bool
    ) throws(StoreError) -> [FoundObject] {
        guard plan.root != .nothing, most > 0 else { return [] }
        return try reading { (run, index) throws(StoreError) in
            var best = BestMatches(limit: most)
            try run.forEachMatch(index) { (score, object) throws(StoreError) in
                guard best.accepts(score: score, number: .max) else { return }
                let object = try object()
                guard best.accepts(score: score, number: object.rawValue), try isWanted(object) else { return }
                best.add(score: score, number: object.rawValue)
            }
            return best.sorted().map { FoundObject(object: ObjectID(checked: $0.number), score: $0.score) }
        }
    }

    /// All matches, with their scores, in no order.
    mutating func all() throws(StoreError) -> [ObjectID: Double] {
        var scores: [ObjectID: Double] = [:]
        guard plan.root != .nothing else { return scores }
        try reading { (run, index) throws(StoreError) in
            try run.forEachMatch(index) { (score, object) throws(StoreError) in scores[try object()] = score }
        }
        return scores
    }

    /// The number of matches that `isWanted` accepts.
    mutating func count(_ isWanted: (ObjectID) throws(StoreError) -> Bool) throws(StoreError) -> Int {
        guard plan.root != .nothing else { return 0 }
        return try reading { (run, index) throws(StoreError) in
            var count = 0
            try run.forEachMatch(index) { (_, object) throws(StoreError) in
                if try isWanted(object()) { count += 1 }
            }
            return count
        }
    }

    // MARK: Counting

    /// Counts what all scores depend on, and then calls `body`, in one read section: blocks are read in place.
    private mutating func reading<Result>(
        _ body: (inout SearchRun, SearchIndex?) throws(StoreError) -> Result
    ) throws(StoreError) -> Result {
        let snapshot = snapshot
        if changes.areAll {
            for (object, texts) in changes.texts { read(object, texts) }
            return try body(&self, nil)
        }
        try snapshot.requireKnown(scope.entity)
        return try snapshot.view.core.reading { () throws(StoreError) in
            var index = try SearchIndex(snapshot, scope)
            // XR1.
            try index?.leaveOut(changes.hidden)
            for (object, texts) in changes.texts { read(object, texts) }
            for object in index?.changed ?? [] { try readRow(object) }
            try readRows(from: index?.firstUnbuilt ?? 1)
            ringIfLong()
            if let index { try countSegments(index) }
            return try body(&self, index)
        }
    }

    /// Asks for an index of the rows that searches read, if they are many.
    private func ringIfLong() {
        if rowsRead >= Self.manyRows { snapshot.engine.options.searchBell.ring() }
    }

    private mutating func countSegments(_ index: SearchIndex) throws(StoreError) {
        var kept = 0
        // XR2.
        for segment in index.segments {
            statistics.objects += UInt64(segment.objects - segment.deadObjects)
            for (column, attribute) in index.columns.enumerated() {
                statistics.totalLengths[column] += segment.lengths[attribute]
            }
            let found = try SegmentSearch(plan, segment, index.columns, memory, rows).matches()
            for leaf in plan.leaves.indices { statistics.containing[leaf] += found.containing[leaf] }
            kept += found.byteCount
            indexed.append(kept <= Self.keptBytes ? found : nil)
        }
    }

    private mutating func readRows(from number: UInt64) throws(StoreError) {
        guard number <= FormatLimits.maximumObjectNumber else { return }
        let (snapshot, changes, layout) = (snapshot, changes, scope.layout)
        try snapshot.view.scan(entity: scope.entity, from: number) { (object, row) throws(StoreError) in
            if changes.hidden.contains(object) { return true }
            try snapshot.lend(object, row, layout) { (row) throws(StoreError) in try read(row) }
            return true
        }
    }

    private mutating func readRow(_ object: ObjectID) throws(StoreError) {
        if changes.hidden.contains(object) { return }
        let (snapshot, layout) = (snapshot, scope.layout)
        _ = try snapshot.view.withRow(object) { (row) throws(StoreError) in
            try snapshot.lend(object, row, layout) { (row) throws(StoreError) in try read(row) }
        }
    }

    private mutating func read(_ row: borrowing RowView) throws(StoreError) {
        rowsRead += 1
        document.reset()
        try scope.forEachText(row) { document.read($1, attribute: $0) }
        note(row.id)
    }

    private mutating func read(_ object: ObjectID, _ texts: [String?]) {
        document.reset()
        for (column, text) in texts.enumerated() {
            guard var text else { continue }
            text.withUTF8 { document.read(UnsafeRawBufferPointer($0), attribute: column) }
        }
        note(object)
    }

    private mutating func note(_ object: ObjectID) {
        statistics.objects += 1
        for column in scope.columns.indices { statistics.totalLengths[column] += UInt64(document.lengths[column]) }
        for leaf in plan.leaves.indices {
            let occurs = scope.columns.indices.contains { document.frequency(leaf, $0) > 0 }
            if occurs { statistics.containing[leaf] += 1 }
        }
        if document.matches { loose.add(object.rawValue, document) }
    }

    // MARK: Matches

    /// Calls `body` with each match and its score, in no order. The object is asked for if it is needed.
    private func forEachMatch(
        _ index: SearchIndex?,
        _ body: (_ score: Double, _ object: () throws(StoreError) -> ObjectID) throws(StoreError) -> Void
    ) throws(StoreError) {
        let ranking = Ranking(plan, statistics, weights: scope.weights)
        for place in loose.objects.indices {
            try body(loose.score(place, ranking)) { () throws(StoreError) in ObjectID(checked: loose.objects[place]) }
        }
        guard let index else { return }
        for (number, segment) in index.segments.enumerated() {
            let matches: SegmentMatches
            if let kept = indexed[number] {
                matches = kept
            } else {
                matches = try SegmentSearch(plan, segment, index.columns, memory, rows).matches()
            }
            try matches.forEachScore(ranking) { (ordinal, score) throws(StoreError) in
                try body(score) { () throws(StoreError) in try scope.object(segment.reader.number(of: ordinal)) }
            }
        }
    }
}

/// Objects that match, with what their scores are computed from.
struct SearchMatches {
    private(set) var objects: [UInt64] = []
    /// For each object: its lengths by column, and then its frequencies by leaf and column.
    private var facts: [UInt32] = []
    private let columns: Int
    private let leaves: Int
    private var stride: Int { columns * (1 + leaves) }

    init(_ plan: SearchPlan, _ scope: SearchedEntity) { (columns, leaves) = (scope.columns.count, plan.leaves.count) }

    mutating func add(_ object: UInt64, _ document: borrowing DocumentTerms) {
        objects.append(object)
        for column in 0..<columns { facts.append(document.lengths[column]) }
        for leaf in 0..<leaves {
            for column in 0..<columns { facts.append(document.frequency(leaf, column)) }
        }
    }

    func score(_ place: Int, _ ranking: borrowing Ranking) -> Double {
        let start = place * stride
        return facts.withUnsafeBufferPointer { facts in
            ranking.score(
                frequency: { facts[start + columns * (1 + $0) + $1] }, length: { facts[start + $0] })
        }
    }
}
