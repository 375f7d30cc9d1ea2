// `annals schema STORE`: prints the entities of a store, with their attributes and keys, or makes them like those of a
// file in the JSON form that it prints.

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
        _ = try arguments.onlyOne(of: ["swift", "format"])
        let (version, entities) = try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            let snapshot = try store.snapshot()
            let handle = try arguments.operands.dropFirst().first.map(snapshot.entity)
            return (snapshot.schemaVersion, try snapshot.entities.filter { handle == nil || $0.name == handle?.name })
        }
        if arguments.has("swift") {
            for line in SwiftSchema(entities).text() { output.line(line) }
        } else if output.isJSON {
            output.data(json(entities, version: version))
        } else {
            output.line("schema version \(version)")
            for entity in entities {
                output.line(entity.name + (entity.history == .off ? ": history off" : ""))
                for line in lines(entity) { output.line(line) }
            }
        }
    }

    private static func apply(_ arguments: Arguments, _ output: Output) throws {
        for other in ["swift", "format"] { _ = try arguments.onlyOne(of: [other, "apply"]) }
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
        for line in lines.isEmpty ? ["nothing to change"] : lines { output.line(line) }
        if let token { output.line(token.description) }
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
        let line: JSONLine = [
            "name": attribute.name, "type": attribute.type.rawValue, "optional": attribute.isOptional,
            "indexed": attribute.isIndexed, "unique": attribute.isUnique,
            "preservedOnDeletion": attribute.isPreservedOnDeletion,
        ]
        return line
            + JSONLine(present: [
                "default": attribute.defaultValue, "target": attribute.target, "inverse": attribute.inverse,
                "deleteRule": rule == .noAction ? nil : rule.rawValue,
            ])
    }
}

struct SchemaFile {
    /// An entity, with the former names of itself and its attributes.
    struct Entity {
        var description: EntityDescription
        var formerName: String?
        var formerNames: [String: String] = [:]
    }

    var entities: [Entity] = []

    init(_ bytes: [UInt8]) throws {
        let file = try SchemaObject(bytes, "The file", ["version", "entities"])
        guard file["entities"] != nil else { throw file.wrong("has no member “entities”: add it") }
        for (number, text) in try file.objects("entities").enumerated() {
            let entity = try Self.entity(text, "Entity \(number + 1)")
            if entities.contains(where: { $0.description.name.hasSameBytes(as: entity.description.name) }) {
                throw SchemaObject.wrong("“\(entity.description.name)”", "exists twice: remove one")
            }
            entities.append(entity)
        }
    }

    private static func entity(_ text: [UInt8], _ title: String) throws -> Entity {
        var object = try SchemaObject(text, title, ["name", "history", "attributes", "keys", "renamedFrom"])
        let name = try object.requiredText("name")
        object.title = "“\(name)”"
        let history: HistoryPolicy? = try object.choice(
            "history", "has a “history” that is neither \"full\" nor \"off\"")
        var entity = Entity(description: EntityDescription(name, attributes: [], history: history ?? .full))
        entity.formerName = try object.text("renamedFrom")
        for (number, text) in try object.objects("attributes").enumerated() {
            let (attribute, former) = try self.attribute(text, "Attribute \(number + 1) of \(object.title)", of: name)
            if entity.description[attribute.name] != nil {
                throw SchemaObject.wrong("“\(attribute.name)” of \(object.title)", "exists twice: remove one")
            }
            entity.description.attributes.append(attribute)
            entity.formerNames[attribute.name] = former
        }
        for (number, text) in try object.objects("keys").enumerated() {
            entity.description.keys.append(try key(text, "Key \(number + 1) of \(object.title)"))
        }
        return entity
    }

    private static func attribute(
        _ text: [UInt8], _ title: String, of entity: String
    ) throws -> (AttributeDescription, formerName: String?) {
        let known = [
            "name", "type", "optional", "indexed", "unique", "preservedOnDeletion", "default", "target", "inverse",
            "deleteRule", "renamedFrom",
        ]
        var object = try SchemaObject(text, title, known)
        let name = try object.requiredText("name")
        object.title = "“\(name)” of “\(entity)”"
        let types = "needs a “type” that is one of " + AttributeType.allCases.map(\.rawValue).joined(separator: ", ")
        let rules = DeleteRule.allCases.map(\.rawValue).joined(separator: ", ")
        let type: AttributeType = try object.choice("type", types).orThrow(object.wrong(types))
        let value = try object["default"].map {
            try ValueConversion.value($0, as: type).orThrow(
                object.wrong("has a “default” that is not of the type \(type.rawValue)"))
        }
        let attribute = AttributeDescription(
            name, type, isOptional: try object.flag("optional") ?? true, isIndexed: try object.flag("indexed") ?? false,
            isUnique: try object.flag("unique") ?? false,
            isPreservedOnDeletion: try object.flag("preservedOnDeletion") ?? false, defaultValue: value,
            target: try object.text("target"), inverse: try object.text("inverse"),
            whenTargetIsDeleted: try object.choice("deleteRule", "has a “deleteRule” that is not one of " + rules)
                ?? .noAction)
        return (attribute, try object.text("renamedFrom"))
    }

    private static func key(_ text: [UInt8], _ title: String) throws -> IndexDescription {
        let object = try SchemaObject(text, title, ["attributes", "unique"])
        let names = try (object["attributes"]?.elements?.map(\.text) ?? [nil]).map {
            try $0.orThrow(object.wrong("needs a member “attributes”, which is a list of names"))
        }
        return IndexDescription(names, isUnique: try object.flag("unique") ?? false)
    }
}

/// An object of the file, all of whose members are known.
private struct SchemaObject {
    /// Its name in failures.
    var title: String
    private var members: [String: JSONValue] = [:]

    init(_ bytes: [UInt8], _ title: String, _ known: [String]) throws {
        self.title = title
        let list: [JSONMember]
        do throws(JSONError) {
            list = try JSONReader.object(bytes)
        } catch { throw wrong("is not a JSON object: \(error.message) (byte \(error.column))") }
        for member in list {
            guard known.contains(where: { $0.hasSameBytes(as: member.name) }) else {
                throw wrong("has an unknown member “\(member.name)”: known are \(known.joined(separator: ", "))")
            }
            members[member.name] = member.value
        }
    }

    subscript(name: String) -> JSONValue? { members[name] }

    /// A member; nil if it is missing. Throws if it has another form.
    private func member<Content>(
        _ name: String, _ problem: String, _ content: (JSONValue) -> Content?
    ) throws -> Content? {
        try members[name].map { try content($0).orThrow(wrong(problem)) }
    }

    func requiredText(_ name: String) throws -> String { try text(name).orThrow(wrong(Self.needsText(name))) }
    func text(_ name: String) throws -> String? { try member(name, Self.needsText(name), \.text) }
    private static func needsText(_ name: String) -> String { "needs a member “\(name)”, which is a text" }

    func flag(_ name: String) throws -> Bool? {
        try member(name, "needs true or false for “\(name)”") { if case .bool(let flag) = $0 { flag } else { nil } }
    }

    func choice<Choice: RawRepresentable<String>>(_ name: String, _ problem: String) throws -> Choice? {
        try member(name, problem) { $0.text.flatMap { Choice(rawValue: $0) } }
    }

    /// The texts of a list of objects.
    func objects(_ name: String) throws -> [[UInt8]] {
        let elements = try member(name, "has a member “\(name)” that is not a list", \.elements) ?? []
        return try elements.map { element in
            guard case .structure(let text) = element else {
                throw wrong("has a member “\(name)” with an element that is not a JSON object")
            }
            return Array(text.utf8)
        }
    }

    func wrong(_ problem: String) -> ToolFailure { Self.wrong(title, problem) }

    static func wrong(_ title: String, _ problem: String) -> ToolFailure {
        ToolFailure("\(title) \(problem).", hint: "“annals schema STORE --format json” prints the form of the file.")
    }
}
