// `annals diff A B` and `annals diff STORE --from PLACE`: the differences between two stores, or two states of one.

internal import Annals

extension Command {
    static let diff = Command(
        "diff", "Compares two stores, or two states of one store.",
        details: """
            With two stores, objects are the same if they have the same ID, or with --key the same value of an
            attribute that is unique in both. With one store, what has changed from one place to another,
            by its history. Ends with status 0 if nothing differs, with 1 if something does, and with 2 after an error.

            As text, “-” is an object or a part of the schema that only the first store or state has, “+” one that
            only the second has. A change has the attribute and its values in both. In jsonl each line has kind
            (insert, update, delete, from the first to the second), entity, id, attributes, before and after; one
            about the schema has kind “schema”, and in before or after a part of its description.
            """,
        operands: ["STORE", "[STORE]"],
        options: [
            Option("from", value: "PLACE", "with one store: the first state"),
            Option("to", value: "PLACE", "with one store: the second state; without it, the newest"),
            Option("key", value: "ATTRIBUTE", "with two stores: the attribute that identifies objects"),
            Option("entity", value: "NAME", isRepeatable: true, "only objects of this entity, and its schema"),
            .linesOrText, .color,
        ], run: DiffCommand.run)
}

enum DiffCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws -> ExitStatus {
        do {
            return try compare(arguments, &output)
        } catch {
            var failure = ToolFailure(error)
            // A pager that was ended early has shown a difference.
            if failure.status == .closedPipe, Pager.isRunning { return .failed }
            // 1 means a difference.
            if failure.status == .failed { failure.status = .losses }
            throw failure
        }
    }

    private static func compare(_ arguments: Arguments, _ output: inout Output) throws -> ExitStatus {
        let refusal = Command.diff.refusal
        let format = try arguments.format(output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"], for: .diff)
        let from = try arguments.place(of: "from", for: .diff)
        let to = try arguments.place(of: "to", for: .diff)
        let first = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? first.close() }
        var second: Store?
        if arguments.operands.count > 1 {
            guard from == nil, to == nil else { throw refusal("--from and --to are for one store.") }
            second = try StoreAccess.open(arguments.operands[1], .readOnly)
        } else {
            guard from != nil else { throw refusal("One store needs --from: the first state.") }
            guard !arguments.has("key") else { throw refusal("--key is for two stores.") }
        }
        defer { try? second?.close() }
        try output.begin(arguments, isLong: format == "text")
        let sides = (
            try DiffSide(try from.map { try first.snapshot(at: $0) } ?? first.snapshot()),
            try DiffSide(try to.map { try first.snapshot(at: $0) } ?? (second ?? first).snapshot())
        )
        var report = DiffReport(isJSON: format == "jsonl", sides.0.labels, sides.1.labels)
        let wanted = arguments.values(of: "entity")
        func isWanted(_ entity: String) -> Bool { wanted?.contains { $0.isExactly(entity) } ?? true }
        for name in wanted ?? [] where sides.0.entity(name) == nil && sides.1.entity(name) == nil {
            throw ToolFailure(.failed, "There is no entity “\(name)” to compare: check the name.")
        }
        let entities = sides.0.entities.filter { isWanted($0.name) }
        let key = arguments.value(of: "key")
        if let key {
            for entity in entities where sides.1.entity(entity.name) != nil {
                try requireKey(key, of: entity.name, in: [sides.0.snapshot, sides.1.snapshot])
            }
        }
        let states = (sides.0.snapshot, sides.1.snapshot)
        try compareSchemas(states, isWanted, &report, &output)
        if second == nil {
            try compareHistory(first, states, wanted, &report, &output)
        } else {
            for entity in entities {
                guard let other = sides.1.entity(entity.name) else {
                    try DiffObjects.list(.delete, entity, states.0, &report, &output)
                    continue
                }
                try DiffObjects(first: (sides.0, entity), second: (sides.1, other), key: key).compare(&report, &output)
            }
            for entity in sides.1.entities where isWanted(entity.name) && sides.0.entity(entity.name) == nil {
                try DiffObjects.list(.insert, entity, states.1, &report, &output)
            }
        }
        try report.finish(&output)
        return report.hasDifferences ? .failed : .done
    }

    private static func requireKey(_ key: String, of entity: String, in states: [Snapshot]) throws {
        for state in states {
            let description = try state.entities.first { ExactText($0.name) == ExactText(entity) }
            guard let attribute = description?[key], attribute.isUnique else {
                throw Command.diff.refusal(
                    "“\(key)” is no unique attribute of “\(entity)” in both stores: choose another --key, "
                        + "or --entity.")
            }
        }
    }

    private static func compareSchemas(
        _ states: (Snapshot, Snapshot), _ isWanted: (String) -> Bool, _ report: inout DiffReport, _ output: inout Output
    ) throws {
        func lines(_ snapshot: Snapshot) throws -> [String] {
            try snapshot.entities.filter { isWanted($0.name) }.flatMap { entity in
                [entity.name + (entity.history == .off ? ", history off" : "")]
                    + SchemaCommand.lines(entity).map { "\(entity.name): \($0.drop { $0 == " " })" }
            }
        }
        let (before, after) = (try lines(states.0).map(ExactText.init), try lines(states.1).map(ExactText.init))
        let (old, new) = (Set(before), Set(after))
        for line in before where !new.contains(line) { try report.add(schema: line.text, isNew: false, &output) }
        for line in after where !old.contains(line) { try report.add(schema: line.text, isNew: true, &output) }
    }

    private static func compareHistory(
        _ store: Store, _ states: (Snapshot, Snapshot), _ entities: [String]?, _ report: inout DiffReport,
        _ output: inout Output
    ) throws {
        let (from, to) = (states.0.token.number, states.1.token.number)
        guard from <= to else {
            throw Command.diff.refusal("--from is after --to: transactions \(from) and \(to). Exchange them.")
        }
        // Entities without history are an error, and not left out.
        let all = try states.1.entities.map(\.name)
        let request = HistoryRequest(
            after: .number(from), before: .number(to + 1), entities: from == to ? [] : Set(entities ?? all))
        try store.forEachNetChange(request, includingValues: true) { change in
            let attributes =
                change.kind == .update
                ? change.attributes.filter { !isSame(change.before?[$0], change.after?[$0]) } : []
            if change.kind != .update || !attributes.isEmpty {
                try report.add(
                    change.kind, change.entity, change.object, attributes, change.before, change.after, &output)
            }
            return true
        }
    }

    /// Whether two values are the same: NaN is, and -0.0 and 0.0 are not.
    static func isSame(_ left: Value?, _ right: Value?) -> Bool {
        ExactText(ValueConversion.text(left ?? .null)) == ExactText(ValueConversion.text(right ?? .null))
    }
}

/// One of two stores or states.
private struct DiffSide {
    let snapshot: Snapshot
    let labels: Labels
    let entities: [EntityHandle]
    private let names: [UInt16: String]

    init(_ snapshot: Snapshot) throws {
        self.snapshot = snapshot
        labels = try Labels(snapshot)
        entities = try snapshot.entities.map { try snapshot.entity($0.name) }
        names = Dictionary(entities.map { ($0.number, $0.name) }) { $1 }
    }

    func entity(_ name: String) -> EntityHandle? { entities.first { $0.name.isExactly(name) } }

    /// A value for comparing it with one of another store, which may number its entities differently.
    ///
    /// - Parameter byLabel: Whether objects with one label are the same, and not those with one number.
    func text(_ value: Value?, byLabel: Bool) -> String {
        func name(_ object: ObjectID) -> String {
            let entity = names[object.entityNumber] ?? "\(object.entityNumber)"
            return "\(entity) " + ((byLabel ? labels.label(object) : nil) ?? "\(object.number)")
        }
        return switch value ?? .null {
        case .object(let object): name(object)
        case .orderedObjects(let objects): objects.map(name).joined(separator: "\n")
        case .objects(let objects): objects.map(name).sorted().joined(separator: "\n")
        case let value: ValueConversion.text(value)
        }
    }
}

/// The objects of one entity in two stores. Takes the memory of one object.
private struct DiffObjects {
    let first: (side: DiffSide, entity: EntityHandle)
    let second: (side: DiffSide, entity: EntityHandle)
    let key: String?

    func compare(_ report: inout DiffReport, _ output: inout Output) throws {
        try Self.forEach(first.entity, in: first.side.snapshot) { row in
            guard let other = try counterpart(of: row, in: second) else {
                return try report.add(.delete, first.entity.name, row.id, [], row, nil, &output)
            }
            let attributes = row.attributes + other.attributes.filter { row[$0] == nil }
            let different = attributes.filter { name in
                ExactText(first.side.text(row[name], byLabel: key != nil))
                    != ExactText(second.side.text(other[name], byLabel: key != nil))
            }
            if !different.isEmpty { try report.add(.update, first.entity.name, row.id, different, row, other, &output) }
        }
        try Self.forEach(second.entity, in: second.side.snapshot) { row in
            guard try counterpart(of: row, in: first) == nil else { return }
            try report.add(.insert, second.entity.name, row.id, [], nil, row, &output)
        }
    }

    /// All objects of an entity that only one store has.
    static func list(
        _ kind: HistoryChange.Kind, _ entity: EntityHandle, _ snapshot: Snapshot, _ report: inout DiffReport,
        _ output: inout Output
    ) throws {
        try forEach(entity, in: snapshot) { row in
            try report.add(
                kind, entity.name, row.id, [], kind == .delete ? row : nil, kind == .insert ? row : nil, &output)
        }
    }

    private func counterpart(of row: Row, in other: (side: DiffSide, entity: EntityHandle)) throws -> Row? {
        let snapshot = other.side.snapshot
        guard let key else {
            return try ObjectID(entityNumber: other.entity.number, number: row.id.number).flatMap(snapshot.row)
        }
        guard let value = row[key], !value.isNull else { return nil }
        return try snapshot.objects(of: other.entity, where: key, equals: value).first.flatMap(snapshot.row)
    }

    private static func forEach(_ entity: EntityHandle, in snapshot: Snapshot, _ body: (Row) throws -> Void) throws {
        try snapshot.forEachObject(of: entity) { if let row = try snapshot.row($0) { try body(row) } }
    }
}
