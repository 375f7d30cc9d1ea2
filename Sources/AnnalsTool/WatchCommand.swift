// `annals watch STORE`: reports new transactions, from any process; with `--top`, what happens second by second.

internal import Annals

enum WatchCommand {
    static let command = Command(
        "watch", "Reports new transactions, until SIGTERM or SIGINT ends it.",
        details: """
            In jsonl each line is a signal: the numbers of its first and last transaction, their authors, entities
            and process IDs, and the token to continue from. Many transactions may come as one signal; none is
            missed. Each line is printed at once. If another file replaces the store, the command continues with that
            one, and prints a note to standard error.

            With --top, it counts instead, each second: transactions and changes by author, the lag of consumers, the
            size, and how much of the time a writer held the lock, or waited for it. On a terminal this is a screen that
            renews itself. Otherwise each second is a line.
            """, operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "begin after this place, with past transactions"),
            Option("not-author", value: "NAME", isRepeatable: true, "no transactions of this author"),
            Option("not-context", value: "NAME", isRepeatable: true, "no transactions with this context name"),
            Option("top", "a screen of rates, lags, size and lock waits, each second"), .linesOrText,
        ]
    ) { arguments, output in
        let after = try arguments.place(of: "after")
        let authors = Set(arguments.values(of: "not-author") ?? [])
        let contexts = Set(arguments.values(of: "not-context") ?? [])
        if arguments.has("top"), after != nil || !authors.isEmpty || !contexts.isEmpty {
            throw arguments.refusal(
                "“--top” counts all transactions from now on: leave --after, --not-author and --not-context out.")
        }
        let ending = try Ending.onSignals()
        if arguments.has("top") { return try WatchTop.run(arguments.operands[0], ending, output) }
        try StoreAccess.follow(arguments.operands[0]) { (store, reached) in
            let place = try reached.map { .token($0) } ?? after.map(store.requestPlace) ?? .now
            reached = try reached ?? store.currentToken
            let watcher = try store.changeWatcher(after: place, excluding: authors, excludingContextNames: contexts)
            ending.then { watcher.stop() }
            while let signal = try watcher.next() {
                output.line(json: json(signal), text: text(signal))
                try output.finish()
                reached = signal.token
            }
        }
    }

    private static func json(_ signal: ChangeSignal) -> JSONLine {
        [
            "first": signal.numbers.lowerBound, "last": signal.numbers.upperBound, "authors": signal.authors,
            "entities": signal.entities, "processIDs": signal.processIDs, "token": signal.token.description,
        ]
    }

    private static func text(_ signal: ChangeSignal) -> String {
        let (first, last) = (signal.numbers.lowerBound, signal.numbers.upperBound)
        func part(_ name: String, _ items: [String]) -> String {
            items.isEmpty ? "" : ", \(name) " + items.joined(separator: " ")
        }
        return (first == last ? "transaction \(first)" : "transactions \(first) to \(last)")
            + part("by", signal.authors) + part("of", signal.entities)
            + part("process", signal.processIDs.map { String($0) })
    }
}

enum WatchTop {
    private static let samples = 20
    private static let shownRows = 12

    private struct Second {
        var number: UInt64 = 0
        var (transactions, changes): (UInt64, UInt64) = (0, 0)
        var authors: [IdentifierName: UInt64] = [:]
        /// How often the lock was held, and awaited, of all samples.
        var (held, awaited) = (0, 0)
        var fileBytes: UInt64 = 0
        var consumers: [Consumer] = []
    }

    static func run(_ path: String, _ ending: Ending, _ output: Output) throws {
        let isScreen = output.isTerminal && !output.isJSON
        var totals: [IdentifierName: UInt64] = [:]
        try StoreAccess.follow(path) { (store, reached) in
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
                    screen(path, second, totals, output)
                } else {
                    output.line(json: json(second), text: text(second))
                }
                try output.finish()
            }
        }
    }

    private static func sampleLock(_ path: String, _ ending: Ending, _ second: inout Second) throws {
        let files = RealFileSystem()
        // Compaction may have replaced the file.
        let file = try files.openStoreFile(path)
        defer { files.close(file) }
        for _ in 0..<samples where !ending.isAsked {
            let lock = try WriterLock.observe(files, file)
            second.held += lock.holder == nil ? 0 : 1
            second.awaited += lock.isAwaited ? 1 : 0
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
                second.authors[IdentifierName(transaction.author ?? ""), default: 0] += 1
                return true
            }
        } catch let error as StoreError where [.tokenExpired, .historyGap].contains(error.code) {
            // Cleaned at once: only their number is known.
            second.transactions = snapshot.token.number - token.number
        }
        return snapshot.token
    }

    private static func percent(_ count: Int) -> String { "\(count * 100 / samples) %" }

    private static func sorted(_ authors: [IdentifierName: UInt64]) -> [(name: String, count: UInt64)] {
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
            "lockAwaitedPercent": second.awaited * 100 / samples, "consumers": second.consumers,
        ]
    }

    private static func screen(_ path: String, _ second: Second, _ totals: [IdentifierName: UInt64], _ output: Output) {
        output.data(Array("\u{1b}[H\u{1b}[2J".utf8))
        output.line("\(path)  \(Timestamp.local(Timestamp.now))  (Ctrl-C ends)")
        output.line()
        let facts = [
            ["transactions a second", String(grouped: second.transactions)],
            ["changes a second", String(grouped: second.changes)],
            ["last transaction", String(grouped: second.number)],
            ["bytes of the file", String(grouped: second.fileBytes)],
            ["writer lock held", percent(second.held)], ["writer lock awaited", percent(second.awaited)],
        ]
        output.table(["", "#"], hasHead: false, facts)
        if !totals.isEmpty {
            output.line()
            let rows = sorted(totals).prefix(shownRows).map { name, count in
                let now = second.authors[IdentifierName(name)] ?? 0
                return [name.isEmpty ? "-" : name, String(grouped: now), String(grouped: count)]
            }
            output.table(["author", "#a second", "#since start"], rows)
        }
        if !second.consumers.isEmpty {
            output.line()
            let consumers = second.consumers.sorted { $0.lag > $1.lag }.prefix(shownRows)
            let rows = consumers.map { [$0.name, String(grouped: $0.cursor.number), String(grouped: $0.lag)] }
            output.table(["consumer", "#place", "#behind"], rows)
        }
    }
}
