// What a report counts in one pass over history: periods, sizes, and frequent objects, all in bounded memory.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// Transactions and changes by period and author: at most 60 periods of a length that suits the whole time.
struct Timeline {
    struct Amount { var (transactions, changes): (UInt64, UInt64) = (0, 0) }

    struct Period {
        var label: String
        /// By the index of the author.
        var amounts: [Int: Amount] = [:]
        /// The end of the file after the period.
        var fileEnd: UInt64 = 0
    }

    private struct Unit {
        var name: String
        /// The length of a period: seconds, or months.
        var (seconds, months): (Int64, Int64)
        /// How many last characters of a time, such as 2026-01-02T03:04:05.Z, a label does not show.
        var hidden: Int
    }

    private static let units =
        [
            ("second", 1, 2), ("10 seconds", 10, 2), ("minute", 60, 5), ("10 minutes", 600, 5), ("hour", 3600, 5),
            ("6 hours", 21_600, 5), ("day", 86_400, 11), ("week", week, 11),
        ].map { Unit(name: $0, seconds: $1, months: 0, hidden: $2) }
        + [
            ("month", 1, 14), ("year", 12, 17), ("10 years", 120, 17), ("100 years", 1200, 17),
            ("1,000 years", 12_000, 17), ("10,000 years", 120_000, 17),
        ].map { Unit(name: $0, seconds: 0, months: $1, hidden: $2) }
    private static let week: Int64 = 604_800

    private let unit: Unit
    private let lowest: Int64
    private var clock = LocalClock()
    private(set) var periods: [Period] = []

    var unitName: String { unit.name }

    /// - Parameters: The times of the first and the last transaction by time, in microseconds since 1970.
    init(from earliest: Int64, to latest: Int64) {
        // At the end of summer time, a local clock may show less at the end than before.
        var clock = LocalClock()
        let (one, other) = (clock.seconds(earliest), clock.seconds(latest))
        let (first, last) = (min(one, other), max(one, other))
        let units = Self.units
        unit = units.first { Self.period(last, $0) - Self.period(first, $0) < 60 } ?? units[units.count - 1]
        lowest = Self.period(first, unit)
        guard earliest <= latest else { return }
        for period in lowest...Self.period(last, unit) {
            let time = Timestamp.text(seconds: Self.start(of: period, unit), fraction: "").dropLast(unit.hidden)
            periods.append(Period(label: time.split(separator: "T").joined(separator: " ")))
        }
    }

    mutating func add(_ microseconds: Int64, author: Int, changes: UInt64, fileEnd: UInt64) {
        let place = min(max(0, Int(Self.period(clock.seconds(microseconds), unit) - lowest)), periods.count - 1)
        periods[place].amounts[author, default: Amount()].transactions += 1
        periods[place].amounts[author, default: Amount()].changes += changes
        periods[place].fileEnd = max(periods[place].fileEnd, fileEnd)
    }

    /// Weeks begin on Monday: 1970 began on a Thursday.
    private static func shift(_ unit: Unit) -> Int64 { unit.seconds == week ? 3 * 86_400 : 0 }

    private static func period(_ seconds: Int64, _ unit: Unit) -> Int64 {
        guard unit.months > 0 else { return Timestamp.floorDivided(seconds + shift(unit), unit.seconds) }
        var (time, fields) = (time_t(seconds), tm())
        gmtime_r(&time, &fields)
        return Timestamp.floorDivided((Int64(fields.tm_year) + 1900) * 12 + Int64(fields.tm_mon), unit.months)
    }

    private static func start(of period: Int64, _ unit: Unit) -> Int64 {
        guard unit.months > 0 else { return period * unit.seconds - shift(unit) }
        let (year, month) = (Timestamp.floorDivided(period * unit.months, 12), period * unit.months)
        var fields = tm()
        (fields.tm_year, fields.tm_mon, fields.tm_mday) = (Int32(year - 1900), Int32(month - year * 12), 1)
        return Int64(timegm(&fields))
    }
}

/// Converts times to the seconds since 1970 of a clock that shows local time.
private struct LocalClock {
    /// The offset in the last quarter of an hour. No zone changes within one.
    private var offset: (quarter: Int64, seconds: Int64) = (.min, 0)

    mutating func seconds(_ microseconds: Int64) -> Int64 {
        let seconds = Timestamp.floorDivided(microseconds, 1_000_000)
        let quarter = Timestamp.floorDivided(seconds, 900)
        if quarter != offset.quarter {
            var (time, fields) = (time_t(seconds), tm())
            offset = (quarter, localtime_r(&time, &fields) == nil ? 0 : Int64(timegm(&fields)) - seconds)
        }
        return seconds + offset.seconds
    }
}

/// Counts numbers by ranges that grow like powers.
struct Histogram {
    /// The least number of each range.
    private let ranges: [(least: Int64, label: String)]
    private var counts: [UInt64]
    private(set) var largest = Int64.min

    init(_ ranges: [(Int64, String)]) {
        self.ranges = ranges
        counts = ranges.map { _ in 0 }
    }

    mutating func add(_ number: Int64) {
        counts[ranges.lastIndex { $0.least <= number } ?? 0] += 1
        largest = max(largest, number)
    }

    /// The ranges from the first to the last that is not empty.
    var rows: [(label: String, count: UInt64)] {
        let rows = zip(ranges, counts).map { (label: $0.label, count: $1) }
        return rows.drop { $0.count == 0 }.reversed().drop { $0.count == 0 }.reversed()
    }

    /// Changes of a transaction.
    static let sizes = Histogram([
        (0, "0"), (1, "1"), (2, "2–4"), (5, "5–9"), (10, "10–19"), (20, "20–49"), (50, "50–99"), (100, "100–199"),
        (200, "200–499"), (500, "500–999"), (1000, "1,000–1,999"), (2000, "2,000–4,999"), (5000, "5,000–9,999"),
        (10_000, "10,000–99,999"), (100_000, "100,000–999,999"), (1_000_000, "1,000,000 or more"),
    ])

    /// Microseconds between transactions.
    static let gaps = Histogram([
        (.min, "clock set back"), (0, "under 1 ms"), (1000, "1–10 ms"), (10_000, "10–100 ms"), (100_000, "0.1–1 s"),
        (second, "1–10 s"), (10 * second, "10–60 s"), (60 * second, "1–10 min"), (600 * second, "10–60 min"),
        (3600 * second, "1–6 hours"), (21_600 * second, "6–24 hours"), (86_400 * second, "1–7 days"),
        (604_800 * second, "7–30 days"), (2_592_000 * second, "30–365 days"), (31_536_000 * second, "over a year"),
    ])
    private static let second: Int64 = 1_000_000
}

/// Finds the objects that occur most, with a fixed number of counters: the Space-Saving algorithm of Metwally, Agrawal
/// and El Abbadi.
struct FrequentObjects {
    struct Counter {
        var object: ObjectID
        /// At least the number of occurrences.
        var count: UInt64
        /// By how much `count` may be too high.
        var excess: UInt64
    }

    static let capacity = 4096

    private var counters: [Counter] = []
    private var slots: [ObjectID: Int] = [:]
    /// A heap with the least count first. A count may be out of date, and then it is too low.
    private var heap: [(count: UInt64, slot: Int)] = []
    /// The most occurrences of an object without a counter.
    private(set) var mostUncounted: UInt64 = 0

    mutating func add(_ object: ObjectID) {
        if let slot = slots[object] {
            counters[slot].count += 1
        } else if counters.count < Self.capacity {
            slots[object] = counters.count
            heap.append((1, counters.count))
            counters.append(Counter(object: object, count: 1, excess: 0))
        } else {
            replaceLeast(with: object)
        }
    }

    private mutating func replaceLeast(with object: ObjectID) {
        while case let count = counters[heap[0].slot].count, heap[0].count < count { raiseFirst(to: count) }
        let (least, slot) = heap[0]
        slots[counters[slot].object] = nil
        slots[object] = slot
        counters[slot] = Counter(object: object, count: least + 1, excess: least)
        mostUncounted = least
        raiseFirst(to: least + 1)
    }

    private mutating func raiseFirst(to count: UInt64) {
        let first = (count: count, slot: heap[0].slot)
        var place = 0
        while case var child = 2 * place + 1, child < heap.count {
            if child + 1 < heap.count, heap[child + 1].count < heap[child].count { child += 1 }
            if heap[child].count >= count { break }
            heap[place] = heap[child]
            place = child
        }
        heap[place] = first
    }

    /// The objects that certainly occur more than once, the most frequent first.
    func most(_ count: Int) -> [Counter] {
        let several = counters.filter { $0.count - $0.excess > 1 }
        return Array(several.sorted { ($1.count, $0.object) < ($0.count, $1.object) }.prefix(count))
    }
}

/// Counts the updates of each attribute, by its name at that time.
struct AttributeCounts {
    private struct Name: Hashable { var (entity, attribute): (Int, ExactText) }

    private var indices: [Name: Int] = [:]
    private var counts: [(entity: Int, attribute: String, count: UInt64)] = []
    /// By the number of the entity and the position. Valid until the schema changes.
    private var positions: [UInt32: Int] = [:]

    mutating func forgetPositions() { positions = [:] }

    mutating func add(_ change: borrowing HistoryChangeView, _ entity: Int) throws(StoreError) {
        let changed = change.attributePositions
        for place in changed.indices {
            let key = UInt32(change.object.entityNumber) << 16 | UInt32(truncatingIfNeeded: changed[place])
            if positions[key] == nil { positions[key] = index(of: try change.attributes()[place], entity) }
            if let index = positions[key] { counts[index].count += 1 }
        }
    }

    private mutating func index(of attribute: String, _ entity: Int) -> Int {
        let name = Name(entity: entity, attribute: ExactText(attribute))
        if let index = indices[name] { return index }
        indices[name] = counts.count
        counts.append((entity, attribute, 0))
        return counts.count - 1
    }

    func most(_ count: Int) -> [(entity: Int, attribute: String, count: UInt64)] {
        Array(counts.sorted { ($1.count, $0.attribute) < ($0.count, $1.attribute) }.prefix(count))
    }
}
