// `annals get STORE ENTITY ID...` prints single objects, by their IDs or by an indexed attribute. `annals count STORE`
// prints the numbers of objects.

internal import Annals

extension Command {
    static let get = Command(
        "get", "Prints objects by their IDs or by a key.",
        details: """
            Prints each object as “dump” does. The ID is as “insert” and “dump” print it, such as 1:42, or 42 for
            short, or the object's label, which is its first unique text. With --key, prints the objects with this
            value; the attribute must be indexed or unique: --key url=https://swift.org. Ends with status 1 if an object
            does not exist.
            """,
        operands: ["STORE", "ENTITY", "[ID…]"],
        options: [Option("key", value: "NAME=VALUE", "the objects with this value"), .bare], run: GetCommand.run)

    static let count = Command(
        "count", "Prints how many objects each entity has, or one entity.",
        details: "With an entity, prints its number of objects. Otherwise each entity and its count.",
        operands: ["STORE", "[ENTITY]"],
        options: [Option("format", value: "FORMAT", "table (the default on a terminal), or jsonl")],
        run: GetCommand.count)
}

enum GetCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let ids = arguments.operands.dropFirst(2)
        let keys = (arguments.values(of: "key") ?? [])[...]
        try EditCommands.requireAssignments(keys, for: .get)
        guard ids.isEmpty != keys.isEmpty else {
            throw Command.get.refusal("Name the objects either by IDs or by “--key”.")
        }
        try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            let snapshot = try store.snapshot()
            let entity = try snapshot.entity(arguments.operands[1])
            var printer = try ObjectPrinter(entity, .jsonl, isBare: arguments.has("bare"), &output)
            let found = try objects(ids, keys, entity, snapshot)
            for object in found {
                let isThere = try snapshot.withRow(object, in: entity) { row in _ = printer.print(row, &output) }
                try printer.finish(&output)
                guard isThere else {
                    throw ToolFailure(.failed, "There is no object \(object): “annals dump” lists those that exist.")
                }
            }
            if found.isEmpty { throw ToolFailure(.failed, "No object has that value.") }
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

    static func count(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(output.isTerminal ? ["table", "jsonl"] : ["jsonl", "table"], for: .count)
        try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            let snapshot = try store.snapshot()
            if let name = arguments.operands.dropFirst().first {
                return try output.line("\(try snapshot.count(of: name))")
            }
            let counts = try snapshot.entities.map { ($0.name, try snapshot.count(of: $0.name)) }
            if format == "table" {
                return try output.table(["entity", "#objects"], counts.map { [$0.0, String(grouped: $0.1)] })
            }
            for (name, count) in counts { try output.data(["entity": name, "count": count]) }
        }
    }
}
