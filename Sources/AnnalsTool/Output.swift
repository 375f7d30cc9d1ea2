// What the tool prints: through one buffer, so that every failure to print is noticed, and without control characters.

internal import Annals
internal import Glibc

/// A buffered way to one of the standard streams.
package struct Output {
    package enum Stream: Int32, Sendable {
        case standardOutput = 1
        case standardError = 2
    }

    private static let bufferBytes = 64 * 1024

    private let stream: Stream
    private var buffer: [UInt8] = []
    /// After the first failure nothing is written any more: what came later would look as if it followed what came
    /// before.
    package private(set) var hasFailed = false
    /// Whether the command has changed something by now: a failure to print does not undo that, and says so.
    package var hasChanges = false

    package init(_ stream: Stream) { self.stream = stream }

    /// Prints a line of text; control characters in it are shown, not sent.
    package mutating func line(_ text: String = "") throws(ToolFailure) {
        buffer += Self.escaped(text).utf8
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= Self.bufferBytes { try flush() }
    }

    /// Prints bytes as they are: what is meant for other programs, or was escaped in another way.
    package mutating func data(_ bytes: [UInt8]) throws(ToolFailure) {
        buffer += bytes
        if buffer.count >= Self.bufferBytes { try flush() }
    }

    /// Whether somebody looks at it.
    package var isTerminal: Bool { isatty(stream.rawValue) == 1 }

    /// Sends what is left. A command has succeeded only when this has.
    package mutating func finish() throws(ToolFailure) { try flush() }

    private mutating func flush() throws(ToolFailure) {
        defer { buffer.removeAll(keepingCapacity: true) }
        var sent = 0
        while sent < buffer.count && !hasFailed {
            do throws(SystemError) {
                sent += try SystemCalls.write(stream.rawValue, buffer[sent...])
            } catch {
                hasFailed = true
                throw ToolFailure(
                    error.number == EPIPE ? .closedPipe : .failed,
                    "The output could not be written, what was printed is incomplete: \(Self.reason(error))."
                        + (hasChanges ? " What the command was to change is done all the same." : ""))
            }
        }
    }

    private static func reason(_ error: SystemError) -> String {
        switch error.number {
        case EPIPE: "Whoever read it has gone"
        case ENOSPC: "No space is left there"
        case EBADF: "It is closed"
        case EFBIG: "The file may not grow further"
        default: "Error \(error.number) of the system"
        }
    }

    /// The text with every control character, and what turns the direction of writing, as `\u{…}`, so that no name in a
    /// file can command a terminal.
    package static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isCommand) else { return text }
        var result = ""
        for scalar in text.unicodeScalars {
            if isCommand(scalar) {
                result += "\\u{" + String(scalar.value, radix: 16) + "}"
            } else {
                result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// Whether a terminal could obey it, or it changes the direction of writing.
    package static func isCommand(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}
