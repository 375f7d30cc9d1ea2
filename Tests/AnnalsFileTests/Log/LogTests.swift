// The log on a simulated disk, one handle after the other: what is written comes back.

import Annals
import SimulatedDisk
import Testing

@Suite struct LogTests {
    @Test func aNewStoreIsEmptyAndOpensAgain() throws {
        let machine = Machine()
        let log = try machine.create()
        #expect(log.current.lastNumber == 0)
        #expect(log.current.end == 4096)
        try log.close()
        let again = try machine.open()
        #expect(again.header == log.header)
        #expect(again.openingReport.tornTail == nil)
        #expect(machine.disk.names(in: "/data") == ["s.annals"])
        try expectIntact(machine.disk, isSealed: false)
    }

    @Test func transactionsAreReadBackWithNumbersAndNames() throws {
        let machine = Machine()
        let log = try machine.create()
        try log.defineNotes()
        for number in 1...20 {
            try log.insertNote(number, Note.row("note \(number)", Int64(number)), author: "a\(number % 3)")
        }
        let before = log.current
        try log.close()
        let again = try machine.open(access: .readOnly)
        #expect(again.current.lastNumber == 21)
        #expect(again.current.lastTag == before.lastTag)
        #expect(again.current.names == before.names)
        #expect(again.current.isSealed)
        #expect(again.openingReport.fileBytes == again.current.end + 4096)
        try expectIntact(machine.disk, isSealed: true)
    }

    @Test func aLongTransactionIsSeveralFramesAndCountsAsOne() throws {
        let machine = Machine(limits: .lowered)
        let log = try machine.create()
        try log.defineNotes()
        let transaction = log.makeFrames()
        for number in 1...500 {
            try transaction.insert(
                Note.object(number), Note.row("note \(number)", nil, [UInt8](repeating: 7, count: number * 5)))
        }
        let appended = try log.commit(transaction)
        #expect(appended.number == 2)
        #expect(log.current.frames > 100)
        try log.close()
        let again = try machine.open()
        #expect(again.current.lastTag == appended.tag)
        let report = try expectIntact(machine.disk, isSealed: true)
        #expect(report.counts.changes == 500 && report.counts.largeValues == 398)
    }
}
