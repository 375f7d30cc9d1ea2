// A range of history in both directions: newest first from landmark to landmark, because frames lead only forwards.

/// Transactions between two numbers, which are excluded.
package struct HistoryRange {
    package var after: UInt64
    package var before: UInt64
    package var isNewestFirst: Bool

    package init(after: UInt64, before: UInt64, isNewestFirst: Bool = false) {
        (self.after, self.before, self.isNewestFirst) = (after, before, isNewestFirst)
    }

    package var isEmpty: Bool { before <= after || before - after == 1 }
}

extension TrackedView {
    /// Lends the transactions of a range that the view contains until `body` returns false.
    ///
    /// Logarithmic to find the first one, then linear in the tables of changes, without the rows. Newest first, it
    /// takes memory for the offsets of the transactions in one MiB. Throws `damaged`.
    package func forEachTransaction(
        _ range: HistoryRange, _ body: (TransactionView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        if range.isEmpty { return }
        if range.isNewestFirst { return try forEachTransactionBackwards(range, body) }
        let before = range.before
        try forEachTransaction(after: range.after) { (transaction) throws(StoreError) in
            guard transaction.number < before, try body(transaction) else { return false }
            return transaction.number + 1 < before
        }
    }

    private func forEachTransactionBackwards(
        _ range: HistoryRange, _ body: (TransactionView) throws(StoreError) -> Bool
    ) throws(StoreError) {
        try log.process.requireOwn(path: log.path)
        let names = NameTable(log.current.names)
        let landmarks = view.core.file.currentLandmarks.all
        // Lent views refer to these without counting.
        defer { withExtendedLifetime((view, names)) {} }
        var end = view.end
        var frames: [UInt64] = []
        for place in stride(from: landmarks.count, through: 0, by: -1) {
            let landmark = place > 0 ? landmarks[place - 1] : nil
            let start = landmark?.offset ?? UInt64(FormatLimits.pageBytes)
            // Frames after a landmark have its number or a higher one.
            guard start < end, (landmark?.number ?? 0) < range.before else {
                end = min(start, end)
                continue
            }
            frames.removeAll(keepingCapacity: true)
            try view.core.reading { () throws(StoreError) in
                try view.core.collect(range, from: start, to: end, into: &frames)
            }
            if try !lend(frames, names, body) { return }
            end = start
            if let landmark, landmark.number <= range.after { return }
        }
    }

    /// False if `body` wants no more.
    private func lend(
        _ frames: [UInt64], _ names: NameTable, _ body: (TransactionView) throws(StoreError) -> Bool
    ) throws(StoreError) -> Bool {
        try view.core.reading { () throws(StoreError) in
            for position in frames.reversed() {
                let header = try view.core.goodHeader(at: position)
                if try !body(try view.core.transaction(header, view, names)) { return false }
            }
            return true
        }
    }
}

extension ReadCore {
    /// Appends the offsets of a range's commit frames. Inside a read section.
    fileprivate func collect(
        _ range: HistoryRange, from start: UInt64, to end: UInt64, into frames: inout [UInt64]
    ) throws(StoreError) {
        var position = start
        while position < end {
            let header = try goodHeader(at: position)
            if header.isOf(.transaction), header.number > range.after, header.number < range.before {
                frames.append(position)
            }
            position = header.end
        }
    }
}
