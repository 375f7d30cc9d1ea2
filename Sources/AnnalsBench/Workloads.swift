// The workloads. Timed from the first begin to the last commit's return; opening, closing and the last sync are apart.

import AnnalsFile
import FoundationEssentials
import Glibc

struct Workloads {
    let arguments: BenchArguments
    private let environment = RealEnvironment()
    private let files = RealFileSystem()
    private let store: String

    init(_ arguments: BenchArguments) {
        self.arguments = arguments
        store = arguments.path + "/bench.annals"
    }

    func run() throws {
        switch arguments.workload {
        case "load": try load()
        case "commit": try commit()
        case "walk": try walk()
        case "value": try value()
        case "long": try long()
        default: throw BenchError(message: "there is no workload \(arguments.workload)")
        }
    }

    private static let entity: UInt16 = 1

    private static let definition = EntityDefinition(
        number: entity, name: "Item",
        attributes: [
            AttributeDefinition(number: 1, type: .string, flags: [], name: "title"),
            AttributeDefinition(number: 2, type: .string, flags: [], name: "url"),
            AttributeDefinition(number: 3, type: .string, flags: [], name: "note"),
            AttributeDefinition(number: 4, type: .double, flags: [], name: "created"),
            AttributeDefinition(number: 5, type: .int, flags: [], name: "rank"),
            AttributeDefinition(number: 6, type: .bool, flags: [], name: "flag"),
            AttributeDefinition(number: 7, type: .data, flags: [.optional], name: "large"),
        ])

    // MARK: Writing

    private func load() throws {
        let (log, layout) = try fresh()
        let row = BenchRow()
        let start = environment.monotonicMicroseconds()
        var number: UInt64 = 1
        while number <= arguments.rows {
            let count = min(UInt64(arguments.batch), arguments.rows - number + 1)
            try insert(log, layout, row, number..<number + count)
            number += count
        }
        try finish(log, "load", start)
    }

    private func commit() throws {
        let (log, layout) = try fresh()
        let row = BenchRow()
        var latencies: [UInt64] = []
        latencies.reserveCapacity(Int(arguments.rows))
        let start = environment.monotonicMicroseconds()
        var before = start
        for number in 1...arguments.rows {
            try insert(log, layout, row, number..<number + 1)
            let now = environment.monotonicMicroseconds()
            latencies.append(now - before)
            before = now
        }
        latencies.sort()
        let median = latencies[latencies.count / 2]
        let high = latencies[latencies.count * 99 / 100]
        try finish(log, "commit", start, extra: ",\"median_us\":\(median),\"p99_us\":\(high)")
    }

    /// One transaction, however long.
    private func long() throws {
        let (log, layout) = try fresh()
        let row = BenchRow()
        let start = environment.monotonicMicroseconds()
        try insert(log, layout, row, 1..<arguments.rows + 1)
        try finish(log, "long", start)
        try walk()
    }

    private func insert(
        _ log: Log, _ layout: RowLayout, _ row: BenchRow, _ numbers: Range<UInt64>
    ) throws {
        let transaction = log.makeTransaction(expectedChanges: numbers.count)
        transaction.author = "app.main"
        transaction.context = "editor"
        for number in numbers {
            guard let object = ObjectID(entity: Self.entity, number: number) else { continue }
            row.make(number)
            try transaction.insert(object, layout: layout) { (builder, bytes) throws(FileError) in
                builder.append(row.title, at: 0, in: &bytes)
                builder.append(row.url, at: 1, in: &bytes)
                builder.append(row.note, at: 2, in: &bytes)
                builder.set(double: row.created, at: 3, in: &bytes)
                builder.set(int: row.rank, at: 4, in: &bytes)
                builder.set(bool: row.flag, at: 5, in: &bytes)
            }
        }
        try log.commit(transaction, durability: arguments.isDurable ? .full : .relaxed)
    }

    /// One value that is never in memory as a whole, written and read back.
    private func value() throws {
        let (log, _) = try fresh()
        let start = environment.monotonicMicroseconds()
        var generator = SplitMix(state: 1)
        var written: UInt64 = 0
        let transaction = log.makeTransaction()
        let large = try transaction.addLargeValue(bytes: arguments.rows) { (buffer) throws(FileError) in
            let count = max(1, buffer.count & ~7)
            for index in stride(from: 0, to: count, by: 8) where index + 8 <= buffer.count {
                buffer.storeBytes(of: generator.next(), toByteOffset: index, as: UInt64.self)
            }
            if buffer.count < 8 { buffer.initializeMemory(as: UInt8.self, repeating: 7) }
            written &+= BenchRow.sum(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            return count
        }
        guard let object = ObjectID(entity: Self.entity, number: 1) else { return }
        try transaction.insert(
            object, [.string("t"), .string("u"), .string("n"), .double(0), .int(0), .bool(false), large])
        try log.commit(transaction, durability: .full)
        try finish(log, "value", start)
        let readStart = environment.monotonicMicroseconds()
        let again = try Log.open(store, access: .readOnly, files: files, environment: environment)
        var read: UInt64 = 0
        try again.forEachFrame { (frame, state) throws(FileError) in
            guard frame.header.kind == .transaction else { return }
            var cursor = ChangeCursor(frame)
            while let change = try cursor.next() {
                guard let bytes = frame.row(of: change),
                    let layout = state.catalog.layout(version: 1, entity: Self.entity),
                    case .large(let reference) = try RowView(bytes, layout: layout).variable(at: 6)
                else { continue }
                try again.readLargeValue(reference) { (piece) throws(FileError) in read &+= BenchRow.sum(piece) }
            }
        }
        guard read == written else { throw BenchError(message: "the value that was read is not the one written") }
        let seconds = Double(environment.monotonicMicroseconds() - readStart) / 1e6
        report("value_read", operations: arguments.rows, seconds: seconds, bytes: again.current.end, extra: "")
    }

    // MARK: Reading

    private func walk() throws {
        let openStart = environment.monotonicMicroseconds()
        let log = try Log.open(store, access: .readOnly, files: files, environment: environment)
        let start = environment.monotonicMicroseconds()
        var rows: UInt64 = 0
        try log.forEachFrame { (frame, _) throws(FileError) in
            guard frame.header.kind == .transaction || frame.header.kind == .part else { return }
            rows += UInt64(try TransactionRecord.decode(frame.table).changes)
        }
        let seconds = Double(environment.monotonicMicroseconds() - start) / 1e6
        let bytes = log.current.end
        report(
            "walk", operations: rows, seconds: seconds, bytes: bytes,
            extra: ",\"open_s\":\(Double(start - openStart) / 1e6),\"GB_per_s\":\(Double(bytes) / seconds / 1e9)")
    }

    // MARK: Around

    private func fresh() throws -> (Log, RowLayout) {
        try FileManager.default.createDirectory(atPath: arguments.path, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: store) { try FileManager.default.removeItem(atPath: store) }
        let log = try Log.create(store, files: files, environment: environment)
        let transaction = log.makeTransaction()
        try transaction.changeSchema([Self.definition])
        try log.commit(transaction)
        guard let layout = log.current.catalog.layout(version: 1, entity: Self.entity) else {
            throw BenchError(message: "the schema is not there")
        }
        return (log, layout)
    }

    private func finish(_ log: Log, _ name: String, _ start: UInt64, extra: String = "") throws {
        let end = environment.monotonicMicroseconds()
        try log.close()
        let closed = environment.monotonicMicroseconds()
        let bytes = log.current.end + UInt64(FormatLimits.pageBytes)
        report(
            name, operations: arguments.rows, seconds: Double(end - start) / 1e6, bytes: bytes,
            extra: ",\"close_s\":\(Double(closed - end) / 1e6)" + extra)
    }

    private func report(_ name: String, operations: UInt64, seconds: Double, bytes: UInt64, extra: String) {
        let rate = Double(operations) / max(seconds, 1e-9)
        print(
            "{\"peer\":\"annals\",\"workload\":\"\(name)\(arguments.tag)\",\"rows\":\(operations),\"seconds\":\(seconds)"
                + ",\"ops_per_s\":\(rate),\"file_bytes\":\(bytes),\"peak_rss_kb\":\(Memory.peakResidentKilobytes)"
                + ",\"private_kb\":\(Memory.privateKilobytes)\(extra)}")
    }
}

/// What the system says of this process's memory.
enum Memory {
    static var peakResidentKilobytes: Int { field("VmHWM:") }
    /// Memory of this process alone: not the file's pages.
    static var privateKilobytes: Int { field("RssAnon:") }

    private static func field(_ name: String) -> Int {
        guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
        for line in text.split(separator: "\n") where line.hasPrefix(name) {
            return Int(line.filter(\.isNumber)) ?? 0
        }
        return 0
    }
}

enum FileHandleOutput {
    static func standardError(_ text: String) {
        var text = text
        text.withUTF8 { bytes in _ = write(2, bytes.baseAddress, bytes.count) }
    }
}
