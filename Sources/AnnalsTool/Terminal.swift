// The terminal that a person reads the output on: its width, and the pager of long output.

internal import Annals
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

package enum Terminal {
    /// The width in columns: of the terminal, or by the variable COLUMNS. Nil if unknown.
    static var columns: Int? {
        if let columns = environment("COLUMNS").flatMap({ Int($0) }), columns > 0 { return columns }
        var size = winsize()
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Whether a person can answer.
    static var isInput: Bool { isatty(0) == 1 }

    /// The columns that a text without control characters takes.
    package static func width(of text: String) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        return text.unicodeScalars.reduce(0) { $0 + width(of: $1) }
    }

    private static func width(of scalar: Unicode.Scalar) -> Int {
        if [.nonspacingMark, .enclosingMark, .format].contains(scalar.properties.generalCategory) { return 0 }
        if scalar.properties.isEmojiPresentation { return 2 }
        return wide.contains { $0.contains(scalar.value) } ? 2 : 1
    }

    /// The blocks of characters that are wide by Unicode's annex 11.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x4DBF, 0x4E00...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3,
        0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x16FE0...0x18CFF, 0x1AFF0...0x1B2FF,
        0x20000...0x3FFFD,
    ]

    /// The text in at most this many columns, with a mark where it was cut.
    package static func cut(_ text: String, to columns: Int) -> String {
        guard width(of: text) > columns else { return text }
        var (result, used) = ("", 1)
        for character in text {
            let width = width(of: String(character))
            guard used + width <= columns else { break }
            result.append(character)
            used += width
        }
        return result + "…"
    }

    /// Nil if the variable is missing or empty.
    ///
    /// Sound because the string is copied at once, and nothing here changes it at the same time.
    static func environment(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(validatingCString: value)
    }
}

extension Command.Option {
    static let color = Command.Option("color", value: "WHEN", "colours: always, never, or auto (on a terminal)")
}

extension Output {
    /// Decides about colours, by `--color` and the variable NO_COLOR, and about the pager.
    ///
    /// - Parameter isLong: Whether people read a lot of text.
    mutating func begin(_ arguments: Arguments, isLong: Bool) throws(ToolFailure) {
        let when = arguments.value(of: "color") ?? "auto"
        guard ["always", "never", "auto"].contains(when) else {
            throw ToolFailure(.usage, "The option “--color” takes always, never or auto, not “\(when)”.")
        }
        let isWanted = isTerminal && Terminal.environment("NO_COLOR") == nil && Terminal.environment("TERM") != "dumb"
        hasColors = when == "always" || when == "auto" && isWanted
        if isLong, isTerminal { Pager.start() }
    }
}

/// The user's pager. It gets everything that the tool prints from its start on.
enum Pager {
    private static let process = Atomic<pid_t>(0)

    /// Starts the pager of ANNALS_PAGER or PAGER, or `less`. `cat` is none, and so is an empty variable.
    static func start() {
        guard let command, command != "cat", process.load(ordering: .relaxed) == 0 else { return }
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { return }
        defer { for end in ends { close(end) } }
        // As `git` has it: quit if the text fits on the screen, show colours, leave the text there.
        setenv("LESS", "FRX", 0)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0)
        for end in ends { posix_spawn_file_actions_addclose(&actions, end) }
        var arguments = ["/bin/sh", "-c", command].map { (text: String) in strdup(text) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var started: pid_t = 0
        guard posix_spawn(&started, "/bin/sh", &actions, nil, &arguments, environ) == 0 else { return }
        dup2(ends[1], 1)
        // It is for the pager, which stays.
        signal(SIGINT, SIG_IGN)
        process.store(started, ordering: .relaxed)
    }

    private static var command: String? {
        for name in ["ANNALS_PAGER", "PAGER"] where getenv(name) != nil { return Terminal.environment(name) }
        let folders = Terminal.environment("PATH")?.split(separator: ":") ?? []
        return folders.contains { access("\($0)/less", X_OK) == 0 } ? "less" : nil
    }

    static var isRunning: Bool { process.load(ordering: .relaxed) != 0 }

    /// Waits until the pager has ended. Returns the status of the tool: the pager's end is no failure, unless it could
    /// not begin.
    static func end(_ status: ExitStatus) -> ExitStatus {
        let started = process.exchange(0, ordering: .relaxed)
        guard started != 0 else { return status }
        close(1)
        var ending: Int32 = 0
        while waitpid(started, &ending, 0) < 0, errno == EINTR {}
        // As the shell reports a command that it cannot find, or run.
        if [126, 127].contains(ending >> 8 & 0xFF) {
            try? Output.report("annals: The pager could not run: set PAGER to another one, or to cat.")
            return .failed
        }
        return status == .closedPipe ? .done : status
    }
}
