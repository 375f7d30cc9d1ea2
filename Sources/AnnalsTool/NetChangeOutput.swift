// `annals history STORE --net`: prints one line for each object, or a few with values.

internal import Annals

enum NetChangeOutput {
    static func print(
        _ request: HistoryRequest, of store: Store, _ isJSON: Bool, _ hasValues: Bool, _ output: inout Output
    ) throws(ToolFailure) {
        var failure: ToolFailure?
        try storing {
            try store.forEachNetChange(request, includingValues: hasValues) { (change) in
                failure = HistoryCommand.printing(&output) { (output) throws(ToolFailure) in
                    if isJSON {
                        try output.data(Array((json(change, hasValues) + "\n").utf8))
                    } else {
                        for line in text(change, hasValues) { try output.line(line) }
                    }
                }
                return failure == nil
            }
        }
        if let failure { throw failure }
    }

    private static func json(_ change: NetChange, _ hasValues: Bool) -> String {
        var line = JSONLine()
        line.add("kind", change.kind.rawValue)
        line.addText("entity", change.entity)
        line.add("id", change.object.description)
        line.addRaw("attributes", "[" + change.attributes.map(JSONText.string).joined(separator: ",") + "]")
        line.add("first", change.firstTransaction)
        line.add("last", change.lastTransaction)
        if hasValues {
            let shown = change.kind == .update ? change.attributes : nil
            line.addRaw("before", HistoryCommand.json(change.before, shown))
            line.addRaw("after", HistoryCommand.json(change.after, shown))
        }
        if let preserved = change.preserved {
            line.addRaw("preserved", HistoryCommand.json(preserved, HistoryCommand.kept(preserved)))
        }
        return line.text
    }

    private static func text(_ change: NetChange, _ hasValues: Bool) -> [String] {
        let names = change.attributes.isEmpty ? "" : ": " + change.attributes.joined(separator: ", ")
        let numbers =
            change.firstTransaction == change.lastTransaction
            ? "transaction \(change.firstTransaction)"
            : "transactions \(change.firstTransaction) to \(change.lastTransaction)"
        let line = "\(change.kind.rawValue) \(change.entity) \(change.object)\(names)  (\(numbers))"
        guard hasValues else { return [line] }
        return [line]
            + HistoryCommand.values(change.before, change.after, change.kind == .update ? change.attributes : nil)
    }
}
