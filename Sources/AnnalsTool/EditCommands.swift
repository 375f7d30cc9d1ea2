// `annals insert`, `set` and `delete`: one object, one transaction.

internal import Annals

extension Command {
    private static let origin = [
        Option("author", value: "A", "the author of the change in history (annals); '' for none"),
        Option("context", value: "C", "the context of the change in history"),
        Option("format", value: "FORMAT", "text (the default), or json: one JSON object"),
    ]

    static let insert = Command(
        "insert", "Inserts an object, and prints its ID and the token after it.",
        details: """
            Values are JSON: name='"Ada"' rank=3 flag=true. Other attributes get their default, or null. The store,
            the entity and the attributes must exist: “annals load” creates them.
            """,
        operands: ["STORE", "ENTITY", "[NAME=JSON…]"], options: origin, run: EditCommands.insert)

    static let set = Command(
        "set", "Changes attributes of an object, and prints the token after it.",
        details: """
            The ID is as “insert” and “dump” print it, such as 1:42, or 42 for short. Values are JSON; null removes
            a value. If nothing differs, nothing is written and nothing is printed.
            """,
        operands: ["STORE", "ENTITY", "ID", "NAME=JSON…"], options: origin, run: EditCommands.set)

    static let delete = Command(
        "delete", "Deletes an object, and prints the token after it.", operands: ["STORE", "ENTITY", "ID"],
        options: origin, run: EditCommands.delete)
}

enum EditCommands {
    static func insert(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(["text", "json"], for: .insert)
        let assignments = try parse(arguments.operands.dropFirst(2), for: .insert)
        let (object, token) = try StoreAccess.with(arguments.operands[0], .readWrite) { (store) throws(ToolFailure) in
            try commit(store, arguments) { transaction in
                let entity = try transaction.entity(arguments.operands[1])
                return try transaction.insert(entity.name, pairs: try values(assignments, of: entity))
            }
        }
        output.hasChanges = true
        try print(token, object, format, &output)
        return .done
    }

    static func set(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(["text", "json"], for: .set)
        let assignments = try parse(arguments.operands.dropFirst(3), for: .set)
        let token = try StoreAccess.with(arguments.operands[0], .readWrite) { (store) throws(ToolFailure) in
            try commit(store, arguments) { transaction in
                let entity = try transaction.entity(arguments.operands[1])
                let object = try objectID(arguments.operands[2], of: entity)
                try transaction.update(object, pairs: try values(assignments, of: entity))
            }.token
        }
        output.hasChanges = token != nil
        try print(token, nil, format, &output)
        return .done
    }

    static func delete(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(["text", "json"], for: .delete)
        let token = try StoreAccess.with(arguments.operands[0], .readWrite) { (store) throws(ToolFailure) in
            try commit(store, arguments) { transaction in
                let entity = try transaction.entity(arguments.operands[1])
                try transaction.delete(try objectID(arguments.operands[2], of: entity))
            }.token
        }
        output.hasChanges = token != nil
        try print(token, nil, format, &output)
        return .done
    }

    /// Runs under the lock, so that reading first and then setting overwrites nothing.
    private static func commit<Result>(
        _ store: Store, _ arguments: Arguments, _ body: (Transaction) throws -> Result
    ) throws(ToolFailure) -> (result: Result, token: HistoryToken?) {
        try storing {
            try store.write(author: arguments.author, contextName: arguments.value(of: "context"), body)
        }
    }

    /// As text, prints nothing if nothing was written.
    private static func print(
        _ token: HistoryToken?, _ object: ObjectID?, _ format: String, _ output: inout Output
    ) throws(ToolFailure) {
        guard format == "json" else {
            if let object { try output.line(object.description) }
            if let token { try output.line(token.description) }
            return
        }
        var line = JSONLine()
        if let object { line.add("_id", object.description) }
        if let token { line.add("token", token.description) } else { line.addRaw("token", "null") }
        try output.line(line.text)
    }

    // MARK: NAME=JSON

    static func parse(
        _ operands: ArraySlice<String>, for command: Command
    ) throws(ToolFailure) -> [(name: String, value: JSONValue)] {
        var assignments: [(name: String, value: JSONValue)] = []
        for operand in operands {
            let assignment = try parse(operand, for: command)
            guard !assignments.contains(where: { $0.name.utf8.elementsEqual(assignment.name.utf8) }) else {
                throw ToolFailure(
                    .usage,
                    "“\(assignment.name)” is given twice: give it once.", hint: "Try: annals help \(command.name)")
            }
            assignments.append(assignment)
        }
        return assignments
    }

    /// The attribute's name and its value. They are split at the first “=” that JSON follows, because names may contain
    /// that character too.
    private static func parse(
        _ operand: String, for command: Command
    ) throws(ToolFailure) -> (name: String, value: JSONValue) {
        var failure: (name: String, error: JSONError)?
        for place in operand.indices where operand[place] == "=" && place > operand.startIndex {
            let name = String(operand[..<place])
            do throws(JSONError) {
                return (name, try JSONReader.value(String(operand[operand.index(after: place)...])))
            } catch {
                failure = failure ?? (name, error)
            }
        }
        guard let (name, error) = failure else {
            throw ToolFailure(
                .usage, "“\(operand)” does not have the form NAME=JSON.", hint: "Try: annals help \(command.name)")
        }
        throw ToolFailure(
            .usage,
            "The value of “\(name)” is not JSON: \(error.message). A text needs quotes of its own: \(name)='\"…\"'.",
            hint: "Try: annals help \(command.name)")
    }

    static func values(
        _ assignments: [(name: String, value: JSONValue)], of entity: EntityHandle
    ) throws(ToolFailure) -> [(key: String, value: Value)] {
        var values: [(key: String, value: Value)] = []
        for (name, json) in assignments {
            guard let position = entity.position(of: name) else {
                throw ToolFailure(
                    .failed,
                    "“\(entity.name)” has no attribute “\(name)”: it has \(entity.attributes.joined(separator: ", ")).")
            }
            guard let value = ValueConversion.value(json, as: entity.types[position]) else {
                throw ToolFailure(
                    .failed,
                    "“\(name)” of “\(entity.name)” has the type \(entity.types[position]), but the value does not.")
            }
            values.append((name, value))
        }
        return values
    }
}
