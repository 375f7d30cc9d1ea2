// `annals info STORE`: prints facts about a store, its schema, and the content of its file.

internal import Annals
internal import FoundationEssentials

extension Command {
    static let info = Command(
        "info", "Prints what a store contains and what takes its space.", operands: ["STORE"],
        options: [Option("format", value: "FORMAT", "text (the default), or json: one JSON object")],
        run: InfoCommand.run)
}

enum InfoCommand {
    private struct Facts {
        var path: String
        var identifier: String
        var token: HistoryToken
        var durable: HistoryToken
        var statistics: StoreStatistics
        var entities: [EntityDescription]
        var horizon: UInt64
        var retention: Store.Retention
        var consumers: [Consumer]
    }

    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(["text", "json"], for: .info)
        let store = try StoreAccess.open(arguments.operands[0], .readOnly)
        defer { try? store.close() }
        let facts = try storing {
            let snapshot = try store.snapshot()
            return Facts(
                path: store.path, identifier: store.identifier.uuidString.lowercased(), token: snapshot.token,
                durable: try store.durableToken, statistics: try store.statistics, entities: try snapshot.entities,
                horizon: try store.horizon, retention: try store.retention, consumers: try store.consumers)
        }
        if format == "json" { try output.line(json(facts).text) } else { try text(facts, &output) }
        return .done
    }

    // MARK: Text

    private static func text(_ facts: Facts, _ output: inout Output) throws(ToolFailure) {
        let statistics = facts.statistics
        try output.line("\(facts.path): store \(facts.identifier)")
        try output.line("\(statistics.fileBytes) bytes, the end at \(statistics.endBytes)")
        try output.line(
            "\(statistics.transactions) transactions, the last \(facts.token.number), durable to "
                + "\(facts.durable.number)"
        )
        try output.line("token \(facts.token)")
        try output.line(
            "history begins after transaction \(facts.horizon), and is kept for "
                + "\(RetentionCommand.text(facts.retention))"
        )
        for consumer in facts.consumers { try output.line("consumer " + ConsumersCommand.text(consumer)) }
        for entity in facts.entities {
            let history = entity.history == .off ? ", history off" : ""
            try output.line("\(entity.name): \(statistics.objects[entity.name] ?? 0) objects" + history)
            for line in SchemaCommand.lines(entity) { try output.line(line) }
        }
        for (use, bytes) in uses(statistics.space) {
            try output.line(String(bytes).leftPadded(to: 16) + " bytes of \(use)")
        }
        if isCompactionDue(statistics) {
            try output.line(
                "compaction is due: a program that writes to the store compacts it after a while; without such a "
                    + "program, run “annals compact”, which compacts it or reports why it fails")
        }
        for (kind, bytes) in kinds(statistics) {
            try output.line(String(bytes).leftPadded(to: 16) + " bytes of \(kind) frames")
        }
    }

    /// The approximate use of the space, in words.
    private static func uses(_ space: StoreStatistics.Space) -> [(String, UInt64)] {
        [
            ("live rows, about", space.liveBytes), ("history, about", space.historyBytes),
            ("garbage, about", space.garbageBytes), ("indexes, about", space.indexBytes),
            ("free space", space.freeBytes),
        ]
    }

    /// Whether programs with standard options compact the store.
    static func isCompactionDue(_ statistics: StoreStatistics) -> Bool {
        let standard = Store.AutomaticCompaction()
        return statistics.endBytes >= standard.minimumBytes
            && Double(statistics.space.garbageBytes) >= Double(statistics.endBytes) * standard.garbage
    }

    /// The kinds of frames in the file, by name.
    static func kinds(_ statistics: StoreStatistics) -> [(kind: String, bytes: UInt64)] {
        statistics.bytesByKind.filter { $0.value > 0 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    // MARK: JSON

    private static func json(_ facts: Facts) -> JSONLine {
        let statistics = facts.statistics
        var line = JSONLine()
        line.add("store", facts.path)
        line.add("identifier", facts.identifier)
        line.add("fileBytes", statistics.fileBytes)
        line.add("end", statistics.endBytes)
        line.add("transactions", statistics.transactions)
        line.add("number", facts.token.number)
        line.add("token", facts.token.description)
        line.add("durableToken", facts.durable.description)
        line.add("entities", facts.entities.map { json($0, objects: statistics.objects[$0.name] ?? 0) })
        var bytes = JSONLine()
        for (kind, count) in kinds(statistics) { bytes.add(kind, count) }
        line.add("frameBytes", bytes)
        var space = JSONLine()
        space.add("live", statistics.space.liveBytes)
        space.add("history", statistics.space.historyBytes)
        space.add("garbage", statistics.space.garbageBytes)
        space.add("index", statistics.space.indexBytes)
        space.add("free", statistics.space.freeBytes)
        line.add("space", space)
        line.add("compactionDue", isCompactionDue(statistics))
        line.add("horizon", facts.horizon)
        line.add("retention", RetentionCommand.json(facts.retention))
        line.add("consumers", facts.consumers.map(ConsumersCommand.json))
        return line
    }

    private static func json(_ entity: EntityDescription, objects: UInt64) -> JSONLine {
        var line = JSONLine()
        line.add("name", entity.name)
        line.add("objects", objects)
        line.add("history", entity.history.rawValue)
        SchemaCommand.addParts(of: entity, to: &line)
        return line
    }
}
