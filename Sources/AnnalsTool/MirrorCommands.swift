// The commands that begin with `annals mirror`: the mirror of a store, run by the tool or elsewhere, and its group.

internal import Annals
internal import AnnalsMirror
internal import FoundationEssentials

enum MirrorCommands {
    private static let connection = [
        Option("group", value: "NAME", "the stores that mirror each other (required)"),
        Option("nats", value: "ADDRESS", "through a NATS server with JetStream"),
        Option("token", value: "TOKEN", "the token that the server requires"),
        Option("user", value: "NAME", "the user, for a server that requires one"),
        Option("password", value: "PASSWORD", "the user's password"),
        Option("require-replicas", value: "NUMBER", "send nothing while fewer copies are kept, 1 to 5"),
        Option("domain", value: "NAME", "the JetStream domain, if it is not the server's own"),
        Option("folder", value: "PATH", "through a shared folder, which must exist"),
        Option("name", value: "NAME", "shown at the other stores; by default this machine's name"),
    ]

    static let run = Command(
        "mirror run", "Keeps a store equal to stores on other machines, until SIGTERM or SIGINT ends it.",
        details: """
            All stores of a group are written locally, also without a connection. The mirror publishes the store's
            transactions and merges those of the other stores. It carries them through a NATS server with JetStream,
            or through a folder that the machines share. Exactly one of --nats and --folder is required.

            ADDRESS is nats://host:port, or several with commas between them. Arguments are visible to all users of
            the machine. So give the token and the password by the variables ANNALS_NATS_TOKEN and
            ANNALS_NATS_PASSWORD. They are used if the address has no credentials.

            With --direction publish or receive, the mirror does only that; the rest waits for a mirror with both. Until
            then all stores of the group may keep their history for it.

            Objects of a --local ENTITY stay in this store. No relation may lead from it to another entity, or back.
            Later runs remember it.

            The state is printed when it changes, at most once a second. In jsonl each line is a whole state, and has
            the conflicts since the line before, at most 100 of them. Standard error has each error and each weak
            point of the engine once. The mirror tries again after every error.
            """, operands: ["STORE"],
        options: connection + [
            Option("create", "create the store if it is missing, to join with a new one"),
            Option("direction", value: "WHICH", "both (the default), publish or receive"),
            Option("local", value: "ENTITY", isRepeatable: true, "an entity that stays in this store"), .linesOrText,
        ]
    ) { arguments, output in
        let format = output.format
        try mirror(arguments) { mirror, ending in
            let isEnding = AsyncStream<Void>.makeStream()
            ending.then { isEnding.continuation.finish() }
            try await mirror.start()
            let reports = Task {
                // A closed pipe ends the command, too.
                defer { isEnding.continuation.finish() }
                var shown: Mirror.Status?
                for await status in mirror.statusUpdates() {
                    try show(status, after: shown, format)
                    shown = status
                    // The shortest time between two lines. Later states replace each other until then.
                    try? await Task.sleep(for: .seconds(1))
                }
                return shown
            }
            for await _ in isEnding.stream {}
            await mirror.stop()
            reports.cancel()
            let shown = try await reports.value
            try show(mirror.status, after: shown, format)
        }
    }

    static let status = Command(
        "mirror status", "Prints what the mirror of a store has recorded last.",
        details: """
            The mirror may run in any process. For each other store of the group: its last transaction that was merged
            here, its last transaction that was heard of, the last transaction of this store that it has confirmed,
            and when its last message came.
            """, operands: ["STORE"], options: [.jsonOrText]
    ) { arguments, output in
        let status = try StoreAccess.with(arguments.operands[0], .readOnly) { try Mirror.lastStatus(of: $0) }
        if output.isJSON { return output.data(MirrorStatusText.recorded(status)) }
        if let status { return MirrorStatusText.print(status, output) }
        output.line("This store was never mirrored. To begin: annals help mirror run")
    }

    static let leave = Command(
        "mirror leave", "Takes a store out of its group for good.",
        details: """
            Waits until the other stores have everything that this one has. Afterwards they do not wait for it any
            more. The store keeps its objects. Only a new store can join the group again. End the process that mirrors
            the store first.
            """, operands: ["STORE"], options: connection
    ) { arguments, output in
        try change(arguments) { try await $0.leave() }
        output.line("The store has left the group.")
    }

    static let forget = Command(
        "mirror forget", "Declares that a store of the group is lost.",
        details: """
            PEER is its identifier or its name in “annals mirror status”. The group does not wait for it any more.
            Transactions that no other store has are lost for the group. It joins again with a new store. End the
            process that mirrors STORE first, or run this for another store of the group.
            """, operands: ["STORE", "PEER"], options: connection
    ) { arguments, output in
        let wanted = arguments.operands[1]
        let status = try StoreAccess.with(arguments.operands[0], .readOnly) { try Mirror.lastStatus(of: $0) }
        let found = (status?.peers ?? []).filter { $0.name == wanted || $0.identifier == UUID(uuidString: wanted) }
        guard let peer = found.first, found.count == 1 else {
            throw ToolFailure(
                "The group has \(found.isEmpty ? "no" : "more than one") store “\(wanted)”.",
                hint: "Try: annals mirror status \(arguments.operands[0])")
        }
        try change(arguments) { try await $0.forget(peer.identifier) }
        output.line("The group does not wait for the store \(peer.identifier) any more.")
    }

    static let adopt = Command(
        "mirror adopt", "Makes a copied store the one that takes part in its group.",
        details: """
            Only if the original is gone for good: it was moved here, or is lost. Otherwise two stores would publish
            under one name.
            """, operands: ["STORE"]
    ) { arguments, output in
        try StoreAccess.with(arguments.operands[0], .readWrite) { store in try Mirror.adopt(store) }
        output.line("This store takes part in its group.")
    }

    /// Prints a state of a mirror, and each error and weak point that the state before it did not have.
    private static func show(_ status: Mirror.Status, after shown: Mirror.Status?, _ format: String) throws {
        guard shown != status else { return }
        for weakness in status.weaknesses where shown?.weaknesses.contains(weakness) != true {
            try Output.report("annals: weak point: " + weakness)
        }
        try showError(status, after: shown?.lastError)
        let output = Output(.standardOutput)
        output.format = format
        let json = MirrorStatusText.json(status, conflictsBefore: shown?.conflicts ?? 0)
        output.line(json: json, text: MirrorStatusText.line(status))
        try output.finish()
    }

    private static func showError(_ status: Mirror.Status, after shown: StoreError?) throws {
        if let error = status.lastError, error != shown { try Output.report("annals: " + error.description) }
    }

    /// Runs the mirror until `body` has changed the group, or SIGTERM or SIGINT comes. Shows its errors.
    private static func change(
        _ arguments: Arguments, _ body: @escaping @Sendable (Mirror) async throws -> Void
    ) throws {
        try mirror(arguments) { mirror, ending in
            try await mirror.start()
            ending.then { Task { await mirror.stop() } }
            let reports = Task {
                var shown: StoreError?
                for await status in mirror.statusUpdates() {
                    try showError(status, after: shown)
                    shown = status.lastError ?? shown
                }
            }
            defer { reports.cancel() }
            let end = await Task { try await body(mirror) }.result
            await mirror.stop()
            try end.get()
        }
    }

    /// Opens the store and makes its mirror, as the options say, and waits for `body`.
    private static func mirror(
        _ arguments: Arguments, _ body: @escaping @Sendable (Mirror, Ending) async throws -> Void
    ) throws {
        let route = try route(arguments)
        let group = try arguments.value(of: "group").orThrow(arguments.refusal("--group is missing: name the group."))
        let direction: Mirror.Direction = try arguments.choice(of: "direction") ?? .both
        let ending = try Ending.onSignals()
        let store = try StoreAccess.open(arguments.operands[0], .readWrite, creates: arguments.has("create"))
        defer { try? store.close() }
        let mirror = try Mirror(
            store, group: group, through: route, name: arguments.value(of: "name"), direction: direction,
            localEntities: arguments.values(of: "local"))
        try ToolTask.wait { try await body(mirror, ending) }
    }

    private static func route(_ arguments: Arguments) throws -> Mirror.Route {
        _ = try arguments.onlyOne(of: ["nats", "folder"])
        if let address = arguments.value(of: "nats") { return try nats(address, arguments) }
        let path = try arguments.value(of: "folder").orThrow(
            arguments.refusal("Either --nats or --folder is missing: choose how the messages travel."))
        if let option = ["token", "user", "password", "require-replicas", "domain"].first(where: arguments.has) {
            throw arguments.refusal("--\(option) belongs to --nats, and cannot be given with --folder.")
        }
        return .folder(path)
    }

    private static func nats(_ address: String, _ arguments: Arguments) throws -> Mirror.Route {
        let refusal = arguments.refusal
        let domain = arguments.value(of: "domain")
        let replicas = try arguments.number(of: "require-replicas").map { Int(clamping: $0) }
        guard let user = arguments.value(of: "user") else {
            if arguments.has("password") { throw refusal("--password needs --user.") }
            let token = arguments.value(of: "token") ?? Terminal.environment("ANNALS_NATS_TOKEN")
            return .nats(address, token: token, replicas: replicas, domain: domain)
        }
        _ = try arguments.onlyOne(of: ["token", "user"])
        let password = try (arguments.value(of: "password") ?? Terminal.environment("ANNALS_NATS_PASSWORD")).orThrow(
            refusal("--user needs a password: set the variable ANNALS_NATS_PASSWORD."))
        return .nats(address, user: user, password: password, replicas: replicas, domain: domain)
    }
}

enum MirrorStatusText {
    static func recorded(_ status: Mirror.Status?) -> JSONLine {
        ["mirrored": status != nil] + (status.map(facts) ?? [:])
    }

    /// The state of a running mirror, with the conflicts after the first `count` ones.
    static func json(_ status: Mirror.Status, conflictsBefore count: Int) -> JSONLine {
        ["running": status.isRunning, "bytesSent": status.bytesSent, "bytesReceived": status.bytesReceived]
            + facts(status) + [
                "newConflicts": status.recentConflicts.suffix(max(0, status.conflicts - count)).map(json),
                "weaknesses": status.weaknesses,
            ]
    }

    private static func facts(_ status: Mirror.Status) -> JSONLine {
        [
            "published": status.published, "peers": status.peers.map(json), "conflicts": status.conflicts,
            "parked": status.parked.map(json), "local": status.localEntities, "error": status.lastError.map(json),
        ]
    }

    private static func json(_ parked: Mirror.Parked) -> JSONLine {
        ["store": parked.store.uuidString, "number": parked.number, "reason": json(parked.reason)]
    }

    private static func json(_ peer: Mirror.Peer) -> JSONLine {
        [
            "identifier": peer.identifier.uuidString, "name": peer.name, "merged": peer.merged, "newest": peer.newest,
            "lag": peer.lag, "lagSeconds": peer.lagSeconds.map { Int($0) }, "confirmed": peer.confirmed,
            "lastSeen": peer.lastSeen.map { Timestamp.text($0) }, "left": peer.hasLeft,
        ]
    }

    private static func json(_ conflict: Mirror.Conflict) -> JSONLine {
        [
            "object": conflict.object?.description, "attribute": conflict.attribute, "reason": "\(conflict.reason)",
            "kept": conflict.kept, "lost": conflict.lost, "loser": conflict.loser.uuidString,
        ]
    }

    private static func json(_ error: StoreError) -> JSONLine {
        ["code": error.code.rawValue, "message": error.message] + JSONLine(present: ["path": error.path])
    }

    static func line(_ status: Mirror.Status) -> String {
        let peers = status.peers.filter { !$0.hasLeft }
        let state = !status.isRunning ? "stopped" : status.lastError == nil ? "running" : "waiting after an error"
        let lags = peers.map { "\($0.name): " + ($0.lag == 0 ? "up to date" : "at most \($0.lag) missing") }
        let counts = [count(peers.count, "other store"), count(status.conflicts, "conflict")]
        let parked = status.parked.isEmpty ? [] : [count(status.parked.count, "parked transaction")]
        return ([state, "published \(status.published)"] + counts + lags + parked).joined(separator: "; ")
    }

    static func print(_ status: Mirror.Status, _ output: Output) {
        output.line(
            "Published: transaction \(status.published). \(count(status.peers.count, "other store")), "
                + "\(count(status.conflicts, "conflict")).")
        if let error = status.lastError { output.line("Last error: \(error.description)") }
        if !status.localEntities.isEmpty {
            output.line("Only in this store: \(status.localEntities.joined(separator: ", ")).")
        }
        for parked in status.parked {
            let writer = status.peers.first { $0.identifier == parked.store }?.name ?? parked.store.uuidString
            output.line("Parked: transaction \(parked.number) of \(writer). \(parked.reason.description)")
        }
        if !status.peers.isEmpty { output.line() }
        let rows = status.peers.map { peer in
            [
                peer.name, "\(peer.merged)", "\(peer.newest)", "\(peer.lag)",
                peer.lagSeconds.map { String(Int($0)) } ?? "-", "\(peer.confirmed)",
                peer.hasLeft ? "has left" : peer.lastSeen.map { Timestamp.local($0) } ?? "never",
                peer.identifier.uuidString,
            ]
        }
        // An identifier is useful as a whole only.
        let names = ["name", "#merged", "#newest", "#lag", "#seconds", "#confirmed", "last seen", "#identifier"]
        output.table(names, rows)
    }

    private static func count(_ number: Int, _ noun: String) -> String { ReportNumber.count(UInt64(number), noun) }
}
