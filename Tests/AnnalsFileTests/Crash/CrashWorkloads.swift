// What is going on when the power is cut: each workload covers other frames, durabilities and hands on the store.

import Annals
import SimulatedDisk

enum CrashWorkloads {
    static let all: [(name: String, run: @Sendable (CrashRun) throws -> Void)] = [
        ("create", { run in try run.create().close() }),
        ("creatorDies", creatorDies),
        ("durable", durable),
        ("relaxed", relaxed),
        ("long", long),
        ("values", values),
        ("inherited", inherited),
        ("inheritedTwice", inheritedTwice),
        ("twoHandles", twoHandles),
        ("groupCommit", groupCommit),
        ("whileSynchronizing", whileSynchronizing),
        ("killedInWrite", killedInWrite),
        ("killedInLongWrite", killedInLongWrite),
        ("noSpace", noSpace),
        ("syncFails", syncFails),
        ("lostWriteBack", lostWriteBack),
        ("reopened", reopened),
        ("clock", clock),
    ]

    /// Who made the store dies before its name is durable; another process commits in it.
    private static func creatorDies(_ run: CrashRun) throws {
        run.machine.disk.addFault(Fault(.death(afterBytes: 0), on: .synchronizeDirectory, process: 1))
        try expectDeath { _ = try run.machine.create(1) }
        run.machine.disk.removeAllFaults()
        let log = try run.open(2)
        try run.define(log, .relaxed)
        try run.insert(log, .full)
    }

    private static func durable(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        for _ in 0..<3 { try run.insert(log, .full) }
        try run.insert(log, count: 5, .full)
        try log.close()
    }

    private static func relaxed(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log, .relaxed)
        for _ in 0..<2 { try run.insert(log, .relaxed) }
        run.machine.environment.advance(byMicroseconds: 2_000_000)
        try log.synchronizeIfDue()
        run.everythingIsDurable()
        try run.insert(log, .relaxed)
        try run.insert(log, .full)
        try run.insert(log, .relaxed)
        try log.close()
        run.everythingIsDurable()
    }

    /// Transactions of several frames, the next one begun before the last is durable.
    private static func long(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        try run.insert(log, count: 60, bodyBytes: 90, .relaxed)
        try run.insert(log, .full)
        try run.insert(log, count: 60, bodyBytes: 90, .full)
        try log.close()
    }

    private static func values(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        try run.insert(log, count: 2, bodyBytes: 5000, .full)
        try run.insert(log, bodyBytes: 9000, .relaxed)
        try run.insert(log, .full)
    }

    /// A process dies with unproven transactions; the next one commits durably on top of them.
    private static func inherited(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        for _ in 0..<3 { try run.insert(log, .relaxed) }
        run.machine.disk.kill(1)
        let next = try run.open(2)
        try run.insert(next, .full)
        run.everythingIsDurable()
        try next.close()
    }

    private static func inheritedTwice(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log, .relaxed)
        run.machine.disk.kill(1)
        let second = try run.open(2)
        try run.insert(second, .relaxed)
        try run.insert(second, .relaxed)
        run.machine.disk.kill(2)
        let third = try run.open(3)
        try run.insert(third, .relaxed)
        try run.insert(third, .full)
        run.everythingIsDurable()
    }

    /// Two processes append in turn, each proving what the other wrote.
    private static func twoHandles(_ run: CrashRun) throws {
        let first = try run.create()
        try run.define(first)
        let second = try run.openAnother(2)
        try run.insert(second, .relaxed)
        try run.insert(first, .full)
        run.everythingIsDurable()
        try run.insert(second, .relaxed)
        try run.insert(second, .full)
        try first.catchUp()
        try run.insert(first, .relaxed)
        try second.close()
        try run.insert(first, .full)
        try first.close()
    }

    /// Two threads' halves of commits, interleaved: one sync serves both.
    private static func groupCommit(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        let a = try run.append(log, .full)
        let afterA = run.expectation.attempts.count
        let b = try run.append(log, count: 3, .full)
        let afterB = run.expectation.attempts.count
        try run.makeDurable(log, through: b, attempts: afterB)
        try run.makeDurable(log, through: a, attempts: afterA)
        try run.insert(log, .full)
    }

    /// Another thread appends while a sync is under way: that sync proves nothing about it.
    private static func whileSynchronizing(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        let end = try run.append(log, .full)
        let attempts = run.expectation.attempts.count
        let appended = Flag()
        run.machine.disk.setDuringSynchronize { _ in
            guard !appended.isSet else { return }
            appended.isSet = true
            do { _ = try run.append(log, .relaxed) } catch { appended.error = error }
        }
        try run.makeDurable(log, through: end, attempts: attempts)
        run.machine.disk.setDuringSynchronize(nil)
        if let error = appended.error { throw error }
        try run.insert(log, .full)
        try run.insert(log, .full)
    }

    final class Flag: @unchecked Sendable {
        // Sound: hooks run on the thread that runs the workload.
        var isSet = false
        var error: (any Error)?
    }

    private static func killedInWrite(_ run: CrashRun) throws {
        for bytes in [8, 64, 72, 150] {
            let process = UInt32(bytes)
            let log = bytes == 8 ? try run.create(process) : try run.open(process)
            if bytes == 8 { try run.define(log) }
            try run.insert(log, .full)
            run.machine.disk.addFault(Fault(.death(afterBytes: bytes), on: .write, process: process))
            try expectDeath { try run.insert(log, .full) }
            run.machine.disk.removeAllFaults()
        }
        let last = try run.open(200)
        try run.insert(last, .relaxed)
        try run.insert(last, .full)
        run.everythingIsDurable()
        try last.close()
    }

    private static func killedInLongWrite(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        try run.insert(log, .relaxed)
        let isOneFrame = log.limits.maximumFrameBytes > 65536
        run.machine.disk.addFault(
            Fault(.death(afterBytes: 1024), on: .write, occurrence: isOneFrame ? 1 : 2, process: 1))
        try expectDeath { try run.insert(log, count: 60, bodyBytes: 180, .full) }
        run.machine.disk.removeAllFaults()
        run.machine.disk.kill(1)
        let next = try run.open(2)
        try run.insert(next, .full)
        run.everythingIsDurable()
    }

    static func expectDeath(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as StoreError where error.message == StoreError.simulatedProcessDeath.message {
            return
        }
        throw CrashFailure(description: "a process that should have died has not")
    }

    /// The disk is full in the middle of a write; later there is space again.
    private static func noSpace(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        try run.insert(log, .relaxed)
        run.machine.disk.addShortWrite(occurrence: 1, bytes: 100, thenError: 28)
        do {
            try run.insert(log, count: 4, .full)
            throw CrashFailure(description: "a write to a full disk succeeded")
        } catch let error as StoreError where error.code == .noSpace {}
        run.machine.disk.removeAllFaults()
        try run.insert(log, .full)
        try run.insert(log, .relaxed)
        try log.close()
        run.everythingIsDurable()
    }

    /// A sync fails and its pages are marked clean; the process dies; another one commits on top.
    private static func syncFails(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        try run.insert(log, .relaxed)
        run.machine.disk.addFault(Fault(.synchronize(.cleanAndLost), on: .synchronize))
        do {
            try run.insert(log, .full)
            throw CrashFailure(description: "a commit whose sync failed was acknowledged")
        } catch let error as StoreError where error.code == .durabilityUnknown {}
        run.machine.disk.removeAllFaults()
        do {
            try run.insert(log, .full)
            throw CrashFailure(description: "a handle whose sync failed went on")
        } catch let error as StoreError where error.code == .durabilityUnknown {
            // It was refused before anything was written.
            run.expectation.attempts.removeLast()
        }
        run.machine.disk.kill(1)
        let next = try run.open(2)
        try run.insert(next, .relaxed)
        try run.insert(next, .full)
        run.everythingIsDurable()
        try next.close()
    }

    /// The system fails to write back what a dead process wrote, and nobody who is left hears of it.
    private static func lostWriteBack(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        for _ in 0..<2 { try run.insert(log, .relaxed) }
        let heard = try run.openAnother(7)
        run.machine.disk.failWriteBack(of: Machine.path)
        // Somebody was told of the error; whoever opens the file later is not.
        do {
            try run.insert(heard, .full)
            throw CrashFailure(description: "a handle did not hear of a failed write-back")
        } catch let error as StoreError where error.code == .durabilityUnknown {}
        run.machine.disk.kill(1)
        run.machine.disk.kill(7)
        let next = try run.open(2)
        try run.insert(next, .full)
        run.everythingIsDurable()
    }

    private static func reopened(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        try run.insert(log, .relaxed)
        try log.close()
        run.everythingIsDurable()
        let second = try run.open(2)
        try run.insert(second, .relaxed)
        try second.close()
        run.everythingIsDurable()
        let third = try run.open(3)
        try run.insert(third, .full)
    }

    private static func clock(_ run: CrashRun) throws {
        let log = try run.create()
        try run.define(log)
        let now = run.machine.environment.wallClockMicroseconds()
        run.machine.environment.setWallClock(now - 7_200_000_000)
        try run.insert(log, .relaxed)
        run.machine.environment.setWallClock(now - 9_000_000_000)
        try run.insert(log, .full)
    }
}
