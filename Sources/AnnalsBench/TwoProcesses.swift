// `twoproc`: how long it takes until another process sees a commit. The other process is this program, which commits.

import Annals
import FoundationEssentials
import Glibc
import Synchronization

struct TwoProcesses {
    let arguments: BenchArguments
    private static let paceNanoseconds: Int64 = 300_000
    private static let warmUp: UInt64 = 100

    private static let tick = EntityDescription(
        "Tick", attributes: [AttributeDescription("at", .int, isOptional: false)])

    private var file: String { arguments.path + "/bench.annals" }

    func run() throws {
        try measure("twoproc") { (store, rows, delays) in
            let watcher = try store.changeWatcher()
            let writer = Children()
            try writer.start(Self.writer(arguments))
            var seen: UInt64 = 0
            while seen < rows, let signal = try watcher.next(timeout: .seconds(10)) {
                seen += try Self.note(signal, at: Self.nanoseconds(), store, &delays)
            }
            try writer.expectEnd()
        }
        try measure("twoproc_async") { (store, rows, delays) in
            let result = Box()
            let (arguments, changes) = (arguments, try store.changes())
            let isDone = Gate()
            Task.detached {
                do {
                    let writer = Children()
                    try writer.start(Self.writer(arguments))
                    var delays: [Double] = []
                    var seen: UInt64 = 0
                    for try await signal in changes {
                        seen += try Self.note(signal, at: Self.nanoseconds(), store, &delays)
                        if seen >= rows { break }
                    }
                    try writer.expectEnd()
                    result.store(.success(delays))
                } catch {
                    result.store(.failure(error))
                }
                isDone.raise()
            }
            isDone.wait()
            delays = try result.load().get()
        }
    }

    /// The measurements of the task.
    private final class Box: Sendable {
        private let value = Mutex(Result<[Double], any Error>.success([]))

        func store(_ result: Result<[Double], any Error>) { value.withLock { $0 = result } }
        func load() -> Result<[Double], any Error> { value.withLock { $0 } }
    }

    private func measure(_ name: String, _ body: (Store, UInt64, inout [Double]) throws -> Void) throws {
        try FileManager.default.createDirectory(atPath: arguments.path, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: file) { try FileManager.default.removeItem(atPath: file) }
        var options = Store.Options()
        options.durability = .relaxed
        let store = try Store(at: file, entities: [Self.tick], options: options)
        defer { try? store.close() }
        var delays: [Double] = []
        let began = seconds()
        try body(store, arguments.rows + Self.warmUp, &delays)
        report(name, delays, seconds() - began)
    }

    /// Reads when each transaction of a signal was committed.
    private static func note(
        _ signal: ChangeSignal, at now: Int64, _ store: Store, _ delays: inout [Double]
    ) throws -> UInt64 {
        let snapshot = try store.snapshot()
        let ticks = try snapshot.entity("Tick")
        for number in signal.numbers {
            // The first transaction made the entity, each later one an object of it.
            guard let object = ObjectID(entityNumber: ticks.number, number: number - 1),
                case .int(let at)? = try snapshot.row(object)?["at"]
            else { throw BenchError(message: "transaction \(number) is not one of the other process") }
            delays.append(Double(now - at) / 1000)
        }
        return UInt64(signal.numbers.count)
    }

    private func report(_ name: String, _ all: [Double], _ duration: Double) {
        let delays = all.dropFirst(Int(Self.warmUp)).sorted()
        guard !delays.isEmpty else { return }
        func part(_ share: Double) -> String {
            let value = delays[min(Int(Double(delays.count) * share), delays.count - 1)]
            return String(Double(Int(value * 10)) / 10)
        }
        let tag = arguments.tag.isEmpty ? "" : ",\"tag\":\"\(arguments.tag)\""
        Printer.standardOutput(
            "{\"peer\":\"annals\",\"workload\":\"\(name)\"\(tag),\"rows\":\(delays.count),\"secs\":"
                + "\(Double(Int(duration * 1e6)) / 1e6),\"seen\":\(delays.count),"
                + "\"pace_us\":\(Self.paceNanoseconds / 1000),\"median_us\":"
                + "\(part(0.5)),\"p99_us\":\(part(0.99)),\"max_us\":\(part(1))}\n")
    }

    // MARK: The process that writes

    /// Commits a row every 0.3 ms, with the time in it.
    func write() throws {
        var options = Store.Options()
        options.durability = .relaxed
        let store = try Store(at: file, options: options)
        let ticks = try store.entity("Tick")
        let start = Self.nanoseconds() + 50_000_000
        for row in 0..<arguments.rows {
            Self.sleep(until: start + Int64(row) * Self.paceNanoseconds)
            try store.writeOptimistically(author: "writer") { transaction in
                try transaction.insert(ticks) { (row) throws(StoreError) in
                    try row.set(int: Self.nanoseconds(), at: 0)
                }
            }
        }
        try store.close()
    }

    private static func writer(_ arguments: BenchArguments) -> [String] {
        ["twoproc_writer", "--path", arguments.path, "--rows", String(arguments.rows + warmUp)]
    }

    // MARK: Time

    /// The monotonic clock, which all processes share.
    private static func nanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    private static func sleep(until moment: Int64) {
        var time = timespec(tv_sec: Int(moment / 1_000_000_000), tv_nsec: Int(moment % 1_000_000_000))
        while clock_nanosleep(CLOCK_MONOTONIC, 1, &time, nil) == EINTR {}
    }
}

/// A signal that one thread sends and another waits for.
///
/// Sound although it is shared: the memory is a semaphore's, which any thread may use.
final class Gate: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    func raise() { sem_post(semaphore) }
    func wait() { while sem_wait(semaphore) != 0 {} }
}
