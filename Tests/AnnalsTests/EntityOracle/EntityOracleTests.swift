// Random operations of the struct API on a store and on a model in memory: both show the same, however one asks.

import Annals
import FoundationEssentials
import TestSupport
import Testing

@Suite struct EntityOracleTests {
    /// `Tests/long.sh entities` sets these for longer runs.
    @Test(arguments: [1, 2, 3] as [UInt64]) func structsDoWhatTheModelSays(_ number: UInt64) throws {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["ANNALS_ENTITIES_SEED"].flatMap { UInt64($0) }
        let operations = environment["ANNALS_ENTITIES_OPERATIONS"].flatMap { Int($0) }
        // A seed of one's own is one run.
        if first != nil, number > 1 { return }
        let seed = first ?? number
        let wanted = operations ?? 1500
        var total = EntityOracleRun.Counts()
        var store: UInt64 = 0
        while total.operations < wanted {
            let run = try EntityOracleRun(seed: seed &* 10_000 &+ store)
            do {
                try run.run(operations: min(5000, wanted - total.operations))
            } catch {
                Issue.record(
                    """
                    seed \(seed), store \(store), operation \(run.counts.operations) of it: \(error)
                      replay: ANNALS_ENTITIES_SEED=\(seed) ANNALS_ENTITIES_OPERATIONS=\(wanted) \
                    swift test -c release --filter EntityOracleTests
                    """)
                return
            }
            total.add(run.counts)
            store += 1
        }
        print(
            "entities, seed \(seed): \(total.operations) operations on \(store) stores, "
                + "\(total.transactions) transactions, \(total.refusals) refused, \(total.predicates) predicates, "
                + "\(total.histories) histories, \(total.compactions) compactions, \(total.openings) openings")
    }
}
