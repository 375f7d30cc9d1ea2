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
        do {
            try StoreAccess.with(arguments.operands[0], isDry ? .readOnly : .readWrite) { store in
                let old = try oldState(place, store, backup)
                func restore(_ transaction: Transaction) throws -> [String] {
                    let now = transaction.snapshot
                    guard operands.count > 1, let entity = try operands.first.map(now.entity) else {
                        return try transaction.restore(to: old, entity: operands.first)
                    }
                    let objects = try operands.dropFirst().map { try object($0, of: entity, in: old, or: now) }
                    return try transaction.restore(to: old, objects: objects)
                }
                do {
                    if isDry { return try rehearse(restore, store, old, arguments, output) }
                    try write(restore, store, arguments, output)
                } catch let error as StoreError where error.code == .referenceMissing {
                    throw try advised(error, old, store)
                }
            }
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

    /// A label of the earlier state counts first: the present object of that label may be another one.
    private static func object(
        _ text: String, of entity: EntityHandle, in old: Snapshot, or now: Snapshot
    ) throws -> ObjectID {
        let then = try old.handles.first { $0.number == entity.number }
        return try then?.existing(text, in: old) ?? entity.object(text, in: now)
    }

    private static func advised(_ error: StoreError, _ old: Snapshot, _ store: Store) throws -> ToolFailure {
        var failure = ToolFailure(error)
        if let target = error.objects.first,
            let entity = try store.snapshot().handles.first(where: { $0.number == target.entityNumber })
        {
            failure.hint =
                "\(entity.name) \(try Labels(old).text(target)) was deleted since. Restore it first: annals restore "
                + "STORE '\(entity.name)' \(target) with the same options."
        }
        return failure
    }

    private typealias Restore = (Transaction) throws -> [String]

    /// Calls `body` with each change that a commit would make, with those of delete rules: the object, before and after
    /// it. Throws the error with which it would refuse them. Returns notes of `restore`.
    private static func forEachEffect(
        of restore: Restore, _ store: Store, _ now: Snapshot, _ body: (ObjectID, Row?, Row?) throws -> Void
    ) throws -> [String] {
        var (notes, failure) = ([String](), (any Error)?.none)
        let refusals = try store.rehearse(on: now) { (transaction) throws(StoreError) in
            do { notes = try restore(transaction) } catch { failure = error }
        } outcome: { (transaction, object) throws(StoreError) in
            guard failure == nil else { return }
            do { try body(object, now.row(object), transaction.row(object)) } catch { failure = error }
        }
        if let failure = failure ?? refusals.first { throw failure }
        return notes
    }

    private static func write(
        _ restore: Restore, _ store: Store, _ arguments: Arguments, _ output: Output
    ) throws {
        var (inserted, updated, deleted) = (0, 0, 0)
        let (notes, token) = try store.write(author: arguments.author, contextName: arguments.value(of: "context")) {
            // Only a rehearsal shows the effects of delete rules.
            _ = try forEachEffect(of: restore, store, $0.snapshot) { _, present, restored in
                if present == nil { inserted += 1 } else if restored == nil { deleted += 1 } else { updated += 1 }
            }
            return try restore($0)
        }
        output.hasChanges = token != nil
        warn(notes)
        output.line(
            json: ["inserted": inserted, "updated": updated, "deleted": deleted, "token": token?.description],
            text: token.map { "\(inserted) inserted, \(updated) updated, \(deleted) deleted; token \($0)" }
                ?? "Nothing differs from that state.")
    }

    private static func rehearse(
        _ restore: Restore, _ store: Store, _ old: Snapshot, _ arguments: Arguments, _ output: Output
    ) throws {
        try output.begin(arguments, isLong: !output.isJSON)
        let now = try store.snapshot()
        // First without printing: a refusal comes before any output.
        warn(try forEachEffect(of: restore, store, now) { _, _, _ in })
        let report = DiffReport(try Labels(now), try Labels(old), output)
        _ = try forEachEffect(of: restore, store, now) { object, present, restored in
            guard let row = present ?? restored else { return }
            let changed = row.attributes.filter { !DiffCommand.isSame(present?[$0], restored?[$0]) }
            let isUpdate = present != nil && restored != nil
            try report.add(
                isUpdate ? .update : present == nil ? .insert : .delete, row.entity, object, isUpdate ? changed : [],
                present, restored)
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
