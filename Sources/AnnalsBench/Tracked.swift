// `tracker`: the time until held objects show a commit of another process; the time that a tracker needs for commits
// that wait when it starts; and the cost for a writer at full speed that it follows.

import Annals
import FoundationEssentials
import Glibc
import Synchronization

/// An object that is held by one process and changed by another.
struct Held: Entity {
    var at = 0
    var counter = 0
}

/// Holds objects in a context, in an isolation of its own.
private actor Holder {
    private let context: Context
    private let objects: [Object<Held>]
    private(set) var delays: [Double] = []
    private var newest = 0

    init(_ store: Store) throws {
        context = store.makeContext(author: "app")
        objects = try context.fetch(Held.self)
        for object in objects { _ = object.at }
    }

    func track(_ tracker: HistoryTracker) { tracker.attach(context) }

    /// Merges as the tracker does, and notes how old the newest commits are when their objects show them.
    func trackAndTime(_ tracker: HistoryTracker) {
        tracker.attach(context) { [weak self] context, snapshot, changed in
            try context.merge(to: snapshot, changed: changed)
            self?.assumeIsolated { $0.note(Monotonic.nanoseconds()) }
        }
    }

    private func note(_ now: Int) {
        let last = newest
        for object in objects where object.at > last {
            delays.append(Double(now - object.at) / 1000)
            newest = max(newest, object.at)
        }
    }

    var sum: Int { objects.reduce(0) { $0 + $1.counter } }
}

enum Monotonic {
    /// The monotonic clock, which all processes share.
    static func nanoseconds() -> Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }
}

/// The result of a task, for the thread that waits for it.
final class TaskEnd: Sendable {
    private let gate = Gate()
    private let failure = Mutex<(any Error)?>(nil)

    /// Runs code that waits, and waits for it.
    static func run(_ body: @escaping @Sendable () async throws -> Void) throws {
        let end = TaskEnd()
        Task.detached {
            do { try await body() } catch { end.failure.withLock { $0 = error } }
            end.gate.raise()
        }
        end.gate.wait()
        if let error = end.failure.withLock({ $0 }) { throw error }
    }
}

private struct Silent: HistoryTrackerLogger {
    func log(type: HistoryTrackerLogType, message: String) {
        if type == .error || type == .fault { Printer.standardError("\(type.rawValue): \(message)\n") }
    }
}

struct Tracked {
    let arguments: BenchArguments
    private static let held = 1000
    private static let waiting = 10_000
    private static let warmUp: UInt64 = 100
    private static let paceNanoseconds = 300_000
    private var file: String { arguments.path + "/bench.annals" }

    private func options() -> Store.Options {
        var options = Store.Options()
        options.durability = .relaxed
        return options
    }

    private func makeStore() throws -> Store {
        try FileManager.default.createDirectory(atPath: arguments.path, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: file) { try FileManager.default.removeItem(atPath: file) }
        let store = try Store(at: file, entities: [Held.self], options: options())
        try store.insert(contentsOf: (0..<Self.held).map { _ in Held() }, author: "app")
        return store
    }

    private func tracker(_ store: Store) throws -> HistoryTracker {
        try HistoryTracker(
            store: store, currentAuthor: "app", allAuthors: ["app", "writer"], logger: Silent(), autoStart: false)
    }

    func run() async throws {
        try await latency()
        try await start(observed: false)
        try await start(observed: true)
        try await fullSpeed()
    }

    private func writer(pace: Int, rows: UInt64) throws -> Children {
        let writer = Children()
        try writer.start(
            ["tracker_writer", "--path", arguments.path, "--rows", String(rows), "--batch", String(pace + 1)])
        return writer
    }

    private func wait(for number: UInt64, _ store: Store) async throws {
        while try store.consumer("app")?.cursor.number ?? 0 < number {
            try await Task.sleep(for: .microseconds(200))
        }
    }

    private func latency() async throws {
        let store = try makeStore()
        defer { try? store.close() }
        let holder = try Holder(store)
        let tracker = try tracker(store)
        await holder.trackAndTime(tracker)
        tracker.start()
        let last = try store.currentToken.number + arguments.rows + Self.warmUp
        let writer = try writer(pace: Self.paceNanoseconds, rows: arguments.rows + Self.warmUp)
        try await wait(for: last, store)
        try writer.expectEnd()
        await tracker.stop()
        var latencies = Latencies()
        latencies.microseconds = Array(await holder.delays.dropFirst(Int(Self.warmUp)))
        print("tracker_latency", "\"seen\":\(latencies.microseconds.count),\(latencies.text)")
    }

    private func start(observed: Bool) async throws {
        let store = try makeStore()
        defer { try? store.close() }
        let holder = try Holder(store)
        let references = try store.snapshot().references(to: Held.self)
        try store.registerConsumer("app")
        for number in 0..<Self.waiting {
            try await store.write(author: "writer") { transaction in
                try transaction.update(references[number % Self.held]) { $0.counter += 1 }
            }
        }
        let calls = Atomic(0)
        let tracker = try tracker(store)
        if observed {
            tracker.observe(Held.self, [.update]) { changes in calls.add(changes.count, ordering: .relaxed) }
        }
        await holder.track(tracker)
        let began = seconds()
        tracker.start()
        try await wait(for: try store.currentToken.number, store)
        let duration = seconds() - began
        await tracker.stop()
        let sum = await holder.sum
        guard sum == Self.waiting, !observed || calls.load(ordering: .relaxed) == Self.waiting else {
            throw BenchError(message: "the objects show \(sum) of \(Self.waiting) changes")
        }
        print(observed ? "tracker_start_observed" : "tracker_start", "\"ms\":\(Latencies.rounded(duration * 1000))")
    }

    private func fullSpeed() async throws {
        let rows = max(arguments.rows, 100_000)
        for isTracked in [false, true] {
            let store = try makeStore()
            defer { try? store.close() }
            let holder = try Holder(store)
            let tracker = try tracker(store)
            let calls = Atomic(0)
            tracker.observe(Held.self, [.update]) { changes in calls.add(changes.count, ordering: .relaxed) }
            await holder.track(tracker)
            if isTracked { tracker.start() }
            let last = try store.currentToken.number + rows
            let began = seconds()
            let writer = try writer(pace: 0, rows: rows)
            while try store.currentToken.number < last { try await Task.sleep(for: .milliseconds(1)) }
            let duration = seconds() - began
            var behind = 0.0
            if isTracked {
                try await wait(for: last, store)
                behind = seconds() - began - duration
                guard calls.load(ordering: .relaxed) == Int(rows) else {
                    throw BenchError(message: "observed \(calls.load(ordering: .relaxed)) of \(rows) changes")
                }
            }
            try writer.expectEnd()
            let rounds = tracker.metrics.rounds
            await tracker.stop()
            print(
                isTracked ? "tracker_beside_writer" : "writer_alone",
                "\"rows\":\(rows),\"secs\":\(Latencies.rounded(duration)),\"per_sec\":\(Int(Double(rows) / duration)),"
                    + "\"rounds\":\(rounds),\"merges\":\(tracker.metrics.merges),"
                    + "\"behind_ms\":\(Latencies.rounded(behind * 1000))")
        }
    }

    private func print(_ workload: String, _ facts: String) {
        let tag = arguments.tag.isEmpty ? "" : ",\"tag\":\"\(arguments.tag)\""
        Printer.standardOutput("{\"peer\":\"annals\",\"workload\":\"\(workload)\"\(tag),\(facts)}\n")
    }

    // MARK: The process that writes

    /// Changes one object a transaction, with the time in it, at the pace that `--batch` names, less 1.
    func write() throws {
        let pace = Int(arguments.batch) - 1
        let store = try Store(at: file, entities: [Held.self], options: options())
        let references = try store.snapshot().references(to: Held.self)
        let start = Monotonic.nanoseconds() + 50_000_000
        for row in 0..<Int(arguments.rows) {
            if pace > 0 { sleep(until: start + row * pace) }
            try store.write(author: "writer") { transaction in
                try transaction.update(references[row % references.count]) {
                    $0.at = Monotonic.nanoseconds()
                    $0.counter += 1
                }
            }
        }
        try store.close()
    }

    private func sleep(until moment: Int) {
        var time = timespec(tv_sec: moment / 1_000_000_000, tv_nsec: moment % 1_000_000_000)
        while clock_nanosleep(CLOCK_MONOTONIC, 1, &time, nil) == EINTR {}
    }
}
