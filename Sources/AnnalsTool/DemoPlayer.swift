// One of the two processes of `annals demo`: it waits for the other, prints what it sees, and answers.

internal import Annals

enum DemoRole: String {
    case app
    case `extension`
}

/// Each process answers what the other has written. The answer and the place up to which it has read are one
/// transaction, so each answers exactly once.
///
/// The extension begins: it inserts a clip. The application changes the title, the extension sees that and inserts the
/// next clip, and so on. At the end the application writes many transactions without waiting, and a last one that says
/// goodbye.
struct DemoPlayer {
    private let role: DemoRole
    private let store: Store
    private let watcher: ChangeWatcher

    init(_ role: DemoRole, _ path: String) throws(ToolFailure) {
        let clip = EntityDescription(
            "Clip",
            attributes: [
                AttributeDescription("title", .string, isOptional: false, defaultValue: ""),
                AttributeDescription("url", .string, isUnique: true, isPreservedOnDeletion: true),
                AttributeDescription("rank", .int, isIndexed: true),
            ])
        var options = Store.Options()
        options.reading = .copied
        options.durability = .relaxed
        self.role = role
        // The first process creates the store.
        (store, watcher) = try storing {
            let store = try Store(at: path, entities: [clip], options: options)
            guard try store.consumer(role.rawValue) == nil else {
                throw StoreError(
                    .alreadyExists, "The \(role.rawValue) has run on this store before: use a new one.",
                    path: path)
            }
            let consumer = try store.registerConsumer(role.rawValue, kind: [.reads, .writes], at: .oldest)
            return (store, try store.changeWatcher(after: consumer.cursor, excluding: [role.rawValue]))
        }
    }

    func play(_ output: inout Output) throws(ToolFailure) {
        defer { try? store.close() }
        var cursor = try storing {
            guard let consumer = try store.consumer(role.rawValue) else {
                throw StoreError(.consumerUnknown, "The consumer that was registered is gone.")
            }
            return consumer.cursor
        }
        if role == .extension { try insert(1, cursor, cursor, &output) }
        for round in 1...DemoCommand.rounds {
            let seen = try follow(cursor, &output)
            switch role {
            case .app:
                try say("changes the title of clip \(round)", &output)
                try answer(seen, "title", .string("clip \(round), seen by the app"), &cursor)
            case .extension where round < DemoCommand.rounds:
                let from = cursor
                cursor = seen.token
                try insert(round + 1, from, cursor, &output)
            case .extension:
                try say("changes the rank of clip \(round)", &output)
                try answer(seen, "rank", .int(100), &cursor)
            }
        }
        if role == .app {
            try move(&cursor, to: try follow(cursor, &output).token)
            try hurry(&output)
        } else {
            try seeHurry(&cursor, &output)
        }
        try move(&cursor, to: try storing { try store.currentToken })
        try storing { try store.close() }
    }

    // MARK: Writing

    private func say(_ sentence: String, _ output: inout Output) throws(ToolFailure) {
        try output.line(role.rawValue.padded(to: 9) + "  " + sentence)
        try output.finish()
    }

    private func commit(
        _ context: String, _ from: HistoryToken, _ to: HistoryToken, _ body: (Transaction) throws -> Void
    ) throws(ToolFailure) {
        try storing {
            _ = try store.commit(author: role.rawValue, contextName: context) { transaction in
                try body(transaction)
                try transaction.advanceConsumer(role.rawValue, from: from, to: to)
            }
        }
    }

    private func insert(
        _ number: Int, _ from: HistoryToken, _ to: HistoryToken, _ output: inout Output
    ) throws(ToolFailure) {
        try say("inserts clip \(number)", &output)
        try commit("clip", from, to) { transaction in
            try transaction.insert(
                "Clip",
                [
                    "title": .string("clip \(number)"), "url": .string("https://example.org/\(number)"),
                    "rank": .int(Int64(number)),
                ])
        }
    }

    /// Changes the object that was just seen.
    private func answer(
        _ seen: HistoryTransaction, _ attribute: String, _ value: Annals::Value, _ cursor: inout HistoryToken
    ) throws(ToolFailure) {
        guard let object = seen.changes.first?.object else {
            throw ToolFailure(.failed, "The other process has written nothing.")
        }
        try commit("answer", cursor, seen.token) { transaction in
            _ = try transaction.update(object, [attribute: value])
        }
        cursor = seen.token
    }

    /// Writes many transactions without waiting.
    private func hurry(_ output: inout Output) throws(ToolFailure) {
        let count = DemoCommand.burst
        try say("changes a rank \(count) times", &output)
        let object = try storing { try store.snapshot().rows(of: "Clip").first?.id }
        guard let object else { throw ToolFailure(.failed, "There are no clips.") }
        try storing {
            for rank in 1...count {
                try store.commit(author: role.rawValue, contextName: rank == count ? "goodbye" : "burst") {
                    transaction in
                    _ = try transaction.update(object, ["rank": .int(Int64(1000 + rank))])
                }
            }
        }
    }

    private func move(_ cursor: inout HistoryToken, to token: HistoryToken) throws(ToolFailure) {
        let from = cursor
        try storing { try store.advanceConsumer(role.rawValue, from: from, to: token) }
        cursor = token
    }

    // MARK: Reading

    private func next() throws(ToolFailure) -> ChangeSignal {
        let signal = try storing { try watcher.next(timeout: .seconds(30)) }
        guard let signal else { throw ToolFailure(.failed, "The other process has written nothing for 30 seconds.") }
        return signal
    }

    /// Returns what the other has written after `cursor`: one transaction.
    private func follow(_ cursor: HistoryToken, _ output: inout Output) throws(ToolFailure) -> HistoryTransaction {
        while true {
            _ = try next()
            let delay = RealEnvironment().wallClockMicroseconds()
            let request = HistoryRequest(after: .token(cursor), excludedAuthors: [role.rawValue, nil])
            let transactions = try storing { try store.history(request) }
            guard let transaction = transactions.first else { continue }
            try DemoCommand.expect(transactions.count == 1, "The other process did not wait for an answer.")
            let changes = transaction.changes.map { change in
                let attributes = change.attributes.isEmpty ? "" : " (\(change.attributes.joined(separator: ", ")))"
                return "\(change.kind.rawValue) \(change.entity) \(change.object)\(attributes)"
            }
            try say(
                "sees: \(changes.joined(separator: ", ")) by \(transaction.author ?? "nobody"), after "
                    + "\(delay - transaction.microseconds) µs", &output)
            return transaction
        }
    }

    /// Many transactions come as few signals, and none is missed.
    private func seeHurry(_ cursor: inout HistoryToken, _ output: inout Output) throws(ToolFailure) {
        var (transactions, signals) = (0, 0)
        var delay: Int64 = 0
        var isOver = false
        while !isOver {
            _ = try next()
            signals += 1
            let now = RealEnvironment().wallClockMicroseconds()
            let request = HistoryRequest(after: .token(cursor), excludedAuthors: [role.rawValue, nil])
            let news = try storing { try store.history(request) }
            guard let last = news.last else { continue }
            transactions += news.count
            delay = now - last.microseconds
            isOver = last.contextName == "goodbye"
            try move(&cursor, to: last.token)
        }
        try say("sees: \(transactions) transactions in \(signals) signals, the last after \(delay) µs", &output)
        try DemoCommand.expect(transactions == DemoCommand.burst, "Transactions were missed.")
    }
}

extension String {
    func padded(to width: Int) -> String { self + String(repeating: " ", count: Swift.max(0, width - count)) }
}
