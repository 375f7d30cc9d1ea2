// `annals load STORE FILE`: loads JSON lines into a store, in batches.

internal import Annals

enum LoadCommand {
    static let command = Command(
        "load", "Loads JSON objects, one per line, or CSV into an entity.",
        details: """
            Creates a missing store, entity or attribute. A new attribute gets the narrowest type that fits all its
            values: bool, int, double, string, or otherwise json. In a file that can be read twice, these are all the
            values in the file. A number with a point or an exponent becomes the nearest double, but keeps its digits
            in an attribute of the type decimal. Empty lines and a byte order mark are skipped. --type NAME=TYPE gives
            a new attribute another type: data (base 64), date, uuid, decimal, any of those above, or an entity, to
            which it refers.

            CSV is taken from a file whose name ends in .csv, or with --csv. The first line has the names. An empty
            field is null, and two quotes are an empty text. A new attribute is a string unless all its fields are
            bool, int or double.

            A line is wrong if a value does not fit an attribute that existed before the load. With --widen, a new
            attribute of a wider type takes over the name and the values. In history it looks as if it had no values
            before. It is optional and has no default. A program that declares the attribute cannot open the store
            until it declares the wider type.

            With --key, a line updates the object that has the line's value for the key, if anything differs. Attributes
            that the line does not name stay as they are; null removes a value. Without --key, every line is a new
            object. In a new object, attributes that the line does not name get their default, or null. With --prune,
            the objects that no line names are deleted at the end. An empty file deletes nothing, unless --allow-empty
            is given too.

            Without --entity, FILE is a dump of a whole store: each object gets the entity of its line and its ID, in
            one transaction. No other program can write to the store in that time. Best begin with a store that does
            not exist, and dump with --schema.

            A wrong line ends the load. The batches before it stay, with the attributes that they name. Nothing of its
            own batch does.
            """, operands: ["STORE", "FILE"],
        options: [
            Option("entity", value: "NAME", "the entity of the objects; a dump of a whole store needs none"),
            Option("key", value: "ATTRIBUTE", "the attribute that identifies objects; becomes unique"),
            Option("prune", "delete the objects that are not in the file; needs --key"),
            Option("allow-empty", "with --prune: delete all objects if the file is empty"),
            .author, .context, Option("csv", "read CSV"),
            Option(
                "type", value: "NAME=TYPE", isRepeatable: true,
                "the type of a new attribute, or the entity it refers to"),
            Option("widen", "give an existing attribute a wider type if a value does not fit"),
            Option("batch", value: "N", "the number of lines in a transaction (1000)"), .textOrCounts,
        ]
    ) { arguments, output in
        let (path, file) = (arguments.operands[0], arguments.operands[1])
        let isDump = !LoadOptions.names.contains { arguments.has($0) }
        let counts =
            isDump
            ? try LoadDump(file).load(into: path, author: arguments.author, context: arguments.value(of: "context"))
            : try LoadRun(LoadOptions(arguments), LineReader(file)).load(into: path)
        output.hasChanges = counts.transactions > 0
        output.line(json: json(counts), text: text(counts))
    }

    private static func text(_ counts: LoadCounts) -> String {
        "\(counts.inserted) inserted, \(counts.updated) updated, \(counts.deleted) deleted, \(counts.unchanged) "
            + "unchanged in \(counts.transactions) transactions" + (counts.token.map { "; token \($0)" } ?? "")
    }

    private static func json(_ counts: LoadCounts) -> JSONLine {
        [
            "inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted,
            "unchanged": counts.unchanged, "transactions": counts.transactions, "token": counts.token?.description,
        ]
    }
}

struct LoadOptions {
    static let names = ["entity", "key", "prune", "allow-empty", "csv", "type", "widen", "batch"]
    var entity: String
    var key: String?
    var prunes: Bool
    var allowsEmpty: Bool
    var widens: Bool
    var isCSV: Bool
    var types: [IdentifierName: (type: AttributeType, target: String?)] = [:]
    var author: String?
    var context: String?
    var batch: Int

    init(_ arguments: Arguments) throws {
        let refusal = arguments.refusal
        entity = try arguments.value(of: "entity").orThrow(
            refusal("“annals load” needs the entity of the objects: give it with “--entity”."))
        key = arguments.value(of: "key")
        prunes = arguments.has("prune")
        allowsEmpty = arguments.has("allow-empty")
        widens = arguments.has("widen")
        if prunes && key == nil { throw refusal("The option “--prune” needs “--key”, which identifies objects.") }
        if allowsEmpty && !prunes { throw refusal("The option “--allow-empty” needs “--prune”.") }
        isCSV = arguments.has("csv") || arguments.operands[1].lowercased().hasSuffix(".csv")
        for text in arguments.values(of: "type") ?? [] {
            guard let sign = text.lastIndex(of: "="), sign > text.startIndex, sign < text.index(before: text.endIndex)
            else { throw refusal("The option “--type” takes NAME=TYPE, such as since=date, not “\(text)”.") }
            let type = String(text[text.index(after: sign)...])
            let known = AttributeType(rawValue: type).flatMap { $0.isReference ? nil : $0 }
            types[IdentifierName(String(text[..<sign]))] = known.map { ($0, nil) } ?? (.object, type)
        }
        author = arguments.author
        context = arguments.value(of: "context")
        let batch = try arguments.number(of: "batch") ?? 1000
        guard (1...1_000_000).contains(batch) else {
            throw refusal("The option “--batch” takes a number from 1 to 1000000, not \(batch).")
        }
        self.batch = Int(batch)
    }

    /// A new attribute, of the type that was chosen for it, or of another one.
    func attribute(_ name: String, _ other: AttributeType) -> AttributeDescription {
        let chosen = types[IdentifierName(name)]
        let type = chosen?.type ?? other
        return AttributeDescription(
            name, type, target: chosen?.target, whenTargetIsDeleted: type.isReference ? .nullify : .noAction)
    }
}

struct LoadCounts {
    var (inserted, updated, deleted, unchanged): (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    var transactions: UInt64 = 0
    var token: HistoryToken?

    mutating func add(_ other: LoadCounts) {
        inserted += other.inserted
        updated += other.updated
        deleted += other.deleted
        unchanged += other.unchanged
    }
}
