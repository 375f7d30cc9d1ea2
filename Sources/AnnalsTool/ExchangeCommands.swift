// `annals export STORE` prints transactions as lines. `annals apply STORE FILE` applies them to another store, one
// transaction for each line.
//
// Invariants:
// TA1  A line is one transaction: it is applied completely or not at all.
// TA2  No store is created before the first line was read, and none is left if no line could be applied.

internal import Annals
internal import FoundationEssentials

enum ApplyCommand {
    static let command = Command(
        "apply", "Applies the transactions of another store, each once.",
        details: """
            FILE is what “annals export” has printed; “-” is standard input. Creates a missing store. Transactions
            that were applied before are skipped. Those that were made in this store are skipped too, and a
            transaction without changes records that. A conflict with changes made here ends the command, unless
            --conflicts decides which values win. A line that is wrong or cannot be applied ends it too. The
            transactions before it stay. Everything is durable at the end.

            Missing entities and attributes are added. Types do not change: if “annals load --widen” has widened an
            attribute in the other store, the first transaction after that cannot be applied.
            """, operands: ["STORE", "FILE"],
        options: [
            Option("conflicts", value: "POLICY", "error (the default), storeWins or exportWins"),
            Option("author", value: "A", "the author of the changes in history; by default the original author"),
            Option("context", value: "C", "the context; by default the original context"), .textOrCounts,
        ]
    ) { arguments, output in
        let policy: ConflictPolicy = try arguments.choice(of: "conflicts") ?? .error
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
        output.line(json: json(counts), text: sentence(counts))
    }

    private struct Counts {
        var (applied, passedOver): (UInt64, UInt64) = (0, 0)
        var (conflicts, changes): (UInt64, UInt64) = (0, 0)
        var place: HistoryToken?
    }

    private static func next(_ reader: LineReader) throws -> ExportedTransaction? {
        guard let line = try reader.nextFilled() else { return nil }
        do { return try ExportedTransaction(jsonLine: Data(line)) } catch { throw wrong(reader, error) }
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
        } catch { throw wrong(reader, error) }
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

enum ExportCommand {
    static let command = Command(
        "export", "Prints transactions as lines of JSON that another store can apply.",
        details: """
            Without --after, everything is printed. If history was cleaned, the first transaction inserts all
            objects as they were then. If the history of an entity is off, the first transaction inserts the objects
            as they are now, and later transactions come without that entity's changes.

            Continue after the last transaction that was printed, or after the one that “annals apply” names in the
            other store. Applying a transaction twice does no harm, and a gap is noticed. With --to, transactions
            that were made in that other store are left out.

            With --new-identity, the transactions are those of another store, which began with the objects at --after.
            For a store that was restored from a backup or has left its group: --after is then the last transaction
            that the group has of it.
            """, operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "only transactions after this place"),
            Option("to", value: "ID", "the identifier of the receiving store"),
            Option("new-identity", "as transactions of another store; with --after"),
            Option("limit", value: "N", "at most N transactions"),
        ]
    ) { arguments, output in
        let place = try arguments.place(of: "after")
        let target = try arguments.value(of: "to").map { text in
            try UUID(uuidString: text).orThrow(
                arguments.refusal(
                    "The option “--to” takes the identifier of a store, as “annals info” shows it, not “\(text)”."))
        }
        var left = try arguments.number(of: "limit") ?? .max
        let newIdentity = arguments.has("new-identity")
        guard !newIdentity || !arguments.has("limit") else {
            throw arguments.refusal("--new-identity exports everything after its place: leave --limit out.")
        }
        guard place != nil || !newIdentity else {
            throw arguments.refusal(
                "--new-identity needs --after: the last transaction that other stores have under the old identity.")
        }
        guard left > 0 else { return }
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        do {
            try store.forEachExportedTransaction(
                after: place.map(store.requestPlace), to: target, newIdentity: newIdentity
            ) { transaction in
                var line: [UInt8] = []
                JSONText.appendRaw(transaction.jsonLine, to: &line)
                output.data(line + [UInt8(ascii: "\n")])
                left -= 1
                return left > 0 && !output.hasFailed
            }
        } catch {
            var failure = ToolFailure(error)
            // A reader of exports reads everything again by applying it to a new store.
            if (error as? StoreError)?.code == .tokenExpired {
                failure.hint =
                    "“annals export STORE” without --after prints everything, and “annals apply NEW -” applies it."
            }
            throw failure
        }
    }
}
