// `annals consumers STORE`: lists the readers of the store's history and their places, and changes them by hand.

internal import Annals
internal import FoundationEssentials

extension Command {
    static let consumers = Command(
        "consumers", "Lists the consumers of history and their places; registers, moves and removes them.",
        details: """
            Cleaning waits for registered readers, as long as retention allows. If cleaning has passed a reader, it
            is lost: it must read everything again, and then be moved to that place with --advance. TOKEN is a token
            or the number of a transaction: the last one that the consumer has read. Without TOKEN, a new consumer
            has read everything. A consumer that is registered already keeps its place. Work of a tracker's
            observers that has failed and is parked is listed with their consumer.
            """,
        operands: ["STORE", "[TOKEN]"],
        options: [
            Option("register", value: "NAME", "registers a reader"),
            Option("advance", value: "NAME", "moves a consumer to TOKEN, forward or back"),
            Option("remove", value: "NAME", "removes a consumer: cleaning no longer waits for it"), .jsonOrText,
        ], run: ConsumersCommand.run)
}

enum ConsumersCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(output.isTerminal ? ["text", "json"] : ["json", "text"], for: .consumers)
        let refusal = Command.consumers.refusal
        let actions = ["register", "advance", "remove"].filter { arguments.has($0) }
        guard actions.count <= 1 else { throw refusal("--\(actions[0]) and --\(actions[1]) cannot be given together.") }
        let action = actions.first
        let place = try arguments.operands.dropFirst().first.map { text in
            try HistoryPlace(text, operand: "TOKEN", for: .consumers)
        }
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
        if format == "json" {
            for (consumer, parked) in listed { try output.data(json(consumer, parked: parked)) }
            return
        }
        try table(listed.map(\.0), &output)
        for (consumer, parked) in listed {
            for work in parked { try output.line("\(consumer.name): \(text(work))") }
            if consumer.isLost {
                try output.line("\(consumer.name): cleaning has passed it; it must read everything again")
            }
        }
    }

    /// Returns the consumers to print.
    private static func perform(
        _ action: String?, _ name: String, _ token: HistoryToken?, _ store: Store
    ) throws -> [Consumer] {
        switch (action, token) {
        case ("register", _): return [try store.registerConsumer(name, at: token)]
        case ("advance", let token?): return [try store.resetConsumer(name, to: token)]
        case ("remove", _):
            guard try store.removeConsumer(name) else {
                throw ToolFailure(.failed, "No consumer “\(name)” is registered.")
            }
            return []
        default: return try store.consumers
        }
    }

    static func table(_ consumers: [Consumer], _ output: inout Output) throws {
        let rows = consumers.map { consumer in
            [
                consumer.name, kinds(consumer).joined(separator: ", "), String(consumer.cursor.number),
                consumer.isLost ? "lost" : String(consumer.lag), Timestamp.local(consumer.lastSeen),
                String(consumer.processID),
            ]
        }
        try output.table(["consumer", "kind", "#place", "#behind", "last seen", "#process"], rows)
    }

    // MARK: One consumer

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

    static func json(_ consumer: Consumer) -> JSONLine { json(consumer, parked: []) }

    private static func json(_ consumer: Consumer, parked: [ParkedWork]) -> JSONLine {
        var line: JSONLine = [
            "name": consumer.name, "kind": kinds(consumer).map(UTF8Text.init),
            "number": consumer.cursor.number, "token": consumer.cursor.description, "lag": consumer.lag,
            "lost": consumer.isLost, "lastSeen": Timestamp.text(consumer.lastSeen),
            "registered": Timestamp.text(consumer.registered), "processID": consumer.processID,
        ]
        if !parked.isEmpty { line.add("parked", parked.map { json($0) }) }
        return line
    }

    static func kinds(_ consumer: Consumer) -> [String] {
        [(Consumer.Kind.reads, "reads"), (.writes, "writes"), (.holds, "holds")]
            .filter { consumer.kind.contains($0.0) }.map(\.1)
    }
}
