// Processes whose contexts save in the background while they follow the store and a tracker runs, and are killed.

import Annals
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct SaverProcessTests {
    /// Longer with `Tests/run long savers`.
    @Test func backgroundSavesSurviveKilledProcesses() throws {
        _ = LongRun("savers", operations: 1800)?.forEachStore(15_000) { seed, count in
            let folder = try StoreFolder()
            let workers = KilledWorkers(
                work: "savers", folder: folder, seed: seed, operations: count,
                kills: max(3, min(30, count / 1000)), pauses: 20_000..<200_000)
            print("savers, seed \(seed): \(try workers.run(thenCheckWith: "check"))", terminator: "")
            try folder.expectIntact()
        }
    }
}
