// `annals find STORE ENTITY`: prints the objects that satisfy a condition, or have words in their texts, through the
// same indexes as typed fetching and searching. Gives written conditions the attributes that they name, and values the
// types of these attributes.

internal import Annals
internal import FoundationEssentials

enum FindCommand {
    static let command = Command(
        "find", "Prints the objects that satisfy a condition.",
        details: """
            Prints the objects of an entity as “dump” does. Without --where, prints all of them.

            A condition compares attributes with values: =, !=, <, <=, >, >=, in (1, 2), contains, starts with, is null,
            is not null. Join conditions with “and” and “or”, negate one with “not”, and group them with parentheses.
            A text that is one word needs no quotes: --where name=k1. Any other is in single or double quotes:
            --where "rank >= 10 and title starts with 'A b'". A date is such as 2026-01-02 or 2026-01-02T03:04:05Z, and
            is UTC without a zone. Null differs from every value, and is neither less nor greater. Texts are compared
            as in Swift: the forms that Unicode has for one character are equal.

            A condition can follow one reference: folder.name = x. If the reference leads to several objects, one of
            them must satisfy the comparison. A list of references contains an ID: tags contains 2:7. A name with
            other characters than letters, digits and “_” is written in `…`.

            With --text, all words must occur in the object's texts, and the last one may be the beginning of a word.
            Case and accents make no difference. A phrase is in double quotes, and a minus leaves objects out:
            --text '"open source" -draft lin'. The best match comes first, unless there is --sort. The texts and their
            weights are those of the entity's search index: see “annals help search-index”. Without one, “find” reads
            all texts of all objects.

            Sorting puts null first, or last in descending order. Text is sorted by Unicode scalars. Without --sort,
            objects come in the order of their IDs, or in that of the index that finds them.

            With --as-of, entities and attributes have their present names. An attribute that was added since has its
            default, and one that was removed since comes last. “dump --as-of” has the names of that time.
            """, operands: ["STORE", "ENTITY"],
        options: [
            Option(
                "where", value: "CONDITION", isRepeatable: true, "only objects that satisfy this; several mean “and”"),
            Option("text", value: "WORDS", "only objects with these words in their texts"),
            Option("sort", value: "NAME,…", "the order; “-” before a name: descending"),
            Option("limit", value: "N", "at most N objects"),
            Option("offset", value: "N", "skip the first N objects"),
            Option("columns", value: "NAME,…", "only these attributes, in this order"),
            Option("count", "prints only the number of objects"),
            Option("explain", "prints only how the objects are found"), .asOf,
            .format(
                ["jsonl", "json", "csv", "table"], "table (the default on a terminal), jsonl, json (one array) or csv"),
            .bare,
        ]
    ) { arguments, output in
        let isTable = output.format == "table"
        let place = try arguments.place(of: "as-of")
        for other in ["count", "text"] { _ = try arguments.onlyOne(of: [other, "explain"]) }
        let written = try (arguments.values(of: "where") ?? []).map(parse)
        let limit = try arguments.number(of: "limit").map { Int(clamping: $0) }
        let offset = try arguments.number(of: "offset").map { Int(clamping: $0) } ?? 0
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let snapshot = try (place.map(store.snapshot) ?? store.snapshot()).inPresentTerms
        let entity = try snapshot.entity(arguments.operands[1])
        let translator = try ConditionTranslator(snapshot, entity)
        let condition = try translator.condition(.all(written))
        let columns = try arguments.value(of: "columns").map { try positions(names($0), of: entity) }
        let sort = try translator.columns(names(arguments.value(of: "sort")))
        var fetch = try FetchRun(snapshot, condition, sort, of: entity, limit: limit, offset: offset)
        var search = try arguments.value(of: "text").map { text in
            try FilteredSearch(
                snapshot, SearchQuery(text), condition, of: entity, indexedIn: store.snapshot(), limit: limit,
                offset: offset)
        }
        try output.begin(arguments, isLong: isTable && !arguments.has("count"))
        if arguments.has("count") {
            output.line("\(try search?.count() ?? fetch.count())")
        } else if arguments.has("explain") {
            let explanation = try fetch.explain().description
            for line in explanation.split(separator: "\n") { output.line(String(line)) }
        } else {
            var printer = ObjectPrinter(
                entity, isBare: arguments.has("bare"), columns: columns,
                labels: isTable ? try Labels(snapshot) : nil, output)
            if let found = try search?.objects(sort) {
                for one in found where !output.hasFailed {
                    _ = try snapshot.withRow(one.object, in: entity) { (row) throws(StoreError) in
                        _ = try printer.print(row)
                    }
                }
            } else {
                try fetch.forEachRowView { (row) throws(StoreError) in try printer.print(row) }
            }
            printer.finish()
        }
    }

    private static func parse(_ text: String) throws -> WrittenCondition {
        do throws(ConditionError) {
            return try ConditionParser.parse(text)
        } catch {
            let found = error.found.map { "“\($0)”" } ?? "its end"
            // A condition may have 128 KiB.
            let excerpt = text.count <= 200 ? text : text.prefix(200) + "…"
            throw command.refusal(
                "The condition “\(excerpt)” is malformed at character \(error.position): "
                    + "expected \(error.expected), found \(found).")
        }
    }

    private static func positions(_ names: [String], of entity: EntityHandle) throws -> [Int] {
        var positions: [Int] = []
        for name in names {
            let position = try entity.position(of: name).orThrow(ToolFailure(entity.lacks(name)))
            guard !positions.contains(position) else {
                throw command.refusal("The column “\(name)” is given twice: give it once.")
            }
            positions.append(position)
        }
        return positions
    }

    private static func names(_ text: String?) -> [String] {
        text?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? []
    }
}

struct ConditionTranslator {
    private let snapshot: Snapshot
    private let entity: EntityHandle

    init(_ snapshot: Snapshot, _ entity: EntityHandle) throws(StoreError) {
        try snapshot.require(entity)
        self.snapshot = snapshot
        self.entity = entity
    }

    func condition(_ written: WrittenCondition) throws -> Condition {
        switch written {
        case .all(let parts): return try parts.reduce(.constant(true)) { .both($0, try condition($1)) }
        case .any(let parts): return .any(try parts.map(condition))
        case .not(let part): return .not(try condition(part))
        case .test(let path, let comparison, let json):
            let position = try position(of: path[0])
            guard path.count > 1 else { return try test(position, comparison, json, entity, path) }
            let target = try target(of: position)
            let step = RelationshipStep(entity, position, to: target.entity)
            let last = try target.position(of: path[1])
            func inner(_ comparison: WrittenComparison) throws -> Condition {
                try target.test(last, comparison, json, entity, path)
            }
            if entity.types[position].isObjectList { return .anyOf(step, try inner(comparison)) }
            // A missing object compares as null.
            return switch comparison {
            case .isNull: .step(step, try inner(.isNull), isMissing: true)
            case .isNotNull: .not(.step(step, try inner(.isNull), isMissing: true))
            case .notEqual: .not(.step(step, try inner(.equal), isMissing: false))
            default: .step(step, try inner(comparison), isMissing: false)
            }
        }
    }

    private func position(of name: String) throws -> Int {
        try entity.position(of: name).orThrow(
            StoreError(.unknownAttribute, entity.lacks(name), ObjectFacts(entity.name, [name])))
    }

    /// For the objects that an attribute refers to.
    private func target(of position: Int) throws -> ConditionTranslator {
        let name = entity.attributes[position]
        guard entity.types[position].isReference else {
            throw refusal("“\(name)” of “\(entity.name)” does not refer to objects, so no name can follow it.", name)
        }
        let target = try snapshot.target(of: entity, at: position).orThrow(
            refusal(
                "“\(name)” of “\(entity.name)” may refer to objects of any entity, so their attributes are unknown: "
                    + "compare the reference itself.", name))
        return try ConditionTranslator(snapshot, target)
    }

    private func refusal(_ message: String, _ attribute: String) -> StoreError {
        StoreError(.invalidArgument, message, ObjectFacts(entity.name, [attribute]))
    }

    /// - Parameter asked: The entity at which the path begins.
    private func test(
        _ position: Int, _ comparison: WrittenComparison, _ written: [WrittenValue], _ asked: EntityHandle,
        _ path: [String]
    ) throws -> Condition {
        let (name, type) = (entity.attributes[position], entity.types[position])
        guard comparison.fits(type) else {
            let others = WrittenComparison.allCases.filter { $0.fits(type) }.map(\.rawValue).joined(separator: ", ")
            throw refusal(
                "“\(name)” of “\(entity.name)” has the type \(type), which does not support "
                    + "“\(comparison.rawValue)”. It supports: \(others).", name)
        }
        let values = try written.map { try value($0, type.isObjectList ? .object : type, asked, path) }
        func made(_ comparison: PropertyTest.Comparison) -> Condition {
            if type == .decimal, comparison != .isNull { return decimalTest(position, comparison, values) }
            return .test(PropertyTest(of: entity, position, comparison, values))
        }
        return switch comparison {
        case .equal: made(.equal)
        case .notEqual: .not(made(.equal))
        case .less: made(.less)
        case .lessOrEqual: made(.lessOrEqual)
        case .greater: made(.greater)
        case .greaterOrEqual: made(.greaterOrEqual)
        case .oneOf: made(.oneOf)
        case .contains: made(type.isObjectList ? .hasElement : .contains)
        case .startsWith: made(.startsWith)
        case .isNull: made(.isNull)
        case .isNotNull: .not(made(.isNull))
        }
    }

    private func value(
        _ written: WrittenValue, _ type: AttributeType, _ asked: EntityHandle, _ path: [String]
    ) throws -> Value {
        let json = written.json
        if type == .date, case .string(let text) = json, let date = DateText.moment(text) { return .date(date) }
        if let value = ValueConversion.value(json, as: type) { return value }
        // In version=1.20 the word is a text if the attribute is.
        if type == .string, let word = written.word { return .string(word) }
        throw ToolFailure(
            "“\(path.joined(separator: "."))” of “\(asked.name)” has the type \(type), but the value "
                + "\(JSONText.text(json)) does not.")
    }

    /// Decimals are compared as numbers, which rows do not decide.
    private func decimalTest(_ position: Int, _ comparison: PropertyTest.Comparison, _ values: [Value]) -> Condition {
        let (snapshot, entity) = (snapshot, entity)
        let constants = ConstantSet(values)
        let constant = values.first?.decimal
        let test = Condition.Evaluation { object in
            var value: Decimal?
            _ = try snapshot.withRow(object, in: entity) { (row) throws(StoreError) in
                value = try row.value(at: position).decimal
            }
            guard let value, let constant else { return false }
            return switch comparison {
            case .less: value < constant
            case .lessOrEqual: value <= constant
            case .greater: value > constant
            case .greaterOrEqual: value >= constant
            default: constants.contains(.decimal(value))
            }
        } title: {
            entity.attributes[position]
        }
        return .evaluated(test)
    }

    /// The columns of a sort. A name after “-” is descending.
    func columns(_ keys: [String]) throws -> [SortColumn] {
        try keys.map { key in
            let isDescending = key.hasPrefix("-")
            let name = isDescending ? String(key.dropFirst()) : key
            let position = try position(of: name)
            let type = entity.types[position]
            guard !type.isObjectList, type != .json else {
                throw refusal("“\(name)” of “\(entity.name)” has no order: sort by another attribute.", name)
            }
            return SortColumn(of: entity, position, isDescending: isDescending)
        }
    }
}
