// Random operations from a seed against the oracle: a slice in every test run, a million with `Tests/run long oracle`.

import Annals
import FoundationEssentials
import SimulatedDisk
import Testing

@Suite struct OracleTests {
    /// With small limits, so that everything that is cut, spilled or checkpointed happens all the time; and with those
    /// of a product.
    private static let limits: [(name: String, options: EngineOptions)] = [
        ("small", .lowered), ("default", EngineOptions()),
    ]

    @Test(arguments: [0, 1]) func randomOperationsAgreeWithTheOracle(_ half: Int) throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["ANNALS_ORACLE_SEED"].flatMap { UInt64($0) }
        let operations = environment["ANNALS_ORACLE_OPERATIONS"].flatMap { Int($0) } ?? 12_000
        let (name, options) = Self.limits[half]
        var total = OracleCounts()
        var store: UInt64 = 0
        let first = seed ?? UInt64(half + 1)
        while total.operations < operations {
            let run = OracleRun(seed: first &* 1000 &+ store, options: options)
            do {
                try run.run(operations: operations - total.operations)
            } catch {
                Issue.record(
                    """
                    seed \(first), store \(store), \(name) limits, operation \
                    \(total.operations + run.counts.operations): \(error)
                      replay: ANNALS_ORACLE_SEED=\(first) ANNALS_ORACLE_OPERATIONS=\(operations) \
                    swift test -c release --filter OracleTests
                    """)
                return
            }
            total.add(run.counts)
            store += 1
        }
        print(
            "oracle, seed \(first), \(name) limits: \(total.operations) operations on \(store) stores, "
                + "\(total.transactions) transactions, \(total.compactions) compactions, "
                + "\(total.comparisons) comparisons, \(total.refusals) refusals, \(total.conflicts) conflicts, "
                + "\(total.openings) openings, \(total.kills) kills, \(total.crashes) power cuts")
    }
}
