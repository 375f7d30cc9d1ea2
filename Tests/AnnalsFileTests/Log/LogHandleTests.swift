// Several handles, files that go away or change, locks, limits: what a handle does when the world around it moves.

import Annals
import SimulatedDisk
import Testing

@Suite struct LogHandleTests {
    private func store(_ machine: Machine, notes: Int = 2) throws -> Log {
        let log = try machine.create()
        try log.defineNotes()
        for number in 0..<notes { try log.insertNote(number + 1, Note.row("t\(number + 1)")) }
        return log
    }

    @Test func aReaderSeesWhatAnotherHandleAppends() throws {
        let machine = Machine()
        let writer = try store(machine)
        let reader = try machine.open(2, access: .readOnly)
        #expect(reader.current.lastNumber == 3)
        try writer.insertNote(9, Note.row("t9"), durability: .relaxed)
        #expect(try reader.catchUp().lastNumber == 4)
        #expect(code { try reader.insertNote(10, Note.row("t10")) } == .readOnly)
        try requireIntact(machine)
    }

    /// Of a header that crosses pages only the first part is looked at.
    @Test func aFrameThatBeginsAtTheEndOfAPageIsSeen() throws {
        let machine = Machine()
        let writers = [try store(machine), try machine.open(2)]
        let reader = try machine.open(3, access: .readOnly)
        var crossed = Set<UInt64>()
        for number in 0..<1500 {
            let end = reader.current.end % 4096
            if end > 4096 - UInt64(FrameField.bytes) { crossed.insert(end) }
            // In turn, so that each appends after what the other has written.
            let title = String(repeating: "t", count: number * 7 % 113)
            try writers[number % 2].insertNote(number + 10, Note.row(title), durability: .relaxed)
            #expect(try reader.catchUp().lastNumber == UInt64(number + 4))
        }
        #expect(crossed.count == FrameField.bytes / 8 - 1)
        try requireIntact(machine)
    }

    @Test func readOnlyOpeningWritesNothingAndTakesNoLock() throws {
        let machine = Machine()
        let log = try store(machine)
        let bytes = machine.disk.contents(of: Machine.path)
        machine.disk.setReadOnly(true)
        machine.disk.setMode(0o400, of: Machine.path)
        let before = machine.disk.changeCount
        let locks = machine.disk.callCount(of: .tryLock)
        let reader = try machine.open(2, access: .readOnly)
        #expect(try CrashRun.read(reader).attempts.count == 3)
        try reader.close()
        #expect(machine.disk.changeCount == before)
        #expect(machine.disk.callCount(of: .tryLock) == locks)
        #expect(machine.disk.contents(of: Machine.path) == bytes)
        #expect(log.current.lastNumber == 3)
    }

    @Test func busyNamesTheHolder() throws {
        let machine = Machine()
        let log = try store(machine)
        let files = machine.files(77)
        let place = try files.resolve(Machine.path)
        let directory = try files.openDirectory(place.directory)
        let file = try files.open(place.name, in: directory, access: .readWrite)
        let range = WriterLock.range(processID: 4711, timeMicroseconds: 1_767_225_600_000_000)
        #expect(try files.tryLock(file, range) == .acquired)
        do {
            try log.insertNote(9, Note.row("t9"))
            Issue.record("the lock was ignored")
        } catch let error as StoreError {
            #expect(error.code == .busy)
            let hasWords = error.message.contains(/Process 4711 has held the writer lock for \d+\.\d seconds/)
            #expect(hasWords, "\(error.message)")
            #expect(error.path == Machine.path)
        }
        machine.disk.kill(77)
        try log.insertNote(9, Note.row("t9"))
        try requireIntact(machine)
    }

    @Test func aLockThatNoWriterTakesIsReportedAsAnotherPrograms() throws {
        let machine = Machine()
        let log = try store(machine)
        let files = machine.files(77)
        let writer = WriterLock.range(processID: 4711, timeMicroseconds: 0)
        for range in [
            LockRange(start: 0, end: UInt64(Int64.max)), LockRange(start: 0, end: writer.end),
            LockRange(start: writer.start, end: UInt64(Int64.max)),
        ] {
            let file = try files.open("s.annals", in: try files.openDirectory("/data"), access: .readWrite)
            #expect(try files.tryLock(file, range) == .acquired)
            let error = #expect(throws: StoreError.self) { try log.insertNote(9, Note.row("t9")) }
            #expect(error?.code == .busy)
            #expect(error?.message.hasPrefix("Another program has locked") == true, "\(error?.message ?? "")")
            files.close(file)
        }
        #expect(WriterLock.holder(of: writer)?.processID == 4711)
        try log.insertNote(9, Note.row("t9"))
        try requireIntact(machine)
    }

    @Test func aStoreThatIsRemovedReplacedOrLinkedIsNotWrittenTo() throws {
        let machine = Machine()
        let log = try store(machine)
        machine.disk.installLink(from: Machine.path, to: "/data/second.annals")
        #expect(code { try log.insertNote(9, Note.row("t9")) } == .hardLinked)
        let files = machine.files(5)
        let directory = try files.openDirectory("/data")
        try files.unlink("second.annals", in: directory)
        try log.insertNote(9, Note.row("t9"))
        try requireIntact(machine)
        try files.unlink("s.annals", in: directory)
        #expect(code { try log.insertNote(10, Note.row("t10")) } == .storeRemoved)
        _ = try machine.create(6)
        #expect(code { try log.insertNote(10, Note.row("t10")) } == .storeReplaced)
        #expect(machine.disk.contents(of: Machine.path)?.count == 8192, "nothing was written to the new store")
    }

    @Test func twoCreatorsMakeOneStore() throws {
        let machine = Machine()
        let first = try Log.openOrCreate(
            Machine.path, options: machine.options, files: machine.files(1), environment: machine.environment)
        let second = try Log.openOrCreate(
            Machine.path, options: machine.options, files: machine.files(2), environment: machine.environment)
        #expect(first.header == second.header)
        #expect(code { _ = try machine.create(3) } == .alreadyExists)
        try first.defineNotes()
        try second.catchUp()
        try second.insertNote(1, Note.row("t1"))
        try requireIntact(machine)
    }

    @Test func theSchemaOfAnotherHandleIsNotOverlooked() throws {
        let machine = Machine()
        let log = try machine.create()
        let other = try machine.open(2)
        let stale = other.makeFrames()
        try stale.changeSchema([Note.definition])
        try log.defineNotes()
        #expect(code { try other.commit(stale) } == .schemaChanged)
        try other.insertNote(1, Note.row("t1"))
        try requireIntact(machine)
    }

    @Test func badTransactionsAreRefusedBeforeAnythingIsWritten() throws {
        let machine = Machine()
        let log = try store(machine)
        let bytes = machine.disk.contents(of: Machine.path)
        let transaction = log.makeFrames()
        #expect(code { try transaction.insert(Note.object(5), [.string("too few")]) } == .invalidArgument)
        #expect(code { try transaction.insert(Note.object(5), [.absent, .absent, .absent]) } == .requiredMissing)
        #expect(code { try transaction.insert(Note.object(5), [.int(1), .absent, .absent]) } == .invalidArgument)
        #expect(
            code { try transaction.update(Note.object(1), Note.row("x"), positions: [], previous: .row(offset: 4096)) }
                == .invalidArgument)
        #expect(
            code { try transaction.update(Note.object(1), Note.row("x"), positions: [3], previous: .row(offset: 4096)) }
                == .invalidArgument)
        #expect(code { try transaction.changeSchema([Note.definition, Note.definition]) } == .invalidArgument)
        let long = log.makeFrames()
        long.prepared.author = String(repeating: "a", count: 1025)
        try long.insert(Note.object(6), Note.row("t6"))
        #expect(code { try log.commit(long) } == .tooLarge)
        #expect(Array(machine.disk.contents(of: Machine.path)?.prefix(8192) ?? []) == Array(bytes?.prefix(8192) ?? []))
        try transaction.insert(Note.object(7), Note.row("t7"))
        try log.commit(transaction)
        #expect(code { try transaction.insert(Note.object(8), Note.row("t8")) } == .invalidArgument)
        #expect(code { try log.commit(transaction) } == .invalidArgument, "once is enough")
        let other = try Machine(seed: 9).create()
        #expect(code { try other.commit(log.makeFrames()) } == .invalidArgument, "it is of another store")
        #expect(log.current.lastNumber == 4)
        try requireIntact(machine)
    }

    @Test func aHandleReportsTheLossOfItsLastTransaction() throws {
        let machine = Machine()
        let log = try store(machine)
        let reader = try machine.open(2, access: .readOnly)
        try log.insertNote(9, Note.row("t9"), durability: .relaxed)
        try reader.catchUp()
        // The file system gives up on what it could not write back.
        machine.disk.failWriteBack(of: Machine.path, revertingCache: true)
        machine.disk.kill(1)
        let next = try machine.open(3)
        try next.insertNote(10, Note.row("t10"), durability: .relaxed)
        #expect(code { try reader.catchUp() } == .diverged)
        try requireIntact(machine)
    }

    @Test func transactionsWithTheSameNumberHaveDifferentTags() throws {
        var tags: [UInt64] = []
        for lost in [1, 2] {
            let machine = Machine(seed: 3)
            let log = try store(machine, notes: lost)
            // The same third transaction, after another history.
            let transaction = log.makeFrames()
            machine.environment.setWallClock(2_000_000_000_000_000)
            try transaction.insert(Note.object(50), Note.row("t50"))
            tags.append(try log.commit(transaction).tag)
            try requireIntact(machine)
        }
        #expect(tags[0] != tags[1])
    }

    @Test func aSecondOpeningWritesNothing() throws {
        let machine = Machine()
        let log = try store(machine)
        try log.insertNote(9, Note.row("t9"), durability: .relaxed)
        machine.disk.kill(1)
        let before = machine.disk.changeCount
        let again = try machine.open(2)
        try again.close()
        #expect(machine.disk.changeCount == before, "opening and closing change nothing")
        try requireIntact(machine)
    }

    @Test func namesAreStoredOnceAndTimesNeverGoBack() throws {
        let machine = Machine()
        let log = try store(machine)
        let now = machine.environment.wallClockMicroseconds()
        machine.environment.setWallClock(now - 1_000_000)
        let transaction = log.makeFrames()
        transaction.prepared.author = "tests"
        try transaction.insert(Note.object(9), Note.row("t9"))
        let second = try log.commit(transaction)
        #expect(second.time == log.current.lastTime)
        #expect(second.time > now - 1_000_000)
        #expect(log.current.names == ["tests"], "author and process have the same name, stored once")
        try requireIntact(machine)
    }

    /// Names compare as bytes: two ways of writing the same letters are two names.
    @Test func namesOfDifferentBytesAreDifferentNames() throws {
        let machine = Machine()
        let log = try machine.create()
        try log.defineNotes()
        let composed = "Ren\u{e9}"
        let decomposed = "Rene\u{301}"
        for (number, author) in [composed, decomposed, composed].enumerated() {
            try log.insertNote(number + 1, Note.row("t\(number + 1)"), author: author)
        }
        #expect(log.current.names.map { Array($0.utf8) } == ["tests", composed, decomposed].map { Array($0.utf8) })
        try log.close()
        #expect(try machine.open(2).current.names.count == 3)
        try requireIntact(machine)
    }

    @Test func callsOfAClosedHandleThrow() throws {
        let machine = Machine()
        let log = try store(machine)
        try log.close()
        #expect(code { try log.catchUp() } == .closed)
        #expect(code { try log.forEachFrame { (_, _) throws(StoreError) in } } == .closed)
        #expect(code { try log.insertNote(9, Note.row("t9")) } == .closed)
        #expect(code { try log.makeDurable(through: 4096) } == .closed)
        try log.close()
        #expect(machine.disk.openDescriptorCount() == 0)
        try requireIntact(machine)
    }

    /// The system drops pages that it could not write after they were read at opening: nothing is built on that.
    @Test func bytesThatChangedAfterReadingAreNotMadeDurable() throws {
        let machine = Machine()
        let log = try machine.create()
        try log.defineNotes()
        for number in 1...3 { try log.insertNote(number, Note.row("t\(number)"), durability: .relaxed) }
        let middle = Int(log.current.end) - 500
        machine.disk.kill(1)
        let next = try machine.open(2)
        for offset in middle..<middle + 64 { machine.disk.corrupt(Machine.path, at: offset, to: 0) }
        #expect(code { try next.insertNote(9, Note.row("t9")) } == .durabilityUnknown)
        #expect(code { try next.insertNote(9, Note.row("t9")) } == .durabilityUnknown)
    }

    /// The first who holds the lock writes nothing; the next one still begins with a recovery frame.
    @Test func aTornTailIsNotForgotten() throws {
        let machine = Machine()
        let log = try machine.create()
        try log.defineNotes()
        let hole = Int(log.current.end)
        for number in 1...2 { try log.insertNote(number, Note.row("t\(number)"), durability: .relaxed) }
        machine.disk.kill(1)
        // A power cut took the first of the two, and left the second after a hole.
        for offset in hole..<hole + 176 { machine.disk.corrupt(Machine.path, at: offset, to: 0) }
        let next = try machine.open(2)
        #expect(next.openingReport.tornTail == UInt64(hole))
        let stale = next.makeFrames()
        try stale.changeSchema([Note.definition])
        try stale.insert(Note.object(1), Note.row("t1"))
        #expect(code { try next.withLockAndNothingElse(stale) } == .tooLarge)
        try next.insertNote(1, Note.row("t1"), durability: .relaxed)
        #expect(next.current.recoveries == 1)
        try next.close()
        #expect(try machine.open(3).current.lastNumber == 2)
        try requireIntact(machine)
    }

    @Test func aHintOfTheHighestSequenceIsBad() throws {
        let machine = Machine()
        let log = try store(machine)
        let end = log.current.end
        try log.close()
        let hint = Hint(sequence: .max, checkpoint: 0, durableEnd: end, number: 3)
        for (index, byte) in hint.encoded(salt: log.header.salt).enumerated() {
            machine.disk.corrupt(Machine.path, at: hint.slotOffset + index, to: byte)
        }
        let again = try machine.open(2)
        try again.insertNote(9, Note.row("t9"))
        try again.close()
        #expect(try machine.open(3).current.lastNumber == 4)
    }

    @Test func aTransactionThatCouldNotBeKeptIsNotCommitted() throws {
        let machine = Machine(limits: .lowered)
        let log = try store(machine)
        machine.disk.addFault(Fault(.failure(28), on: .createUnnamed, isPermanent: true))
        let transaction = log.makeFrames()
        #expect(
            code {
                for number in 10..<200 {
                    try transaction.insert(
                        Note.object(number), Note.row("t\(number)", nil, [UInt8](repeating: 1, count: 400)))
                }
            } == .noSpace)
        machine.disk.removeAllFaults()
        #expect(code { try transaction.insert(Note.object(300), Note.row("t300")) } == .invalidArgument)
        #expect(code { try log.commit(transaction) } == .invalidArgument)
        let second = log.makeFrames()
        #expect(
            code {
                _ = try second.addLargeValue(bytes: 10_000) { (_) throws(StoreError) in
                    throw StoreError(.inputOutput, "The source broke.")
                }
            } == .inputOutput)
        try second.insert(Note.object(10), Note.row("t10"))
        try log.commit(second)
        try requireIntact(machine)
    }

    /// What was committed is durable when only the seal finds no room: to say that it failed would have it done twice.
    @Test func closingOnAFullDiskSucceedsIfOnlyTheSealIsMissing() throws {
        let machine = Machine()
        let log = try store(machine)
        try log.insertNote(9, Note.row("t9"), durability: .relaxed)
        let numbers = log.current.lastNumber
        for call in [CallKind.write, .allocate, .setSize] {
            machine.disk.addFault(Fault(.failure(28), on: call, isPermanent: true))
        }
        try log.close()
        machine.disk.removeAllFaults()
        machine.disk.cutPower()
        #expect(try machine.open(2).current.lastNumber == numbers)
        try requireIntact(machine)
    }

    @Test func closingMakesCommitsDurableIfItCannotSeal() throws {
        let machine = Machine()
        let log = try store(machine)
        try log.insertNote(9, Note.row("t9"), durability: .relaxed)
        machine.disk.installLink(from: Machine.path, to: "/data/second.annals")
        #expect(code { try log.close() } == .hardLinked)
        machine.disk.cutPower()
        #expect(try machine.open(2, access: .readOnly).current.lastNumber == 4)
        try requireIntact(machine)
    }
}

extension Log {
    /// A commit that takes the lock and is refused before it writes.
    fileprivate func withLockAndNothingElse(_ transaction: DraftFrames) throws {
        transaction.prepared.author = String(repeating: "a", count: 2000)
        try commit(transaction)
    }
}
