// `annals retention STORE`: prints or changes the time for which the store keeps its history.

internal import Annals

extension Command {
    static let retention = Command(
        "retention", "Prints how long a store keeps its history, or changes that.",
        details: """
            History that is older than AGE, or takes more than BYTES, is cleaned by later commits of any process,
            even if consumers have not read it. The rows of existing objects do not count. AGE is a number followed
            by s, m, h, d or w, or one of: forever, standard (7 days or 1 GiB), none (no history). BYTES is a size such
            as 10MB or 1GiB; without it, any size is kept.

            With --entity, AGE is full or off: whether the history of this entity is kept. Off removes the entity's
            history, and requesting it is an error. If it is turned on again, it begins with the transaction that
            does so. The command prints how much would be lost. On a terminal it asks first, unless --yes is given.
            Entities whose history is off are always printed.
            """,
        operands: ["STORE", "[AGE]", "[BYTES]"],
        options: [
            Option("entity", value: "NAME", "set whether the history of this entity is kept: full or off"),
            Option("yes", "turn it off without asking"), .jsonOrText,
        ], run: RetentionCommand.run)
}

enum RetentionCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let format = try arguments.format(output.isTerminal ? ["text", "json"] : ["json", "text"], for: .retention)
        let entity = arguments.value(of: "entity")
        let policy = entity == nil ? nil : try policy(arguments)
        let wanted = entity == nil ? try retention(arguments) : nil
        let isChange = policy != nil || wanted != nil
        let (kept, off) = try StoreAccess.with(arguments.operands[0], isChange ? .readWrite : .readOnly) { store in
            if let wanted { try store.setRetention(wanted) }
            if let entity {
                let description = try store.snapshot().entities.first { ExactText($0.name) == ExactText(entity) }
                if policy == .off, description?.history == .full { try confirm(entity, store, arguments) }
                _ = try store.entity(entity)
                if let policy { try store.changeSchema([.changeEntity(entity, history: policy)]) }
            }
            return (try store.retention, try store.entities.filter { $0.history == .off }.map(\.name))
        }
        output.hasChanges = isChange
        if format == "json" { return try output.line((json(kept) + ["entitiesOff": off]).text) }
        try output.line("History is kept for \(text(kept)).")
        for name in off { try output.line("No history of \(name) is kept.") }
    }

    /// The policy for one entity; nil if it is only printed.
    private static func policy(_ arguments: Arguments) throws -> HistoryPolicy? {
        guard arguments.operands.count > 1 else { return nil }
        guard arguments.operands.count == 2, let policy = HistoryPolicy(rawValue: arguments.operands[1]) else {
            throw Command.retention.refusal(
                "The history of an entity is full or off, not "
                    + "“\(arguments.operands.dropFirst().joined(separator: " "))”.")
        }
        return policy
    }

    private static func retention(_ arguments: Arguments) throws -> Store.Retention? {
        let refusal = Command.retention.refusal
        let operands = arguments.operands
        guard operands.count > 1 else { return nil }
        let age = operands[1]
        let named: [String: Store.Retention] = ["forever": .forever, "standard": .standard, "none": .none]
        if operands.count == 2, let named = named[age] { return named }
        if named[age] != nil, age != "forever" { throw refusal("“\(age)” cannot be given with BYTES.") }
        let bytes = try operands.dropFirst(2).first.map { text in
            guard let bytes = Unit.bytes(text) else {
                throw refusal("BYTES is a size such as 10MB, 1GiB or 5000, not “\(text)”.")
            }
            return bytes
        }
        if age == "forever" { return Store.Retention(age: nil, bytes: bytes) }
        guard let whole = Unit.seconds(age) else {
            throw refusal("AGE is a number followed by s, m, h, d or w, or forever, standard or none, not “\(age)”.")
        }
        return Store.Retention(age: .seconds(whole), bytes: bytes)
    }

    /// Prints the history that would be lost, and on a terminal asks. Throws if the answer is not yes.
    private static func confirm(_ entity: String, _ store: Store, _ arguments: Arguments) throws {
        var count = 0
        do {
            count = try store.transactionCount(HistoryRequest(entities: [entity]))
        } catch let error as StoreError where [.tokenExpired, .historyGap].contains(error.code) {
            // History was off for a time.
            let oldest = error.oldestToken.map { HistoryRequest(after: .token($0), entities: [entity]) }
            count = try oldest.map(store.transactionCount) ?? 0
        }
        var errors = Output(.standardError)
        try errors.line(
            "This removes the history of “\(entity)”: the changes of its objects in \(String(grouped: UInt64(count))) "
                + "transactions. The objects stay.")
        try errors.finish()
        guard !arguments.has("yes"), Terminal.isInput else { return }
        try errors.data(Array("Turn its history off? [y/N] ".utf8))
        try errors.finish()
        let answer = readLine()
        if answer == nil { try errors.line() }
        guard ["y", "yes"].contains(answer?.lowercased()) else {
            throw ToolFailure(.failed, "Nothing was changed.")
        }
    }

    // MARK: As words

    /// The text after “for”.
    static func text(_ retention: Store.Retention) -> String {
        let age = retention.age.map { text(seconds: UInt64(clamping: $0.components.seconds)) }
        let bytes = retention.bytes.map { "\($0) bytes" }
        let limits = [age, bytes].compactMap(\.self)
        return limits.isEmpty ? "ever" : limits.joined(separator: " or ")
    }

    /// A duration as one would type it.
    private static func text(seconds: UInt64) -> String {
        // Weeks would be unusual.
        let unit = Unit.ofAges.dropFirst().first { seconds > 0 && seconds.isMultiple(of: UInt64($0.seconds)) }
        return unit.map { "\(seconds / UInt64($0.seconds))\($0.name.prefix(1))" } ?? "0s"
    }

    static func json(_ retention: Store.Retention) -> JSONLine {
        ["seconds": retention.age.map { UInt64(clamping: $0.components.seconds) }, "bytes": retention.bytes]
    }
}
