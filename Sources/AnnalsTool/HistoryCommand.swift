// `annals history STORE`: lists changes with their authors and times, transaction by transaction.

internal import Annals

extension Command {
    static let history = Command(
        "history", "Prints the transactions of a store, or their net changes.",
        details: """
            In jsonl each line is a transaction: number, token, timestamp, author, context, processID, process and
            its changes. Each change has kind, entity and id, and an update the changed attributes. With --values a
            change has “before” and “after”: the changed attributes of an update, all attributes of an insert or
            deletion. “preserved” is what is kept of a deleted object, without null values. A place that is no longer
            in history is an error.

            A PLACE is the number of a transaction, a token, or a moment: a date such as 2026-01-02, or a date and a
            time (2026-01-02T03:04:05Z). Without a zone it is UTC. All conditions must hold; of an option that is
            given several times, one value must match. A transaction is printed with its matching changes only, and
            not at all without any. An empty AUTHOR or CONTEXT means none.

            With --net there is one change for each object, from before its first change to after its last, ordered
            by ID. With --count only the number is printed. --not-entity also leaves out entities that are no longer
            in the schema. With --follow it continues with new transactions, until SIGTERM or SIGINT ends it with
            status 0.
            """,
        operands: ["STORE"],
        options: [
            Option("after", value: "PLACE", "only transactions after this place"),
            Option("before", value: "PLACE", "only transactions before this place"),
            Option("author", value: "AUTHOR", isRepeatable: true, "only transactions of this author"),
            Option("not-author", value: "AUTHOR", isRepeatable: true, "no transactions of this author"),
            Option("context", value: "CONTEXT", isRepeatable: true, "only transactions with this context"),
            Option("not-context", value: "CONTEXT", isRepeatable: true, "no transactions with this context"),
            Option("entity", value: "NAME", isRepeatable: true, "only changes of objects of this entity"),
            Option("not-entity", value: "NAME", isRepeatable: true, "no changes of objects of this entity"),
            Option("id", value: "ID", isRepeatable: true, "only changes of this object, such as 1:42"),
            Option("kind", value: "KIND", isRepeatable: true, "only changes of this kind: insert, update or delete"),
            Option("attribute", value: "ENTITY.NAME", isRepeatable: true, "only updates that changed this attribute"),
            Option("reverse", "newest first"),
            Option("limit", value: "N", "at most N transactions, or net changes"),
            Option("net", "one net change for each object"),
            Option("count", "only how many transactions or net changes there are"),
            Option("format", value: "FORMAT", "jsonl, or text (the default on a terminal)"),
            Option("values", "print values before and after"),
            Option("follow", "continue with new transactions"),
        ], run: HistoryCommand.run)
}

enum HistoryCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"], for: .history)
        var request = try arguments.historyRequest()
        let hasValues = arguments.has("values")
        if arguments.has("follow") { try requireFollowable(request, arguments) }
        var left = request.limit ?? .max
        let ending = arguments.has("follow") ? try Ending.onSignals() : nil
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        ending?.holdBack()
        request.changedAttributes = try arguments.changedAttributes(in: store)
        if arguments.has("not-entity") { request.entities = try arguments.entitiesLeft(of: request, in: store) }
        if arguments.has("count") {
            try output.line(String(try count(request, arguments.has("net"), store)))
            return .done
        }
        if arguments.has("net") {
            try NetChangeOutput.print(request, of: store, format == "jsonl", hasValues, &output)
            return .done
        }
        var failure: ToolFailure?
        func visit(_ transaction: borrowing HistoryTransactionView) throws(StoreError) -> Bool {
            guard left > 0, ending?.isAsked != true else { return false }
            left -= 1
            if format == "jsonl" {
                failure = try json(transaction, hasValues, &output)
            } else {
                failure = try text(transaction, hasValues, &output)
            }
            return failure == nil
        }
        // Everything that the filter skips is after the position too.
        func printOn() throws(ToolFailure) -> UInt64 {
            let reached = try storing {
                let snapshot = try store.snapshot()
                try store.forEachTransaction(request, in: snapshot) { (view) throws(StoreError) in try visit(view) }
                return snapshot.token.number
            }
            if let failure { throw failure }
            return reached
        }
        var position = try printOn()
        guard let ending else { return .done }
        let watcher = try storing { try store.changeWatcher(after: .number(position)) }
        ending.then { watcher.stop() }
        while left > 0, !ending.isAsked {
            try output.finish()
            guard try storing({ try watcher.next() }) != nil else { break }
            request.after = .number(position)
            position = try printOn()
        }
        return .done
    }

    /// Throws if the options need an end, which new transactions do not have.
    private static func requireFollowable(_ request: HistoryRequest, _ arguments: Arguments) throws(ToolFailure) {
        guard request.before == nil, request.order == .oldestFirst, !arguments.has("net"), !arguments.has("count")
        else {
            throw ToolFailure(
                .usage, "history: --follow cannot be given with --before, --reverse, --net or --count.",
                hint: "Try: annals help history")
        }
    }

    private static func count(
        _ request: HistoryRequest, _ isNet: Bool, _ store: Store
    ) throws(ToolFailure) -> Int {
        var count = 0
        try storing {
            guard isNet else {
                count = try store.transactionCount(request)
                return
            }
            try store.forEachNetChange(request) { _ in
                count += 1
                return true
            }
        }
        return count
    }

    /// Runs `body` and returns its failure to print, which is not an error of the store.
    static func printing(
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

    /// Prints a line completely or not at all.
    private static func json(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws(StoreError) -> ToolFailure? {
        var line = jsonStart(transaction)
        var isFirst = true
        try transaction.forEachChange { (change) throws(StoreError) in
            if !isFirst { line.append(UInt8(ascii: ",")) }
            isFirst = false
            line += try json(change, hasValues).utf8
            return line.count <= longestHeldLine
        }
        if line.count > longestHeldLine { return try longJSON(transaction, hasValues, &output) }
        line += "]}\n".utf8
        return printing(&output) { (output) throws(ToolFailure) in try output.data(line) }
    }

    private static let longestHeldLine = 1 << 20

    /// Prints change by change, so that a transaction of millions takes little memory. Errors of a change show before
    /// anything is printed.
    private static func longJSON(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws(StoreError) -> ToolFailure? {
        try transaction.forEachChange { (change) throws(StoreError) in
            _ = try json(change, hasValues)
            return true
        }
        var separator = jsonStart(transaction)
        var failure: ToolFailure?
        try transaction.forEachChange { (change) throws(StoreError) in
            let text = separator + Array(try json(change, hasValues).utf8)
            separator = [UInt8(ascii: ",")]
            failure = printing(&output) { (output) throws(ToolFailure) in try output.data(text) }
            return failure == nil
        }
        return failure ?? printing(&output) { (output) throws(ToolFailure) in try output.data(Array("]}\n".utf8)) }
    }

    private static func jsonStart(_ transaction: borrowing HistoryTransactionView) -> [UInt8] {
        Array(head(transaction).text.utf8.dropLast()) + Array(",\"changes\":[".utf8)
    }

    /// The transaction without its changes.
    static func head(_ transaction: borrowing HistoryTransactionView) -> JSONLine {
        var line = JSONLine()
        line.add("number", transaction.number)
        line.add("token", transaction.token.description)
        line.add("timestamp", Timestamp.text(transaction.microseconds))
        line.addText("author", transaction.author)
        line.addText("context", transaction.contextName)
        line.add("processID", UInt64(transaction.processID))
        line.addText("process", transaction.process)
        if let origin = try? transaction.origin() { line.add("origin", origin.description) }
        return line
    }

    static func json(_ change: borrowing HistoryChangeView, _ hasValues: Bool) throws(StoreError) -> String {
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
        if let preserved = try change.preserved() { line.addRaw("preserved", json(preserved, kept(preserved))) }
        return line.text
    }

    /// The names of the attributes that have values.
    static func kept(_ row: Row) -> [String] { zip(row.attributes, row.values).filter { !$0.1.isNull }.map(\.0) }

    /// The named attributes, or all.
    static func json(_ row: Row?, _ attributes: [String]?) -> String {
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
        return attributes.map { ($0, row[$0] ?? .null) }
    }

    // MARK: Text

    private static func text(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws(StoreError) -> ToolFailure? {
        let head = textHead(transaction)
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

    static func textHead(_ transaction: borrowing HistoryTransactionView) -> String {
        let author = transaction.author.map { ", author \($0)" } ?? ""
        let context = transaction.contextName.map { ", context \($0)" } ?? ""
        let process = transaction.process.map { " (\($0))" } ?? ""
        let origin =
            (try? transaction.origin()).map { ", applied \($0.number) of \($0.storeIdentifier)" } ?? ""
        return "transaction \(transaction.number)  \(Timestamp.text(transaction.microseconds))\(author)\(context)"
            + ", process \(transaction.processID)\(process)\(origin)"
    }

    static func text(_ change: borrowing HistoryChangeView, _ hasValues: Bool) throws(StoreError) -> [String] {
        let attributes = try change.attributes()
        let kind = change.kind
        let names = attributes.isEmpty ? "" : ": " + attributes.joined(separator: ", ")
        let line = "  \(kind.rawValue) \(change.entity ?? "?") \(change.object)\(names)"
        guard hasValues else { return [line] }
        return [line] + values(try change.before(), try change.after(), kind == .update ? attributes : nil)
    }

    /// A line for each named attribute, or for each that has a value, with the value before and after.
    static func values(_ before: Row?, _ after: Row?, _ shown: [String]?) -> [String] {
        var lines: [String] = []
        for (name, value) in pairs(after ?? before, shown) {
            let old = before?[name].map(ValueConversion.text)
            let new = after.map { _ in ValueConversion.text(value) }
            lines.append("    \(name): " + [old, new].compactMap { $0 }.joined(separator: " -> "))
        }
        return lines
    }

    private static func pairs(_ row: Row?, _ attributes: [String]?) -> [(String, Value)] {
        row.map { pairs($0, attributes) } ?? []
    }
}

extension JSONLine {
    /// A text in UTF-8, or null.
    mutating func addText(_ name: String, _ text: String?) { addRaw(name, text.map(JSONText.string) ?? "null") }
}
