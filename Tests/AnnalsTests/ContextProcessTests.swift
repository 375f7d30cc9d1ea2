// Processes that work on one store at once, each with a context, and are killed at any moment: what was saved is what
// their logs say, and in the end all of them show what the store has.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct ContextProcessTests {
    private struct Failure: Error { let text: String }

    /// Longer with `Tests/long.sh processes`.
    @Test func contextsOfSeveralProcessesConverge() throws {
        // Not so many on a store that history becomes long, or that the names in it become too many.
        _ = LongRun("processes", operations: 1500)?.forEachStore(20_000) { seed, count in
            try run(seed: seed, operations: count)
        }
    }

    private func run(seed: UInt64, operations: Int) throws {
        let folder = try StoreFolder()
        let logs = try TemporaryDirectory()
        var random = SeededRandom(seed)
        let names = (0..<3).map { logs.path("log.\($0)") }
        func start(_ number: Int) throws -> RunningTool {
            try RunningTool(
                [
                    "contexts", "work", folder.path, names[number], "\(number)", "\(seed)",
                    "\(operations / names.count)",
                ],
                name: "process-helper")
        }
        var workers = try names.indices.map(start)
        for _ in 0..<max(3, min(30, operations / 500)) {
            usleep(UInt32.random(in: 1000..<120_000, using: &random))
            let number = names.indices.randomElement(using: &random) ?? 0
            workers[number].signal(SIGKILL)
            let run = workers[number].end()
            guard run.signal == SIGKILL else { throw Failure(text: run.errors) }
            workers[number] = try start(number)
        }
        for worker in workers {
            while worker.line() != "done" {
                guard worker.isRunning else { throw Failure(text: worker.end().errors) }
            }
        }
        for number in names.indices { try logs.write("", to: "log.\(number).stop") }
        for worker in workers {
            let run = worker.end()
            guard run.status == 0 else { throw Failure(text: run.errors) }
        }
        let replay = try runTool(["contexts", "replay", folder.path] + names, name: "process-helper")
        guard replay.status == 0 else { throw Failure(text: replay.errors) }
        print("processes, seed \(seed): \(replay.output)", terminator: "")
        try folder.expectIntact()
    }
}
