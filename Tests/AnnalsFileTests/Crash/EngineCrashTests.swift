// Every power cut, at every step of workloads that write index nodes, checkpoints and hints; and an error of every call
// of one of them.

import Annals
import FoundationEssentials
import SimulatedDisk
import TestSupport
import Testing

@Suite struct EngineCrashTests {
    /// How many bytes of nodes ask for a checkpoint: with 8 KiB every transaction does, with 24 KiB those of some size.
    private static let dirtyNodeBytes = [("often", 8 << 10), ("seldom", 24 << 10)]

    static func options(dirtyNodeBytes: Int) -> EngineOptions {
        var options = EngineOptions.lowered
        options.log.limits.mappingReserveBytes = 1 << 20
        options.dirtyNodeBytes = dirtyNodeBytes
        options.checkpointTailBytes = 4 << 10
        options.closingTailBytes = 1 << 10
        options.keySortBytes = 12 << 10
        options.indexSliceBytes = 4096
        options.checkpointPartBytes = 4096
        return options
    }

    @Test func everyCrashImageOfTheEngineRecovers() async throws {
        let chosen = ProcessInfo.processInfo.environment["ANNALS_CRASH"]?.split(separator: ":").map(String.init)
        var distinct = 0
        var repeated = 0
        try await withThrowingTaskGroup(of: (Int, Int, CrashFailure?).self) { group in
            for (often, dirtyNodeBytes) in Self.dirtyNodeBytes {
                for (index, workload) in EngineCrashWorkloads.all.enumerated() {
                    let name = "\(workload.name)/\(often)"
                    if let chosen, chosen.first != name { continue }
                    let options = Self.options(dirtyNodeBytes: dirtyNodeBytes)
                    group.addTask {
                        try await LongTests.run(besideOthers: !CrashTests.looksAtMore) {
                            Self.run(name, workload.run, options, seed: UInt64(index + 1), chosen)
                        }
                    }
                }
            }
            for try await (images, repetitions, failure) in group {
                if ProcessInfo.processInfo.environment["ANNALS_CRASH_COUNTS"] != nil { print(images, repetitions) }
                distinct += images
                repeated += repetitions
                if let failure { Issue.record(failure) }
            }
        }
        print("\(distinct) distinct crash images of the engine (and \(repeated) repetitions)")
        if chosen == nil { #expect(distinct >= 20_000) }
    }

    private static func run(
        _ name: String, _ workload: @Sendable (EngineCrashRun) throws -> Void, _ engineOptions: EngineOptions,
        seed: UInt64,
        _ chosen: [String]?
    ) -> (Int, Int, CrashFailure?) {
        var options = CrashOptions(seed: seed)
        let isLarge = EngineCrashWorkloads.large.contains { name.hasPrefix("\($0)/") }
        let looksAtMore = CrashTests.looksAtMore
        options.exhaustiveBits = isLarge ? 2 : looksAtMore ? 5 : 3
        options.maximumSizes = 2
        options.randomChoices = !looksAtMore ? 1 : isLarge ? 2 : 4
        options.maximumOfEachList = looksAtMore && !isLarge ? 3 : 1
        var replay: (Int, Int)?
        if let chosen, chosen.count == 3, let point = Int(chosen[1]), let image = Int(chosen[2]) {
            replay = (point, image)
        }
        let run = EngineCrashRun(
            name: name, options: engineOptions, seed: seed, imageOptions: options, replay: replay)
        var failure: CrashFailure?
        do {
            try workload(run)
            run.lookOnceMore()
        } catch {
            failure = CrashFailure(description: "\(name): the workload itself failed: \(error)")
        }
        return (run.tally.images.count, run.repeated, run.failure ?? failure)
    }
}

enum EngineCrashWorkloads {
    /// With so many rows that an image takes longer: of each moment fewer are looked at.
    static let large = [
        "engineIndexBuilt", "engineKilledInIndexBuild", "engineNoSpaceInIndexBuild", "engineCompacted",
        "engineKilledInCompaction", "engineFolded", "engineDeltas",
    ]

    static let all: [(name: String, run: @Sendable (EngineCrashRun) throws -> Void)] = [
        ("engineCheckpoints", checkpoints),
        ("engineDueCheckpoints", dueCheckpoints),
        ("engineInherited", inherited),
        ("engineKilledInCheckpoint", killedInCheckpoint),
        ("engineNoSpaceInCheckpoint", noSpaceInCheckpoint),
        ("engineSyncFails", syncFails),
        ("engineTwoProcesses", twoProcesses),
        ("engineReopened", reopened),
        ("engineLong", long),
        ("engineIndexBuilt", indexBuilt),
        ("engineKilledInIndexBuild", killedInIndexBuild),
        ("engineNoSpaceInIndexBuild", noSpaceInIndexBuild),
        ("engineCompacted", compacted),
        ("engineKilledInCompaction", killedInCompaction),
        ("engineFolded", folded),
        ("engineDeltas", deltas),
    ]

    /// Leaves of the row index get deltas, one over the other, and are whole again. A process dies while it writes such
    /// a checkpoint.
    private static func deltas(_ run: EngineCrashRun) throws {
        // Two leaves, which other workloads write just so.
        let engine = try run.withoutLooking {
            let engine = try run.create()
            try run.define(engine, EngineNote.withoutIndexes)
            try run.change(engine, 560, 0, 0, .full)
            try engine.writeCheckpoint()
            return engine
        }
        for (round, updates) in [5, 1, 6, 2, 1].enumerated() {
            try run.change(engine, 1, updates, 1, round % 2 == 0 ? .full : .relaxed)
            try engine.writeCheckpoint()
            let chains = try CheckpointedStore(run.machine.disk).deltaChains()
            guard round != 1 || chains.contains(where: { $0.count > 1 }) else {
                throw CrashFailure(description: "the deltas over the leaves are \(chains)")
            }
        }
        try run.change(engine, 0, 2, 0, .full)
        run.everythingIsDurable()
        // A checkpoint frame alone has more bytes.
        run.machine.disk.addFault(Fault(.death(afterBytes: 300), on: .write, occurrence: 1, process: 1))
        try CrashWorkloads.expectDeath { try engine.writeCheckpoint() }
        run.machine.disk.removeAllFaults()
        let next = try run.open(2)
        try run.change(next, 1, 3, 1, .full)
        run.everythingIsDurable()
        try next.close()
    }

    /// With some of the history cleaned; another process goes on in the new file.
    private static func compacted(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        try run.change(engine, 12, 0, 0, .full)
        try run.change(engine, 2, 4, 2, .relaxed)
        _ = try engine.deleteHistory(before: 3)
        let store = StoreHandle(engine)
        _ = try store.compact(.lowered)
        run.everythingIsDurable()
        try run.change(store.current, 1, 1, 1, .relaxed)
        let other = try run.open(2)
        try run.change(other, 2, 1, 1, .full)
        try store.close()
        try other.close()
        run.everythingIsDurable()
    }

    /// Of an entity without history, whose rows stand after a transaction; the second time the process dies in the
    /// rename, and another one does it.
    private static func folded(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        var definition = EngineNote.definition
        definition.keepsNoHistory = true
        try run.define(engine, definition)
        try run.change(engine, 5, 0, 0, .full)
        try run.change(engine, 0, 2, 1, .relaxed)
        let store = StoreHandle(engine)
        _ = try store.compact(.lowered)
        run.everythingIsDurable()
        try run.change(store.current, 0, 2, 0, .full)
        try store.close()
        let dying = StoreHandle(try run.open(2))
        run.machine.disk.addFault(Fault(.death(afterBytes: 0), on: .rename, occurrence: 1, process: 2))
        _ = try? dying.compact(.lowered)
        run.machine.disk.removeAllFaults()
        run.machine.disk.kill(2)
        let other = StoreHandle(try run.open(3))
        _ = try other.compact(.lowered)
        run.everythingIsDurable()
        try run.change(other.current, 1, 1, 1, .full)
        try other.close()
        run.everythingIsDurable()
    }

    /// At the rename, and at the sync of the directory after it.
    private static func killedInCompaction(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        try run.change(engine, 9, 0, 0, .full)
        try engine.writeCheckpoint()
        var process: UInt32 = 2
        for kind in [CallKind.rename, .synchronizeDirectory] {
            let store = StoreHandle(try run.open(process))
            run.machine.disk.addFault(Fault(.death(afterBytes: 0), on: kind, occurrence: 1, process: process))
            _ = try? store.compact(.lowered)
            run.machine.disk.removeAllFaults()
            run.machine.disk.kill(process)
            let next = try run.open(process + 1)
            try run.change(next, 2, 1, 1, .full)
            try next.close()
            run.everythingIsDurable()
            process += 2
        }
    }

    /// Asked for, each followed by more; the next open reads from the last one.
    private static func checkpoints(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        for round in 0..<3 {
            try run.change(engine, 8, 1, 1, .full)
            if round > 0 { try engine.writeCheckpoint() }
            try run.change(engine, 2, 3, 1, round == 1 ? .relaxed : .full)
        }
        try engine.close()
        run.everythingIsDurable()
    }

    private static func dueCheckpoints(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        for round in 0..<5 {
            try run.change(engine, 12, 2, 1, .relaxed)
            if round % 3 == 2 {
                try engine.makeDurable(through: engine.view().end)
                run.everythingIsDurable()
            }
        }
        try run.change(engine, 1, 1, 1, .full)
    }

    /// A process dies with an unproven checkpoint; the next one commits durably on top of it.
    private static func inherited(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        try run.change(engine, 20, 0, 0, .relaxed)
        try engine.writeCheckpoint()
        try run.change(engine, 2, 1, 1, .relaxed)
        run.machine.disk.kill(1)
        let next = try run.open(2)
        try run.change(next, 2, 2, 2, .full)
        run.everythingIsDurable()
        try next.writeCheckpoint()
        try run.change(next, 1, 1, 1, .full)
        try next.close()
    }

    private static func killedInCheckpoint(_ run: EngineCrashRun) throws {
        for (process, bytes) in [(UInt32(1), 0), (2, 64), (3, 4096), (4, 9000)] {
            let engine = process == 1 ? try run.create() : try run.open(process)
            if process == 1 { try run.define(engine) }
            try run.change(engine, 4, 2, 1, .full)
            run.everythingIsDurable()
            // The second write is the checkpoint's first: the commit's own, if that one is due.
            run.machine.disk.addFault(Fault(.death(afterBytes: bytes), on: .write, occurrence: 2, process: process))
            try CrashWorkloads.expectDeath {
                try run.change(engine, 1, 1, 1, .relaxed)
                try engine.writeCheckpoint()
            }
            run.machine.disk.removeAllFaults()
        }
        let last = try run.open(9)
        try run.change(last, 1, 1, 1, .full)
        run.everythingIsDurable()
        try last.close()
    }

    /// The disk is full while a checkpoint is written: the commit before it stands.
    private static func noSpaceInCheckpoint(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        try run.change(engine, 10, 0, 0, .full)
        var swallowed = 0
        for round in 0..<8 {
            let before = run.machine.disk.callCount(of: .write)
            // The second write of a commit is its checkpoint's first.
            run.machine.disk.addFault(Fault(.failure(28), on: .write, occurrence: 2 + round % 2))
            try run.change(engine, 9, 1, 1, .full)
            if run.machine.disk.callCount(of: .write) > before + 1 { swallowed += 1 }
            run.machine.disk.removeAllFaults()
        }
        guard swallowed > 2 || run.options.dirtyNodeBytes > 8 << 10 else {
            throw CrashFailure(description: "only \(swallowed) checkpoints met a full disk")
        }
        try run.change(engine, 1, 1, 1, .full)
        try engine.close()
    }

    private static func syncFails(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        try run.change(engine, 15, 0, 0, .relaxed)
        try engine.writeCheckpoint()
        run.machine.disk.addFault(Fault(.synchronize(.cleanAndLost), on: .synchronize))
        try expectUnknown { try run.change(engine, 1, 1, 1, .full) }
        run.machine.disk.removeAllFaults()
        let states = run.expectation.states
        try expectUnknown { try run.change(engine, 1, 0, 0, .full) }
        try expectUnknown { try engine.writeCheckpoint() }
        // It was refused before anything was written; reading goes on.
        run.expectation.states = states
        try engine.view().expect(states[states.count - 1])
        run.machine.disk.kill(1)
        let next = try run.open(2)
        try run.change(next, 2, 1, 1, .full)
        run.everythingIsDurable()
        try next.close()
    }

    private static func expectUnknown(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as StoreError where error.code == .durabilityUnknown { return }
        throw CrashFailure(description: "a commit whose sync failed was acknowledged")
    }

    /// In turn, each adopting the other's checkpoints.
    private static func twoProcesses(_ run: EngineCrashRun) throws {
        let first = try run.create()
        try run.define(first)
        let second = try run.open(2)
        try run.change(second, 9, 0, 0, .relaxed)
        try run.change(first, 2, 2, 1, .full)
        run.everythingIsDurable()
        try second.writeCheckpoint()
        try run.change(first, 2, 1, 1, .relaxed)
        try first.writeCheckpoint()
        try run.change(second, 1, 2, 1, .full)
        run.everythingIsDurable()
        try first.close()
        try run.change(second, 1, 0, 0, .full)
        try second.close()
    }

    private static func reopened(_ run: EngineCrashRun) throws {
        for process in UInt32(1)...3 {
            let engine = process == 1 ? try run.create() : try run.open(process)
            if process == 1 { try run.define(engine) }
            try run.change(engine, 10, 2, 1, .relaxed)
            try run.change(engine, 1, 1, 1, .relaxed)
            try engine.close()
            run.everythingIsDurable()
        }
        let last = try run.open(4)
        try run.change(last, 1, 1, 1, .full)
    }

    /// Transactions of several frames, and values in frames of their own.
    private static func long(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try run.define(engine)
        try run.change(engine, 60, bodyBytes: 90, .relaxed)
        try run.change(engine, 3, 20, 10, bodyBytes: 700, .full)
        run.everythingIsDurable()
        try run.change(engine, 1, 40, 1, .full)
        try engine.close()
    }

    /// Objects first, an index of several nodes later, so that it is written in several slices.
    private static func withObjects(_ run: EngineCrashRun, _ engine: Engine) throws {
        try run.define(engine, EngineNote.withoutRankIndex)
        try run.change(engine, 172, 0, 0, .relaxed)
        try run.change(engine, 1, 5, 3, .full)
        run.everythingIsDurable()
    }

    private static func hasIndex(_ engine: Engine) throws -> Bool {
        try engine.view().indexes(entity: EngineNote.entity).contains(EngineNote.rankIndex)
    }

    private static func indexBuilt(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try withObjects(run, engine)
        let other = try run.open(2)
        try run.define(engine)
        run.everythingIsDurable()
        try run.change(other, 2, 2, 1, .relaxed)
        try run.change(engine, 2, 2, 1, .full)
        try other.close()
        try engine.close()
    }

    /// While keys are sorted, in a slice, in the transaction, and in the checkpoint after it.
    private static func killedInIndexBuild(_ run: EngineCrashRun) throws {
        var deaths = 0
        for process in UInt32(1)...20 {
            let engine = process == 1 ? try run.create() : try run.open(process)
            if process == 1 { try withObjects(run, engine) }
            if try hasIndex(engine) { break }
            if process > 1 { try run.change(engine, 1, 0, 0, .full) }
            run.machine.disk.addFault(
                Fault(.death(afterBytes: 700), on: .write, occurrence: Int(process) * 3, process: process))
            try CrashWorkloads.expectDeath { try run.define(engine, EngineNote.definition, .relaxed) }
            run.machine.disk.removeAllFaults()
            deaths += 1
        }
        guard deaths > 2 else { throw CrashFailure(description: "only \(deaths) builds were cut off") }
        let last = try run.open(99)
        try run.change(last, 1, 1, 1, .full)
        run.everythingIsDurable()
        try last.close()
    }

    /// The disk is full in turn when keys are sorted, when nodes are written, and when the transaction is; at last the
    /// checkpoint is missing.
    private static func noSpaceInIndexBuild(_ run: EngineCrashRun) throws {
        let engine = try run.create()
        try withObjects(run, engine)
        var refusals = 0
        for occurrence in stride(from: 1, to: 20, by: 3) {
            run.machine.disk.addFault(Fault(.failure(28), on: .write, occurrence: occurrence))
            do {
                try run.define(engine)
            } catch let error as StoreError where error.code == .noSpace { refusals += 1 }
            run.machine.disk.removeAllFaults()
            if try hasIndex(engine) { break }
            try run.change(engine, 1, 1, 1, .full)
        }
        guard refusals > 1, try hasIndex(engine) else {
            throw CrashFailure(description: "\(refusals) builds met a full disk")
        }
        try run.change(engine, 1, 1, 1, .full)
        try engine.close()
    }
}
