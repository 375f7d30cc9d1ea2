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
            """, operands: ["SHELL"]
    ) { arguments, output in
        switch arguments.operands[0] {
        case "bash": output.data(Array(bash.utf8))
        // zsh runs bash's completion functions.
        case "zsh": output.data(Array(("autoload -U +X bashcompinit && bashcompinit\n" + bash).utf8))
        case "fish": output.data(Array(fish.utf8))
        default:
            throw arguments.refusal("“\(arguments.operands[0])” is no shell that is known here: use bash, zsh or fish.")
        }
    }

    private static var firstWords: [(word: String, commands: [Command])] {
        Commands.all.reduce(into: []) { words, command in
            let word = String(command.name.prefix { $0 != " " })
            if words.last?.word != word { words.append((word, [])) }
            words[words.count - 1].commands.append(command)
        }
    }

    private static func options(_ command: Command) -> String {
        (command.options.map(\.name) + ["help"]).map { "--" + $0 }.joined(separator: " ")
    }

    private static var bash: String {
        let words = firstWords.map(\.word).joined(separator: " ")
        // The first pattern that matches counts.
        var cases = [("\"help \"*", words + " --man"), ("\"completion \"*", "bash zsh fish")]
        cases += Commands.all.map { ("\"\($0.name)" + ($0.name.contains(" ") ? "\"" : " \"*"), options($0)) }
        var lines = cases.map { "        \($0)) options=\"\($1)\" ;;\n" }
        for (word, commands) in firstWords where commands[0].name != word {
            let seconds = commands.map { $0.name.dropFirst(word.count + 1) }.joined(separator: " ")
            lines.append("        \"\(word) \"*) if [ \"$COMP_CWORD\" = 2 ]; then options=\"\(seconds)\"; fi ;;\n")
        }
        return """
            _annals() {
                local word="${COMP_WORDS[COMP_CWORD]}" options=""
                if [ "$COMP_CWORD" = 1 ]; then
                    COMPREPLY=($(compgen -W "\(words)" -- "$word"))
                    return
                fi
                case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
            \(lines.joined())    esac
                # Without an answer, the shell completes the names of files.
                COMPREPLY=()
                case "$word:$options" in
                    --*|*:[a-z]*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
                esac
            }
            complete -o default -F _annals annals

            """
    }

    private static var fish: String {
        var lines = ["complete -c annals -n __fish_use_subcommand -f"]
        for (word, commands) in firstWords {
            let summary = commands.count == 1 ? commands[0].summary : commands.map(\.name).joined(separator: ", ")
            lines.append("complete -c annals -n __fish_use_subcommand -a \(word) -d \(quoted(summary))")
            for command in commands {
                var condition = "__fish_seen_subcommand_from \(word)"
                if command.name != word {
                    let second = command.name.dropFirst(word.count + 1)
                    lines.append("complete -c annals -n '\(condition)' -a \(second) -d \(quoted(command.summary))")
                    condition += "; and __fish_seen_subcommand_from \(second)"
                }
                for option in command.options {
                    lines.append(
                        "complete -c annals -n '\(condition)' -l \(option.name)\(option.value == nil ? "" : " -r") "
                            + "-d \(quoted(option.summary))")
                }
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }
}
