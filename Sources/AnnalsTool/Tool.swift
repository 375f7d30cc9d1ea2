// The program `annals`: finds the requested command, runs it, and ends with an exit status.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// The commands, in the order of help.
enum Commands {
    static let all: [Command] = [
        LoadCommand.command, EditCommands.insert, EditCommands.set, EditCommands.delete, GetCommand.get,
        FindCommand.command, GetCommand.count, DumpCommand.command, SchemaCommand.command, HistoryCommand.command,
        DiffCommand.command, WatchCommand.command, VersionsCommand.command, RevertCommand.command,
        RestoreCommand.command, ExportCommand.command, ApplyCommand.command, MirrorCommands.run, MirrorCommands.status,
        MirrorCommands.leave, MirrorCommands.forget, MirrorCommands.adopt, ConsumersCommand.command,
        RetentionCommand.command, CleanCommands.clean, CleanCommands.compact, CleanCommands.backup,
        SearchIndexCommand.command, InfoCommand.command, ReportCommand.command, VerifyCommand.command,
        SalvageCommand.command, FramesCommand.command, DemoCommand.command, CompletionCommand.command,
        HelpCommand.command,
    ]

    /// The command that begins the words, whose name has one word or two, and the words after its name.
    static func find(_ words: [String]) -> (command: Command, rest: [String])? {
        for count in 1...2 where words.count >= count {
            let name = words.prefix(count).joined(separator: " ")
            if let command = all.first(where: { $0.name == name }) { return (command, Array(words.dropFirst(count))) }
        }
        return nil
    }

    static func beginning(with word: String) -> [Command] { all.filter { $0.name.hasPrefix(word + " ") } }

    static func unknown(_ words: [String]) -> ToolFailure {
        let group = words.first.map { beginning(with: $0) } ?? []
        if let first = words.first, !group.isEmpty {
            let seconds = group.map { String($0.name.dropFirst(first.count + 1)) }.joined(separator: " or ")
            return ToolFailure(.usage, "“annals \(first)” needs \(seconds).", hint: "Try: annals help \(first)")
        }
        let similar = words.first.flatMap { nearest(to: $0, in: all.map(\.name)) }
        return ToolFailure(
            .usage, "There is no command “\(words.first ?? "")”." + (similar.map { " Did you mean \($0)?" } ?? ""),
            hint: "Try: annals help")
    }

    /// The name that differs least from a mistyped one: in at most a third of its letters. Nil without one.
    static func nearest(to word: String, in names: [String]) -> String? {
        // Nobody mistypes a name so much.
        guard word.utf8.count <= 40 else { return nil }
        // A wrong letter is one that is removed and one that is inserted, and so are two in the wrong order.
        let distances = names.map { ($0, Array(word).difference(from: Array($0)).count) }
        return distances.filter { $0.1 <= 2 * max(1, $0.0.count / 3) }.min { $0.1 < $1.1 }?.0
    }
}

@main struct Tool {
    /// The version of the library and of the tool, which are released together.
    static let version = "1.0.0"

    static func main() {
        // A closed pipe and a file size limit are reported as errors, and do not end the process.
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        exit(Pager.end(run(arguments)).rawValue)
    }

    /// Nil if an argument is not valid UTF-8: repaired, it could name another file.
    private static var arguments: [String]? {
        let words = UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)).dropFirst()
        let arguments = words.compactMap { $0.flatMap { String(validatingCString: $0) } }
        return arguments.count == words.count ? arguments : nil
    }

    static func run(_ arguments: [String]?) -> ExitStatus {
        let output = Output(.standardOutput)
        do throws(ToolFailure) {
            let arguments = try arguments.orThrow(
                ToolFailure(.usage, "An argument is not valid UTF-8: rename the file, or name it through a link."))
            let status = try dispatch(arguments, to: output)
            try output.finish()
            return status
        } catch {
            // The output from before the failure is still useful. If writing it fails too, the first failure is
            // reported.
            try? output.finish()
            if error.status == .closedPipe { return error.status }
            let errors = Output(.standardError)
            if ToolFailure.isJSONWanted(arguments ?? []) {
                errors.line(error.json)
            } else {
                errors.line("annals: " + error.message)
                if let hint = error.hint { errors.line(hint) }
            }
            try? errors.finish()
            return error.status
        }
    }

    private static func dispatch(_ arguments: [String], to output: Output) throws(ToolFailure) -> ExitStatus {
        let first = try arguments.first.orThrow(ToolFailure(.usage, "No command was given.", hint: "Try: annals help"))
        if first == "--version" {
            output.line("annals \(version)")
            return .done
        }
        let words = ["--help", "-h"].contains(first) ? ["help"] + arguments.dropFirst() : arguments
        guard let (command, rest) = Commands.find(words) else {
            let group = Commands.beginning(with: first)
            guard !group.isEmpty, Arguments.askForHelp(Array(arguments.dropFirst())) else {
                throw Commands.unknown(arguments)
            }
            HelpCommand.list(group, output)
            return .done
        }
        guard Arguments.askForHelp(rest) else { return try command.run(Arguments(rest, for: command), output) }
        HelpCommand.explain(command, output)
        return .done
    }
}
