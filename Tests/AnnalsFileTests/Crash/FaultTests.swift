// An error of every call that the log makes, of every kind, once and for ever: nothing acknowledged is lost, nothing is
// reported wrongly.

import Annals
import SimulatedDisk
import Testing

@Suite struct FaultTests {
    @Test func theLogSurvivesAnErrorAtEveryCall() async throws {
        // EIO, ENOSPC, EDQUOT, EINTR, EACCES, EMFILE, ENOMEM.
        let sweep = FaultSweep(errors: [5, 28, 122, 4, 13, 24, 12], cutWrites: [8, 100], run: Self.run)
        let count = try await sweep.everyFault()
        print("\(count) injected errors")
    }

    /// Runs the workload under a fault. Returns how many calls of each kind were made.
    private static func run(_ fault: Fault?) throws -> [CallKind: Int] {
        let run = CrashRun(name: "faults", limits: .lowered, seed: 5, imageOptions: CrashOptions())
        run.machine.disk.setOnChange(nil)
        if let fault { run.machine.disk.addFault(fault) }
        try work(run, fault)
        let calls = run.machine.disk.callsUntilFaultsEnd()
        try survives(run)
        return calls
    }

    private static func work(_ run: CrashRun, _ fault: Fault?) throws {
        guard let log = try Fault.tolerating(fault, { try run.create() }) else { return }
        var steps: [(Log) throws -> Void] = [
            { try run.define($0) },
            { try run.insert($0, .relaxed) },
            { try run.insert($0, count: 3, .full) },
            { try run.insert($0, count: 30, bodyBytes: 1200, .relaxed) },
            { try run.insert($0, .full) },
        ]
        if fault == nil { steps.append { _ in } }
        guard try take(steps, log, run, fault) else { return }
        guard try Fault.tolerating(fault, { try log.close() }) != nil else { return }
        run.everythingIsDurable()
        guard let again = try Fault.tolerating(fault, { try run.open(1) }) else { return }
        guard try take([{ try run.insert($0, .full) }], again, run, fault) else { return }
        if try Fault.tolerating(fault, { try again.close() }) != nil { run.everythingIsDurable() }
    }

    /// Takes the steps; after an error the handle must go on, or refuse, exactly as designed. False if it refuses.
    private static func take(
        _ steps: [(Log) throws -> Void], _ log: Log, _ run: CrashRun, _ fault: Fault?
    ) throws -> Bool {
        for step in steps {
            let content = run.machine.disk.contents(of: Machine.path)
            do {
                try step(log)
            } catch let error as StoreError {
                guard let fault else { throw error }
                // A file system that drops what it could not write takes what was only acknowledged as relaxed with it.
                if fault.effect == .synchronize(.cacheReverted) { run.expectation.visible = run.expectation.durable }
                let isPoisoned = error.code == .durabilityUnknown
                // A write to the temporary file of a long transaction leaves the store as it was.
                let isElsewhere = error.code == .inputOutput && content == run.machine.disk.contents(of: Machine.path)
                guard isPoisoned == (fault.poisons && !isElsewhere) else {
                    throw CrashFailure(description: "a commit failed with \(error.code): \(error)")
                }
                run.machine.disk.removeAllFaults()
                let before = run.expectation
                do {
                    if log.current.schemaVersion == 0 { try run.define(log) } else { try run.insert(log, .full) }
                    if isPoisoned { throw CrashFailure(description: "a poisoned handle went on") }
                } catch let later as StoreError {
                    guard isPoisoned, later.code == .durabilityUnknown else {
                        throw CrashFailure(description: "after \(error.code), with the fault gone: \(later)")
                    }
                    // It was refused before anything was written.
                    run.expectation = before
                    return false
                }
            }
        }
        return true
    }

    /// With the fault gone: another process sees everything acknowledged, and so does one after a power cut.
    private static func survives(_ run: CrashRun) throws {
        let disk = run.machine.disk
        try disk.requireClean(after: 1)
        let unnamed = disk.fileCount - disk.names(in: "/data").count
        guard unnamed == 0 else { throw CrashFailure(description: "\(unnamed) files without a name are left") }
        var options = CrashOptions(seed: 3)
        options.exhaustiveBits = 1
        options.randomChoices = 2
        options.maximumOfEachList = 2
        options.maximumSizes = 2
        options.tearing = .never
        try disk.forEachCrashImage(options) { image in
            let check = ImageCheck(
                expectation: run.expectation, machine: run.machine, hash: image.hash | 7, tally: run.tally, depth: 3)
            let count = try check.run(image.makeDisk())
            guard count >= run.expectation.durable || (count < 0 && !run.expectation.storeIsDurable) else {
                throw CrashFailure(description: "\(image): \(count) left of \(run.expectation.durable)")
            }
        }
        guard disk.names(in: "/data").contains("s.annals") else { return }
        let log = try run.open(9)
        if log.current.schemaVersion == 0 { try run.define(log) } else { try run.insert(log, .full) }
        try log.close()
        try requireIntact(run.machine)
    }
}
