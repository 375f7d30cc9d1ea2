// `compaction`: how fast it is beside the limit of appending, and how long a writer at full speed waits for it.

import Annals
import FoundationEssentials
import Glibc

struct Compaction {
    let arguments: BenchArguments
    private var file: String { arguments.path + "/bench.annals" }
    private var isCompacted: String { arguments.path + "/compacted" }
    private static let longestAddedWait = 50_000.0
    private static let lastsAtMost = 120.0
    private static let rounds = 5
    private static let touchedBytes = 3 << 29

    func run() throws {
        for cleans in [false, true] { try measureRate(cleans: cleans) }
        for batch in [UInt64(1), 100] { try measureWaiting(batch: batch) }
    }

    private func load() throws {
        let (store, _) = try Workloads(arguments).makeStore()
        var writer = try TightWriter(store, batch: 1000, from: 1)
        var rest = arguments.rows
        _ = try writer.run {
            rest -= min(rest, 1000)
            return rest == 0
        }
        try store.close()
    }

    // MARK: Alone

    /// With all history, and with rows alone: the median of rounds, each followed by a measurement of the limit.
    private func measureRate(cleans: Bool) throws {
        var rounds: [Round] = []
        for _ in 0..<Self.rounds {
            rounds.append(try measureRateOnce(cleans: cleans))
        }
        rounds.sort { $0.ratio < $1.ratio }
        let ratio = rounds[rounds.count / 2].ratio
        let ratios = rounds.map { "\(Latencies.rounded($0.ratio))" }.joined(separator: ",")
        let synced = rounds.map(\.syncedRatio).sorted()
        Printer.standardOutput(
            "{\"peer\":\"annals\",\"workload\":\"compaction_\(cleans ? "rows" : "history")\","
                + "\"rows\":\(arguments.rows),"
                + rounds[rounds.count / 2].line
                + ",\"ratios\":[\(ratios)],\"ratio_synced\":\(Latencies.rounded(synced[synced.count / 2])),"
                + "\"ratio\":\(Latencies.rounded(ratio)),\"goal\":0.5,\"reached\":\(ratio >= 0.5)}\n"
        )
    }

    private struct Round {
        var ratio: Double
        /// The ratio to the limit with a sync at its end, as a compaction has.
        var syncedRatio: Double
        var line: String
    }

    private func measureRateOnce(cleans: Bool) throws -> Round {
        try load()
        var options = Store.Options()
        options.durability = .relaxed
        let store = try Store(at: file, options: options)
        if cleans { try store.deleteHistory(before: .max) }
        // Both begin with memory that was used just now.
        Memory.touch(Self.touchedBytes)
        let start = seconds()
        let result = try store.compact()
        let duration = seconds() - start
        try store.close()
        Memory.touch(Self.touchedBytes)
        let limit = try append(result.bytesAfter)
        let rate = Double(result.bytesAfter) / duration
        let line =
            "\"bytes\":\(result.bytesAfter),\"seconds\":\(Latencies.rounded(duration)),"
            + "\"MB_per_s\":\(Latencies.rounded(rate / 1e6)),"
            + "\"limit_MB_per_s\":\(Latencies.rounded(limit.written / 1e6)),"
            + "\"limit_synced_MB_per_s\":\(Latencies.rounded(limit.synced / 1e6))"
        return Round(ratio: rate / limit.written, syncedRatio: rate / limit.synced, line: line)
    }

    /// Appends this number of bytes of the same rows to a new file, 1000 rows a call, as for the limit of loading: the
    /// time includes making rows. Returns bytes a second, without and with the sync at the end.
    private func append(_ bytes: UInt64) throws -> (written: Double, synced: Double) {
        let path = arguments.path + "/limit"
        let descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw BenchError(message: "\(path) cannot be made") }
        defer {
            close(descriptor)
            unlink(path)
        }
        let row = BenchRow()
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 400_000, alignment: 8)
        defer { buffer.deallocate() }
        let start = seconds()
        var (position, number): (UInt64, UInt64) = (0, 1)
        while position < bytes {
            var filled = 0
            for _ in 0..<1000 {
                row.make(number)
                // A row and its change: the texts, and as many bytes as numbers, links and header take.
                for part in [row.title, row.url, row.note] {
                    UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]).copyMemory(from: part)
                    filled += part.count
                }
                filled += 62
                number += 1
            }
            guard pwrite(descriptor, buffer.baseAddress, filled, Int(position)) == filled else {
                throw BenchError(message: "\(path) cannot be written")
            }
            position += UInt64(filled)
        }
        let written = seconds() - start
        fdatasync(descriptor)
        return (Double(bytes) / written, Double(bytes) / (seconds() - start))
    }

    // MARK: Beside a writer

    /// The longest of many commits is longer than that of few, because the disk or the scheduler delays one now and
    /// then. So commits beside a compaction are compared with those for a while before it, and with as many after it.
    private func measureWaiting(batch: UInt64) throws {
        Memory.touch(Self.touchedBytes * 2)
        try load()
        var options = Store.Options()
        options.durability = .relaxed
        let store = try Store(at: file, options: options)
        var writer = try TightWriter(store, batch: batch, from: 1 << 32)
        var alone = try run(&writer, forSeconds: arguments.seconds)
        try? FileManager.default.removeItem(atPath: isCompacted)
        let children = Children()
        try children.start(["compaction_compactor", "--path", arguments.path])
        let start = seconds()
        let beside = try writer.run {
            fileExists(isCompacted) || seconds() - start > Self.lastsAtMost
        }
        let duration = seconds() - start
        guard fileExists(isCompacted) else { throw BenchError(message: "the compaction does not end") }
        try children.expectEnd()
        let bytes = fileBytes(file)
        var rest = beside.microseconds.count
        alone.microseconds += try writer.run {
            rest -= 1
            return rest <= 0
        }.microseconds
        try store.close()
        let added = beside.part(1) - alone.part(1)
        Printer.standardOutput(
            "{\"peer\":\"annals\",\"workload\":\"compaction_beside_batch_\(batch)\","
                + "\"seconds\":\(Latencies.rounded(duration)),"
                + "\"bytes\":\(bytes),\"alone\":{\(alone.text)},\"beside\":{\(beside.text)},"
                + "\"commits_beside\":\(beside.microseconds.count),\"added_ms\":\(Latencies.rounded(added / 1000)),"
                + "\"goal_ms\":50,"
                + "\"reached\":\(added <= Self.longestAddedWait)}\n")
    }

    private func run(_ writer: inout TightWriter, forSeconds duration: Double) throws -> Latencies {
        let end = seconds() + duration
        return try writer.run { seconds() >= end }
    }

    private func fileExists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// The process that compacts.
    func compact() throws {
        let store = try Store(at: file)
        let start = seconds()
        let result = try store.compact()
        try "\(seconds() - start) \(result.bytesAfter)".write(toFile: isCompacted, atomically: true, encoding: .utf8)
        try store.close()
    }
}
