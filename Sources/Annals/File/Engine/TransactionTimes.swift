// Finds the place in history for a time or a schema version: by bisection over transaction numbers, because both rise
// with them, except for times at clock steps.
//
// Invariants:
// Y1  Between two clock steps times strictly rise (F12).
// Y2  `steps` has, ascending, the number of the last transaction before each clock step below `position`.

/// The clock steps of one file, up to the times requested so far. They are found in the headers of frames, once.
final class ClockSteps: Sendable {
    struct Known: Sendable {
        var position = UInt64(FormatLimits.pageBytes)
        var steps: [UInt64] = []
    }

    private let known = Guarded(Known())

    /// Held for moments only: no thread reads the file with the lock.
    var current: Known { known.withLock { $0 } }

    func note(_ more: Known) {
        known.withLock { known in
            assert(
                more.steps.count >= known.steps.count || more.position <= known.position,
                "Y2: a clock step is forgotten.")
            if more.position > known.position { known = more }
        }
    }
}

extension TrackedView {
    /// The number of the view's last transaction that was committed at a time or before; without one, that of the
    /// beginning of history. Transactions before a clock step count as older than those after it.
    ///
    /// The first call of a handle reads the header of every frame, later ones those of newer frames; the rest is
    /// logarithmic. Throws `damaged`, `closed`.
    package func lastNumber(through microseconds: Int64) throws(StoreError) -> UInt64 {
        try log.process.requireOwn(path: log.path)
        let base = log.header.baseNumber
        var last = view.number
        for step in try allClockSteps().reversed() where step >= base && step < last {
            if try time(ofTransactionAfter: step) <= microseconds {
                return try bisect(step + 1, last, microseconds)
            }
            last = step
        }
        guard last > base, try time(ofTransactionAfter: base) <= microseconds else { return base }
        return try bisect(base + 1, last, microseconds)
    }

    /// The last of these numbers, between two clock steps (Y1), whose time is not later than the given one. The time of
    /// `first` must not be later.
    private func bisect(_ first: UInt64, _ last: UInt64, _ microseconds: Int64) throws(StoreError) -> UInt64 {
        var low = first
        var high = last + 1
        while high - low > 1 {
            let middle = low + (high - low) / 2
            if try time(ofTransactionAfter: middle - 1) <= microseconds {
                low = middle
            } else {
                high = middle
            }
        }
        return low
    }

    func time(ofTransactionAfter number: UInt64) throws(StoreError) -> Int64 {
        if number + 1 == view.number { return view.time }
        return try field(TransactionField.time, ofTransactionAfter: number)
    }

    /// The schema version in force after a transaction.
    func schemaVersion(ofTransactionAfter number: UInt64) throws(StoreError) -> UInt16 {
        if number + 1 == view.number { return view.catalog.newestVersion }
        return try field(TransactionField.schemaVersion, ofTransactionAfter: number)
    }

    /// A field of a transaction's record.
    private func field<Number: FixedWidthInteger & BitwiseCopyable>(
        _ field: Int, ofTransactionAfter number: UInt64
    ) throws(StoreError) -> Number {
        let core = view.core
        var position = core.file.currentLandmarks.last(number: number)?.offset ?? UInt64(FormatLimits.pageBytes)
        return try core.reading { () throws(StoreError) in
            while position < view.end {
                let header = try core.goodHeader(at: position)
                if header.isOf(.transaction), header.number > number {
                    let table = try core.table(of: header)
                    guard table.count >= TransactionField.bytes else { break }
                    return table.integer(at: field, as: Number.self)
                }
                position = header.end
            }
            throw StoreError(.damaged, "F11: transaction \(number + 1) is missing from its place.", path: log.path)
        }
    }

    // MARK: Schema versions

    /// The lowest and the highest schema version of the transactions in a range; nil for an empty range. Logarithmic.
    package func schemaVersions(in range: HistoryRange) throws(StoreError) -> ClosedRange<UInt16>? {
        try log.process.requireOwn(path: log.path)
        let last = min(range.before - min(range.before, 1), view.number)
        guard range.after < last else { return nil }
        let lowest = try schemaVersion(ofTransactionAfter: range.after)
        let highest = try schemaVersion(ofTransactionAfter: last - 1)
        guard lowest <= highest else {
            throw StoreError(.damaged, "F16: the schema versions of transactions descend.", path: log.path)
        }
        return lowest...highest
    }

    /// The number of the first transaction of a schema version or a later one, among those that the file holds; one
    /// above the last one's without any. By bisection, because versions never fall.
    package func firstNumber(ofSchemaVersion version: UInt16) throws(StoreError) -> UInt64 {
        try log.process.requireOwn(path: log.path)
        var low = log.header.baseNumber
        var high = view.number + 1
        // Transactions up to `low` have earlier versions, `high` does not.
        while high - low > 1 {
            let middle = low + (high - low) / 2
            if try schemaVersion(ofTransactionAfter: middle - 1) >= version {
                high = middle
            } else {
                low = middle
            }
        }
        return high
    }

    // MARK: Clock steps

    private func allClockSteps() throws(StoreError) -> [UInt64] {
        var known = clockSteps.current
        let core = view.core
        while known.position < view.end {
            // A section delays the reuse of old nodes, so it must not last for the whole history.
            let sectionEnd = min(view.end, known.position + 1 << 22)
            try core.reading { () throws(StoreError) in
                while known.position < sectionEnd {
                    let header = try core.goodHeader(at: known.position)
                    if header.isOf(.metadata), try core.hasClockStep(known.position) {
                        known.steps.append(header.number)
                    }
                    known.position = header.end
                }
            }
        }
        clockSteps.note(known)
        return known.steps
    }
}

extension ReadCore {
    /// Whether the metadata frame there records a clock step. Inside a read section.
    fileprivate func hasClockStep(_ position: UInt64) throws(StoreError) -> Bool {
        try MetadataRecord.decodeAll(try frame(at: position)).contains {
            if case .clockStep = $0 { true } else { false }
        }
    }
}
