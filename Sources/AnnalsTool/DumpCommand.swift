// `annals dump STORE`: prints the objects of a store, one a line, as of now or of any place in its history.

internal import Annals

extension Command {
    static let dump = Command(
        "dump", "Prints the objects of a store, one per line.",
        details: """
            In jsonl each line is a JSON object: “_entity” and “_id” first, then the attributes in the schema's
            order. Dates (ISO 8601), UUIDs and object IDs are strings, and data is base 64. A date has as many digits as
            it needs to be read back exactly. One before the year 0 or after 9999 is the seconds since 2001, such as
            "2001-01-01T00:00:00Z+1e+20s". JSON has no NaN and infinities: they are the strings "NaN", "Infinity" and
            "-Infinity". A JSON value that is not valid JSON
            text is {"_notJSON":"TEXT"}. An attribute named “_id” or “_entity” gets one more “_”, which “load”
            removes again.

            In csv, which needs --entity if the store has several, the first line has the names. Null is an empty
            field, and an empty text is two quotes.
            """,
        operands: ["STORE"],
        options: [
            Option("entity", value: "NAME", "only the objects of this entity"),
            Option("as-of", value: "PLACE", "the objects as they were at this place"),
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
        // An entity whose history does not reach back refuses to be read. Then nothing is printed.
        for entity in entities { try forEach(entity, snapshot, limit: 1) { (_) throws(ToolFailure) in } }
        let isBare = arguments.has("bare")
        if format == "csv" {
            guard entities.count <= 1 else {
                throw ToolFailure(
                    .usage, "The store has several entities: choose one with “--entity”.",
                    hint: "Try: annals help dump")
            }
            for entity in entities { try csv(entity, snapshot, isBare, &output) }
        } else {
            for entity in entities { try json(entity, snapshot, isBare, &output) }
        }
        return .done
    }

    /// Calls `body` with every object of the entity, or with `limit` of them. Ends if printing fails.
    private static func forEach(
        _ entity: EntityHandle, _ snapshot: Snapshot, limit: Int = .max,
        _ body: (borrowing RowView) throws(ToolFailure) -> Void
    ) throws(ToolFailure) {
        var failure: ToolFailure?
        var count = 0
        try storing {
            try snapshot.forEachRow(of: entity) { (row) throws(StoreError) in
                do throws(ToolFailure) { try body(row) } catch { failure = error }
                count += 1
                return failure == nil && count < limit
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
        let fields = CSVFields(entity, isBare: isBare)
        try fields.printNames(&output)
        try forEach(entity, snapshot) { (row) throws(ToolFailure) in try fields.print(row, &output) }
    }
}
