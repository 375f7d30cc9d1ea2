// `annals restore STORE [ENTITY [ID…]] --to PLACE`: writes an earlier state of objects as one new transaction.

internal import Annals

extension Command {
    static let restore = Command(
        "restore", "Brings back an earlier state of objects.",
        details: """
            Writes one new transaction. Without ENTITY, all objects become as they were at the place. With ENTITY, only
            its objects do; with IDs or labels, only these. Objects that were deleted since are inserted again under their IDs, objects that were
            inserted since are deleted, and changed attributes get their old values. History keeps all that happened in
            between. Prints the counts and the new token.

            First use --dry-run. It prints the differences as “annals diff” does, checks that the store would take them,
            and writes nothing.

            If history no longer reaches back to the place, a backup of the store has the old state: --from BACKUP. With
            --to, the place is one in the history of the backup. The schema stays as it is: attributes that were added
            since keep their values, and removed ones stay removed.

            If a selected object referred to an object that no longer exists, nothing is written: restore that one
            first. Objects that refer to deleted ones follow their delete rules.
            """,
        operands: ["STORE", "[ENTITY]", "[ID…]"],
        options: [
            Option("to", value: "PLACE", "the state to bring back"),
            Option("from", value: "BACKUP", "a backup that has the state; without --to, its newest"),
            Option("dry-run", "prints the differences, and writes nothing"),
            Option("author", value: "A", "the author of the change in history (annals); '' for none"),
            Option("context", value: "C", "the context of the change in history"),
            Option("format", value: "FORMAT", "text or json; with --dry-run text (the default on a terminal) or jsonl"),
            .color,
        ], run: RestoreCommand.run)
}

enum RestoreCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let isDry = arguments.has("dry-run")
        let dry = output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"]
        let format = try arguments.format(isDry ? dry : ["text", "json"], for: .restore)
        let place = try arguments.place(of: "to", for: .restore)
        guard place != nil || arguments.has("from") else {
            throw ToolFailure(
                .usage, "“annals restore” needs --to PLACE or --from BACKUP: the state to bring back.",
                hint: "Try: annals help restore")
        }
        let store = try StoreAccess.open(arguments.operands[0], isDry ? .readOnly : .readWrite)
        defer { try? store.close() }
        let backup = try arguments.value(of: "from").map { (path) throws(ToolFailure) in
            try StoreAccess.open(path, .readOnly)
        }
        defer { try? backup?.close() }
        let old = try oldState(place, store, backup)
        let operands = arguments.operands.dropFirst()
        func plan(_ now: Snapshot) throws -> RestorePlan {
            try RestorePlan(store, now, old, isBackup: backup != nil, entity: operands.first, operands.dropFirst())
        }
        if isDry {
            try output.begin(arguments, isLong: format == "text")
            try rehearse(plan, store, isJSON: format == "jsonl", &output)
        } else {
            try write(plan, store, arguments, isJSON: format == "json", &output)
        }
        return .done
    }

    private static func oldState(
        _ place: HistoryPlace?, _ store: Store, _ backup: Store?
    ) throws(ToolFailure) -> Snapshot {
        guard let backup else {
            return try advising { try place.map { try store.snapshot(at: $0) } ?? store.snapshot() }
        }
        return try storing {
            let old = try place.map { try backup.snapshot(at: $0) } ?? backup.snapshot()
            do {
                try store.requireSeen(old.token)
            } catch let error as StoreError {
                let code = error.code
                throw ToolFailure(
                    .failed,
                    code == .tokenForeign
                        ? "\(backup.path) is not a backup of this store, so its IDs mean other objects."
                        : "\(backup.path) has transactions that this store does not have: \(error.message)",
                    hint: "“annals diff” compares the two, and “annals dump” with “annals load --key” moves objects.")
            }
            return old
        }
    }

    /// Adds that a backup may have the state.
    private static func advising<Value>(_ body: () throws -> Value) throws(ToolFailure) -> Value {
        do {
            return try storing(body)
        } catch {
            var failure = error
            if [.tokenExpired, .historyGap].contains(error.error?.code) {
                failure.hint = "A backup of that time has the state: annals restore STORE … --from BACKUP"
            }
            throw failure
        }
    }

    // MARK: Writing

    private struct Counts {
        private var counts: [HistoryChange.Kind: UInt64] = [:]

        mutating func add(_ step: RestoreStep) { counts[step.kind, default: 0] += 1 }

        subscript(_ kind: HistoryChange.Kind) -> UInt64 { counts[kind] ?? 0 }
    }

    private static func write(
        _ plan: (Snapshot) throws -> RestorePlan, _ store: Store, _ arguments: Arguments, isJSON: Bool,
        _ output: inout Output
    ) throws(ToolFailure) {
        var (counts, notes) = (Counts(), [String]())
        let token = try advising {
            try store.write(author: arguments.author, contextName: arguments.value(of: "context")) { transaction in
                let plan = try plan(transaction.snapshot)
                notes = plan.notes
                try plan.forEachStep { step in
                    counts.add(step)
                    try step.carryOut(in: transaction)
                }
                try plan.requireTargets { try transaction.row($0) != nil }
            }.token
        }
        output.hasChanges = token != nil
        try warn(notes)
        if isJSON {
            var line = JSONLine()
            line.add("inserted", counts[.insert])
            line.add("updated", counts[.update])
            line.add("deleted", counts[.delete])
            line.addText("token", token?.description)
            try output.line(line.text)
        } else if let token {
            try output.line(
                "\(counts[.insert]) inserted, \(counts[.update]) updated, \(counts[.delete]) deleted; token \(token)")
        } else {
            try output.line("Nothing differs from that state.")
        }
    }

    private static func rehearse(
        _ makePlan: (Snapshot) throws -> RestorePlan, _ store: Store, isJSON: Bool, _ output: inout Output
    ) throws(ToolFailure) {
        let now = try storing { try store.snapshot() }
        let plan = try storing { try makePlan(now) }
        try warn(plan.notes)
        try advising {
            var failure: (any Error)?
            let refusals = try store.rehearse(on: now) { (transaction) throws(StoreError) in
                do {
                    try plan.forEachStep { try $0.carryOut(in: transaction) }
                    try plan.requireTargets { try transaction.row($0) != nil }
                } catch { failure = error }
            }
            if let failure = failure ?? refusals.first { throw failure }
        }
        var report = DiffReport(isJSON: isJSON, try Labels(now), plan.labels)
        try storing {
            try plan.forEachStep { step in
                try report.add(
                    step.kind, step.entity.name, step.object, step.changed, step.present, step.restored, &output)
            }
        }
        try report.finish(&output)
    }

    private static func warn(_ notes: [String]) throws(ToolFailure) {
        var errors = Output(.standardError)
        for note in notes { try errors.line("note: " + note) }
        try errors.finish()
    }
}
