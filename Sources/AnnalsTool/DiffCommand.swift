// `annals diff A B` and `annals diff STORE --from PLACE`: the differences between two stores, or two states of one.

internal import Annals

enum DiffCommand {
    static let command = Command(
        "diff", "Compares two stores, or two states of one store.",
        details: """
            With two stores, objects are the same if they have the same ID, or with --key the same value of an
            attribute that is unique in both. With one store, what has changed from one place to another,
            by its history. Ends with status 0 if nothing differs, with 1 if something does, and with 2 after an error.

            As text, “-” is an object or a part of the schema that only the first store or state has, “+” one that
            only the second has. A change has the attribute and its values in both. In jsonl each line has kind
            (insert, update, delete, from the first to the second), entity, id, attributes, before and after; one
            about the schema has kind “schema”, and in before or after a part of its description.
            """, operands: ["STORE", "[STORE]"],
        options: [
            Option("from", value: "PLACE", "with one store: the first state"),
            Option("to", value: "PLACE", "with one store: the second state; without it, the newest"),
            Option("key", value: "ATTRIBUTE", "with two stores: the attribute that identifies objects"),
            Option("entity", value: "NAME", isRepeatable: true, "only objects of this entity, and its schema"),
            .linesOrText, .color,
        ]
    ) { arguments, output -> ExitStatus in
        do {
            return try compare(arguments, output)
        } catch {
            var failure = ToolFailure(error)
            // A pager that was ended early has shown a difference.
            if failure.status == .closedPipe, Pager.isRunning { return .failed }
            // 1 means a difference.
            if failure.status == .failed { failure.status = .losses }
            throw failure
        }
    }

    private static func compare(_ arguments: Arguments, _ output: Output) throws -> ExitStatus {
        let (from, to) = (try arguments.place(of: "from"), try arguments.place(of: "to"))
        let (key, wanted) = (arguments.value(of: "key"), arguments.values(of: "entity"))
        let first = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? first.close() }
        var second: Store?
        if arguments.operands.count > 1 {
            guard from == nil, to == nil else { throw arguments.refusal("--from and --to are for one store.") }
            second = try StoreAccess.open(arguments.operands[1], .readOnly)
        } else {
            guard from != nil else { throw arguments.refusal("One store needs --from: the first state.") }
            guard key == nil else { throw arguments.refusal("--key is for two stores.") }
        }
        defer { try? second?.close() }
        try output.begin(arguments, isLong: !output.isJSON)
        let before = try DiffSide(try from.map { try first.snapshot(at: $0) } ?? first.snapshot(), wanted)
        let after = try DiffSide(try to.map { try first.snapshot(at: $0) } ?? (second ?? first).snapshot(), wanted)
        for name in wanted ?? [] where before.entity(name) == nil && after.entity(name) == nil {
            throw ToolFailure("There is no entity “\(name)” to compare: check the name.")
        }
        let report = DiffReport(before.labels, after.labels, output)
        let comparison = DiffComparison(before: before, after: after, key: key, report: report)
        try comparison.requireKey()
        comparison.compareSchemas()
        if second == nil { try comparison.compareHistory(of: first, wanted) } else { try comparison.compareObjects() }
        report.finish()
        try output.finish()
        return report.hasDifferences ? .failed : .done
    }

    /// Whether two values are the same: NaN is, and -0.0 and 0.0 are not.
    static func isSame(_ left: Value?, _ right: Value?) -> Bool {
        IdentifierName(ValueConversion.text(left ?? .null)) == IdentifierName(ValueConversion.text(right ?? .null))
    }
}

private struct DiffSide {
    let snapshot: Snapshot
    let labels: Labels
    let entities: [EntityDescription]
    private let names: [UInt16: String]

    init(_ snapshot: Snapshot, _ wanted: [String]?) throws {
        self.snapshot = snapshot
        labels = try Labels(snapshot)
        entities = try snapshot.entities.filter { entity in
            wanted?.contains { $0.hasSameBytes(as: entity.name) } ?? true
        }
        names = Dictionary(try snapshot.handles.map { ($0.number, $0.name) }) { $1 }
    }

    func entity(_ name: String) -> EntityDescription? { entities.first { $0.name.hasSameBytes(as: name) } }

    /// The schema, line by line.
    var lines: [IdentifierName] {
        entities.flatMap { entity in
            [IdentifierName(entity.name + (entity.history == .off ? ", history off" : ""))]
                + SchemaCommand.lines(entity).map { IdentifierName("\(entity.name): \($0.drop { $0 == " " })") }
        }
    }

    func forEachRow(of entity: String, _ body: (Row) throws -> Void) throws {
        guard self.entity(entity) != nil else { return }
        let handle = try snapshot.entity(entity)
        try snapshot.forEachObject(of: handle) { if let row = try snapshot.row($0) { try body(row) } }
    }

    /// The object of this side that is the same as one of the other side.
    func counterpart(of row: Row, key: String?) throws -> Row? {
        guard self.entity(row.entity) != nil else { return nil }
        let entity = try snapshot.entity(row.entity)
        guard let key else {
            return try ObjectID(entityNumber: entity.number, number: row.id.number).flatMap(snapshot.row)
        }
        guard let value = row[key], !value.isNull else { return nil }
        return try snapshot.objects(of: entity, where: key, equals: value).first.flatMap(snapshot.row)
    }

    /// A value for comparing it with one of another store, which may number its entities differently. Objects are the
    /// same if they have one label, or otherwise one number.
    func text(_ value: Value?, byLabel: Bool) -> IdentifierName {
        func name(_ object: ObjectID) -> String {
            let entity = names[object.entityNumber] ?? "\(object.entityNumber)"
            return "\(entity) " + ((byLabel ? labels.label(object) : nil) ?? "\(object.number)")
        }
        return switch value ?? .null {
        case .object(let object): IdentifierName(name(object))
        case .orderedObjects(let objects): IdentifierName(objects.map(name).joined(separator: "\n"))
        case .objects(let objects): IdentifierName(objects.map(name).sorted().joined(separator: "\n"))
        case let value: IdentifierName(ValueConversion.text(value))
        }
    }
}

/// Compares two stores or states. Takes the memory of one object.
private struct DiffComparison {
    let before: DiffSide
    let after: DiffSide
    let key: String?
    let report: DiffReport

    func requireKey() throws {
        guard let key else { return }
        for entity in before.entities {
            guard let other = after.entity(entity.name) else { continue }
            guard entity[key]?.isUnique == true, other[key]?.isUnique == true else {
                throw DiffCommand.command.refusal(
                    "“\(key)” is no unique attribute of “\(entity.name)” in both stores: choose another --key, "
                        + "or --entity.")
            }
        }
    }

    func compareSchemas() {
        let (old, new) = (Set(before.lines), Set(after.lines))
        for line in before.lines where !new.contains(line) { report.add(schema: line.text, isNew: false) }
        for line in after.lines where !old.contains(line) { report.add(schema: line.text, isNew: true) }
    }

    func compareObjects() throws {
        let added = after.entities.filter { before.entity($0.name) == nil }
        for entity in before.entities + added {
            try before.forEachRow(of: entity.name) { row in
                guard let other = try after.counterpart(of: row, key: key) else {
                    return try report.add(.delete, row.entity, row.id, [], row, nil)
                }
                let attributes = row.attributes + other.attributes.filter { row[$0] == nil }
                let different = attributes.filter { name in
                    before.text(row[name], byLabel: key != nil) != after.text(other[name], byLabel: key != nil)
                }
                if !different.isEmpty { try report.add(.update, row.entity, row.id, different, row, other) }
            }
            try after.forEachRow(of: entity.name) { row in
                guard try before.counterpart(of: row, key: key) == nil else { return }
                try report.add(.insert, row.entity, row.id, [], nil, row)
            }
        }
    }

    func compareHistory(of store: Store, _ wanted: [String]?) throws {
        let (from, to) = (before.snapshot.token.number, after.snapshot.token.number)
        guard from <= to else {
            throw DiffCommand.command.refusal("--from is after --to: transactions \(from) and \(to). Exchange them.")
        }
        // Entities without history are an error, and not left out.
        let names = from == to ? [] : Set(wanted ?? after.entities.map(\.name))
        let request = HistoryRequest(after: .number(from), before: .number(to + 1), entities: names)
        try store.forEachNetChange(request, includingValues: true) { change in
            let isUpdate = change.kind == .update
            let attributes = change.attributes.filter {
                isUpdate && !DiffCommand.isSame(change.before?[$0], change.after?[$0])
            }
            if isUpdate, attributes.isEmpty { return true }
            try report.add(change.kind, change.entity, change.object, attributes, change.before, change.after)
            return true
        }
    }
}

/// Prints differences between two states as they are found: for `diff` and `restore --dry-run`.
final class DiffReport {
    private let output: Output
    private let (before, after): (Labels, Labels)
    private var table: Table
    private(set) var hasDifferences = false

    init(_ before: Labels, _ after: Labels, _ output: Output) {
        (self.before, self.after, self.output) = (before, after, output)
        table = Table(output, ["", "object", "attribute", "before", "after"], hasHead: false)
    }

    /// Adds a part of a description of the schema that only one of both has.
    func add(schema line: String, isNew: Bool) {
        hasDifferences = true
        if output.isJSON {
            return output.data(["kind": "schema", "before": isNew ? nil : line, "after": isNew ? line : nil])
        }
        output.line([StyledText((isNew ? "+ " : "- ") + line, isNew ? .insert : .delete)])
    }

    func add(
        _ kind: HistoryChange.Kind, _ entity: String, _ object: ObjectID, _ attributes: [String], _ old: Row?,
        _ new: Row?
    ) throws(ToolFailure) {
        hasDifferences = true
        // Comparing more would be in vain.
        if output.hasFailed { try output.finish() }
        if output.isJSON {
            let head = HistoryJSON.head(kind, entity, object, attributes)
            return output.data(head + HistoryJSON.values(old, new, of: kind, attributes))
        }
        let sign = kind == .insert ? "+" : kind == .update ? " " : "-"
        let label = old.map { before.text(object, $0) } ?? after.text(object, new)
        let head: [Table.Cell] = [[StyledText(sign, kind.style)], [StyledText("\(entity) \(label)", kind.style)]]
        if attributes.isEmpty { table.add(head + [[], [], []]) }
        for (index, name) in attributes.enumerated() {
            let values = [name, before.text(old?[name] ?? .null), after.text(new?[name] ?? .null)]
            table.add((index == 0 ? head : [[], []]) + values.map { [StyledText($0)] })
        }
    }

    func finish() { table.show() }
}
