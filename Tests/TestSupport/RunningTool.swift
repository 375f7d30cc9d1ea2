// A program of the package that runs beside a test.

import Annals
import Glibc

/// Killed in `deinit` if it still runs.
package final class RunningTool {
    private let process: pid_t
    private let temporary: TemporaryDirectory
    private let readEnd: Int32
    /// What it reads as its input; -1 if it has none.
    private var input: Int32
    private var received: [UInt8] = []
    private var hasEnded = false

    /// Starts an executable that lies beside the test bundle. Its output comes through a pipe.
    ///
    /// - Parameter takesInput: Whether `send` gives it input. Otherwise it reads nothing.
    package init(_ arguments: [String], name: String = "annals", takesInput: Bool = false) throws {
        temporary = try TemporaryDirectory()
        var ends: [Int32] = [-1, -1]
        var inputs: [Int32] = [-1, -1]
        guard pipe(&ends) == 0,
            // Writing to a process that has ended is an error of a socket, and a signal of a pipe.
            !takesInput || socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &inputs) == 0
        else { throw SpawnError(path: name, number: errno) }
        // The other end, kept open by it, would keep a test from seeing that everybody has gone.
        for end in ends + inputs where end >= 0 { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        if takesInput {
            posix_spawn_file_actions_adddup2(&actions, inputs[0], 0)
        } else {
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_addopen(&actions, 2, temporary.path("errors"), O_WRONLY | O_CREAT, 0o600)
        let path = toolPath(name)
        let strings = ([path] + arguments).map { strdup($0) }
        defer { for string in strings { free(string) } }
        var started: pid_t = 0
        let failure = posix_spawn(&started, path, &actions, nil, strings + [nil], environ)
        close(ends[1])
        if takesInput { close(inputs[0]) }
        (process, readEnd, input) = (started, ends[0], inputs[1])
        guard failure == 0 else {
            hasEnded = true
            throw SpawnError(path: path, number: failure)
        }
    }

    deinit {
        if readEnd >= 0 { close(readEnd) }
        closeInput()
        guard !hasEnded else { return }
        kill(process, SIGKILL)
        var ending: Int32 = 0
        waitpid(process, &ending, 0)
    }

    /// Gives it a line of input.
    package func send(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        Glibc.send(input, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Ends its input.
    package func closeInput() {
        if input >= 0 { close(input) }
        input = -1
    }

    package var processID: UInt32 { UInt32(process) }

    /// The next line of its output; nil at the end of it, or when nothing has come for a minute.
    package func line() -> String? {
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
                defer { received.removeSubrange(...end) }
                return String(decoding: received[..<end], as: UTF8.self)
            }
            var list = [pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)]
            guard poll(&list, 1, 60_000) > 0 else { return nil }
            let count = read(readEnd, &buffer, buffer.count)
            guard count > 0 else { return nil }
            received += buffer[..<count]
        }
    }

    /// Whether it has not ended yet. What became of it is still to be asked by `end`.
    package var isRunning: Bool {
        var information = siginfo_t()
        return waitid(P_PID, id_t(process), &information, WEXITED | WNOHANG | WNOWAIT) == 0 && information.si_signo == 0
    }

    /// Its standard error until now.
    package var errors: String { temporary.read("errors") ?? "" }

    package func signal(_ number: Int32) { kill(process, number) }

    /// Waits until it has ended; one that does not within ten minutes is killed, and ends by that signal.
    package func end() -> ToolRun {
        let deadline = RealEnvironment().monotonicMicroseconds() + 600_000_000
        var ending: Int32 = 0
        while waitpid(process, &ending, WNOHANG) == 0 {
            if RealEnvironment().monotonicMicroseconds() > deadline { kill(process, SIGKILL) }
            RealEnvironment().sleep(microseconds: 500)
        }
        hasEnded = true
        let signal = ending & 0x7f
        return ToolRun(
            status: signal == 0 ? (ending >> 8) & 0xff : nil, signal: signal == 0 ? nil : signal,
            output: String(decoding: received, as: UTF8.self), errors: errors)
    }
}
