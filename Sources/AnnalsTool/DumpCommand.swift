// `annals dump STORE`: prints the objects of a store, one a line, as of now or of any place in its history.

internal import Annals

extension Command {
    static let dump = Command(
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
            """,
        operands: ["STORE"],
        options: [
            Option("entity", value: "NAME", "only the objects of this entity"),
            Option("schema", "print the schema first, so that “load” can make the same store"),
            .asOf, Option("format", value: "FORMAT", "jsonl (the default), or csv"), .bare,
        ], run: DumpCommand.run)
}

enum DumpCommand {
    static let schemaMember = "_schema"

    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(["jsonl", "csv"], for: .dump)
        let place = try arguments.place(of: "as-of", for: .dump)
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let snapshot = try place.map(store.snapshot) ?? store.snapshot()
        let names = try arguments.value(of: "entity").map { [$0] } ?? snapshot.entities.map(\.name)
        let entities = try names.map(snapshot.entity)
        // An entity whose history does not reach back refuses to be read. Then nothing is printed.
        for entity in entities { try snapshot.forEachRow(of: entity) { _ in false } }
        guard format == "jsonl" || entities.count <= 1 else {
            throw Command.dump.refusal("The store has several entities: choose one with “--entity”.")
        }
        if arguments.has("schema") {
            guard format == "jsonl", !arguments.has("bare"), !arguments.has("entity") else {
                throw Command.dump.refusal("“--schema” is for a whole dump in jsonl, without --entity and --bare.")
            }
            let schema = SchemaCommand.json(try snapshot.entities, version: snapshot.schemaVersion)
            try output.data([schemaMember: schema])
        }
        let progress = Progress("objects")
        defer { progress.clear() }
        let total = progress.isShown && place == nil ? try names.reduce(0) { try $0 + snapshot.count(of: $1) } : 0
        var count: UInt64 = 0
        for entity in entities {
            var printer = try ObjectPrinter(
                entity, format == "csv" ? .csv : .jsonl, isBare: arguments.has("bare"), &output)
            try snapshot.forEachRow(of: entity) { row in
                count += 1
                progress.show(count, of: total)
                return printer.print(row, &output)
            }
            try printer.finish(&output)
        }
    }
}
