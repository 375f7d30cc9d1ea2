// A store that joined with objects of its own: their transactions are made again, over the state that it has taken.
//
// The state comes before all transactions of the store in the group's order. So it was applied to the store without its
// objects, and each transaction follows as if it was made now. History has it twice: from before, and for the group.

internal import Annals
internal import FoundationEssentials

extension MergingStore {
    /// Makes the next transactions again; nothing to do for most stores.
    ///
    /// - Returns: The parts that were left out, because they were impossible.
    func remake() throws -> [MergeConflict] {
        guard let range = savedRecord.remaking else { return [] }
        var next: [ExportedTransaction] = []
        let end = try store.snapshot(asOf: range.end)
        try store.forEachExportedTransaction(after: .number(range.after), in: end, leavingOut: local.numbers) {
            transaction in
            if !transaction.changes.isEmpty { next.append(transaction) }
            return next.count < Self.remadeAtOnce
        }
        var conflicts: [MergeConflict] = []
        for (index, transaction) in next.enumerated() {
            let isLast = index + 1 == next.count && next.count < Self.remadeAtOnce
            conflicts += try remake(transaction, isLast: isLast)
        }
        if next.isEmpty { try save { $0.remaking = nil } }
        return conflicts
    }

    private static let remadeAtOnce = 100

    private func remake(_ transaction: ExportedTransaction, isLast: Bool) throws -> [MergeConflict] {
        while true {
            let snapshot = try store.snapshot()
            let schema = try schema(of: try ExchangeView(snapshot))
            let now = try StoreBase(snapshot, schema)
            let merged = MergeTransaction(
                Stamp(lamport + 1, store.identifier), transaction.renamed(schema.presentNames))
            // Nothing comes after it.
            let (outcome, _) = try MergeReplay.merge(
                merged, into: now, MergeWindow(), read: { (_) throws(StoreError) in [] },
                past: { (_) throws(StoreError) in now }, schema)
            let difference = try MergeDifference(outcome, from: now, schema)
            try now.requireWhole()
            var record = savedRecord
            record.remaking?.after = transaction.token.number
            if isLast { record.remaking = nil }
            do {
                try store.applyAgain(
                    MergedTransaction(
                        transaction, as: difference.changes, joined: difference.joined,
                        separated: difference.separated, removed: difference.removed, gone: difference.gone,
                        order: merged.stamp.lamport),
                    onto: snapshot.token.number, try record.stored())
                noteSaved(record)
                return conflicts(outcome)
            } catch let error as StoreError where error.code == .conflict {
                // Another writer was faster.
                continue
            }
        }
    }
}
