// The same rows as objects of a context: their cost compared with the untyped workloads, and the memory that they take.

import Annals
import FoundationEssentials

struct Objects {
    let arguments: BenchArguments
    let file: String
    let options: Store.Options
    let report: (_ rows: UInt64, _ elapsed: Double, _ operations: UInt64, _ extra: String) -> Void

    func run() throws {
        switch arguments.workload {
        case "object_load": try load()
        case "object_fetch": try fetch()
        case "object_read": try read()
        case "object_merge": try merge()
        case "object_results": try results()
        case "object_memory": try memory()
        default: throw BenchError(message: "there is no workload \(arguments.workload)")
        }
    }

    private func open() throws -> Store { try Store(at: file, entities: [Item.self], options: options) }

    // MARK: Writing

    private func load() throws {
        try FileManager.default.createDirectory(atPath: arguments.path, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: file) { try FileManager.default.removeItem(atPath: file) }
        let store = try open()
        let row = BenchRow()
        let context = store.makeContext(author: "app.main", name: "editor")
        let start = seconds()
        for number in 1...arguments.rows {
            row.make(number)
            context.insert(Item(row))
            if number % arguments.batch == 0 { try context.save() }
        }
        try context.save()
        report(arguments.rows, seconds() - start, arguments.rows, ",\"batch\":\(arguments.batch)")
        try store.close()
    }

    // MARK: Reading

    /// Fetches objects that are not held, then reads a property of each. The second pass counts: in the first one pages
    /// are mapped and verified.
    private func fetch() throws {
        let store = try open()
        for pass in 0..<2 {
            let context = store.makeContext()
            let start = seconds()
            let objects = try context.fetch(Item.self, limit: Int(arguments.rows))
            let fetched = seconds()
            var sum: UInt64 = 0
            for object in objects { sum &+= UInt64(object.rank) }
            let read = seconds()
            let count = UInt64(objects.count)
            release(objects)
            if pass == 1 {
                report(
                    count, fetched - start, count,
                    ",\"read_s\":\(read - fetched),\"release_s\":\(seconds() - read),"
                        + "\"with_values_per_s\":\(Double(count) / (read - start)),\"checksum\":\(sum)")
            }
        }
        try store.close()
    }

    private func release(_ objects: consuming [Object<Item>]) {}

    /// Reads a number and a text of objects that are held.
    private func read() throws {
        let store = try open()
        let context = store.makeContext()
        let objects = try context.fetch(Item.self, limit: 1000)
        for object in objects { _ = object.rank }
        let rounds = max(1, arguments.rows / 1000)
        let start = seconds()
        var sum: UInt64 = 0
        for _ in 0..<rounds {
            for object in objects { sum &+= UInt64(object.rank) }
        }
        let numbers = seconds()
        for _ in 0..<rounds {
            for object in objects { sum &+= UInt64(object.title.utf8.count) }
        }
        let texts = seconds()
        let reads = rounds * UInt64(objects.count)
        report(
            reads, numbers - start, reads,
            ",\"read_ns\":\((numbers - start) * 1e9 / Double(reads)),"
                + "\"text_ns\":\((texts - numbers) * 1e9 / Double(reads)),\"checksum\":\(sum)")
        try store.close()
    }

    // MARK: Merging

    /// A tenth of the rows is changed, `batch` a transaction: through the context's handle, then through another one,
    /// which the context's handle first has to read. A context has 1,000 of the changed objects, and merges.
    private func merge() throws {
        let (store, other) = (try open(), try open())
        let references = try store.snapshot().references(to: Item.self, limit: Int(arguments.rows))
        let step = max(1, references.count / max(1, Int(arguments.rows) / 10))
        let changed = stride(from: 0, to: references.count, by: step).map { references[$0] }
        for pass in 0..<10 {
            let isOther = pass % 2 == 1
            let context = store.makeContext()
            let held = try stride(from: 0, to: changed.count, by: max(1, changed.count / 1000)).map {
                try context.object(changed[$0])
            }
            let before = held.map(\.rank)
            try change(changed, in: isOther ? other : store)
            let start = seconds()
            _ = try store.snapshot()
            let caughtUp = seconds()
            try context.merge()
            let merged = seconds()
            let refreshed = zip(held, before).count { $0.rank == ($1 + 1) % 1_000_000 }
            report(
                UInt64(changed.count), merged - start, UInt64(changed.count),
                ",\"handle\":\"\(isOther ? "other" : "own")\",\"held\":\(held.count),\"refreshed\":\(refreshed),"
                    + "\"read_ms\":\((caughtUp - start) * 1e3),\"merge_ms\":\((merged - caughtUp) * 1e3)")
        }
        try other.close()
        try store.close()
    }

    private func change(_ references: [Reference<Item>], in store: Store) throws {
        var number = 0
        while number < references.count {
            let end = min(number + Int(arguments.batch), references.count)
            try store.write(author: "import") { transaction in
                for reference in references[number..<end] {
                    try transaction.update(reference) { $0.rank = ($0.rank + 1) % 1_000_000 }
                }
            }
            number = end
        }
    }

    /// A live result of a hundredth of the rows, sorted. One of its objects changes its place, in the context and then
    /// in the store.
    private func results() throws {
        let store = try open()
        let context = store.makeContext()
        let bound = 10_000
        let results = try context.results(
            Item.self, where: #Predicate { $0.rank < bound }, sortedBy: .ascending(\.rank))
        let references = results.references
        guard !references.isEmpty else { throw BenchError(message: "no row has a rank below 10,000") }
        var random = SplitMix(state: Workloads.updateSeed)
        var (edits, merges): ([Double], [Double]) = ([], [])
        for _ in 0..<1000 {
            let reference = references[Int(random.next() % UInt64(references.count))]
            let (first, second) = (Int(random.next() % 10_000), Int(random.next() % 10_000))
            let object = try context.object(reference)
            _ = object.rank
            let start = seconds()
            object.rank = first
            edits.append(seconds() - start)
            try context.save()
            try store.write(author: "import") { try $0.update(reference) { $0.rank = second } }
            let written = seconds()
            try context.merge()
            merges.append(seconds() - written)
        }
        let isSorted = zip(results, results.dropFirst()).allSatisfy { $0.rank <= $1.rank }
        func median(_ times: [Double]) -> Double { times.sorted()[times.count / 2] }
        report(
            UInt64(results.count), median(edits), 1,
            ",\"edit_us\":\(median(edits) * 1e6),\"merge_us\":\(median(merges) * 1e6),\"sorted\":\(isSorted)")
        try store.close()
    }

    // MARK: Memory

    /// What 100,000 objects take: only fetched, and with their values, beside the same values alone.
    private func memory() throws {
        let store = try open()
        let count = min(Int(arguments.rows), 100_000)
        // The runtime's first use of each type, and the store's pages.
        _ = try store.makeContext().fetch(Item.self, limit: 1000).map(\.rank)
        let snapshot = try store.snapshot()
        let empty = try Memory.heapBytes()
        let values = try snapshot.fetch(Item.self, limit: count)
        let valueBytes = try Memory.heapBytes() - empty
        let context = store.makeContext()
        let before = try Memory.heapBytes()
        let objects = try context.fetch(Item.self, limit: count)
        let fetched = try Memory.heapBytes() - before
        let start = seconds()
        let sum = objects.reduce(0) { $0 + $1.rank }
        let elapsed = seconds() - start
        let loaded = try Memory.heapBytes() - before
        let objectCount = Double(objects.count)
        report(
            UInt64(objects.count), elapsed, UInt64(objects.count),
            ",\"fetched_bytes\":\(Double(fetched) / objectCount),\"loaded_bytes\":\(Double(loaded) / objectCount),"
                + "\"value_bytes\":\(Double(valueBytes) / Double(values.count)),"
                + "\"object_bytes\":\(Double(loaded - valueBytes) / objectCount),\"checksum\":\(sum)")
        try store.close()
    }
}
