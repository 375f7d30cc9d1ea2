// Opening reads at most twice the bytes that stand after the last checkpoint, whatever they are and however they are
// read.

import Annals
import SimulatedDisk
import Testing

@Suite struct TailReadingTests {
    /// What stands after the checkpoint.
    enum Tail: CaseIterable, Sendable {
        case transactions, updates, parts, smallParts, largeValues, consumers, consumersInTransactions, names, cleaning
        case schemas, recoveriesAndSeals, checkpoints
    }

    @Test(arguments: Tail.allCases, [FileReading.mapped, .copied])
    func openingReadsAtMostTwiceTheTail(_ tail: Tail, reading: FileReading) throws {
        var machine = EngineMachine()
        machine.options = EngineOptions()
        machine.options.log.synchronizesInBackground = false
        machine.options.log.limits.mappingReserveBytes = 16 << 20
        // Little is read beyond the end.
        machine.options.log.limits.minimumPreallocationBytes = 4096
        machine.options.log.limits.maximumPreallocationBytes = 4096
        machine.options.log.limits.windowBytes = 8192
        if tail == .smallParts { machine.options.log.limits.maximumFrameBytes = 4096 }
        machine.options.appliesRetention = false
        (machine.options.checkpointTailBytes, machine.options.closingTailBytes) = (1 << 30, 1 << 30)
        var engine = try machine.create()
        let ids = try engine.insertNotes(1...1000)
        _ = try engine.register("reader", .reads)
        try engine.writeCheckpoint()
        if tail == .checkpoints { forgetHints(machine) }
        // The first tail brings in what it needs of the checkpoint.
        try write(tail, &engine, ids, 1, machine)
        let before = (end: engine.log.current.end, read: try bytesReadByOpening(machine, reading))
        try write(tail, &engine, ids, 2, machine)
        let tailBytes = Int(engine.log.current.end - before.end)
        #expect(tailBytes > 20_000)
        let read = try bytesReadByOpening(machine, reading) - before.read
        #expect(read <= 2 * tailBytes + 16384, "\(read) of \(tailBytes)")
        try machine.closeAndCheck(engine)
    }

    /// Without a hint everything is read, checkpoints included.
    private func forgetHints(_ machine: EngineMachine) {
        for offset in 1024..<FormatLimits.pageBytes {
            machine.machine.disk.corrupt(EngineMachine.path, at: offset, to: 0)
        }
    }

    private func bytesReadByOpening(_ machine: EngineMachine, _ reading: FileReading) throws -> Int {
        var machine = machine
        machine.options.reading = reading
        let before = machine.machine.disk.readBytes
        let engine = try machine.open(2, access: .readOnly)
        let read = machine.machine.disk.readBytes - before
        try engine.close()
        return read
    }

    private func write(
        _ tail: Tail, _ engine: inout Engine, _ ids: [ObjectID], _ round: Int, _ machine: EngineMachine
    ) throws {
        let name = "new \(round)"
        switch tail {
        case .transactions:
            for number in 1...200 { try insert(1, engine, named: "\(name) \(number)") }
        case .updates:
            for number in 1...200 {
                _ = try engine.commit(durability: .relaxed) {
                    try $0.update(ids[number % 2], [(EngineNote.rank, .int(Int64(number) - 9000 * Int64(round)))])
                }
            }
        case .parts, .smallParts:
            for number in 1...4 { try insert(500, engine, named: "\(name) \(number)") }
        case .largeValues:
            for number in 1...4 {
                _ = try engine.commit(durability: .relaxed) {
                    try $0.insert(
                        entity: EngineNote.entity,
                        [.string("\(name) \(number)"), .int(1), .data([UInt8](repeating: 7, count: 500_000))])
                }
            }
        case .consumers: for _ in 1...400 { try advance(engine) }
        case .consumersInTransactions:
            for number in 1...200 {
                let (from, to) = try step(engine)
                _ = try engine.commit(durability: .relaxed) { pending in
                    try pending.update(ids[number], [(EngineNote.rank, .int(Int64(-round)))])
                    try pending.advance("reader", from: from, to: to)
                }
            }
        case .names:
            for number in 1...200 {
                try insert(1, engine, named: "\(name) \(number)", author: "\(name) \(number)")
            }
        case .cleaning:
            for number in 1...200 {
                try insert(1, engine, named: "\(name) \(number)")
                try engine.deleteHistory(before: engine.view().number)
            }
        case .schemas:
            for number in 200 * round..<200 * round + 200 {
                var definition = EngineNote.definition
                definition.number = UInt16(number)
                definition.name = IdentifierName("Note \(number)")
                _ = try engine.commit(durability: .relaxed) { try $0.changeSchema([definition]) }
            }
        case .recoveriesAndSeals:
            for number in 1...50 {
                try insert(3, engine, named: "\(name) \(number)")
                let end = engine.log.current.end
                try engine.close()
                for distance in [200, 300] {
                    machine.machine.disk.corrupt(EngineMachine.path, at: Int(end) + distance, to: 1)
                }
                engine = try machine.open()
            }
            try insert(1, engine, named: "\(name) last")
        case .checkpoints:
            for number in 1...4 {
                try insert(100, engine, named: "\(name) \(number)")
                try engine.writeCheckpoint()
            }
            forgetHints(machine)
        }
    }

    private func insert(_ count: Int, _ engine: Engine, named name: String, author: String? = nil) throws {
        _ = try engine.commit(author: author, durability: .relaxed) { pending in
            for note in 1...count {
                _ = try pending.insert(entity: EngineNote.entity, EngineNote.row("\(name)/\(note)", Int64(note)))
            }
        }
    }

    private func step(_ engine: Engine) throws -> (from: TransactionPlace, to: TransactionPlace) {
        let view = try engine.view()
        let from = try #require(engine.tracking.consumer("reader")).place
        return (from, TransactionPlace(number: view.number, tag: view.tag))
    }

    private func advance(_ engine: Engine) throws {
        let (from, to) = try step(engine)
        try engine.advance([ConsumerAdvance(name: "reader", from: from, to: to)])
    }
}
