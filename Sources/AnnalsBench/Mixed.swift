// `mixed`: a thread reads random rows, each from a snapshot of its own, while another updates one row a transaction.

import Annals
import Synchronization

struct Mixed {
    let arguments: BenchArguments
    let store: Store
    let items: EntityHandle
    /// Objects are numbered up to this.
    let count: UInt64

    private final class Shared: Sendable {
        let isOver = Atomic<Bool>(false)
    }

    /// Returns the numbers of reads and updates, and in seconds the time and the longest commit.
    func run() throws -> (gets: Int, updates: Int, seconds: Double, longest: Double) {
        let shared = Shared()
        let reader = try CountingThread { [self] in try read(shared) }
        var random = SplitMix(state: Workloads.updateSeed)
        let note = BenchText()
        let start = seconds()
        var (before, longest, updates) = (start, 0.0, 0)
        while before - start < arguments.seconds {
            try update(&random, note)
            updates += 1
            let now = seconds()
            longest = max(longest, now - before)
            before = now
        }
        shared.isOver.store(true, ordering: .relaxed)
        return (try reader.wait(), updates, before - start, longest)
    }

    private func read(_ shared: Shared) throws -> Int {
        var random = SplitMix(state: Workloads.getSeed)
        var (sum, gets): (UInt64, Int) = (0, 0)
        while !shared.isOver.load(ordering: .relaxed) {
            guard let id = ObjectID(entityNumber: items.number, number: 1 + random.next() % count) else { continue }
            _ = try store.snapshot().withRow(id, in: items) { (row) throws(StoreError) in sum &+= try Checksum.of(row) }
            gets += 1
        }
        return gets + (sum == 1 ? 1 : 0)
    }

    private func update(_ random: inout SplitMix, _ note: BenchText) throws {
        var generator = random
        let begin = random
        _ = try store.writeOptimistically(author: "app.main", contextName: "editor") { transaction in
            generator = begin
            guard let id = ObjectID(entityNumber: items.number, number: 1 + generator.next() % count) else { return }
            note.make(88 + Int(generator.next() % 65), &generator)
            let rank = Int64(generator.next() % Workloads.ranks)
            try transaction.update(id) { (writer) throws(StoreError) in
                try writer.set(utf8: note.bytes, at: 2)
                try writer.set(int: rank, at: 4)
            }
        }
        random = generator
    }
}
