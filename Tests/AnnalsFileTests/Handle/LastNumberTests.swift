// Where transaction numbers end: a limit that leaves room for the number after each, in memory and in the file.

import Annals
import SimulatedDisk
import Testing

@Suite struct LastNumberTests {
    private static let last = FormatLimits.maximumTransactionNumber

    /// A compacted store without content, whose base is that transaction.
    private func install(base number: UInt64, on machine: EngineMachine) {
        let header = FileHeader(
            storeID: UUIDBytes(high: 1, low: 2), generation: 1, salt: 3, created: 4, baseNumber: number, baseTag: 5,
            baseTime: 6)
        machine.machine.disk.install(header.encoded(), at: EngineMachine.path)
    }

    private func expect(_ code: StoreError.Code, _ body: () throws -> Void) {
        let error = #expect(throws: StoreError.self) { try body() }
        #expect(error?.code == code, "\(error?.description ?? "")")
    }

    @Test func theLastTransactionIsReadCleanedAndCompactedLikeAnyOther() throws {
        let machine = EngineMachine()
        install(base: Self.last - 3, on: machine)
        let store = StoreHandle(try machine.open())
        _ = try store.current.commit { try $0.changeSchema([EngineNote.definition]) }
        _ = try store.current.insertNotes(1...1)
        let ids = try store.current.insertNotes(2...2)
        expect(.tooLarge) { _ = try store.current.insertNotes(3...3) }
        var numbers: [UInt64] = []
        try store.current.tracked(try store.current.view()).forEachTransaction(after: Self.last - 2) {
            numbers.append($0.number)
            return true
        }
        #expect(numbers == [Self.last - 1, Self.last])
        try store.current.deleteHistory(before: .max, authors: ["tests"])
        try store.current.deleteHistory(before: .max)
        #expect(store.current.tracking.horizon == Self.last && store.current.tracking.hidden.isEmpty)
        _ = try store.compact(.lowered)
        #expect(store.current.log.header.baseNumber == Self.last)
        try store.close()
        let engine = try machine.open()
        #expect(try engine.view().number == Self.last && engine.view().title(ids[0]) == "note 2")
        expect(.tooLarge) { _ = try engine.insertNotes(3...3) }
        try machine.closeAndCheck(engine)
    }

    /// A compacted store that begins with a checkpoint, which the hint names, and goes on with a cleaning frame.
    private func forged(_ change: (inout CheckpointContent) -> Void) -> [UInt8] {
        var file = ForgedFile(generation: 1)
        file.addCheckpoint(change)
        let cleaning = CleaningRecord(before: 0, time: 1, hidden: [.init(author: 0, before: 2)])
        file.add(.cleaning, table: cleaning.encoded())
        return file.finished()
    }

    @Test func aCheckpointThatNamesMissingTransactionsIsDamage() throws {
        let reader = ConsumerRecord(
            name: "reader", kind: [.reads], cursor: .max, tag: 0, lastSeen: 0, registered: 0, processID: 1)
        let changes: [(inout CheckpointContent) -> Void] = [
            { $0.number = Self.last + 1 }, { $0.number = .max }, { $0.horizon = 6 }, { $0.horizon = .max },
            { $0.hidden = [.init(author: 0, before: 7)] }, { $0.hidden = [.init(author: 0, before: .max)] },
            { $0.consumers = [reader] },
        ]
        for change in changes {
            let machine = EngineMachine()
            machine.machine.disk.install(forged(change), at: EngineMachine.path)
            // Without the checkpoint the file is read from its beginning, where no such transaction is.
            expect(.damaged) { _ = try machine.open() }
            #expect(try !Checker.check(EngineMachine.path, files: machine.machine.files()).isIntact)
        }
        // The same with nothing forged but its place: it is believed.
        let machine = EngineMachine()
        machine.machine.disk.install(forged { $0.horizon = 5 }, at: EngineMachine.path)
        #expect(try machine.open().tracking.horizon == 5)
    }

    @Test func aBaseWithoutRoomForANextNumberIsDamage() throws {
        for number in [Self.last + 1, .max] {
            let machine = EngineMachine()
            install(base: number, on: machine)
            expect(.damaged) { _ = try machine.open() }
            let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
            #expect(report.findings.map(\.rule) == ["F1"])
        }
    }
}
