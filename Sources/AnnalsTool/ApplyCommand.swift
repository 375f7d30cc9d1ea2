// `annals apply STORE FILE`: applies lines of `annals export` to another store, one transaction for each line.
//
// Invariants:
// TA1  A line is one transaction: it is applied completely or not at all.
// TA2  No store is created before the first line was read, and none is left if no line could be applied.

internal import Annals
internal import FoundationEssentials

extension Command {
    static let apply = Command(
        "apply", "Applies the transactions of another store, each once.",
        details: """
            FILE is what “annals export” has printed; “-” is standard input. Creates a missing store. Transactions
            that were applied before are skipped. Those that were made in this store are skipped too, and a
            transaction without changes records that. A conflict with changes made here ends the command, unless
            --conflicts decides which values win. A line that is wrong or cannot be applied ends it too. The
            transactions before it stay. Everything is durable at the end.

            Missing entities and attributes are added. Types do not change: if “annals load --widen” has widened an
            attribute in the other store, the first transaction after that cannot be applied.
            """,
        operands: ["STORE", "FILE"],
        options: [
            Option("conflicts", value: "POLICY", "error (the default), storeWins or exportWins"),
            Option("author", value: "A", "the author of the changes in history; by default the original author"),
            Option("context", value: "C", "the context; by default the original context"), .textOrCounts,
        ], run: ApplyCommand.run)
}

enum ApplyCommand {
    private struct Counts {
        var (applied, passedOver): (UInt64, UInt64) = (0, 0)
        var (conflicts, changes): (UInt64, UInt64) = (0, 0)
        /// The place in the other store's history after the last line.
        var place: HistoryToken?
    }

    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(["text", "json"], for: .apply)
        let text = arguments.value(of: "conflicts") ?? ConflictPolicy.error.rawValue
        guard let policy = ConflictPolicy(rawValue: text) else {
            throw Command.apply.refusal("The option “--conflicts” takes error, storeWins or exportWins, not “\(text)”.")
        }
        let reader = try LineReader(arguments.operands[1])
        var counts = Counts()
        // Before a store is created: TA2.
        if let first = try next(reader) {
            let store = try StoreAccess.open(arguments.operands[0], .readWrite, creates: true)
            try StoreAccess.change(store) {
                var following: ExportedTransaction? = first
                while let transaction = following {
                    try apply(transaction, to: store, policy, arguments, reader, &counts)
                    following = try next(reader)
                }
            }
        }
        output.hasChanges = counts.applied > 0
        try output.line(format, json: json(counts), text: sentence(counts))
    }

    private static func next(_ reader: LineReader) throws -> ExportedTransaction? {
        while let line = try reader.next() {
            if line.isBlank { continue }
            do {
                return try ExportedTransaction(jsonLine: Data(line))
            } catch {
                throw wrong(reader, error)
            }
        }
        return nil
    }

    /// Applies one line: TA1.
    private static func apply(
        _ transaction: ExportedTransaction, to store: Store, _ policy: ConflictPolicy, _ arguments: Arguments,
        _ reader: LineReader, _ counts: inout Counts
    ) throws {
        let result: ApplyResult
        do {
            // Made durable when the store is closed: transactions that a power failure removes before then can be
            // applied again.
            result = try store.apply(
                transaction, conflicts: policy, author: arguments.value(of: "author"),
                contextName: arguments.value(of: "context"), durability: .relaxed)
        } catch {
            throw wrong(reader, error)
        }
        counts.place = transaction.token
        if result.outcome == .applied {
            counts.applied += 1
            counts.changes += UInt64(transaction.changes.count)
        } else {
            counts.passedOver += 1
        }
        counts.conflicts += UInt64(result.conflicts.count)
        for conflict in result.conflicts {
            try Output.report("conflict in transaction \(transaction.token.number): \(conflict)")
        }
    }

    private static func wrong(_ reader: LineReader, _ error: any Error) -> ToolFailure {
        var failure = ToolFailure(error)
        failure.message = "Line \(reader.number) of \(reader.name): \(error)"
        return failure
    }

    private static func sentence(_ counts: Counts) -> String {
        "\(counts.applied) transactions with \(counts.changes) changes applied, \(counts.passedOver) skipped, "
            + "\(counts.conflicts) conflicts" + (counts.place.map { "; now after \($0)" } ?? "")
    }

    private static func json(_ counts: Counts) -> JSONLine {
        [
            "applied": counts.applied, "changes": counts.changes, "passedOver": counts.passedOver,
            "conflicts": counts.conflicts, "place": counts.place?.description,
        ]
    }
}
