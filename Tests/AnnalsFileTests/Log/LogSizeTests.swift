// How long the file is: writers rely on what they know of it, and readers look beyond the end through a mapping, so it
// must not be short for anybody.

import Annals
import SimulatedDisk
import Testing

@Suite struct LogSizeTests {
    /// The file reaches one page beyond the end that a handle knows.
    private func expectReach(_ machine: Machine, _ log: Log, sourceLocation: SourceLocation = #_sourceLocation) {
        let size = machine.disk.contents(of: Machine.path)?.count ?? 0
        #expect(size >= Int(log.current.end) + FormatLimits.pageBytes, sourceLocation: sourceLocation)
    }

    /// One handle fails to write, with nothing or something of its transaction in the file, and returns what it can;
    /// the other one, who has known the file's size since before, goes on.
    @Test(arguments: [0, 8, 100, 400], [28 as Int32, 122, 4])
    func aFailedWriterKeepsTheSpaceThatAnotherHandleKnows(bytes: Int, error: Int32) throws {
        let machine = Machine(limits: .lowered)
        let first = try machine.create()
        try first.defineNotes()
        let second = try machine.open(2)
        for number in 1...3 {
            try first.insertNote(number * 2, Note.row("a\(number)"), durability: .relaxed)
            try second.insertNote(number * 2 + 1, Note.row("b\(number)"), durability: .relaxed)
        }
        // Once more, so that nothing was adopted since it asked for the size.
        try first.insertNote(10, Note.row("a10"), durability: .relaxed)
        try second.insertNote(11, Note.row("b11"), durability: .relaxed)
        try first.insertNote(12, Note.row("a12"), durability: .relaxed)
        _ = try second.catchUp()
        if bytes > 0 { machine.disk.addFault(Fault(.short(bytes), on: .write, process: 2)) }
        machine.disk.addFault(
            Fault(.failure(error), on: .write, occurrence: bytes > 0 ? 2 : 1, isPermanent: true, process: 2))
        let transaction = second.makeFrames()
        for number in 20..<60 {
            try transaction.insert(Note.object(number), Note.row("c\(number)", nil, [UInt8](repeating: 1, count: 300)))
        }
        #expect(throws: StoreError.self) { try second.commit(transaction, durability: .relaxed) }
        machine.disk.removeAllFaults()
        expectReach(machine, first)
        for number in 100..<140 {
            try first.insertNote(
                number, Note.row("d\(number)", nil, [UInt8](repeating: 2, count: 900)), durability: .relaxed)
            expectReach(machine, first)
        }
        try second.insertNote(200, Note.row("e"), durability: .relaxed)
        expectReach(machine, second)
        #expect(try first.catchUp().lastNumber == second.current.lastNumber)
        try first.close()
        try second.close()
        try requireIntact(machine)
    }

    /// What one handle reserves the other does not cut.
    @Test func spaceReservedByAnotherHandleStays() throws {
        let machine = Machine(limits: .lowered)
        let first = try machine.create()
        try first.defineNotes()
        let second = try machine.open(2)
        for number in 1..<200 {
            let log = number % 3 == 0 ? second : first
            let before = machine.disk.contents(of: Machine.path)?.count ?? 0
            try log.insertNote(
                number, Note.row("n\(number)", nil, [UInt8](repeating: 3, count: number * 7)), durability: .relaxed)
            #expect((machine.disk.contents(of: Machine.path)?.count ?? 0) >= before)
            expectReach(machine, log)
        }
        try first.close()
        try second.close()
        try requireIntact(machine)
    }
}
