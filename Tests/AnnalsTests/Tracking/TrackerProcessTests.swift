// Processes that track one store at once, and are killed, stopped and kept away at any moment: contexts show what the
// store has, observers get every change, and history goes.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite struct TrackerProcessTests {
    /// Longer with `Tests/run long tracker`. An operation is a transaction that a process tries.
    @Test func observersOfSeveralProcessesGetEveryChange() throws {
        _ = LongRun("tracker", operations: 300)?.forEachStore(200_000) { seed, count in
            let run = try TrackedRun(seed: seed, operations: count)
            try run.run()
            try run.folder.expectIntact()
        }
    }
}

/// Three processes with one store.
private final class TrackedRun {
    private struct Failure: Error { let text: String }

    /// An event for a process, or for the store.
    private enum Disturbance: CaseIterable {
        case kill, killForLong, pause, pauseForLong, leave, leaveForLong, compact
    }

    private enum Condition: Equatable {
        case works
        case isPaused(until: ContinuousClock.Instant)
        case isLeaving(forLong: Bool)
        case isAway(until: ContinuousClock.Instant)
    }

    private static let numbers = 0..<3
    /// How old the oldest transaction in history may be: none of the processes may have had a turn for so long.
    private static let ageLimit = Duration.seconds(60)

    let folder: StoreFolder
    private let logs: TemporaryDirectory
    private let seed: UInt64
    private let operations: Int
    /// Readers that are away for longer, in seconds, lose history.
    private let maximumDuration: Int
    private var random: SeededRandom
    private var store: Store
    private var workers: [RunningTool?] = numbers.map { _ in nil }
    private var conditions = numbers.map { _ in Condition.works }
    private var figures = [Disturbance: Int]()
    private var oldest = Duration.zero

    init(seed: UInt64, operations: Int) throws {
        folder = try StoreFolder()
        logs = try TemporaryDirectory()
        (self.seed, self.operations, random) = (seed, operations, SeededRandom(seed))
        maximumDuration = operations < 1000 ? 1 : 3
        let made = try runTool(["trackers", "make", folder.path], name: "process-helper")
        guard made.status == 0 else { throw Failure(text: made.errors) }
        // One that is stopped may have the lock, and this must let it go on.
        store = try folder.open { $0.lockTimeout = .milliseconds(200) }
    }

    func run() throws {
        for number in Self.numbers { try start(number) }
        // Each kind once, in any order, and then more of them.
        var next = Disturbance.allCases.shuffled(using: &random)[...]
        let begin = ContinuousClock.now
        while try !next.isEmpty || !isEverythingDone() {
            usleep(UInt32.random(in: 20_000..<250_000, using: &random))
            try attend()
            let chosen = next.first ?? weighted()
            if try disturb(random.one(of: Array(Self.numbers)), chosen) { _ = next.popFirst() }
            noteAge()
        }
        try comeToRest()
        try end()
        let check = try runTool(["trackers", "check", folder.path, logs.path], name: "process-helper")
        guard check.status == 0 else { throw Failure(text: check.errors) }
        let counts = Disturbance.allCases.map { "\($0) \(figures[$0] ?? 0)" }.joined(separator: ", ")
        let seconds = (ContinuousClock.now - begin).components.seconds
        print("tracker, seed \(seed), \(seconds) s: \(counts), oldest history \(oldest)")
        print("tracker, seed \(seed): \(check.output)", terminator: "")
        try store.close()
    }

    private func start(_ number: Int) throws {
        workers[number] = try RunningTool(
            [
                "trackers", "work", folder.path, logs.path, "\(number)", "\(seed)",
                "\(operations / Self.numbers.count)", "\(maximumDuration)",
            ], name: "process-helper")
        conditions[number] = .works
    }

    private func isEverythingDone() throws -> Bool {
        Self.numbers.allSatisfy { logs.names.contains("\($0).done") }
    }

    // MARK: Disturbing

    private func weighted() -> Disturbance {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<32: .kill
        case 32..<34: .killForLong
        case 34..<66: .pause
        case 66..<68: .pauseForLong
        case 68..<82: .leave
        case 82..<84: .leaveForLong
        default: .compact
        }
    }

    private func soon() -> ContinuousClock.Instant {
        .now + .milliseconds(Int.random(in: 5..<400, using: &random))
    }

    private func late() -> ContinuousClock.Instant {
        .now + .milliseconds(maximumDuration * 1000 + Int.random(in: 100..<1000, using: &random))
    }

    /// Those whose time has come go on; nobody may have ended by itself.
    private func attend() throws {
        for number in Self.numbers {
            switch conditions[number] {
            case .works:
                if let worker = workers[number], !worker.isRunning { throw Failure(text: "\(worker.end())") }
            case .isPaused(let until):
                guard ContinuousClock.now >= until else { continue }
                workers[number]?.signal(SIGCONT)
                conditions[number] = .works
            case .isLeaving(let forLong):
                guard let worker = workers[number], !worker.isRunning else { continue }
                let run = worker.end()
                guard run.status == 0 else { throw Failure(text: "\(run)") }
                unlink(logs.path("\(number).leave"))
                try away(number, forLong: forLong)
            case .isAway(let until):
                if ContinuousClock.now >= until { try start(number) }
            }
        }
    }

    /// Returns false if the process is away or paused, or the store is compacted by another one.
    private func disturb(_ number: Int, _ disturbance: Disturbance) throws -> Bool {
        if disturbance == .compact {
            do { _ = try store.compact() } catch let error as StoreError where error.code == .busy { return false }
        } else {
            guard let worker = workers[number], conditions[number] == .works else { return false }
            switch disturbance {
            case .kill, .killForLong:
                worker.signal(SIGKILL)
                let run = worker.end()
                guard run.signal == SIGKILL else { throw Failure(text: "\(run)") }
                try away(number, forLong: disturbance == .killForLong)
            case .leave, .leaveForLong:
                try logs.write("", to: "\(number).leave")
                conditions[number] = .isLeaving(forLong: disturbance == .leaveForLong)
            case .pause, .pauseForLong:
                worker.signal(SIGSTOP)
                conditions[number] = .isPaused(until: disturbance == .pause ? soon() : late())
            case .compact: break
            }
        }
        figures[disturbance, default: 0] += 1
        return true
    }

    private func away(_ number: Int, forLong: Bool) throws {
        workers[number] = nil
        if forLong { conditions[number] = .isAway(until: late()) } else { try start(number) }
    }

    /// History may be as old as the processes let it become that are stopped at once, and no older.
    private func noteAge() {
        guard let first = try? store.history(HistoryRequest(limit: 1)).first else { return }
        oldest = max(oldest, .seconds(Date().timeIntervalSince(first.timestamp)))
    }

    // MARK: Ending

    /// All go on, until everybody has read everything.
    private func comeToRest() throws {
        for number in Self.numbers {
            while case .isLeaving = conditions[number] {
                usleep(2000)
                try attend()
            }
        }
        for number in Self.numbers {
            if case .isPaused = conditions[number] { workers[number]?.signal(SIGCONT) }
            if case .isAway = conditions[number] { try start(number) }
            conditions[number] = .works
        }
        guard oldest < Self.ageLimit else { throw Failure(text: "history was \(oldest) old") }
        let names = Self.numbers.flatMap { ["process \($0)", "process \($0)/tally"] }
        let deadline = ContinuousClock.now + .seconds(300)
        while true {
            let readers = try store.consumers.filter { names.contains($0.name) }
            if readers.count == names.count, readers.allSatisfy({ $0.lag == 0 && !$0.isLost }) { break }
            try attend()
            guard ContinuousClock.now < deadline else { throw Failure(text: "these have not read all: \(readers)") }
            usleep(2000)
        }
    }

    private func end() throws {
        for number in Self.numbers { try logs.write("", to: "\(number).stop") }
        for number in Self.numbers {
            guard let run = workers[number]?.end() else { continue }
            guard run.status == 0 else { throw Failure(text: "process \(number): \(run)") }
        }
        guard try store.horizon == store.currentToken.number else { throw Failure(text: "history is left") }
    }
}
