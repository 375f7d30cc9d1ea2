// Deleting history, and what of it there still is.

extension Engine {
    /// Which transactions history returns, and who reads it: as of the last look at the file.
    package var tracking: TrackingState { log.current.tracking }

    /// From now on transactions with numbers below `number` are no longer returned: all of them, or those of some authors (nil: those without one). One
    /// frame; nothing is given back before compaction. A number above the last one's means all that there are. False where nothing changes.
    ///
    /// Throws what `Log.commit` throws.
    @discardableResult
    package func deleteHistory(
        before number: UInt64, authors: [String?]? = nil, durability: Durability = .relaxed
    ) throws(FileError) -> Bool {
        try checkNotWriting()
        var end: UInt64?
        try log.whileAppending(durability) { (appender) throws(FileError) in
            let state = appender.state
            let limit = min(number, state.lastNumber + 1)
            var mark = CleaningRecord(before: 0, time: log.environment.wallClockMicroseconds())
            if let authors {
                let numbers = Set(authors.compactMap { Self.number(ofAuthor: $0, state) })
                for author in numbers.sorted() where state.tracking.hiddenBefore(author) < limit {
                    mark.hidden.append(.init(author: author, before: limit))
                }
                if limit <= state.tracking.horizon + 1 { mark.hidden = [] }
            } else if limit > state.tracking.horizon + 1 {
                mark.before = limit
            }
            guard mark.before > 0 || !mark.hidden.isEmpty else { return }
            end = try append(.cleaning, mark.encoded(), &appender)
        }
        guard let end else { return false }
        if durability == .full { try log.makeDurable(through: end) }
        return true
    }

    /// Appends a standalone frame that says something of history. With the writer lock. Gives back where it ends.
    func append(_ kind: FrameKind, _ table: [UInt8], _ appender: inout Appender) throws(FileError) -> UInt64 {
        let start = appender.state.end
        try indexes.core.file.checkReach(start + UInt64(FormatLimits.maximumFrameBytes))
        try appender.prepare(bytes: UInt64(table.count + FrameField.bytes))
        try appender.appendStandalone(kind, table: table)
        try indexes.tookStandalone(from: start, to: appender.state.end)
        return appender.state.end
    }

    /// The name number of an author; 0 for none, nil for one that the store does not know.
    private static func number(ofAuthor author: String?, _ state: LogState) -> UInt32? {
        guard let author, !author.isEmpty else { return 0 }
        return state.nameNumbers[IdentifierName(author)]
    }

    /// The last transaction above `number` and below `end` that is hidden and that the filter would show; nil where there is none.
    package func lastHidden(
        after number: UInt64, before end: UInt64 = .max, in view: View, filter: TransactionFilter = TransactionFilter()
    ) throws(FileError) -> UInt64? {
        let hidden = tracking.hidden.filter { filter.shows(author: $0.author) }
        guard let limit = hidden.map({ min($0.before, end) }).max(), number + 1 < limit else { return nil }
        var last: UInt64?
        try forEachTransaction(after: number, in: view) { (transaction) in
            if transaction.number >= limit { return false }
            let author = transaction.authorNumber
            if let entry = hidden.first(where: { $0.author == author }), transaction.number < entry.before,
                filter.matches(transaction)
            {
                last = transaction.number
            }
            return true
        }
        return last
    }
}
