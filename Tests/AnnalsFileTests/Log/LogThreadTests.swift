// Real threads and the real file system: group commit, the background sync, handles of one process side by side.

import Annals
import FoundationEssentials
import SimulatedDisk
import Testing

@Suite struct LogThreadTests {
    private let files = RealFileSystem()
    private let environment = RealEnvironment()
    /// Other threads and tests may keep a writer waiting for as long as they like.
    private static var patient: LogOptions {
        var options = LogOptions()
        options.lockTimeoutMicroseconds = 600_000_000
        return options
    }

    private func withFolder(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "annals-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.appending(path: "s.annals").path())
    }

    /// Runs `body` on so many threads and waits for all.
    private func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws {
        let failures = Guarded<[String]>([])
        let threads = try (0..<count).map { index in
            try BackgroundThread(name: "test \(index)") {
                do { try body(index) } catch { failures.withLock { $0.append("\(error)") } }
            }
        }
        for thread in threads { thread.join() }
        #expect(failures.withLock { $0 }.isEmpty, "\(failures.withLock { $0 })")
    }

    @Test(arguments: [Durability.full, .relaxed])
    func eightThreadsCommitOnOneHandle(_ durability: Durability) throws {
        try withFolder { path in
            let log = try Log.create(path, options: Self.patient, files: files, environment: environment)
            try log.defineNotes()
            let numbers = Guarded<[UInt64]>([])
            try onThreads(8) { thread in
                for index in 0..<50 {
                    let number = thread * 50 + index + 1
                    let appended = try log.insertNote(number, Note.row("t\(number)"), durability: durability)
                    if durability == .full, log.durableEnd < appended.end {
                        throw StoreError(.invalidArgument, "acknowledged and not durable")
                    }
                    numbers.withLock { $0.append(appended.number) }
                }
            }
            #expect(numbers.withLock { $0.sorted() } == Array(2...401))
            try log.close()
            let again = try Log.open(path, options: Self.patient, files: files, environment: environment)
            #expect(again.current.lastNumber == 401)
            #expect(try CrashRun.read(again).attempts.count == 401)
            try again.close()
            try requireIntact(path)
        }
    }

    /// Neither this handle nor another process, for as long as was asked, and both afterwards.
    @Test func writersAreBusyWhileTheyAreKeptOut() throws {
        var machine = Machine()
        machine.options.lockTimeoutMicroseconds = 1000
        let log = try machine.create()
        try log.defineNotes()
        let other = try machine.open(2)
        let codes = Guarded<[StoreError.Code?]>([])
        machine.environment.setOnSleep { length in
            // The others sleep too while they wait, but not for so long.
            guard length == 10_000 else { return }
            do {
                try other.insertNote(1, Note.row("t1"))
                codes.withLock { $0.append(nil) }
            } catch let error as StoreError { codes.withLock { $0.append(error.code) } } catch {}
            let thread = try? BackgroundThread(name: "same handle") {
                do { try log.insertNote(1, Note.row("t1")) } catch let error as StoreError {
                    codes.withLock { $0.append(error.code) }
                } catch {}
            }
            thread?.join()
        }
        try log.keepWritersOut(microseconds: 10_000)
        #expect(codes.withLock { $0 } == [.busy, .busy])
        try other.insertNote(1, Note.row("t1"))
        try log.insertNote(2, Note.row("t2"))
        #expect(try CrashRun.read(log).attempts.count == 3)
        try other.close()
        try log.close()
        #expect(try Checker.check("/data/s.annals", files: machine.files()).isIntact)
    }

    @Test func aThreadGivesUpIfAnotherThreadWritesForTooLong() throws {
        var machine = Machine()
        machine.options.lockTimeoutMicroseconds = 1000
        let log = try machine.create()
        try log.defineNotes()
        // Another process holds the file, so the first thread sleeps with the handle's lock until it is told to go on.
        let files = machine.files(77)
        let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
        let range = WriterLock.range(processID: 77, timeMicroseconds: 1_767_225_600_000_000)
        #expect(try files.tryLock(file, range) == .acquired)
        let monitor = Monitor()
        let steps = Guarded((isSleeping: false, mayGoOn: false))
        machine.environment.setOnSleep { _ in
            monitor.withLock {
                steps.withLock { $0.isSleeping = true }
                monitor.signalAll()
                while !steps.withLock({ $0.mayGoOn }) { monitor.wait() }
            }
        }
        let first = try BackgroundThread(name: "first") { _ = try? log.insertNote(1, Note.row("t1")) }
        monitor.withLock { while !steps.withLock({ $0.isSleeping }) { monitor.wait() } }
        do {
            try log.insertNote(2, Note.row("t2"))
            Issue.record("it did not wait for the first thread")
        } catch let error as StoreError {
            #expect(error.code == .busy && error.message.contains("thread"))
        }
        machine.disk.kill(77)
        monitor.withLock {
            steps.withLock { $0.mayGoOn = true }
            monitor.signalAll()
        }
        first.join()
        try log.insertNote(3, Note.row("t3"))
        #expect(log.current.lastNumber == 3, "the schema, the first thread's and this one's")
        try log.close()
        try expectIntact(machine.disk, isSealed: true)
    }

    @Test func handlesOfOneProcessShareTheFile() throws {
        try withFolder { path in
            try Log.create(path, options: Self.patient, files: files, environment: environment).defineNotes()
            try onThreads(4) { thread in
                let log = try Log.open(path, files: RealFileSystem(), environment: RealEnvironment())
                for index in 0..<50 {
                    let number = thread * 50 + index + 1
                    try log.insertNote(number, Note.row("t\(number)"), durability: index % 10 == 0 ? .full : .relaxed)
                }
                try log.close()
            }
            let again = try Log.open(path, access: .readOnly, files: files, environment: environment)
            #expect(try CrashRun.read(again).attempts.count == 201)
            try requireIntact(path)
        }
    }

    @Test func relaxedCommitsBecomeDurableAutomatically() throws {
        try withFolder { path in
            var options = Self.patient
            options.limits.syncLagMicroseconds = 20_000
            let log = try Log.create(path, options: options, files: files, environment: environment)
            try log.defineNotes()
            for round in 1...3 {
                let appended = try log.insertNote(round, Note.row("t\(round)"), durability: .relaxed)
                let deadline = environment.monotonicMicroseconds() + 600_000_000
                while log.durableEnd < appended.end, environment.monotonicMicroseconds() < deadline {
                    environment.sleep(microseconds: 1000)
                }
                #expect(log.durableEnd >= appended.end, "round \(round)")
            }
            try log.close()
            try requireIntact(path)
        }
    }

    @Test func anUnreferencedHandleIsReleasedWithItsThread() throws {
        try withFolder { path in
            weak var gone: Log?
            do {
                let log = try Log.create(path, options: Self.patient, files: files, environment: environment)
                try log.defineNotes(.relaxed)
                gone = log
            }
            let deadline = environment.monotonicMicroseconds() + 600_000_000
            while gone != nil, environment.monotonicMicroseconds() < deadline { environment.sleep(microseconds: 1000) }
            #expect(gone == nil)
            try requireIntact(path)
        }
    }

    /// Another descriptor of the same file is opened and closed by code that knows nothing of the store.
    @Test func theLockOutlivesForeignDescriptors() throws {
        try withFolder { path in
            let log = try Log.create(path, options: Self.patient, files: files, environment: environment)
            try log.defineNotes()
            let place = try files.resolve(path)
            let directory = try files.openDirectory(place.directory)
            defer { files.close(directory) }
            let holder = try files.open(place.name, in: directory, access: .readWrite)
            defer { files.close(holder) }
            let range = WriterLock.range(processID: 1, timeMicroseconds: environment.wallClockMicroseconds())
            #expect(try files.tryLock(holder, range) == .acquired)
            _ = try Data(contentsOf: URL(filePath: path))
            var options = LogOptions()
            options.lockTimeoutMicroseconds = 1000
            let other = try Log.open(path, options: options, files: files, environment: environment)
            #expect(throws: StoreError.self) { try other.insertNote(1, Note.row("t1")) }
            try files.unlock(holder, range)
            try other.insertNote(1, Note.row("t1"))
            try other.close()
            try requireIntact(path)
        }
    }

    /// Threads commit while another one closes the handle: each commit is in the store or was refused.
    @Test func closingDuringCommitsLosesNoAcknowledgedCommit() throws {
        for round in 0..<20 {
            try withFolder { path in
                let log = try Log.create(path, options: Self.patient, files: files, environment: environment)
                try log.defineNotes()
                let acknowledged = Guarded(0)
                try onThreads(3) { thread in
                    if thread == 0 {
                        RealEnvironment().sleep(microseconds: UInt64(round * 200))
                        return try log.close()
                    }
                    for index in 0..<20 {
                        let number = thread * 100 + index
                        do {
                            try log.insertNote(
                                number, Note.row("t\(number)"), durability: index % 2 == 0 ? .full : .relaxed)
                            acknowledged.withLock { $0 += 1 }
                        } catch let error as StoreError where error.code == .closed { return }
                    }
                }
                let again = try Log.open(path, access: .readOnly, files: files, environment: environment)
                #expect(try CrashRun.read(again).attempts.count == acknowledged.withLock { $0 } + 1)
                try requireIntact(path)
            }
        }
    }
}
