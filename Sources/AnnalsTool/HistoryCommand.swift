// `annals history STORE`: who changed what and when, transaction by transaction.

internal import Annals

extension Command {
    static let history = Command(
        "history", "Prints the transactions of a store, oldest first.",
        details: """
            In jsonl each line is a transaction: number, token, timestamp, author, context, processID, process
            and its changes, each with kind, entity, id and, for an update, the attributes changed. With values a
            change has “before” and “after”: of an update the attributes changed, of an insert and a deletion all.
            “preserved” is what is kept of a deleted object. A place that history does not have is a failure.
            With follow it goes on as transactions come, until SIGTERM or SIGINT ends it as done.
            """,
        operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "only what came after this transaction: a number or a token"),
            Option("limit", value: "N", "at most so many transactions"),
            Option("format", value: "FORMAT", "jsonl, or text (the default on a terminal)"),
            Option("values", "with the values before and after"),
            Option("follow", "goes on with transactions as they are committed"),
        ], run: HistoryCommand.run)
}

enum HistoryCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"], for: .history)
        let after = try arguments.place(of: "after", for: .history) ?? .number(0)
        var left = try arguments.number(of: "limit", for: .history) ?? .max
        let hasValues = arguments.has("values")
        let ending = arguments.has("follow") ? try Ending.onSignals() : nil
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        var failure: ToolFailure?
        func visit(_ transaction: borrowing HistoryTransactionView) throws(StoreError) -> Bool {
            guard left > 0, ending?.isAsked != true else { return false }
            left -= 1
            if format == "jsonl" {
                failure = try json(transaction, hasValues, &output)
            } else {
                failure = try text(transaction, hasValues, &output)
            }
            return failure == nil && left > 0
        }
        var position: UInt64
        switch after {
        case .number(let number): position = number
        case .token(let token):
            try storing { () throws(StoreError) in try store.check(token) }
            position = token.number
        }
        func printOn() throws(ToolFailure) {
            try storing { () throws(StoreError) in
                try store.forEachTransaction(after: position) { (view) throws(StoreError) in
                    let number = view.number
                    let goesOn = try visit(view)
                    position = number
                    return goesOn
                }
            }
            if let failure { throw failure }
        }
        try printOn()
        guard let ending else { return .done }
        let watcher = try storing { () throws(StoreError) in try store.changeWatcher(after: position) }
        ending.then { watcher.stop() }
        while left > 0, !ending.isAsked {
            try output.finish()
            guard try storing({ () throws(StoreError) in try watcher.next() }) != nil else { break }
            try printOn()
        }
        return .done
    }

    /// Prints, and gives back why that failed: it is not the store's error.
    private static func printing(
        _ output: inout Output, _ body: (inout Output) throws(ToolFailure) -> Void
    ) -> ToolFailure? {
        do throws(ToolFailure) {
            try body(&output)
            return nil
        } catch {
            return error
        }
    }

    // MARK: JSON

    /// Change by change, so that a transaction of millions takes little memory.
    private static func json(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws(StoreError) -> ToolFailure? {
        var line = JSONLine()
        line.add("number", transaction.number)
        line.add("token", transaction.token.description)
        line.add("timestamp", Timestamp.text(transaction.microseconds))
        line.addText("author", transaction.author)
        line.addText("context", transaction.contextName)
        line.add("processID", UInt64(transaction.processID))
        line.addText("process", transaction.process)
        let start = String(line.text.dropLast()) + ",\"changes\":["
        var failure = printing(&output) { (output) throws(ToolFailure) in try output.data(Array(start.utf8)) }
        var isFirst = true
        try transaction.forEachChange { (change) throws(StoreError) in
            guard failure == nil else { return false }
            let text = (isFirst ? "" : ",") + (try json(change, hasValues))
            isFirst = false
            failure = printing(&output) { (output) throws(ToolFailure) in try output.data(Array(text.utf8)) }
            return failure == nil
        }
        if let failure { return failure }
        return printing(&output) { (output) throws(ToolFailure) in try output.data(Array("]}\n".utf8)) }
    }

    private static func json(_ change: borrowing HistoryChangeView, _ hasValues: Bool) throws(StoreError) -> String {
        let attributes = try change.attributes()
        let kind = change.kind
        var line = JSONLine()
        line.add("kind", kind.rawValue)
        line.addText("entity", change.entity)
        line.add("id", change.object.description)
        line.addRaw("attributes", "[" + attributes.map(JSONText.string).joined(separator: ",") + "]")
        if hasValues {
            let shown = kind == .update ? attributes : nil
            line.addRaw("before", json(try change.before(), shown))
            line.addRaw("after", json(try change.after(), shown))
        }
        if let preserved = try change.preserved() {
            let kept = zip(preserved.attributes, preserved.values).filter { !$0.1.isAbsent }.map(\.0)
            line.addRaw("preserved", json(preserved, kept))
        }
        return line.text
    }

    /// The attributes named, or all.
    private static func json(_ row: Row?, _ attributes: [String]?) -> String {
        guard let row else { return "null" }
        var bytes: [UInt8] = [UInt8(ascii: "{")]
        for (name, value) in pairs(row, attributes) {
            if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
            JSONText.appendString(name, to: &bytes)
            bytes.append(UInt8(ascii: ":"))
            ValueConversion.append(value, to: &bytes)
        }
        bytes.append(UInt8(ascii: "}"))
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func pairs(_ row: Row, _ attributes: [String]?) -> [(String, Value)] {
        guard let attributes else { return Array(zip(row.attributes, row.values)) }
        return attributes.map { ($0, row[$0] ?? .absent) }
    }

    // MARK: Text

    private static func text(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws(StoreError) -> ToolFailure? {
        let author = transaction.author.map { ", author \($0)" } ?? ""
        let context = transaction.contextName.map { ", context \($0)" } ?? ""
        let process = transaction.process.map { " (\($0))" } ?? ""
        let head =
            "transaction \(transaction.number)  \(Timestamp.text(transaction.microseconds))\(author)\(context)"
            + ", process \(transaction.processID)\(process)"
        let token = "  token \(transaction.token)"
        let isSchemaChange = transaction.changesSchema
        var failure = printing(&output) { (output) throws(ToolFailure) in
            try output.line(head)
            try output.line(token)
            if isSchemaChange { try output.line("  changes the schema") }
        }
        try transaction.forEachChange { (change) throws(StoreError) in
            guard failure == nil else { return false }
            let lines = try text(change, hasValues)
            failure = printing(&output) { (output) throws(ToolFailure) in
                for line in lines { try output.line(line) }
            }
            return failure == nil
        }
        return failure
    }

    private static func text(_ change: borrowing HistoryChangeView, _ hasValues: Bool) throws(StoreError) -> [String] {
        let attributes = try change.attributes()
        let kind = change.kind
        let names = attributes.isEmpty ? "" : ": " + attributes.joined(separator: ", ")
        var lines = ["  \(kind.rawValue) \(change.entity ?? "?") \(change.object)\(names)"]
        guard hasValues else { return lines }
        let shown = kind == .update ? attributes : nil
        let before = try change.before()
        let after = try change.after()
        for (name, value) in pairs(after ?? before, shown) {
            let old = before?[name].map(text)
            let new = after.map { _ in text(value) }
            lines.append("    \(name): " + [old, new].compactMap { $0 }.joined(separator: " -> "))
        }
        return lines
    }

    private static func pairs(_ row: Row?, _ attributes: [String]?) -> [(String, Value)] {
        row.map { pairs($0, attributes) } ?? []
    }

    private static func text(_ value: Value) -> String {
        var bytes: [UInt8] = []
        ValueConversion.append(value, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension JSONLine {
    /// A text in UTF-8, or null.
    mutating func addText(_ name: String, _ text: String?) { addRaw(name, text.map(JSONText.string) ?? "null") }
}
