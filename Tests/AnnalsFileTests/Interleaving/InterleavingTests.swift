// Two processes at once: every order of their calls with up to two preemptions, a sample of those with three, deaths
// and power cuts in them.
//
// All with three preemptions: Tests/run interleavings.

import Annals
import FoundationEssentials
import SimulatedDisk
import TestSupport
import Testing

@Suite struct InterleavingTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let runsAll = environment["ANNALS_INTERLEAVINGS"] == "all"
    /// Of the schedules with one preemption, how many are run with a death in them, and with power cuts.
    private static let kills = runsAll ? Int.max : 100
    private static let cuts = runsAll ? 2000 : 25

    /// A schedule that was run, and how many steps it had.
    private typealias Level = [(schedule: Schedule, steps: Int)]

    @Test(arguments: InterleavingScenario.all)
    func everyInterleavingEndsWell(_ scenario: InterleavingScenario) async throws {
        try await LongTests.run(besideOthers: !Self.runsAll) { try Self.runAll(scenario) }
    }

    private static func runAll(_ scenario: InterleavingScenario) throws {
        let named = (environment["ANNALS_INTERLEAVING_SCENARIOS"] ?? "").split(separator: " ")
        if !named.isEmpty, !named.contains(Substring(scenario.name)) { return }
        let model = try InterleavedStore()
        let tally = InterleavingTally()
        let run = InterleavingRun(scenario: scenario, model: model, tally: tally)
        if let chosen = environment["ANNALS_INTERLEAVING"] {
            guard chosen.hasPrefix(scenario.name + ":") else { return }
            let schedule = try #require(Schedule(String(chosen.dropFirst(scenario.name.count + 1))))
            return try replay(schedule, run)
        }
        do {
            let began = ContinuousClock.now
            var counts: [String] = []
            let (none, one) = try level(roots(scenario), run)
            let (single, two) = try level(one, run)
            let pairs = Schedule.sample(two, limit: runsAll ? .max : scenario.limits.two, seed: 2)
            let (_, three) = try level(pairs, run)
            let triples = Schedule.sample(three, limit: runsAll ? .max : scenario.limits.three, seed: 3)
            for schedule in triples { try run.run(schedule) }
            counts.append("\(one.count) schedules with 1 preemption, \(pairs.count) of \(two.count) with 2")
            counts.append("\(triples.count) of \(three.count) with 3")
            try killEachOne(none, single, run)
            try cutPower(none, single, run)
            counts.append("\(tally.kills) deaths, \(tally.cuts) power cuts with \(tally.images.count) images")
            print(
                "interleaving \(scenario.name): \(tally.steps) steps of \(tally.calls) calls, "
                    + counts.joined(separator: ", ") + ", \(ContinuousClock.now - began)")
            #expect(tally.seen.isSuperset(of: scenario.seen), "only \(tally.seen.sorted()) were seen")
        } catch {
            Issue.record("\(error)")
        }
    }

    private static func roots(_ scenario: InterleavingScenario) -> [Schedule] {
        scenario.isSymmetric ? [Schedule(first: 0)] : [Schedule(first: 0), Schedule(first: 1)]
    }

    /// Runs the schedules; returns what they came to, and those with one preemption more.
    private static func level(
        _ schedules: [Schedule], _ run: InterleavingRun
    ) throws -> (level: Level, next: [Schedule]) {
        var level: Level = []
        var next: [Schedule] = []
        for schedule in schedules {
            let steps = try run.run(schedule).steps
            level.append((schedule, steps.count))
            next += schedule.children(steps)
        }
        return (level, next)
    }

    /// At every step of the schedules without preemptions, and of a sample of the others after their preemption.
    private static func killEachOne(_ none: Level, _ single: Level, _ run: InterleavingRun) throws {
        var all: [Schedule] = []
        for (schedule, steps) in single {
            all += ((schedule.preemptions.last ?? 1)...max(steps, schedule.preemptions.last ?? 1)).map {
                Schedule(first: schedule.first, preemptions: schedule.preemptions, kill: $0)
            }
        }
        all = Schedule.sample(all, limit: kills, seed: 4)
        for (schedule, steps) in none { all += (1...steps).map { Schedule(first: schedule.first, kill: $0) } }
        for schedule in all { try run.run(schedule) }
    }

    /// Before every third step of the schedules without preemptions, and at three steps of a sample of the others.
    private static func cutPower(_ none: Level, _ single: Level, _ run: InterleavingRun) throws {
        for (schedule, steps) in none {
            let step = runsAll ? 1 : 3
            try run.run(Schedule(first: schedule.first, cuts: Array(stride(from: 1, through: steps, by: step))))
        }
        var random = SeededRandom(5)
        let lengths = Dictionary(single.map { ($0.schedule, $0.steps) }, uniquingKeysWith: { $1 })
        for schedule in Schedule.sample(single.map(\.schedule), limit: cuts, seed: 6) {
            guard let steps = lengths[schedule], steps > 0 else { continue }
            let cuts = Set((0..<3).map { _ in 1 + random.next(below: steps) }).sorted()
            try run.run(Schedule(first: schedule.first, preemptions: schedule.preemptions, cuts: cuts))
        }
    }

    private static func replay(_ schedule: Schedule, _ run: InterleavingRun) throws {
        defer {
            for (index, step) in run.tally.lastSteps.enumerated() {
                print("\(index + 1): \(step.process == 0 ? "A" : "B") \(step.call.rawValue)")
            }
        }
        try run.run(schedule)
    }

    // MARK: The tester itself

    @Test func equalSchedulesGiveEqualRuns() throws {
        let model = try InterleavedStore()
        for scenario in InterleavingScenario.all {
            let run = InterleavingRun(scenario: scenario, model: model, tally: InterleavingTally())
            var schedule = Schedule(first: 1)
            for _ in 0..<3 {
                let first = try run.run(schedule)
                let second = try run.run(schedule)
                #expect(first.bytes == second.bytes)
                #expect(first.steps.map { "\($0)" } == second.steps.map { "\($0)" })
                let children = schedule.children(first.steps)
                schedule = children[children.count / 2]
            }
        }
    }

    @Test func schedulesAreReadBackFromTheirText() {
        var schedule = Schedule(first: 1, preemptions: [3, 17])
        #expect(Schedule("\(schedule)") == schedule)
        schedule.kill = 20
        #expect("\(schedule)" == "B:3,17:kill=20" && Schedule("\(schedule)") == schedule)
        #expect(Schedule("A") == Schedule(first: 0))
        #expect(Schedule("C:1") == nil)
    }

    /// Where locks, names and syncs do not do what the store relies on, schedules with one preemption and power cuts
    /// show it.
    @Test(arguments: [
        ("commit-commit", Sabotage.noLocks), ("compact-compact", .noLocks), ("recover-recover", .noLocks),
        ("commit-compact", .oldNames), ("commit-commit", .noSynchronize), ("commit-compact", .noSynchronizeDirectory),
    ]) func sabotageIsFound(_ name: String, _ sabotage: Sabotage) throws {
        let scenario = try #require(InterleavingScenario.all.first { $0.name == name })
        let run = InterleavingRun(
            scenario: scenario, model: try InterleavedStore(), tally: InterleavingTally(), sabotage: sabotage)
        #expect(throws: InterleavingFailure.self) {
            let (none, one) = try Self.level(Self.roots(scenario), run)
            let (single, _) = try Self.level(one, run)
            try Self.cutPower(none, single, run)
        }
    }

    /// Two that add one to a byte without a lock: in order both count, and one preemption in the wrong place loses one.
    @Test func theRaceOfAnUnlockedCounterIsFound() throws {
        func count(_ schedule: Schedule) throws -> (value: UInt8?, steps: [Baton.Step]) {
            let disk = SimulatedDisk()
            disk.install([0], at: Machine.path)
            let baton = Baton(schedule)
            let files = (0...1).map { InterleavedFiles(disk, UInt32(11 + $0), baton, $0) }
            let failures = Guarded(0)
            try baton.run(
                files.map { files in
                    {
                        do {
                            let directory = try files.openDirectory("/data")
                            let file = try files.open("s.annals", in: directory, access: .readWrite)
                            var byte = [UInt8(0)]
                            _ = try byte.withUnsafeMutableBytes { try files.read(file, at: 0, into: $0) }
                            byte[0] += 1
                            _ = try byte.withUnsafeBytes { try files.write(file, at: 0, from: $0) }
                            files.close(file)
                        } catch { failures.withLock { $0 += 1 } }
                    }
                })
            #expect(baton.failure == nil && failures.withLock { $0 } == 0)
            return (disk.contents(of: Machine.path)?.first, baton.steps)
        }
        let inOrder = try count(Schedule(first: 0))
        #expect(inOrder.value == 2 && inOrder.steps.count == 8)
        let wrong = try Schedule(first: 0).children(inOrder.steps).filter { try count($0).value != 2 }
        // Only between reading and writing.
        #expect(wrong == [Schedule(first: 0, preemptions: [3])])
    }

    @Test func aDeadlockOfTwoProcessesIsFound() throws {
        let baton = Baton(Schedule(first: 0))
        try baton.run((0...1).map { index in { while !baton.isStuck { baton.sleep(index) } } })
        #expect(baton.failure == "both processes wait for ever")
    }
}
