// `annals restore STORE [ENTITY [ID…]] --to PLACE`: writes an earlier state of objects as one new transaction.

internal import Annals

extension Command {
    static let restore = Command(
        "restore", "Brings back an earlier state of objects.",
        details: """
            Writes one new transaction. Without ENTITY, all objects become as they were at the place. With ENTITY, only
            its objects do; with IDs or labels, only these. Objects that were deleted since are inserted again under
            their IDs, objects that were inserted since are deleted, and changed attributes get their old values.
            History keeps all that happened in between. Prints the counts and the new token.

            First use --dry-run. It prints the differences as “annals diff” does, with those that delete rules make,
            checks that the store would take them, and writes nothing.

            If history no longer reaches back to the place, a backup of the store has the old state: --from BACKUP. With
            --to, the place is one in the history of the backup. The schema stays as it is: attributes that were added
            since keep their values, and removed ones stay removed.

            If a selected object referred to an object that no longer exists, nothing is written: restore that one
            first. Objects that refer to deleted ones follow their delete rules. A label is one of the earlier state, or
            otherwise of the present.
            """,
        operands: ["STORE", "[ENTITY]", "[ID…]"],
        options: [
            Option("to", value: "PLACE", "the state to bring back"),
            Option("from", value: "BACKUP", "a backup that has the state; without --to, its newest"),
            Option("dry-run", "prints the differences, and writes nothing"), .author, .context,
            Option("format", value: "FORMAT", "text or json; with --dry-run text (the default on a terminal) or jsonl"),
            .color,
        ], run: RestoreCommand.run)
}

enum RestoreCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        let isDry = arguments.has("dry-run")
        let dry = output.isTerminal ? ["text", "jsonl"] : ["jsonl", "text"]
        let format = try arguments.format(isDry ? dry : ["text", "json"], for: .restore)
        let place = try arguments.place(of: "to", for: .restore)
        guard place != nil || arguments.has("from") else {
            throw Command.restore.refusal(
                "“annals restore” needs --to PLACE or --from BACKUP: the state to bring back.")
        }
        let backup = try arguments.value(of: "from").map { try StoreAccess.open($0, .readOnly) }
        defer { try? backup?.close() }
        let operands = arguments.operands.dropFirst()
        func restore(_ store: Store) throws {
            let old = try oldState(place, store, backup)
            func plan(_ now: Snapshot) throws -> RestorePlan {
                try RestorePlan(store, now, old, isBackup: backup != nil, entity: operands.first, operands.dropFirst())
            }
            if isDry {
                try output.begin(arguments, isLong: format == "text")
                try rehearse(plan(store.snapshot()), isJSON: format == "jsonl", &output)
            } else {
                try write(plan, store, arguments, format, &output)
            }
        }
        do {
            try StoreAccess.with(arguments.operands[0], isDry ? .readOnly : .readWrite, restore)
        } catch {
            throw backup == nil ? advised(ToolFailure(error)) : error
        }
    }

    /// Adds that a backup may have the state.
    private static func advised(_ failure: ToolFailure) -> ToolFailure {
        var failure = failure
        let hint = "A backup of that time has the state: annals restore STORE … --from BACKUP"
        switch failure.error?.code {
        case .tokenExpired: failure.hint = hint
        case .historyGap: failure.hint = hint + ". Or name an entity that has history."
        default: break
        }
        return failure
    }

    private static func oldState(_ place: HistoryPlace?, _ store: Store, _ backup: Store?) throws -> Snapshot {
        let source = backup ?? store
        let old = try place.map { try source.snapshot(at: $0) } ?? source.snapshot()
        guard let backup else { return old }
        do {
            try store.requireSeen(old.token)
        } catch {
            throw ToolFailure(
                .failed,
                error.code == .tokenForeign
                    ? "\(backup.path) is not a backup of this store, so its IDs mean other objects."
                    : "\(backup.path) has transactions that this store does not have: \(error.message)",
                hint: "“annals diff” compares the two, and “annals dump” with “annals load --key” moves objects.")
        }
        return old
    }

    // MARK: Writing

    private static func write(
        _ plan: (Snapshot) throws -> RestorePlan, _ store: Store, _ arguments: Arguments, _ format: String,
        _ output: inout Output
    ) throws {
        var (counts, notes) = ([HistoryChange.Kind: UInt64](), [String]())
        let token = try store.write(author: arguments.author, contextName: arguments.value(of: "context")) {
            transaction in
            let plan = try plan(transaction.snapshot)
            notes = plan.notes
            // Only a rehearsal shows the effects of delete rules.
            try plan.forEachEffect { counts[$0.kind, default: 0] += 1 }
            try plan.carryOut(in: transaction)
        }.token
        output.hasChanges = token != nil
        warn(notes)
        let (inserted, updated, deleted) = (counts[.insert] ?? 0, counts[.update] ?? 0, counts[.delete] ?? 0)
        try output.line(
            format, json: ["inserted": inserted, "updated": updated, "deleted": deleted, "token": token?.description],
            text: token.map { "\(inserted) inserted, \(updated) updated, \(deleted) deleted; token \($0)" }
                ?? "Nothing differs from that state.")
    }

    private static func rehearse(_ plan: RestorePlan, isJSON: Bool, _ output: inout Output) throws {
        warn(plan.notes)
        // First without printing: a refusal comes before any output.
        try plan.forEachEffect { _ in }
        var report = DiffReport(isJSON: isJSON, try Labels(plan.now), plan.labels)
        try plan.forEachEffect { step in
            try report.add(step.kind, step.entity, step.object, step.changed, step.present, step.restored, &output)
        }
        try report.finish(&output)
    }

    /// A failure to print notes must not hide that the store was changed.
    private static func warn(_ notes: [String]) {
        for note in notes { try? Output.report("note: " + note) }
    }
}
