// `contention`: many commits at once, by processes and by threads of one.

import Annals
import FoundationEssentials
import Glibc

struct Contention {
    let arguments: BenchArguments
    private var file: String { arguments.path + "/bench.annals" }
    private static let tightWriters = 8
    private static let threads = 8

    func run() throws {
        let one = try processes(1, isDurable: false)
        let two = try processes(2, isDurable: false)
        report("contention_relaxed", "\"one_per_s\":\(one.rate),\"two_per_s\":\(two.rate)", two.rate / one.rate, 0.6)
        let single = try threads(1)
        let many = try threads(Self.threads)
        report(
            "contention_threads", "\"one_per_s\":\(single),\"\(Self.threads)_per_s\":\(many)", many / single, 3)
        let tight = try processes(Self.tightWriters, isDurable: false)
        let waiting = tight.latencies
        let isReached = waiting.part(0.99) < 50_000
        Printer.standardOutput(
            "{\"peer\":\"annals\",\"workload\":\"contention_\(Self.tightWriters)_processes\",\"per_s\":\(tight.rate),"
                + "\(waiting.text),\"reached\":\(isReached)}\n")
    }

    private func report(_ name: String, _ rates: String, _ ratio: Double, _ goal: Double) {
        Printer.standardOutput(
            "{\"peer\":\"annals\",\"workload\":\"\(name)\",\(rates),\"ratio\":\(Latencies.rounded(ratio)),"
                + "\"goal\":\(goal),"
                + "\"reached\":\(ratio >= goal)}\n")
    }

    // MARK: Processes

    private func processes(_ count: Int, isDurable: Bool) throws -> (rate: Double, latencies: Latencies) {
        let (store, _) = try Workloads(arguments).makeStore()
        // All begin when all are there: a process takes some 10 ms to start.
        let start = seconds() + 0.5
        let children = Children()
        for number in 0..<count {
            try children.start([
                "contention_writer", "--path", arguments.path, "--tag", "\(number)", "--start", "\(start)",
                "--seconds", "\(arguments.seconds)",
            ])
        }
        try children.expectEnd()
        try store.close()
        var latencies = Latencies()
        for number in 0..<count { try latencies.add(contentsOf: result(number)) }
        return ((Double(latencies.microseconds.count) / arguments.seconds).rounded(), latencies)
    }

    private func result(_ number: Int) -> String { arguments.path + "/contention.\(number)" }

    /// The process that writes.
    func write() throws {
        var options = Store.Options()
        options.durability = .relaxed
        let store = try Store(at: file, options: options)
        let number = UInt64(arguments.tag) ?? 0
        var writer = try TightWriter(store, batch: 1, from: 1 + number << 32)
        while seconds() < arguments.start { usleep(100) }
        let end = arguments.start + arguments.seconds
        let latencies = try writer.run { seconds() >= end }
        try latencies.write(to: result(Int(number)))
        try store.close()
    }

    // MARK: Threads

    /// Durable commits a second of so many threads with one store.
    private func threads(_ count: Int) throws -> Double {
        var options = Store.Options()
        options.durability = .full
        let (made, _) = try Workloads(arguments).makeStore()
        try made.close()
        let store = try Store(at: file, options: options)
        let end = seconds() + arguments.seconds
        let workers = try (0..<count).map { number in
            try CountingThread {
                var writer = try TightWriter(store, batch: 1, from: 1 + UInt64(number) << 32)
                return try writer.run { seconds() >= end }.microseconds.count
            }
        }
        let commits = try workers.reduce(0) { try $0 + $1.wait() }
        try store.close()
        return (Double(commits) / arguments.seconds).rounded()
    }
}
