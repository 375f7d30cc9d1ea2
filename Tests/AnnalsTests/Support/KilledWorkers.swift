// Three processes that work on one store, are killed at any moments and started again, and then end their work.

import Annals
import Glibc
import TestSupport

struct KilledWorkers {
    private struct Failure: Error { let text: String }

    /// What `process-helper` calls the work.
    let work: String
    let folder: StoreFolder
    let seed: UInt64
    /// Of all processes together, if none is killed.
    let operations: Int
    let kills: Int
    /// How long to wait before each, in microseconds.
    let pauses: Range<UInt32>

    /// Runs the processes, and then what `process-helper` calls the check of their logs. Returns what that prints.
    func run(thenCheckWith check: String) throws -> String {
        let logs = try TemporaryDirectory()
        var random = SeededRandom(seed)
        let names = (0..<3).map { logs.path("log.\($0)") }
        func start(_ number: Int) throws -> RunningTool {
            try RunningTool(
                [work, "work", folder.path, names[number], "\(number)", "\(seed)", "\(operations / names.count)"],
                name: "process-helper")
        }
        var workers = try names.indices.map(start)
        for _ in 0..<kills {
            usleep(UInt32.random(in: pauses, using: &random))
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
        let result = try runTool([work, check, folder.path] + names, name: "process-helper")
        guard result.status == 0 else { throw Failure(text: result.errors) }
        return result.output
    }
}
