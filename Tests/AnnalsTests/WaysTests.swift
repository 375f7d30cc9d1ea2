// Every way to change a store follows every other one, in every setting, and all who read it show the same. This holds
// many of the cells of Tests/pairs.md.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct WaysTests {
    /// What all of it happens in.
    enum Setting: String, CaseIterable {
        case plain, historyOff, copied, inMemory, oddName, moved, largeValues, processes, tasks

        var ways: [Way] { Way.allCases.filter { self != .historyOff || $0 != .apply } }
    }

    /// Longer with `Tests/long.sh ways`.
    @MainActor @Test(arguments: Setting.allCases) func everyWayMeetsEveryOther(_ setting: Setting) async throws {
        let all = setting.ways.count * setting.ways.count
        guard let long = LongRun("ways", operations: setting == .plain ? all : 60) else { return }
        let random = SeededRandom(long.seed)
        do {
            let run = try await WaysRun(setting, random)
            try await run.run(operations: long.operations)
        } catch { long.record(error, "\(setting)") }
    }
}

/// One store, what is in it, and who reads it.
@MainActor private final class WaysRun {
    private let setting: WaysTests.Setting
    private var random: SeededRandom
    private let temporary: TemporaryDirectory
    private let others: TemporaryDirectory
    private var directory: String
    private let name: String
    /// Keeps stores in memory.
    private var memory: [Store] = []
    private let options: Store.Options
    private let length: Int
    private var path: String
    private let otherPath: String?
    private let writers: [WaysWriter]
    private let readers: WaysReaders
    private var parts: WaysItems
    private var visits = WaysItems(length: 0)
    private var number = 0
    private var done: [Way] = []

    init(_ setting: WaysTests.Setting, _ random: SeededRandom) async throws {
        self.setting = setting
        self.random = random
        (temporary, others) = (try TemporaryDirectory(), try TemporaryDirectory())
        var options = Store.Options()
        options.durability = .relaxed
        options.lockTimeout = .seconds(600)
        options.reading = setting == .copied ? .copied : .mapped
        self.options = options
        length = setting == .largeValues ? 150_000 : 20
        directory = temporary.path("directory")
        name = setting == .oddName ? "-ä%41\n👩‍👩‍👧‍👦 .annals" : "s.annals"
        var paths = [directory + "/" + name, others.path("other.annals")]
        mkdir(directory, 0o700)
        if setting == .inMemory {
            memory = try (0..<2).map { _ in try Store(inMemory: Ways.keepingVisits, options: options) }
            paths = memory.map(\.path)
        }
        (path, otherPath) = (paths[0], setting == .historyOff ? nil : paths[1])
        let first = try WaysWriter(path, other: otherPath, length: length, options: options)
        let second = paths[1] + ".second"
        writers =
            setting == .tasks
            ? [first, try WaysWriter(path, other: second, length: length, options: options)] : [first]
        readers = try WaysReaders(path, options)
        parts = WaysItems(length: length)
    }

    /// Each way after each other one, and then in any order.
    func run(operations: Int) async throws {
        let pairs = sequenceOfPairs()
        for step in 0..<operations {
            let way = step < pairs.count ? pairs[step] : setting.ways.randomElement(using: &random)!
            done.append(way)
            do {
                if setting == .tasks { try await runTwo(way) } else { try await run(way) }
                try await readers.check(parts, visits)
            } catch {
                let last = done.suffix(6).map(\.rawValue).joined(separator: ", ")
                throw OracleDifference("step \(step), after \(last): \(error)")
            }
        }
        try await end()
    }

    private func run(_ way: Way) async throws {
        number += 1
        let change = WaysChange(
            number, parts: Array(parts.items.keys), visits: Array(visits.items.keys), length: length)
        if way == .clean { readers.forgetPast() }
        if setting == .processes {
            let run = try runTool(
                ["ways", way.rawValue, path, otherPath ?? "-", "\(number)", "\(length)"], name: "process-helper")
            guard run.status == 0 else { throw OracleDifference(run.errors) }
        } else {
            try await writers[0].run(way, change)
        }
        apply(way, change)
        if way == .restore { readers.fileWasReplaced() }
        if setting == .moved, number.isMultiple(of: 5) {
            let next = temporary.path("moved \(number)")
            guard rename(directory, next) == 0 else { throw OracleDifference("the directory cannot be renamed") }
            (directory, path) = (next, next + "/" + name)
            await writers[0].move(to: path)
        }
    }

    private func apply(_ way: Way, _ change: WaysChange) {
        guard way.changes else { return }
        parts.apply(change.parts)
        visits.apply(change.visits)
    }

    /// Two ways at the same time: each has its own parts and visits. No backup can have all of it, and what is cleaned
    /// cannot be reverted.
    private func runTwo(_ way: Way) async throws {
        let alone: Set<Way> = [.restore, .clean]
        if alone.contains(way) {
            if way == .clean { try await writers[1].updateOther() }
            return try await run(way)
        }
        let second = setting.ways.filter { !alone.contains($0) }.randomElement(using: &random)!
        done.append(second)
        number += 2
        let changes = (0..<2).map { lane in
            WaysChange(
                number + lane, parts: parts.items.keys.filter { $0 % 2 == (number + lane) % 2 },
                visits: visits.items.keys.filter { $0 % 2 == (number + lane) % 2 }, length: length)
        }
        number += 1
        async let one: Void = writers[0].run(way, changes[0])
        async let two: Void = writers[1].run(second, changes[1])
        _ = try await (one, two)
        for (way, change) in zip([way, second], changes) {
            apply(way, change)
        }
    }

    /// Ways so that each comes directly after each, also after itself.
    private func sequenceOfPairs() -> [Way] {
        var left: [Way: [Way]] = [:]
        for way in setting.ways { left[way] = setting.ways.shuffled(using: &random) }
        // A closed walk over all pairs: where it ends early, another one is put in.
        var stack = [Way.transaction]
        var walk: [Way] = []
        while let way = stack.last {
            if let next = left[way]?.popLast() { stack.append(next) } else { walk.append(stack.removeLast()) }
        }
        return walk.reversed()
    }

    private func end() async throws {
        try await readers.close()
        for writer in writers { try await writer.close() }
        let report = try Checker.check(path, files: try Store.files(for: path))
        guard report.isIntact else { throw OracleDifference("\(report.findings)") }
        if setting != .inMemory, TemporaryDirectory.names(in: directory) != [name] {
            throw OracleDifference("other files are left: \(TemporaryDirectory.names(in: directory))")
        }
        for store in memory { try store.close() }
    }
}
