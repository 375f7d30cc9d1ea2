// Objects as JSON, as CSV or as a table, for `dump`, `get` and `find`; `load` reads the first two. And `annals dump`,
// which prints the objects of a store, one a line, as of now or of any place in its history.

internal import Annals

struct ObjectPrinter {
    private enum Format: String { case jsonl, csv, table, json }

    private let entity: EntityHandle
    private let format: Format
    private let output: Output
    private let isBare: Bool
    /// The positions of the attributes to print, and their names in a line of JSON.
    private let columns: [(position: Int, name: String)]
    private let labels: Labels?
    private let start: String
    private var line: [UInt8] = []
    private var table: Table
    private var isFirst = true

    /// Prints the first line of CSV. `columns` are the positions of the attributes to print; nil for all. A table shows
    /// references by `labels`.
    init(_ entity: EntityHandle, isBare: Bool, columns: [Int]? = nil, labels: Labels? = nil, _ output: Output) {
        (self.entity, self.isBare, self.labels, self.output) = (entity, isBare, labels, output)
        format = Format(rawValue: output.format) ?? .jsonl
        let positions = columns ?? Array(entity.attributes.indices)
        let names = positions.map { MemberNames.dumped(entity.attributes[$0]) }
        self.columns = zip(positions, names).map { ($0, JSONText.string($1) + ":") }
        start = isBare ? "{" : "{\"_entity\":\(JSONText.string(entity.name)),\"_id\":\""
        let titles = positions.map { position in
            let isNumber = [.int, .double, .decimal].contains(entity.types[position])
            return (isNumber ? "#" : "") + entity.attributes[position]
        }
        // An ID is useful as a whole only.
        table = Table(output, (isBare ? [] : ["#id"]) + titles)
        if format == .csv { print((isBare ? [] : ["_entity", "_id"]) + names) }
    }

    /// Prints an object. Returns whether it is of use to print more.
    mutating func print(_ row: borrowing RowView) throws(StoreError) -> Bool {
        switch format {
        case .jsonl: output.data(try bytes(of: row))
        // One array, with an object in each line.
        case .json: output.data([UInt8(ascii: isFirst ? "[" : ",")] + (try bytes(of: row)))
        case .csv:
            let fields = try values(of: row).map { $0.isNull ? nil : ValueConversion.field($0) }
            print((isBare ? [] : [entity.name, row.id.description]) + fields)
        case .table: table.add((isBare ? [] : [row.id.description]) + (try values(of: row)).map(cell))
        }
        isFirst = false
        return !output.hasFailed
    }

    /// Prints the rows that wait.
    mutating func finish() {
        if format == .json { output.data(Array((isFirst ? "[]\n" : "]\n").utf8)) }
        table.show()
    }

    private func values(of row: borrowing RowView) throws(StoreError) -> [Value] {
        var values: [Value] = []
        for column in columns { values.append(try row.value(at: column.position)) }
        return values
    }

    private func cell(_ value: Value) -> String {
        switch value {
        case .object, .objects, .orderedObjects: labels?.text(value) ?? ValueConversion.field(value)
        default: ValueConversion.field(value)
        }
    }

    /// Prints CSV: unchanged for other programs; on a terminal, without control characters.
    private func print(_ fields: [String?]) {
        let line = CSV.line(fields)
        if output.isTerminal { output.line(String(line.dropLast())) } else { output.data(Array(line.utf8)) }
    }

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

/// The names of attributes as members of dumps, to which “_entity” and “_id” belong. If an attribute has one of these
/// names, with or without more “_” before it, dumps write one more “_” before it. Loads remove it again.
package enum MemberNames {
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

enum DumpCommand {
    static let command = Command(
        "dump", "Prints the objects of a store, one per line.",
        details: """
            In jsonl each line is a JSON object: “_entity” and “_id” first, then the attributes in the schema's order.
            Dates (ISO 8601), UUIDs and object IDs are strings, and data is base 64. A date has as many digits as it
            needs to be read back exactly. One before the year 0 or after 9999 is the seconds since 2001, such as
            "2001-01-01T00:00:00Z+1e+20s". JSON has no NaN and infinities: they are the strings "NaN", "Infinity" and
            "-Infinity". A JSON value that is not valid JSON text is {"_notJSON":"TEXT"}. An attribute named “_id” or
            “_entity” gets one more “_”, which “load” removes again.

            With --schema, the first line is {"_schema":…}, which has the form of “annals schema --format json”. “annals
            load NEW FILE” then makes the same store: the schema, the objects, and their IDs.

            In csv, which needs --entity if the store has several, the first line has the names. Null is an empty field,
            and an empty text is two quotes.
            """, operands: ["STORE"],
        options: [
            Option("entity", value: "NAME", "only the objects of this entity"),
            Option("schema", "print the schema first, so that “load” can make the same store"),
            .asOf, .format(["jsonl", "csv"], "jsonl (the default), or csv"), .bare,
        ]
    ) { arguments, output in
        let place = try arguments.place(of: "as-of")
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let snapshot = try place.map(store.snapshot) ?? store.snapshot()
        let names = try arguments.value(of: "entity").map { [$0] } ?? snapshot.entities.map(\.name)
        let entities = try names.map(snapshot.entity)
        // An entity whose history does not reach back refuses to be read. Then nothing is printed.
        for entity in entities { try snapshot.forEachRow(of: entity) { _ in false } }
        guard output.isJSON || entities.count <= 1 else {
            throw arguments.refusal("The store has several entities: choose one with “--entity”.")
        }
        if arguments.has("schema") {
            guard output.isJSON, !arguments.has("bare"), !arguments.has("entity") else {
                throw arguments.refusal("“--schema” is for a whole dump in jsonl, without --entity and --bare.")
            }
            let schema = SchemaCommand.json(try snapshot.entities, version: snapshot.schemaVersion)
            output.data([schemaMember: schema])
        }
        let progress = Progress("objects")
        let total = progress.isShown && place == nil ? try names.reduce(0) { try $0 + snapshot.count(of: $1) } : 0
        var count: UInt64 = 0
        for entity in entities {
            var printer = ObjectPrinter(entity, isBare: arguments.has("bare"), output)
            try snapshot.forEachRow(of: entity) { (row) throws(StoreError) in
                count += 1
                progress.show(count, of: total)
                return try printer.print(row)
            }
            printer.finish()
        }
    }

    static let schemaMember = "_schema"
}
