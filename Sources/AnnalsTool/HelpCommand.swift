// `annals help`: explains the tool, from the table of commands itself.

internal import Annals

extension Command {
    static let help = Command(
        "help", "Explains the tool or one command.", operands: ["[COMMAND…]"],
        options: [Option("man", "prints the whole help as a manual page: annals help --man | man -l -")],
        run: HelpCommand.run)
}

enum HelpCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let words = arguments.operands
        if arguments.has("man") {
            guard words.isEmpty else {
                throw ToolFailure(.usage, "“--man” prints the help of all commands.", hint: "Try: annals help --man")
            }
            try output.data(Array(ManualPage.text.utf8))
            return .done
        }
        guard let first = words.first else { return try overview(&output) }
        if let (command, rest) = Commands.find(words), rest.isEmpty { return try explain(command, &output) }
        let group = Commands.beginning(with: first)
        if words.count == 1, !group.isEmpty { return try list(group, &output) }
        throw Commands.unknown(words)
    }

    /// The commands of two words with a common first one.
    static func list(_ group: [Command], _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        try table(group.map { ($0.usage, $0.summary) }, &output)
        return .done
    }

    private static func overview(_ output: inout Output) throws(ToolFailure) -> ExitStatus {
        for line in ["annals: \(purpose)", "", "usage: annals COMMAND [OPTION…] [OPERAND…]", ""] {
            try output.line(line)
        }
        try table(Commands.all.map { ($0.name, $0.summary) }, &output)
        for line in [""] + notes + ["", "exit status:"] { try output.line(line) }
        try table(ExitStatus.allCases.map { (String($0.rawValue), $0.meaning) }, &output)
        return .done
    }

    static let purpose = "loads, changes, shows and checks Annals stores"
    static let notes = [
        "After “--”, everything is an operand, even if it begins with a dash.",
        "If an option's value begins with two dashes, write --OPTION=VALUE.",
        "With --format json, any command prints an error as one JSON object.",
        "“annals --version” prints the version.",
    ]

    static func explain(_ command: Command, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        let text = ["usage: " + command.usage, command.summary, command.details].joined(separator: "\n\n")
        for line in wrapped(text) + (command.options.isEmpty ? [] : [""]) { try output.line(line) }
        try table(command.options.map { ($0.usage, $0.summary) }, &output)
        return .done
    }

    /// The longest line of help.
    private static let columns = 80

    private static func table(_ rows: [(String, String)], _ output: inout Output) throws(ToolFailure) {
        let width = rows.map(\.0.count).max() ?? 0
        for (left, right) in rows {
            var start = "  " + left + String(repeating: " ", count: width - left.count + 2)
            for line in wrapped(right, columns - start.count) {
                try output.line(start + line)
                start = String(repeating: " ", count: start.count)
            }
        }
    }

    /// Breaks a text into lines. Paragraphs are separated by an empty line.
    static func wrapped(_ text: String, _ width: Int = columns) -> [String] {
        var lines: [String] = []
        for paragraph in text.split(separator: "\n\n") {
            if !lines.isEmpty { lines.append("") }
            var line = ""
            for word in paragraph.split(whereSeparator: \.isWhitespace) {
                if !line.isEmpty, line.count + 1 + word.count > width {
                    lines.append(line)
                    line = ""
                }
                line += (line.isEmpty ? "" : " ") + word
            }
            lines.append(line)
        }
        return lines
    }
}
