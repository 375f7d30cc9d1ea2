// `mirror` and `mirror_conflicts`: how fast a store merges the transactions of another. No peer settles anything
// meanwhile, as if a third store were offline.

import Annals
import AnnalsMirror
import FoundationEssentials

struct Mirroring {
    let arguments: BenchArguments
    let source: Store
    let items: EntityHandle
    let options: Store.Options

    /// The number of transactions from one conflict to the next.
    private static let conflictDistance: UInt64 = 100
    private static let updatesPerObject: UInt64 = 10

    private struct Outcome {
        var exportSeconds = 0.0
        var mergeSeconds = 0.0
        var conflicts = 0
        var privateKilobytes = 0
    }

    /// Inserts rows in a transaction each, and merges these.
    func run(report: (_ seconds: Double, _ extra: String) -> Void) throws {
        let row = BenchRow()
        for number in 1...arguments.rows { try Workloads.insert(number..<(number + 1), items, row, source) }
        let copy = try makeCopy()
        let merging = try MergingStore(copy)
        var outcome = Outcome()
        try merge(after: 0, into: merging, &outcome)
        try finish(copy, merging, outcome, report)
    }

    /// Updates rows in a transaction each. In the other store, each hundredth of these finds an update of the same
    /// object that comes later in the group's order.
    func runWithConflicts(report: (_ seconds: Double, _ extra: String) -> Void) throws {
        let objects = max(arguments.rows / Self.updatesPerObject, 1)
        try Workloads.insert(1..<(objects + 1), items, BenchRow(), source)
        let copy = try makeCopy()
        let merging = try MergingStore(copy)
        var unused = Outcome()
        try merge(after: 0, into: merging, &unused)
        let begin = try source.snapshot().token.number
        var random = SplitMix(state: Workloads.updateSeed)
        let numbers = (0..<arguments.rows).map { _ in 1 + random.next() % objects }
        for number in numbers { try update(number, items, in: source, Int64(random.next() % Workloads.ranks)) }
        let copied = try copy.entity(items.name)
        var outcome = Outcome()
        try merge(after: begin, into: merging, &outcome) { index in
            guard index % Self.conflictDistance == 0 else { return }
            // Its number in the group's order is above that of the next merged transaction after two of its own.
            for rank in [Int64(index), -1] { try update(numbers[Int(index)], copied, in: copy, rank) }
        }
        try finish(copy, merging, outcome, report)
    }

    private func makeCopy() throws -> Store {
        let file = arguments.path + "/copy.annals"
        if FileManager.default.fileExists(atPath: file) { try FileManager.default.removeItem(atPath: file) }
        return try Store(at: file, options: options)
    }

    private func update(_ number: UInt64, _ entity: EntityHandle, in store: Store, _ rank: Int64) throws {
        guard let object = ObjectID(entityNumber: entity.number, number: number) else { return }
        try store.write { transaction in
            try transaction.update(object) { (writer) throws(StoreError) in try writer.set(int: rank, at: 4) }
        }
    }

    /// Merges the source's later transactions. `before` is called with the index of each.
    private func merge(
        after place: UInt64, into merging: MergingStore, _ outcome: inout Outcome,
        before: (UInt64) throws -> Void = { _ in }
    ) throws {
        let start = seconds()
        try source.forEachExportedTransaction(after: .number(place)) { _ in true }
        outcome.exportSeconds = seconds() - start
        let begin = seconds()
        var (index, apart): (UInt64, Double) = (0, 0)
        try source.forEachExportedTransaction(after: .number(place)) { transaction in
            let start = seconds()
            try before(index)
            if index % 10_000 == 0 {
                outcome.privateKilobytes = max(outcome.privateKilobytes, Memory.privateKilobytes)
            }
            apart += seconds() - start
            outcome.conflicts += try merging.merge(transaction, lamport: transaction.token.number)?.count ?? 0
            index += 1
            return true
        }
        outcome.mergeSeconds = seconds() - begin - apart
        outcome.privateKilobytes = max(outcome.privateKilobytes, Memory.privateKilobytes)
    }

    private func finish(
        _ copy: Store, _ merging: MergingStore, _ outcome: Outcome, _ report: (Double, String) -> Void
    ) throws {
        report(
            outcome.mergeSeconds,
            ",\"export_s\":\(outcome.exportSeconds),\"replays\":\(merging.replays),\"conflicts\":\(outcome.conflicts),"
                + "\"private_kb\":\(outcome.privateKilobytes)")
        try copy.close()
        try source.close()
    }
}
