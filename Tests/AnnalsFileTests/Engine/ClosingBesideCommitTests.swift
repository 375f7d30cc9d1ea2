// G5: a thread closes the handle while another one appends. The call that appended is acknowledged, and is true.

import Annals
import SimulatedDisk
import TestSupport
import Testing

@Suite struct ClosingBesideCommitTests {
    /// The calls that append. An index is built before its transaction is appended: closing then refuses both.
    enum Way: CaseIterable, Sendable {
        case commit, write, schema, advance, cleaning, reservation
    }

    private func append(_ way: Way, _ engine: Engine, _ durability: Durability) throws {
        switch way {
        case .commit:
            _ = try engine.commit(durability: durability) {
                try $0.insert(entity: EngineNote.entity, EngineNote.row("new", 2))
            }
        case .write:
            _ = try engine.write(durability: durability) {
                try $0.insert(entity: EngineNote.entity, EngineNote.row("new", 2))
            }
        case .schema:
            let other = EntityDefinition(
                number: 2, name: "Other", attributes: [AttributeDefinition(number: 1, type: .string, name: "title")])
            _ = try engine.commit(durability: durability) { try $0.changeSchema([EngineNote.withoutRankIndex, other]) }
        case .advance: _ = try engine.register("reader", .reads, durability: durability)
        case .cleaning: try engine.deleteHistory(before: 2, durability: durability)
        case .reservation: _ = try engine.reserveObjects(of: EngineNote.entity, count: 5, durability: durability)
        }
    }

    /// The closing thread begins at the first byte that is written. It refuses new calls before the append goes on.
    @Test(arguments: Way.allCases, [Durability.full, .relaxed])
    func aCommitThatClosingInterruptsIsStillAcknowledged(_ way: Way, _ durability: Durability) throws {
        let machine = EngineMachine()
        let engine = try machine.create(1, EngineNote.withoutRankIndex)
        _ = try engine.insertNotes(1...3)
        let before = engine.log.current.end
        let closing = Guarded<BackgroundThread?>(nil)
        let failures = Guarded<[String]>([])
        machine.machine.disk.setOnCall { (call) throws(StoreError) in
            guard call.kind == .write, closing.withLock({ $0 == nil }) else { return }
            let thread = try BackgroundThread(name: "closes") {
                do { try engine.log.close() } catch { failures.withLock { $0.append("\(error)") } }
            }
            closing.withLock { $0 = thread }
            while (try? engine.log.whileOpen {}) != nil { RealEnvironment().sleep(microseconds: 100) }
        }
        try append(way, engine, durability)
        let thread = try #require(closing.withLock { $0 })
        thread.join()
        machine.machine.disk.setOnCall(nil)
        #expect(failures.withLock { $0 } == [])
        // Closing has made the rest durable, too.
        machine.machine.disk.cutPower()
        let again = try machine.open()
        #expect(again.log.current.end > before)
        try machine.closeAndCheck(again)
    }
}
