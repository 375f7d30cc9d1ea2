// Consumers of history and retention, below the product: what the file says of them, whoever writes it and whatever
// befalls it.

import Annals
import SimulatedDisk
import Testing

@Suite struct ConsumerTests {
    private func place(_ engine: Engine) throws -> TransactionPlace {
        let view = try engine.view()
        return TransactionPlace(number: view.number, tag: view.tag)
    }

    private func expect(_ code: StoreError.Code, _ body: () throws -> Void) {
        let error = #expect(throws: StoreError.self) { try body() }
        #expect(error?.code == code, "\(error?.description ?? "")")
    }

    @Test func aConsumerIsKnownToAllHandlesAndSurvivesCheckpointsAndCompaction() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let other = StoreHandle(try machine.open(2))
        let start = try place(store.current)
        let first = try store.current.register("reader", [.reads], at: start)
        #expect(first.place == start && first.kind == .reads)
        // Again: it stands where it stood.
        _ = try store.current.insertNotes(1...10)
        let again = try other.newest().engine.register("reader", [.reads, .writes])
        #expect(again.place == start && again.kind == [.reads, .writes])
        _ = try store.current.register("gone", .writes)
        #expect(try other.current.removeConsumer("gone"))
        #expect(try !store.current.removeConsumer("gone"))
        _ = try store.newest()
        #expect(store.current.tracking.consumers.map(\.name) == ["reader"])
        let end = try place(store.current)
        try other.current.advance([ConsumerAdvance(name: "reader", from: start, to: end)])
        try store.current.writeCheckpoint()
        _ = try store.compact(.lowered)
        for generations in [store, other, StoreHandle(try machine.open(3))] {
            let engine = try generations.newest().engine
            #expect(engine.tracking.consumers.map(\.name) == ["reader"])
            #expect(engine.tracking.consumer("reader")?.place == end)
            #expect(engine.tracking.consumer("reader")?.kind == [.reads, .writes])
            try generations.close()
        }
        try expectIntact(machine)
    }

    @Test func aConsumerMovesOnlyFromItsCurrentPlace() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let start = try place(engine)
        _ = try engine.register("reader", .reads)
        _ = try engine.insertNotes(1...10)
        let end = try place(engine)
        expect(.consumerUnknown) { try engine.advance([ConsumerAdvance(name: "nobody", from: start, to: end)]) }
        try engine.advance([ConsumerAdvance(name: "reader", from: start, to: end)])
        expect(.consumerConflict) { try engine.advance([ConsumerAdvance(name: "reader", from: start, to: end)]) }
        // The same number with another tag is another transaction.
        let other = TransactionPlace(number: end.number, tag: end.tag ^ 1)
        expect(.consumerConflict) { try engine.advance([ConsumerAdvance(name: "reader", from: other, to: end)]) }
        expect(.invalidArgument) { try engine.advance([ConsumerAdvance(name: "reader", from: end, to: start)]) }
        let later = TransactionPlace(number: end.number + 1, tag: 1)
        expect(.invalidArgument) { try engine.advance([ConsumerAdvance(name: "reader", from: end, to: later)]) }
        #expect(try engine.resetConsumer("reader", to: start).place == start)
        expect(.invalidArgument) { _ = try engine.register("", .reads) }
        expect(.invalidArgument) { _ = try engine.register(String(repeating: "x", count: 1025), .reads) }
        expect(.invalidArgument) { _ = try engine.register("nothing", []) }
        try machine.closeAndCheck(engine)
    }

    @Test func cleaningOvertakesAConsumer() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let start = try place(engine)
        _ = try engine.register("reader", .reads)
        _ = try engine.insertNotes(1...300)
        let middle = try engine.view(asOf: start.number + 1)
        let end = try place(engine)
        try engine.deleteHistory(before: end.number + 1)
        let seen = TransactionPlace(number: middle.number, tag: middle.tag)
        expect(.consumerLost) { try engine.advance([ConsumerAdvance(name: "reader", from: start, to: seen)]) }
        // What it has missed it cannot have read, wherever it claims to be.
        expect(.consumerLost) { try engine.advance([ConsumerAdvance(name: "reader", from: start, to: end)]) }
        #expect(engine.tracking.consumer("reader")?.place == start)
        _ = try engine.resetConsumer("reader", to: end)
        try engine.advance([ConsumerAdvance(name: "reader", from: end, to: end)])
        try machine.closeAndCheck(engine)
    }

    @Test func aCursorInATransactionMovesWithItOrNotAtAll() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        _ = try engine.register("reader", .reads)
        let start = try place(engine)
        let ids = try engine.insertNotes(1...3)
        let end = try place(engine)
        // Abandoned: neither.
        struct Abandoned: Error {}
        #expect(throws: Abandoned.self) {
            try engine.commit { pending in
                try pending.update(ids[0], [(EngineNote.rank, .int(70))])
                try pending.advance("reader", from: start, to: end)
                throw Abandoned()
            }
        }
        #expect(engine.tracking.consumer("reader")?.place == start)
        for durability in [Durability.relaxed, .full] {
            let from = try #require(engine.tracking.consumer("reader")).place
            let to = try place(engine)
            let (_, transaction) = try engine.commit(durability: durability) { pending in
                try pending.update(ids[0], [(EngineNote.rank, .int(durability == .full ? 71 : 72))])
                try pending.advance("reader", from: from, to: to)
            }
            #expect(transaction != nil && engine.tracking.consumer("reader")?.place == to)
        }
        // Another cursor there: nothing of the transaction counts.
        let before = try place(engine)
        for inWrite in [false, true] {
            expect(.consumerConflict) {
                let body: (Draft) throws -> Void = { pending in
                    try pending.update(ids[1], [(EngineNote.rank, .int(99))])
                    try pending.advance("reader", from: start, to: before)
                }
                _ = inWrite ? try engine.write(body).transaction : try engine.commit(body).transaction
            }
        }
        #expect(try engine.view().rank(ids[1]) == 2)
        #expect(try place(engine) == before)
        // Nothing changed but the cursor: no transaction.
        let from = try #require(engine.tracking.consumer("reader")).place
        for inWrite in [false, true] {
            let body: (Draft) throws -> Void = { pending in
                try pending.advance("reader", from: inWrite ? before : from, to: before)
            }
            let transaction = inWrite ? try engine.write(body).transaction : try engine.commit(body).transaction
            #expect(transaction == nil)
        }
        #expect(engine.tracking.consumer("reader")?.place == before)
        #expect(try place(engine) == before)
        // Twice in one transaction: from where the first has led.
        try engine.resetConsumer("reader", to: start)
        _ = try engine.commit { pending in
            try pending.advance("reader", from: start, to: end)
            try pending.advance("reader", from: end, to: before)
            let error = #expect(throws: StoreError.self) { try pending.advance("reader", from: end, to: before) }
            #expect(error?.code == .consumerConflict)
        }
        #expect(engine.tracking.consumer("reader")?.place == before)
        try machine.closeAndCheck(engine)
    }

    @Test func aCursorIsWrittenWhenItMoves() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let other = StoreHandle(try machine.open(2))
        var last = try place(store.current)
        _ = try store.current.register("reader", .reads)
        for index in 1...5 {
            _ = try store.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("n \(index)", 1)) }
            let next = try place(store.current)
            try store.advance(ConsumerAdvance(name: "reader", from: last, to: next))
            #expect(try other.newest().engine.tracking.consumer("reader")?.place == next)
            last = next
        }
        let start = TransactionPlace(number: last.number - 1, tag: 0)
        expect(.consumerConflict) {
            try store.advance(ConsumerAdvance(name: "reader", from: start, to: last))
        }
        try store.close()
        try other.close()
        try expectIntact(machine)
    }

    @Test func theSecondOfTwoHandlesThatMoveAConsumerGetsAConflict() throws {
        let machine = EngineMachine()
        let store = StoreHandle(try machine.create())
        let other = StoreHandle(try machine.open(2))
        let start = try place(store.current)
        _ = try store.current.register("reader", .reads)
        _ = try store.current.insertNotes(1...300)
        let middle = TransactionPlace(number: start.number + 1, tag: try store.current.view(asOf: start.number + 1).tag)
        let end = try place(store.current)
        try store.advance(ConsumerAdvance(name: "reader", from: start, to: middle))
        try store.advance(ConsumerAdvance(name: "reader", from: middle, to: end))
        expect(.consumerConflict) {
            try other.advance(ConsumerAdvance(name: "reader", from: middle, to: end))
        }
        _ = try store.current.insertNotes(301...301)
        let newest = try place(store.current)
        try store.advance(ConsumerAdvance(name: "reader", from: end, to: newest))
        expect(.consumerConflict) {
            try other.advance(ConsumerAdvance(name: "reader", from: end, to: newest))
        }
        try store.close()
        try other.close()
        try expectIntact(machine)
    }
}

@Suite struct RetentionTests {
    private func machine() -> EngineMachine {
        var machine = EngineMachine()
        machine.options.appliesRetention = true
        machine.options.retentionCheckMicroseconds = 1_000_000
        machine.options.retentionCheckBytes = 4096
        return machine
    }

    private static let day: UInt64 = 24 * hour
    private static let hour: UInt64 = 3600 * 1_000_000

    /// A clock that is 8 days ahead for less than an hour takes nothing, whichever handle commits, and neither does its
    /// correction.
    @Test(arguments: [false, true]) func aClockThatIsAheadRemovesNothing(_ isOpenedAgain: Bool) throws {
        let machine = machine()
        let environment = machine.machine.environment
        var engine = try machine.create()
        _ = try engine.register("reader", .reads)
        _ = try engine.insertNotes(1...2000)
        var note = 2000
        func insert(after microseconds: UInt64) throws {
            environment.advance(byMicroseconds: microseconds)
            if isOpenedAgain {
                try engine.close()
                engine = try machine.open()
            }
            note += 1
            _ = try engine.insertNotes(note...note)
        }
        let right = environment.wallClockMicroseconds()
        environment.setWallClock(right + 8 * Int64(Self.day))
        for _ in 1...11 { try insert(after: Self.hour / 12) }
        #expect(engine.tracking.horizon == 0)
        environment.setWallClock(right + Int64(Self.hour))
        for _ in 1...8 { try insert(after: Self.hour / 3) }
        #expect(engine.tracking.horizon == 0)
        // Once more ahead, and now for longer than an hour.
        environment.setWallClock(right + 9 * Int64(Self.day))
        try insert(after: 0)
        #expect(engine.tracking.horizon == 0)
        for _ in 1...4 { try insert(after: Self.hour / 3) }
        #expect(engine.tracking.horizon > 0)
        try machine.closeAndCheck(engine)
    }

    /// What the correction of a clock takes back is looked at by the handle that saw the jump, too.
    @Test func retentionContinuesAfterAClockIsCorrected() throws {
        let machine = machine()
        let engine = try machine.create()
        try engine.setRetention(RetentionLimits(microseconds: Self.hour, bytes: .max))
        let right = machine.machine.environment.wallClockMicroseconds()
        machine.machine.environment.setWallClock(right + 100 * Int64(Self.day))
        _ = try engine.insertNotes(1...1)
        machine.machine.environment.setWallClock(right)
        for note in 2...21 {
            machine.machine.environment.advance(byMicroseconds: Self.hour / 3)
            _ = try engine.insertNotes(note...note)
        }
        _ = try engine.deleteHistory(before: 4)
        for note in 22...24 {
            machine.machine.environment.advance(byMicroseconds: Self.hour / 3)
            _ = try engine.insertNotes(note...note)
        }
        #expect(engine.tracking.horizon > 3)
        try machine.closeAndCheck(engine)
    }

    @Test func historyOlderThanSevenDaysIsRemovedByDefault() throws {
        let machine = machine()
        let engine = try machine.create()
        #expect(engine.tracking.retention == .standard)
        _ = try engine.insertNotes(1...2000)
        let old = try engine.view().number
        machine.machine.environment.advance(byMicroseconds: 6 * Self.day)
        _ = try engine.insertNotes(2001...2010)
        #expect(engine.tracking.horizon == 0)
        machine.machine.environment.advance(byMicroseconds: Self.day + 1_000_000)
        _ = try engine.insertNotes(2011...2011)
        // The new time has to last for an hour.
        #expect(engine.tracking.horizon == 0)
        machine.machine.environment.advance(byMicroseconds: Self.hour + 1_000_000)
        _ = try engine.insertNotes(2100...2100)
        #expect(engine.tracking.horizon == old)
        // For ever.
        try engine.setRetention(RetentionLimits(microseconds: .max, bytes: .max))
        machine.machine.environment.advance(byMicroseconds: 400 * Self.day)
        _ = try engine.insertNotes(2012...2012)
        #expect(engine.tracking.horizon == old)
        // Kept by checkpoints and compaction.
        try engine.writeCheckpoint()
        try engine.close()
        let store = StoreHandle(try machine.open())
        _ = try store.compact(.lowered)
        #expect(store.current.tracking.retention == RetentionLimits(microseconds: .max, bytes: .max))
        #expect(store.current.tracking.horizon == old)
        // Off: what is there goes with the next commit.
        try store.current.setRetention(RetentionLimits(microseconds: 0, bytes: .max))
        let last = try store.newest().view.number
        _ = try store.current.insertNotes(2013...2013)
        #expect(store.current.tracking.horizon > last)
        try store.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact, "\(report.findings)")
    }

    /// Whatever removes history, and whether the consumer reads as well.
    @Test(arguments: [.holds, [.reads, .holds], [.writes, .holds]] as [ConsumerKind])
    func nothingRemovesHeldHistory(_ kind: ConsumerKind) throws {
        func place(_ engine: Engine) throws -> TransactionPlace {
            let view = try engine.view()
            return TransactionPlace(number: view.number, tag: view.tag)
        }
        let machine = machine()
        let engine = try machine.create()
        for note in 1...5 { _ = try engine.insertNotes(note...note) }
        let held = try place(engine)
        _ = try engine.register("mirror", kind)
        for note in 6...9 { _ = try engine.insertNotes(note...note) }
        #expect(try engine.estimate(before: .max, in: engine.view()).before == held.number + 1)
        _ = try engine.deleteHistory(before: .max, authors: [nil])
        #expect(engine.tracking.hiddenBefore(0) == held.number + 1)
        let limits = [RetentionLimits(microseconds: 0, bytes: .max), RetentionLimits(microseconds: .max, bytes: 0)]
        for (index, limits) in limits.enumerated() {
            try engine.setRetention(limits)
            _ = try engine.insertNotes((10 + index)...(10 + index))
            #expect(engine.tracking.horizon <= held.number)
        }
        _ = try engine.deleteHistory(before: .max)
        #expect(engine.tracking.horizon == held.number)
        // Kept by compaction, and by a program that opens the store later.
        try engine.close()
        let store = StoreHandle(try machine.open())
        _ = try store.compact(.lowered)
        #expect(try !store.current.deleteHistory(before: .max))
        #expect(store.current.tracking.horizon == held.number)
        // It goes as far as the consumer, and all of it when the consumer is gone.
        let later = try place(store.current)
        try store.current.advance([ConsumerAdvance(name: "mirror", from: held, to: later)])
        _ = try store.current.insertNotes(12...12)
        _ = try store.current.deleteHistory(before: .max)
        #expect(store.current.tracking.horizon == later.number)
        #expect(try store.current.removeConsumer("mirror"))
        _ = try store.current.deleteHistory(before: .max)
        #expect(try store.current.tracking.horizon == store.newest().view.number)
        try store.close()
        let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
        #expect(report.isIntact, "\(report.findings)")
    }

    @Test func historyBeyondTheByteLimitIsRemoved() throws {
        let machine = machine()
        let engine = try machine.create()
        let ids = try engine.insertNotes(1...100)
        // Rows that are there do not count.
        try engine.setRetention(RetentionLimits(microseconds: .max, bytes: 1 << 20))
        _ = try engine.insertNotes(101...5000)
        #expect(engine.tracking.horizon == 0)
        for round in 0..<400 {
            _ = try engine.commit { pending in
                for id in ids { try pending.update(id, [(EngineNote.rank, .int(Int64(round * 1000)))]) }
            }
        }
        let horizon = engine.tracking.horizon
        let view = try engine.view()
        #expect(horizon > 100 && horizon < view.number)
        // What is left is about what was requested; a check has been due since at most the last 4 KiB and the MiB of a
        // landmark.
        let kept = view.end - (try engine.view(asOf: horizon).end)
        #expect(kept < 3 << 20 && kept > 1 << 19, "\(kept)")
        try machine.closeAndCheck(engine)
    }

    /// As the search for the first transaction that is young enough does it, against looking at each.
    @Test(arguments: [1, 2, 3, 7, 64, 65, 200]) func theFirstRetainedTransactionIsFound(_ count: Int) throws {
        let machine = machine()
        let engine = try machine.create()
        var times: [Int64] = []
        for index in 0..<count {
            machine.machine.environment.advance(byMicroseconds: UInt64(1 + index * 7919 % 1000) * 1_000_000)
            _ = try engine.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("\(index)", 1)) }
        }
        try engine.tracked(engine.view()).forEachTransaction(after: 0) { (transaction) in
            times.append(transaction.time)
            return true
        }
        for (index, time) in times.enumerated() {
            let now = machine.machine.environment.wallClockMicroseconds()
            // Two looks at the clock later: the limit is then between this transaction's time and the one before.
            try engine.setRetention(RetentionLimits(microseconds: UInt64(now - time) + 1000, bytes: .max))
            #expect(try engine.firstRetained(in: engine.view()) == UInt64(index + 1))
        }
        try engine.setRetention(RetentionLimits(microseconds: 0, bytes: .max))
        #expect(try engine.firstRetained(in: engine.view()) == UInt64(times.count + 1))
        try machine.closeAndCheck(engine)
    }
}

extension StoreHandle {
    fileprivate func advance(_ advance: ConsumerAdvance) throws {
        try onNewest { (engine) throws(StoreError) in try engine.advance([advance]) }
    }
}
