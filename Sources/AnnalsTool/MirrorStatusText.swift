// The state of a mirror as JSON, as one line, and as a table.

internal import Annals
internal import AnnalsMirror
internal import FoundationEssentials

enum MirrorStatusText {
    // MARK: JSON

    /// A state that a store has recorded.
    static func recorded(_ status: Mirror.Status?) -> JSONLine {
        ["mirrored": status != nil] + (status.map(facts) ?? [:])
    }

    /// The state of a running mirror.
    ///
    /// - Parameter count: The number of conflicts that earlier lines had.
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
            "kept": RawJSON(ValueConversion.text(conflict.kept)), "lost": RawJSON(ValueConversion.text(conflict.lost)),
            "loser": conflict.loser.uuidString,
        ]
    }

    private static func json(_ error: StoreError) -> JSONLine {
        ["code": error.code.rawValue, "message": error.message] + (error.path.map { ["path": $0] } ?? [:])
    }

    // MARK: Text

    /// One line for the running mirror.
    static func line(_ status: Mirror.Status) -> String {
        let peers = status.peers.filter { !$0.hasLeft }
        let state = !status.isRunning ? "stopped" : status.lastError == nil ? "running" : "waiting after an error"
        let lags = peers.map { "\($0.name): " + ($0.lag == 0 ? "up to date" : "at most \($0.lag) missing") }
        return
            ([
                state, "published \(status.published)", count(peers.count, "other store"),
                count(status.conflicts, "conflict"),
            ] + lags + (status.parked.isEmpty ? [] : [count(status.parked.count, "parked transaction")]))
            .joined(separator: "; ")
    }

    static func print(_ status: Mirror.Status, _ output: inout Output) throws {
        try output.line(
            "Published: transaction \(status.published). \(count(status.peers.count, "other store")), "
                + "\(count(status.conflicts, "conflict")).")
        if let error = status.lastError { try output.line("Last error: \(error.description)") }
        if !status.localEntities.isEmpty {
            try output.line("Only in this store: \(status.localEntities.joined(separator: ", ")).")
        }
        for parked in status.parked {
            let writer = status.peers.first { $0.identifier == parked.store }?.name ?? parked.store.uuidString
            try output.line("Parked: transaction \(parked.number) of \(writer). \(parked.reason.description)")
        }
        if !status.peers.isEmpty { try output.line() }
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
        try output.table(names, rows)
    }

    private static func count(_ number: Int, _ noun: String) -> String {
        "\(number) \(noun)" + (number == 1 ? "" : "s")
    }
}
