// `annals find STORE ENTITY`: prints the objects that satisfy a condition, through the same indexes as typed fetching.

internal import Annals

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

            Sorting puts null first, or last in descending order. Text is sorted by Unicode scalars. Without --sort,
            objects come in the order of their IDs, or in that of the index that finds them.

            With --as-of, entities and attributes have their present names. An attribute that was added since has its
            default, and one that was removed since comes last. “dump --as-of” has the names of that time.
            """, operands: ["STORE", "ENTITY"],
        options: [
            Option(
                "where", value: "CONDITION", isRepeatable: true, "only objects that satisfy this; several mean “and”"),
            Option("sort", value: "NAME,…", "the order; “-” before a name: descending"),
            Option("limit", value: "N", "at most N objects"),
            Option("offset", value: "N", "skip the first N objects"),
            Option("columns", value: "NAME,…", "only these attributes, in this order"),
            Option("count", "prints only the number of objects"),
            Option("explain", "prints only how the objects are found"), .asOf,
            .format("table (the default on a terminal), jsonl, json (one array) or csv"), .bare,
        ]
    ) { arguments, output in
        let formats = ["jsonl", "json", "csv", "table"]
        let name = try arguments.format(output.isTerminal ? formats.reversed() : formats)
        let format = ObjectPrinter.Format(rawValue: name) ?? .jsonl
        let place = try arguments.place(of: "as-of")
        if arguments.has("count"), arguments.has("explain") {
            throw arguments.refusal("“--count” and “--explain” cannot be given together.")
        }
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
        let sort = try translator.columns(sortKeys(arguments.value(of: "sort")))
        var fetch = try FetchRun(snapshot, condition, sort, of: entity, limit: limit, offset: offset)
        try output.begin(arguments, isLong: format == .table && !arguments.has("count"))
        if arguments.has("count") {
            try output.line("\(try fetch.count())")
        } else if arguments.has("explain") {
            let explanation = try fetch.explain().description
            for line in explanation.split(separator: "\n") { try output.line(String(line)) }
        } else {
            var printer = try ObjectPrinter(
                entity, format, isBare: arguments.has("bare"), columns: columns,
                labels: format == .table ? try Labels(snapshot) : nil, output)
            try fetch.forEachRowView { row in printer.print(row) }
            try printer.finish()
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

    private static func sortKeys(_ text: String?) -> [(attribute: String, isDescending: Bool)] {
        names(text).map { $0.hasPrefix("-") ? (String($0.dropFirst()), true) : ($0, false) }
    }

    private static func positions(_ names: [String], of entity: EntityHandle) throws -> [Int] {
        var positions: [Int] = []
        for name in names {
            guard let position = entity.position(of: name) else { throw ToolFailure(.failed, entity.lacks(name)) }
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
