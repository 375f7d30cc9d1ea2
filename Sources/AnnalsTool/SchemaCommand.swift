// `annals schema STORE`: prints the entities of a store, with their attributes and keys.

internal import Annals

extension Command {
    static let schema = Command(
        "schema", "Prints the schema of a store, or of one entity.",
        details: """
            In json it is one JSON object: the version of the schema and the entities. The
            version is 0 without a schema, and one more with each transaction that changes
            it.
            """,
        operands: ["STORE", "[ENTITY]"],
        options: [Option("format", value: "FORMAT", "text (the default), or json: one JSON object")],
        run: SchemaCommand.run)
}

enum SchemaCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(["text", "json"], for: .schema)
        let (version, entities) = try StoreAccess.with(arguments.operands[0], .readOnly) {
            (store) throws(ToolFailure) in
            try storing {
                let snapshot = try store.snapshot()
                guard let name = arguments.operands.dropFirst().first else {
                    return (snapshot.schemaVersion, try snapshot.entities)
                }
                let handle = try snapshot.entity(name)
                return (snapshot.schemaVersion, try snapshot.entities.filter { $0.name == handle.name })
            }
        }
        if format == "json" {
            var line = JSONLine()
            line.add("version", UInt64(version))
            line.add("entities", entities.map(json))
            try output.line(line.text)
        } else {
            try output.line("schema version \(version)")
            for entity in entities {
                try output.line(entity.name + (entity.history == .off ? ": history off" : ""))
                for line in lines(entity) { try output.line(line) }
            }
        }
        return .done
    }

    // MARK: Text

    /// A line for each attribute and each key.
    static func lines(_ entity: EntityDescription) -> [String] {
        entity.attributes.map { "  \($0.name): " + words($0).joined(separator: ", ") }
            + entity.keys.map {
                "  \($0.isUnique ? "unique key" : "key") over " + $0.attributes.joined(separator: ", ")
            }
    }

    private static func words(_ attribute: AttributeDescription) -> [String] {
        var words = [attribute.type.rawValue]
        if !attribute.isOptional { words.append("required") }
        if attribute.isUnique { words.append("unique") }
        if attribute.isIndexed { words.append("indexed") }
        if attribute.isPreservedOnDeletion { words.append("preserved on deletion") }
        if let value = attribute.defaultValue { words.append("default \(text(value))") }
        if let target = attribute.target { words.append("of \(target)") }
        if let inverse = attribute.inverse { words.append("inverse \(inverse)") }
        if attribute.deleteRule != .noAction { words.append("delete rule \(attribute.deleteRule.rawValue)") }
        return words
    }

    private static func text(_ value: Value) -> String {
        var bytes: [UInt8] = []
        ValueConversion.append(value, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: JSON

    private static func json(_ entity: EntityDescription) -> JSONLine {
        var line = JSONLine()
        line.add("name", entity.name)
        line.add("history", entity.history.rawValue)
        addParts(of: entity, to: &line)
        return line
    }

    /// Adds the attributes and the keys.
    static func addParts(of entity: EntityDescription, to line: inout JSONLine) {
        line.add("attributes", entity.attributes.map(json))
        line.add(
            "keys",
            entity.keys.map { key in
                var line = JSONLine()
                line.addRaw("attributes", "[" + key.attributes.map(JSONText.string).joined(separator: ",") + "]")
                line.add("unique", key.isUnique)
                return line
            })
    }

    private static func json(_ attribute: AttributeDescription) -> JSONLine {
        var line = JSONLine()
        line.add("name", attribute.name)
        line.add("type", attribute.type.rawValue)
        line.add("optional", attribute.isOptional)
        line.add("indexed", attribute.isIndexed)
        line.add("unique", attribute.isUnique)
        line.add("preservedOnDeletion", attribute.isPreservedOnDeletion)
        if let value = attribute.defaultValue { line.addRaw("default", text(value)) }
        if let target = attribute.target { line.add("target", target) }
        if let inverse = attribute.inverse { line.add("inverse", inverse) }
        if attribute.deleteRule != .noAction { line.add("deleteRule", attribute.deleteRule.rawValue) }
        return line
    }
}
