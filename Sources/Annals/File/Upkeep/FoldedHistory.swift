// Entities without kept history: which changes compaction omits, and where it writes the rows instead.
//
// The base cannot hold the rows of a later state, since their entity or their schema version may only come after it. So
// their rows follow the last transaction whose changes are omitted.
//
// Invariants:
// L1  After transaction `through[entity]` the new file has the entity's objects in their state at that point, and no
//     earlier versions.
// L2  The earlier versions are never read: the rule that refuses them (N1 of HistoryGap) reaches at least to `through`.

/// Computed from one state, before anything is copied.
struct FoldedHistory {
    /// The state with which compaction begins.
    let state: View
    /// By entity: changes up to this transaction are left out. No value if the base includes them.
    private(set) var through: [UInt16: UInt64] = [:]
    /// The transactions after which rows are inserted, ascending, and the states of these rows.
    private(set) var stops: [(state: View, entities: [UInt16])] = []
    /// The highest number in `through`; 0 for none.
    private(set) var last: UInt64 = 0

    /// `state` is the one with which compaction begins, with its newest schema. It is not older than `base`.
    init(_ source: Engine, _ base: View, _ state: View) throws(StoreError) {
        self.state = state
        for gap in state.historyGaps {
            var number = state.number
            // Up to there the gap hides them: L2.
            if case .resumed(let version) = gap.end {
                number = try source.tracked(state).firstNumber(ofSchemaVersion: version) - 1
            }
            if number > base.number { through[gap.entity] = number }
        }
        last = through.values.max() ?? 0
        assert(last <= state.number, "O4: later changes would be left out.")
        for number in Set(through.values).inOrder() {
            let entities = through.filter { $0.value == number }.map(\.key).inOrder()
            stops.append((number == state.number ? state : try source.view(asOf: number), entities))
        }
    }

    @inline(__always)
    func leavesOut(_ object: ObjectID, in number: UInt64) -> Bool {
        number <= last && through[object.entityNumber].map { number <= $0 } ?? false
    }
}

extension Compactor {
    /// Copies up to the last transaction with omitted changes, and inserts the rows at their places. These are the last
    /// rows without history.
    func copyFolding() throws(StoreError) {
        for stop in folded.stops {
            var end: UInt64 = 0
            try source.tracked(stop.state).forEachTransaction(after: stop.state.number - 1) { (transaction) in
                end = transaction.end
                return false
            }
            try copy(to: end)
            // L1.
            for entity in stop.entities { try writeRows(of: entity, in: stop.state) }
        }
        try proveRows()
    }
}
