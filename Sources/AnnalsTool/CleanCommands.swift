// Removing history, freeing its space, copying the store: `annals clean`, `annals compact` and `annals backup`. And
// `annals retention`, which prints or changes the time for which the store keeps its history.

internal import Annals

enum CleanCommands {
    static let clean = Command(
        "clean", "Removes transactions before a place from history.",
        details: """
            Without --before, removes everything that all registered consumers have read, and history that the
            store's retention does not keep. If no consumer is registered, only the latter. With --before, removes the
            transactions before PLACE, read or not; the transaction at PLACE stays. PLACE is a token, the number of
            a transaction, or a moment such as 2026-01-02T03:04:05Z. The objects do not change. “annals compact”
            frees the space.

            With --author, removes only the transactions of that author (“” for those without one) from history.
            Their values stay until everything before them is cleaned. A reader that starts at a place before them,
            and does not leave out this author, gets an expired token. One that starts at the beginning of history
            gets the remaining transactions. With --dry-run nothing is written.
            """, operands: ["STORE"],
        options: [
            Option("before", value: "PLACE", "the first transaction that stays"),
            Option("author", value: "A", "only transactions of this author; needs --before"),
            Option("dry-run", "print what would be removed, and what compaction would free"), .jsonOrText,
        ]
    ) { arguments, output in
        let place = try arguments.place(of: "before")
        guard place != nil || !arguments.has("author") else {
            throw arguments.refusal("clean: --author needs --before.")
        }
        let authors = arguments.value(of: "author").map { [$0.isEmpty ? nil : $0] }
        let isDry = arguments.has("dry-run")
        let outcome = try StoreAccess.with(arguments.operands[0], isDry ? .readOnly : .readWrite) { store in
            guard let place else { return try planned(store, isDry) }
            let number = try number(of: place, in: store)
            let count = try count(before: number, authors, in: store)
            let plan = authors == nil ? try store.cleaningPlan(before: number) : nil
            if !isDry { try store.deleteHistory(before: number, authors: authors) }
            let horizon = try isDry ? plan.map { $0.before - 1 } ?? store.horizon : store.horizon
            return Outcome(
                transactions: count, horizon: horizon, regainedBytes: plan?.regainedBytes,
                overtaken: plan?.overtaken ?? [])
        }
        output.hasChanges = !isDry
        show(outcome, isDry, output)
    }

    static let compact = Command(
        "compact", "Rewrites the store without data that no reader can reach.",
        details: """
            Other processes can read and write at the same time. A new file is written next to the store, and takes
            its name when it is complete. If the command is ended before, the store is unchanged.
            """, operands: ["STORE"], options: [.jsonOrText]
    ) { arguments, output in
        let result = try copy(arguments, .readWrite, output) { store, goesOn in try store.compact(progress: goesOn) }
        let (before, after, horizon) = (result.bytesBefore, result.bytesAfter, result.horizon)
        output.line(
            json: ["bytesBefore": before, "bytesAfter": after, "horizon": horizon],
            text: "\(before) bytes before, \(after) after; history begins after \(horizon).")
    }

    /// Runs work on the file that shows its progress, and ends on SIGTERM or SIGINT.
    private static func copy<Result>(
        _ arguments: Arguments, _ access: Store.Access, _ output: Output,
        _ body: (Store, @escaping @Sendable (CompactionProgress) -> Bool) throws -> Result
    ) throws -> Result {
        let ending = try Ending.onSignals()
        let result = try StoreAccess.with(arguments.operands[0], access) { store in
            let progress = Progress("bytes")
            ending.holdBack()
            return try body(store) { part in
                progress.show(part.doneBytes, of: part.totalBytes)
                return !ending.isAsked
            }
        }
        output.hasChanges = true
        return result
    }

    static let backup = Command(
        "backup", "Copies the store, as it is now, to a new file, while other processes use it.",
        details: """
            Prints the token of the place in history that was copied. The copy is the same store: tokens of one are
            valid in the other. With --new-identity it is a store of its own, without consumers. To restore a copy, end
            all processes that use the store, and rename the copy to the store's name. Never copy over a store in use. A
            killed backup leaves a file named “.FILE.annals-backup”; the next backup to the same name removes it.
            """, operands: ["STORE", "FILE"],
        options: [Option("new-identity", "makes the copy a store of its own"), .jsonOrText]
    ) { arguments, output in
        let file = arguments.operands[1]
        let token = try copy(arguments, .readOnly, output) { store, goesOn in
            try store.backup(to: file, newIdentity: arguments.has("new-identity"), progress: goesOn)
        }
        output.line(
            json: ["file": file, "number": token.number, "token": token.description],
            text: "\(file): a copy as of transaction \(token.number), token \(token)")
    }

    private struct Outcome {
        var transactions: UInt64
        var horizon: UInt64
        var regainedBytes: UInt64?
        var hasNoReaders = false
        var waitingFor: [Consumer] = []
        var overtaken: [Consumer] = []
    }

    private static func planned(_ store: Store, _ isDry: Bool) throws -> Outcome {
        let plan = isDry ? try store.cleaningPlan() : try store.clean()
        return Outcome(
            transactions: plan.transactions, horizon: plan.before - 1, regainedBytes: plan.regainedBytes,
            hasNoReaders: try !store.consumers.contains { $0.kind.contains(.reads) && !$0.isOwn },
            waitingFor: plan.waitingFor, overtaken: plan.overtaken)
    }

    private static func show(_ outcome: Outcome, _ isDry: Bool, _ output: Output) {
        if output.isJSON {
            return output.data([
                "transactions": outcome.transactions, "horizon": outcome.horizon,
                "regainedBytes": outcome.regainedBytes, "waitingFor": outcome.waitingFor,
                "overtaken": outcome.overtaken, "dryRun": isDry,
            ])
        }
        let (verb, begins) = isDry ? ("would be cleaned", "would begin") : ("cleaned", "begins")
        output.line("\(outcome.transactions) transactions \(verb); history \(begins) after \(outcome.horizon).")
        if let bytes = outcome.regainedBytes { output.line("Compaction then frees about \(bytes) bytes in all.") }
        if outcome.hasNoReaders { output.line("No consumer is registered: choose with --before how far to clean.") }
        for consumer in outcome.waitingFor {
            let remedy = consumer.isOwn ? ". “annals search-index STORE --update” moves it on" : ""
            output.line("waiting for " + ConsumersCommand.text(consumer) + remedy)
        }
        for consumer in outcome.overtaken { output.line("not waiting for " + ConsumersCommand.text(consumer)) }
    }

    private static func number(of place: HistoryPlace, in store: Store) throws -> UInt64 {
        switch place {
        case .number(let number):
            let last = try store.currentToken.number
            guard number <= last + 1 else {
                throw StoreError(
                    .tokenUnknown,
                    "The store has no transaction \(number): its newest is \(last). Nothing was cleaned. To clean "
                        + "everything, use \(last + 1).")
            }
            return number
        case .token(let token):
            try store.validate(token)
            return token.number
        case .moment(let microseconds): return try store.number(before: Microseconds.date(microseconds))
        case .back(let count): return try store.number(back: count)
        }
    }

    private static func count(before number: UInt64, _ authors: [String?]?, in store: Store) throws -> UInt64 {
        let (horizon, last) = (try store.horizon, try store.currentToken.number)
        guard let authors else { return max(min(number, last + 1), horizon + 1) - horizon - 1 }
        var request = HistoryRequest()
        request.before = .number(number)
        request.authors = Set(authors)
        do {
            return UInt64(try store.transactionCount(request))
        } catch let error as StoreError where error.code == .tokenExpired {
            // Some of them are hidden already, and the store does not return which.
            return 0
        }
    }
}

enum RetentionCommand {
    static let command = Command(
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
            """, operands: ["STORE", "[AGE]", "[BYTES]"],
        options: [
            Option("entity", value: "NAME", "set whether the history of this entity is kept: full or off"),
            Option("yes", "turn it off without asking"), .jsonOrText,
        ]
    ) { arguments, output in
        let entity = arguments.value(of: "entity")
        let policy = entity == nil ? nil : try policy(arguments)
        let wanted = entity == nil ? try retention(arguments) : nil
        let isChange = policy != nil || wanted != nil
        let (kept, off) = try StoreAccess.with(arguments.operands[0], isChange ? .readWrite : .readOnly) { store in
            if let wanted { try store.setRetention(wanted) }
            if let entity {
                let description = try store.snapshot().entities.first {
                    IdentifierName($0.name) == IdentifierName(entity)
                }
                if policy == .off, description?.history == .full { try confirm(entity, store, arguments) }
                _ = try store.entity(entity)
                if let policy { try store.changeSchema([.changeEntity(entity, history: policy)]) }
            }
            return (try store.retention, try store.entities.filter { $0.history == .off }.map(\.name))
        }
        output.hasChanges = isChange
        if output.isJSON { return output.data(json(kept) + ["entitiesOff": off]) }
        output.line("History is kept for \(text(kept)).")
        for name in off { output.line("No history of \(name) is kept.") }
    }

    private static func policy(_ arguments: Arguments) throws -> HistoryPolicy? {
        guard arguments.operands.count > 1 else { return nil }
        let text = arguments.operands.dropFirst().joined(separator: " ")
        return try HistoryPolicy(rawValue: text).orThrow(
            command.refusal("The history of an entity is full or off, not “\(text)”."))
    }

    private static func retention(_ arguments: Arguments) throws -> Store.Retention? {
        let refusal = command.refusal
        let operands = arguments.operands
        guard operands.count > 1 else { return nil }
        let age = operands[1]
        let named: [String: Store.Retention] = ["forever": .forever, "standard": .standard, "none": .none]
        if operands.count == 2, let named = named[age] { return named }
        if named[age] != nil, age != "forever" { throw refusal("“\(age)” cannot be given with BYTES.") }
        let bytes = try operands.dropFirst(2).first.map { text in
            try Unit.bytes(text).orThrow(refusal("BYTES is a size such as 10MB, 1GiB or 5000, not “\(text)”."))
        }
        if age == "forever" { return Store.Retention(age: nil, bytes: bytes) }
        let whole = try Unit.seconds(age).orThrow(
            refusal("AGE is a number followed by s, m, h, d or w, or forever, standard or none, not “\(age)”."))
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
        try Output.report(
            "This removes the history of “\(entity)”: the changes of its objects in \(String(grouped: UInt64(count))) "
                + "transactions. The objects stay.")
        guard !arguments.has("yes"), Terminal.isInput else { return }
        let errors = Output(.standardError)
        errors.data(Array("Turn its history off? [y/N] ".utf8))
        try errors.finish()
        let answer = readLine()
        if answer == nil { errors.line() }
        guard ["y", "yes"].contains(answer?.lowercased()) else { throw ToolFailure("Nothing was changed.") }
    }

    static func text(_ retention: Store.Retention) -> String {
        let age = retention.age.map { text(seconds: UInt64(clamping: $0.components.seconds)) }
        let bytes = retention.bytes.map { "\($0) bytes" }
        let limits = [age, bytes].compactMap(\.self)
        return limits.isEmpty ? "ever" : limits.joined(separator: " or ")
    }

    private static func text(seconds: UInt64) -> String {
        // Weeks would be unusual.
        let unit = Unit.ofAges.dropFirst().first { seconds > 0 && seconds.isMultiple(of: $0.size) }
        return unit.map { "\(seconds / $0.size)\($0.name.prefix(1))" } ?? "0s"
    }

    static func json(_ retention: Store.Retention) -> JSONLine {
        ["seconds": retention.age.map { UInt64(clamping: $0.components.seconds) }, "bytes": retention.bytes]
    }
}
