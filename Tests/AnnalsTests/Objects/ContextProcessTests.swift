// Processes that work on one store at once, each with a context, and are killed at any moment: what was saved is what
// their logs say, and in the end all of them show what the store has.

import Annals
import TestSupport
import Testing

@Suite struct ContextProcessTests {
    /// Longer with `Tests/run long processes`.
    @Test func contextsOfSeveralProcessesConverge() throws {
        // Not so many on a store that history becomes long, or that the names in it become too many.
        _ = LongRun("processes", operations: 1500)?.forEachStore(20_000) { seed, count in
            let folder = try StoreFolder()
            let workers = KilledWorkers(
                work: "contexts", folder: folder, seed: seed, operations: count,
                kills: max(3, min(30, count / 500)), pauses: 1000..<120_000)
            print("processes, seed \(seed): \(try workers.run(thenCheckWith: "replay"))", terminator: "")
            try folder.expectIntact()
        }
    }
}
