// The same work on values of a program's own type: the cost of the typed layer, compared with the untyped workloads.
//
// The values are whole ones: `typed_load` makes three texts for each row before it is inserted, and each fetch makes
// its predicate. The untyped workloads do neither.

import Annals
import FoundationEssentials

/// The benchmark's row as a value.
struct Item: Entity {
    var title = ""
    var url = ""
    var note = ""
    var created = 0.0
    var rank = 0
    var flag = false

    /// The row's checksum as the peers compute it.
    func checksum(_ number: UInt64) -> UInt64 {
        number &+ created.bitPattern &+ UInt64(bitPattern: Int64(rank)) &+ (flag ? 1 : 0) &+ Checksum.of(title)
            &+ Checksum.of(url) &+ Checksum.of(note)
    }
}

extension Item {
    init(_ row: BenchRow) {
        self.init(
            title: String(decoding: row.title, as: UTF8.self), url: String(decoding: row.url, as: UTF8.self),
            note: String(decoding: row.note, as: UTF8.self), created: row.created, rank: Int(row.rank), flag: row.flag)
    }
}

/// All rows of the benchmark, made when they are asked for.
struct Items: RandomAccessCollection {
    let count: Int
    let row: BenchRow

    var startIndex: Int { 0 }
    var endIndex: Int { count }

    subscript(index: Int) -> Item {
        row.make(UInt64(index) + 1)
        return Item(row)
    }

    func makeIterator() -> Iterator { Iterator(items: self) }

    struct Iterator: IteratorProtocol {
        let items: Items
        private var number = 0

        init(items: Items) { self.items = items }

        mutating func next() -> Item? {
            guard number < items.count else { return nil }
            defer { number += 1 }
            return items[number]
        }
    }
}

struct Typed {
    let arguments: BenchArguments
    let file: String
    let options: Store.Options
    let report: (_ rows: UInt64, _ elapsed: Double, _ operations: UInt64, _ extra: String) -> Void

    func run() throws {
        switch arguments.workload {
        case "typed_load": try load()
        case "typed_get": try get()
        case "typed_scan": try scan()
        case "typed_filter": try filter()
        case "typed_query": try query()
        case "typed_sum": try sum()
        default: throw BenchError(message: "there is no workload \(arguments.workload)")
        }
    }

    private func open() throws -> Store { try Store(at: file, entities: [Item.self], options: options) }

    /// Times a pass over the store twice. The second pass counts: in the first one pages are mapped and verified.
    private func measure(_ body: (Snapshot) throws -> (operations: UInt64, sum: UInt64)) throws {
        let store = try open()
        for pass in 0..<2 {
            let start = seconds()
            let (operations, sum) = try body(try store.snapshot())
            let elapsed = seconds() - start
            if pass == 1 { report(operations, elapsed, operations, ",\"checksum\":\(sum)") }
        }
        try store.close()
    }

    private func load() throws {
        try FileManager.default.createDirectory(atPath: arguments.path, withIntermediateDirectories: true)
        if FileManager.default.fileExists(atPath: file) { try FileManager.default.removeItem(atPath: file) }
        let store = try open()
        let row = BenchRow()
        let values = Items(count: Int(arguments.rows), row: row)
        let start = seconds()
        let count = try store.insert(contentsOf: values, author: "app.main", contextName: "editor").count
        report(UInt64(count), seconds() - start, UInt64(count), "")
        try store.close()
    }

    private func get() throws {
        try measure { snapshot in
            guard let last = try snapshot.references(to: Item.self, sortedBy: .descending(\.rank), limit: 1).first
            else {
                throw BenchError(message: "the store is empty: load it first")
            }
            let count = UInt64(try snapshot.count(Item.self))
            var random = SplitMix(state: Workloads.getSeed)
            var sum: UInt64 = 0
            for _ in 0..<arguments.rows {
                let number = 1 + random.next() % count
                guard let id = ObjectID(entityNumber: last.id.entityNumber, number: number) else { continue }
                if let item = try snapshot[Reference<Item>(id)] { sum &+= item.checksum(number) }
            }
            return (arguments.rows, sum)
        }
    }

    private func scan() throws {
        try measure { snapshot in
            var sum: UInt64 = 0
            var rows: UInt64 = 0
            try snapshot.forEach(Item.self) { reference, item in
                sum &+= item.checksum(reference.id.number)
                rows += 1
                return true
            }
            return (rows, sum)
        }
    }

    /// About a tenth of the rows, which no index finds.
    private func filter() throws {
        let bound = 700_900_000.0
        try measure { snapshot in
            let found = try snapshot.count(Item.self, where: #Predicate { $0.created > bound && $0.title != "" })
            return (UInt64(try snapshot.count(Item.self)), UInt64(found))
        }
    }

    private func query() throws {
        try measure { snapshot in
            var random = SplitMix(state: Workloads.querySeed)
            var sum: UInt64 = 0
            for _ in 0..<arguments.rows {
                let low = Int(random.next() % 999_900)
                let high = low + 100
                let found = try snapshot.fetch(Item.self, where: #Predicate { $0.rank >= low && $0.rank <= high })
                for item in found { sum &+= item.checksum(0) }
            }
            return (arguments.rows, sum)
        }
    }

    private func sum() throws {
        try measure { snapshot in
            let total = try snapshot.sum(of: \Item.rank)
            return (UInt64(try snapshot.count(Item.self)), UInt64(total))
        }
    }
}
