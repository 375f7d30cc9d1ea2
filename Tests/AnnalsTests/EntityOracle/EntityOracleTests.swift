// Random operations of the struct API on a store and on a model in memory: both show the same, however one asks.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct EntityOracleTests {
    /// Longer with `Tests/run long entities`.
    @Test(arguments: [1, 2, 3] as [UInt64]) func structsAgreeWithTheModel(_ number: UInt64) throws {
        guard let long = LongRun("entities", seed: number, operations: 1500) else { return }
        var total = EntityOracleRun.Counts()
        var store: UInt64 = 0
        while total.operations < long.operations {
            let run = try EntityOracleRun(seed: long.seed &* 10_000 &+ store)
            do {
                try run.run(operations: min(5000, long.operations - total.operations))
            } catch {
                return long.record(error, "store \(store), operation \(run.counts.operations) of it")
            }
            total.add(run.counts)
            store += 1
        }
        print(
            "entities, seed \(long.seed): \(total.operations) operations on \(store) stores, "
                + "\(total.transactions) transactions, \(total.refusals) refused, \(total.predicates) predicates, "
                + "\(total.histories) histories, \(total.compactions) compactions, \(total.openings) openings")
    }
}
