// `threads`: random rows by ID, read by one thread and by two at once, through one store.

import Annals

struct Parallel {
    let arguments: BenchArguments
    let store: Store
    let items: EntityHandle
    /// Objects are numbered up to this.
    let count: UInt64
    private static let threads = 2

    func run() throws {
        // So that all pages are mapped and verified before the clock runs.
        for thread in 0..<Self.threads { _ = try read(thread) }
        let one = try rate(1)
        let all = try rate(Self.threads)
        Printer.standardOutput(
            "{\"peer\":\"annals\",\"workload\":\"threads\",\"rows\":\(arguments.rows),\"one_per_s\":\(one.rounded()),"
                + "\"two_per_s\":\(all.rounded()),\"ratio\":\(Latencies.rounded(all / one))}\n")
    }

    /// Reads a second of so many threads together.
    private func rate(_ threads: Int) throws -> Double {
        let start = seconds()
        let workers = try (0..<threads).map { thread in try CountingThread { [self] in try read(thread) } }
        let reads = try workers.reduce(0) { try $0 + $1.wait() }
        return Double(reads) / (seconds() - start)
    }

    /// Each thread reads other rows, from one snapshot.
    private func read(_ thread: Int) throws -> Int {
        var random = SplitMix(state: Workloads.getSeed &+ UInt64(thread))
        var sum: UInt64 = 0
        let snapshot = try store.snapshot()
        for _ in 0..<arguments.rows {
            guard let id = ObjectID(entityNumber: items.number, number: 1 + random.next() % count) else { continue }
            _ = try snapshot.withRow(id, in: items) { (row) throws(StoreError) in sum &+= try Checksum.of(row) }
        }
        return Int(arguments.rows) + (sum == 1 ? 1 : 0)
    }
}
