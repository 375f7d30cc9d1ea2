// Running a program that was built with the tests, and what came of it.

import Annals
import Glibc

/// What a program left behind.
package struct ToolRun: Equatable, Sendable {
    /// nil when a signal ended it.
    package var status: Int32?
    package var signal: Int32?
    package var output: String
    package var errors: String
}

/// Runs an executable of this package and waits for its end.
///
/// - Parameters:
///   - name: the executable's name; it lies beside the test bundle. Or the path of another program.
///   - standardOutput: where its output goes instead of into the result: `/dev/full`, say.
///   - descriptor: the same as an open descriptor.
///   - closed: standard streams that it is started without.
///   - input: what it reads from standard input; nothing if nil.
///   - environment: variables beside those of the tests; an empty value unsets one.
package func runTool(
    _ arguments: [String], name: String = "annals", standardOutput: String? = nil, descriptor: Int32? = nil,
    closing closed: [Int32] = [], input: String? = nil, environment: [String: String] = [:]
) throws -> ToolRun {
    let temporary = try TemporaryDirectory()
    let output = standardOutput ?? temporary.path("output")
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let input { try temporary.write(input, to: "input") }
    posix_spawn_file_actions_addopen(&actions, 0, input == nil ? "/dev/null" : temporary.path("input"), O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT, 0o600)
    posix_spawn_file_actions_addopen(&actions, 2, temporary.path("errors"), O_WRONLY | O_CREAT, 0o600)
    if let descriptor { posix_spawn_file_actions_adddup2(&actions, descriptor, 1) }
    for descriptor in closed { posix_spawn_file_actions_addclose(&actions, descriptor) }

    let path = name.hasPrefix("/") ? name : toolPath(name)
    let strings = ([path] + arguments).map { strdup($0) }
    let variables = variables(environment)
    defer { for string in strings + variables { free(string) } }
    var process: pid_t = 0
    let failure = posix_spawn(&process, path, &actions, nil, strings + [nil], variables + [nil])
    guard failure == 0 else { throw SpawnError(path: path, number: failure) }
    let (status, signal) = try end(of: process)
    return ToolRun(
        status: status, signal: signal, output: standardOutput == nil ? temporary.read("output") ?? "" : "",
        errors: temporary.read("errors") ?? "")
}

/// The variables of the tests with others, as the system wants them. Free them.
private func variables(_ changes: [String: String]) -> [UnsafeMutablePointer<CChar>?] {
    var all: [String] = []
    var next = environ
    while let variable = next.pointee {
        let text = String(cString: variable)
        if changes[String(text.prefix { $0 != "=" })] == nil { all.append(text) }
        next += 1
    }
    all += changes.filter { !$0.value.isEmpty }.map { "\($0.key)=\($0.value)" }
    return all.map { strdup($0) }
}

/// Waits until a process has ended.
private func end(of process: pid_t) throws -> (status: Int32?, signal: Int32?) {
    var ending: Int32 = 0
    let deadline = RealEnvironment().monotonicMicroseconds() + 600_000_000
    while true {
        let ended = waitpid(process, &ending, WNOHANG)
        if ended == process { break }
        guard ended == 0 || errno == EINTR else { throw SpawnError(path: "\(process)", number: errno) }
        // A program that hangs ends as one killed by a signal, which no test expects.
        if RealEnvironment().monotonicMicroseconds() > deadline { kill(process, SIGKILL) }
        RealEnvironment().sleep(microseconds: 500)
    }
    let signal = ending & 0x7f
    return (signal == 0 ? (ending >> 8) & 0xff : nil, signal == 0 ? nil : signal)
}

/// Runs the tool on a terminal of its own, and returns all that appears there.
///
/// - Parameters:
///   - columns: the width of the terminal.
///   - input: what is typed there.
///   - environment: variables beside those of the tests; an empty value unsets one.
package func runOnTerminal(
    _ arguments: [String], columns: Int, input: String = "", environment: [String: String] = [:]
) throws -> (status: Int32?, output: String) {
    let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    guard terminal >= 0 else { throw SpawnError(path: "/dev/ptmx", number: errno) }
    defer { close(terminal) }
    // TIOCSPTLCK and TIOCGPTN, which Glibc has in a header of its own.
    var (lock, number): (Int32, UInt32) = (0, 0)
    var size = winsize(ws_row: 24, ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
    guard ioctl(terminal, 0x4004_5431, &lock) == 0, ioctl(terminal, 0x8004_5430, &number) == 0,
        ioctl(terminal, UInt(TIOCSWINSZ), &size) == 0
    else { throw SpawnError(path: "/dev/ptmx", number: errno) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for descriptor in 0...2 as ClosedRange<Int32> {
        posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/pts/\(number)", O_RDWR | O_NOCTTY, 0)
    }
    let path = toolPath("annals")
    let strings = ([path] + arguments).map { strdup($0) }
    let variables = variables(environment)
    defer { for string in strings + variables { free(string) } }
    var process: pid_t = 0
    let failure = posix_spawn(&process, path, &actions, nil, strings + [nil], variables + [nil])
    guard failure == 0 else { throw SpawnError(path: path, number: failure) }
    _ = Array(input.utf8).withUnsafeBytes { write(terminal, $0.baseAddress, $0.count) }
    var (bytes, part) = ([UInt8](), [UInt8](repeating: 0, count: 4096))
    // It ends with an error when the last process has closed the terminal.
    while case let count = read(terminal, &part, part.count), count > 0 { bytes += part[..<count] }
    let ending = try end(of: process)
    return (ending.status, String(decoding: bytes, as: UTF8.self).replacing("\r\n", with: "\n"))
}

package struct SpawnError: Error {
    package var path: String
    package var number: Int32
}

/// An executable in the directory that holds the running test bundle.
package func toolPath(_ name: String) -> String {
    // The tests run from the bundle itself or from a helper of the toolchain that was given the bundle's path.
    let arguments = CommandLine.arguments
    let bundle = arguments.first { $0.hasSuffix(".xctest") } ?? arguments.first ?? ""
    let directory = bundle.split(separator: "/", omittingEmptySubsequences: false).dropLast()
    return (directory + [Substring(name)]).joined(separator: "/")
}
