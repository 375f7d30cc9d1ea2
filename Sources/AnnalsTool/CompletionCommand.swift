// `annals completion SHELL`: prints a script with which a shell completes commands, options and files.

internal import Annals

extension Command {
    static let completion = Command(
        "completion", "Prints a script that completes commands and options in a shell.",
        details: """
            SHELL is bash, zsh or fish. To use it now and in each new shell, add one line to the shell's start file.
            For bash, ~/.bashrc: source <(annals completion bash). For zsh, ~/.zshrc, after compinit:
            source <(annals completion zsh). For fish, ~/.config/fish/config.fish: annals completion fish | source.
            """,
        operands: ["SHELL"], run: CompletionCommand.run)
}

enum CompletionCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        switch arguments.operands[0] {
        case "bash": try output.data(Array(bash.utf8))
        // zsh runs bash's completion functions.
        case "zsh": try output.data(Array(("autoload -U +X bashcompinit && bashcompinit\n" + bash).utf8))
        case "fish": try output.data(Array(fish.utf8))
        default:
            throw Command.completion.refusal(
                "“\(arguments.operands[0])” is no shell that is known here: use bash, zsh or fish.")
        }
    }

    /// The first words of commands, each once, with the commands that begin with them.
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
        let words = firstWords
        var cases = ""
        cases += "        \"help \"*) options=\"\(words.map(\.word).joined(separator: " ")) --man\" ;;\n"
        cases += "        \"completion \"*) options=\"bash zsh fish\" ;;\n"
        for (word, commands) in words {
            for command in commands where command.name != word {
                cases += "        \"\(command.name)\") options=\"\(options(command))\" ;;\n"
            }
            if let command = commands.first(where: { $0.name == word }) {
                cases += "        \"\(word) \"*) options=\"\(options(command))\" ;;\n"
            } else {
                let seconds = commands.map { $0.name.dropFirst(word.count + 1) }.joined(separator: " ")
                cases += "        \"\(word) \"*) if [ \"$COMP_CWORD\" = 2 ]; then options=\"\(seconds)\"; fi ;;\n"
            }
        }
        return """
            _annals() {
                local word="${COMP_WORDS[COMP_CWORD]}" options=""
                if [ "$COMP_CWORD" = 1 ]; then
                    COMPREPLY=($(compgen -W "\(words.map(\.word).joined(separator: " "))" -- "$word"))
                    return
                fi
                case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
            \(cases)    esac
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
