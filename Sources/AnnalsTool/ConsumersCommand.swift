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
            Option("remove", value: "NAME", "removes a consumer: cleaning no longer waits for it"),
            Option("format", value: "FORMAT", "json, or text (the default on a terminal)"),
        ], run: ConsumersCommand.run)
}

enum ConsumersCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let format = try arguments.format(output.isTerminal ? ["text", "json"] : ["json", "text"], for: .consumers)
        let action = try action(arguments)
        let access: Store.Access = if case .list = action { .readOnly } else { .readWrite }
        let listed = try StoreAccess.with(arguments.operands[0], access) { (store) throws(ToolFailure) in
            try storing { try perform(action, store) }
        }
        if case .remove(let name) = action, listed == nil {
            throw ToolFailure(.failed, "No consumer “\(name)” is registered.")
        }
        output.hasChanges = access == .readWrite
        if format == "json" {
            for (consumer, parked) in listed ?? [] { try output.line(json(consumer, parked: parked).text) }
            return .done
        }
        var table = Table(["consumer", "kind", "#place", "#behind", "last seen", "#process"])
        for (consumer, _) in listed ?? [] {
            try table.add(
                [
                    consumer.name, kinds(consumer).joined(separator: ", "), String(consumer.cursor.number),
                    consumer.isLost ? "lost" : String(consumer.lag),
                    Timestamp.local(ValueConversion.microseconds(consumer.lastSeen)), String(consumer.processID),
                ], &output)
        }
        try table.show(&output)
        for (consumer, parked) in listed ?? [] {
            for work in parked { try output.line("\(consumer.name): \(text(work))") }
            if consumer.isLost {
                try output.line("\(consumer.name): cleaning has passed it; it must read everything again")
            }
        }
        return .done
    }

    private enum Action {
        case list
        case register(String, HistoryPlace?)
        case advance(String, HistoryPlace)
        case remove(String)
    }

    private static func action(_ arguments: Arguments) throws(ToolFailure) -> Action {
        func refusal(_ message: String) -> ToolFailure {
            ToolFailure(.usage, message, hint: "Try: annals help consumers")
        }
        let names = ["register", "advance", "remove"].filter { arguments.has($0) }
        guard names.count <= 1 else { throw refusal("--\(names[0]) and --\(names[1]) cannot be given together.") }
        var place: HistoryPlace?
        if arguments.operands.count > 1 {
            place = try HistoryPlace(arguments.operands[1], operand: "TOKEN", for: .consumers)
        }
        if let name = arguments.value(of: "register") { return .register(name, place) }
        if let name = arguments.value(of: "advance") {
            guard let place else {
                throw refusal(
                    "--advance needs the TOKEN of the last transaction that the consumer has read.")
            }
            return .advance(name, place)
        }
        guard place == nil else {
            throw refusal("A TOKEN needs --advance or --register.")
        }
        return arguments.value(of: "remove").map(Action.remove) ?? .list
    }

    /// The consumers to print; nil if nothing was to remove.
    private static func perform(_ action: Action, _ store: Store) throws -> [(Consumer, [ParkedWork])]? {
        try consumers(action, store)?.map { consumer in (consumer, try store.parkedWork(ofConsumer: consumer.name)) }
    }

    private static func consumers(_ action: Action, _ store: Store) throws -> [Consumer]? {
        switch action {
        case .list: return try store.consumers
        case .register(let name, let place):
            var token: HistoryToken?
            if let place { token = try store.token(of: place) }
            return [try store.registerConsumer(name, at: token)]
        case .advance(let name, let place): return [try store.resetConsumer(name, to: try store.token(of: place))]
        case .remove(let name): return try store.removeConsumer(name) ? [] : nil
        }
    }

    // MARK: One consumer

    static func text(_ consumer: Consumer) -> String {
        let state =
            consumer.isLost
            ? "lost: cleaning has passed it" : consumer.lag == 0 ? "up to date" : "\(consumer.lag) behind"
        return consumer.name
            + ": \(kinds(consumer).joined(separator: " and ")), at transaction \(consumer.cursor.number), \(state); "
            + "last seen "
            + "\(time(consumer.lastSeen)) in process \(consumer.processID)"
    }

    private static func text(_ work: ParkedWork) -> String {
        "parked: “\(work.name ?? work.body.rawValue)”, transactions \(work.transactions.lowerBound) to "
            + "\(work.transactions.upperBound), after \(work.attempts) attempts: \(work.error)"
    }

    private static func json(_ work: ParkedWork) -> String {
        var line = JSONLine()
        line.add("name", work.name ?? work.body.rawValue)
        line.add("first", work.transactions.lowerBound)
        line.add("last", work.transactions.upperBound)
        line.add("attempts", UInt64(work.attempts))
        line.add("error", work.error)
        return line.text
    }

    static func json(_ consumer: Consumer) -> JSONLine { json(consumer, parked: []) }

    private static func json(_ consumer: Consumer, parked: [ParkedWork]) -> JSONLine {
        var line = JSONLine()
        line.add("name", consumer.name)
        line.addRaw("kind", "[" + kinds(consumer).map(JSONText.string).joined(separator: ",") + "]")
        line.add("number", consumer.cursor.number)
        line.add("token", consumer.cursor.description)
        line.add("lag", consumer.lag)
        line.add("lost", consumer.isLost)
        line.add("lastSeen", time(consumer.lastSeen))
        line.add("registered", time(consumer.registered))
        line.add("processID", UInt64(consumer.processID))
        if !parked.isEmpty { line.addRaw("parked", "[" + parked.map { json($0) }.joined(separator: ",") + "]") }
        return line
    }

    static func kinds(_ consumer: Consumer) -> [String] {
        [(Consumer.Kind.reads, "reads"), (.writes, "writes"), (.holds, "holds")]
            .filter { consumer.kind.contains($0.0) }.map(\.1)
    }

    private static func time(_ date: Date) -> String {
        Timestamp.text(ValueConversion.microseconds(date))
    }
}
