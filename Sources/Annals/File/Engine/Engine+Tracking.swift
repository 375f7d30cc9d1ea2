// Deleting history, and its state afterwards.

extension Engine {
    /// The transactions that history returns, and its consumers, as of the last look at the file.
    package var tracking: TrackingState { log.current.tracking }

    /// Stops returning transactions below `number`: all of them, or those of some authors (nil: those without one).
    /// Takes one frame, and frees no space before compaction. A number above the last one's means all, and one above
    /// what a consumer holds means up to there. Returns false if nothing changes.
    ///
    /// Throws the errors of `Log.locked`.
    @discardableResult
    package func deleteHistory(
        before number: UInt64, authors: [String?]? = nil, durability: Durability = .relaxed
    ) throws(StoreError) -> Bool {
        try appendStandalone(durability) { (state) throws(StoreError) in
            let limit = min(number, state.lastNumber + 1, state.tracking.firstHeld)
            var mark = CleaningRecord(before: 0, time: log.environment.wallClockMicroseconds())
            if let authors {
                let numbers = Set(authors.compactMap { Self.number(ofAuthor: $0, state) })
                for author in numbers.inOrder() where state.tracking.hiddenBefore(author) < limit {
                    mark.hidden.append(.init(author: author, before: limit))
                }
                if limit <= state.tracking.horizon + 1 { mark.hidden = [] }
            } else if limit > state.tracking.horizon + 1 {
                mark.before = limit
            }
            return mark.before > 0 || !mark.hidden.isEmpty ? [(.cleaning, mark.encoded())] : []
        }
    }

    /// Appends the frames that `body` makes for the newest state, outside of transactions. Makes them durable as
    /// requested. Waits for the writer lock for `patience`, or for the time in the store's options.
    ///
    /// - Returns: false if `body` made no frame.
    @discardableResult
    func appendStandalone(
        _ durability: Durability, patience: UInt64? = nil,
        _ body: (LogState) throws(StoreError) -> [(FrameKind, [UInt8])]
    ) throws(StoreError) -> Bool {
        try withoutActuallyEscaping(body) { (body) throws(StoreError) in
            try appendStandalone(durability, patience, FrameMaker(body))
        }
    }

    private func appendStandalone(
        _ durability: Durability, _ patience: UInt64?, _ maker: FrameMaker
    ) throws(StoreError) -> Bool {
        try requireNotWriting()
        try log.enter()
        defer { log.leave() }
        var end: UInt64?
        try log.locked(durability, isHeld: true, patience: patience, mayKeepLock: true) {
            (appender) throws(StoreError) in
            for (kind, table) in try maker.frames(appender.state) { end = try append(kind, table, appender) }
        }
        guard let end else { return false }
        if durability == .full { try log.synchronize(through: end) }
        return true
    }

    /// Appends a frame outside of transactions, with the writer lock. Returns its end.
    func append(_ kind: FrameKind, _ table: [UInt8], _ appender: Appender) throws(StoreError) -> UInt64 {
        let start = appender.state.end
        try indexes.core.file.requireReach(start + UInt64(FormatLimits.maximumFrameBytes))
        try appender.prepare(bytes: UInt64(table.count + FrameField.bytes))
        try appender.appendStandalone(kind, table: table)
        try indexes.noteStandalone(from: start, to: appender.state.end)
        return appender.state.end
    }

    /// The name number of an author; 0 for none, nil if the store does not know the author.
    private static func number(ofAuthor author: String?, _ state: LogState) -> UInt32? {
        guard let author, !author.isEmpty else { return 0 }
        return state.nameNumbers[IdentifierName(author)]
    }
}

extension Engine {
    /// Throws `forked` in a child process, where a thread of the parent may hold a lock forever.
    package func requireNotForked() throws(StoreError) {
        try log.process.requireOwn(path: log.path)
    }

    /// The number of an author's, context's or process's name: 0 for none or an empty one, nil if no transaction has
    /// used it. Call `requireNotForked` first.
    package func number(ofName name: String?) -> UInt32? {
        guard let name, !name.isEmpty else { return 0 }
        return log.current.nameNumbers[IdentifierName(name)]
    }

    /// Whether an object ever had that ID, judging by the assigned numbers.
    package func wasGiven(_ object: ObjectID) throws(StoreError) -> Bool {
        try viewOfThisFile().nextNumber(of: object.entityNumber) > object.number
    }

    /// A state of this file, for reading its history.
    package func tracked(_ view: View) -> TrackedView { TrackedView(view: view, log: log, clockSteps: clockSteps) }
}

/// A closure in an object: see `RowVisitor`.
private final class FrameMaker {
    let frames: (LogState) throws(StoreError) -> [(FrameKind, [UInt8])]

    init(_ frames: @escaping (LogState) throws(StoreError) -> [(FrameKind, [UInt8])]) { self.frames = frames }
}
