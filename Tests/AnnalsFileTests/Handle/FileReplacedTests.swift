// A file that somebody renames or writes over an open store: what the handle says of it.

import Annals
import SimulatedDisk
import Testing

@Suite struct FileReplacedTests {
    private func makeStore(_ reading: FileReading) throws -> (
        machine: EngineMachine, store: StoreHandle, older: [UInt8]
    ) {
        var machine = EngineMachine()
        machine.options.reading = reading
        let engine = try machine.create()
        _ = try engine.insertNotes(1...10)
        let older = try #require(machine.machine.disk.contents(of: EngineMachine.path))
        _ = try engine.insertNotes(11...20)
        return (machine, StoreHandle(engine), older)
    }

    private func expect(_ code: StoreError.Code, saying words: String, _ body: () throws -> Void) {
        let error = #expect(throws: StoreError.self) { try body() }
        #expect(error?.code == code && error?.message.contains(words) == true, "\(error?.description ?? "")")
    }

    @Test(arguments: [FileReading.mapped, .copied]) func aSnapshotNoticesAnOlderCopyWithinASecond(reading: FileReading)
        throws
    {
        let (machine, store, older) = try makeStore(reading)
        let before = try store.newest().view
        machine.machine.disk.install(older, at: "/data/copy.annals")
        let files = machine.machine.files(5)
        try files.rename("copy.annals", to: "s.annals", in: files.openDirectory("/data"))
        machine.machine.environment.advance(byMicroseconds: 1_000_000)
        // Not only the first time.
        for _ in 1...3 { expect(.storeReplaced, saying: "open the store again") { _ = try store.newest() } }
        // What was read before is still there.
        #expect(try before.titles().count == 20)
        try? store.close()
        let again = try machine.open(6)
        #expect(try again.view().titles().count == 10)
        try machine.closeAndCheck(again)
    }

    @Test(arguments: [FileReading.mapped, .copied]) func anotherStoreWrittenOverTheFileIsNotALostTail(
        reading: FileReading
    )
        throws
    {
        let (machine, store, _) = try makeStore(reading)
        let other = EngineMachine()
        other.machine.environment.setWallClock(1_800_000_000_000_000)
        let another = try other.create()
        _ = try another.insertNotes(1...100)
        try another.close()
        let bytes = try #require(other.machine.disk.contents(of: EngineMachine.path))
        try write(bytes, at: 0, machine)
        for _ in 1...2 { expect(.storeReplaced, saying: "overwritten") { _ = try store.newest() } }
        expect(.storeReplaced, saying: "overwritten") {
            _ = try store.commit { try $0.insert(entity: EngineNote.entity, EngineNote.row("new", 1)) }
        }
        try? store.close()
        try expectIntact(machine.machine.disk)
    }

    @Test(arguments: [FileReading.mapped, .copied])
    func aLostTailIsStillReportedAsDiverged(reading: FileReading) throws {
        let (machine, store, _) = try makeStore(reading)
        let engine = try store.newest().engine
        let last = try #require(engine.log.current.lastFrame)
        let zeros = [UInt8](repeating: 0, count: Int(engine.log.current.end - last))
        try write(zeros, at: last, machine)
        expect(.diverged, saying: "Open the store again") { _ = try store.newest() }
        try? store.close()
        try expectIntact(machine.machine.disk)
    }

    private func write(_ bytes: [UInt8], at offset: UInt64, _ machine: EngineMachine) throws {
        let files = machine.machine.files(5)
        let file = try files.open("s.annals", in: files.openDirectory("/data"), access: .readWrite)
        _ = try bytes.withUnsafeBytes { try files.write(file, at: offset, from: $0) }
        files.close(file)
    }
}
