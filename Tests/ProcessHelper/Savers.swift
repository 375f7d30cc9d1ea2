// Processes whose contexts save in the background while they follow the store, and are killed. Each context sets one
// attribute of its own, with values that only rise. So whatever others do: what was saved is there or something newer
// of the same context, and no context has written another attribute.

import Annals
import FoundationEssentials
import Glibc
import TestSupport

enum Savers {
    struct Cell: Entity {
        var key = ""
        var a0 = 0
        var a1 = 0
        var a2 = 0
        var a3 = 0
        var a4 = 0
        var a5 = 0

        static let schema = Schema<Cell> { Attribute(\.key, .unique) }
    }

    /// Two contexts of each of three processes.
    static let attributes = 6

    static func open(_ path: String) throws -> Store {
        var options = Store.Options()
        options.durability = .relaxed
        options.lockTimeout = .seconds(600)
        return try Store(at: path, entities: [Cell.self], options: options)
    }

    static func value(_ cell: Cell, _ attribute: Int) -> Int {
        [cell.a0, cell.a1, cell.a2, cell.a3, cell.a4, cell.a5][attribute]
    }

    /// What a log says was saved: by key and attribute, the highest value.
    static func saved(in log: String) -> [String: [Int: Int]] {
        var saved: [String: [Int: Int]] = [:]
        for line in Lines.words(in: log) where line[0] == "a" {
            guard let attribute = Int(line[1]) else { continue }
            for pair in line[2...] {
                let parts = pair.split(separator: "=")
                guard parts.count == 2, let value = Int(parts[1]) else { continue }
                saved[String(parts[0]), default: [:]][attribute] = max(
                    value, saved[String(parts[0])]?[attribute] ?? 0)
            }
        }
        return saved
    }

    /// `savers work STORE LOG NUMBER SEED OPERATIONS`: goes on where its log ends.
    static func work(_ path: String, log: String, number: Int, seed: UInt64, operations: Int) throws {
        let ended = Ended()
        Task {
            do {
                let process = try SaverProcess(path, log: log, number: number, seed: seed)
                try await process.run(operations)
                ended.end(nil)
            } catch {
                ended.end(error)
            }
        }
        if let error = ended.wait() { throw error }
    }

    /// `savers check STORE LOG...`: everything that was saved is there, and no context has written what is another's.
    static func check(_ path: String, logs: [String]) throws {
        let store = try open(path)
        let cells = try store.snapshot().fetch(Cell.self)
        let byKey = Dictionary(cells.map { ($0.key, $0) }) { first, _ in first }
        guard byKey.count == cells.count else { throw Wrong("an object was inserted twice") }
        var values = 0
        for log in logs {
            for (key, saved) in Savers.saved(in: log) {
                guard let cell = byKey[key] else { throw Wrong("\(key) was saved, and is not there") }
                for (attribute, value) in saved {
                    values += 1
                    guard Savers.value(cell, attribute) >= value else {
                        throw Wrong(
                            "a\(attribute) of \(key) was saved as \(value), and is \(Savers.value(cell, attribute))")
                    }
                }
            }
        }
        var transactions = 0
        for transaction in try store.history(HistoryRequest()) {
            transactions += 1
            guard let author = transaction.author, author.hasPrefix("a") else { continue }
            for change in transaction.changes where change.kind == .update && change.attributes != [author] {
                throw Wrong("transaction \(transaction.number) of \(author) has changed \(change.attributes)")
            }
        }
        try store.close()
        Lines.write("\(cells.count) objects, \(values) values, \(transactions) transactions\n", to: 1)
    }
}

/// One process.
private actor SaverProcess {
    private struct Worker {
        let context: Context
        let attribute: Int
        let list: Results<Savers.Cell>
        /// What was set and is in no save that has succeeded: by key, the value.
        var unsaved: [String: Int] = [:]
        var tasks: [Task<Void, any Error>] = []
    }

    private let store: Store
    private let log: Lines
    private let stop: String
    private let name: String
    private var workers: [Worker] = []
    private var tracker: HistoryTracker?
    private let number: Int
    private var random: SeededRandom
    private var value: Int
    private var inserted = 0

    init(_ path: String, log: String, number: Int, seed: UInt64) throws {
        store = try Savers.open(path)
        stop = log + ".stop"
        let starts = Lines.words(in: log).count { $0[0] == "s" }
        // Above everything that it has saved and everything that it was about to save.
        value = (starts + 1) * 1_000_000
        name = "\(number).\(starts)"
        self.number = number
        random = SeededRandom(seed &* 7919 &+ UInt64(number) &* 131 &+ UInt64(starts))
        self.log = try Lines(appendingTo: log)
        self.log.add("s \(starts)")
    }

    /// The contexts live here.
    private func begin() throws {
        let attributes = [number * 2, number * 2 + 1]
        let contexts = attributes.map { store.makeContext(author: "a\($0)") }
        tracker = try HistoryTracker(
            store: store, contexts: [contexts[1]], currentAuthor: "a\(attributes[1])", allAuthors: [], logLevel: 0,
            consumer: "tracker \(number)")
        for (context, attribute) in zip(contexts, attributes) {
            context.mergePolicy = MergePolicy.allCases[Int(random.next(below: UInt64(MergePolicy.allCases.count)))]
            if random.next(below: 2) == 0 { context.undoLevels = 4 }
            workers.append(Worker(context: context, attribute: attribute, list: try context.results(Savers.Cell.self)))
        }
        try contexts[0].follow()
    }

    func run(_ operations: Int) async throws {
        try begin()
        for operation in 0..<operations {
            let index = Int(random.next(below: 2))
            do {
                try await act(index)
                try check(index)
            } catch { throw Wrong("process \(name), operation \(operation): \(error)") }
        }
        for index in workers.indices {
            for task in workers[index].tasks { _ = await task.result }
            try save(index)
        }
        Lines.write("done\n", to: 1)
        while access(stop, F_OK) != 0 { try await Task.sleep(for: .milliseconds(2)) }
        await tracker?.stop()
        let cells = try store.snapshot().fetch(Savers.Cell.self).map(Self.text)
        for worker in workers {
            try worker.context.merge()
            guard !worker.context.hasChanges else { throw Wrong("process \(name): something is unsaved in the end") }
            let shown = worker.list.map { Self.text($0.objectStatus.snapshot) }
            guard shown == cells else { throw Wrong("process \(name): a\(worker.attribute) shows something else") }
            worker.context.close()
        }
        try store.close()
    }

    private static func text(_ cell: Savers.Cell) -> String {
        "\(cell.key) \((0..<Savers.attributes).map { Savers.value(cell, $0) })"
    }

    // MARK: Operations

    private func act(_ index: Int) async throws {
        let context = workers[index].context
        switch random.next(below: 100) {
        case 0..<6:
            guard workers[index].list.count < 60 else { return }
            inserted += 1
            let cell = context.insert(Savers.Cell(key: "\(name).\(workers[index].attribute).\(inserted)"))
            set(cell, index)
        case 6..<40:
            let list = workers[index].list
            if !list.isEmpty { set(list[Int(random.next(below: UInt64(list.count)))], index) }
        case 40..<60: begin(index)
        case 60..<66: try save(index)
        case 66..<74: try context.merge()
        case 74..<88: await Task.yield()
        case 88..<94: try await Task.sleep(for: .microseconds(Int(random.next(below: 2000))))
        case 94..<98: if let task = workers[index].tasks.first { _ = await task.result }
        case 98..<99: workers[index].tasks.last?.cancel()
        default:
            do { _ = try store.compact() } catch let error as StoreError {
                guard error.code == .busy else { throw error }
            }
        }
    }

    private func set(_ cell: Object<Savers.Cell>, _ index: Int) {
        value += 1
        workers[index].unsaved[cell.key] = value
        switch workers[index].attribute {
        case 0: cell.a0 = value
        case 1: cell.a1 = value
        case 2: cell.a2 = value
        case 3: cell.a3 = value
        case 4: cell.a4 = value
        default: cell.a5 = value
        }
    }

    private func begin(_ index: Int) {
        let (context, unsaved) = (workers[index].context, workers[index].unsaved)
        workers[index].tasks.append(
            Task {
                _ = try await context.saveInBackground()
                acknowledge(unsaved, index)
            })
    }

    private func save(_ index: Int) throws {
        let unsaved = workers[index].unsaved
        try workers[index].context.save()
        acknowledge(unsaved, index)
        guard !workers[index].context.hasChanges else { throw Wrong("something is unsaved after saving") }
    }

    /// What was set before the save began is saved.
    private func acknowledge(_ saved: [String: Int], _ index: Int) {
        guard !saved.isEmpty else { return }
        log.add("a \(workers[index].attribute) " + saved.map { "\($0.key)=\($0.value)" }.joined(separator: " "))
        for (key, value) in saved where workers[index].unsaved[key] == value { workers[index].unsaved[key] = nil }
    }

    // MARK: What always holds

    private func check(_ index: Int) throws {
        let worker = workers[index]
        let own = "a\(worker.attribute)"
        for cell in worker.list where cell.objectStatus.isChanged {
            let changed = cell.objectStatus.changedValues.keys
            guard changed.allSatisfy({ $0 == own }) else { throw Wrong("\(cell.key) has edits of \(changed.sorted())") }
        }
        let keys = worker.list.map(\.key)
        guard Set(keys).count == keys.count else { throw Wrong("the list shows an object twice") }
        for cell in worker.list {
            guard let value = worker.unsaved[cell.key] else { continue }
            let shown = Savers.value(cell.objectStatus.snapshot, worker.attribute)
            guard shown == value else { throw Wrong("\(cell.key) was set to \(value), and shows \(shown)") }
        }
    }
}
