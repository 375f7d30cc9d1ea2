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
package func runTool(
    _ arguments: [String], name: String = "annals", standardOutput: String? = nil, descriptor: Int32? = nil,
    closing closed: [Int32] = [], input: String? = nil
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
    defer { for string in strings { free(string) } }
    var process: pid_t = 0
    let failure = posix_spawn(&process, path, &actions, nil, strings + [nil], environ)
    guard failure == 0 else { throw SpawnError(path: path, number: failure) }
    var ending: Int32 = 0
    let deadline = RealEnvironment().monotonicMicroseconds() + 600_000_000
    while true {
        let ended = waitpid(process, &ending, WNOHANG)
        if ended == process { break }
        guard ended == 0 || errno == EINTR else { throw SpawnError(path: path, number: errno) }
        // A program that hangs ends as one killed by a signal, which no test expects.
        if RealEnvironment().monotonicMicroseconds() > deadline { kill(process, SIGKILL) }
        RealEnvironment().sleep(microseconds: 500)
    }
    let signal = ending & 0x7f
    return ToolRun(
        status: signal == 0 ? (ending >> 8) & 0xff : nil, signal: signal == 0 ? nil : signal,
        output: standardOutput == nil ? temporary.read("output") ?? "" : "", errors: temporary.read("errors") ?? "")
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
