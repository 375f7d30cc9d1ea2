// Real threads on one engine and the real file system: every view is one state, no read fails, and no increment is
// lost.

import Annals
import SimulatedDisk
import Synchronization
import TestSupport
import Testing

@Suite struct EngineThreadTests {
    private static let accounts = 40
    private static let total = Int64(accounts * 1000)
    private let directory: TemporaryDirectory
    private var path: String { directory.path("s.annals") }

    init() throws { directory = try TemporaryDirectory() }

    private static func options(isLowered: Bool, _ reading: FileReading) -> EngineOptions {
        var options = isLowered ? EngineOptions.lowered : EngineOptions()
        options.reading = reading
        options.log.limits.mappingReserveBytes = 1 << 30
        // Whoever waits does so for as long as a machine under load takes.
        options.log.lockTimeoutMicroseconds = 600_000_000
        return options
    }

    private func create(_ options: EngineOptions) throws -> Engine {
        let engine = try Engine.create(path, options: options, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        return engine
    }

    /// Runs the bodies on a thread each and waits for all; records what they throw.
    private func onThreads(_ bodies: [@Sendable () throws -> Void]) throws {
        let failures = Guarded<[String]>([])
        let threads = try bodies.map { body in
            try BackgroundThread(name: "engine test") {
                do { try body() } catch { failures.withLock { $0.append("\(error)") } }
            }
        }
        for thread in threads { thread.join() }
        #expect(failures.withLock { $0 } == [])
    }

    // MARK: Deltas

    /// Readers look for objects while the deltas over their leaves grow, become whole leaves and are written.
    @Test(arguments: [FileReading.mapped, .copied]) func readersFindEveryObjectWhileDeltasGrow(_ reading: FileReading)
        throws
    {
        var options = Self.options(isLowered: true, reading)
        options.deltas = DeltaPolicy()
        options.dirtyNodeBytes = 1 << 20
        options.checkpointTailBytes = 64 << 10
        options.undividedCheckpointBytes = 0
        options.checkpointPartBytes = 512
        let engine = try Engine.create(path, options: options, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([EngineNote.withoutIndexes]) }
        let count: UInt64 = 1500
        let ids = try engine.insertNotes(1...Int(count))
        try engine.writeCheckpoint()
        let isDone = Atomic<Bool>(false)
        let last = Atomic<Int>(0)
        var bodies: [@Sendable () throws -> Void] = [
            {
                defer { isDone.store(true, ordering: .relaxed) }
                var random = SeededRandom(3)
                for round in 1...3000 {
                    let object = ids[Int(random.next() % count)]
                    _ = try engine.commit(durability: .relaxed) {
                        try $0.update(object, [(EngineNote.rank, .int(Int64(round) + 10_000))])
                        try $0.update(ids[0], [(EngineNote.rank, .int(Int64(round)))])
                    }
                    last.store(round, ordering: .releasing)
                }
            }
        ]
        for reader in 0..<2 {
            bodies.append {
                var random = SeededRandom(UInt64(reader + 8))
                while !isDone.load(ordering: .relaxed) {
                    let least = last.load(ordering: .acquiring)
                    let view = try engine.view()
                    guard let round = try view.rank(ids[0]), round >= least || least == 0 else {
                        throw StoreError(.damaged, "a view is older than a commit before it")
                    }
                    for _ in 0..<20 {
                        let object = ids[Int(random.next() % (count - 1)) + 1]
                        guard let rank = try view.rank(object), rank <= round + 10_000 else {
                            throw StoreError(.damaged, "an object is gone, or newer than its view")
                        }
                    }
                }
            }
        }
        try onThreads(bodies)
        try engine.close()
        let report = try Checker.check(path, files: RealFileSystem())
        #expect(report.findings.map(\.sentence) == [])
    }

    // MARK: Copies

    /// Readers of copies forget them whenever nobody reads, and a writer goes down indexes that stand in the file.
    @Test func cachedCopiesAreKeptWhileAWriterUsesThem() throws {
        let engine = try create(Self.options(isLowered: true, .copied))
        let count = 3000
        let ids = try (0..<30).flatMap { batch in
            try engine.commit(durability: .relaxed) { transaction in
                try (0..<count / 30).map {
                    let number = batch * 100 + $0
                    return try transaction.insert(
                        entity: EngineNote.entity, EngineNote.row("note \(number)", Int64(number)))
                }
            }.result
        }
        let isDone = Atomic<Bool>(false)
        var bodies: [@Sendable () throws -> Void] = [
            {
                defer { isDone.store(true, ordering: .relaxed) }
                var random = SeededRandom(1)
                for round in 0..<1500 {
                    let object = ids[Int.random(in: 0..<count, using: &random)]
                    _ = try engine.commit(durability: .relaxed) {
                        try $0.update(object, [(EngineNote.rank, .int(Int64(round + count)))])
                    }
                }
            }
        ]
        for reader in 0..<2 {
            bodies.append {
                var random = SeededRandom(UInt64(reader + 2))
                while !isDone.load(ordering: .relaxed) {
                    let object = ids[Int.random(in: 0..<count, using: &random)]
                    guard try engine.view().withRow(object, { (_) throws(StoreError) in }) else {
                        throw StoreError(.damaged, "an object is gone")
                    }
                }
            }
        }
        try onThreads(bodies)
        var ranks: [Int64] = []
        try engine.view().range(EngineNote.rankIndex) { (_, row) throws(StoreError) in
            ranks.append(row.int(at: EngineNote.rank) ?? -1)
            return true
        }
        #expect(ranks.count == count && ranks == ranks.sorted())
        try engine.close()
        #expect(try Checker.check(path, files: RealFileSystem()).findings.map(\.sentence) == [])
    }

    // MARK: Sums

    @Test(arguments: [(true, FileReading.mapped), (true, .copied), (false, .mapped)])
    func everyViewOfTransfersHasTheSameSum(_ isLowered: Bool, _ reading: FileReading) throws {
        let engine = try create(Self.options(isLowered: isLowered, reading))
        let ids = try engine.commit { transaction in
            try (0..<Self.accounts).map {
                try transaction.insert(entity: EngineNote.entity, EngineNote.row("account \($0)", 1000))
            }
        }.result
        let first = try engine.view().number
        let isDone = Atomic<Bool>(false)
        let writersLeft = Atomic<Int>(2)
        let views = Atomic<Int>(0)
        var bodies: [@Sendable () throws -> Void] = (0..<2).map { writer in
            {
                defer {
                    if writersLeft.subtract(1, ordering: .relaxed).newValue == 0 {
                        isDone.store(true, ordering: .relaxed)
                    }
                }
                try Self.transfer(engine, ids, writer)
            }
        }
        for reader in 0..<3 {
            bodies.append { try Self.read(engine, ids, reader, first, isDone, views) }
        }
        try onThreads(bodies)
        #expect(views.load(ordering: .relaxed) > 10)
        try engine.close()
        try requireIntact(path)
    }

    private static func transfer(_ engine: Engine, _ ids: [ObjectID], _ writer: Int) throws {
        var random = SeededRandom(UInt64(writer + 1))
        for round in 0..<700 {
            let from = ids[Int.random(in: 0..<ids.count, using: &random)]
            let to = ids[Int.random(in: 0..<ids.count, using: &random)]
            guard from != to else { continue }
            let amount = Int64.random(in: 1...50, using: &random)
            let body: (Draft) throws -> Void = { transaction in
                for (id, change) in [(from, -amount), (to, amount)] {
                    var rank: Int64 = 0
                    _ = try transaction.withRow(id) { (row) in rank = row.int(at: EngineNote.rank) ?? 0 }
                    try transaction.update(id, [(EngineNote.rank, .int(rank + change))])
                }
            }
            let durability: Durability = round % 50 == 0 ? .full : .relaxed
            if round % 3 == 0 {
                _ = try engine.write(author: "thread", durability: durability, body)
            } else {
                _ = try engine.commit(author: "thread", durability: durability, body)
            }
            if round % 40 == 39 { try engine.writeCheckpoint() }
        }
    }

    private static func read(
        _ engine: Engine, _ ids: [ObjectID], _ reader: Int, _ first: UInt64, _ isDone: borrowing Atomic<Bool>,
        _ views: borrowing Atomic<Int>
    ) throws {
        var random = SeededRandom(UInt64(reader + 100))
        var held: [View] = []
        var last: UInt64 = 0
        while !isDone.load(ordering: .relaxed) {
            let view = try engine.view()
            guard view.number >= last else { throw CrashFailure(description: "a newer view is older") }
            last = view.number
            try check(view, ids)
            if Int.random(in: 0..<8, using: &random) == 0 { held.append(view) }
            if let old = held.randomElement(using: &random) { try check(old, ids) }
            if held.count > 10 { held.removeFirst() }
            try check(engine.view(asOf: UInt64.random(in: first...view.number, using: &random)), ids)
            try requireHistory(engine, view, after: UInt64.random(in: first...view.number, using: &random))
            views.add(1, ordering: .relaxed)
        }
        for view in held { try check(view, ids) }
    }

    private static func check(_ view: View, _ ids: [ObjectID]) throws {
        var sums = [Int64](repeating: 0, count: 3)
        try view.scan(entity: EngineNote.entity) { (_, row) in
            sums[0] += row.int(at: EngineNote.rank) ?? 0
            return true
        }
        for id in ids { _ = try view.withRow(id) { (row) in sums[1] += row.int(at: EngineNote.rank) ?? 0 } }
        var previous = Int64.min
        var isSorted = true
        try view.range(EngineNote.rankIndex) { (_, row) in
            let rank = row.int(at: EngineNote.rank) ?? 0
            isSorted = isSorted && rank >= previous
            previous = rank
            sums[2] += rank
            return true
        }
        guard sums == [total, total, total], isSorted else {
            throw CrashFailure(description: "a view of \(view.number) has the sums \(sums), sorted: \(isSorted)")
        }
    }

    private static func requireHistory(_ engine: Engine, _ view: View, after number: UInt64) throws {
        var next = number + 1
        var sum: Int64 = 0
        try engine.tracked(view).forEachTransaction(after: number) { (transaction) throws(StoreError) in
            guard transaction.number == next else { throw StoreError(.damaged, "a gap in history") }
            next += 1
            try transaction.forEachChange { (change) throws(StoreError) in
                _ = try view.withRow(after: change) { (row) in sum += row.int(at: EngineNote.rank) ?? 0 }
                _ = try view.withRow(before: change) { (row) in sum -= row.int(at: EngineNote.rank) ?? 0 }
                return true
            }
            return next <= number + 40
        }
        guard sum == 0 else { throw CrashFailure(description: "history after \(number) does not add up") }
    }

    // MARK: Counters

    @Test(arguments: [1, 2]) func noIncrementIsLost(_ handles: Int) throws {
        let options = Self.options(isLowered: true, .mapped)
        let engine = try create(options)
        let id = try engine.commit {
            try $0.insert(entity: EngineNote.entity, EngineNote.row("counter", 0))
        }.result
        var engines = [engine]
        if handles == 2 {
            engines.append(
                try Engine.open(path, options: options, files: RealFileSystem(), environment: RealEnvironment()))
        }
        let all = engines
        let increments = 250
        try onThreads(
            (0..<4).map { thread in
                {
                    for _ in 0..<increments {
                        _ = try all[thread % all.count].commit(durability: .relaxed) { transaction in
                            var rank: Int64 = 0
                            _ = try transaction.withRow(id) { (row) in rank = row.int(at: EngineNote.rank) ?? 0 }
                            try transaction.update(id, [(EngineNote.rank, .int(rank + 1))])
                        }
                    }
                }
            })
        for engine in all { #expect(try engine.view().rank(id) == Int64(4 * increments)) }
        for engine in all { try engine.close() }
        try requireIntact(path)
    }

    // MARK: Inserting and closing

    @Test func noInsertOfSeveralThreadsIsLost() throws {
        let engine = try create(Self.options(isLowered: true, .mapped))
        try onThreads(
            (0..<4).map { thread in
                {
                    for round in 0..<60 {
                        _ = try engine.commit(durability: .relaxed) { transaction in
                            for number in 0..<7 {
                                _ = try transaction.insert(
                                    entity: EngineNote.entity, EngineNote.row("\(thread)/\(round)/\(number)", 1))
                            }
                        }
                    }
                }
            })
        let titles = try engine.view().titles()
        #expect(Set(titles).count == 4 * 60 * 7 && titles.count == 4 * 60 * 7)
        #expect(try engine.view().byRank().count == titles.count)
        try engine.close()
        try requireIntact(path)
    }

    @Test(arguments: 1...8) func closingWaitsForReadsAndRefusesLaterOnes(_ round: Int) throws {
        let engine = try create(Self.options(isLowered: true, round % 2 == 0 ? .mapped : .copied))
        _ = try engine.insertNotes(1...300)
        let reads = Atomic<Int>(0)
        let open = Atomic<Int>(0)
        var bodies: [@Sendable () throws -> Void] = (0..<3).map { _ in
            {
                do {
                    while true {
                        let view = try engine.view()
                        guard try view.titles().count >= 300, try view.byRank().count >= 300 else {
                            throw CrashFailure(description: "a view lacks rows")
                        }
                        if reads.add(1, ordering: .relaxed).oldValue == 0 { open.add(1, ordering: .relaxed) }
                    }
                } catch let error as StoreError where error.code == .closed {}
            }
        }
        bodies.append {
            do {
                for number in 1000... {
                    _ = try engine.commit(durability: .relaxed) {
                        try $0.insert(entity: EngineNote.entity, EngineNote.row("late \(number)", 1))
                    }
                }
            } catch let error as StoreError where error.code == .closed {}
        }
        bodies.append {
            while reads.load(ordering: .relaxed) < 3 * round { SystemThread.pause() }
            try engine.close()
            try engine.close()
        }
        try onThreads(bodies)
        #expect(throws: StoreError.self) { try engine.view() }
        try requireIntact(path)
    }
}

/// Gives the processor to others.
private enum SystemThread {
    static func pause() { RealEnvironment().sleep(microseconds: 50) }
}
