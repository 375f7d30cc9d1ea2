// Opening and following beside a writer that writes more with each read of the reader.

import Annals
import SimulatedDisk
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(20))) struct FastWriterTests {
    /// A store with a reader's handle, and a writer that commits whenever the reader has read.
    private func beside(
        _ reading: FileReading, _ body: (EngineMachine, () throws -> UInt64) throws -> Void
    ) throws {
        var machine = EngineMachine()
        machine.options.reading = reading
        machine.options.log.limits = LogLimits()
        machine.options.log.limits.mappingReserveBytes = 64 << 20
        machine.options.log.limits.windowBytes = 1 << 16
        (machine.options.checkpointTailBytes, machine.options.closingTailBytes) = (1 << 30, 1 << 30)
        let engine = try machine.create()
        _ = try engine.insertNotes(1...3000)
        let count = Atomic<Int>(0)
        let isWriting = Atomic<Bool>(true)
        machine.machine.disk.setOnCall { (call) throws(StoreError) in
            // More than any reader needs that ends.
            guard call.process == 2, call.kind == .read || call.kind == .content, isWriting.load(ordering: .relaxed)
            else { return }
            let number = count.add(1, ordering: .relaxed).newValue
            guard number < 2000 else {
                throw StoreError(.inputOutput, "The reader goes on without an end.")
            }
            do {
                _ = try engine.commit(durability: .relaxed) { pending in
                    _ = try pending.insert(entity: EngineNote.entity, EngineNote.row("\(number)", 1))
                }
            } catch {
                Issue.record("\(error)")
            }
        }
        try body(machine) { engine.log.current.lastNumber }
        isWriting.store(false, ordering: .relaxed)
        machine.machine.disk.setOnCall(nil)
        try machine.closeAndCheck(engine)
    }

    @Test(arguments: [FileReading.mapped, .copied])
    func aReaderOpensWithEveryAcknowledgedCommit(reading: FileReading) throws {
        try beside(reading) { (machine, last) in
            let before = try last()
            let reader = try machine.open(2, access: .readOnly)
            #expect(reader.log.current.lastNumber >= before)
            let acknowledged = try last()
            #expect(try reader.view().number >= acknowledged)
            try reader.close()
        }
    }
}
