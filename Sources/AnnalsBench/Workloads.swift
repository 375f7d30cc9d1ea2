// The workloads of the peers. Timed from the first begin to the last commit's return; opening and closing are apart.

import Annals
import FoundationEssentials

struct Workloads {
    let arguments: BenchArguments
    private let file: String
    static let getSeed: UInt64 = 0x5EED_0001
    static let updateSeed: UInt64 = 0x5EED_0002
    static let querySeed: UInt64 = 0x5EED_0004
    static let ranks: UInt64 = 1_000_000

    init(_ arguments: BenchArguments) {
        self.arguments = arguments
        file = arguments.path + "/bench.annals"
    }

    func run() throws {
        switch arguments.workload {
        case "load": try load(batch: arguments.batch)
        case "commit": try load(batch: 1)
        case "open": try open()
        case "get": try get(each: false)
        case "get_each": try get(each: true)
        case "scan": try scan()
        case "query": try query()
        case "update": try update()
        case "delete": try delete()
        case "history": try history()
        case "kill": try commitUntilKilled()
        case "search_load": try Searching(arguments: arguments).load()
        case "search": try Searching(arguments: arguments).find()
        case "twoproc": try TwoProcesses(arguments: arguments).run()
        case "tracker": try TaskEnd.run { [arguments] in try await Tracked(arguments: arguments).run() }
        case "tracker_writer": try Tracked(arguments: arguments).write()
        case "mixed": try mixed()
        case "threads": try threads()
        case "contention": try Contention(arguments: arguments).run()
        case "contention_writer": try Contention(arguments: arguments).write()
        case "compaction": try Compaction(arguments: arguments).run()
        case "compaction_compactor": try Compaction(arguments: arguments).compact()
        case "mirror": try mirror { try $0.run(report: $1) }
        case "mirror_conflicts": try mirror { try $0.runWithConflicts(report: $1) }
        case "mirror_live": try mirrorLive()
        case "twoproc_writer": try TwoProcesses(arguments: arguments).write()
        case let name where name.hasPrefix("typed_"):
            let typed = Typed(arguments: arguments, file: file, options: options) { report($0, $1, $2, $3) }
            try typed.run()
        case let name where name.hasPrefix("object_"):
            let objects = Objects(arguments: arguments, file: file, options: options) { report($0, $1, $2, $3) }
            try objects.run()
        default: throw BenchError(message: "there is no workload \(arguments.workload)")
        }
    }

    private func mirror(_ run: (Mirroring, (Double, String) -> Void) throws -> Void) throws {
        let (store, items) = try makeStore()
        let mirroring = Mirroring(arguments: arguments, source: store, items: items, options: options)
        try run(mirroring) { report(arguments.rows, $0, arguments.rows, $1) }
    }

    private func mirrorLive() throws {
        let live = LiveMirror(arguments: arguments) { try makeStore($0).0 }
        nonisolated(unsafe) let workload = live
        try TaskEnd.run { try await workload.run() }
    }

    // MARK: The store

    private func item(hasIndex: Bool) -> EntityDescription {
        EntityDescription(
            "Item",
            attributes: [
                AttributeDescription("title", .string, isOptional: false),
                AttributeDescription("url", .string, isOptional: false),
                AttributeDescription("note", .string, isOptional: false),
                AttributeDescription("created", .double, isOptional: false),
                AttributeDescription("rank", .int, isOptional: false, isIndexed: hasIndex),
                AttributeDescription("flag", .bool, isOptional: false),
            ])
    }

    private var options: Store.Options {
        var options = Store.Options()
        options.durability = arguments.isDurable ? .full : .relaxed
        return options
    }

    private func openStore() throws -> (Store, EntityHandle) {
        let store = try Store(at: file, options: options)
        return (store, try store.entity("Item"))
    }

    func makeStore(_ name: String = "bench") throws -> (Store, EntityHandle) {
        let file = arguments.path + "/\(name).annals"
        try FileManager.default.createDirectory(atPath: arguments.path, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: file) { try FileManager.default.removeItem(atPath: file) }
        let store = try Store(at: file, entities: [item(hasIndex: arguments.hasIndex)], options: options)
        return (store, try store.entity("Item"))
    }

    private func object(_ number: UInt64, _ items: EntityHandle) -> ObjectID {
        guard let object = ObjectID(entityNumber: items.number, number: number) else {
            preconditionFailure("Benchmark rows are numbered from 1.")
        }
        return object
    }

    // MARK: Writing

    static func insert(_ numbers: Range<UInt64>, _ items: EntityHandle, _ row: BenchRow, _ store: Store) throws {
        _ = try store.writeOptimistically(author: "app.main", contextName: "editor") { transaction in
            for number in numbers {
                row.make(number)
                try transaction.insert(items) { (writer) throws(StoreError) in
                    try writer.set(utf8: row.title, at: 0)
                    try writer.set(utf8: row.url, at: 1)
                    try writer.set(utf8: row.note, at: 2)
                    try writer.set(double: row.created, at: 3)
                    try writer.set(int: row.rank, at: 4)
                    try writer.set(bool: row.flag, at: 5)
                }
            }
        }
    }

    private func load(batch: UInt64) throws {
        let (store, items) = try makeStore()
        let row = BenchRow()
        var latencies: [Double] = []
        latencies.reserveCapacity(Int(arguments.rows / batch) + 1)
        let start = seconds()
        var before = start
        var number: UInt64 = 1
        while number <= arguments.rows {
            let end = min(number + batch, arguments.rows + 1)
            try Self.insert(number..<end, items, row, store)
            number = end
            let now = seconds()
            latencies.append(now - before)
            before = now
        }
        let privateMemory = Memory.privateKilobytes
        try finish(store, arguments.rows, before - start, latencies, ",\"private_kb\":\(privateMemory)")
    }

    private func commitUntilKilled() throws {
        let (store, items) = try makeStore()
        let row = BenchRow()
        var number: UInt64 = 1
        while true {
            try Self.insert(number..<number + arguments.batch, items, row, store)
            number += arguments.batch
            if number % 1000 == 1 { Printer.standardOutput("\(number - 1)\n") }
        }
    }

    private func update() throws {
        let (store, items) = try openStore()
        let count = try largestNumber(store, items)
        var random = SplitMix(state: Self.updateSeed)
        let note = BenchText()
        var latencies: [Double] = []
        let start = seconds()
        var before = start
        var done: UInt64 = 0
        while done < arguments.rows {
            let size = min(arguments.batch, arguments.rows - done)
            var generator = random
            _ = try store.writeOptimistically(author: "app.main", contextName: "editor") { transaction in
                generator = random
                for _ in 0..<size {
                    let id = object(1 + generator.next() % count, items)
                    note.make(88 + Int(generator.next() % 65), &generator)
                    let rank = Int64(generator.next() % Self.ranks)
                    do {
                        try transaction.update(id) { (writer) throws(StoreError) in
                            try writer.set(utf8: note.bytes, at: 2)
                            try writer.set(int: rank, at: 4)
                        }
                    } catch let error as StoreError where error.code == .objectNotFound {
                    }
                }
            }
            random = generator
            done += size
            let now = seconds()
            latencies.append(now - before)
            before = now
        }
        try finish(store, arguments.rows, before - start, latencies, ",\"store_rows\":\(count)")
    }

    private func delete() throws {
        let (store, items) = try openStore()
        let count = try largestNumber(store, items)
        let total = min(arguments.rows, count)
        var latencies: [Double] = []
        let start = seconds()
        var before = start
        var done: UInt64 = 0
        while done < total {
            let size = min(arguments.batch, total - done)
            _ = try store.writeOptimistically(author: "app.main", contextName: "editor") { transaction in
                for operation in done..<done + size {
                    do {
                        try transaction.delete(object(1 + (operation &* 2_654_435_761) % count, items))
                    } catch let error as StoreError where error.code == .objectNotFound {
                    }
                }
            }
            done += size
            let now = seconds()
            latencies.append(now - before)
            before = now
        }
        try finish(store, total, before - start, latencies, ",\"store_rows\":\(count)")
    }

    private func mixed() throws {
        let (store, items) = try openStore()
        let count = try largestNumber(store, items)
        let run = try Mixed(arguments: arguments, store: store, items: items, count: count).run()
        try store.close()
        report(
            UInt64(run.updates), run.seconds, UInt64(run.updates),
            ",\"store_rows\":\(count),\"gets_per_s\":\(Double(run.gets) / run.seconds),"
                + "\"updates_per_s\":\(Double(run.updates) / run.seconds),\"max_commit_ms\":\(run.longest * 1e3)")
    }

    // MARK: Reading

    /// Opens the store and reads a row; then once more, without what a program pays only once: the runtime's first use
    /// of each type.
    private func open() throws {
        let reads = Reads.bytes
        let (elapsed, isThere) = try openAndRead()
        let read = Reads.bytes - reads
        let privateMemory = Memory.privateKilobytes
        let (again, _) = try openAndRead()
        report(
            arguments.rows, elapsed, 1,
            ",\"found\":\(isThere),\"again_s\":\(again),\"read_bytes\":\(read),\"private_kb\":\(privateMemory)")
    }

    private func openAndRead() throws -> (seconds: Double, isThere: Bool) {
        let start = seconds()
        let (store, items) = try openStore()
        var sum: UInt64 = 0
        let isThere = try store.snapshot().withRow(object(arguments.rows / 2 + 1, items), in: items) {
            (row) throws(StoreError) in sum = try Checksum.of(row)
        }
        let elapsed = seconds() - start
        try store.close()
        return (elapsed, isThere && sum != 0)
    }

    private func get(each: Bool) throws {
        let (store, items) = try openStore()
        let count = try largestNumber(store, items)
        // The second pass counts: in the first one the file's pages are mapped and verified.
        for pass in 0..<2 {
            var random = SplitMix(state: Self.getSeed)
            var sum: UInt64 = 0
            let start = seconds()
            var snapshot = try store.snapshot()
            for _ in 0..<arguments.rows {
                if each { snapshot = try store.snapshot() }
                _ = try snapshot.withRow(object(1 + random.next() % count, items), in: items) {
                    (row) throws(StoreError) in
                    sum &+= try Checksum.of(row)
                }
            }
            let elapsed = seconds() - start
            if pass == 1 {
                report(arguments.rows, elapsed, arguments.rows, ",\"store_rows\":\(count),\"checksum\":\(sum)")
            }
        }
        try store.close()
    }

    private func threads() throws {
        let (store, items) = try openStore()
        let count = try largestNumber(store, items)
        try Parallel(arguments: arguments, store: store, items: items, count: count).run()
        try store.close()
    }

    private func scan() throws {
        let (store, items) = try openStore()
        for pass in 0..<2 {
            var sum: UInt64 = 0
            var rows: UInt64 = 0
            let start = seconds()
            try store.snapshot().forEachRow(of: items) { (row) throws(StoreError) in
                sum &+= try Checksum.of(row)
                rows += 1
                return true
            }
            let elapsed = seconds() - start
            if pass == 1 { report(rows, elapsed, rows, ",\"checksum\":\(sum)") }
        }
        try store.close()
    }

    private func query() throws {
        var (store, items) = try openStore()
        var indexSeconds = 0.0
        if !(try store.entities[0].attributes[4].isIndexed) {
            let start = seconds()
            try store.changeSchema([.changeAttribute("rank", of: "Item", isIndexed: true)])
            indexSeconds = seconds() - start
            items = try store.entity("Item")
        }
        for pass in 0..<2 {
            var random = SplitMix(state: Self.querySeed)
            var sum: UInt64 = 0
            var rows: UInt64 = 0
            let start = seconds()
            let snapshot = try store.snapshot()
            for _ in 0..<arguments.rows {
                let low = Int64(random.next() % 999_900)
                try snapshot.forEachRow(
                    of: items, by: ["rank"], from: .including([.int(low)]), to: .including([.int(low + 100)])
                ) { (row) throws(StoreError) in
                    sum &+= try Checksum.of(row)
                    rows += 1
                    return true
                }
            }
            let elapsed = seconds() - start
            if pass == 1 {
                report(
                    arguments.rows, elapsed, rows,
                    ",\"result_rows\":\(rows),\"index_s\":\(indexSeconds),\"checksum\":\(sum)")
            }
        }
        try store.close()
    }

    /// The history that was read.
    private struct HistorySum {
        var seconds = 0.0
        var transactions: UInt64 = 0
        var changes: UInt64 = 0
        var sum: UInt64 = 0
    }

    private func history() throws {
        let (store, _) = try openStore()
        // The peers have no transaction for the schema, which is the first one here.
        let last = try store.snapshot().token.number - 1
        var tail = try readHistory(store, after: last - last / 10 + 1)
        let all = try readHistory(store, after: 1)
        // The peers number changes; these began to count with 1.
        tail.sum &+= (all.changes - tail.changes) &* tail.changes
        for (name, read) in [("history_tail", tail), ("history_all", all)] {
            report(
                read.changes, read.seconds, read.changes,
                ",\"transactions\":\(read.transactions),\"changes\":\(read.changes),\"checksum\":\(read.sum)",
                name: name)
        }
        try store.close()
    }

    private func readHistory(_ store: Store, after first: UInt64) throws -> HistorySum {
        var read = HistorySum()
        let start = seconds()
        try store.forEachTransaction(after: first) { (transaction) throws(StoreError) in
            read.transactions += 1
            read.sum &+= transaction.number &- 1 &+ (transaction.microseconds > 0 ? 1 : 0)
            if let author = transaction.author { read.sum &+= Checksum.of(author) }
            if let context = transaction.contextName { read.sum &+= Checksum.of(context) }
            try transaction.forEachChange { (change) in
                read.changes += 1
                let object = change.object
                read.sum &+= read.changes &+ UInt64(object.entityNumber) &+ object.number
                switch change.kind {
                case .insert: break
                case .update:
                    read.sum &+= 1
                    for position in 0..<6 where change.changes(at: position) { read.sum &+= 1 << UInt64(position) }
                case .delete: read.sum &+= 2
                }
                return true
            }
            return true
        }
        read.seconds = seconds() - start
        return read
    }

    // MARK: Around

    private func largestNumber(_ store: Store, _ items: EntityHandle) throws -> UInt64 {
        var largest: UInt64 = 0
        try store.snapshot().forEachRow(of: items, reversed: true) { (row) in
            largest = row.id.number
            return false
        }
        guard largest > 0 else { throw BenchError(message: "the store is empty: load it first") }
        return largest
    }

    private func finish(
        _ store: Store, _ operations: UInt64, _ elapsed: Double, _ latencies: [Double], _ extra: String
    ) throws {
        let start = seconds()
        try store.close()
        let close = seconds() - start
        let sorted = latencies.sorted()
        let median = sorted[sorted.count / 2] * 1e6
        let high = sorted[sorted.count * 99 / 100] * 1e6
        report(
            operations, elapsed, operations,
            ",\"batch\":\(arguments.batch),\"median_us\":\(median),\"p99_us\":\(high),\"close_s\":\(close)" + extra)
    }

    private func report(_ rows: UInt64, _ elapsed: Double, _ operations: UInt64, _ extra: String, name: String? = nil) {
        let size = fileBytes(file)
        let peer = arguments.isDurable ? "annals-sync" : "annals"
        Printer.standardOutput(
            "{\"peer\":\"\(peer)\",\"workload\":\"\((name ?? arguments.workload) + arguments.tag)\",\"rows\":\(rows),"
                + "\"seconds\":\(elapsed),"
                + "\"ops_per_s\":\(elapsed > 0 ? Double(operations) / elapsed : 0),\"file_bytes\":\(size),"
                + "\"peak_rss_kb\":\(Memory.peakKilobytes)\(extra)}\n")
    }
}

/// The checksum of a row as the peers compute it.
enum Checksum {
    static func of(_ text: String) -> UInt64 {
        text.utf8.withContiguousStorageIfAvailable { BenchRow.sum(UnsafeRawBufferPointer($0)) } ?? 0
    }

    static func of(_ row: borrowing RowView) throws(StoreError) -> UInt64 {
        var sum = row.id.number
        for position in 0..<3 {
            _ = try row.withBytes(at: position) { sum &+= BenchRow.sum($0) }
        }
        sum &+= (row.double(at: 3) ?? 0).bitPattern
        sum &+= UInt64(bitPattern: row.int(at: 4) ?? 0)
        return sum &+ (try row.bool(at: 5) == true ? 1 : 0)
    }
}
