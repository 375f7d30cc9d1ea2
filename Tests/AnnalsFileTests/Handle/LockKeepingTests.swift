// Keeping the writer lock between commits: when it is kept, who gets in, and who gives it back.

import Annals
import FoundationEssentials
import SimulatedDisk
import Synchronization
import Testing

@Suite struct LockKeepingTests {
    private func machine(_ limits: LockKeepingLimits) throws -> (machine: Machine, log: Log) {
        var machine = Machine()
        machine.options.releasesLockByHand = true
        machine.options.limits.lockKeeping = limits
        let log = try machine.create()
        try log.defineNotes()
        return (machine, log)
    }

    /// A handle of another process, with clocks of its own, that keeps nothing.
    private func other(
        _ machine: Machine, lockTimeoutMicroseconds: UInt64 = 5_000_000
    ) throws -> (log: Log, environment: SimulatedEnvironment) {
        let environment = SimulatedEnvironment(seed: 2, process: 2, name: "other")
        var options = machine.options
        options.releasesLockByHand = false
        options.lockTimeoutMicroseconds = lockTimeoutMicroseconds
        let log = try Log.open(Machine.path, options: options, files: machine.files(2), environment: environment)
        return (log, environment)
    }

    private func insert(_ log: Log, _ number: Int, _ durability: Durability = .relaxed) throws {
        try log.insertNote(number, Note.row("t\(number)"), durability: durability)
    }

    private func expectTransactions(_ machine: Machine, _ count: UInt64) throws {
        try expectIntact(machine.disk, mayBeTorn: true)
        let log = try machine.open(9)
        #expect(log.current.lastNumber == count)
        try log.close()
    }

    /// Whether a foreign handle could write at this moment.
    private func isFree(_ machine: Machine) throws -> Bool {
        let files = machine.files(77)
        let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        defer { machine.disk.kill(77) }
        return try files.tryLock(file, WriterLock.range(processID: 77, timeMicroseconds: 1)) == .acquired
    }

    /// Only after commits that follow one another closely, and only relaxed ones: those take the lock once together.
    @Test func theLockIsKeptAfterCommitsInQuickSuccession() throws {
        var limits = LockKeepingLimits()
        limits.commits = 3
        limits.gapMicroseconds = 1000
        limits.leaseMicroseconds = 1_000_000
        let (machine, log) = try machine(limits)
        // The schema was the first.
        for number in 1...2 {
            try insert(log, number)
            #expect(try isFree(machine), "\(number)")
        }
        for number in 3...4 { try insert(log, number) }
        #expect(try !isFree(machine))
        let before = machine.disk.callCount(of: .tryLock) + machine.disk.callCount(of: .unlock)
        for number in 5...20 { try insert(log, number) }
        #expect(machine.disk.callCount(of: .tryLock) + machine.disk.callCount(of: .unlock) == before)
        #expect(try !isFree(machine))
        try insert(log, 21, .full)
        #expect(try isFree(machine))
        machine.environment.advance(byMicroseconds: 5000)
        for number in 22...25 { try insert(log, number) }
        #expect(try !isFree(machine))
        log.releaseIdleLock()
        #expect(try !isFree(machine), "it was given back although the last commit was just now")
        machine.environment.advance(byMicroseconds: 5000)
        log.releaseIdleLock()
        #expect(try isFree(machine))
        try insert(log, 26)
        #expect(try isFree(machine))
        try log.close()
        try expectTransactions(machine, 27)
    }

    /// A handle that keeps the lock does not look at the file, because no other handle can append.
    @Test func aHandleSeesOtherCommitsOnceItsKeptLockIsReleased() throws {
        var limits = LockKeepingLimits()
        limits.commits = 3
        limits.gapMicroseconds = 1000
        limits.leaseMicroseconds = 1_000_000
        let (machine, log) = try machine(limits)
        for number in 1...6 { try insert(log, number) }
        #expect(try !isFree(machine))
        #expect(try log.catchUp().lastNumber == 7)
        machine.environment.advance(byMicroseconds: 5000)
        log.releaseIdleLock()
        let second = try other(machine).log
        try insert(second, 7)
        #expect(try log.catchUp().lastNumber == 8)
        try second.close()
        try log.close()
    }

    /// The last frame is compared once in each lease, before another one is written after it.
    @Test func aKeptLockHidesAnOverwrittenFileForOneLeaseOnly() throws {
        var limits = LockKeepingLimits()
        limits.commits = 3
        limits.gapMicroseconds = 10_000
        limits.leaseMicroseconds = 1000
        let (machine, log) = try machine(limits)
        for number in 1...6 { try insert(log, number) }
        #expect(try !isFree(machine))
        let last = try #require(log.current.lastFrame)
        let zeros = [UInt8](repeating: 0, count: Int(log.current.end - last))
        let files = machine.files(5)
        let file = try files.open("s.annals", in: files.openDirectory("/data"), access: .readWrite)
        _ = try zeros.withUnsafeBytes { try files.write(file, at: last, from: $0) }
        machine.environment.advance(byMicroseconds: 2000)
        for _ in 1...2 {
            do {
                try insert(log, 7)
                Issue.record("A transaction was written after a frame that is gone.")
            } catch let error as StoreError {
                #expect(error.code == .diverged)
            }
        }
        try? log.close()
        try expectIntact(machine.disk, mayBeTorn: true)
    }

    /// A clock that is set back does not keep other handles out for longer.
    @Test func aClockThatIsSetBackReleasesTheLock() throws {
        var limits = LockKeepingLimits()
        (limits.commits, limits.commitsAfterOthers) = (0, 0)
        limits.gapMicroseconds = 1000
        let (machine, log) = try machine(limits)
        for number in 1...2 { try insert(log, number) }
        #expect(try !isFree(machine))
        machine.environment.setWallClock(1_500_000_000_000_000)
        log.releaseIdleLock()
        #expect(try isFree(machine))
        try log.close()
        try expectTransactions(machine, 3)
    }

    @Test func closingReleasesTheLock() throws {
        let (machine, log) = try machine(.always)
        try insert(log, 1)
        #expect(try !isFree(machine))
        try log.close()
        let other = try machine.open(2)
        try insert(other, 2, .full)
        try other.close()
        try expectTransactions(machine, 3)
    }

    /// A commit that fails (no space: 28) keeps nothing, and what was not written is not taken for known.
    @Test func aFailedCommitReleasesTheLock() throws {
        let (machine, log) = try machine(.always)
        try insert(log, 1)
        machine.disk.addFault(Fault(.failure(28), on: .write, process: 1))
        #expect(throws: StoreError.self) { try insert(log, 2) }
        machine.disk.removeAllFaults()
        #expect(try isFree(machine))
        let other = try machine.open(2)
        try insert(other, 2)
        other.releaseIdleLock()
        try insert(log, 3)
        log.releaseIdleLock()
        try other.close()
        try log.close()
        try expectTransactions(machine, 4)
    }

    /// Two handles on one thread, by turns: neither may wait for the other one's thread.
    @Test func handlesThatTakeTurnsDoNotKeepTheLock() throws {
        var limits = LockKeepingLimits()
        limits.commits = 3
        limits.gapMicroseconds = 1_000_000
        let (machine, log) = try machine(limits)
        let other = try machine.open(2)
        for number in 1...20 {
            try insert(number % 2 == 0 ? log : other, number)
            #expect(try isFree(machine), "\(number)")
        }
        try log.close()
        try other.close()
        try expectTransactions(machine, 21)
    }

    /// Where who waits has stopped, the one who gives way goes on after a moment; afterwards each adopts what the other
    /// one wrote.
    @Test func aHandleThatGivesWayDoesNotWaitForever() throws {
        let (machine, log) = try machine(.always)
        try insert(log, 1)
        let (other, environment) = try self.other(machine)
        let sleeps = Guarded<[StoreError?]>([])
        environment.setOnSleep { _ in
            // The other one waits, and is not here to take what it is given.
            let turn = sleeps.withLock { $0.count }
            var failure: StoreError?
            let before = machine.environment.monotonicMicroseconds()
            do {
                if turn == 0 { _ = try log.insertNote(2, Note.row("t2"), durability: .relaxed) }
            } catch { failure = error as? StoreError }
            if turn == 0, machine.environment.monotonicMicroseconds() - before < 2000 {
                failure = StoreError(.invalidArgument, "nobody gave way")
            }
            if turn == 1 { log.releaseIdleLock() }
            sleeps.withLock { $0.append(failure) }
        }
        try insert(other, 3)
        #expect(sleeps.withLock { $0 } == [nil, nil])
        try insert(log, 4)
        try log.close()
        try other.close()
        try expectTransactions(machine, 5)
    }

    /// One who has stopped while he waited slows nobody down for long.
    @Test func aStoppedWaiterSlowsTheHolderOnlyBriefly() throws {
        var limits = LockKeepingLimits.always
        limits.leaseMicroseconds = 10
        limits.gapMicroseconds = 1_000_000
        let (machine, log) = try machine(limits)
        try insert(log, 1)
        let stopped = try machine.open(2)
        let files = machine.files(77)
        let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        #expect(try files.tryLock(file, WriterLock.waiting) == .acquired)
        let before = machine.environment.monotonicMicroseconds()
        for number in 2...3000 { try insert(log, number) }
        let lost = machine.environment.monotonicMicroseconds() - before
        #expect(lost > 2000 && lost < 2000 * 20, "\(lost)")
        machine.disk.kill(77)
        try insert(log, 3001)
        log.releaseIdleLock()
        try insert(stopped, 3002)
        stopped.releaseIdleLock()
        try stopped.close()
        try log.close()
        try expectTransactions(machine, 3003)
    }

    /// However short the patience: it is longer than anybody keeps the lock who does not write.
    @Test func aTimeoutOfZeroStillWaitsForAKeptLock() throws {
        let (machine, log) = try machine(.always)
        try insert(log, 1)
        let (other, environment) = try self.other(machine, lockTimeoutMicroseconds: 0)
        environment.setOnSleep { _ in log.releaseIdleLock() }
        try insert(other, 2)
        environment.setOnSleep(nil)
        try insert(log, 3)
        let error = #expect(throws: StoreError.self) { try insert(other, 4) }
        #expect(error?.code == .busy)
        log.releaseIdleLock()
        try other.close()
        try log.close()
        try expectTransactions(machine, 4)
    }

    /// A process dies while it recovers, with its frame written and the beginning of what was torn cleared: who has
    /// judged the end before that must do so again.
    @Test func aProcessKilledDuringRecoveryLeavesATornTail() throws {
        var machine = Machine(limits: .lowered)
        machine.options.releasesLockByHand = false
        let log = try machine.create()
        try log.defineNotes()
        try insert(log, 1, .full)
        let torn = try machine.open(2)
        machine.disk.addFault(Fault(.death(afterBytes: 2500), on: .write, process: 2))
        let body = [UInt8](repeating: 0xAA, count: 6000)
        #expect(throws: (any Error).self) { try torn.insertNote(2, Note.row("t2", nil, body), durability: .relaxed) }
        machine.disk.removeAllFaults()
        machine.disk.kill(2)
        let recovering = try machine.open(3)
        machine.disk.addFault(Fault(.death(afterBytes: 1200), on: .write, occurrence: 2, process: 3))
        #expect(throws: (any Error).self) { try recovering.insertNote(3, Note.row("t3"), durability: .relaxed) }
        machine.disk.removeAllFaults()
        machine.disk.kill(3)
        try insert(log, 4, .full)
        #expect(log.current.recoveries == 2)
        try log.close()
        try expectTransactions(machine, 3)
    }

    /// Real handles: one commits as fast as it can until the other one, which waits with its default patience, has had
    /// so many turns.
    @Test func aFastWriterDoesNotShutOutAnotherWriter() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "annals-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "s.annals").path()
        let (files, environment) = (RealFileSystem(), RealEnvironment())
        let fast = try Log.create(path, files: files, environment: environment)
        try fast.defineNotes()
        let slow = try Log.open(path, files: files, environment: environment)
        let isOver = Atomic<Bool>(false)
        let count = Atomic<Int>(0)
        let failure = Guarded<String?>(nil)
        let thread = try BackgroundThread(name: "fast") {
            do {
                while !isOver.load(ordering: .acquiring) {
                    let number = count.add(1, ordering: .relaxed).newValue
                    try fast.insertNote(number, Note.row("f\(number)"), durability: .relaxed)
                }
            } catch {
                failure.withLock { $0 = "\(error)" }
            }
        }
        for number in 1...100 {
            try slow.insertNote(1_000_000 + number, Note.row("s\(number)"), durability: .relaxed)
        }
        isOver.store(true, ordering: .releasing)
        thread.join()
        #expect(failure.withLock { $0 } == nil)
        // The thread that gives it back does, and closing is not needed for that.
        for number in 1...100 { try insert(fast, 3_000_000 + number) }
        try slow.insertNote(2_000_000, Note.row("last"), durability: .relaxed)
        let last = try fast.catchUp().lastNumber
        #expect(last == UInt64(count.load(ordering: .relaxed)) + 202)
        try slow.close()
        try fast.close()
        let report = try Checker.check(path, files: files)
        #expect(report.isIntact, "\(report.findings)")
    }
}
