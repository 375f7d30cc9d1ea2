// Parses the command line: options with and without values, "--", operands. Everything else is refused.

/// The arguments of one command, checked against the options and operands of the command.
package struct Arguments: Sendable {
    package private(set) var operands: [String] = []
    private var values: [String: [String]] = [:]

    /// Parses the arguments after the command's name.
    ///
    /// `--name VALUE` and `--name=VALUE` are the same. Everything after `--` is an operand, and so is a single dash.
    package init(_ arguments: [String], for command: Command) throws(ToolFailure) {
        var rest = arguments[...]
        var optionsMayFollow = true
        while let argument = rest.popFirst() {
            // -1 is a place in history.
            let isPlace = argument.dropFirst().utf8.first?.isDigit == true
            if !optionsMayFollow || argument == "-" || !argument.hasPrefix("-") || isPlace {
                operands.append(argument)
                continue
            }
            if argument == "--" {
                optionsMayFollow = false
                continue
            }
            let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0].dropFirst(2))
            guard argument.hasPrefix("--"),
                let option = (command.options + [Self.formatOfErrors]).first(where: { $0.name == name })
            else {
                let similar = Commands.nearest(to: name, in: command.options.map(\.name))
                throw command.refusal(
                    "“annals \(command.name)” has no option “\(parts[0])”."
                        + (similar.map { " Did you mean --\($0)?" } ?? ""))
            }
            guard values[name] == nil || option.isRepeatable else {
                throw command.refusal("The option “--\(name)” is given twice: give it once.")
            }
            if option.value == nil {
                if parts.count > 1 { throw command.refusal("The option “--\(name)” takes no value.") }
                values[name] = [""]
            } else if parts.count > 1 {
                values[name, default: []].append(String(parts[1]))
            } else if let next = rest.first, !next.hasPrefix("--") {
                values[name, default: []].append(rest.removeFirst())
            } else {
                throw command.refusal("The option “--\(name)” needs a value.")
            }
        }
        if let format = value(of: "format"), !command.options.contains(where: { $0.name == "format" }),
            !Self.isJSON(format)
        {
            throw command.refusal(
                "“annals \(command.name)” has one format, so “--format” can only be json, for its errors, not "
                    + "“\(format)”.")
        }
        if operands.count < command.requiredOperands {
            throw command.refusal("“annals \(command.name)” needs \(command.operands[operands.count]).")
        }
        if operands.count > command.operands.count && !command.repeatsLastOperand {
            throw command.refusal("“annals \(command.name)” has no operand for “\(operands[command.operands.count])”.")
        }
    }

    /// Every command takes it: with JSON, errors are JSON too.
    private static let formatOfErrors = Command.Option("format", value: "FORMAT", "")

    /// Both words mean the one form of JSON that a command has.
    static func isJSON(_ format: String) -> Bool { ["json", "jsonl"].contains(format) }

    /// Whether an option, with or without a value, was given.
    package func has(_ option: String) -> Bool { values[option] != nil }

    package func value(of option: String) -> String? { values[option]?.last }

    /// The values of an option that may be given several times; nil if it is not given.
    package func values(of option: String) -> [String]? { values[option] }

    /// The value of an option that takes a whole number from 0 on.
    package func number(of option: String, for command: Command) throws(ToolFailure) -> UInt64? {
        guard let text = value(of: option) else { return nil }
        // `UInt64` alone would accept "+5".
        guard text.utf8.allSatisfy(\.isDigit), let number = UInt64(text) else {
            throw command.refusal(
                "The option “--\(option)” takes a whole number from 0 to \(UInt64.max), not “\(text)”.")
        }
        return number
    }

    /// One of the formats; the first if none was requested.
    func format(_ formats: [String], for command: Command) throws(ToolFailure) -> String {
        guard let format = value(of: "format") else { return formats[0] }
        guard !formats.contains(format) else { return format }
        guard Self.isJSON(format), let json = formats.first(where: Self.isJSON) else {
            throw command.refusal("The option “--format” takes \(formats.joined(separator: " or ")), not “\(format)”.")
        }
        return json
    }

    /// Whether the arguments request help instead of running the command.
    package static func askForHelp(_ arguments: [String]) -> Bool {
        arguments.prefix { $0 != "--" }.contains { $0 == "--help" || $0 == "-h" }
    }
}
