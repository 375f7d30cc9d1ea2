// `annals info STORE`: prints facts about a store, its schema, and the content of its file.

internal import Annals
internal import FoundationEssentials

extension Command {
    static let info = Command(
        "info", "Prints what a store contains and what takes its space.", operands: ["STORE"],
        options: [.textOrJSON], run: InfoCommand.run)
}

enum InfoCommand {
    private struct Facts {
        let path: String
        let identifier: String
        let token: HistoryToken
        let durable: HistoryToken
        let statistics: StoreStatistics
        let entities: [EntityDescription]
        let horizon: UInt64
        let retention: Store.Retention
        let consumers: [Consumer]

        init(_ store: Store) throws {
            let snapshot = try store.snapshot()
            (path, identifier, token) = (store.path, store.identifier.uuidString.lowercased(), snapshot.token)
            (durable, statistics, entities) = (try store.durableToken, try store.statistics, try snapshot.entities)
            (horizon, retention, consumers) = (try store.horizon, try store.retention, try store.consumers)
        }
    }

    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(["text", "json"], for: .info)
        let facts = try StoreAccess.with(arguments.operands[0], .readOnly) { try Facts($0) }
        if format == "json" { try output.data(json(facts)) } else { try text(facts, &output) }
    }

    // MARK: Text

    private static func text(_ facts: Facts, _ output: inout Output) throws {
        let statistics = facts.statistics
        try output.line("\(facts.path): store \(facts.identifier)")
        try output.line("\(String(grouped: statistics.fileBytes)) bytes, the end at \(statistics.endBytes)")
        try output.line(
            "\(statistics.transactions) transactions, the last \(facts.token.number), durable to "
                + "\(facts.durable.number)")
        try output.line("token \(facts.token)")
        try output.line(
            "history begins after transaction \(facts.horizon), and is kept for "
                + "\(RetentionCommand.text(facts.retention))")
        try output.line()
        let entities = facts.entities.map { entity in
            let counts = [statistics.objects[entity.name] ?? 0, UInt64(entity.attributes.count)]
            return [entity.name] + counts.map { String(grouped: $0) } + [entity.history.rawValue]
        }
        try output.table(["entity", "#objects", "#attributes", "history"], entities)
        if !facts.consumers.isEmpty {
            try output.line()
            try ConsumersCommand.table(facts.consumers, &output)
        }
        try output.line()
        try output.table(["space", "#bytes, about"], uses(statistics.space).map { [$0.0, String(grouped: $0.1)] })
        try output.line()
        try output.table(["frames", "#bytes"], kinds(statistics).map { [$0.kind, String(grouped: $0.bytes)] })
        if isCompactionDue(statistics) {
            try output.line()
            try output.line(
                "compaction is due: a program that writes to the store compacts it after a while; without such a "
                    + "program, run “annals compact”, which compacts it or reports why it fails")
        }
    }

    /// The approximate use of the space, in words.
    private static func uses(_ space: StoreStatistics.Space) -> [(String, UInt64)] {
        [
            ("live rows", space.liveBytes), ("history", space.historyBytes), ("garbage", space.garbageBytes),
            ("indexes", space.indexBytes), ("free space", space.freeBytes),
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
        var frames = JSONLine()
        for (kind, count) in kinds(statistics) { frames.add(kind, count) }
        let space: JSONLine = [
            "live": statistics.space.liveBytes, "history": statistics.space.historyBytes,
            "garbage": statistics.space.garbageBytes, "index": statistics.space.indexBytes,
            "free": statistics.space.freeBytes,
        ]
        return [
            "store": facts.path, "identifier": facts.identifier, "fileBytes": statistics.fileBytes,
            "end": statistics.endBytes, "transactions": statistics.transactions, "number": facts.token.number,
            "token": facts.token.description, "durableToken": facts.durable.description,
            "entities": facts.entities.map { json($0, objects: statistics.objects[$0.name] ?? 0) },
            "frameBytes": frames, "space": space, "compactionDue": isCompactionDue(statistics),
            "horizon": facts.horizon, "retention": RetentionCommand.json(facts.retention),
            "consumers": facts.consumers.map(ConsumersCommand.json),
        ]
    }

    private static func json(_ entity: EntityDescription, objects: UInt64) -> JSONLine {
        ["name": entity.name, "objects": objects, "history": entity.history.rawValue] + SchemaCommand.parts(of: entity)
    }
}
