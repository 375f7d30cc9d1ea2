// The amount of history beyond the retention, and the bytes that compaction would free. These are estimates, computed
// between commits.

internal import Synchronization

/// The effect of cleaning history: the transactions that it would remove, and the bytes that compaction would then
/// free.
package struct CleaningEstimate: Equatable, Sendable {
    /// The first transaction that stays.
    package var before: UInt64
    /// The number of transactions that cleaning would remove from history.
    package var transactions: UInt64
    /// An estimate of the bytes that compaction would then free.
    package var regainedBytes: UInt64
}

extension Engine {
    // MARK: Retention

    /// Sets the time and size for which this store keeps history.
    package func setRetention(_ limits: RetentionLimits, durability: Durability = .relaxed) throws(StoreError) {
        try appendStandalone(durability) { (state) in
            if state.tracking.retention == limits { return [] }
            var table: [UInt8] = []
            MetadataRecord.retention(limits).append(to: &table)
            return [(.metadata, table)]
        }
        // The next commit applies it.
        nextRetentionEnd.store(0, ordering: .relaxed)
    }

    /// With the writer lock. Whether this handle should check again, at most once per interval.
    @inline(__always)
    func isRetentionCheckDue(_ appended: AppendedTransaction) -> Bool {
        // If more than the interval remains, the clock was set back.
        let rest = nextRetentionTime.load(ordering: .relaxed) &- appended.time
        guard
            appended.end >= nextRetentionEnd.load(ordering: .relaxed) || rest <= 0
                || rest > options.retentionCheckMicroseconds
        else { return false }
        let (time, overflow) = appended.time.addingReportingOverflow(options.retentionCheckMicroseconds)
        nextRetentionTime.store(overflow ? .max : time, ordering: .relaxed)
        nextRetentionEnd.store(appended.end &+ options.retentionCheckBytes, ordering: .relaxed)
        return true
    }

    /// Cleans history beyond the retention, and notes whether compaction would be worth it.
    func applyRetention() throws(StoreError) {
        let view = try view()
        if options.appliesRetention {
            let first = try firstRetained(in: view, at: try believedTime(in: view))
            if first > tracking.horizon + 1 { try deleteHistory(before: first) }
        }
        let space = try space(in: view)
        // At least 1: the handle looks at the size of the file, too.
        let regained = max(1, try space.regained(after: tracking.horizon, self, view))
        garbage.store(Int(clamping: regained), ordering: .relaxed)
    }

    /// The time from which automatic cleaning measures ages. This is the clock's time, unless it is implausibly new.
    ///
    /// Considers the transactions of the last hour. If the first of them is more than an hour later than the one before
    /// it, either no commit was made for that long or the clock jumped forward. The file does not show which. Until the
    /// new time has lasted for an hour, only the time since the jump is added to the time before it. A process that has
    /// just opened the store finds the same in the file. Logarithmic in the number of transactions.
    func believedTime(in view: View) throws(StoreError) -> Int64 {
        let now = log.environment.wallClockMicroseconds()
        let (hourAgo, overflow) = now.subtractingReportingOverflow(clockStepMicroseconds)
        if overflow { return now }
        let oldest = log.header.baseNumber
        // Transactions from `recent` on are of the last hour. Transaction `before` is not.
        let recent = try firstTransaction(from: hourAgo + 1, after: oldest, searchesDown: true, in: view)
        let before = recent - 1
        // The whole file is of the last hour.
        if before == oldest { return now }
        let earlier = try tracked(view).time(ofTransactionAfter: before - 1)
        let jump = recent > view.number ? now : try tracked(view).time(ofTransactionAfter: recent - 1)
        let (distance, isTooFar) = jump.subtractingReportingOverflow(earlier)
        guard jump > earlier, isTooFar || distance > clockStepMicroseconds else { return now }
        // `jump` is less than an hour ago, and more than an hour above `earlier`.
        return earlier + max(now - jump, 0)
    }

    /// The first transaction that retention keeps. One above the last number if it keeps none.
    ///
    /// - Parameter now: The time from which ages are measured; nil for the clock's.
    package func firstRetained(in view: View, at now: Int64? = nil) throws(StoreError) -> UInt64 {
        let horizon = tracking.horizon
        let limits = tracking.retention
        var first = horizon + 1
        guard horizon < view.number else { return first }
        // An age of zero does not depend on the clock.
        if limits.microseconds == 0 { return view.number + 1 }
        if limits.microseconds < .max {
            let (limit, overflow) = (now ?? log.environment.wallClockMicroseconds()).subtractingReportingOverflow(
                Int64(clamping: limits.microseconds))
            if !overflow { first = try firstTransaction(from: limit, after: horizon, in: view) }
        }
        if limits.bytes < .max {
            let space = try space(in: view)
            let end = try space.place(leaving: limits.bytes, self, view)
            if let landmark = indexes.core.file.currentLandmarks.last(at: end), end > 0 {
                first = max(first, min(landmark.number, view.number) + 1)
            }
        }
        return first
    }

    /// The first transaction after `number` that is not older than `time`. Searches by doubling and halving from one
    /// end, as times rise with numbers. Near a clock step the result may be off by some transactions.
    private func firstTransaction(
        from time: Int64, after number: UInt64, searchesDown: Bool = false, in view: View
    ) throws(StoreError) -> UInt64 {
        // Transactions up to `old` are too old, `young` is not.
        var (old, young, step) = (number, view.number + 1, UInt64(1))
        while old + 1 < young {
            let probe = searchesDown ? max(young - min(step, young), old + 1) : min(old + step, young - 1)
            let isOld = try tracked(view).time(ofTransactionAfter: probe - 1) < time
            if isOld { old = probe } else { young = probe }
            step = isOld == searchesDown ? 1 : step * 2
        }
        return young
    }

    // MARK: Space

    /// The effect of removing all transactions before this one.
    package func estimate(before number: UInt64, in view: View) throws(StoreError) -> CleaningEstimate {
        let horizon = tracking.horizon
        let first = max(min(number, view.number + 1, tracking.firstHeld), horizon + 1)
        assert(first > horizon, "Transactions would be cleaned that are cleaned already.")
        let regained = try space(in: view).regained(after: first - 1, self, view)
        return CleaningEstimate(before: first, transactions: first - 1 - horizon, regainedBytes: regained)
    }

    /// The start of the first transaction after that number; the end without one.
    func place(after number: UInt64, in view: View) throws(StoreError) -> UInt64 {
        var start = view.end
        try tracked(view).forEachTransaction(after: number) { (transaction) in
            start = transaction.start
            return false
        }
        return start
    }

    /// An estimate of the file's use: rows of live objects, data that only history needs, bytes that compaction would
    /// free, and indexes.
    package func spaceByUse(
        in view: View
    ) throws(StoreError) -> (live: UInt64, history: UInt64, garbage: UInt64, index: UInt64) {
        let space = try space(in: view)
        let garbage = try space.regained(after: tracking.horizon, self, view)
        let all = try space.regained(after: view.number, self, view)
        // Replaced nodes count as garbage, not also as indexes.
        let index = min(space.nodeBytes, space.indexBytes)
        let history = max(all, garbage) - garbage
        let rest = view.end - min(view.end, index + history + garbage)
        return (rest, history, garbage, index)
    }

    func space(in view: View) throws(StoreError) -> SpaceEstimate {
        let base =
            log.header.generation == 0
            ? UInt64(FormatLimits.pageBytes) : try place(after: log.header.baseNumber, in: view)
        let bound = measuredRows.withLock { $0.flatMap { $0.end <= view.end ? $0.bytes + view.end - $0.end : nil } }
        return log.writer.withLock { log.follow.withLock { SpaceEstimate(indexes, base: base, bound: bound ?? .max) } }
    }

    /// Measures the rows of all live objects, for this and later estimates. Returns the bytes that compaction would
    /// free now; nil if `goesOn` has returned false. Linear in the number of objects.
    func measuredGarbage(_ goesOn: () -> Bool) throws(StoreError) -> UInt64? {
        let view = try view()
        var (live, count, isWhole) = (UInt64(0), UInt64(0), true)
        for entity in view.catalog.entities(version: view.catalog.newestVersion) {
            try view.scan(entity: entity.number) { (_, row) throws(StoreError) in
                live += UInt64(row.rowBytes.paddedTo8 + ChangeField.bytes)
                for position in row.layout.variables {
                    if case .large(let value) = try row.variable(at: Int(position)) { live += value.valueBytes }
                }
                count += 1
                // Once false, the sum is only a part, even if the reason has passed.
                isWhole = count % 1024 > 0 || goesOn()
                return isWhole
            }
            guard isWhole else { return nil }
        }
        measuredRows.withLock { $0 = (view.end, live) }
        return try space(in: view).regained(after: tracking.horizon, self, view)
    }
}

/// An estimate of a file's content.
struct SpaceEstimate {
    /// Rows of live objects.
    let liveBytes: UInt64
    /// Indexes as compaction would write them.
    let indexBytes: UInt64
    /// Nodes and checkpoints in the file, including those that later ones have replaced.
    let nodeBytes: UInt64
    /// The part of the file that is nodes and checkpoints, in 1/1024.
    let nodeShare: UInt64

    /// - Parameters:
    ///   - base: The size of the file after its last compaction.
    ///   - bound: The largest size of the rows of live objects, if they were measured.
    init(_ indexes: Indexes, base: UInt64, bound: UInt64) {
        var live: UInt64 = 0
        for entity in 0..<indexes.totals.entityLimit { live += indexes.totals[UInt16(entity)].live }
        func bytes(_ kinds: FrameKind...) -> UInt64 { kinds.reduce(0) { $0 + indexes.counts[$1] } }
        let changes = indexes.counts.changes
        let rows = bytes(.transaction, .part, .value, .rows)
        let average = changes == 0 ? 0 : rows / changes + 1
        // Live data of the last compaction counts as live until the file has doubled: rows may be of any size.
        liveBytes = min(max(live.multipliedReportingOverflow(by: average).partialValue, base), bound)
        indexBytes = live * 10 + indexes.ordered.reduce(0) { $0 + ($1?.entries ?? 0) * 40 }
        nodeBytes = bytes(.nodes, .checkpoint)
        nodeShare = (nodeBytes << 10) / max(rows + nodeBytes, 1)
        assert(nodeShare <= 1024, "Nodes take more than the whole file.")
    }

    private func withoutNodes(_ bytes: UInt64) -> UInt64 { bytes - bytes / 1024 * nodeShare }

    /// The number of bytes that compaction would free with everything up to that transaction folded.
    func regained(after number: UInt64, _ engine: Engine, _ view: View) throws(StoreError) -> UInt64 {
        regained(at: try engine.place(after: number, in: view), end: view.end)
    }

    private func regained(at place: UInt64, end: UInt64) -> UInt64 {
        let left = min(withoutNodes(place), liveBytes) + withoutNodes(end - min(place, end)) + indexBytes
        return end > left ? end - left : 0
    }

    /// The place up to which to clean so that cleaning the rest would free no more than this many bytes; 0 to clean
    /// nothing.
    func place(leaving bytes: UInt64, _ engine: Engine, _ view: View) throws(StoreError) -> UInt64 {
        let horizon = try engine.place(after: engine.tracking.horizon, in: view)
        let all = regained(at: view.end, end: view.end)
        let gone = regained(at: horizon, end: view.end)
        guard all > gone, all - gone > bytes else { return 0 }
        // Above the live bytes, the regained bytes grow with the place.
        return max(horizon, min(view.end, view.end - min(view.end, bytes)))
    }
}
