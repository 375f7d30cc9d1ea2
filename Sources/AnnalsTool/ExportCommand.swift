// `annals export STORE`: prints transactions as lines that `annals apply` reads.

internal import Annals
internal import FoundationEssentials

extension Command {
    static let export = Command(
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
            """,
        operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "only transactions after this place"),
            Option("to", value: "ID", "the identifier of the receiving store"),
            Option("new-identity", "as transactions of another store; with --after"),
            Option("limit", value: "N", "at most N transactions"),
        ], run: ExportCommand.run)
}

enum ExportCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let place = try arguments.place(of: "after", for: .export)
        let target = try target(arguments)
        var left = try arguments.number(of: "limit", for: .export) ?? .max
        let newIdentity = arguments.has("new-identity")
        guard !newIdentity || !arguments.has("limit") else {
            throw Command.export.refusal("--new-identity exports everything after its place: leave --limit out.")
        }
        guard place != nil || !newIdentity else {
            throw Command.export.refusal(
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
                try output.data(line + [UInt8(ascii: "\n")])
                left -= 1
                return left > 0
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

    private static func target(_ arguments: Arguments) throws -> UUID? {
        guard let text = arguments.value(of: "to") else { return nil }
        guard let target = UUID(uuidString: text) else {
            throw Command.export.refusal(
                "The option “--to” takes the identifier of a store, as “annals info” shows it, not “\(text)”.")
        }
        return target
    }
}
