// Random tests that run a short slice by default, and as long as `Tests/run long` asks.

import FoundationEssentials
import Testing

/// How much of a random test is run, from which seed.
struct LongRun {
    let name: String
    let seed: UInt64
    let operations: Int

    /// - Parameters:
    ///   - name: The name that `Tests/run long` has for the test.
    ///   - seed: The first seed of the default slice.
    ///   - operations: How long it is.
    ///
    /// Nil if `Tests/run long` asks for one seed, and this is another slice than the first.
    init?(_ name: String, seed: UInt64 = 1, operations: Int) {
        let environment = ProcessInfo.processInfo.environment
        func number(_ what: String) -> UInt64? {
            environment["ANNALS_\(name.uppercased())_\(what)"].flatMap { UInt64($0) }
        }
        let given = number("SEED")
        if given != nil, seed > 1 { return nil }
        self.name = name
        self.seed = given ?? seed
        self.operations = number("OPERATIONS").flatMap { Int(exactly: $0) } ?? operations
    }

    /// Records a failure, and the command that repeats it.
    func record(_ error: any Error, _ place: String) {
        Issue.record("seed \(seed), \(place): \(error)\n  again: Tests/run long \(name) \(operations) \(seed)")
    }

    /// Calls `body` with a seed of its own for each store and a number of operations, at most `most`, until all are
    /// done. Ends at the first failure, and records it. Returns the number of stores; nil after a failure.
    func forEachStore(_ most: Int, _ body: (_ seed: UInt64, _ operations: Int) throws -> Void) -> UInt64? {
        var left = operations
        var store: UInt64 = 0
        while left > 0 {
            let count = min(left, most)
            do {
                try body(seed &* 10_000 &+ store, count)
            } catch {
                record(error, "store \(store)")
                return nil
            }
            left -= count
            store += 1
        }
        return store
    }
}
