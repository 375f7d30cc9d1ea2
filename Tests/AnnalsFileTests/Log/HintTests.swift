// Hints while a store is open: what a cut file tells of itself.

import Annals
import SimulatedDisk
import Testing

@Suite struct HintTests {
    /// Commits `count` notes, one every 200 ms, and says where the file ended after each.
    private func commit(_ count: Int, _ engine: Engine, _ machine: EngineMachine, _ durability: Durability) throws
        -> [UInt64]
    {
        var ends: [UInt64] = []
        for note in 1...count {
            machine.machine.environment.advance(byMicroseconds: 200_000)
            _ = try engine.commit(durability: durability) { pending in
                try pending.insert(entity: EngineNote.entity, EngineNote.row("\(note)", 1))
            }
            ends.append(try engine.view().end)
        }
        return ends
    }

    private func opens(_ bytes: [UInt8]) -> Bool {
        let machine = EngineMachine()
        machine.machine.disk.install(bytes, at: EngineMachine.path)
        guard let engine = try? machine.open() else { return false }
        try? engine.close()
        return true
    }

    @Test func aCutBelowBytesThatWereDurableForASecondIsDamage() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let ends = try commit(30, engine, machine, .full)
        let bytes = try #require(machine.machine.disk.contents(of: EngineMachine.path))
        #expect(opens(bytes))
        for (number, end) in ends.enumerated() {
            // Six commits are more than a second, and a commit is noted with the next one.
            if number + 8 < ends.count {
                #expect(!opens(Array(bytes[..<Int(end)])), "cut after commit \(number + 1) of \(ends.count)")
            }
        }
        // The file itself is as intact as before, and its hints are good.
        let disk = SimulatedDisk()
        disk.install(bytes, at: EngineMachine.path)
        let report = try Checker.check(EngineMachine.path, files: disk)
        #expect(!report.hasDamage, "\(report.findings)")
        try machine.closeAndCheck(engine)
    }

    /// Nothing that a power cut can take is promised.
    @Test func aHintNamesNothingThatIsNotDurable() throws {
        let machine = EngineMachine()
        let engine = try machine.create()
        let durable = engine.durableEnd
        _ = try commit(30, engine, machine, .relaxed)
        let bytes = try #require(machine.machine.disk.contents(of: EngineMachine.path))
        #expect(opens(Array(bytes[..<Int(durable)])))
        try machine.closeAndCheck(engine)
    }
}
