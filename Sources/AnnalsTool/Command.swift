// A command of the tool, the ways in which it can end, and its arguments: options and operands.

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
    package var error: StoreError?

    package init(_ status: ExitStatus, _ message: String, hint: String? = nil) {
        (self.status, self.message, self.hint) = (status, message, hint)
    }

    init(_ message: String, hint: String? = nil) { self.init(.failed, message, hint: hint) }
}

extension Optional {
    /// The value; throws the failure without one.
    func orThrow<Failure>(_ failure: @autoclosure () -> Failure) throws(Failure) -> Wrapped {
        guard let self else { throw failure() }
        return self
    }
}

package struct Option: Sendable {
    /// Without the two dashes.
    package var name: String
    /// The value's name in help; nil for an option without a value.
    package var value: String?
    package var summary: String
    /// Whether it may be given several times, each with a value of its own.
    package var isRepeatable: Bool
    /// Of “--format”: its values. The first one is the default. On a terminal, text or a table is.
    private(set) var formats: [String] = []

    package init(_ name: String, value: String? = nil, isRepeatable: Bool = false, _ summary: String) {
        (self.name, self.value, self.summary, self.isRepeatable) = (name, value, summary, isRepeatable)
    }

    var usage: String { "--" + name + (value.map { " " + $0 } ?? "") }
    static let jsonOrText = format(["json", "text"], "json, or text (the default on a terminal)")
    static let textOrJSON = format(["text", "json"], "text (the default), or json: one JSON object")
    static let textOrCounts = format(textOrJSON.formats, "text (the default), or json: the counts as one JSON object")
    static let linesOrText = format(["jsonl", "text"], "jsonl, or text (the default on a terminal)")

    static func format(_ formats: [String], _ summary: String) -> Option {
        var option = Option("format", value: "FORMAT", summary)
        option.formats = formats
        return option
    }

    static let bare = Option("bare", "without “_entity” and “_id”")
    static let asOf = Option("as-of", value: "PLACE", "the objects as they were at this place")
    static let author = Option("author", value: "A", "the author of the change in history (annals); '' for none")
    static let color = Option("color", value: "WHEN", "colours: always, never, or auto (on a terminal)")
    static let context = Option("context", value: "C", "the context of the change in history")
}

package struct Command: Sendable {
    package typealias Body = @Sendable (Arguments, Output) throws(ToolFailure) -> ExitStatus

    package var name: String
    package var summary: String
    /// More text for `annals help NAME`: whole sentences, in paragraphs.
    package var details: String
    /// The names of the operands in help. One in brackets is optional; only the last ones are. If the last one ends in
    /// “…”, it may be repeated.
    package var operands: [String]
    package var options: [Option]
    package var run: Body

    /// - Parameter run: The function. It may throw any error. If it returns no status, it has succeeded. The output has
    ///   the requested format.
    package init<Status>(
        _ name: String, _ summary: String, details: String = "", operands: [String] = [], options: [Option] = [],
        run: @escaping @Sendable (Arguments, Output) throws -> Status
    ) {
        (self.name, self.summary, self.details) = (name, summary, details)
        (self.operands, self.options) = (operands, options)
        self.run = { (arguments, output) throws(ToolFailure) in
            output.format = try arguments.format(isTerminal: output.isTerminal)
            do { return try run(arguments, output) as? ExitStatus ?? .done } catch { throw ToolFailure(error) }
        }
    }

    var usage: String { (["annals", name] + (options.isEmpty ? [] : ["[OPTION…]"]) + operands).joined(separator: " ") }

    var repeatsLastOperand: Bool { operands.last.map { $0.hasSuffix("…") || $0.hasSuffix("…]") } ?? false }
    var requiredOperands: Int { operands.count { !$0.hasPrefix("[") } }

    func refusal(_ message: String) -> ToolFailure { ToolFailure(.usage, message, hint: "Try: annals help \(name)") }
}

/// The arguments of one command, checked against the options and operands of the command.
package struct Arguments: Sendable {
    let command: Command
    package private(set) var operands: [String] = []
    private var values: [String: [String]] = [:]

    /// `--name VALUE` and `--name=VALUE` are the same. Everything after `--` is an operand, and so is a single dash.
    package init(_ arguments: [String], for command: Command) throws(ToolFailure) {
        self.command = command
        let sides = arguments.split(separator: "--", maxSplits: 1, omittingEmptySubsequences: false)
        var rest = sides[0]
        while let argument = rest.popFirst() {
            // -1 is a place in history.
            let isPlace = argument.dropFirst().utf8.first?.isDigit == true
            if argument == "-" || !argument.hasPrefix("-") || isPlace {
                operands.append(argument)
                continue
            }
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0].dropFirst(2))
            guard argument.hasPrefix("--"),
                let option = (command.options + [.format([], "")]).first(where: { $0.name == name })
            else {
                let similar = Commands.nearest(to: name, in: command.options.map(\.name))
                throw refusal(
                    "“annals \(command.name)” has no option “\(parts[0])”."
                        + (similar.map { " Did you mean --\($0)?" } ?? ""))
            }
            guard values[name] == nil || option.isRepeatable else {
                throw refusal("The option “--\(name)” is given twice: give it once.")
            }
            if option.value == nil {
                if parts.count > 1 { throw refusal("The option “--\(name)” takes no value.") }
                values[name] = [""]
            } else if parts.count > 1 {
                values[name, default: []].append(String(parts[1]))
            } else if let next = rest.first, !next.hasPrefix("--") {
                values[name, default: []].append(rest.removeFirst())
            } else {
                throw refusal("The option “--\(name)” needs a value.")
            }
        }
        operands += sides.dropFirst().joined()
        if operands.count < command.requiredOperands {
            throw refusal("“annals \(command.name)” needs \(command.operands[operands.count]).")
        }
        if operands.count > command.operands.count && !command.repeatsLastOperand {
            throw refusal("“annals \(command.name)” has no operand for “\(operands[command.operands.count])”.")
        }
    }

    func refusal(_ message: String) -> ToolFailure { command.refusal(message) }

    static func isJSON(_ format: String) -> Bool { ["json", "jsonl"].contains(format) }
    package func has(_ option: String) -> Bool { values[option] != nil }
    package func value(of option: String) -> String? { values[option]?.last }

    /// The values of an option that may be given several times; nil if it is not given.
    package func values(of option: String) -> [String]? { values[option] }

    /// The value of an option that takes a whole number from 0 on.
    package func number(of option: String) throws(ToolFailure) -> UInt64? {
        guard let text = value(of: option) else { return nil }
        // `UInt64` alone would accept "+5".
        guard text.utf8.allSatisfy(\.isDigit), let number = UInt64(text) else {
            throw refusal("The option “--\(option)” takes a whole number from 0 to \(UInt64.max), not “\(text)”.")
        }
        return number
    }

    /// One of the command's formats. Every command takes JSON: then errors are JSON too.
    fileprivate func format(isTerminal: Bool) throws(ToolFailure) -> String {
        let formats = command.options.first { $0.name == "format" }?.formats ?? ["text"]
        let usual = formats.first { isTerminal && ["text", "table"].contains($0) } ?? formats[0]
        guard let format = value(of: "format") else { return usual }
        if formats.contains(format) { return format }
        if Self.isJSON(format) { return formats.first(where: Self.isJSON) ?? formats[0] }
        throw refusal(
            formats.count == 1
                ? "“annals \(command.name)” has one format, so “--format” can only be json, for its errors, not "
                    + "“\(format)”."
                : "The option “--format” takes \(Self.list(formats)), not “\(format)”.")
    }

    /// The value of an option that takes one of several words; nil without it.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(of option: String) throws(ToolFailure) -> Choice? {
        guard let text = value(of: option) else { return nil }
        return try choice(text, of: option)
    }

    func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ text: String, of option: String
    ) throws(ToolFailure) -> Choice {
        let known = Self.list(Choice.allCases.map(\.rawValue))
        return try Choice(rawValue: text).orThrow(refusal("The option “--\(option)” takes \(known), not “\(text)”."))
    }

    private static func list(_ words: [String]) -> String {
        (words.dropLast(2) + [words.suffix(2).joined(separator: " or ")]).joined(separator: ", ")
    }

    /// The one of these options that is given, if any. Two are a mistake.
    func onlyOne(of options: [String]) throws(ToolFailure) -> String? {
        let given = options.filter(has)
        if given.count > 1 { throw refusal("“--\(given[0])” and “--\(given[1])” cannot be given together.") }
        return given.first
    }

    /// Whether the arguments request help instead of running the command.
    package static func askForHelp(_ arguments: [String]) -> Bool {
        arguments.prefix { $0 != "--" }.contains { $0 == "--help" || $0 == "-h" }
    }
}
