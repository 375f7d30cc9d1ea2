// `annals watch STORE --top`: what happens in a store now, second by second.

internal import Annals

enum WatchTop {
    /// The lock is looked at so many times in a second.
    private static let samples = 20
    private static let shownRows = 12

    /// Counts of one second.
    private struct Second {
        var number: UInt64 = 0
        var (transactions, changes): (UInt64, UInt64) = (0, 0)
        var authors: [ExactText: UInt64] = [:]
        /// How often the lock was held, and awaited, of all samples.
        var (held, awaited) = (0, 0)
        var fileBytes: UInt64 = 0
        var consumers: [Consumer] = []
    }

    static func run(_ path: String, _ ending: Ending, isJSON: Bool, _ output: inout Output) throws {
        let isScreen = output.isTerminal && !isJSON
        var totals: [ExactText: UInt64] = [:]
        try Reconnection.follow(path) { (store, reached) in
            ending.holdBack()
            var last = try reached ?? store.currentToken
            while !ending.isAsked {
                var second = Second()
                try sampleLock(path, ending, &second)
                if ending.isAsked { return }
                last = try count(after: last, in: store, &second)
                reached = last
                totals.merge(second.authors) { $0 + $1 }
                if isScreen {
                    try screen(path, second, totals, &output)
                } else {
                    try output.line(isJSON ? json(second).text : text(second))
                }
                try output.finish()
            }
        }
    }

    // MARK: Measuring

    /// Takes a second.
    private static func sampleLock(_ path: String, _ ending: Ending, _ second: inout Second) throws {
        let files = RealFileSystem()
        // Compaction may have replaced the file.
        let file = try files.openStoreFile(path)
        defer { files.close(file) }
        for _ in 0..<samples where !ending.isAsked {
            let lock = try WriterLock.observe(files, file)
            if lock.holder != nil { second.held += 1 }
            if lock.isAwaited { second.awaited += 1 }
            ending.wait(microseconds: UInt32(1_000_000 / samples))
        }
    }

    private static func count(
        after token: HistoryToken, in store: Store, _ second: inout Second
    ) throws -> HistoryToken {
        let snapshot = try store.snapshot()
        (second.number, second.consumers) = (snapshot.token.number, try store.consumers)
        second.fileBytes = try store.statistics.fileBytes
        do {
            try store.forEachTransaction(HistoryRequest(after: .token(token)), in: snapshot) { transaction in
                second.transactions += 1
                second.changes += transaction.changeCount
                second.authors[ExactText(transaction.author ?? ""), default: 0] += 1
                return true
            }
        } catch let error as StoreError where [.tokenExpired, .historyGap].contains(error.code) {
            // Cleaned at once: only their number is known.
            second.transactions = snapshot.token.number - token.number
        }
        return snapshot.token
    }

    // MARK: Printing

    private static func percent(_ count: Int) -> String { "\(count * 100 / samples) %" }

    private static func sorted(_ authors: [ExactText: UInt64]) -> [(name: String, count: UInt64)] {
        authors.map { ($0.key.text, $0.value) }.sorted { ($1.count, $0.name) < ($0.count, $1.name) }
    }

    private static func text(_ second: Second) -> String {
        let lag = second.consumers.map(\.lag).max() ?? 0
        return Timestamp.local(Timestamp.now) + "  \(second.transactions) transactions, \(second.changes) changes, "
            + "\(second.fileBytes) bytes, lag \(lag), lock held \(percent(second.held)), "
            + "awaited \(percent(second.awaited))"
    }

    private static func json(_ second: Second) -> JSONLine {
        [
            "timestamp": Timestamp.text(Timestamp.now), "number": second.number,
            "transactions": second.transactions, "changes": second.changes,
            "authors": sorted(second.authors).map { ["author": $0.name, "transactions": $0.count] as JSONLine },
            "fileBytes": second.fileBytes, "lockHeldPercent": second.held * 100 / samples,
            "lockAwaitedPercent": second.awaited * 100 / samples,
            "consumers": second.consumers.map(ConsumersCommand.json),
        ]
    }

    private static func screen(
        _ path: String, _ second: Second, _ totals: [ExactText: UInt64], _ output: inout Output
    ) throws {
        try output.data(Array("\u{1b}[H\u{1b}[2J".utf8))
        try output.line("\(path)  \(Timestamp.local(Timestamp.now))  (Ctrl-C ends)")
        try output.line()
        let facts = [
            ["transactions a second", String(grouped: second.transactions)],
            ["changes a second", String(grouped: second.changes)],
            ["last transaction", String(grouped: second.number)],
            ["bytes of the file", String(grouped: second.fileBytes)],
            ["writer lock held", percent(second.held)], ["writer lock awaited", percent(second.awaited)],
        ]
        try output.table(["", "#"], hasHead: false, facts)
        if !totals.isEmpty {
            try output.line()
            let rows = sorted(totals).prefix(shownRows).map { name, count in
                let now = second.authors[ExactText(name)] ?? 0
                return [name.isEmpty ? "-" : name, String(grouped: now), String(grouped: count)]
            }
            try output.table(["author", "#a second", "#since start"], rows)
        }
        if !second.consumers.isEmpty {
            try output.line()
            let consumers = second.consumers.sorted { $0.lag > $1.lag }.prefix(shownRows)
            let rows = consumers.map { [$0.name, String(grouped: $0.cursor.number), String(grouped: $0.lag)] }
            try output.table(["consumer", "#place", "#behind"], rows)
        }
    }
}
