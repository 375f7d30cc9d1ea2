// A command of the tool, and the ways in which it can end.

package import Annals

/// The exit statuses. From 64 on, all but the last are those of sysexits.h.
package enum ExitStatus: Int32, Sendable, CaseIterable {
    case done = 0
    case failed = 1
    case losses = 2
    case usage = 64
    case damaged = 65
    case busy = 75
    /// As a shell reports a program that SIGPIPE has ended.
    case closedPipe = 141

    var meaning: String {
        switch self {
        case .done: "done"
        case .failed: "failed; standard error contains the reason. Or “diff” has found differences"
        case .losses: "salvaged with losses, which the report names; or “diff” has failed"
        case .usage: "wrong usage"
        case .damaged: "the store is damaged, or not a store"
        case .busy: "another process holds the store; try again"
        case .closedPipe: "the reader closed the output; nothing is reported"
        }
    }
}

/// The failure that ends a command early. The message is a whole sentence.
package struct ToolFailure: Error, Sendable {
    package var status: ExitStatus
    package var message: String
    package var hint: String?
    /// The library's error, if this is one.
    package var error: StoreError?

    package init(_ status: ExitStatus, _ message: String, hint: String? = nil) {
        (self.status, self.message, self.hint) = (status, message, hint)
    }
}

/// One command: its usage, its help, and its function.
package struct Command: Sendable {
    package struct Option: Sendable {
        /// Without the two dashes.
        package var name: String
        /// The value's name in help; nil for an option without a value.
        package var value: String?
        package var summary: String
        /// Whether it may be given several times, each with a value of its own.
        package var isRepeatable: Bool

        package init(_ name: String, value: String? = nil, isRepeatable: Bool = false, _ summary: String) {
            (self.name, self.value, self.summary, self.isRepeatable) = (name, value, summary, isRepeatable)
        }

        var usage: String { "--" + name + (value.map { " " + $0 } ?? "") }
    }

    package typealias Body = @Sendable (Arguments, inout Output) throws(ToolFailure) -> ExitStatus

    package var name: String
    package var summary: String
    /// More text for `annals help NAME`: whole sentences, in paragraphs.
    package var details: String
    /// The names of the operands in help. One in brackets is optional; only the last ones are. If the last one ends in
    /// “…”, it may be repeated.
    package var operands: [String]
    package var options: [Option]
    package var run: Body

    /// - Parameter run: The function. It may throw any error. If it returns no status, it has succeeded.
    package init<Status>(
        _ name: String, _ summary: String, details: String = "", operands: [String] = [], options: [Option] = [],
        run: @escaping @Sendable (Arguments, inout Output) throws -> Status
    ) {
        (self.name, self.summary, self.details, self.operands) = (name, summary, details, operands)
        self.options = options
        self.run = { (arguments, output) throws(ToolFailure) in
            do { return try run(arguments, &output) as? ExitStatus ?? .done } catch { throw ToolFailure(error) }
        }
    }

    var usage: String {
        let optional = options.isEmpty ? [] : ["[OPTION…]"]
        return (["annals", name] + optional + operands).joined(separator: " ")
    }

    var repeatsLastOperand: Bool { operands.last.map { $0.hasSuffix("…") || $0.hasSuffix("…]") } ?? false }

    var requiredOperands: Int { operands.count { !$0.hasPrefix("[") } }
}

extension Command {
    /// A failure for wrong arguments of the command.
    func refusal(_ message: String) -> ToolFailure { ToolFailure(.usage, message, hint: "Try: annals help \(name)") }
}

extension Command.Option {
    /// Formats of commands that print one result.
    static let jsonOrText = Command.Option("format", value: "FORMAT", "json, or text (the default on a terminal)")
    static let textOrJSON = Command.Option("format", value: "FORMAT", "text (the default), or json: one JSON object")
    static let textOrCounts = Command.Option(
        "format", value: "FORMAT", "text (the default), or json: the counts as one JSON object")
    static let linesOrText = Command.Option("format", value: "FORMAT", "jsonl, or text (the default on a terminal)")
    static let bare = Command.Option("bare", "without “_entity” and “_id”")
    static let asOf = Command.Option("as-of", value: "PLACE", "the objects as they were at this place")
    static let author = Command.Option(
        "author", value: "A", "the author of the change in history (annals); '' for none")
    static let context = Command.Option("context", value: "C", "the context of the change in history")
}
