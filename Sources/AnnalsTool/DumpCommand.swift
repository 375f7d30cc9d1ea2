// `annals dump STORE`: the objects of a store, one a line, as of now or as of any place in its history.

internal import Annals

extension Command {
    static let dump = Command(
        "dump", "Prints the objects of a store, one a line.",
        details: """
            In jsonl each line is a JSON object: “_entity” and “_id” first, then the
            attributes in the order of the schema, absent ones as null. Dates are ISO 8601
            texts, UUIDs and object IDs texts, data is base 64; NaN and the infinities, for
            which JSON has no number, are the texts "NaN", "Infinity" and "-Infinity". A
            JSON value that is not JSON text is {"_notJSON":"TEXT"}. The names “_id” and
            “_entity” of attributes get one more “_”; “load” takes it away again.

            In csv, which needs an entity where there are several, the first line has the
            names; absent values are empty, empty texts two quotes.
            """,
        operands: ["STORE"],
        options: [
            Option("entity", value: "NAME", "only the objects of this entity"),
            Option("as-of", value: "PLACE", "as they were after this transaction or moment"),
            Option("format", value: "FORMAT", "jsonl (the default), or csv"),
            Option("bare", "without “_entity” and “_id”"),
        ], run: DumpCommand.run)
}

enum DumpCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(["jsonl", "csv"], for: .dump)
        let place = try arguments.place(of: "as-of", for: .dump)
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let snapshot = try storing {
            if let place { try store.snapshot(at: place) } else { try store.snapshot() }
        }
        let entities = try storing {
            if let name = arguments.value(of: "entity") { return [try snapshot.entity(name)] }
            var entities: [EntityHandle] = []
            for entity in try snapshot.entities { entities.append(try snapshot.entity(entity.name)) }
            return entities
        }
        let isBare = arguments.has("bare")
        if format == "csv" {
            guard entities.count <= 1 else {
                throw ToolFailure(
                    .usage, "The store has several entities: say with “--entity” which one.",
                    hint: "Try: annals help dump")
            }
            for entity in entities { try csv(entity, snapshot, isBare, &output) }
        } else {
            for entity in entities { try json(entity, snapshot, isBare, &output) }
        }
        return .done
    }

    /// Hands out every object of the entity; a failure to print ends it.
    private static func forEach(
        _ entity: EntityHandle, _ snapshot: Snapshot, _ body: (borrowing RowView) throws(ToolFailure) -> Void
    ) throws(ToolFailure) {
        var failure: ToolFailure?
        try storing {
            try snapshot.forEachRow(of: entity) { (row) throws(StoreError) in
                do throws(ToolFailure) { try body(row) } catch { failure = error }
                return failure == nil
            }
        }
        if let failure { throw failure }
    }

    // MARK: JSON

    private static func json(
        _ entity: EntityHandle, _ snapshot: Snapshot, _ isBare: Bool, _ output: inout Output
    ) throws(ToolFailure) {
        var line = ObjectLine(entity, isBare: isBare)
        try forEach(entity, snapshot) { (row) throws(ToolFailure) in try output.data(try line.bytes(of: row)) }
    }

    // MARK: CSV

    private static func csv(
        _ entity: EntityHandle, _ snapshot: Snapshot, _ isBare: Bool, _ output: inout Output
    ) throws(ToolFailure) {
        try print((isBare ? [] : ["_entity", "_id"]) + entity.attributes.map(MemberNames.dumped), &output)
        try forEach(entity, snapshot) { (row) throws(ToolFailure) in
            var fields: [String?] = isBare ? [] : [entity.name, row.id.description]
            for position in entity.attributes.indices {
                do throws(StoreError) {
                    let value = try row.value(at: position)
                    fields.append(value.isNull ? nil : ValueConversion.field(value))
                } catch {
                    throw ToolFailure(error)
                }
            }
            try print(fields, &output)
        }
    }

    /// As it is for other programs, without what a terminal would obey for people.
    private static func print(_ fields: [String?], _ output: inout Output) throws(ToolFailure) {
        let line = CSV.line(fields)
        if output.isTerminal { try output.line(String(line.dropLast())) } else { try output.data(Array(line.utf8)) }
    }
}
