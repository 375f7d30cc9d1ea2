// `mirror_live`: two mirrored stores over a NATS server, beside bare messages over the same server.

import Annals
import AnnalsMirror
import FoundationEssentials
import Glibc

struct LiveMirror {
    let arguments: BenchArguments
    let makeStore: (_ name: String) throws -> Store

    private static let rounds = 3
    private static let warmUp = 20
    private static let bodyBytes = 400
    private static let longestWaitSeconds = 30.0
    /// Between two measured messages, so that one is not waiting for the end of another.
    private static let distanceMicroseconds: UInt32 = 5_000

    func run() async throws {
        guard !arguments.nats.isEmpty else {
            throw BenchError(message: "mirror_live needs --nats: the address of a server with JetStream")
        }
        let group = "bench-\(UInt64.random(in: .min ... .max))"
        let (first, second) = (try makeStore("first"), try makeStore("second"))
        let mirrors = try [first, second].map { try Mirror($0, group: group, through: .nats(arguments.nats)) }
        for mirror in mirrors { try await mirror.start() }
        var number: UInt64 = 1
        try write(&number, to: first)
        try wait(for: number - 1, in: second, try second.changeWatcher())
        for _ in 0..<Self.rounds {
            report("mirror_bare", try bare(group))
            report("mirror_latency", try latency(&number, from: first, to: second))
        }
        try await settle(mirrors)
        try reportWakes()
        await mirrors[1].stop()
        for _ in 0..<Self.rounds {
            await mirrors[0].stop()
            let alone = try throughput(&number, in: first)
            try await mirrors[0].start()
            try await settle([mirrors[0]])
            let mirrored = try throughput(&number, in: first)
            line(
                "mirror_writer",
                "\"alone_per_s\":\(Int(alone)),\"mirrored_per_s\":\(Int(mirrored)),"
                    + "\"ratio\":\(Latencies.rounded(mirrored / alone))")
        }
        await mirrors[0].stop()
        for store in [first, second] { try store.close() }
    }

    // MARK: Latency

    private func write(_ number: inout UInt64, to store: Store) throws {
        try Workloads.insert(number..<(number + 1), try store.entity("Item"), BenchRow(), store)
        number += 1
    }

    /// Waits until a store has that many rows.
    private func wait(for count: UInt64, in store: Store, _ watcher: ChangeWatcher) throws {
        let end = seconds() + Self.longestWaitSeconds
        while try store.snapshot().count(of: "Item") < count {
            _ = try watcher.next(timeout: .seconds(1))
            guard seconds() < end else { throw BenchError(message: "a row has not arrived") }
        }
    }

    /// From the start of a commit until the other store has it.
    private func latency(_ number: inout UInt64, from first: Store, to second: Store) throws -> Latencies {
        var latencies = Latencies()
        let watcher = try second.changeWatcher()
        for _ in 0..<Int(arguments.rows) + Self.warmUp {
            let start = seconds()
            try write(&number, to: first)
            try wait(for: number - 1, in: second, watcher)
            latencies.microseconds.append((seconds() - start) * 1e6)
            usleep(Self.distanceMicroseconds)
        }
        latencies.microseconds.removeFirst(Self.warmUp)
        return latencies
    }

    /// From the start of a publication until another connection has fetched the message.
    private func bare(_ group: String) throws -> Latencies {
        let name = group + "-bare"
        func courier(_ peer: String) throws -> NATSCourier {
            try NATSCourier(
                address: arguments.nats, group: name, peer: peer, interruption: try Interruption())
        }
        let sender = try courier("sender")
        // Only the thread uses it.
        nonisolated(unsafe) let reader = try courier("reader")
        let (count, longest) = (Int(arguments.rows) + Self.warmUp, Self.longestWaitSeconds)
        let base = UInt64(Date.now.timeIntervalSince1970 * 1_000_000)
        let (isReady, hasCome) = (Gate(), Gate())
        let thread = try CountingThread {
            // After an error nothing waits any more.
            defer { for _ in 0...count { hasCome.raise() } }
            defer { isReady.raise() }
            var place = try reader.newestPlace()
            isReady.raise()
            var seen = 0
            let end = seconds() + longest
            while seen < count {
                let batch = try reader.messages(after: place, maximumBytes: 1 << 20, waitSeconds: longest)
                guard seconds() < end else { throw BenchError(message: "a message has not arrived") }
                place = batch.place
                for _ in batch.messages { hasCome.raise() }
                seen += batch.messages.count
            }
            return seen
        }
        isReady.wait()
        var latencies = Latencies()
        let body = [UInt8](repeating: 7, count: Self.bodyBytes)
        for index in 0..<count {
            let start = seconds()
            try sender.append([OutgoingMessage(number: base + UInt64(index), body: body)])
            hasCome.wait()
            latencies.microseconds.append((seconds() - start) * 1e6)
            usleep(Self.distanceMicroseconds)
        }
        _ = try thread.wait()
        latencies.microseconds.removeFirst(Self.warmUp)
        return latencies
    }

    // MARK: A writer

    private func throughput(_ number: inout UInt64, in store: Store) throws -> Double {
        let (items, row, start) = (try store.entity("Item"), BenchRow(), seconds())
        let begin = number
        while seconds() - start < arguments.seconds {
            try Workloads.insert(number..<(number + 1), items, row, store)
            number += 1
        }
        return Double(number - begin) / (seconds() - start)
    }

    // MARK: At rest

    /// Waits until nothing has changed for a while.
    private func settle(_ mirrors: [Mirror]) async throws {
        var (last, same) = (mirrors.map(\.status), 0)
        while same < 10 {
            try await Task.sleep(for: .milliseconds(500))
            let next = mirrors.map(\.status)
            same = next == last ? same + 1 : 0
            last = next
        }
    }

    /// How often the threads of idle mirrors wake.
    private func reportWakes() throws {
        let (before, start) = (try Self.wakes(), seconds())
        usleep(UInt32(arguments.seconds * 10 * 1e6))
        let (after, duration) = (try Self.wakes(), seconds() - start)
        guard before.count == 2 else { throw BenchError(message: "there are \(before.count) mirrors, not two") }
        line(
            "mirror_idle",
            "\"secs\":\(Latencies.rounded(duration)),\"wakes\":\(after.reduce(0, +) - before.reduce(0, +))")
    }

    private static func wakes() throws -> [Int] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").sorted().compactMap { task in
            let path = "/proc/self/task/\(task)/"
            guard try String(contentsOfFile: path + "comm", encoding: .utf8).hasPrefix("annals-mirror") else {
                return nil
            }
            return try String(contentsOfFile: path + "status", encoding: .utf8).split(separator: "\n")
                .filter { $0.contains("ctxt_switches:") }
                .compactMap { $0.split { $0 == "\t" || $0 == " " }.last.flatMap { Int($0) } }.reduce(0, +)
        }
    }

    private func report(_ workload: String, _ latencies: Latencies) {
        line(workload, "\"rows\":\(latencies.microseconds.count)," + latencies.text)
    }

    private func line(_ workload: String, _ values: String) {
        let tag = arguments.tag.isEmpty ? "" : ",\"tag\":\"\(arguments.tag)\""
        Printer.standardOutput("{\"peer\":\"annals\",\"workload\":\"\(workload)\"\(tag),\(values)}\n")
    }
}
