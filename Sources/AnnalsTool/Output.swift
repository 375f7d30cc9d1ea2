// The tool's output. It goes through one buffer, so that every failure to print is noticed, and without control
// characters.

internal import Annals

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

/// A part of a line, and how a terminal shows it.
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

/// Buffered output to one of the standard streams.
package struct Output: Sendable {
    package enum Stream: Int32, Sendable {
        case standardOutput = 1
        case standardError = 2
    }

    private static let bufferBytes = 64 * 1024

    private let stream: Stream
    private var buffer: [UInt8] = []
    /// After the first failure nothing more is written: it would look as if it directly followed the earlier output.
    package private(set) var hasFailed = false
    /// Whether the command has changed something. A failure to print does not undo that, as its message explains.
    package var hasChanges = false

    /// Whether a person reads the output.
    package let isTerminal: Bool
    /// Whether `styled` lines have colours.
    package var hasColors = false

    package init(_ stream: Stream) {
        self.stream = stream
        isTerminal = isatty(stream.rawValue) == 1
    }

    /// Prints a line of text. Control characters are escaped.
    package mutating func line(_ text: String = "") throws(ToolFailure) {
        try data(Array((Self.escaped(text) + "\n").utf8))
    }

    /// Prints a line of text in parts. Control characters are escaped.
    package mutating func line(_ parts: [StyledText]) throws(ToolFailure) {
        for part in parts {
            let text = Self.escaped(part.text)
            buffer += (hasColors && part.style != .plain ? "\u{1b}[\(part.style.rawValue)m\(text)\u{1b}[m" : text).utf8
        }
        try data([UInt8(ascii: "\n")])
    }

    /// Prints bytes unchanged: for other programs, or if they were escaped already.
    package mutating func data(_ bytes: [UInt8]) throws(ToolFailure) {
        buffer += bytes
        if buffer.count >= Self.bufferBytes { try flush() }
    }

    /// Prints a line of JSON for other programs.
    mutating func data(_ line: JSONLine) throws(ToolFailure) { try data(Array((line.text + "\n").utf8)) }

    /// Prints a result in one of the formats json and text.
    mutating func line(
        _ format: String, json: @autoclosure () -> JSONLine, text: @autoclosure () -> String
    ) throws(ToolFailure) {
        try line(Arguments.isJSON(format) ? json().text : text())
    }

    /// Prints lines on standard error at once.
    static func report(_ lines: String...) throws(ToolFailure) {
        var errors = Output(.standardError)
        for line in lines { try errors.line(line) }
        try errors.finish()
    }

    /// Writes the rest of the buffer. A command has succeeded only if this has.
    package mutating func finish() throws(ToolFailure) { try flush() }

    private mutating func flush() throws(ToolFailure) {
        defer { buffer.removeAll(keepingCapacity: true) }
        var sent = 0
        while sent < buffer.count && !hasFailed {
            do throws(SystemError) {
                sent += try SystemCalls.writeSome(stream.rawValue, buffer[sent...])
            } catch {
                hasFailed = true
                throw ToolFailure(
                    error.number == EPIPE ? .closedPipe : .failed,
                    "The output could not be written and is incomplete: \(Self.reason(error))."
                        + (hasChanges ? " The command has still made its changes." : ""))
            }
        }
    }

    private static func reason(_ error: SystemError) -> String {
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
