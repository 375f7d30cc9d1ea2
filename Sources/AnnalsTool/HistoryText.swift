// Transactions and changes for people, one line each with the changes below if they are wanted; and as JSON.

internal import Annals

/// Prints transactions as they come, as text or as JSON. Memory is bounded, whatever the number of changes.
struct HistoryText {
    /// More changes of one kind in a row are one line.
    private static let longestRun = 3
    private let labels: Labels
    private let hasValues: Bool
    private let isWhole: Bool
    private let output: Output
    private var table: Table

    /// Prints changes if `hasValues`, with values before and after, or `isWhole`, which prints each of them.
    init(_ labels: Labels, hasValues: Bool, isWhole: Bool, _ output: Output) {
        (self.labels, self.hasValues, self.isWhole, self.output) = (labels, hasValues, isWhole, output)
        table = Table(output, ["#number", "time", "author", "changes"], hasHead: false)
    }

    private var hasChanges: Bool { hasValues || isWhole }

    mutating func print(_ transaction: borrowing HistoryTransactionView) throws(StoreError) {
        if output.isJSON { return try HistoryJSON.print(transaction, hasValues, output) }
        begin(transaction, try Self.summary(transaction))
        guard hasChanges else { return }
        var changes = Changes(self)
        try transaction.forEachChange { (change) throws(StoreError) in
            try changes.add(change)
            return !output.hasFailed
        }
        changes.finish()
    }

    mutating func print(
        _ transaction: borrowing HistoryTransactionView, only change: borrowing HistoryChangeView
    ) throws(StoreError) {
        if output.isJSON {
            return output.data(HistoryJSON.head(transaction) + ["change": try HistoryJSON.json(change, true)])
        }
        begin(transaction, [StyledText(change.kind.rawValue, change.kind.style)])
        var changes = Changes(self)
        try changes.add(change)
        changes.finish()
    }

    private mutating func begin(_ transaction: borrowing HistoryTransactionView, _ summary: Table.Cell) {
        let context = transaction.contextName.map { " (\($0))" } ?? ""
        let row: [Table.Cell] = [
            [StyledText(String(transaction.number), .number)], [StyledText(Timestamp.local(transaction.microseconds))],
            [StyledText((transaction.author ?? "-") + context)], summary,
        ]
        // With changes below, a column of its own would not be seen.
        if hasChanges {
            output.line(Array(row.joined(separator: [StyledText("  ")])))
        } else {
            table.add(row)
        }
    }

    /// Prints what waits until the widths of the columns are known.
    mutating func show() { table.show() }

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

    private typealias Run = (
        kind: HistoryChange.Kind, entity: String, attributes: [String], first: ObjectID, last: ObjectID, count: UInt64
    )

    /// The changes of one transaction. Those of one kind, one entity and the same attributes are a run.
    private struct Changes {
        private let text: HistoryText
        private var table: Table
        private var run: Run?
        private var rows: [[Table.Cell]] = []

        init(_ text: HistoryText) {
            self.text = text
            let names = text.hasValues ? ["change", "attribute", "before", "after"] : ["change", "attributes"]
            table = Table(text.output, names, hasHead: false, indent: 6)
        }

        mutating func add(_ change: borrowing HistoryChangeView) throws(StoreError) {
            let (kind, entity, attributes) = (change.kind, change.entity ?? "?", try change.attributes())
            if let run, run.kind == kind, run.last.entityNumber == change.object.entityNumber,
                run.attributes == attributes, !text.isWhole
            {
                self.run?.last = change.object
                self.run?.count += 1
            } else {
                flush()
                run = (kind, entity, attributes, change.object, change.object, 1)
            }
            if run?.count ?? 0 <= HistoryText.longestRun { rows += try rows(of: change, kind, entity, attributes) }
        }

        private func rows(
            of change: borrowing HistoryChangeView, _ kind: HistoryChange.Kind, _ entity: String, _ attributes: [String]
        ) throws(StoreError) -> [[Table.Cell]] {
            let (hasValues, labels) = (text.hasValues, text.labels)
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

        private mutating func flush() {
            defer { rows = [] }
            guard let run, run.count > HistoryText.longestRun else {
                for row in rows { table.add(row) }
                return
            }
            let objects = " \(String(grouped: run.count)) \(run.entity) \(run.first) to \(run.last)"
            let head = [StyledText(run.kind.rawValue, run.kind.style), StyledText(objects)]
            let names = [StyledText(run.attributes.joined(separator: ", "))]
            table.add([head, names] + (text.hasValues ? [[], []] : []))
        }

        mutating func finish() {
            flush()
            table.show()
        }
    }

    func print(_ change: NetChange) {
        if output.isJSON { return output.data(HistoryJSON.json(change, hasValues)) }
        let names = change.attributes.isEmpty ? "" : ": " + change.attributes.joined(separator: ", ")
        let (first, last) = (change.firstTransaction, change.lastTransaction)
        let numbers = first == last ? "transaction \(first)" : "transactions \(first) to \(last)"
        let label = labels.text(change.object, change.after ?? change.before)
        output.line("\(change.kind.rawValue) \(change.entity) \(label)\(names)  (\(numbers))")
        guard hasValues else { return }
        let shown = change.kind == .update ? change.attributes : nil
        for value in Self.values(change.before, change.after, shown, labels) {
            output.line("    \(value[0]): " + value.dropFirst().filter { !$0.isEmpty }.joined(separator: " -> "))
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

enum HistoryJSON {
    private static let longestHeldLine = 1 << 20

    /// Errors of a change show before anything is printed. A long line is made twice, to save memory.
    static func print(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: Output
    ) throws(StoreError) {
        let start = Array(head(transaction).json.utf8.dropLast()) + Array(",\"changes\":[".utf8)
        var (line, isLong) = (start, false)
        for isPrinted in [false, true] where isLong || !isPrinted {
            var separator = ""
            line = start
            try transaction.forEachChange { (change) throws(StoreError) in
                line += (separator + (try json(change, hasValues).json)).utf8
                separator = ","
                isLong = isLong || line.count > longestHeldLine
                if isPrinted { output.data(line) }
                if isLong { line = [] }
                return !output.hasFailed
            }
        }
        output.data(line + Array("]}\n".utf8))
    }

    static func head(_ transaction: borrowing HistoryTransactionView) -> JSONLine {
        let line: JSONLine = [
            "number": transaction.number, "token": transaction.token.description,
            "timestamp": Timestamp.text(transaction.microseconds), "author": transaction.author,
            "context": transaction.contextName, "processID": transaction.processID, "process": transaction.process,
        ]
        return line + JSONLine(present: ["origin": (try? transaction.origin())?.description])
    }

    static func json(_ change: borrowing HistoryChangeView, _ hasValues: Bool) throws(StoreError) -> JSONLine {
        let (kind, attributes) = (change.kind, try change.attributes())
        let values = hasValues ? values(try change.before(), try change.after(), of: kind, attributes) : [:]
        return head(kind, change.entity, change.object, attributes) + values + preserved(try change.preserved())
    }

    static func json(_ change: NetChange, _ hasValues: Bool) -> JSONLine {
        let (kind, attributes) = (change.kind, change.attributes)
        return head(kind, change.entity, change.object, attributes)
            + ["first": change.firstTransaction, "last": change.lastTransaction]
            + (hasValues ? values(change.before, change.after, of: kind, attributes) : [:])
            + preserved(change.preserved)
    }

    static func head(
        _ kind: HistoryChange.Kind, _ entity: String?, _ object: ObjectID, _ attributes: [String]
    ) -> JSONLine {
        ["kind": kind.rawValue, "entity": entity, "id": object.description, "attributes": attributes]
    }

    /// An object before and after a change: the changed attributes of an update, or all.
    static func values(_ before: Row?, _ after: Row?, of kind: HistoryChange.Kind, _ attributes: [String]) -> JSONLine {
        let shown = kind == .update ? attributes : nil
        return ["before": before.map { JSONLine(pairs($0, shown)) }, "after": after.map { JSONLine(pairs($0, shown)) }]
    }

    /// The preserved values of a deleted object, without null.
    private static func preserved(_ row: Row?) -> JSONLine {
        row.map { ["preserved": JSONLine(pairs($0, nil).filter { !$0.1.isNull })] } ?? [:]
    }

    /// The named attributes, or all.
    static func pairs(_ row: Row, _ attributes: [String]?) -> [(String, Value)] {
        guard let attributes else { return Array(zip(row.attributes, row.values)) }
        return attributes.map { ($0, row[$0] ?? .null) }
    }
}
