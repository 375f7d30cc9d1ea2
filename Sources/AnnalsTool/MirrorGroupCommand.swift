// `annals mirror leave`, `annals mirror forget` and `annals mirror adopt`: who belongs to a group.

internal import Annals
internal import AnnalsMirror
internal import FoundationEssentials

enum MirrorGroupCommand {
    static func leave(_ arguments: Arguments, _ output: inout Output) throws {
        try run(arguments) { try await $0.leave() }
        try output.line("The store has left the group.")
    }

    static func forget(_ arguments: Arguments, _ output: inout Output) throws {
        let wanted = arguments.operands[1]
        let peers = try StoreAccess.with(arguments.operands[0], .readOnly) { store in
            try Mirror.lastStatus(of: store)?.peers ?? []
        }
        let found = peers.filter { $0.name == wanted || $0.identifier == UUID(uuidString: wanted) }
        guard let peer = found.first, found.count == 1 else {
            throw ToolFailure(
                .failed, "The group has \(found.isEmpty ? "no" : "more than one") store “\(wanted)”.",
                hint: "Try: annals mirror status \(arguments.operands[0])")
        }
        try run(arguments) { try await $0.forget(peer.identifier) }
        try output.line("The group does not wait for the store \(peer.identifier) any more.")
    }

    static func adopt(_ arguments: Arguments, _ output: inout Output) throws {
        try StoreAccess.with(arguments.operands[0], .readWrite) { store in try Mirror.adopt(store) }
        try output.line("This store takes part in its group.")
    }

    /// Runs the mirror until something is done, or SIGTERM or SIGINT comes. Shows its errors.
    private static func run(_ arguments: Arguments, _ body: @escaping @Sendable (Mirror) async throws -> Void) throws {
        try MirrorRunCommand.mirror(arguments) { mirror, ending in
            try await mirror.start()
            ending.then { Task { await mirror.stop() } }
            let reports = Task {
                var (shown, errors) = (StoreError?.none, Output(.standardError))
                for await status in mirror.statusUpdates() {
                    guard let error = status.lastError, error != shown else { continue }
                    shown = error
                    try errors.line("annals: " + error.description)
                    try errors.finish()
                }
            }
            defer { reports.cancel() }
            do {
                try await body(mirror)
            } catch {
                await mirror.stop()
                throw error
            }
            await mirror.stop()
        }
    }
}
