// Transactions and changes as JSON.

internal import Annals

enum HistoryJSON {
    /// Prints a line completely or not at all.
    static func print(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws {
        var (line, separator) = (jsonStart(transaction), "")
        try transaction.forEachChange { (change) throws(StoreError) in
            line += (separator + (try json(change, hasValues))).utf8
            separator = ","
            return line.count <= longestHeldLine
        }
        if line.count > longestHeldLine { return try printLong(transaction, hasValues, &output) }
        try output.data(line + Array("]}\n".utf8))
    }

    private static let longestHeldLine = 1 << 20

    /// Prints change by change, so that a transaction of millions takes little memory. Errors of a change show before
    /// anything is printed.
    private static func printLong(
        _ transaction: borrowing HistoryTransactionView, _ hasValues: Bool, _ output: inout Output
    ) throws {
        try transaction.visitChanges { _ = try json($0, hasValues) }
        var separator = jsonStart(transaction)
        try transaction.visitChanges { change in
            try output.data(separator + Array(try json(change, hasValues).utf8))
            separator = [UInt8(ascii: ",")]
        }
        try output.data(Array("]}\n".utf8))
    }

    private static func jsonStart(_ transaction: borrowing HistoryTransactionView) -> [UInt8] {
        Array(head(transaction).text.utf8.dropLast()) + Array(",\"changes\":[".utf8)
    }

    /// The transaction without its changes.
    static func head(_ transaction: borrowing HistoryTransactionView) -> JSONLine {
        var line: JSONLine = [
            "number": transaction.number, "token": transaction.token.description,
            "timestamp": Timestamp.text(transaction.microseconds), "author": UTF8Text(transaction.author),
            "context": UTF8Text(transaction.contextName), "processID": transaction.processID,
            "process": UTF8Text(transaction.process),
        ]
        if let origin = try? transaction.origin() { line.add("origin", origin.description) }
        return line
    }

    static func json(_ change: borrowing HistoryChangeView, _ hasValues: Bool) throws(StoreError) -> String {
        let (kind, attributes) = (change.kind, try change.attributes())
        var line = head(kind, change.entity, change.object, attributes)
        if hasValues { line.add(try change.before(), try change.after(), of: kind, attributes) }
        line.add(preserved: try change.preserved())
        return line.text
    }

    /// A change without values.
    static func head(
        _ kind: HistoryChange.Kind, _ entity: String?, _ object: ObjectID, _ attributes: [String]
    ) -> JSONLine {
        [
            "kind": kind.rawValue, "entity": UTF8Text(entity), "id": object.description,
            "attributes": attributes.map(UTF8Text.init),
        ]
    }

    /// The names of the attributes that have values.
    static func kept(_ row: Row) -> [String] { zip(row.attributes, row.values).filter { !$0.1.isNull }.map(\.0) }

    /// The named attributes, or all.
    static func json(_ row: Row?, _ attributes: [String]?) -> String {
        guard let row else { return "null" }
        let members = pairs(row, attributes).map { JSONText.string($0) + ":" + ValueConversion.text($1) }
        return "{" + members.joined(separator: ",") + "}"
    }

    /// The named attributes, or all.
    static func pairs(_ row: Row, _ attributes: [String]?) -> [(String, Value)] {
        guard let attributes else { return Array(zip(row.attributes, row.values)) }
        return attributes.map { ($0, row[$0] ?? .null) }
    }
}

extension JSONLine {
    /// Adds an object before and after a change: the changed attributes of an update, or all.
    mutating func add(_ before: Row?, _ after: Row?, of kind: HistoryChange.Kind, _ attributes: [String]) {
        let shown = kind == .update ? attributes : nil
        addRaw("before", HistoryJSON.json(before, shown))
        addRaw("after", HistoryJSON.json(after, shown))
    }

    /// Adds what is kept of a deleted object.
    mutating func add(preserved: Row?) {
        if let preserved { addRaw("preserved", HistoryJSON.json(preserved, HistoryJSON.kept(preserved))) }
    }
}
