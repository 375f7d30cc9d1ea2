// `annals demo`: an application and its extension as two processes on one store, in a folder that is removed
// afterwards.

internal import Annals
internal import Glibc

extension Command {
    static let demo = Command(
        "demo", "Shows two processes that share a store and follow each other's changes.",
        details: """
            Starts an application and its extension as two processes on one new store, in a temporary folder (in
            TMPDIR, or in /tmp). Each prints what it writes, and what it sees of the other and how soon. Then
            history is cleaned up to where both have read it, and the store is compacted. The command fails if
            anything is wrong, and removes the folder. With ROLE (app, or extension), runs only that process on
            STORE, which the first one creates: use two terminals.
            """,
        operands: ["[ROLE]", "[STORE]"], run: DemoCommand.run)
}

enum DemoCommand {
    static let rounds = 5
    static let burst = 500

    static func run(_ arguments: Arguments, _ output: inout Output) throws(ToolFailure) -> ExitStatus {
        if let name = arguments.operands.first {
            guard let role = DemoRole(rawValue: name), arguments.operands.count == 2 else {
                throw ToolFailure(
                    .usage, "demo: ROLE is app or extension, and STORE is a path.", hint: "Try: annals help demo")
            }
            try DemoPlayer(role, arguments.operands[1]).play(&output)
            return .done
        }
        let ending = try Ending.onSignals()
        ending.holdBack()
        let folder = try makeFolder()
        let path = folder + "/demo.annals"
        defer {
            unlink(path)
            rmdir(folder)
        }
        try output.line("Two processes share \(path).")
        try output.finish()
        let players = try [DemoRole.app, .extension].map { (role) throws(ToolFailure) in try start(role, path) }
        ending.then { for player in players { kill(player, SIGTERM) } }
        // Wait for both, whatever the result of the other.
        let endings = players.map(status)
        guard !ending.isAsked else { throw ToolFailure(.failed, "The demonstration was ended.") }
        try expect(endings.allSatisfy { $0 == 0 }, "One of the two processes has failed.")
        try conclude(path, &output)
        return .done
    }

    private static func makeFolder() throws(ToolFailure) -> String {
        let base = getenv("TMPDIR").flatMap { $0.pointee == 0 ? nil : String(cString: $0) } ?? "/tmp"
        var template = Array((base + "/annals-demo-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw ToolFailure(.failed, "No folder could be created in \(base): \(String(cString: strerror(errno))).")
        }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    // MARK: Processes

    private static func start(_ role: DemoRole, _ path: String) throws(ToolFailure) -> pid_t {
        let words: [String] = ["annals", "demo", role.rawValue, path]
        let strings = words.map { strdup($0) }
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

    /// Reads, cleans and compacts what both have left.
    private static func conclude(_ path: String, _ output: inout Output) throws(ToolFailure) {
        let store = try StoreAccess.open(path, .readWrite)
        defer { try? store.close() }
        let last = try storing { try store.currentToken.number }
        let clips = try storing { try store.snapshot().count(of: "Clip") }
        try expect(clips == rounds, "The store has \(clips) clips instead of \(rounds).")
        let consumers = try storing { try store.consumers }
        try expect(
            consumers.count == 2 && consumers.allSatisfy { $0.lag == 0 }, "One of the two has not read everything.")
        let plan = try storing { try store.clean() }
        try output.line(
            "Both have read everything up to transaction \(last): \(plan.transactions) transactions are cleaned.")
        try expect(plan.before == last + 1, "Not everything was cleaned that both have read.")
        let result = try storing { try store.compact() }
        try output.line("Compaction: \(result.bytesBefore) bytes before, \(result.bytesAfter) after.")
        try expect(result.bytesAfter < result.bytesBefore, "Compaction freed nothing.")
        let left = try storing {
            // A token from before the compaction is a place in the new file too.
            (try store.history(after: consumers[0].cursor).count, try store.snapshot().count(of: "Clip"))
        }
        try expect(left == (0, UInt64(rounds)), "Compaction has changed the content of the store.")
        try storing { try store.close() }
        let report = try storing { try Checker.check(path, files: RealFileSystem()) }
        try expect(report.isIntact, "The store is not intact.")
        try output.line("Everything is as it should be.")
    }

    static func expect(_ holds: Bool, _ sentence: String) throws(ToolFailure) {
        guard holds else { throw ToolFailure(.failed, sentence) }
    }
}
