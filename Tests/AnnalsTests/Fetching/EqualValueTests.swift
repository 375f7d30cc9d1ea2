// A value is found by every value that Swift calls equal to it: with an index and without one, before and after saving,
// in contexts and transactions, by `find`, and where transactions are applied.
//
// `Tests/run long equal` runs it for longer: an operation is a value.

import Annals
import FoundationEssentials
import TestSupport
import Testing

struct DatedItem: Entity, Equatable {
    var number = 0
    var indexed = Date.distantPast
    var plain = Date.distantPast
    var key = Date.distantPast
    var note = ""

    static let schema = Schema<DatedItem> {
        Attribute(\.indexed, .indexed)
        Attribute(\.key, .unique)
    }

    init(_ number: Int, _ date: Date) {
        self.number = number
        (indexed, plain, key) = (date, date, date)
    }

    init() {}
}

/// Not by `description`, which traps for some dates.
private func shown(_ date: Date) -> Comment { "\(date.timeIntervalSinceReferenceDate)" }

enum RandomDate {
    /// Dates as programs make them, and any others: no two of them equal, and none that is not a number.
    static func several(_ count: Int, _ random: inout SeededRandom) -> [Date] {
        var seen: Set<Date> = []
        while seen.count < count {
            let date = one(&random)
            if date == date { seen.insert(date) }
        }
        return seen.sorted().shuffled(using: &random)
    }

    private static func one(_ random: inout SeededRandom) -> Date {
        let second = Double(Int.random(in: 1_500_000_000...1_900_000_000, using: &random))
        switch Int.random(in: 0..<8, using: &random) {
        case 0: return Date(timeIntervalSince1970: second + Double(Int.random(in: 0..<1000, using: &random)) / 1000)
        case 1: return Date(timeIntervalSince1970: Double(Int(second) * 1000 + Int(random.next() % 1000)) / 1000)
        case 2: return Date(timeIntervalSince1970: second + Double(Int.random(in: 0..<1_000_000, using: &random)) / 1e6)
        case 3: return Date(timeIntervalSince1970: Double.random(in: 0...4e9, using: &random))
        case 4: return Date(timeIntervalSinceReferenceDate: Double.random(in: -1e11...1e11, using: &random))
        case 5: return Date(timeIntervalSinceReferenceDate: Double.random(in: -1...1, using: &random))
        case 6:
            return Date(timeIntervalSinceReferenceDate: [-0.0, .infinity, -.infinity, 1e-300][Int(random.next() % 4)])
        default: return Date(timeIntervalSinceReferenceDate: Double(bitPattern: random.next()))
        }
    }
}

@Suite struct EqualDateTests {
    private let folder: StoreFolder
    private let other: StoreFolder

    init() throws { (folder, other) = (try StoreFolder(), try StoreFolder()) }

    @Test func datesAreFoundByEveryEqualDate() throws {
        guard let long = LongRun("equal", operations: 150) else { return }
        let stores = long.forEachStore(50) { seed, count in
            var random = SeededRandom(seed)
            try check(RandomDate.several(count, &random), "seed \(seed)")
        }
        if let stores { print("equal, seed \(long.seed): \(long.operations) dates in \(stores) stores") }
    }

    private func check(_ dates: [Date], _ place: String) throws {
        for path in [folder.path, other.path] where FileManager.default.fileExists(atPath: path) {
            try FileManager.default.removeItem(atPath: path)
        }
        let store = try Store(at: folder.path, entities: [DatedItem.self])
        let half = dates.count / 2
        let context = store.makeContext()
        let objects = dates[..<half].enumerated().map { context.insert(DatedItem($0, $1)) }
        for (object, date) in zip(objects, dates) { try find(context, date, [object.number], place) }
        try context.save()
        for (object, date) in zip(objects, dates) {
            #expect(object.indexed == date && object.plain == date, shown(date))
            try find(context, date, [object.number], place)
        }
        let live = try objects.indices.map { number in
            let date = dates[number]
            return try context.results(DatedItem.self, where: #Predicate { $0.indexed == date && $0.plain == date })
        }
        for object in objects { object.note = "changed" }
        try context.save()
        #expect(live.map { $0.map(\.number) } == objects.indices.map { [$0] } && !context.hasChanges)
        try store.writeOptimistically { transaction in
            for (number, date) in dates.enumerated().dropFirst(half) {
                let reference = try transaction.insert(DatedItem(number, date))
                let found = try transaction.references(to: DatedItem.self, where: #Predicate { $0.indexed == date })
                let plain = try transaction.references(to: DatedItem.self, where: #Predicate { $0.plain == date })
                #expect(found == [reference] && plain == [reference], shown(date))
            }
        }
        try compare(store, dates, place)
        try relay(store, dates, place)
        try readByTool(dates, place)
        context.close()
        try store.close()
        try folder.expectIntact()
    }

    private func find(_ context: Context, _ date: Date, _ wanted: [Int], _ place: String) throws {
        let indexed = try context.fetch(DatedItem.self, where: #Predicate { $0.indexed == date })
        let plain = try context.fetch(DatedItem.self, where: #Predicate { $0.plain == date })
        let several = try context.fetch(DatedItem.self, where: #Predicate { [date].contains($0.indexed) })
        #expect(
            indexed.map(\.number) == wanted && plain.map(\.number) == wanted && several.map(\.number) == wanted,
            shown(date))
    }

    /// What is committed, as of now: equality, ranges, sets, order, upsert.
    private func compare(_ store: Store, _ dates: [Date], _ place: String) throws {
        let snapshot = try store.snapshot()
        for (number, date) in dates.enumerated() {
            let same = try snapshot.fetch(DatedItem.self, where: #Predicate { $0.indexed == date && $0.plain == date })
            #expect(same.map(\.number) == [number] && same[0].plain == date, shown(date))
            let below = dates.count { $0 < date }
            #expect(
                try snapshot.count(DatedItem.self, where: #Predicate { $0.indexed < date }) == below
                    && snapshot.count(DatedItem.self, where: #Predicate { $0.plain < date }) == below
                    && snapshot.count(DatedItem.self, where: #Predicate { $0.indexed <= date }) == below + 1,
                shown(date))
        }
        let few = dates.enumerated().filter { $0.offset % 3 == 0 }.map(\.element)
        #expect(try snapshot.count(DatedItem.self, where: #Predicate { few.contains($0.indexed) }) == few.count)
        #expect(try snapshot.count(DatedItem.self, where: #Predicate { few.contains($0.plain) }) == few.count)
        #expect(
            try snapshot.fetch(DatedItem.self, sortedBy: .ascending(\.plain)).map(\.plain) == dates.sorted()
                && snapshot.fetch(DatedItem.self, sortedBy: .descending(\.indexed)).map(\.plain)
                    == dates.sorted().reversed()
        )
        try store.writeOptimistically { transaction in
            for (number, date) in dates.enumerated() {
                var item = DatedItem(number, date)
                item.note = "upserted"
                try transaction.upsert(item, updating: [\.note])
            }
        }
        #expect(try store.snapshot().count(DatedItem.self) == dates.count)
    }

    private func relay(_ store: Store, _ dates: [Date], _ place: String) throws {
        let copy = try Store(at: other.path, entities: [DatedItem.self])
        // The objects are there already, and are matched by their keys.
        try copy.writeOptimistically { transaction in
            for (number, date) in dates.enumerated() { try transaction.insert(DatedItem(number, date)) }
        }
        let error = #expect(throws: StoreError.self) {
            for transaction in try store.export() {
                _ = try copy.apply(try ExportedTransaction(jsonLine: transaction.jsonLine))
            }
        }
        #expect(
            error?.code == .applyConflict || error?.code == .uniqueViolation, "\(place): \(String(describing: error))")
        try copy.writeOptimistically { transaction in
            for reference in try transaction.references(to: DatedItem.self) { try transaction.delete(reference) }
        }
        for transaction in try store.export() {
            _ = try copy.apply(try ExportedTransaction(jsonLine: transaction.jsonLine))
        }
        let rows = try copy.snapshot().rows(of: "DatedItem").map { [$0["plain"], $0["indexed"], $0["key"]] }
        #expect(try rows == store.snapshot().rows(of: "DatedItem").map { [$0["plain"], $0["indexed"], $0["key"]] })
        try copy.close()
    }

    /// The tool's text is read as the same dates, by `find` and by `load`.
    private func readByTool(_ dates: [Date], _ place: String) throws {
        let dump = try runTool(["dump", folder.path, "--entity", "DatedItem", "--bare"]).output
        let texts = dump.split(separator: "\n").compactMap { $0.firstMatch(of: /"plain":"([^"]*)"/)?.1 }
        for attribute in ["plain", "indexed"] {
            let condition = texts.map { "\(attribute) = \"\($0)\"" }.joined(separator: " or ")
            let found = try runTool(["find", folder.path, "DatedItem", "--where", condition, "--count"])
            #expect(found.output == "\(dates.count)\n", "\(place): \(found.errors)")
        }
        let loaded = try runTool(
            ["load", folder.path, "-", "--entity", "DatedItem", "--key", "key"], input: dump)
        #expect(loaded.status == 0 && loaded.output.contains("\(dates.count) unchanged"), "\(place): \(loaded)")
    }

    @Test func datesThatAreNoMomentAreKeptAndSortedLast() throws {
        let store = try Store(at: folder.path, entities: [DatedItem.self])
        let nan = Date(timeIntervalSinceReferenceDate: .nan)
        let dates = [nan, Date(timeIntervalSinceReferenceDate: .infinity), .now]
        try store.writeOptimistically { transaction in
            for (number, date) in dates.enumerated() { try transaction.insert(DatedItem(number, date)) }
        }
        // As for doubles: every NaN has the same key.
        #expect(throws: StoreError.self) { try store.writeOptimistically { try $0.insert(DatedItem(3, nan)) } }
        let snapshot = try store.snapshot()
        #expect(try snapshot.count(DatedItem.self, where: #Predicate { $0.indexed == nan || $0.plain == nan }) == 0)
        for sort in [SortKey<DatedItem>.ascending(\.plain), .ascending(\.indexed)] {
            #expect(try snapshot.fetch(DatedItem.self, sortedBy: sort).map(\.number) == [2, 1, 0])
        }
        #expect(try snapshot.fetch(DatedItem.self)[0].plain.timeIntervalSinceReferenceDate.isNaN)
        #expect(try runTool(["dump", folder.path, "--bare"]).output.contains("\"NaN\""))
        try store.close()
        try folder.expectIntact()
    }
}
