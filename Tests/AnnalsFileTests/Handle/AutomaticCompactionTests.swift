// A handle compacts its store by itself, and says so if it cannot.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct AutomaticCompactionTests {
    private func machine() -> EngineMachine {
        var machine = EngineMachine()
        machine.options = Self.eager(machine.options)
        return machine
    }

    private static func eager(_ options: EngineOptions) -> EngineOptions {
        var options = options
        options.appliesRetention = true
        options.retentionCheckMicroseconds = 1_000_000
        options.retentionCheckBytes = 4096
        options.log.synchronizesInBackground = false
        return options
    }

    private var trigger: AutomaticCompaction {
        var trigger = AutomaticCompaction()
        trigger.minimumBytes = 64 << 10
        return trigger
    }

    @Test func aStoreIsCompactedAutomaticallyWhenHalfOfItIsGarbage() throws {
        let machine = machine()
        let store = StoreHandle(try machine.create(), trigger: trigger)
        let ids = try store.current.insertNotes(1...200)
        func update(_ round: Int) throws {
            _ = try store.commit { pending in
                for id in ids { try pending.update(id, [(EngineNote.rank, .int(Int64(round)))]) }
            }
        }
        for round in 1000..<1050 { try update(round) }
        // Nothing was cleaned: nothing would be freed.
        machine.machine.environment.advance(byMicroseconds: 20_000_000)
        try update(2000)
        store.maintain()
        #expect(store.current.log.header.generation == 0)
        try store.current.deleteHistory(before: store.newest().view.number + 1)
        machine.machine.environment.advance(byMicroseconds: 2_000_000)
        try update(2001)
        store.maintain()
        #expect(store.current.log.header.generation == 1)
        let size = store.current.log.current.end
        #expect(size < 64 << 10, "\(size)")
        // Not again and again.
        for round in 3000..<3010 {
            machine.machine.environment.advance(byMicroseconds: 2_000_000)
            try update(round)
            store.maintain()
        }
        #expect(store.current.log.header.generation == 1)
        try store.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact, "\(report.findings)")
    }

    /// Many small objects stay, and a large one changes often: the mean size of all changes is none of the rows that
    /// exist. So they are measured, once for each doubling of the file. Retention by size counts on it, too.
    @Test(arguments: [1000, 20_000], [false, true]) func theRowsThatExistAreMeasured(bytes: Int, byRetention: Bool)
        throws
    {
        let machine = machine()
        let store = StoreHandle(try machine.create(), trigger: trigger)
        let ids = try store.current.insertNotes(1...5000)
        let live = store.current.log.current.end
        if byRetention {
            try store.current.setRetention(RetentionLimits(microseconds: .max, bytes: 1 << 20))
        }
        machine.machine.environment.advance(byMicroseconds: 20_000_000)
        var sizes: [UInt64] = []
        for round in 0..<(12_000_000 / bytes) {
            // Of the large ones, the values are in frames of their own.
            let body = StoredValue.data([UInt8](repeating: UInt8(round & 255), count: bytes))
            _ = try store.commit { try $0.update(ids[0], [(EngineNote.body, body)]) }
            if round % 20 == 0 {
                if !byRetention { try store.current.deleteHistory(before: store.newest().view.number + 1) }
                machine.machine.environment.advance(byMicroseconds: 2_000_000)
            }
            store.maintain()
            sizes.append(store.current.log.current.end)
        }
        #expect(store.current.log.header.generation > 0)
        let most = try #require(sizes.max())
        #expect(most < live * (byRetention ? 8 : 6), "\(most) of \(live)")
        try store.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact, "\(report.findings)")
    }

    /// Insertions alone make no garbage, whatever the sizes: nothing is rewritten.
    @Test func aStoreThatOnlyGrowsIsNotCompacted() throws {
        let machine = machine()
        let store = StoreHandle(try machine.create(), trigger: trigger)
        for round in 0..<400 {
            _ = try store.commit { pending in
                let body = [UInt8](repeating: 7, count: round % 20 == 0 ? 40_000 : 100)
                let title = StoredValue.string("note \(round)")
                _ = try pending.insert(entity: EngineNote.entity, [title, .absent, .data(body)])
            }
            try store.current.deleteHistory(before: store.newest().view.number + 1)
            machine.machine.environment.advance(byMicroseconds: 2_000_000)
            store.maintain()
        }
        #expect(store.current.log.header.generation == 0 && store.current.log.current.end > 800_000)
        try store.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact, "\(report.findings)")
    }

    /// It is told once, and kept until a compaction succeeds.
    @Test func aFailureIsReportedOnce() throws {
        let machine = machine()
        let told = Guarded<[StoreError]>([])
        let store = StoreHandle(try machine.create(), trigger: trigger) { error in told.withLock { $0.append(error) } }
        let ids = try store.current.insertNotes(1...200)
        let leftoverName = store.current.log.name + ".compacting"
        machine.machine.disk.install(
            Array("somebody else's file".utf8), at: store.current.log.directoryPath + "/" + leftoverName)
        for round in 1000..<1300 {
            machine.machine.environment.advance(byMicroseconds: 2_000_000)
            _ = try store.commit { pending in
                for id in ids { try pending.update(id, [(EngineNote.rank, .int(Int64(round)))]) }
            }
            if round % 20 == 0 { try store.current.deleteHistory(before: store.newest().view.number + 1) }
            store.maintain()
            if round < 1250 { continue }
            if round == 1250 {
                #expect(told.withLock { $0.map(\.code) } == [.alreadyExists])
                #expect(store.compactionFailure.withLock { $0?.code } == .alreadyExists)
                #expect(store.current.log.header.generation == 0)
                let files = machine.machine.files()
                let directory = try files.openDirectory(store.current.log.directoryPath)
                try files.unlink(leftoverName, in: directory)
                files.close(directory)
            }
        }
        #expect(store.current.log.header.generation > 0)
        #expect(store.compactionFailure.withLock { $0 } == nil && told.withLock { $0.count } == 1)
        try store.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact, "\(report.findings)")
    }

    @Test(arguments: OddNames.all) func aStoreOfAnOddNameIsCompactedAutomatically(_ name: String) throws {
        let folder = try TemporaryDirectory()
        var trigger = trigger
        trigger.openMicroseconds = 0
        let engine = try Engine.create(
            folder.path(name), options: Self.eager(EngineOptions()), files: RealFileSystem(),
            environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        let store = StoreHandle(engine, trigger: trigger)
        let ids = try store.current.insertNotes(1...200)
        for round in 0..<200 where store.current.log.header.generation < 2 {
            _ = try store.commit { pending in
                for id in ids { try pending.update(id, [(EngineNote.rank, .int(Int64(round)))]) }
            }
            try store.current.deleteHistory(before: store.newest().view.number + 1)
            store.maintain()
        }
        #expect(store.current.log.header.generation == 2 && store.compactionFailure.withLock { $0 } == nil)
        try store.close()
        #expect(folder.names == [name])
        let report = try Checker.check(folder.path(name), files: RealFileSystem())
        #expect(report.isIntact, "\(report.findings)")
    }

    /// Compacting failed as `busy`, although no other handle compacted.
    @Test func aCallerTakesOverFromAnAutomaticCompaction() async throws {
        let folder = try TemporaryDirectory()
        var trigger = trigger
        trigger.openMicroseconds = 0
        let pause = PauseOfCompaction()
        let engine = try Engine.create(
            folder.path("s"), options: Self.eager(EngineOptions()), files: RealFileSystem(), environment: pause)
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        let store = StoreHandle(engine, trigger: trigger)
        let maintenance = try Self.maintenance(of: store)
        try await eventually { pause.isReached }
        let caller = Guarded<Result<CompactionResult, StoreError>?>(nil)
        let compaction = try BackgroundThread(name: "caller") {
            let result = Result { () throws(StoreError) in try store.compact() }
            caller.withLock { $0 = result }
        }
        // By then the caller waits, or was refused.
        pause.end(afterMicroseconds: 100_000)
        compaction.join()
        maintenance.join()
        _ = try #require(caller.withLock { $0 }).get()
        // 2 if the caller's thread began so late that the automatic compaction was complete.
        #expect((1...2).contains(store.current.log.header.generation))
        #expect(store.compactionFailure.withLock { $0 } == nil)
        try store.close()
        let report = try Checker.check(folder.path("s"), files: RealFileSystem())
        #expect(report.isIntact && folder.names == ["s"], "\(report.findings)")
    }

    /// Commits until compaction is due, and compacts.
    private static func maintenance(of store: StoreHandle) throws -> BackgroundThread {
        let ids = try store.current.insertNotes(1...200)
        return try BackgroundThread(name: "maintenance") {
            for round in 0..<1000 where store.current.log.header.generation == 0 {
                _ = try? store.commit { pending in
                    for id in ids { try pending.update(id, [(EngineNote.rank, .int(Int64(round)))]) }
                }
                _ = try? store.current.deleteHistory(before: store.newest().view.number + 1)
                store.maintain()
            }
        }
    }

    /// A caller that writes is refused before it waits for the automatic compaction, which may wait for its lock.
    @Test func aWriterThatCompactsIsRefused() async throws {
        let folder = try TemporaryDirectory()
        var trigger = trigger
        trigger.openMicroseconds = 0
        var options = Self.eager(EngineOptions())
        options.log.lockTimeoutMicroseconds = 2_000_000
        let engine = try Engine.create(
            folder.path("s"), options: options, files: RealFileSystem(), environment: RealEnvironment())
        _ = try engine.commit { try $0.changeSchema([EngineNote.definition]) }
        let state = Guarded<(isReached: Bool, isOver: Bool, failure: StoreError?)>((false, false, nil))
        let store = StoreHandle(
            engine, trigger: trigger,
            prepareCompaction: { store, goesOn in
                state.withLock { $0.isReached = true }
                while goesOn(), !state.withLock({ $0.isOver }) { RealEnvironment().sleep(microseconds: 1000) }
                do throws(StoreError) {
                    try store.current.setRetention(RetentionLimits(microseconds: .max, bytes: 1 << 40))
                } catch { state.withLock { $0.failure = error } }
            })
        let maintenance = try Self.maintenance(of: store)
        try await eventually { state.withLock { $0.isReached } }
        let code = try store.write { _ in
            let error = #expect(throws: StoreError.self) { try store.compact() }
            return error?.code
        }.result
        state.withLock { $0.isOver = true }
        maintenance.join()
        #expect(code == .invalidArgument && state.withLock { $0.failure } == nil)
        #expect(store.current.log.header.generation == 1)
        try store.close()
        let report = try Checker.check(folder.path("s"), files: RealFileSystem())
        #expect(report.isIntact && folder.names == ["s"], "\(report.findings)")
    }
}

/// Holds an automatic compaction in its first pause.
private final class PauseOfCompaction: Environment {
    private let real = RealEnvironment()
    private let state = Guarded<(isReached: Bool, isOver: Bool)>((false, false))

    var isReached: Bool { state.withLock { $0.isReached } }

    func end(afterMicroseconds time: UInt64) {
        real.sleep(microseconds: time)
        state.withLock { $0.isOver = true }
    }

    func sleep(microseconds: UInt64) {
        state.withLock { $0.isReached = true }
        while !state.withLock({ $0.isOver }) { real.sleep(microseconds: 1000) }
    }

    func wallClockMicroseconds() -> Int64 { real.wallClockMicroseconds() }
    func monotonicMicroseconds() -> UInt64 { real.monotonicMicroseconds() }
    func coarseSeconds() -> Int64 { real.coarseSeconds() }
    func random() -> UInt64 { real.random() }
    func processID() -> UInt32 { real.processID() }
    func processName() -> String { real.processName() }
}
