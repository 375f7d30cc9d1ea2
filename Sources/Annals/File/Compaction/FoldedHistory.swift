// Entities of which no history is kept: what compaction leaves out of transactions, and where the rows stand instead.
//
// The base cannot hold them as of a later transaction than its own: their entity, or the schema version of their rows,
// may only come behind it. So they stand behind the transaction up to which their changes are left out.
//
// Invariants:
// L1  Behind transaction `through[entity]` the new file has the entity's objects as they were then, and no trace of
//     what they were before.
// L2  Nobody reads what they were before: the rule that refuses it (N1 of HistoryGap) reaches at least as far as
//     `through`.

/// Worked out from one state, before anything is copied.
struct FoldedHistory {
    /// What compaction begins with.
    let state: View
    /// By entity: changes in transactions up to that number are left out. None where the base reaches as far.
    private(set) var through: [UInt16: UInt64] = [:]
    /// Behind which transactions rows are to be put, ascending, and of which state they are.
    private(set) var stops: [(state: View, entities: [UInt16])] = []
    /// The highest number in `through`; 0 for none.
    private(set) var last: UInt64 = 0

    /// `state` is not older than `base`, and what compaction begins with: with the newest schema that is known to it.
    init(_ source: Engine, _ base: View, _ state: View) throws(StoreError) {
        self.state = state
        for gap in state.historyGaps {
            var number = state.number
            if case .resumed(let version) = gap.end {
                number = try source.tracked(state).firstNumber(ofSchemaVersion: version) - 1
            }
            if number > base.number { through[gap.entity] = number }
        }
        last = through.values.max() ?? 0
        for number in Set(through.values).sorted() {
            let entities = through.filter { $0.value == number }.map(\.key).sorted()
            stops.append((number == state.number ? state : try source.view(asOf: number), entities))
        }
    }

    @inline(__always)
    func leavesOut(_ object: ObjectID, in number: UInt64) -> Bool {
        number <= last && through[object.entityNumber].map { number <= $0 } ?? false
    }
}

extension Compactor {
    /// Copies up to the last transaction from which something is left out, and puts the rows where they belong.
    func copyFolding() throws(StoreError) {
        for stop in folded.stops {
            var end: UInt64 = 0
            try source.tracked(stop.state).forEachTransaction(after: stop.state.number - 1) { (transaction) in
                end = transaction.end
                return false
            }
            try copy(to: end)
            for entity in stop.entities { try writeRows(of: entity, in: stop.state) }
        }
    }
}
