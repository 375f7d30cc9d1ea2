// What fuzzing has found, each as the smallest store that shows it; the inputs as found are in the corpus.

import Annals
import SimulatedDisk
import Testing

@Suite struct FuzzFindingTests {
    /// A store without frames, of which the header tells of transactions before.
    private func machine(time: Int64, clock: Int64) -> Machine {
        let header = FileHeader(
            storeID: UUIDBytes(high: 1, low: 2), generation: 1, salt: 3, created: 0, baseNumber: 1, baseTag: 4,
            baseTime: time)
        let machine = Machine()
        machine.disk.install(header.encoded() + [UInt8](repeating: 0, count: 4096), at: Machine.path)
        machine.environment.setWallClock(clock)
        return machine
    }

    @Test func theRestOfATornTailIsZeroAfterTheSeal() throws {
        let machine = Machine()
        let log = try machine.create()
        try log.defineNotes()
        let end = Int(log.current.end)
        machine.disk.kill(1)
        let whole = try #require(machine.disk.contents(of: Machine.path))
        let torn = whole[..<end] + [UInt8](repeating: 0xAB, count: 4000)
        machine.disk.install(Array(torn), at: Machine.path)
        let again = try machine.open(2)
        #expect(again.openingReport.tornTail == UInt64(end))
        try again.insertNote(1, Note.row("after"))
        try again.close()
        let reader = try machine.open(3, access: .readOnly)
        #expect(reader.openingReport.tornTail == nil)
        #expect(reader.current.recoveries == 1)
        let bytes = try #require(machine.disk.contents(of: Machine.path))
        #expect(bytes.dropFirst(Int(reader.current.end)).elementsEqual(repeatElement(0, count: 4096)))
    }

    /// Opened, nothing could have been committed after it.
    @Test func aBaseThatEndsInTheMiddleOfAValueDoesNotOpen() throws {
        var file = ForgedFile(generation: 1)
        file.addValue([UInt8](repeating: 1, count: 640), of: 1000, isMember: false)
        let machine = Machine()
        machine.disk.install(file.bytes + [UInt8](repeating: 0, count: 4096), at: Machine.path)
        for access in [FileAccess.readOnly, .readWrite] {
            let error = #expect(throws: StoreError.self) { try machine.open(1, access: access) }
            #expect(error?.code == .damaged && error?.message.hasPrefix("F24") ?? false, "\(error?.description ?? "")")
        }
        #expect(try !Checker.check(Machine.path, files: machine.files()).isIntact)
    }

    @Test func nothingFollowsTheHighestGeneration() throws {
        let machine = EngineMachine()
        machine.machine.disk.install(ForgedFile(generation: .max).finished(), at: EngineMachine.path)
        let store = StoreHandle(try machine.open())
        do {
            _ = try store.compact(.lowered)
            Issue.record("a generation followed the highest one")
        } catch {
            #expect(error.code == .tooLarge)
        }
        try store.close()
    }

    @Test func nothingFollowsTheHighestTimeButAClockStep() throws {
        let log = try machine(time: .max, clock: .max).open()
        do {
            try log.defineNotes()
            Issue.record("a transaction followed the one with the highest time")
        } catch let error as StoreError {
            #expect(error.code == .tooLarge)
        }
        let machine = machine(time: .max, clock: .min + 10)
        let stepping = try machine.open()
        try stepping.defineNotes()
        try stepping.close()
        #expect(try machine.open(2).current.lastTime < 0)
    }

    @Test func aCatalogOfHighEntityNumbersIsCheapToCopy() throws {
        var catalog = SchemaCatalog()
        var copies: [SchemaCatalog] = []
        for version: UInt16 in 1...300 {
            copies.append(catalog)
            let entity = EntityDefinition(number: .max - version, name: "e\(version)", attributes: [])
            try catalog.apply(SchemaDefinition(version: version, entities: [entity]))
        }
        for version: UInt16 in 1...300 {
            #expect(copies[Int(version) - 1].newestVersion == version - 1)
            #expect(catalog.definition(version: version).entities.map(\.number) == [.max - version])
        }
        #expect(catalog.entities(version: 300).count == 300)
        #expect(!catalog.isUsed(entity: 1) && !catalog.isUsed(entity: .max))
    }
}
