// An error of every call that the engine makes, once and for ever: what was acknowledged is there, the indexes are
// those of the rows.

import Annals
import SimulatedDisk
import Testing

@Suite struct EngineFaultTests {
    @Test func theEngineSurvivesAnErrorAtEveryCall() async throws {
        // EIO, ENOSPC, EINTR, ENOMEM.
        let sweep = FaultSweep(errors: [5, 28, 4, 12], cutWrites: [8, 5000], run: Self.run)
        let count = try await sweep.everyFault()
        print("\(count) injected errors in the engine, checkpoints \(try Self.checkpointCount()) a run")
    }

    private static func makeRun() -> EngineCrashRun {
        var options = EngineCrashTests.options(dirtyNodeBytes: 8 << 10)
        options.keySortBytes = 600
        let run = EngineCrashRun(name: "engineFaults", options: options, seed: 5, imageOptions: CrashOptions())
        run.machine.disk.setOnChange(nil)
        return run
    }

    /// So the workload writes some.
    private static func checkpointCount() throws -> UInt64 {
        let run = makeRun()
        try work(run, nil)
        return try check(run.machine.disk).counts.bytes(of: .checkpoint) / 500
    }

    /// Runs the workload under a fault. Returns how many calls of each kind were made.
    private static func run(_ fault: Fault?) throws -> [CallKind: Int] {
        let run = makeRun()
        if let fault { run.machine.disk.addFault(fault) }
        try work(run, fault)
        let calls = run.machine.disk.callsUntilFaultsEnd()
        try survives(run)
        return calls
    }

    private static func work(_ run: EngineCrashRun, _ fault: Fault?) throws {
        guard let engine = try Fault.tolerating(fault, { try run.create() }) else { return }
        let steps: [(Engine) throws -> Void] = [
            { try run.define($0, EngineNote.withoutIndexes) },
            { try run.change($0, 12, 0, 0, .relaxed) },
            { try run.define($0) },
            { try run.change($0, 5, 3, 1, .full) },
            { try run.change($0, 30, 5, 2, bodyBytes: 300, .relaxed) },
            { try $0.writeCheckpoint() },
            { try run.change($0, 2, 3, 1, bodyBytes: 1200, .full) },
            { try run.change($0, 9, 3, 1, .relaxed) },
        ]
        guard try take(steps, engine, run, fault) else { return }
        guard try Fault.tolerating(fault, { try engine.close() }) != nil else {
            if fault?.effect == .synchronize(.cacheReverted) { run.expectation.visible = run.expectation.durable }
            return
        }
        run.everythingIsDurable()
        guard let again = try Fault.tolerating(fault, { try run.open(1) }) else { return }
        guard try take([{ try run.change($0, 1, 2, 1, .full) }], again, run, fault) else { return }
        if try Fault.tolerating(fault, { try again.close() }) != nil { run.everythingIsDurable() }
        if fault?.effect == .synchronize(.cacheReverted) { run.expectation.visible = run.expectation.durable }
    }

    /// Takes the steps; after an error the handle must go on, or refuse, as designed, and read on in any case. False
    /// where it refuses.
    private static func take(
        _ steps: [(Engine) throws -> Void], _ engine: Engine, _ run: EngineCrashRun, _ fault: Fault?
    ) throws -> Bool {
        for step in steps {
            do {
                try step(engine)
            } catch let error as StoreError {
                guard let fault else { throw error }
                if fault.effect == .synchronize(.cacheReverted) {
                    // A file system that drops what it could not write takes what was only acknowledged as relaxed with
                    // it.
                    run.expectation.visible = run.expectation.durable
                    return false
                }
                let isPoisoned = error.code == .durabilityUnknown
                guard !isPoisoned || fault.poisons else {
                    throw CrashFailure(description: "a commit failed with \(error.code): \(error)")
                }
                run.machine.disk.removeAllFaults()
                let states = run.expectation.states
                try engine.view().expect(states[Int(try engine.view().number)])
                if isPoisoned {
                    try refuses(engine)
                    return false
                }
                do {
                    if engine.log.current.schemaVersion == 0 {
                        try run.define(engine)
                    } else {
                        try run.change(engine, 1, 1, 1, .full)
                    }
                } catch let later as StoreError {
                    guard later.code == .durabilityUnknown, fault.poisons else {
                        throw CrashFailure(description: "after \(error.code), with the fault gone: \(later)")
                    }
                    run.expectation.states = states
                    return false
                }
            }
        }
        return true
    }

    private static func refuses(_ engine: Engine) throws {
        do {
            _ = try engine.commit { transaction in
                if engine.log.current.schemaVersion == 0 {
                    return try transaction.changeSchema([EngineNote.definition])
                }
                _ = try transaction.insert(entity: EngineNote.entity, EngineNote.row("refused", 1))
            }
        } catch let error as StoreError where error.code == .durabilityUnknown { return }
        throw CrashFailure(description: "a poisoned handle went on")
    }

    /// With the fault gone: another process sees everything acknowledged, and so does one after a power cut.
    private static func survives(_ run: EngineCrashRun) throws {
        let disk = run.machine.disk
        try disk.requireClean(after: 1)
        var options = CrashOptions(seed: 3)
        options.exhaustiveBits = 1
        options.randomChoices = 1
        options.maximumOfEachList = 1
        options.maximumSizes = 2
        options.tearing = .never
        try disk.forEachCrashImage(options) { image in
            if run.tally.images.count > 6 { return }
            let check = EngineImageCheck(
                expectation: run.expectation, options: run.options, hash: image.hash | 7, tally: run.tally, depth: 3)
            let count = try check.run(image.makeDisk())
            guard count >= run.expectation.durable || (count < 0 && !run.expectation.storeIsDurable) else {
                throw CrashFailure(description: "\(image): \(count) left of \(run.expectation.durable)")
            }
        }
        guard disk.names(in: "/data").contains("s.annals") else { return }
        let engine = try run.open(9)
        if engine.log.current.schemaVersion == 0 {
            try run.define(engine)
        } else {
            try run.change(engine, 1, 1, 1, .full)
        }
        try engine.close()
        try requireIntact(run.machine)
    }
}
