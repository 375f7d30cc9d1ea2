// The tool's output, the terminal that shows it, and the pager of long output. Output goes through one buffer, so that
// every failure to print is noticed, and has no control characters.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

package struct StyledText: Equatable, Sendable {
    /// The parameters of the terminal's escape sequence.
    package enum Style: String, Sendable {
        case plain = ""
        case strong = "1"
        case faint = "2"
        case number = "33"
        case insert = "32"
        case update = "36"
        case delete = "31"
    }

    package var text: String
    package var style: Style

    package init(_ text: String, _ style: Style = .plain) { (self.text, self.style) = (text, style) }
}

package final class Output {
    package enum Stream: Int32, Sendable {
        case standardOutput = 1
        case standardError = 2
    }

    private static let bufferBytes = 64 * 1024
    private let stream: Stream
    private var buffer: [UInt8] = []
    /// After the first failure nothing more is written: it would look as if it directly followed the earlier output.
    private var failure: ToolFailure?
    /// Whether printing more is in vain. `finish` throws the failure.
    var hasFailed: Bool { failure != nil }
    /// Whether the command has changed something. A failure to print does not undo that, as its message explains.
    package var hasChanges = false
    package let isTerminal: Bool
    package var hasColors = false
    /// The command's format, such as text, json or csv.
    var format = "text"
    var isJSON: Bool { Arguments.isJSON(format) }

    package init(_ stream: Stream) {
        self.stream = stream
        isTerminal = isatty(stream.rawValue) == 1
    }

    /// Decides about colours, by `--color` and the variable NO_COLOR, and about the pager, which gets long text.
    func begin(_ arguments: Arguments, isLong: Bool) throws(ToolFailure) {
        enum When: String, CaseIterable { case always, never, auto }
        let when: When = try arguments.choice(of: "color") ?? .auto
        let isWanted = isTerminal && Terminal.environment("NO_COLOR") == nil && Terminal.environment("TERM") != "dumb"
        hasColors = when == .always || when == .auto && isWanted
        if isLong, isTerminal { Pager.start() }
    }

    /// Prints a line of text. Control characters are escaped.
    package func line(_ text: String = "") { data(Array((Self.escaped(text) + "\n").utf8)) }

    /// Prints a line of text in parts. Control characters are escaped.
    package func line(_ parts: [StyledText]) {
        for part in parts {
            let text = Self.escaped(part.text)
            buffer += (hasColors && part.style != .plain ? "\u{1b}[\(part.style.rawValue)m\(text)\u{1b}[m" : text).utf8
        }
        data([UInt8(ascii: "\n")])
    }

    /// Prints bytes unchanged: for other programs, or if they were escaped already.
    package func data(_ bytes: [UInt8]) {
        buffer += bytes
        if buffer.count >= Self.bufferBytes { flush() }
    }

    func data(_ line: JSONLine) { data(Array((line.json + "\n").utf8)) }

    /// Prints a result as JSON or as text.
    func line(json: @autoclosure () -> JSONLine, text: @autoclosure () -> String) {
        line(isJSON ? json().json : text())
    }

    static func report(_ line: String) throws(ToolFailure) {
        let errors = Output(.standardError)
        errors.line(line)
        try errors.finish()
    }

    /// Writes the rest of the buffer. A command has succeeded only if this has.
    package func finish() throws(ToolFailure) {
        flush()
        if let failure { throw failure }
    }

    private func flush() {
        defer { buffer.removeAll(keepingCapacity: true) }
        var sent = 0
        while sent < buffer.count && !hasFailed {
            do throws(SystemError) {
                sent += try SystemCalls.writeSome(stream.rawValue, buffer[sent...])
            } catch {
                failure = ToolFailure(
                    error.number == EPIPE ? .closedPipe : .failed,
                    "The output could not be written and is incomplete: \(reason(error))."
                        + (hasChanges ? " The command has still made its changes." : ""))
            }
        }
    }

    private func reason(_ error: SystemError) -> String {
        switch error.number {
        case EPIPE: "its reader has closed it"
        case ENOSPC: "no space is left"
        case EBADF: "it is closed"
        case EFBIG: "the file may not grow further"
        default: "system error \(error.number)"
        }
    }

    /// The text with control characters, and characters that change the writing direction, as `\u{…}`. So no name in a
    /// file can command a terminal.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isCommand) else { return text }
        return text.unicodeScalars.reduce(into: "") { result, scalar in
            result += isCommand(scalar) ? "\\u{" + String(scalar.value, radix: 16) + "}" : String(scalar)
        }
    }

    /// Whether a terminal could obey the character, or it changes the writing direction.
    package static func isCommand(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}

package enum Terminal {
    /// The width in columns: of the terminal, or by the variable COLUMNS. Nil if unknown.
    static var columns: Int? {
        if let columns = environment("COLUMNS").flatMap({ Int($0) }), columns > 0 { return columns }
        var size = winsize()
        guard ioctl(1, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    static var isInput: Bool { isatty(0) == 1 }

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

    /// Nil if it is missing or empty. Sound: the string is copied at once, while nothing changes it.
    static func environment(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(validatingCString: value)
    }
}

/// The user's pager. It gets everything that the tool prints from its start on.
enum Pager {
    /// Waits for the end of the pager. Sound without a lock, because only the main thread uses it.
    nonisolated(unsafe) private static var wait: (() -> Int32)?

    /// Starts the pager of ANNALS_PAGER or PAGER, or `less`. `cat` is none, and so is an empty variable.
    static func start() {
        guard let command, command != "cat", !isRunning else { return }
        // As `git` has it: quit if the text fits on the screen, show colours, leave the text there.
        setenv("LESS", "FRX", 0)
        guard let pager = popen(command, "w") else { return }
        dup2(fileno(pager), 1)
        // It is for the pager, which stays.
        signal(SIGINT, SIG_IGN)
        wait = { pclose(pager) }
    }

    private static var command: String? {
        for name in ["ANNALS_PAGER", "PAGER"] where getenv(name) != nil { return Terminal.environment(name) }
        let folders = Terminal.environment("PATH")?.split(separator: ":") ?? []
        return folders.contains { access("\($0)/less", X_OK) == 0 } ? "less" : nil
    }

    static var isRunning: Bool { wait != nil }

    /// Waits for the pager, and returns the tool's status: the pager's end is no failure, unless it could not begin.
    static func end(_ status: ExitStatus) -> ExitStatus {
        guard let wait else { return status }
        close(1)
        let ending = wait()
        // As the shell reports a command that it cannot find, or run.
        if [126, 127].contains(ending >> 8 & 0xFF) {
            try? Output.report("annals: The pager could not run: set PAGER to another one, or to cat.")
            return .failed
        }
        return status == .closedPipe ? .done : status
    }
}
