// The facts of a report: one state of a store, and counts of its history in bounded memory.

internal import Annals

struct ReportFacts {
    struct Reader {
        var consumer: Consumer
        /// The time of the first transaction that it has not read.
        var unreadSince: Int64?
        /// About how many bytes cleaning and compaction would free more if it had read everything.
        var heldBytes: UInt64 = 0
    }

    let made = Timestamp.now
    let diskBytes: UInt64?
    private(set) var state: StoreFacts
    /// The removal of everything that all consumers have read, and of all transactions.
    private(set) var (plan, wholePlan): (Store.CleaningPlan, Store.CleaningPlan)
    /// Whether the state, the plans and the readers are of one moment.
    private(set) var isSteady = false
    private(set) var readers: [Reader] = []
    /// A note about missing history, and the requested place.
    private(set) var (note, since): (String?, UInt64?)
    private(set) var (transactions, changes): (UInt64, UInt64) = (0, 0)
    private(set) var (authors, entities) = (HistorySummary.Groups(), HistorySummary.Groups())
    /// By the number of the entity: the index of its group.
    private var entityIndices: [UInt16: Int] = [:]
    private(set) var (earliest, latest): (Int64, Int64) = (.max, .min)
    private(set) var timeline = Timeline(from: 0, to: 0)
    private(set) var (sizes, gaps) = (Histogram.sizes, Histogram.gaps)
    private(set) var objects = FrequentObjects()
    /// The updates of each attribute, by the index of its entity's group and its name at that time.
    private(set) var updates: [Int: [IdentifierName: UInt64]] = [:]
    private(set) var (first, last): ((time: Int64, fileEnd: UInt64)?, (time: Int64, fileEnd: UInt64)?)

    init(_ store: Store, since place: HistoryPlace?) throws {
        diskBytes = ReportCommand.freeBytes(ofDisk: store.path)
        var request = HistoryRequest()
        if let place {
            request.after = try store.requestPlace(place)
            // If history no longer reaches back to the place, the note contains the place that replaces it.
            since = try? store.token(of: place).number
        }
        (state, plan, wholePlan) = (try StoreFacts(store), try store.cleaningPlan(), try store.cleaningPlan())
        // Reads the state again if a transaction comes in between, up to twenty times.
        for _ in 0...20 where !isSteady {
            (state, plan) = (try StoreFacts(store), try store.cleaningPlan())
            wholePlan = try store.cleaningPlan(before: state.token.number + 1)
            readers = try state.consumers.map { try reader($0, store) }
            isSteady = try store.currentToken == state.token
        }
        note = try HistoryCommand.continueAtGap(&request, store)
        try read(request, store)
    }

    private func reader(_ consumer: Consumer, _ store: Store) throws -> Reader {
        var reader = Reader(consumer: consumer)
        guard consumer.kind.contains(.reads), consumer.lag > 0, !consumer.isLost else { return reader }
        let read = try store.cleaningPlan(before: consumer.cursor.number + 1).regainedBytes
        reader.heldBytes = wholePlan.regainedBytes - min(read, wholePlan.regainedBytes)
        let unread = HistoryRequest(after: .number(consumer.cursor.number), limit: 1)
        try store.forEachTransaction(unread) { (transaction) throws(StoreError) in
            reader.unreadSince = transaction.microseconds
            return false
        }
        return reader
    }

    func entityName(_ object: ObjectID) -> String {
        entityIndices[object.entityNumber].map { entities.names[$0] } ?? "?"
    }

    private mutating func read(_ request: HistoryRequest, _ store: Store) throws {
        let progress = Progress("transactions")
        // The times alone decide how long a period is. They come without reading changes.
        try store.forEachTransaction(request, in: state.snapshot) { (transaction) throws(StoreError) in
            let time = transaction.microseconds
            (earliest, latest) = (min(earliest, time), max(latest, time))
            return true
        }
        guard earliest <= latest else { return }
        timeline = Timeline(from: earliest, to: latest)
        try store.forEachTransaction(request, in: state.snapshot) { (transaction) throws(StoreError) in
            try add(transaction)
            progress.show(transactions)
            return true
        }
    }

    private mutating func add(_ transaction: borrowing HistoryTransactionView) throws(StoreError) {
        let (number, time, fileEnd) = (transaction.number, transaction.microseconds, transaction.fileEnd)
        let author = authors.index(of: transaction.author ?? "")
        authors.groups[author].count(nil, in: number, at: time)
        var count: UInt64 = 0
        try transaction.forEachChange { (change) throws(StoreError) in
            let (kind, object) = (change.kind, change.object)
            let entity = entityIndices[object.entityNumber] ?? entities.index(of: change.entity ?? "?")
            entityIndices[object.entityNumber] = entity
            entities.groups[entity].count(kind, in: number, at: time)
            authors.groups[author].count(kind, in: number, at: time)
            objects.add(object)
            for name in kind == .update ? try change.attributes() : [] {
                updates[entity, default: [:]][IdentifierName(name), default: 0] += 1
            }
            count += 1
            return true
        }
        (transactions, changes) = (transactions + 1, changes + count)
        timeline.add(time, author: author, changes: count, fileEnd: fileEnd)
        sizes.add(Int64(clamping: count))
        if let last {
            let (gap, isTooLong) = time.subtractingReportingOverflow(last.time)
            gaps.add(isTooLong ? (time > 0 ? .max : .min) : gap)
        }
        (first, last) = (first ?? (time, fileEnd), (time, fileEnd))
    }
}

/// Transactions and changes by period and author: at most 60 periods of a length that suits the whole time.
struct Timeline {
    struct Amount { var (transactions, changes): (UInt64, UInt64) = (0, 0) }

    struct Period {
        var label: String
        var amounts: [Int: Amount] = [:]
        var fileEnd: UInt64 = 0
    }

    /// A period in seconds or months. A label hides the last characters of a time such as 2026-01-02T03:04:05.Z.
    private typealias Unit = (name: String, seconds: Int64, months: Int64, hidden: Int)

    private static let units: [Unit] = [
        ("second", 1, 0, 2), ("10 seconds", 10, 0, 2), ("minute", 60, 0, 5), ("10 minutes", 600, 0, 5),
        ("hour", 3600, 0, 5), ("6 hours", 21_600, 0, 5), ("day", 86_400, 0, 11), ("week", week, 0, 11),
        ("month", 0, 1, 0), ("year", 0, 12, 0), ("10 years", 0, 120, 0), ("100 years", 0, 1200, 0),
        ("1,000 years", 0, 12_000, 0), ("10,000 years", 0, 120_000, 0),
    ]
    private static let week: Int64 = 604_800
    private let unit: Unit
    private let lowest: Int64
    private(set) var periods: [Period] = []

    var unitName: String { unit.name }

    /// - Parameters: The times of the first and the last transaction by time, in microseconds since 1970.
    init(from earliest: Int64, to latest: Int64) {
        // At the end of summer time, a local clock may show less at the end than before.
        let shown = [Timestamp.localSeconds(earliest), Timestamp.localSeconds(latest)].sorted()
        let units = Self.units
        let unit = units.first { Self.period(shown[1], $0) - Self.period(shown[0], $0) < 60 } ?? units[units.count - 1]
        (self.unit, lowest) = (unit, Self.period(shown[0], unit))
        guard earliest <= latest else { return }
        periods = (lowest...Self.period(shown[1], unit)).map { Period(label: Self.label(of: $0, unit)) }
    }

    mutating func add(_ microseconds: Int64, author: Int, changes: UInt64, fileEnd: UInt64) {
        let period = Self.period(Timestamp.localSeconds(microseconds), unit)
        let place = min(max(0, Int(period - lowest)), periods.count - 1)
        periods[place].amounts[author, default: Amount()].transactions += 1
        periods[place].amounts[author, default: Amount()].changes += changes
        periods[place].fileEnd = max(periods[place].fileEnd, fileEnd)
    }

    /// Weeks begin on Monday: 1970 began on a Thursday.
    private static func shift(_ unit: Unit) -> Int64 { unit.seconds == week ? 3 * 86_400 : 0 }

    private static func period(_ seconds: Int64, _ unit: Unit) -> Int64 {
        unit.months > 0
            ? Timestamp.floorDivided(Timestamp.month(seconds), unit.months)
            : Timestamp.floorDivided(seconds + shift(unit), unit.seconds)
    }

    private static func label(of period: Int64, _ unit: Unit) -> String {
        guard unit.months > 0 else {
            let time = Timestamp.text(seconds: period * unit.seconds - shift(unit), fraction: "").dropLast(unit.hidden)
            return time.split(separator: "T").joined(separator: " ")
        }
        let year = Timestamp.floorDivided(period * unit.months, 12)
        let month = String(period * unit.months - year * 12 + 1).zeroPadded(to: 2)
        return String(year).zeroPadded(to: 4) + (unit.months < 12 ? "-" + month : "")
    }
}

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

    static let sizes = Histogram([
        (0, "0"), (1, "1"), (2, "2–4"), (5, "5–9"), (10, "10–19"), (20, "20–49"), (50, "50–99"), (100, "100–199"),
        (200, "200–499"), (500, "500–999"), (1000, "1,000–1,999"), (2000, "2,000–4,999"), (5000, "5,000–9,999"),
        (10_000, "10,000–99,999"), (100_000, "100,000–999,999"), (1_000_000, "1,000,000 or more"),
    ])

    static let gaps = Histogram([
        (.min, "clock set back"), (0, "under 1 ms"), (1000, "1–10 ms"), (10_000, "10–100 ms"), (100_000, "0.1–1 s"),
        (second, "1–10 s"), (10 * second, "10–60 s"), (60 * second, "1–10 min"), (600 * second, "10–60 min"),
        (3600 * second, "1–6 hours"), (21_600 * second, "6–24 hours"), (86_400 * second, "1–7 days"),
        (604_800 * second, "7–30 days"), (2_592_000 * second, "30–365 days"), (31_536_000 * second, "over a year"),
    ])
    private static let second: Int64 = 1_000_000
}

/// Finds the objects that occur most with a bounded number of counters, by the algorithm of Misra and Gries.
struct FrequentObjects {
    static let capacity = 4096

    /// At most by `excess` too low.
    private var counts: [ObjectID: UInt64] = [:]
    /// The most occurrences that were not counted, of any object.
    private(set) var excess: UInt64 = 0

    mutating func add(_ object: ObjectID) {
        counts[object, default: 0] += 1
        guard counts.count > Self.capacity else { return }
        // Half of the counters become free.
        let median = counts.values.sorted()[Self.capacity / 2]
        counts = counts.filter { $0.value > median }.mapValues { $0 - median }
        excess += median
    }

    /// The objects that certainly occur more than once, the most frequent first.
    func most(_ count: Int) -> [(object: ObjectID, count: UInt64)] {
        let several = counts.filter { $0.value > 1 }.map { (object: $0.key, count: $0.value) }
        return Array(several.sorted { ($1.count, $0.object) < ($0.count, $1.object) }.prefix(count))
    }
}
