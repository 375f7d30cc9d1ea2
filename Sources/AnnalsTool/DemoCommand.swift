// `annals demo`: an app, a share extension and an importer as three processes on one store, in a folder that is removed
// afterwards.

internal import Annals
internal import FoundationEssentials

#if canImport(Glibc)
    internal import Glibc
#else
    internal import Musl
#endif

extension Command {
    static let demo = Command(
        "demo", "Shows three processes that share a store: objects that change by themselves, observers, cleaning.",
        details: """
            Starts an app, a share extension and a batch importer as three processes on one new store, in the
            folder of an app group below a temporary folder (in TMPDIR, or in /tmp). The app holds objects in a
            context. They show the changes of the other processes, and keep an unsaved edit. Observers get inserted
            clips, and the preserved values of a deleted clip. When all have read it, history is cleaned, and the
            store is compacted. The command fails if anything is wrong, and removes the folder. With ROLE (app, share,
            or import), runs only that process on STORE: use three terminals.
            """,
        operands: ["[ROLE]", "[STORE]"], run: DemoCommand.run)
}

enum DemoCommand {
    static func run(_ arguments: Arguments, _ output: inout Output) throws {
        if let name = arguments.operands.first {
            guard let role = DemoRole(rawValue: name), arguments.operands.count == 2 else {
                throw Command.demo.refusal("demo: ROLE is app, share or import, and STORE is a path.")
            }
            let path = arguments.operands[1]
            try ToolTask.wait { try await DemoPlayer(role, path).play() }
            return
        }
        let ending = try Ending.onSignals()
        ending.holdBack()
        let base = (Terminal.environment("TMPDIR") ?? "/tmp") + "/annals-demo-\(UUID())"
        defer { try? FileManager.default.removeItem(atPath: base) }
        try FileManager.default.createDirectory(
            atPath: base, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let path = try AppGroup("demo", in: base).storePath(named: "demo")
        try output.line("Three processes share \(path).")
        try output.finish()
        let players = try DemoRole.allCases.map { role in try start(role, path) }
        ending.then { for player in players { kill(player, SIGTERM) } }
        // Wait for all, even if one has failed.
        let endings = players.map(status)
        guard !ending.isAsked else { throw ToolFailure(.failed, "The demonstration was interrupted.") }
        try expect(endings.allSatisfy { $0 == 0 }, "One of the three processes has failed.")
        try conclude(path, &output)
    }

    // MARK: Processes

    private static func start(_ role: DemoRole, _ path: String) throws -> pid_t {
        let strings = ["annals", "demo", role.rawValue, path].map { (word: String) in strdup(word) }
        defer { for string in strings { free(string) } }
        // They must end on signals, which this process blocks for itself.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var process: pid_t = 0
        let failure = posix_spawn(&process, "/proc/self/exe", nil, &attributes, strings + [nil], environ)
        guard failure == 0 else {
            throw ToolFailure(.failed, "A process could not be started: \(String(cString: strerror(failure))).")
        }
        return process
    }

    /// The exit status; nil if a signal ended the process.
    private static func status(of process: pid_t) -> Int32? {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 { guard errno == EINTR else { return nil } }
        return status & 0x7F == 0 ? status >> 8 & 0xFF : nil
    }

    // MARK: The end

    /// Examines the result of the three programs, and compacts the store.
    private static func conclude(_ path: String, _ output: inout Output) throws {
        let store = try StoreAccess.open(path, .readWrite)
        defer { try? store.close() }
        let clips = try store.snapshot().count(of: "Clip")
        let expected = UInt64(1 + DemoModel.shared - 1 + DemoModel.imported)
        try expect(clips == expected, "The store has \(clips) clips instead of \(expected).")
        let first = try store.snapshot().rows(of: "Clip", where: "url", equals: .string(DemoModel.firstURL))
        try expect(first.map { $0["title"] } == [.string(DemoModel.editedTitle)], "The app's title was not saved.")
        try expect(
            try store.consumers.map(\.name).sorted() == ["app", "share"],
            "Not exactly the app and the share extension are consumers of history.")
        let result = try store.compact()
        try output.line("Compaction: \(result.bytesBefore) bytes before, \(result.bytesAfter) after.")
        try expect(result.bytesAfter < result.bytesBefore, "Compaction freed nothing.")
        try expect(try store.snapshot().count(of: "Clip") == expected, "Compaction lost clips.")
        try store.close()
        try expect(try Checker.check(path, files: RealFileSystem()).isIntact, "The store is not intact.")
        try output.line("Everything is as it should be.")
    }

    static func expect(_ holds: Bool, _ sentence: String) throws {
        guard holds else { throw ToolFailure(.failed, sentence) }
    }
}
