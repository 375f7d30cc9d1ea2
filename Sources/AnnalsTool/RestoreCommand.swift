// `annals restore` writes an earlier state of objects as one new transaction; `annals revert` undoes one.

internal import Annals

enum RestoreCommand {
    static let command = Command(
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
            """, operands: ["STORE", "[ENTITY]", "[ID…]"],
        options: [
            Option("to", value: "PLACE", "the state to bring back"),
            Option("from", value: "BACKUP", "a backup that has the state; without --to, its newest"),
            Option("dry-run", "prints the differences, and writes nothing"), .author, .context,
            .format(["text", "json"], "text or json; with --dry-run text (the default on a terminal) or jsonl"), .color,
        ]
    ) { arguments, output in
        let isDry = arguments.has("dry-run")
        if isDry, !output.isTerminal, !arguments.has("format") { output.format = "jsonl" }
        let place = try arguments.place(of: "to")
        guard place != nil || arguments.has("from") else {
            throw arguments.refusal("“annals restore” needs --to PLACE or --from BACKUP: the state to bring back.")
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
                try output.begin(arguments, isLong: !output.isJSON)
                try rehearse(plan(store.snapshot()), output)
            } else {
                try write(plan, store, arguments, output)
            }
        }
        do {
            try StoreAccess.with(arguments.operands[0], isDry ? .readOnly : .readWrite, restore)
        } catch {
            var failure = ToolFailure(error)
            if backup == nil, let code = failure.error?.code, [.tokenExpired, .historyGap].contains(code) {
                failure.hint = "A backup of that time has the state: annals restore STORE … --from BACKUP"
                if code == .historyGap { failure.hint? += ". Or name an entity that has history." }
            }
            throw failure
        }
    }

    private static func oldState(_ place: HistoryPlace?, _ store: Store, _ backup: Store?) throws -> Snapshot {
        let source = backup ?? store
        let old = try place.map { try source.snapshot(at: $0) } ?? source.snapshot()
        guard let backup else { return old }
        do {
            try store.requireSeen(old.token)
        } catch {
            throw ToolFailure(
                error.code == .tokenForeign
                    ? "\(backup.path) is not a backup of this store, so its IDs mean other objects."
                    : "\(backup.path) has transactions that this store does not have: \(error.message)",
                hint: "“annals diff” compares the two, and “annals dump” with “annals load --key” moves objects.")
        }
        return old
    }

    private static func write(
        _ plan: (Snapshot) throws -> RestorePlan, _ store: Store, _ arguments: Arguments, _ output: Output
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
        output.line(
            json: ["inserted": inserted, "updated": updated, "deleted": deleted, "token": token?.description],
            text: token.map { "\(inserted) inserted, \(updated) updated, \(deleted) deleted; token \($0)" }
                ?? "Nothing differs from that state.")
    }

    private static func rehearse(_ plan: RestorePlan, _ output: Output) throws {
        warn(plan.notes)
        // First without printing: a refusal comes before any output.
        try plan.forEachEffect { _ in }
        let report = DiffReport(try Labels(plan.now), plan.labels, output)
        try plan.forEachEffect { step in
            try report.add(step.kind, step.entity, step.object, step.changed, step.present, step.restored)
        }
        report.finish()
    }

    /// A failure to print notes must not hide that the store was changed.
    private static func warn(_ notes: [String]) { for note in notes { try? Output.report("note: " + note) } }
}

enum RevertCommand {
    static let command = Command(
        "revert", "Undoes a transaction with a new one, and prints its token.",
        details: """
            Objects that it inserted are deleted, attributes that it changed get their values back, and objects that
            it deleted are inserted again. If something has other values now than the transaction wrote, that is a
            conflict. Conflicts are listed, and nothing is written; with --skip the rest is undone. Conflicts end
            the command with status 1 in both cases. Give the transaction's number or its token.
            """, operands: ["STORE", "NUMBER|TOKEN"],
        options: [.author, .context, Option("skip", "undo what can be undone")]
    ) { arguments, output -> ExitStatus in
        let place = try HistoryPlace(arguments.operands[1], "NUMBER|TOKEN", arguments.command)
        if case .moment = place {
            throw arguments.refusal("A moment is not a transaction: “annals history STORE” prints their numbers.")
        }
        let outcome = try StoreAccess.with(arguments.operands[0], .readWrite) { store in
            let (author, context) = (arguments.author, arguments.value(of: "context"))
            let policy: RevertPolicy = arguments.has("skip") ? .storeWins : .refuse
            if case .number(let number) = place {
                return try store.revert(number, author: author, contextName: context, conflicts: policy)
            }
            return try store.revert(try store.token(of: place), author: author, contextName: context, conflicts: policy)
        }
        output.hasChanges = outcome.token != nil
        for conflict in outcome.conflicts { output.line("conflict: " + sentence(conflict)) }
        if let token = outcome.token {
            output.line(token.description)
        } else if outcome.conflicts.isEmpty {
            output.line("Nothing is left to undo.")
        } else if arguments.has("skip") {
            throw ToolFailure("Nothing was written, because nothing else is left to undo.")
        } else {
            throw ToolFailure("Nothing was written.", hint: "--skip undoes the parts without conflicts.")
        }
        return outcome.conflicts.isEmpty ? .done : .failed
    }

    private static func sentence(_ conflict: RevertConflict) -> String {
        let names = conflict.attributes.isEmpty ? "" : " of \(conflict.attributes.joined(separator: ", "))"
        let reason =
            switch conflict.reason {
            case .changedSince: "the value\(names) has changed since"
            case .deletedSince: "it was deleted since"
            case .insertedSince: "it was inserted again, with other values"
            case .keyTaken(let other): "object \(other) has the value\(names) now, which must be unique"
            case .requiredMissing: "a value\(names) is required now, but was missing"
            case .entityRemoved: "its entity is no longer in the schema"
            case .attributeReplaced: "the attribute\(names) has another type now, and the old value does not fit"
            case .referenceMissing: "objects\(names) that it referred to no longer exist"
            case .valuesLost: "history no longer has the old values"
            case .derivedOutOfRange(let other):
                "a derived value of object \(other) would be outside the range of its type"
            }
        return "\(conflict.kind.rawValue) \(conflict.entity) \(conflict.object): \(reason)."
    }
}
