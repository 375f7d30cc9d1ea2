// Other processes of this program, and what they have measured.

import Annals
import FoundationEssentials
import Glibc

/// Processes of this program with other arguments. When it is released, it ends those that still run.
final class Children {
    private var processes: [pid_t] = []

    deinit {
        for process in processes { kill(process, SIGKILL) }
        for process in processes { _ = Self.ending(of: process) }
    }

    func start(_ words: [String]) throws {
        let path = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let strings = ([path] + words).map { strdup($0) }
        defer { for string in strings { free(string) } }
        var process: pid_t = 0
        guard posix_spawn(&process, path, nil, nil, strings + [nil], environ) == 0 else {
            throw BenchError(message: "another process cannot be started")
        }
        processes.append(process)
    }

    /// Waits until all have ended, and throws if one of them did not end well.
    func expectEnd() throws {
        defer { processes = [] }
        let endings = processes.map(Self.ending)
        if let wrong = endings.first(where: { $0 != 0 }) {
            throw BenchError(message: "another process ended with \(wrong)")
        }
    }

    private static func ending(of process: pid_t) -> Int32 {
        var ending: Int32 = 0
        while waitpid(process, &ending, 0) < 0, errno == EINTR {}
        return ending
    }
}

/// How long commits took, as one process or many have measured it. In the file, a number a line.
struct Latencies {
    var microseconds: [Double] = []

    func write(to path: String) throws {
        try microseconds.map { "\($0)" }.joined(separator: "\n").write(toFile: path, atomically: true, encoding: .utf8)
    }

    mutating func add(contentsOf path: String) throws {
        microseconds += try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").compactMap {
            Double($0)
        }
        try FileManager.default.removeItem(atPath: path)
    }

    /// The value below which that share of them is; 0 if there are none.
    func part(_ share: Double) -> Double {
        guard !microseconds.isEmpty else { return 0 }
        let sorted = microseconds.sorted()
        return sorted[min(Int(Double(sorted.count) * share), sorted.count - 1)]
    }

    var text: String {
        "\"median_us\":\(Self.rounded(part(0.5))),\"p99_us\":\(Self.rounded(part(0.99))),"
            + "\"max_us\":\(Self.rounded(part(1)))"
    }

    static func rounded(_ value: Double) -> Double { Double(Int(value * 100)) / 100 }
}

/// Commits rows as fast as it can.
struct TightWriter {
    let store: Store
    let batch: UInt64
    private let items: EntityHandle
    private let row = BenchRow()
    private var number: UInt64

    init(_ store: Store, batch: UInt64, from number: UInt64) throws {
        (self.store, self.batch, self.number) = (store, batch, number)
        items = try store.entity("Item")
    }

    /// Until `isOver` says so, asked after each commit. Returns how long each took.
    mutating func run(until isOver: () -> Bool) throws -> Latencies {
        var latencies = Latencies()
        var before = seconds()
        repeat {
            try Workloads.insert(number..<number + batch, items, row, store)
            number += batch
            let now = seconds()
            latencies.microseconds.append((now - before) * 1e6)
            before = now
        } while !isOver()
        return latencies
    }
}
