// Where transaction numbers end: a limit that leaves room for the number behind each, in memory and in the file.

import AnnalsFile
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

    private func expect(_ code: FileError.Code, _ body: () throws -> Void) {
        let error = #expect(throws: FileError.self) { try body() }
        #expect(error?.code == code, "\(error?.description ?? "")")
    }

    @Test func theLastTransactionIsReadCleanedAndCompactedLikeOthers() throws {
        let machine = EngineMachine()
        install(base: Self.last - 3, on: machine)
        let store = Generations(try machine.open())
        _ = try store.current.commit { try $0.changeSchema([EngineNote.definition]) }
        _ = try store.current.insertNotes(1...1)
        let ids = try store.current.insertNotes(2...2)
        expect(.tooLarge) { _ = try store.current.insertNotes(3...3) }
        var numbers: [UInt64] = []
        try store.current.forEachTransaction(after: Self.last - 2, in: try store.current.view()) {
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

    @Test func aBaseThatLeavesNoRoomForANumberBehindItIsRefused() throws {
        for number in [Self.last + 1, .max] {
            let machine = EngineMachine()
            install(base: number, on: machine)
            expect(.damaged) { _ = try machine.open() }
            let report = try Checker.check(EngineMachine.path, files: machine.machine.files())
            #expect(report.findings.map(\.rule) == ["F1"])
        }
    }
}
