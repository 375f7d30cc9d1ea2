// `annals history STORE` lists changes with their authors and times, transaction by transaction. `annals versions STORE
// ENTITY ID` prints every change of an object.

internal import Annals

enum HistoryCommand {
    static let command = Command(
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
            """, operands: ["STORE"],
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
        ]
    ) { arguments, output in
        var run = try HistoryRun(arguments, output)
        try StoreAccess.follow(arguments.operands[0]) { (store, reached) in try run.show(store, &reached) }
    }

    /// Begins at the oldest place if history no longer has everything after the requested one. Returns a note about
    /// that, and about cleaned transactions if the request names no place.
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
        return horizon > 0 && request.after == nil ? "Transactions up to \(horizon) were cleaned." : nil
    }
}

private struct HistoryRun {
    /// So many transactions are shown before `--follow` waits for new ones, as `tail` has it.
    private static let lastShown = 10
    private let arguments: Arguments
    private let output: Output
    private let isText: Bool
    private let grouping: HistorySummary.Grouping?
    private let request: HistoryRequest
    /// The end of following; nil without it.
    private let ending: Ending?
    /// The number of transactions that may still be printed.
    private var left: Int

    init(_ arguments: Arguments, _ output: Output) throws {
        (self.arguments, self.output) = (arguments, output)
        isText = !output.isJSON
        let follows = arguments.has("follow")
        var request = try arguments.historyRequest()
        if arguments.has("reverse") != (isText && !follows && !arguments.has("net")) { request.order = .newestFirst }
        self.request = request
        grouping = try arguments.choice(of: "summary")
        // These need an end, which new transactions do not have.
        if follows, ["before", "reverse", "net", "count", "summary"].contains(where: arguments.has) {
            throw arguments.refusal("“--follow” cannot be given with --before, --reverse, --net, --count or --summary.")
        }
        ending = follows ? try Ending.onSignals() : nil
        left = request.limit ?? .max
    }

    /// - Parameter reached: The place after which following continues, and then the place that it has reached.
    mutating func show(_ store: Store, _ reached: inout HistoryToken?) throws {
        ending?.holdBack()
        var request = request
        try arguments.complete(&request, in: store)
        if let reached { request.after = .token(reached) }
        try output.begin(arguments, isLong: isText && ending == nil)
        if isText, request.after == nil, ending != nil { request.after = try place(beforeLastOf: request, store) }
        let gap = isText ? try HistoryCommand.continueAtGap(&request, store) : nil
        // It is printed in the place of the missing transactions.
        let note = arguments.has("count") ? nil : gap.map { [StyledText($0, .faint)] }
        if let note, request.order == .oldestFirst { output.line(note) }
        if arguments.has("count") {
            output.line(String(try count(request, store)))
        } else if let grouping {
            try HistorySummary.print(request, by: grouping, of: store, output)
        } else if arguments.has("net") {
            let text = try text(store)
            try store.forEachNetChange(request, includingValues: arguments.has("values")) { change in
                text.print(change)
                return !output.hasFailed
            }
        } else {
            try printAll(request, store, &reached)
        }
        if let note, request.order == .newestFirst { output.line(note) }
    }

    /// Prints the transactions, and those that come until following ends.
    private mutating func printAll(_ request: HistoryRequest, _ store: Store, _ reached: inout HistoryToken?) throws {
        var (request, watcher, text) = (request, ChangeWatcher?.none, try text(store))
        while true {
            // Everything that the filter skips is after the position too.
            let snapshot = try store.snapshot()
            try store.forEachTransaction(request, in: snapshot) { (transaction) throws(StoreError) in
                guard left > 0, ending?.isAsked != true, !output.hasFailed else { return false }
                left -= 1
                try text.print(transaction)
                return true
            }
            text.show()
            guard let ending else { return }
            let watching = try watcher ?? store.changeWatcher(after: .token(snapshot.token))
            if watcher == nil { ending.then { watching.stop() } }
            watcher = watching
            guard left > 0, !ending.isAsked else { return }
            reached = snapshot.token
            try output.finish()
            guard try watching.next() != nil else { return }
            request.after = .token(snapshot.token)
        }
    }

    private func text(_ store: Store) throws -> HistoryText {
        HistoryText(
            try Labels(try store.snapshot()), hasValues: arguments.has("values"), isWhole: arguments.has("all"), output)
    }

    /// The place before the last transactions that a request selects.
    private func place(beforeLastOf request: HistoryRequest, _ store: Store) throws -> HistoryRequest.Place {
        var last = request
        (last.order, last.limit) = (.newestFirst, min(Self.lastShown, request.limit ?? .max))
        var first: UInt64?
        try store.forEachTransaction(last) { (transaction) throws(StoreError) in
            first = transaction.number
            return true
        }
        return first.map { .number($0 - 1) } ?? .now
    }

    private func count(_ request: HistoryRequest, _ store: Store) throws -> Int {
        guard arguments.has("net") else { return try store.transactionCount(request) }
        var count = 0
        try store.forEachNetChange(request) { _ in
            count += 1
            return true
        }
        return count
    }
}

enum VersionsCommand {
    static let command = Command(
        "versions", "Prints every change of an object, newest first.",
        details: """
            The ID is as “insert” and “dump” print it, such as 1:42, or 42 for short, or the object's label, which is
            its first unique text. In jsonl each line is a transaction with its “change” of this object, which has the
            object before and after. It follows the links between versions and does not search history. If history
            has no changes of the object, nothing is printed.
            """, operands: ["STORE", "ENTITY", "ID"],
        options: [Option("limit", value: "N", "at most N"), .linesOrText, .color]
    ) { arguments, output in
        var left = try arguments.number(of: "limit") ?? .max
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let entity = try store.entity(arguments.operands[1])
        let snapshot = try store.snapshot()
        let object = try entity.object(arguments.operands[2], in: snapshot)
        guard left > 0 else { return }
        try output.begin(arguments, isLong: !output.isJSON)
        var text = HistoryText(try Labels(snapshot), hasValues: true, isWhole: true, output)
        try store.forEachVersion(of: object) { (transaction, change) throws(StoreError) in
            try text.print(transaction, only: change)
            left -= 1
            return left > 0 && !output.hasFailed
        }
    }
}
