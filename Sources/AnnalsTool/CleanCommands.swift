// `annals clean` and `annals compact`: history goes, and its space is given back.

internal import Annals

extension Command {
    static let clean = Command(
        "clean", "Cleans history: transactions before a place are no longer returned.",
        details: """
            The transaction of the place itself stays. What the transactions have changed stays changed; “annals compact”
            gives the space back. With --author only the transactions of that author go, and a reader that starts before
            them is told that its token has expired. With --dry-run nothing is written.
            """,
        operands: ["STORE"],
        options: [
            Option("before", value: "PLACE", "a transaction: its number or its token"),
            Option("author", value: "A", "only what this author has written"),
            Option("dry-run", "say what would go"),
            Option("format", value: "FORMAT", "json, or text (the default on a terminal)"),
        ], run: CleanCommands.clean)

    static let compact = Command(
        "compact", "Writes the store anew, without what nobody can read any more.",
        details: """
            Other processes read and write meanwhile. A new file is written beside the store and takes its name when it is
            complete; ended before that, the store is as it was.
            """,
        operands: ["STORE"],
        options: [Option("format", value: "FORMAT", "json, or text (the default on a terminal)")],
        run: CleanCommands.compact)
}

enum CleanCommands {
    static func clean(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(output.isTerminal ? ["text", "json"] : ["json", "text"], for: .clean)
        guard let place = try arguments.place(of: "before", for: .clean) else {
            throw ToolFailure(.usage, "clean: --before says which transactions go.", hint: "Try: annals help clean")
        }
        let authors = arguments.value(of: "author").map { [Optional($0)] }
        let isDry = arguments.has("dry-run")
        let (gone, horizon) = try StoreAccess.with(arguments.operands[0], isDry ? .readOnly : .readWrite) {
            (store) throws(ToolFailure) in
            try storing { () throws(StoreError) in
                let number = try number(of: place, in: store)
                let gone = try count(before: number, authors, in: store)
                if !isDry { try store.deleteHistory(before: number, authors: authors) }
                return (gone, try store.horizon)
            }
        }
        if format == "json" {
            var line = JSONLine()
            line.add("transactions", gone)
            line.add("horizon", horizon)
            line.add("dryRun", isDry)
            try output.line(line.text)
        } else {
            let verb = isDry ? "would be cleaned" : "cleaned"
            try output.line("\(gone) transactions \(verb); history begins behind \(horizon).")
        }
        return .done
    }

    private static func number(of place: HistoryPlace, in store: Store) throws(StoreError) -> UInt64 {
        switch place {
        case .number(let number): return number
        case .token(let token):
            try store.check(token)
            return token.number
        }
    }

    /// How many transactions go that are still there.
    private static func count(
        before number: UInt64, _ authors: [String?]?, in store: Store
    ) throws(StoreError) -> UInt64 {
        var count: UInt64 = 0
        let horizon = try store.horizon
        let author = authors?.first ?? nil
        do throws(StoreError) {
            try store.forEachTransaction(after: horizon) { (transaction) throws(StoreError) in
                if transaction.number >= number { return false }
                if authors == nil || transaction.author == author { count += 1 }
                return true
            }
        } catch  where error.code == .tokenExpired {
            // Some of them are hidden already.
            return 0
        }
        return count
    }

    static func compact(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(output.isTerminal ? ["text", "json"] : ["json", "text"], for: .compact)
        let result = try StoreAccess.with(arguments.operands[0], .readWrite) { (store) throws(ToolFailure) in
            try storing { () throws(StoreError) in try store.compact() }
        }
        if format == "json" {
            var line = JSONLine()
            line.add("bytesBefore", result.bytesBefore)
            line.add("bytesAfter", result.bytesAfter)
            line.add("horizon", result.horizon)
            try output.line(line.text)
        } else {
            try output.line(
                "\(result.bytesBefore) bytes before, \(result.bytesAfter) after; history begins behind \(result.horizon)."
            )
        }
        return .done
    }
}
