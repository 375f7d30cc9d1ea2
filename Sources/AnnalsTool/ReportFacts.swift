// The facts of a report: one state of a store, and its history.

internal import Annals

/// The facts that need no history.
struct ReportState {
    struct Reader {
        var consumer: Consumer
        /// The time of the first transaction that it has not read.
        var unreadSince: Int64?
        /// About how many bytes cleaning and compaction would free more if it had read everything.
        var heldBytes: UInt64 = 0
    }

    let snapshot: Snapshot
    let token: HistoryToken
    let statistics: StoreStatistics
    let entities: [EntityDescription]
    let horizon: UInt64
    let retention: Store.Retention
    /// The removal of everything that all consumers have read, and of all transactions.
    let (plan, wholePlan): (Store.CleaningPlan, Store.CleaningPlan)
    private(set) var readers: [Reader] = []

    /// Reads the state again if a transaction comes in between, up to twenty times. Otherwise it is not steady.
    static func read(_ store: Store) throws -> (ReportState, isSteady: Bool) {
        for _ in 0..<20 {
            let state = try ReportState(store)
            if try store.currentToken == state.token { return (state, true) }
        }
        return (try ReportState(store), false)
    }

    private init(_ store: Store) throws {
        snapshot = try store.snapshot()
        token = snapshot.token
        (statistics, entities) = (try store.statistics, try snapshot.entities)
        (horizon, retention) = (try store.horizon, try store.retention)
        (plan, wholePlan) = (try store.cleaningPlan(), try store.cleaningPlan(before: token.number + 1))
        readers = try store.consumers.map { try reader($0, store) }
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
}

struct ReportFacts {
    let path: String
    let made = Timestamp.now
    /// The bytes that the store's disk has left; nil if unknown.
    let diskBytes: UInt64?
    let state: ReportState
    let isSteady: Bool
    /// A note about missing history, and the requested place.
    private(set) var (note, since): (String?, UInt64?)

    private(set) var (transactions, changes): (UInt64, UInt64) = (0, 0)
    private(set) var (authors, entities) = (HistorySummary.Groups(), HistorySummary.Groups())
    /// By the number of the entity: the index of its group.
    private var entityIndices: [UInt16: Int] = [:]
    private(set) var (earliest, latest): (Int64, Int64) = (.max, .min)
    private(set) var timeline = Timeline(from: 0, to: 0)
    private(set) var (sizes, gaps) = (Histogram.sizes, Histogram.gaps)
    private(set) var (objects, attributes) = (FrequentObjects(), AttributeCounts())
    private(set) var (first, last): ((time: Int64, fileEnd: UInt64)?, (time: Int64, fileEnd: UInt64)?)

    init(_ store: Store, since place: HistoryPlace?) throws {
        path = store.path
        diskBytes = ReportCommand.freeBytes(ofDisk: path)
        var request = HistoryRequest()
        if let place {
            request.after = try store.requestPlace(place)
            // If history no longer reaches back to the place, the note contains the place that replaces it.
            since = try? store.token(of: place).number
        }
        (state, isSteady) = try ReportState.read(store)
        note = try HistoryCommand.continueAtGap(&request, store)
        try read(request, store)
    }

    func entityName(_ object: ObjectID) -> String {
        entityIndices[object.entityNumber].map { entities.names[$0] } ?? "?"
    }

    // MARK: History

    private mutating func read(_ request: HistoryRequest, _ store: Store) throws {
        let progress = Progress("transactions")
        defer { progress.clear() }
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
        if transaction.changesSchema { attributes.forgetPositions() }
        var count: UInt64 = 0
        try transaction.forEachChange { (change) throws(StoreError) in
            let (kind, object) = (change.kind, change.object)
            let entity = entityIndices[object.entityNumber] ?? entities.index(of: change.entity ?? "?")
            entityIndices[object.entityNumber] = entity
            entities.groups[entity].count(kind, in: number, at: time)
            authors.groups[author].count(kind, in: number, at: time)
            objects.add(object)
            if kind == .update { try attributes.add(change, entity) }
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
