// A reader by copies keeps the frames that it adopts. Those of a transaction that failed halfway must never be shown,
// whoever writes in their place.

import Annals
import SimulatedDisk
import Synchronization
import Testing

@Suite struct AdoptedFramesTests {
    private func insert(_ text: String, _ engine: Engine) throws {
        _ = try engine.commit(durability: .relaxed) { pending in
            for number in 1...400 {
                _ = try pending.insert(entity: EngineNote.entity, EngineNote.row("\(text) \(1000 + number)", 1))
            }
        }
    }

    /// A transaction fails, or its process ends, at its `write`-th write. The reader looks before every write, and
    /// after that. Another transaction of the same length takes its place. False if there are not so many writes.
    private func replace(at write: Int, isKilled: Bool, writerIsReader: Bool) throws -> Bool {
        var machine = EngineMachine()
        machine.options.log.limits.maximumFrameBytes = 4096
        let writer = try machine.create()
        try insert("before", writer)
        machine.options.reading = .copied
        let reader = try machine.open(2)
        _ = try reader.view().titles()
        let count = Atomic<Int>(0)
        let isFailing = Atomic<Bool>(true)
        let disk = machine.machine.disk
        disk.setOnCall { (call) throws(StoreError) in
            guard call.process == 1, call.kind == .write, isFailing.load(ordering: .relaxed) else { return }
            _ = try reader.log.catchUp()
            if count.add(1, ordering: .relaxed).newValue >= write {
                if isKilled { disk.kill(1) }
                throw StoreError(.inputOutput, "This write fails.")
            }
        }
        try? insert("failed", writer)
        isFailing.store(false, ordering: .relaxed)
        disk.setOnCall(nil)
        _ = try reader.log.catchUp()
        if !isKilled { try? writer.close() }
        let next = writerIsReader ? reader : try machine.open(3)
        try insert("behind", next)
        if !writerIsReader { try next.close() }
        let titles = try reader.view().titles()
        let found = Set(titles.map { $0.prefix { $0 != " " } })
        #expect(found.isSuperset(of: ["before", "behind"]), "write \(write)")
        #expect(titles.count == found.count * 400 && Set(titles).count == titles.count, "write \(write)")
        try machine.closeAndCheck(reader)
        return count.load(ordering: .relaxed) >= write
    }

    @Test(arguments: [false, true], [false, true])
    func aFailedTransactionIsNeverShown(isKilled: Bool, writerIsReader: Bool) throws {
        var write = 1
        while try replace(at: write, isKilled: isKilled, writerIsReader: writerIsReader) { write += 1 }
        #expect(write > 3, "The transaction was not written in parts.")
    }
}
