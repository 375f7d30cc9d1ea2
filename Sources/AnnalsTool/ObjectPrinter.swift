// Objects as JSON, as CSV or as a table: `dump`, `get` and `find` print them, and `load` reads the first two.

internal import Annals

/// Prints the objects of one entity as they come.
struct ObjectPrinter {
    enum Format: String {
        case jsonl, csv, table, json
    }

    private let entity: EntityHandle
    private let format: Format
    private let isBare: Bool
    /// The positions of the attributes to print, and their names in a line of JSON.
    private let columns: [(position: Int, name: String)]
    private let labels: Labels?
    private let start: String
    /// A buffer that is used again.
    private var line: [UInt8] = []
    private var table: Table
    private var failure: ToolFailure?
    private var isFirst = true

    /// Prints the first line of CSV.
    ///
    /// - Parameters:
    ///   - isBare: Leaves out “_entity” and “_id”.
    ///   - columns: The positions of the attributes to print, in their order; nil for all.
    ///   - labels: For the references in a table.
    init(
        _ entity: EntityHandle, _ format: Format, isBare: Bool, columns: [Int]? = nil, labels: Labels? = nil,
        _ output: inout Output
    ) throws(ToolFailure) {
        (self.entity, self.format, self.isBare, self.labels) = (entity, format, isBare, labels)
        let positions = columns ?? Array(entity.attributes.indices)
        let names = positions.map { MemberNames.dumped(entity.attributes[$0]) }
        self.columns = zip(positions, names).map { ($0, JSONText.string($1) + ":") }
        start = isBare ? "{" : "{\"_entity\":\(JSONText.string(entity.name)),\"_id\":\""
        let titles = positions.map { position in
            let isNumber = [.int, .double, .decimal].contains(entity.types[position])
            return (isNumber ? "#" : "") + entity.attributes[position]
        }
        // An ID is useful as a whole only.
        table = Table((isBare ? [] : ["#id"]) + titles)
        if format == .csv { try Self.print((isBare ? [] : ["_entity", "_id"]) + names, &output) }
    }

    /// Prints an object, for a closure that the library calls. Returns whether more objects can be printed: `finish`
    /// throws a failure.
    mutating func print(_ row: borrowing RowView, _ output: inout Output) -> Bool {
        do {
            switch format {
            case .jsonl: try output.data(try bytes(of: row))
            // One array, with an object in each line.
            case .json: try output.data([UInt8(ascii: isFirst ? "[" : ",")] + bytes(of: row))
            case .csv:
                let fields = try values(of: row).map { $0.isNull ? nil : ValueConversion.field($0) }
                try Self.print((isBare ? [] : [entity.name, row.id.description]) + fields, &output)
            case .table:
                try table.add((isBare ? [] : [row.id.description]) + values(of: row).map(cell), &output)
            }
        } catch {
            failure = ToolFailure(error)
        }
        isFirst = false
        return failure == nil
    }

    /// Prints the rows that wait, or throws the failure that has ended the printing.
    mutating func finish(_ output: inout Output) throws(ToolFailure) {
        if let failure { throw failure }
        if format == .json { try output.data(Array((isFirst ? "[]\n" : "]\n").utf8)) }
        try table.show(&output)
    }

    private func values(of row: borrowing RowView) throws(StoreError) -> [Value] {
        var values: [Value] = []
        for column in columns { values.append(try row.value(at: column.position)) }
        return values
    }

    // MARK: Tables

    private func cell(_ value: Value) -> String {
        switch value {
        case .object, .objects, .orderedObjects: labels?.text(value) ?? ValueConversion.field(value)
        default: ValueConversion.field(value)
        }
    }

    /// Prints CSV: unchanged for other programs; on a terminal, without control characters.
    private static func print(_ fields: [String?], _ output: inout Output) throws(ToolFailure) {
        let line = CSV.line(fields)
        if output.isTerminal { try output.line(String(line.dropLast())) } else { try output.data(Array(line.utf8)) }
    }

    // MARK: JSON

    /// The line of an object, with its line feed.
    private mutating func bytes(of row: borrowing RowView) throws(StoreError) -> [UInt8] {
        line.removeAll(keepingCapacity: true)
        line += start.utf8
        if !isBare { line += "\(row.id)\"".utf8 }
        for (index, column) in columns.enumerated() {
            if index > 0 || !isBare { line.append(UInt8(ascii: ",")) }
            line += column.name.utf8
            // Texts are copied without a value in between.
            guard entity.types[column.position] == .string else {
                ValueConversion.append(try row.value(at: column.position), to: &line)
                continue
            }
            let isThere = try row.withBytes(at: column.position) { JSONText.appendString($0, to: &line) }
            if !isThere { line += "null".utf8 }
        }
        line += "}\n".utf8
        return line
    }
}

/// The names of attributes as members of dumps. The names “_entity” and “_id” belong to the dump itself.
///
/// If an attribute has one of the dump's own names, with or without more “_” before it, dumps write one more “_” before
/// it. Loads remove it again.
package enum MemberNames {
    /// The name in a dump.
    package static func dumped(_ attribute: String) -> String { isOwn(attribute) ? "_" + attribute : attribute }

    /// The attribute's name; nil for the dump's own members.
    package static func loaded(_ member: String) -> String? {
        guard isOwn(member) else { return member }
        let name = String(member.dropFirst())
        return isOwn(name) ? name : nil
    }

    /// Whether it is one of the dump's own names, with or without more “_” before it.
    private static func isOwn(_ name: String) -> Bool {
        guard name.utf8.first == UInt8(ascii: "_") else { return false }
        let rest = name.utf8.drop { $0 == UInt8(ascii: "_") }
        return rest.elementsEqual("entity".utf8) || rest.elementsEqual("id".utf8)
    }
}
