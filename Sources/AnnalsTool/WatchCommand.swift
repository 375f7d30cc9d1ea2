// `annals watch STORE`: reports new transactions, from any process.

internal import Annals

extension Command {
    static let watch = Command(
        "watch", "Reports new transactions, until SIGTERM or SIGINT ends it.",
        details: """
            In jsonl each line is a signal: the numbers of its first and last transaction, their authors, entities
            and process IDs, and the token to continue from. Many transactions may come as one signal; none is
            missed. Each line is printed at once. If another file replaces the store, the command continues with that
            one, and prints a note to standard error.

            With --top, it counts instead, each second: transactions and changes by author, the lag of consumers, the
            size, and how much of the time a writer held the lock, or waited for it. On a terminal this is a screen that
            renews itself. Otherwise each second is a line.
            """,
        operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "begin after this place, with past transactions"),
            Option("not-author", value: "NAME", isRepeatable: true, "no transactions of this author"),
            Option("not-context", value: "NAME", isRepeatable: true, "no transactions with this context name"),
            Option("top", "a screen of rates, lags, size and lock waits, each second"), .linesOrText,
        ], run: WatchCommand.run)
}

enum WatchCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"], for: .watch)
        let after = try arguments.place(of: "after", for: .watch)
        let authors = Set(arguments.values(of: "not-author") ?? [])
        let contexts = Set(arguments.values(of: "not-context") ?? [])
        if arguments.has("top"), after != nil || !authors.isEmpty || !contexts.isEmpty {
            throw Command.watch.refusal(
                "“--top” counts all transactions from now on: leave --after, --not-author and --not-context out.")
        }
        let ending = try Ending.onSignals()
        if arguments.has("top") {
            return try WatchTop.run(arguments.operands[0], ending, isJSON: format == "jsonl", &output)
        }
        try Reconnection.follow(arguments.operands[0]) { (store, reached) in
            let place = try reached.map { .token($0) } ?? after.map(store.requestPlace) ?? .now
            reached = try reached ?? store.currentToken
            let watcher = try store.changeWatcher(after: place, excluding: authors, excludingContextNames: contexts)
            ending.then { watcher.stop() }
            while let signal = try watcher.next() {
                try output.line(format, json: json(signal), text: text(signal))
                try output.finish()
                reached = signal.token
            }
        }
    }

    private static func json(_ signal: ChangeSignal) -> JSONLine {
        [
            "first": signal.numbers.lowerBound, "last": signal.numbers.upperBound,
            "authors": signal.authors.map(UTF8Text.init), "entities": signal.entities.map(UTF8Text.init),
            "processIDs": signal.processIDs, "token": signal.token.description,
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
