// A live list of 10,000 of the benchmark's rows: what one change costs, made in its context or merged from another.

import Annals
import FoundationEssentials

struct LiveResult {
    let arguments: BenchArguments
    let file: String
    let options: Store.Options
    let report: (_ rows: UInt64, _ elapsed: Double, _ operations: UInt64, _ extra: String) -> Void

    /// How many rows the list has, about.
    private static let rows = 10_000

    func run() throws {
        let store = try Store(at: file, entities: [Item.self], options: options)
        let ranks: [Int] = try store.snapshot().values(of: \Item.rank, sortedBy: .ascending(\.rank), limit: Self.rows)
        guard let bound = ranks.last else { throw BenchError(message: "the store is empty: load it first") }
        let context = store.makeContext()
        let start = seconds()
        let results = try context.results(
            Item.self, where: #Predicate { $0.rank <= bound }, sortedBy: .ascending(\.rank))
        let made = seconds() - start
        let changes = Int(arguments.rows)
        var random = SplitMix(state: Workloads.querySeed)
        let references = results.references
        // The objects are read before: an edit is to cost what the list costs, and what an edit costs anyway.
        let objects = try references.map { try context.object($0) }
        for object in objects { _ = object.rank }
        let with = time(changes, objects, &random, bound)
        let others = store.makeContext()
        let merged = try merges(changes, references, &random, bound, others, context)
        let alone = try time(changes, references.map { try others.object($0) }, &random, bound)
        report(
            UInt64(results.count), with, UInt64(changes),
            ",\"make_ms\":\(made * 1e3),\"edit_us\":\(with / Double(changes) * 1e6),"
                + "\"edit_without_us\":\(alone / Double(changes) * 1e6),\"merge_us\":\(merged / Double(changes) * 1e6)")
        context.rollback()
        try store.close()
    }

    /// Moves one object in the list, again and again.
    private func time(_ changes: Int, _ objects: [Object<Item>], _ random: inout SplitMix, _ bound: Int) -> Double {
        let start = seconds()
        for _ in 0..<changes {
            objects[Int(random.next() % UInt64(objects.count))].rank = Int(random.next() % UInt64(max(1, bound)))
        }
        return seconds() - start
    }

    /// The same in another context that is saved. Only merging is timed.
    private func merges(
        _ changes: Int, _ references: [Reference<Item>], _ random: inout SplitMix, _ bound: Int, _ others: Context,
        _ context: Context
    ) throws -> Double {
        context.rollback()
        var elapsed = 0.0
        for _ in 0..<changes {
            let object = try others.object(references[Int(random.next() % UInt64(references.count))])
            object.rank = Int(random.next() % UInt64(max(1, bound)))
            try others.save()
            let start = seconds()
            try context.merge()
            elapsed += seconds() - start
        }
        return elapsed
    }
}
