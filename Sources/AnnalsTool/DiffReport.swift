// Differences between two states, as text or JSON lines: `diff` and `restore --dry-run` print them.

internal import Annals

/// Prints differences as they are found.
struct DiffReport {
    private let isJSON: Bool
    private let (before, after): (Labels, Labels)
    private var table = Table(["", "object", "attribute", "before", "after"], hasHead: false)
    private(set) var hasDifferences = false

    init(isJSON: Bool, _ before: Labels, _ after: Labels) {
        (self.isJSON, self.before, self.after) = (isJSON, before, after)
    }

    /// Adds a part of a description of the schema that only one of both has.
    mutating func add(schema line: String, isNew: Bool, _ output: inout Output) throws(ToolFailure) {
        hasDifferences = true
        if isJSON {
            return try output.data([
                "kind": "schema", "before": UTF8Text(isNew ? nil : line), "after": UTF8Text(isNew ? line : nil),
            ])
        }
        try output.line([StyledText((isNew ? "+ " : "- ") + line, isNew ? .insert : .delete)])
    }

    mutating func add(
        _ kind: HistoryChange.Kind, _ entity: String, _ object: ObjectID, _ attributes: [String], _ old: Row?,
        _ new: Row?, _ output: inout Output
    ) throws(ToolFailure) {
        hasDifferences = true
        if isJSON {
            var json = HistoryJSON.head(kind, entity, object, attributes)
            json.add(old, new, of: kind, attributes)
            return try output.data(json)
        }
        let sign = kind == .insert ? "+" : kind == .update ? " " : "-"
        let label = old.map { before.text(object, $0) } ?? after.text(object, new)
        let head: [Table.Cell] = [[StyledText(sign, kind.style)], [StyledText("\(entity) \(label)", kind.style)]]
        if attributes.isEmpty { try table.add(head + [[], [], []], &output) }
        for (index, name) in attributes.enumerated() {
            let values = [name, before.text(old?[name] ?? .null), after.text(new?[name] ?? .null)]
            try table.add((index == 0 ? head : [[], []]) + values.map { [StyledText($0)] }, &output)
        }
    }

    mutating func finish(_ output: inout Output) throws(ToolFailure) { try table.show(&output) }
}
