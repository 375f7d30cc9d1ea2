// Processes that write, index, compact and search one store, and are killed.

import Annals
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct SearchProcessTests {
    /// Longer with `Tests/run long searchers`.
    @Test func searchesAreRightBesideKilledProcesses() async throws {
        guard let run = LongRun("searchers", operations: 240) else { return }
        try await LongTests.run(besideOthers: true) {
            _ = run.forEachStore(3_000) { seed, count in
                let folder = try StoreFolder()
                let workers = KilledWorkers(
                    work: "searchers", folder: folder, seed: seed, operations: count,
                    kills: max(6, min(60, count / 40)), pauses: 20_000..<250_000)
                print("searchers, seed \(seed): \(try workers.run(thenCheckWith: "check"))", terminator: "")
                try folder.expectIntact()
            }
        }
    }

    @Test func aForkedProcessSearchesThroughAHandleOfItsOwn() throws {
        let folder = try StoreFolder()
        let run = try runTool(["searchers", "fork", folder.path], name: "process-helper")
        #expect(run.status == 0, "\(run.errors)")
        try folder.expectIntact()
    }
}
