// `annals schema STORE`: prints the entities of a store, with their attributes and keys.

internal import Annals

enum SchemaCommand {
    static let command = Command(
        "schema", "Prints or changes the schema of a store.",
        details: """
            In json it is one JSON object: the version of the schema and the entities. The version is 0 without a
            schema, and one more with each transaction that changes it.

            --swift prints the structs of a program that opens the store.

            --apply changes the store's schema into that of a file in the form of --format json, in one transaction. It
            creates a missing store, adds what the store lacks, and changes what differs and can change. Nothing is
            removed without --prune. Prints the changes, and the token after them.

            In the file, “renamedFrom” in an entity or an attribute is its name in the store. “version” is ignored.
            Types, defaults and targets of attributes do not change.

            --dry-run prints the changes and makes none. It does not look for objects with the same value, which a new
            “unique” would reject.
            """, operands: ["STORE", "[ENTITY]"],
        options: [
            .textOrJSON, Option("swift", "prints Swift instead"),
            Option("apply", value: "FILE", "changes the schema; “-” is standard input"),
            Option("dry-run", "with --apply: changes nothing"),
            Option("prune", "with --apply: removes what the file does not name"),
            Option("author", value: "A", "with --apply: the author of the change in history (annals)"),
        ]
    ) { arguments, output in
        if arguments.has("apply") { return try apply(arguments, output) }
        for option in ["dry-run", "prune", "author"] where arguments.has(option) {
            throw arguments.refusal("“--\(option)” can only be given with “--apply”.")
        }
        let format = try arguments.format(["text", "json"])
        if arguments.has("swift"), arguments.has("format") {
            throw arguments.refusal("“--swift” and “--format” cannot be given together.")
        }
        let (version, entities) = try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            let snapshot = try store.snapshot()
            let handle = try arguments.operands.dropFirst().first.map(snapshot.entity)
            return (snapshot.schemaVersion, try snapshot.entities.filter { handle == nil || $0.name == handle?.name })
        }
        if arguments.has("swift") {
            for line in SwiftSchema(entities).text() { try output.line(line) }
        } else if format == "json" {
            try output.data(json(entities, version: version))
        } else {
            try output.line("schema version \(version)")
            for entity in entities {
                try output.line(entity.name + (entity.history == .off ? ": history off" : ""))
                for line in lines(entity) { try output.line(line) }
            }
        }
    }

    private static func apply(_ arguments: Arguments, _ output: Output) throws {
        for option in ["swift", "format"] where arguments.has(option) {
            throw command.refusal("“--\(option)” and “--apply” cannot be given together.")
        }
        if arguments.operands.count > 1 { throw command.refusal("“--apply” takes no entity: the file names them.") }
        let file = try SchemaFile(try content(arguments.value(of: "apply") ?? ""))
        let (path, isDry, prunes) = (arguments.operands[0], arguments.has("dry-run"), arguments.has("prune"))
        var difference: SchemaDifference?
        var token: HistoryToken?
        if isDry {
            let store = try StoreAccess.existing(path, .readOnly) ?? Store(inMemory: [EntityDescription]())
            difference = try SchemaDifference(file, to: try store.snapshot().entities, prunes: prunes)
            try store.snapshot().requirePossible(difference?.changes ?? [])
            try store.close()
        } else {
            let store = try StoreAccess.open(path, .readWrite, creates: true)
            try StoreAccess.change(store) {
                // Compared again if another writer changes the schema in between.
                token = try store.writeOptimistically(author: arguments.author) { transaction in
                    let next = try SchemaDifference(file, to: transaction.snapshot.entities, prunes: prunes)
                    if !next.changes.isEmpty { try transaction.changeSchema(next.changes) }
                    difference = next
                }.token
            }
        }
        output.hasChanges = token != nil
        let lines = difference?.lines ?? []
        for line in lines.isEmpty ? ["nothing to change"] : lines { try output.line(line) }
        if let token { try output.line(token.description) }
    }

    private static func content(_ path: String) throws -> [UInt8] {
        let reader = try LineReader(path)
        var bytes: [UInt8] = []
        while let line = try reader.next() { bytes += line + [UInt8(ascii: "\n")] }
        return bytes
    }

    static func lines(_ entity: EntityDescription) -> [String] {
        entity.attributes.map { "  \($0.name): " + words($0).joined(separator: ", ") }
            + entity.keys.map { "  \($0.isUnique ? "unique " : "")key over " + $0.attributes.joined(separator: ", ") }
    }

    static func words(_ attribute: AttributeDescription) -> [String] {
        var words = [attribute.type.rawValue]
        if !attribute.isOptional { words.append("required") }
        if attribute.isUnique { words.append("unique") }
        if attribute.isIndexed { words.append("indexed") }
        if attribute.isPreservedOnDeletion { words.append("preserved on deletion") }
        if let value = attribute.defaultValue { words.append("default \(ValueConversion.text(value))") }
        if let target = attribute.target { words.append("of \(target)") }
        if let inverse = attribute.inverse { words.append("inverse \(inverse)") }
        if attribute.whenTargetIsDeleted != .noAction {
            words.append("delete rule \(attribute.whenTargetIsDeleted.rawValue)")
        }
        return words
    }

    static func json(_ entities: [EntityDescription], version: Int) -> JSONLine {
        ["version": version, "entities": entities.map(json)]
    }

    private static func json(_ entity: EntityDescription) -> JSONLine {
        ["name": entity.name, "history": entity.history.rawValue] + parts(of: entity)
    }

    static func parts(of entity: EntityDescription) -> JSONLine {
        let keys = entity.keys.map { key -> JSONLine in ["attributes": key.attributes, "unique": key.isUnique] }
        return ["attributes": entity.attributes.map(json), "keys": keys]
    }

    private static func json(_ attribute: AttributeDescription) -> JSONLine {
        let rule = attribute.whenTargetIsDeleted
        var line: JSONLine = [
            "name": attribute.name, "type": attribute.type.rawValue, "optional": attribute.isOptional,
            "indexed": attribute.isIndexed, "unique": attribute.isUnique,
            "preservedOnDeletion": attribute.isPreservedOnDeletion,
        ]
        if let value = attribute.defaultValue { line.add("default", value) }
        line.addPresent([
            "target": attribute.target, "inverse": attribute.inverse,
            "deleteRule": rule == .noAction ? nil : rule.rawValue,
        ])
        return line
    }
}
