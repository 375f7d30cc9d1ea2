// Every way to change a store follows every other one, in every setting, and all who read it show the same. This holds
// many of the cells of Tests/pairs.md.

import Annals
import FoundationEssentials
import Glibc
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(20))) struct WaysTests {
    /// Where and how all of it happens. Each choice meets each other one in some setting.
    struct Setting: Sendable, CustomTestStringConvertible {
        enum Place: String { case plain, inMemory, oddName, moved }
        enum Writers: String { case one, tasks, processes }

        let place: Place
        let writers: Writers
        var hasLargeValues = false
        /// Whether the history of visits is kept. If it is not, nothing is exchanged with another store.
        var keepsVisits = true
        var reading = Store.Options().reading
        var clockJumps = false

        var ways: [Way] { Way.allCases.filter { keepsVisits || $0 != .apply } }

        var testDescription: String {
            "\(place), \(writers)\(hasLargeValues ? ", large" : "")\(keepsVisits ? "" : ", history off"), \(reading)"
                + (clockJumps ? ", clock jumps" : "")
        }

        static let plain = Setting(place: .plain, writers: .one)
        static let others = [
            Setting(
                place: .plain, writers: .tasks, hasLargeValues: true, keepsVisits: false, reading: .copied,
                clockJumps: true),
            Setting(place: .plain, writers: .processes, keepsVisits: false, reading: .copied),
            Setting(place: .inMemory, writers: .one, hasLargeValues: true, keepsVisits: false, clockJumps: true),
            Setting(place: .inMemory, writers: .tasks, reading: .copied, clockJumps: true),
            Setting(place: .oddName, writers: .one, keepsVisits: false, reading: .copied, clockJumps: true),
            Setting(place: .oddName, writers: .tasks, hasLargeValues: true),
            Setting(place: .oddName, writers: .processes, hasLargeValues: true, keepsVisits: false),
            Setting(place: .moved, writers: .one, hasLargeValues: true, reading: .copied, clockJumps: true),
            Setting(place: .moved, writers: .tasks, keepsVisits: false, clockJumps: true),
            Setting(place: .moved, writers: .processes),
        ]
    }

    /// Longer with `Tests/run long ways`.
    @MainActor @Test(arguments: [Setting.plain] + Setting.others)
    func everyWayFollowsEveryOtherWay(_ setting: Setting) async throws {
        let pairs = setting.ways.count * setting.ways.count
        // Elsewhere each way once, and some after each other.
        let isPlain = setting.testDescription == Setting.plain.testDescription
        guard let long = LongRun("ways", operations: isPlain ? setting.ways.count + pairs : 40) else { return }
        let random = SeededRandom(long.seed)
        do {
            let run = try await WaysRun(setting, random)
            try await run.run(operations: long.operations)
            print("ways, seed \(long.seed): \(long.operations) operations, \(setting.testDescription)")
        } catch { long.record(error, setting.testDescription) }
    }

    /// A handle for reading refuses every way, and says so. Edits stay, and nothing is written.
    @Test(arguments: Way.allCases.filter { $0 != .restore })
    func everyWayIsRefusedByAReadOnlyHandle(_ way: Way) async throws {
        let folder = try StoreFolder()
        let others = try TemporaryDirectory()
        var options = Store.Options()
        let writer = try WaysWriter(folder.path, other: others.path("other"), length: 20, options: options)
        try await writer.run(.transaction, WaysChange(1, parts: [0], visits: [0], length: 20))
        try await writer.updateOther()
        let store = try Store(at: folder.path, entities: Ways.entities)
        // Nothing is left for the threads that index.
        try store.updateSearchIndexes()
        let token = try store.currentToken
        options.access = .readOnly
        let reader = try WaysWriter(folder.path, other: others.path("other"), length: 20, options: options)
        var error: StoreError?
        do {
            try await reader.run(way, WaysChange(4, parts: [0, 1], visits: [0, 1], length: 20))
        } catch let thrown as StoreError { error = thrown }
        #expect(error?.code == (way == .migration ? .schemaMismatch : .readOnly), "\(error?.description ?? "")")
        #expect(await reader.giveUpEdits() == [.context, .background, .undo].contains(way))
        #expect(try store.currentToken == token)
        try await writer.run(.context, WaysChange(3, parts: [0, 1], visits: [0, 1], length: 20))
        #expect(try await reader.keys().parts.sorted() == [0, 1, 3])
        try await reader.close()
        try await writer.close()
        try store.close()
        try folder.expectIntact()
    }
}

/// A clock that is set forwards and backwards, by hours.
private func jumpingClock() -> OtherClock {
    let reads = Guarded(0)
    return OtherClock {
        let read = reads.withLock { reads in
            reads += 1
            return reads
        }
        return [0, 2, -3, 30, 1][read / 7 % 5] * 3_600_000_000
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
        options.reading = setting.reading
        self.options = options
        var writing = options
        if setting.clockJumps { writing.environment = jumpingClock() }
        length = setting.hasLargeValues ? 150_000 : 20
        directory = temporary.path("directory")
        name = setting.place == .oddName ? "-ä%41\n👩‍👩‍👧‍👦 .annals" : "s.annals"
        var paths = [directory + "/" + name, others.path("other.annals"), others.path("second.annals")]
        mkdir(directory, 0o700)
        if setting.place == .inMemory {
            let first = setting.keepsVisits ? Ways.keepingVisits : []
            memory = try [first, Ways.keepingVisits, Ways.keepingVisits].map {
                try Store(inMemory: $0, options: writing)
            }
            paths = memory.map(\.path)
        }
        path = paths[0]
        let otherPaths = paths[1...].map { setting.keepsVisits ? $0 : nil as String? }
        otherPath = otherPaths[0]
        var writers: [WaysWriter] = []
        for other in otherPaths.prefix(setting.writers == .tasks ? 2 : 1) {
            writers.append(try WaysWriter(path, other: other, length: length, options: writing))
        }
        self.writers = writers
        readers = try WaysReaders(path, options)
        parts = WaysItems(length: length)
    }

    /// Each way once, each after each other one, and then in any order.
    func run(operations: Int) async throws {
        let first = setting.ways.shuffled(using: &random) + sequenceOfPairs()
        for step in 0..<operations {
            let way = step < first.count ? first[step] : setting.ways.randomElement(using: &random)!
            done.append(way)
            do {
                if setting.writers == .tasks { try await runTwo(way) } else { try await run(way) }
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
        if setting.writers == .processes {
            let run = try runTool(
                ["ways", way.rawValue, path, otherPath ?? "-", "\(number)", "\(length)"], name: "process-helper")
            guard run.status == 0 else { throw OracleDifference(run.errors) }
        } else {
            try await writers[0].run(way, change)
        }
        apply(way, change)
        if way == .restore { readers.fileWasReplaced() }
        try await moveAway()
    }

    /// Others find the store by its new path; who has it open goes on.
    private func moveAway() async throws {
        guard setting.place == .moved, number % 5 < 2 else { return }
        let next = temporary.path("moved \(number)")
        guard rename(directory, next) == 0 else { throw OracleDifference("the directory cannot be renamed") }
        (directory, path) = (next, next + "/" + name)
        for writer in writers { await writer.move(to: path) }
    }

    private func apply(_ way: Way, _ change: WaysChange) {
        guard way.changes else { return }
        parts.apply(change.parts)
        visits.apply(change.visits)
    }

    /// Two ways at the same time: each has its own parts and visits. No backup can have all of it, what is cleaned
    /// cannot be reverted, and a second compaction is refused.
    private func runTwo(_ way: Way) async throws {
        let alone: Set<Way> = [.restore, .clean]
        if alone.contains(way) {
            if way == .clean { try await writers[1].updateOther() }
            return try await run(way)
        }
        let second = setting.ways.filter {
            !alone.contains($0) && (way != .compact || $0 != .compact)
        }.randomElement(using: &random)!
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
        try await moveAway()
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
        let faults = try withStore { try $0.searchIndexFaults() }
        guard faults.isEmpty else { throw OracleDifference("\(faults)") }
        if setting.place != .inMemory, TemporaryDirectory.names(in: directory) != [name] {
            throw OracleDifference("other files are left: \(TemporaryDirectory.names(in: directory))")
        }
        for store in memory { try store.close() }
    }

    private func withStore<Result>(_ body: (Store) throws -> Result) throws -> Result {
        let store = try Store(at: path, options: options)
        let result = try body(store)
        try store.close()
        return result
    }
}
