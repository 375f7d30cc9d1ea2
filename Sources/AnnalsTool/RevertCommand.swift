// `annals revert STORE PLACE`: undoes a transaction with a new one.

internal import Annals

extension Command {
    static let revert = Command(
        "revert", "Undoes a transaction with a new one, and prints its token.",
        details: """
            Objects that it inserted are deleted, attributes that it changed get their values back, and objects that
            it deleted are inserted again. If something has other values now than the transaction wrote, that is a
            conflict. Conflicts are listed, and nothing is written; with --skip the rest is undone. Conflicts end
            the command with status 1 in both cases. Give the transaction's number or its token.
            """,
        operands: ["STORE", "NUMBER|TOKEN"],
        options: [
            .author, .context,
            Option("skip", "undo what can be undone"),
        ], run: RevertCommand.run)
}

enum RevertCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws -> ExitStatus {
        let place = try HistoryPlace(arguments.operands[1], operand: "NUMBER|TOKEN", for: .revert)
        if case .moment = place {
            throw Command.revert.refusal("A moment is not a transaction: “annals history STORE” prints their numbers.")
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
        for conflict in outcome.conflicts { try output.line("conflict: " + sentence(conflict)) }
        if let token = outcome.token {
            try output.line(token.description)
        } else if outcome.conflicts.isEmpty {
            try output.line("Nothing is left to undo.")
        } else if arguments.has("skip") {
            throw ToolFailure(.failed, "Nothing was written, because nothing else is left to undo.")
        } else {
            throw ToolFailure(.failed, "Nothing was written.", hint: "--skip undoes the parts without conflicts.")
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
