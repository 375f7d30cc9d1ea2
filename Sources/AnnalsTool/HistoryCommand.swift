// `annals history STORE`: lists changes with their authors and times, transaction by transaction.

internal import Annals

extension Command {
    static let history = Command(
        "history", "Prints the transactions of a store, or their net changes.",
        details: """
            As text, each line is a transaction, the newest first: its number, local time, author and context, and
            how many objects it has changed. With --values, its changes follow, with values before and after. Four or
            more changes of one kind in a row are one line; with --all each is printed. A place that is no longer in
            history is replaced by the oldest one, with a note.

            In jsonl, the oldest comes first. Each line is a transaction: number, token, timestamp, author, context,
            processID, process and its changes. Each change has kind, entity and id, and an update the changed
            attributes. With --values a change has “before” and “after”: the changed attributes of an update, all
            attributes of an insert or deletion. “preserved” is what is kept of a deleted object, without null
            values. A place that is no longer in history is an error.

            A PLACE is the number of a transaction, a token, -1 for the transaction before the last and so on, or a
            moment: 2026-01-02, “2026-01-02 03:04”, 2h or 30d ago, today, yesterday. A time without a zone is local;
            2026-01-02T03:04:05Z is UTC. All conditions must hold; of an option that is given several times, one
            value must match. A transaction is printed with its matching changes only, and not at all without any. An
            empty AUTHOR or CONTEXT means none. ID may be a label: the first unique text of an object.

            With --summary there is one line for each author, entity or hour. With --net there is one change for each
            object, from before its first change to after its last, ordered by ID. With --count only the number is
            printed. --not-entity also leaves out entities that are no longer in the schema. With --follow it
            continues with new transactions, until SIGTERM or SIGINT ends it with status 0; as text it begins with
            the last ten. If another file replaces the store, it continues with that one, and prints a note.

            On a terminal, long output goes to the pager that ANNALS_PAGER or PAGER names, or to “less”.
            """,
        operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "only transactions after this place"),
            Option("before", value: "PLACE", "only transactions before this place"),
            Option("author", value: "AUTHOR", isRepeatable: true, "only transactions of this author"),
            Option("not-author", value: "AUTHOR", isRepeatable: true, "no transactions of this author"),
            Option("context", value: "CONTEXT", isRepeatable: true, "only transactions with this context"),
            Option("not-context", value: "CONTEXT", isRepeatable: true, "no transactions with this context"),
            Option("entity", value: "NAME", isRepeatable: true, "only changes of objects of this entity"),
            Option("not-entity", value: "NAME", isRepeatable: true, "no changes of objects of this entity"),
            Option("id", value: "ID", isRepeatable: true, "only changes of this object, such as 1:42"),
            Option("kind", value: "KIND", isRepeatable: true, "only changes of this kind: insert, update or delete"),
            Option("attribute", value: "ENTITY.NAME", isRepeatable: true, "only updates that changed this attribute"),
            Option("reverse", "the other order"),
            Option("limit", value: "N", "at most N transactions, or net changes"),
            Option("summary", value: "WHAT", "one line for each author, entity or hour"),
            Option("net", "one net change for each object"),
            Option("count", "only how many transactions or net changes there are"),
            .linesOrText, Option("values", "print values before and after"),
            Option("all", "as text: print each change"),
            Option("follow", "continue with new transactions"), .color,
        ], run: HistoryCommand.run)
}

enum HistoryCommand {
    /// So many transactions are shown before `--follow` waits for new ones, as `tail` has it.
    private static let lastShown = 10

    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"], for: .history)
        let (isText, follows, path) = (format == "text", arguments.has("follow"), arguments.operands[0])
        var request = try arguments.historyRequest()
        if arguments.has("reverse") != (isText && !follows && !arguments.has("net")) { request.order = .newestFirst }
        _ = try arguments.grouping()
        if follows { try requireFollowable(arguments) }
        let ending = follows ? try Ending.onSignals() : nil
        var left = request.limit ?? .max
        try Reconnection.follow(path) { (store, reached) in
            ending?.holdBack()
            try show(request, arguments, isText, ending, store, &reached, &left, &output)
        }
    }

    /// - Parameters:
    ///   - ending: The end of following; nil without it.
    ///   - left: The number of transactions that may still be printed.
    ///   - reached: The place after which following continues, and then the place that it has reached.
    private static func show(
        _ request: HistoryRequest, _ arguments: Arguments, _ isText: Bool, _ ending: Ending?, _ store: Store,
        _ reached: inout HistoryToken?, _ left: inout Int, _ output: inout Output
    ) throws {
        let grouping = try arguments.grouping()
        var request = request
        try arguments.complete(&request, in: store)
        if let reached { request.after = .token(reached) }
        try output.begin(arguments, isLong: isText && ending == nil)
        if isText, request.after == nil, ending != nil { request.after = try last(Self.lastShown, request, store) }
        let note = isText ? try continueAtGap(&request, store).map { StyledText($0, .faint) } : nil
        // It stands in the place of the missing transactions.
        let notes = arguments.has("count") ? [] : [note].compactMap(\.self)
        if request.order == .oldestFirst { for note in notes { try output.line([note]) } }
        if arguments.has("count") {
            try output.line(String(try count(request, arguments.has("net"), store)))
        } else if let grouping {
            try HistorySummary.print(request, by: grouping, of: store, isJSON: !isText, &output)
        } else if arguments.has("net") {
            try NetChangeOutput.print(request, of: store, !isText, arguments.has("values"), &output)
        } else {
            let (labels, hasValues) = (try Labels(try store.snapshot()), arguments.has("values"))
            var text = HistoryText(labels, hasValues: hasValues, isWhole: arguments.has("all"))
            try printAll(&request, ending, store, &reached, &left, &output) { transaction, output in
                if isText { return try text.print(transaction, &output) }
                try HistoryJSON.print(transaction, hasValues, &output)
            } rest: { output in
                try text.show(&output)
            }
        }
        if request.order == .newestFirst { for note in notes { try output.line([note]) } }
    }

    /// Prints the transactions, and with `ending` those that come until it is asked.
    private static func printAll(
        _ request: inout HistoryRequest, _ ending: Ending?, _ store: Store, _ reached: inout HistoryToken?,
        _ left: inout Int, _ output: inout Output,
        _ body: (borrowing HistoryTransactionView, inout Output) throws -> Void,
        rest: (inout Output) throws -> Void
    ) throws {
        // Everything that the filter skips is after the position too.
        func printOn() throws -> HistoryToken {
            let snapshot = try store.snapshot()
            try store.visitTransactions(request, in: snapshot) { transaction in
                guard left > 0, ending?.isAsked != true else { return false }
                left -= 1
                try body(transaction, &output)
                return true
            }
            try rest(&output)
            return snapshot.token
        }
        var token = try printOn()
        guard let ending else { return }
        let watcher = try store.changeWatcher(after: .token(token))
        ending.then { watcher.stop() }
        while left > 0, !ending.isAsked {
            reached = token
            try output.finish()
            guard try watcher.next() != nil else { break }
            request.after = .token(token)
            token = try printOn()
        }
    }

    /// Throws if the options need an end, which new transactions do not have.
    private static func requireFollowable(_ arguments: Arguments) throws {
        let others = ["before", "reverse", "net", "count", "summary"]
        guard !others.contains(where: { arguments.has($0) }) else {
            throw Command.history.refusal(
                "“--follow” cannot be given with --before, --reverse, --net, --count or --summary.")
        }
    }

    /// The place before the last transactions that a request selects.
    private static func last(_ count: Int, _ request: HistoryRequest, _ store: Store) throws -> HistoryRequest.Place {
        var last = request
        (last.order, last.limit) = (.newestFirst, min(count, request.limit ?? count))
        var first: UInt64?
        try store.forEachTransaction(last) { (transaction) throws(StoreError) in
            first = transaction.number
            return true
        }
        return first.map { .number($0 - 1) } ?? .now
    }

    /// If history no longer has everything after the place, begins at the oldest one. Returns a note about that, and
    /// about cleaned transactions if the request names no place.
    static func continueAtGap(_ request: inout HistoryRequest, _ store: Store) throws -> String? {
        let horizon = try store.horizon
        var first = request
        (first.limit, first.order) = (0, .oldestFirst)
        do {
            try store.forEachTransaction(first) { (_) throws(StoreError) in false }
        } catch let error as StoreError where [.tokenExpired, .historyGap].contains(error.code) {
            guard let oldest = error.oldestToken else { throw error }
            request.after = .token(oldest)
            return error.code == .historyGap
                ? "History is incomplete up to transaction \(oldest.number): no history of an entity was kept."
                : "Transactions up to \(oldest.number) were cleaned."
        }
        guard horizon > 0, request.after == nil else { return nil }
        return "Transactions up to \(horizon) were cleaned."
    }

    private static func count(_ request: HistoryRequest, _ isNet: Bool, _ store: Store) throws -> Int {
        guard isNet else { return try store.transactionCount(request) }
        var count = 0
        try store.forEachNetChange(request) { _ in
            count += 1
            return true
        }
        return count
    }
}
