// Transactions for people: one line each, and their changes below if they are wanted.

internal import Annals

/// Prints transactions as they come. Memory is bounded, whatever the number of changes.
struct HistoryText {
    /// More changes of one kind in a row are one line.
    private static let longestRun = 3
    private static let indent = 6

    private let labels: Labels
    private let hasValues: Bool
    private let isWhole: Bool
    private var table: Table

    /// - Parameters:
    ///   - hasValues: Whether changes are printed, with values before and after.
    ///   - isWhole: Whether each change is printed.
    init(_ labels: Labels, hasValues: Bool, isWhole: Bool) {
        (self.labels, self.hasValues, self.isWhole) = (labels, hasValues, isWhole)
        table = Table(["#number", "time", "author", "changes"], hasHead: false)
    }

    private var hasChanges: Bool { hasValues || isWhole }

    mutating func print(_ transaction: borrowing HistoryTransactionView, _ output: inout Output) throws {
        try begin(transaction, try Self.summary(transaction), &output)
        guard hasChanges else { return }
        var changes = Changes(labels, hasValues, isWhole)
        try transaction.visitChanges { try changes.add($0, &output) }
        try changes.finish(&output)
    }

    /// Prints one change of a transaction, with values.
    mutating func print(
        _ transaction: borrowing HistoryTransactionView, only change: borrowing HistoryChangeView,
        _ output: inout Output
    ) throws {
        try begin(transaction, [StyledText(change.kind.rawValue, change.kind.style)], &output)
        var changes = Changes(labels, true, true)
        try changes.add(change, &output)
        try changes.finish(&output)
    }

    private mutating func begin(
        _ transaction: borrowing HistoryTransactionView, _ summary: Table.Cell, _ output: inout Output
    ) throws {
        let context = transaction.contextName.map { " (\($0))" } ?? ""
        let row: [Table.Cell] = [
            [StyledText(String(transaction.number), .number)], [StyledText(Timestamp.local(transaction.microseconds))],
            [StyledText((transaction.author ?? "-") + context)], summary,
        ]
        // With changes below, a column of its own would not be seen.
        if hasChanges {
            try output.line(Array(row.joined(separator: [StyledText("  ")])))
        } else {
            try table.add(row, &output)
        }
    }

    /// Prints what waits until the widths of the columns are known.
    mutating func show(_ output: inout Output) throws(ToolFailure) { try table.show(&output) }

    // MARK: One line

    /// How many objects of each entity have changed, by kind.
    private static func summary(_ transaction: borrowing HistoryTransactionView) throws(StoreError) -> Table.Cell {
        var counts: [HistoryChange.Kind: [UInt16: (name: String, count: UInt64)]] = [:]
        try transaction.forEachChange { (change) throws(StoreError) in
            let entity = change.object.entityNumber
            let name = change.entity
            counts[change.kind, default: [:]][entity, default: (name ?? "entity \(entity)", 0)].count += 1
            return true
        }
        var parts: [StyledText] = []
        func add(_ text: String, _ style: StyledText.Style = .plain) {
            if !parts.isEmpty { parts.append(StyledText("; ")) }
            parts.append(StyledText(text, style))
        }
        for kind in [HistoryChange.Kind.insert, .update, .delete] {
            guard let entities = counts[kind] else { continue }
            let sorted = entities.values.sorted { ($1.count, $0.name) < ($0.count, $1.name) }
            add(kind.rawValue, kind.style)
            parts.append(
                StyledText(" " + sorted.map { "\(String(grouped: $0.count)) \($0.name)" }.joined(separator: ", ")))
        }
        if transaction.changesSchema { add("changes the schema") }
        if let origin = try? transaction.origin() { add("applied \(origin.number) of \(origin.storeIdentifier)") }
        if parts.isEmpty { add("no changes", .faint) }
        return parts
    }

    // MARK: Changes

    /// The changes of one transaction. Those of one kind, one entity and the same attributes are a run.
    private struct Changes {
        private let labels: Labels
        private let hasValues: Bool
        private let isWhole: Bool
        private var table: Table
        private var run: (kind: HistoryChange.Kind, entity: String, attributes: [String])?
        private var objects: (first: ObjectID, last: ObjectID, count: UInt64)?
        private var rows: [[Table.Cell]] = []

        init(_ labels: Labels, _ hasValues: Bool, _ isWhole: Bool) {
            (self.labels, self.hasValues, self.isWhole) = (labels, hasValues, isWhole)
            table = Table(
                hasValues ? ["change", "attribute", "before", "after"] : ["change", "attributes"], hasHead: false,
                indent: HistoryText.indent)
        }

        mutating func add(_ change: borrowing HistoryChangeView, _ output: inout Output) throws {
            let (kind, entity, attributes) = (change.kind, change.entity ?? "?", try change.attributes())
            if let objects, let run, run.kind == kind, objects.last.entityNumber == change.object.entityNumber,
                run.attributes == attributes, !isWhole
            {
                self.objects = (objects.first, change.object, objects.count + 1)
            } else {
                try flush(&output)
                (run, objects) = ((kind, entity, attributes), (change.object, change.object, 1))
            }
            if objects?.count ?? 0 <= HistoryText.longestRun { rows += try rows(of: change, kind, entity, attributes) }
        }

        private func rows(
            of change: borrowing HistoryChangeView, _ kind: HistoryChange.Kind, _ entity: String, _ attributes: [String]
        ) throws(StoreError) -> [[Table.Cell]] {
            var before = hasValues || kind == .delete ? try change.before() : nil
            // History may have kept only some values of a deleted object.
            if kind == .delete, before == nil { before = try change.preserved() }
            let after = hasValues || kind == .insert ? try change.after() : nil
            let label = labels.text(change.object, before ?? after)
            let head = [StyledText(kind.rawValue, kind.style), StyledText(" \(entity) \(label)")]
            guard hasValues else { return [[head, [StyledText(attributes.joined(separator: ", "))]]] }
            let values = HistoryText.values(before, after, kind == .update ? attributes : nil, labels)
            if values.isEmpty { return [[head, [], [], []]] }
            return values.enumerated().map { index, value in [index == 0 ? head : []] + value.map { [StyledText($0)] } }
        }

        private mutating func flush(_ output: inout Output) throws(ToolFailure) {
            defer { rows = [] }
            guard let run, let objects, objects.count > HistoryText.longestRun else {
                for row in rows { try table.add(row, &output) }
                return
            }
            let text = " \(String(grouped: objects.count)) \(run.entity) \(objects.first) to \(objects.last)"
            var row: [Table.Cell] = [[StyledText(run.kind.rawValue, run.kind.style), StyledText(text)]]
            row += [[StyledText(run.attributes.joined(separator: ", "))]] + (hasValues ? [[], []] : [])
            try table.add(row, &output)
        }

        mutating func finish(_ output: inout Output) throws(ToolFailure) {
            try flush(&output)
            try table.show(&output)
        }
    }

    /// For each named attribute, or each that has a value: its name, and the value before and after.
    static func values(_ before: Row?, _ after: Row?, _ shown: [String]?, _ labels: Labels) -> [[String]] {
        guard let row = after ?? before else { return [] }
        return HistoryJSON.pairs(row, shown).compactMap { name, value in
            if shown == nil, value.isNull { return nil }
            let old = before?[name].map(labels.text) ?? ""
            return [name, old, after == nil ? "" : labels.text(value)]
        }
    }
}

extension HistoryChange.Kind {
    var style: StyledText.Style { self == .insert ? .insert : self == .update ? .update : .delete }
}
