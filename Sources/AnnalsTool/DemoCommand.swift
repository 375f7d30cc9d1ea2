// `annals demo`: an app, a share extension and an importer as three processes on one store, in a folder that is removed
// afterwards.

internal import Annals
internal import AnnalsDemo
internal import FoundationEssentials

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

enum DemoCommand {
    static let command = Command(
        "demo", "Shows three processes that share a store: objects that change by themselves, observers, cleaning.",
        details: """
            Starts an app, a share extension and a batch importer as three processes on one new store, in the
            folder of an app group below a temporary folder (in TMPDIR, or in /tmp). The app holds objects in a
            context. They show the changes of the other processes, and keep an unsaved edit. Observers get inserted
            clips, and the preserved values of a deleted clip. When all have read it, history is cleaned, and the
            store is compacted. The command fails if anything is wrong, and removes the folder. With ROLE (app, share,
            or import), runs only that process on STORE: use three terminals.
            """, operands: ["[ROLE]", "[STORE]"]
    ) { arguments, output in
        if let name = arguments.operands.first {
            guard let role = Demonstration.Role(rawValue: name), arguments.operands.count == 2 else {
                throw arguments.refusal("demo: ROLE is app, share or import, and STORE is a path.")
            }
            let path = arguments.operands[1]
            // The process that shows all three blocks them for itself.
            Ending.change(SIG_UNBLOCK)
            let program = try Demonstration(role, path) { sentence in try say(role, sentence) }
            try ToolTask.wait { try await program.run() }
            return
        }
        let ending = try Ending.onSignals()
        ending.holdBack()
        let base = (Terminal.environment("TMPDIR") ?? "/tmp") + "/annals-demo-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: base) }
        try FileManager.default.createDirectory(
            atPath: base, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let path = try AppGroup("demo", in: base).storePath(named: "demo")
        output.line("Three processes share \(path).")
        try output.finish()
        let players = try Demonstration.Role.allCases.map { role in try start(role, path) }
        ending.then { for player in players { kill(player, SIGTERM) } }
        // Wait for all, even if one has failed.
        let endings = players.map(status)
        if ending.isAsked { throw ToolFailure("The demonstration was interrupted.") }
        guard endings.allSatisfy({ $0 == 0 }) else { throw ToolFailure("One of the three processes has failed.") }
        try Demonstration.examine(path) { output.line($0) }
    }

    private static func start(_ role: Demonstration.Role, _ path: String) throws -> pid_t {
        let strings = ["annals", "demo", role.rawValue, path].map { (word: String) in strdup(word) }
        defer { for string in strings { free(string) } }
        var process: pid_t = 0
        let failure = posix_spawn(&process, "/proc/self/exe", nil, nil, strings + [nil], environ)
        guard failure == 0 else {
            throw ToolFailure("A process could not be started: \(String(cString: strerror(failure))).")
        }
        return process
    }

    private static func status(of process: pid_t) -> Int32? {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return nil } }
        return status & 0x7F == 0 ? status >> 8 & 0xFF : nil
    }

    private static func say(_ role: Demonstration.Role, _ sentence: String) throws {
        let output = Output(.standardOutput)
        output.line(role.rawValue + String(repeating: " ", count: 8 - role.rawValue.count) + sentence)
        try output.finish()
    }
}
