// `annals history STORE --net`: prints one line for each object, or a few with values.

internal import Annals

enum NetChangeOutput {
    static func print(
        _ request: HistoryRequest, of store: Store, _ isJSON: Bool, _ hasValues: Bool, _ output: inout Output
    ) throws {
        let labels = try Labels(try store.snapshot())
        try store.forEachNetChange(request, includingValues: hasValues) { change in
            if isJSON {
                try output.data(json(change, hasValues))
            } else {
                for line in text(change, hasValues, labels) { try output.line(line) }
            }
            return true
        }
    }

    private static func json(_ change: NetChange, _ hasValues: Bool) -> JSONLine {
        var line =
            HistoryJSON.head(change.kind, change.entity, change.object, change.attributes)
            + ["first": change.firstTransaction, "last": change.lastTransaction]
        if hasValues { line.add(change.before, change.after, of: change.kind, change.attributes) }
        line.add(preserved: change.preserved)
        return line
    }

    private static func text(_ change: NetChange, _ hasValues: Bool, _ labels: Labels) -> [String] {
        let names = change.attributes.isEmpty ? "" : ": " + change.attributes.joined(separator: ", ")
        let numbers =
            change.firstTransaction == change.lastTransaction
            ? "transaction \(change.firstTransaction)"
            : "transactions \(change.firstTransaction) to \(change.lastTransaction)"
        let label = labels.text(change.object, change.after ?? change.before)
        let line = "\(change.kind.rawValue) \(change.entity) \(label)\(names)  (\(numbers))"
        guard hasValues else { return [line] }
        let shown = change.kind == .update ? change.attributes : nil
        return [line]
            + HistoryText.values(change.before, change.after, shown, labels).map { value in
                "    \(value[0]): " + value.dropFirst().filter { !$0.isEmpty }.joined(separator: " -> ")
            }
    }
}
