// `annals info STORE` prints facts about a store, its schema, and the content of its file. `annals consumers STORE`
// lists the readers of the store's history and their places, and changes them by hand.

internal import Annals
internal import FoundationEssentials

enum ConsumersCommand {
    static let command = Command(
        "consumers", "Lists the consumers of history and their places; registers, moves and removes them.",
        details: """
            Cleaning waits for registered readers, as long as retention allows. If cleaning has passed a reader, it
            is lost: it must read everything again, and then be moved to that place with --advance. TOKEN is a token
            or the number of a transaction: the last one that the consumer has read. Without TOKEN, a new consumer
            has read everything. A consumer that is registered already keeps its place. Work of a tracker's
            observers that has failed and is parked is listed with their consumer.
            """, operands: ["STORE", "[TOKEN]"],
        options: [
            Option("register", value: "NAME", "registers a reader"),
            Option("advance", value: "NAME", "moves a consumer to TOKEN, forward or back"),
            Option("remove", value: "NAME", "removes a consumer: cleaning no longer waits for it"), .jsonOrText,
        ]
    ) { arguments, output in
        let refusal = arguments.refusal
        let action = try arguments.onlyOne(of: ["register", "advance", "remove"])
        let place = try arguments.operands.dropFirst().first.map { try HistoryPlace($0, "TOKEN", arguments.command) }
        if place == nil, action == "advance" {
            throw refusal("--advance needs the TOKEN of the last transaction that the consumer has read.")
        }
        if place != nil, action == nil || action == "remove" { throw refusal("A TOKEN needs --advance or --register.") }
        let access: Store.Access = action == nil ? .readOnly : .readWrite
        let listed = try StoreAccess.with(arguments.operands[0], access) { store in
            let (name, token) = (action.flatMap(arguments.value) ?? "", try place.map(store.token))
            return try perform(action, name, token, store).map { ($0, try store.parkedWork(ofConsumer: $0.name)) }
        }
        output.hasChanges = access == .readWrite
        if output.isJSON {
            for (consumer, parked) in listed { output.data(json(consumer, parked: parked)) }
            return
        }
        table(listed.map(\.0), output)
        for (consumer, parked) in listed {
            for work in parked { output.line("\(consumer.name): \(text(work))") }
            if consumer.isLost {
                output.line("\(consumer.name): cleaning has passed it; it must read everything again")
            }
        }
    }

    private static func perform(
        _ action: String?, _ name: String, _ token: HistoryToken?, _ store: Store
    ) throws -> [Consumer] {
        switch (action, token) {
        case ("register", _): return [try store.registerConsumer(name, at: token)]
        case ("advance", let token?): return [try store.resetConsumer(name, to: token)]
        case ("remove", _):
            guard try store.removeConsumer(name) else { throw ToolFailure("No consumer “\(name)” is registered.") }
            return []
        default: return try store.consumers
        }
    }

    static func table(_ consumers: [Consumer], _ output: Output) {
        let rows = consumers.map { consumer in
            [
                consumer.name, kinds(consumer).joined(separator: ", "), String(consumer.cursor.number),
                consumer.isLost ? "lost" : String(consumer.lag), Timestamp.local(consumer.lastSeen),
                String(consumer.processID),
            ]
        }
        output.table(["consumer", "kind", "#place", "#behind", "last seen", "#process"], rows)
    }

    static func text(_ consumer: Consumer) -> String {
        let state =
            consumer.isLost
            ? "lost: cleaning has passed it" : consumer.lag == 0 ? "up to date" : "\(consumer.lag) behind"
        return consumer.name
            + ": \(kinds(consumer).joined(separator: " and ")), at transaction \(consumer.cursor.number), \(state); "
            + "last seen \(Timestamp.text(consumer.lastSeen)) in process \(consumer.processID)"
    }

    private static func text(_ work: ParkedWork) -> String {
        "parked: “\(work.name ?? work.body.rawValue)”, transactions \(work.transactions.lowerBound) to "
            + "\(work.transactions.upperBound), after \(work.attempts) attempts: \(work.error)"
    }

    private static func json(_ work: ParkedWork) -> JSONLine {
        [
            "name": work.name ?? work.body.rawValue, "first": work.transactions.lowerBound,
            "last": work.transactions.upperBound, "attempts": work.attempts, "error": work.error,
        ]
    }

    fileprivate static func json(_ consumer: Consumer, parked: [ParkedWork] = []) -> JSONLine {
        let line: JSONLine = [
            "name": consumer.name, "kind": kinds(consumer), "number": consumer.cursor.number,
            "token": consumer.cursor.description, "lag": consumer.lag, "lost": consumer.isLost,
            "lastSeen": Timestamp.text(consumer.lastSeen), "registered": Timestamp.text(consumer.registered),
            "processID": consumer.processID,
        ]
        return parked.isEmpty ? line : line + ["parked": parked.map(json)]
    }

    static func kinds(_ consumer: Consumer) -> [String] {
        [(Consumer.Kind.reads, "reads"), (.writes, "writes"), (.holds, "holds")]
            .filter { consumer.kind.contains($0.0) }.map(\.1)
    }
}

extension Consumer: JSONPart { var json: String { ConsumersCommand.json(self).json } }

/// The state of a store, for `info` and `report`.
struct StoreFacts {
    let (path, identifier): (String, String)
    let snapshot: Snapshot
    let (token, durable): (HistoryToken, HistoryToken)
    let statistics: StoreStatistics
    let entities: [EntityDescription]
    let horizon: UInt64
    let retention: Store.Retention
    let consumers: [Consumer]

    init(_ store: Store) throws {
        snapshot = try store.snapshot()
        (path, identifier) = (store.path, store.identifier.uuidString.lowercased())
        (token, durable) = (snapshot.token, try store.durableToken)
        (statistics, entities) = (try store.statistics, try snapshot.entities)
        (horizon, retention, consumers) = (try store.horizon, try store.retention, try store.consumers)
    }
}

enum InfoCommand {
    static let command = Command(
        "info", "Prints what a store contains and what takes its space.", operands: ["STORE"], options: [.textOrJSON]
    ) { arguments, output in
        let facts = try StoreAccess.with(arguments.operands[0], .readOnly) { try StoreFacts($0) }
        if output.isJSON { output.data(json(facts)) } else { text(facts, output) }
    }

    private static func text(_ facts: StoreFacts, _ output: Output) {
        let statistics = facts.statistics
        output.line("\(facts.path): store \(facts.identifier)")
        output.line("\(String(grouped: statistics.fileBytes)) bytes, the end at \(statistics.endBytes)")
        output.line(
            "\(statistics.transactions) transactions, the last \(facts.token.number), durable to "
                + "\(facts.durable.number)")
        output.line("token \(facts.token)")
        output.line(
            "history begins after transaction \(facts.horizon), and is kept for "
                + "\(RetentionCommand.text(facts.retention))")
        output.line()
        let entities = facts.entities.map { entity in
            let counts = [statistics.objects[entity.name] ?? 0, UInt64(entity.attributes.count)]
            return [entity.name] + counts.map { String(grouped: $0) } + [entity.history.rawValue]
        }
        output.table(["entity", "#objects", "#attributes", "history"], entities)
        if !facts.consumers.isEmpty {
            output.line()
            ConsumersCommand.table(facts.consumers, output)
        }
        output.line()
        output.table(["space", "#bytes, about"], uses(statistics.space).map { [$0.name, String(grouped: $0.bytes)] })
        output.line()
        output.table(["frames", "#bytes"], kinds(statistics).map { [$0.kind, String(grouped: $0.bytes)] })
        if isCompactionDue(statistics) {
            output.line()
            output.line(
                "compaction is due: a program that writes to the store compacts it after a while; without such a "
                    + "program, run “annals compact”, which compacts it or reports why it fails")
        }
    }

    /// Each with its name in JSON.
    private static func uses(_ space: StoreStatistics.Space) -> [(key: String, name: String, bytes: UInt64)] {
        [
            ("live", "live rows", space.liveBytes), ("history", "history", space.historyBytes),
            ("garbage", "garbage", space.garbageBytes), ("index", "indexes", space.indexBytes),
            ("free", "free space", space.freeBytes),
        ]
    }

    /// Whether programs with standard options compact the store.
    static func isCompactionDue(_ statistics: StoreStatistics) -> Bool {
        let standard = Store.AutomaticCompaction()
        return statistics.endBytes >= standard.minimumBytes
            && Double(statistics.space.garbageBytes) >= Double(statistics.endBytes) * standard.garbage
    }

    static func kinds(_ statistics: StoreStatistics) -> [(kind: String, bytes: UInt64)] {
        statistics.bytesByKind.filter { $0.value > 0 }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private static func json(_ facts: StoreFacts) -> JSONLine {
        let statistics = facts.statistics
        let frames = JSONLine(kinds(statistics).map { ($0.kind, $0.bytes) })
        let space = JSONLine(uses(statistics.space).map { ($0.key, $0.bytes) })
        return [
            "store": facts.path, "identifier": facts.identifier, "fileBytes": statistics.fileBytes,
            "end": statistics.endBytes, "transactions": statistics.transactions, "number": facts.token.number,
            "token": facts.token.description, "durableToken": facts.durable.description,
            "entities": facts.entities.map { json($0, objects: statistics.objects[$0.name] ?? 0) },
            "frameBytes": frames, "space": space, "compactionDue": isCompactionDue(statistics),
            "horizon": facts.horizon, "retention": RetentionCommand.json(facts.retention), "consumers": facts.consumers,
        ]
    }

    private static func json(_ entity: EntityDescription, objects: UInt64) -> JSONLine {
        ["name": entity.name, "objects": objects, "history": entity.history.rawValue] + SchemaCommand.parts(of: entity)
    }
}
