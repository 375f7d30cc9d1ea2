// Processes whose contexts save in the background while they follow the store and a tracker runs, and are killed.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct SaverProcessTests {
    private struct Failure: Error { var text: String }

    /// Longer with `Tests/long.sh savers`.
    @Test func whatWasSavedInTheBackgroundIsThere() throws {
        _ = LongRun("savers", operations: 1800)?.forEachStore(15_000) { seed, count in
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
                ["savers", "work", folder.path, names[number], "\(number)", "\(seed)", "\(operations / names.count)"],
                name: "process-helper")
        }
        var workers = try names.indices.map(start)
        for _ in 0..<max(3, min(30, operations / 1000)) {
            usleep(UInt32.random(in: 20_000..<200_000, using: &random))
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
        let check = try runTool(["savers", "check", folder.path] + names, name: "process-helper")
        guard check.status == 0 else { throw Failure(text: check.errors) }
        print("savers, seed \(seed): \(check.output)", terminator: "")
        try folder.expectIntact()
    }
}
