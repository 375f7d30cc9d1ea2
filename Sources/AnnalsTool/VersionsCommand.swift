// `annals versions STORE ENTITY ID`: prints every change of an object, with its author.

internal import Annals

extension Command {
    static let versions = Command(
        "versions", "Prints every change of an object, newest first.",
        details: """
            The ID is as “insert” and “dump” print it, such as 1:42, or 42 for short, or the object's label, which is
            its first unique text. In jsonl each line is a transaction with its “change” of this object, which has the
            object before and after. It follows the links between versions and does not search history. If history
            has no changes of the object, nothing is printed.
            """,
        operands: ["STORE", "ENTITY", "ID"],
        options: [Option("limit", value: "N", "at most N"), .linesOrText, .color], run: VersionsCommand.run)
}

enum VersionsCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"], for: .versions)
        var left = try arguments.number(of: "limit", for: .versions) ?? .max
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let entity = try store.entity(arguments.operands[1])
        let snapshot = try store.snapshot()
        let object = try entity.object(arguments.operands[2], in: snapshot)
        guard left > 0 else { return }
        try output.begin(arguments, isLong: format == "text")
        var text = HistoryText(try Labels(snapshot), hasValues: true, isWhole: true)
        var failure: (any Error)?
        try store.forEachVersion(of: object) { (transaction, change) throws(StoreError) in
            do {
                if format == "text" {
                    try text.print(transaction, only: change, &output)
                } else {
                    let json = RawJSON(try HistoryJSON.json(change, true))
                    try output.data(HistoryJSON.head(transaction) + ["change": json])
                }
            } catch {
                failure = error
            }
            left -= 1
            return failure == nil && left > 0
        }
        if let failure { throw failure }
    }
}
