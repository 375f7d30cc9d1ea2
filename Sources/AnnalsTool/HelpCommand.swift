// `annals help` explains the tool, from the table of commands itself, in a terminal or as a manual page. `annals
// completion SHELL` prints a script with which a shell completes commands, options and files.

internal import Annals

enum HelpCommand {
    static let command = Command(
        "help", "Explains the tool or one command.", operands: ["[COMMAND…]"],
        options: [Option("man", "prints the whole help as a manual page: annals help --man | man -l -")]
    ) { arguments, output in
        let words = arguments.operands
        if arguments.has("man") {
            guard words.isEmpty else {
                throw ToolFailure(.usage, "“--man” prints the help of all commands.", hint: "Try: annals help --man")
            }
            return output.data(Array(ManualPage.text.utf8))
        }
        guard let first = words.first else { return overview(output) }
        if let (command, rest) = Commands.find(words), rest.isEmpty { return explain(command, output) }
        let group = Commands.beginning(with: first)
        if words.count == 1, !group.isEmpty { return list(group, output) }
        throw Commands.unknown(words)
    }

    /// The commands of two words with a common first one.
    static func list(_ group: [Command], _ output: Output) { table(group.map { ($0.usage, $0.summary) }, output) }

    private static func overview(_ output: Output) {
        for line in ["annals: \(purpose)", "", "usage: annals COMMAND [OPTION…] [OPERAND…]", ""] { output.line(line) }
        table(Commands.all.map { ($0.name, $0.summary) }, output)
        for line in [""] + notes + ["", "exit status:"] { output.line(line) }
        table(ExitStatus.allCases.map { (String($0.rawValue), $0.meaning) }, output)
    }

    static let purpose = "loads, changes, shows and checks Annals stores"
    static let notes = [
        "After “--”, everything is an operand, even if it begins with a dash.",
        "If an option's value begins with two dashes, write --OPTION=VALUE.",
        "With --format json, any command prints an error as one JSON object.",
        "“annals --version” prints the version.",
    ]

    static func explain(_ command: Command, _ output: Output) {
        let text = ["usage: " + command.usage, command.summary, command.details].joined(separator: "\n\n")
        for line in wrapped(text) + (command.options.isEmpty ? [] : [""]) { output.line(line) }
        table(command.options.map { ($0.usage, $0.summary) }, output)
    }

    private static let columns = 80

    private static func table(_ rows: [(String, String)], _ output: Output) {
        let width = rows.map(\.0.count).max() ?? 0
        for (left, right) in rows {
            var start = "  " + left + String(repeating: " ", count: width - left.count + 2)
            for line in wrapped(right, columns - start.count) {
                output.line(start + line)
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

enum ManualPage {
    static var text: String {
        var page = ".TH ANNALS 1 \"\" \"annals \(Tool.version)\"\n"
        page += ".SH NAME\nannals \\- \(escaped(HelpCommand.purpose))\n"
        page += ".SH SYNOPSIS\n.B annals\nCOMMAND [OPTION…] [OPERAND…]\n.SH COMMANDS\n"
        for command in Commands.all {
            page += ".SS \(escaped(command.usage))\n\(escaped(command.summary))\n"
            for paragraph in command.details.split(separator: "\n\n") {
                page += ".PP\n" + paragraph.split(separator: "\n").map { escaped(String($0)) + "\n" }.joined()
            }
            for option in command.options { page += item(option.usage, option.summary) }
        }
        page += ".SH NOTES\n" + HelpCommand.notes.map { escaped($0) + "\n.br\n" }.joined()
        page += ".SH EXIT STATUS\n" + ExitStatus.allCases.map { item(String($0.rawValue), $0.meaning) }.joined()
        return page
    }

    private static func item(_ name: String, _ meaning: String) -> String {
        ".TP\n.B \(escaped(name))\n\(escaped(meaning))\n"
    }

    /// A backslash begins a command, and so does a point or an apostrophe at the beginning of a line.
    private static func escaped(_ text: String) -> String {
        let text = text.replacing("\\", with: "\\e").replacing("-", with: "\\-")
        return [".", "'"].contains(text.prefix(1)) ? "\\&" + text : text
    }
}

enum CompletionCommand {
    static let command = Command(
        "completion", "Prints a script that completes commands and options in a shell.",
        details: """
            SHELL is bash, zsh or fish. To use it now and in each new shell, add one line to the shell's start file.
            For bash, ~/.bashrc: source <(annals completion bash). For zsh, ~/.zshrc, after compinit:
            source <(annals completion zsh). For fish, ~/.config/fish/config.fish: annals completion fish | source.

            The script calls this command with the WORDs of the line. Then it prints what can replace the last one.
            """, operands: ["SHELL", "[WORD…]"]
    ) { arguments, output in
        let (shell, words) = (arguments.operands[0], Array(arguments.operands.dropFirst()))
        let script = try scripts[shell].orThrow(
            arguments.refusal("“\(shell)” is no shell that is known here: use bash, zsh or fish."))
        let lines = candidates(words).map { $0.word + (shell == "fish" ? "\t" + $0.summary : "") + "\n" }
        output.data(Array((words.isEmpty ? script : lines.joined()).utf8))
    }

    /// The words that can replace the last one. Empty if that may be the name of a file.
    private static func candidates(_ words: [String]) -> [(word: String, summary: String)] {
        let (before, last) = (Array(words.dropLast()), words.last ?? "")
        guard let (command, rest) = Commands.find(before) else {
            let group = before.isEmpty ? Commands.all : before.count == 1 ? Commands.beginning(with: before[0]) : []
            return group.reduce(into: []) { list, command in
                let word = String(command.name.split(separator: " ")[before.count])
                if list.last?.word != word { list.append((word, command.summary)) }
            }
        }
        if let option = command.options.first(where: { "--" + $0.name == before.last }), option.value != nil {
            return option.formats.map { ($0, "") }
        }
        if last.hasPrefix("-") {
            return command.options.map { ("--" + $0.name, $0.summary) } + [("--help", "explains the command")]
        }
        switch command.name {
        case "help": return candidates(rest + [last])
        case "completion" where rest.isEmpty: return scripts.keys.sorted().map { ($0, "") }
        default: return []
        }
    }

    private static let bash = """
        _annals() {
            local IFS=$'\\n' word="${COMP_WORDS[COMP_CWORD]}"
            local words="$("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null)"
            # Without an answer, the shell completes the names of files.
            COMPREPLY=($(compgen -W "$words" -- "$word"))
        }
        complete -o default -F _annals annals

        """

    private static let scripts = [
        "bash": bash,
        // zsh runs bash's completion functions.
        "zsh": "autoload -U +X bashcompinit && bashcompinit\n" + bash,
        "fish": """
        complete -c annals -n __fish_use_subcommand -f
        complete -c annals -a '(annals completion fish -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'

        """,
    ]
}
