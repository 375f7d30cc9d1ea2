// `annals insert`, `set` and `delete`: one object, one transaction. `annals get` prints single objects, by their IDs or
// by an indexed attribute, and `annals count` the numbers of objects.

internal import Annals

enum EditCommands {
    private static let origin: [Option] = [.author, .context, .textOrJSON]

    static let insert = Command(
        "insert", "Inserts an object, and prints its ID and the token after it.",
        details: """
            A VALUE is JSON, or a plain text: name=Ada rank=3 flag=true since=2026-01-02. null is no value, and '"null"'
            is that text. A reference is an ID or a label. Other attributes get their default, or null. The store, the
            entity and the attributes must exist: “annals load” creates them.
            """, operands: ["STORE", "ENTITY", "[NAME=VALUE…]"], options: origin
    ) { arguments, output in
        let assignments = arguments.operands.dropFirst(2)
        try edit(assignments, arguments, output) { transaction, entity, snapshot in
            try transaction.insert(entity.name, pairs: try values(assignments, of: entity, in: snapshot))
        }
    }

    static let set = Command(
        "set", "Changes attributes of an object, and prints the token after it.",
        details: """
            The ID is as “insert” and “dump” print it, such as 1:42, or 42 for short, or the object's label, which is
            its first unique text. A VALUE is as for “insert”; null removes a value. If nothing differs, nothing is
            written and nothing is printed.
            """, operands: ["STORE", "ENTITY", "ID", "NAME=VALUE…"], options: origin
    ) { arguments, output in
        let assignments = arguments.operands.dropFirst(3)
        try edit(assignments, arguments, output) { transaction, entity, snapshot in
            let object = try entity.object(arguments.operands[2], in: snapshot)
            try transaction.update(object, pairs: try values(assignments, of: entity, in: snapshot))
            return nil
        }
    }

    static let delete = Command(
        "delete", "Deletes an object, and prints the token after it.", operands: ["STORE", "ENTITY", "ID"],
        options: origin
    ) { arguments, output in
        try edit([], arguments, output) { transaction, entity, snapshot in
            try transaction.delete(try entity.object(arguments.operands[2], in: snapshot))
            return nil
        }
    }

    /// Runs `body` under the lock, so that reading first and then setting overwrites nothing. Prints the object that it
    /// returns, and the token. As text, prints nothing if nothing was written.
    private static func edit(
        _ assignments: ArraySlice<String>, _ arguments: Arguments, _ output: Output,
        _ body: (Transaction, EntityHandle, Snapshot) throws -> ObjectID?
    ) throws {
        try requireAssignments(assignments, arguments)
        let (object, token) = try StoreAccess.with(arguments.operands[0], .readWrite) { store in
            try store.write(author: arguments.author, contextName: arguments.value(of: "context")) { transaction in
                try body(transaction, try transaction.entity(arguments.operands[1]), try store.snapshot())
            }
        }
        output.hasChanges = token != nil
        if output.isJSON {
            let id: JSONLine = object.map { ["_id": $0.description] } ?? [:]
            output.data(id + ["token": token?.description])
        } else {
            for id in [object?.description, token?.description].compactMap(\.self) { output.line(id) }
        }
    }

    /// Throws if an operand is no assignment. Only the entity shows where its name ends.
    static func requireAssignments(_ operands: ArraySlice<String>, _ arguments: Arguments) throws {
        for operand in operands where !operand.dropFirst().contains("=") {
            throw arguments.refusal("“\(operand)” does not have the form NAME=VALUE.")
        }
    }

    static func values(
        _ operands: ArraySlice<String>, of entity: EntityHandle, in snapshot: Snapshot
    ) throws -> [(key: String, value: Value)] {
        var values: [(position: Int, value: Value)] = []
        for operand in operands {
            let value = try value(operand, entity, snapshot)
            guard !values.contains(where: { $0.position == value.position }) else {
                throw ToolFailure(.usage, "“\(entity.attributes[value.position])” is given twice: give it once.")
            }
            values.append(value)
        }
        return values.map { (entity.attributes[$0.position], $0.value) }
    }

    /// The attribute and its value. Names may contain “=” too: of several attributes, the first one is taken whose type
    /// the JSON after it has, or else the text.
    private static func value(
        _ operand: String, _ entity: EntityHandle, _ snapshot: Snapshot
    ) throws -> (position: Int, value: Value) {
        let signs = operand.indices.filter { operand[$0] == "=" && $0 > operand.startIndex }
        let parts = signs.compactMap { sign in
            entity.position(of: String(operand[..<sign])).map { ($0, String(operand[operand.index(after: sign)...])) }
        }
        for (position, text) in parts {
            guard let json = try? JSONReader.value(text) else { continue }
            if let value = ValueConversion.value(json, as: entity.types[position]) { return (position, value) }
        }
        for (position, text) in parts {
            if let value = try plainValue(text, of: entity, at: position, in: snapshot) { return (position, value) }
        }
        let (position, text) = try parts.first.orThrow(ToolFailure(entity.lacks(operand.prefix { $0 != "=" })))
        throw ToolFailure(
            "“\(entity.attributes[position])” of “\(entity.name)” has the type \(entity.types[position]), but "
                + "“\(text)” does not.")
    }

    /// A text, a date, an object's label and so on, without the quotes of JSON. Nil if the attribute has another type.
    private static func plainValue(
        _ text: String, of entity: EntityHandle, at position: Int, in snapshot: Snapshot
    ) throws -> Value? {
        let type = entity.types[position]
        // A mistake in JSON is no text.
        if type == .json, let first = text.utf8.first, "{[\"".utf8.contains(first) { return nil }
        if let value = ValueConversion.value(.string(text), as: type) { return value }
        switch type {
        case .date: return DateText.moment(text).map { .date($0) }
        case .object:
            // A label may be in JSON's quotes.
            let label = (try? JSONReader.value(text))?.text ?? text
            return try snapshot.target(of: entity, at: position).map { target in
                .object(try target.object(label, in: snapshot))
            }
        default: return nil
        }
    }
}

enum GetCommand {
    static let get = Command(
        "get", "Prints objects by their IDs or by a key.",
        details: """
            Prints each object as “dump” does. The ID is as “insert” and “dump” print it, such as 1:42, or 42 for
            short, or the object's label, which is its first unique text. With --key, prints the objects with this
            value; the attribute must be indexed or unique: --key url=https://swift.org. Ends with status 1 if an object
            does not exist.
            """, operands: ["STORE", "ENTITY", "[ID…]"],
        options: [Option("key", value: "NAME=VALUE", "the objects with this value"), .bare]
    ) { arguments, output in
        let ids = arguments.operands.dropFirst(2)
        let keys = (arguments.values(of: "key") ?? [])[...]
        try EditCommands.requireAssignments(keys, arguments)
        guard ids.isEmpty != keys.isEmpty else {
            throw arguments.refusal("Name the objects either by IDs or by “--key”.")
        }
        try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            let snapshot = try store.snapshot()
            let entity = try snapshot.entity(arguments.operands[1])
            var printer = ObjectPrinter(entity, isBare: arguments.has("bare"), output)
            let found = try objects(ids, keys, entity, snapshot)
            for object in found {
                let isThere = try snapshot.withRow(object, in: entity) { (row) throws(StoreError) in
                    _ = try printer.print(row)
                }
                printer.finish()
                guard isThere else {
                    throw ToolFailure("There is no object \(object): “annals dump” lists those that exist.")
                }
            }
            if found.isEmpty { throw ToolFailure("No object has that value.") }
        }
    }

    static let count = Command(
        "count", "Prints how many objects each entity has, or one entity.",
        details: "With an entity, prints its number of objects. Otherwise each entity and its count.",
        operands: ["STORE", "[ENTITY]"],
        options: [.format(["jsonl", "table"], "table (the default on a terminal), or jsonl")]
    ) { arguments, output in
        try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            let snapshot = try store.snapshot()
            if let name = arguments.operands.dropFirst().first { return output.line("\(try snapshot.count(of: name))") }
            let counts = try snapshot.entities.map { ($0.name, try snapshot.count(of: $0.name)) }
            if !output.isJSON {
                return output.table(["entity", "#objects"], counts.map { [$0.0, String(grouped: $0.1)] })
            }
            for (name, count) in counts { output.data(["entity": name, "count": count]) }
        }
    }

    private static func objects(
        _ ids: ArraySlice<String>, _ keys: ArraySlice<String>, _ entity: EntityHandle, _ snapshot: Snapshot
    ) throws -> [ObjectID] {
        let found = try EditCommands.values(keys, of: entity, in: snapshot).flatMap {
            try snapshot.objects(of: entity, where: $0.key, equals: $0.value)
        }
        return try ids.map { try entity.object($0, in: snapshot) } + found
    }
}
