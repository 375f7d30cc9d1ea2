// `annals export STORE`: transactions as lines that `annals apply` takes.

internal import Annals
internal import FoundationEssentials

extension Command {
    static let export = Command(
        "export", "Prints transactions as lines of JSON that another store can apply.",
        details: """
            Without a place everything is printed; where history was cleaned, first one
            transaction that inserts all objects as they were then; where the history of an
            entity is off, one that inserts them as they are now, and later transactions are
            without what becomes of its objects. Go on behind the last transaction that was
            printed, or behind the one that the other store's “annals apply” names: what is
            applied twice does no harm, and a gap is noticed. With --to, what was first made
            in that other store is left out.
            """,
        operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "only what came after this transaction or moment"),
            Option("to", value: "ID", "the store that it is for, by its identifier"),
            Option("limit", value: "N", "so many transactions at most"),
        ], run: ExportCommand.run)
}

enum ExportCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let place = try arguments.place(of: "after", for: .export)?.inRequest
        let target = try target(arguments)
        var left = try arguments.number(of: "limit", for: .export) ?? .max
        guard left > 0 else { return .done }
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        var failure: ToolFailure?
        do {
            try store.forEachExportedTransaction(after: place, to: target) { (transaction) in
                do throws(ToolFailure) {
                    var line: [UInt8] = []
                    JSONText.appendRaw(transaction.jsonLine, to: &line)
                    line.append(UInt8(ascii: "\n"))
                    try output.data(line)
                } catch {
                    failure = error
                    return false
                }
                left -= 1
                return left > 0
            }
        } catch {
            var failure = ToolFailure(error)
            // Reading everything anew means applying it.
            if (error as? StoreError)?.code == .tokenExpired {
                failure.hint = "“annals export STORE” without --after prints everything, “annals apply NEW -” takes it."
            }
            throw failure
        }
        if let failure { throw failure }
        return .done
    }

    private static func target(_ arguments: Arguments) throws(ToolFailure) -> UUID? {
        guard let text = arguments.value(of: "to") else { return nil }
        guard let target = UUID(uuidString: text) else {
            throw ToolFailure(
                .usage, "The option “--to” takes the identifier of a store, as “annals info” shows it, not “\(text)”.",
                hint: "Try: annals help export")
        }
        return target
    }
}
